"""What every compiling worker would pay for anew, paid once in the warm parent: more than a second a worker."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """While the block runs, do `work` in a thread, which has ended when the block has: afterwards there are forks."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def compiling() -> contextlib.AbstractContextManager[None]:
    """While the block runs, compile a kernel for a GPU that need not be there. Triton hashes its own files and asks
    ptxas for its version, once a process. CUDA stays untouched."""
    return beside(_compile_one)


def _compile_one() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from harness.worker import first_kernel

    signature = {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(first_kernel.add_one, signature, {"BLOCK": 128})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))


@contextlib.contextmanager
def seeding() -> Iterator[str]:
    """While the block runs, build the module through which Triton talks to CUDA; yields the folder that it goes to.
    Workers' caches start as copies of it.

    Built in a child: loading it touches CUDA, which does not survive a fork. Where that fails (no compiler, no
    driver), the folder stays empty, and the workers find out.
    """
    from triton.backends.nvidia import driver

    driver.library_dirs()  # asks ldconfig, which a worker may not start; kept in this process
    folder = tempfile.mkdtemp(prefix="seed-")
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.environ["TRITON_CACHE_DIR"] = folder
            driver.CudaUtils()
        os._exit(0)
    try:
        yield folder
    finally:
        with contextlib.suppress(ChildProcessError):  # the kernel may reap it for us
            os.waitpid(pid, 0)
