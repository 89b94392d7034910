"""What a warden and a worker do in bubblewrap before a submission comes, done with no submission.

In a fork of a warm parent while it warms up: a machine where this fails has bubblewrap, but not for workers.
"""

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

from harness.sandbox import cage, namespaces
from harness.sandbox.bubblewrap import REPOSITORY
from harness.sandbox.model import Cage, Limits
from harness.sandbox.paths import CLOSED
from harness.sandbox.syscalls import die_with_parent

_NEEDED = ("pid", "net", "ipc", "mnt")
_LONGEST = 2000  # bytes of a reason
_SUCCESS = 0
_BYTES = 1 << 20


class _Unfit(Exception):
    pass


def _cuda() -> None:
    """A context and a little memory on the first GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise _Unfit(f"CUDA's driver is not found in bubblewrap: {error}") from None
    count, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    steps: list[tuple[str, Callable[[], int]]] = [
        ("cuInit", lambda: driver.cuInit(0)),
        ("cuDeviceGetCount", lambda: driver.cuDeviceGetCount(ctypes.byref(count))),
        ("cuDevicePrimaryCtxRetain", lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)),
        ("cuCtxSetCurrent", lambda: driver.cuCtxSetCurrent(context)),
        ("cuMemAlloc", lambda: driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(_BYTES))),
        ("cuMemsetD8", lambda: driver.cuMemsetD8_v2(memory, ctypes.c_ubyte(0), ctypes.c_size_t(_BYTES))),
        ("cuCtxSynchronize", lambda: driver.cuCtxSynchronize()),
    ]
    for name, step in steps:
        if (code := step()) != _SUCCESS:
            raise _Unfit(f"CUDA does not work in bubblewrap: {name} gives {code}")


def _worker(folder: Path, gpu: bool) -> None:
    """Enters a cage that leaves all of this file system readable: what is not found then is not there."""
    namespaces.fresh_proc()
    own = folder / "own"
    namespaces.show_only(folder, [own])
    # CUDA starts threads by the core.
    limits = Limits(processes=512 if gpu else 8, file_bytes=_BYTES, data_bytes=None, open_files=1024, cpu_s=60)
    cage.enter(Cage(own, (Path("/"),), (), gpu=gpu, limits=limits))
    if os.listdir(folder) != ["own"]:
        raise _Unfit("a worker in bubblewrap sees the scratch folder of another")
    # Where the environment of Python is the repository's own folder, other things of it are there.
    if found := [name for name in CLOSED if (REPOSITORY / name).exists()]:
        raise _Unfit(f"{', '.join(found)} can be seen in bubblewrap")
    (own / "file").write_text("x")
    if gpu:
        _cuda()


def _warden(folder: Path, gpu: bool, tell: Callable[[str], object]) -> None:
    made = namespaces.enter_namespaces()
    if missing := [kind for kind in _NEEDED if kind not in made]:
        raise _Unfit(f"a worker in bubblewrap gets no namespace of its own ({', '.join(missing)})")
    die_with_parent()
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent()
            _worker(folder, gpu)
            tell("ok")
        except Exception as error:  # whatever it is, it is the reason
            tell(str(error) or repr(error))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def begin(folder: Path, *, gpu: bool) -> Callable[[], str]:
    """Starts it, in the empty folder `folder`, in a process of its own; for a process of one thread. What is returned waits
    for its end, and gives the empty string when all went well, else the reason."""
    for name in ("own", "other"):
        (folder / name).mkdir()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _warden(folder, gpu, lambda text: os.write(writer, text.encode()[:_LONGEST]))
        except Exception as error:
            os.write(writer, (str(error) or repr(error)).encode()[:_LONGEST])
        finally:
            os._exit(0)
    os.close(writer)

    def end() -> str:
        with open(reader, "rb") as pipe:
            told = pipe.read().decode(errors="replace")
        with contextlib.suppress(ChildProcessError):  # the kernel may reap it for us
            os.waitpid(pid, 0)
        return "" if told == "ok" else told or "a worker in bubblewrap was ended while it was shut in"

    return end
