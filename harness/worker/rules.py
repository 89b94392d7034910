"""What a submission may do: torch's operators by what they do, and what is forbidden by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

# Creating memory, or a constant in it: no data of an input enters.
EMPTIES = frozenset(["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"])
FACTORIES = EMPTIES | frozenset(
    ["zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "scalar_tensor"]
).union(["arange", "eye"])
FILLS = frozenset(["fill_", "zero_", "resize_", "set_"])
# Moving data from one place to another, changing at most its dtype.
MOVES = frozenset(
    ["copy_", "_to_copy", "clone", "contiguous", "to", "lift_fresh", "lift_fresh_copy", "detach", "_reshape_copy", "_copy_from"]
)
READS = frozenset(["_local_scalar_dense", "item", "is_nonzero", "equal", "is_same_size", "record_stream"])
# What a host may read of an input that is not meant to be read there (a scale, a flag), in elements a call.
HOST_READS = 16
# What a call may put into tensors from Python: tables of sizes, pointers, constants; in elements.
HOST_WRITES = 1024
REFUSED_IMPORTS = (
    "harness", "graders", "cupy", "numba", "pycuda", "jax", "tensorflow", "cffi", "torch.utils.cpp_extension", "scipy",
    "cuda", "tilelang",
)  # fmt: skip
REFUSED_EVENTS = {
    "subprocess.Popen": "starts another program", "os.system": "starts another program",
    "os.exec": "starts another program", "os.posix_spawn": "starts another program", "os.spawn": "starts another program",
    "os.fork": "forks", "os.forkpty": "forks", "pty.spawn": "starts another program",
    "ctypes.dlopen": "loads a native library", "ctypes.dlsym": "calls into a native library",
    "ctypes.cdata": "reads raw memory", "ctypes.string_at": "reads raw memory", "ctypes.cdata/buffer": "reads raw memory",
    "socket.__new__": "opens a socket", "_thread.start_new_thread": "starts a thread",
    "sys.settrace": "traces the interpreter", "sys.setprofile": "profiles the interpreter",
    "sys.addaudithook": "installs an audit hook", "gc.get_objects": "searches the process' objects",
    "gc.get_referrers": "searches the process' objects", "gc.get_referents": "searches the process' objects",
    "sys._current_frames": "looks into other frames",
}  # fmt: skip
ROUND, THREAD, PROGRAM = "goes round what watches it", "starts a thread", "starts another program"
GRAPH = "replays a graph, in which nobody sees who computes"


def forbidden() -> Iterator[tuple[Any, str, str]]:
    """What would switch the trace off, start a thread or a kernel unseen, or read a tensor's raw bytes: its owner, its name,
    and what is wrong with it."""
    import _posixsubprocess
    import _thread
    import subprocess
    import threading

    import torch.utils._mode_utils as mode_utils
    import torch.utils._python_dispatch as dispatch

    for name in ("_disable_current_modes", "_pop_mode", "_pop_mode_temporarily", "_disable_infra_mode"):
        yield dispatch, name, ROUND
    yield mode_utils, "no_dispatch", ROUND
    for name in (
        "_pop_torch_dispatch_stack", "_unset_dispatch_mode", "_set_dispatch_mode", "_DisableTorchDispatch",
        "_DisablePythonDispatcher", "ExcludeDispatchKeyGuard", "_ExcludeDispatchKeyGuard", "_ForceDispatchKeyGuard",
        "_IncludeDispatchKeyGuard", "_SetExcludeDispatchKeyGuard", "_PreserveDispatchKeyGuard",
        "_AutoDispatchBelowAutograd", "_AutoDispatchBelowADInplaceOrView", "_dispatch_tls_set_dispatch_key_excluded",
    ):  # fmt: skip
        yield torch._C, name, ROUND
    # Python tells its audit hooks of threads from 3.12 on.
    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        yield _thread, name, THREAD
    for name in ("_start_new_thread", "_start_joinable_thread"):
        yield threading, name, THREAD
    # What `subprocess` stands on forks, and calls a function of its caller in the child, and tells no audit hook of it.
    yield _posixsubprocess, "fork_exec", PROGRAM
    yield subprocess, "_fork_exec", PROGRAM
    for name in ("__getitem__", "__iter__", "tolist", "_write_file", "_share_filename_cpu_", "_share_fd_cpu_"):
        yield torch.UntypedStorage, name, ROUND
        yield torch.TypedStorage, name, ROUND
    yield torch, "save", ROUND
    yield torch.cuda.CUDAGraph, "replay", GRAPH
    yield torch.cuda, "make_graphed_callables", GRAPH
