"""The warm parent: imports torch and Triton once, then forks a warden and a worker for each request.

Run as `python -m harness.worker.zygote MODE FD PLACE`, MODE one of `interpret`, `gpu`, `compile`, PLACE `bubblewrap` where
it runs inside that, else `bare`. The control socket carries
one JSON object a request and two file descriptors with it: the worker's data socket and its output pipe. The warden
shuts itself into namespaces, forks the worker, waits for it and tells on the data socket's twin how it ended; killing
the worker ends the namespace, and with it every process the submission started.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from harness.sandbox.syscalls import die_with_parent

RECEIVE = 1 << 16


def _rehearsed(mode: str, control: socket.socket) -> contextlib.AbstractContextManager[None]:
    """While the block runs, a worker without a submission shuts itself in: where bubblewrap does not do for workers, the
    examiner hears why, and this process ends at once."""
    from harness.sandbox import rehearsal
    from harness.worker import compiler_warmth

    end = rehearsal.begin(Path(tempfile.mkdtemp(prefix="rehearsal-")), gpu=mode == "gpu")

    def wait() -> None:
        if why := end():
            _unfit(control, why)

    return compiler_warmth.beside(wait)


def _unfit(control: socket.socket, why: str) -> NoReturn:
    control.sendall((json.dumps({"unfit": why}) + "\n").encode())
    os._exit(1)


def _uncompiled() -> list[str]:
    """The files of modules whose bytecode this process could not keep, being read-only here: the examiner will."""
    found = []
    for name, module in list(sys.modules.items()):
        source, kept = getattr(module, "__file__", None), getattr(module, "__cached__", None)
        if isinstance(source, str) and isinstance(kept, str) and source.endswith(".py"):  # some answer to any name
            own = name.startswith("harness.")  # which changes from day to day; packages do not
            if not os.path.exists(kept) or (own and os.path.getmtime(kept) < os.path.getmtime(source)):
                found.append(source)
    return found


def _warm(mode: str) -> dict[str, Any]:
    """The imports that every worker needs; returns what the examiner should know (versions, the probe's findings)."""
    from harness.worker import compiler_warmth

    facts: dict[str, Any] = {"broken": []}
    # The compiler warms up while torch is imported, which takes seconds and one core.
    with contextlib.ExitStack() as meanwhile:
        if mode == "gpu":
            facts["seed"] = meanwhile.enter_context(compiler_warmth.seeding())
        if mode != "interpret":
            meanwhile.enter_context(compiler_warmth.compiling())
        import torch

    import triton
    import triton.language

    torch.set_num_threads(1)
    torch.empty(1).fill_(0).sum().item()
    facts |= {"torch": torch.__version__, "triton": triton.__version__}
    if mode == "interpret":
        from harness import interpreter

        interpreter.install()
        report = interpreter.probe()
        facts["broken"] += report.broken
        facts["mended"] = list(report.mended)
    if mode == "gpu" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        facts["broken"].append("CUDA was initialised before the fork")
    from harness import sandbox
    from harness.worker import evidence, memory, redo, serve  # noqa: F401

    if mode != "interpret":
        sandbox.default_executable()  # looked up once: every compiling worker needs it
    return facts


def _worker(request: dict[str, Any], data: int, output: int) -> None:
    """In the warden: fork the worker, wait for it, report its end on the status pipe."""
    from harness import sandbox

    status = request["status_fd"]
    namespaces = sandbox.enter_namespaces() if request["sandbox"] else ()
    die_with_parent()  # when the examiner is killed, its warm parents end; so shall wardens, and workers with them
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            die_with_parent()
            os.close(status)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.setsid()
            from harness.worker import serve

            serve.main(socket.socket(fileno=data), request, namespaces)
            code = 0
        except BaseException:
            traceback.print_exc()  # into the output pipe, which the examiner shows when a worker does not start
            sys.stderr.flush()
        finally:
            os._exit(code)
    for descriptor in (data, output, request["mailbox_fd"]):
        if descriptor is not None:
            os.close(descriptor)
    os.write(status, (json.dumps({"pid": pid, "namespaces": list(namespaces)}) + "\n").encode())
    _, ended, usage = os.wait4(pid, 0)
    end = {
        "signal": os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else None,
        "code": os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else None,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    os.write(status, (json.dumps(end) + "\n").encode())
    os._exit(0)


def main(mode: str, fd: int, place: str) -> None:
    control = socket.socket(fileno=fd)
    walled = place == "bubblewrap"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the examiner's to handle; it ends us
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are reaped by the kernel
    with contextlib.ExitStack() as meanwhile:
        if walled:
            die_with_parent()  # with bubblewrap, which has one thread
            meanwhile.enter_context(_rehearsed(mode, control))
        facts = _warm(mode)
    if walled and mode == "gpu" and not os.listdir(facts["seed"]):
        _unfit(control, "Triton's module for the GPU cannot be built or loaded in bubblewrap")
    facts |= {"pid": os.getpid(), "walled": walled, "uncompiled": _uncompiled() if walled else []}
    control.sendall((json.dumps(facts) + "\n").encode())
    sys.dont_write_bytecode = True  # what has been imported so far is kept; a worker shall not even try
    buffer = b""
    descriptors: list[int] = []
    while True:
        chunk, fds, _, _ = socket.recv_fds(control, RECEIVE, 8)
        if not chunk:
            return
        buffer += chunk
        descriptors += fds
        while b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            request = json.loads(line)
            data, output, request["status_fd"], *mailbox = handed = descriptors[: 4 if request["clock"] else 3]
            del descriptors[: len(handed)]
            request["mailbox_fd"] = mailbox[0] if mailbox else None
            pid = os.fork()
            if pid == 0:
                control.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    _worker(request, data, output)
                finally:
                    os._exit(70)
            for descriptor in handed:
                os.close(descriptor)
            control.sendall((json.dumps({"warden": pid}) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
