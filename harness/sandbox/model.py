"""What a cage is made of, and the one error that shutting in can raise."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Level(StrEnum):
    """How firmly a worker is shut in; the word goes into the record."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


class SandboxError(Exception):
    """A part of the cage that this machine has did not close.

    what: the part. why: what the system said. remedy: what a person can do about it.
    """

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(f"{what}: {why}. {remedy}")
        self.what, self.why, self.remedy = what, why, remedy


@dataclass(frozen=True)
class Limits:
    """Resource limits of one worker. There are no core files in any case.

    processes: processes and threads together, those of the worker included. file_bytes: the largest file.
    data_bytes: private writable memory on top of what the worker has when it enters; None on a GPU, where
    CUDA reserves far more than it uses. open_files: descriptors. cpu_s: seconds over all threads, or None.
    """

    processes: int
    file_bytes: int
    data_bytes: int | None
    open_files: int
    cpu_s: int | None


@dataclass(frozen=True)
class Cage:
    """What a worker may touch. Whatever is not named is closed.

    scratch: the only writable place; it holds files and folders, no links, sockets or pipes.
    readable: files and folders. executable: programs, or folders of them; when empty, exec is refused
    altogether.
    gpu: the GPU's device files may be used.
    """

    scratch: Path
    readable: tuple[Path, ...]
    executable: tuple[Path, ...]
    gpu: bool
    limits: Limits
