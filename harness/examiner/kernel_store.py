"""Compiled kernels, kept from run to run for the same submission: the second run of `grade` need not compile again.

What is kept was written by a worker, so it is shown to nobody but workers of the very same files under the same
versions, who may read it where it lies, and copied without following a link. The examiner reads none of it. Losing it
costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

MOST_BYTES = 2 << 30  # of the whole store; what was not used for the longest time goes first
MOST_OF_ONE = 512 << 20
MOST_FILES = 20_000  # that are kept at a time
ABANDONED_S = 86_400.0  # what was begun so long ago nobody will finish
_TIMED = "timed"  # an empty file in a folder that has all kernels of the timed calls
_SIZE = ".bytes"  # a file beside each folder: its bytes, and by its date when it was used last


class KernelStore:
    """Folders of compiled kernels below `folder`, each under a name that says what they were compiled from. A kernel has
    a folder there that is named by all that it depends on, so that the same name means the same kernel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def folder(self) -> Path | None:
        """Where all of it lies, made if need be; None where it cannot be."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            return self._folder
        return None

    @staticmethod
    def name(*origin: str) -> str:
        """The name for what was compiled from all of this: the submission, versions, the kind of worker."""
        return hashlib.sha256("\0".join(origin).encode()).hexdigest()

    def find(self, name: str) -> Path | None:
        """The folder of what is kept under `name`, which counts as used; None where nothing is kept."""
        folder = self._folder / name
        with contextlib.suppress(OSError):
            os.utime(self._sized(name))
            return folder if folder.is_dir() else None
        return None

    def timed(self, name: str) -> bool:
        """Whether all kernels of the timed calls are there."""
        return (self._folder / name / _TIMED).is_file()

    def keep(self, name: str, source: Path, *, timed: bool = False) -> None:
        """Add the kernels in the folder `source`, to which nobody may be writing any more, to those under `name`. `timed`:
        with them, all kernels of the timed calls are there.

        Not kept is what holds anything but plain files, or too much. A folder that cannot be written is no reason to fail.
        """
        with contextlib.suppress(OSError):
            self._add(name, source)
            if timed:
                (self._folder / name / _TIMED).touch()

    def _add(self, name: str, source: Path) -> None:
        kept = self._folder / name
        new = [kernel.name for kernel in os.scandir(source) if _adds(Path(kernel), kept / kernel.name)]
        if not new:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="part-", dir=self._folder))
        try:
            size = self._bytes(name) + sum(_copy(source / kernel, fresh / kernel) for kernel in new)
            if size > MOST_OF_ONE:
                self._sized(name).unlink(missing_ok=True)
                os.rename(kept, fresh / "old")  # to begin anew
                return
            kept.mkdir(exist_ok=True)
            for kernel in new:
                _merge(fresh / kernel, kept / kernel)
            self._sized(name).write_text(str(size))
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        self._shrink()

    def _sized(self, name: str) -> Path:
        return self._folder / (name + _SIZE)

    def _bytes(self, name: str) -> int:
        try:
            return int(self._sized(name).read_text())
        except (OSError, ValueError):
            return 0

    def _shrink(self) -> None:
        names = sorted(self._folder.glob("*" + _SIZE), key=lambda file: file.stat().st_mtime)
        sizes = {file.stem: self._bytes(file.stem) for file in names}
        total = sum(sizes.values())
        for name, size in sizes.items():
            if total <= MOST_BYTES:
                break
            self._sized(name).unlink(missing_ok=True)
            shutil.rmtree(self._folder / name, ignore_errors=True)
            total -= size
        for entry in self._folder.iterdir():  # of runs that were ended while they kept something
            if entry.suffix != _SIZE and entry.name not in sizes and entry.stat().st_mtime < time.time() - ABANDONED_S:
                shutil.rmtree(entry, ignore_errors=True)


def _adds(kernel: Path, kept: Path) -> bool:
    return any(not (kept / file.name).exists() for file in os.scandir(kernel))


def _merge(source: Path, target: Path) -> None:
    """Move a kernel's files to where they are kept, those that are not there yet."""
    with contextlib.suppress(OSError):
        os.rename(source, target)
        return
    for file in source.iterdir():
        if not (target / file.name).exists():
            os.rename(file, target / file.name)


def _copy(source: Path, target: Path) -> int:
    """Copy a tree of folders and plain files; its bytes. OSError for anything else, a link above all, and for more than is
    kept."""
    files, size = 0, 0
    folders = [(source, target)]
    while folders:
        here, there = folders.pop()
        if not stat.S_ISDIR(here.lstat().st_mode):
            raise OSError(f"{here} is not a folder")
        there.mkdir()
        for entry in os.scandir(here):
            if entry.is_dir(follow_symlinks=False):
                folders.append((here / entry.name, there / entry.name))
                continue
            # Opened first and looked at afterwards: what is looked at is what is copied.
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as old:
                state = os.fstat(descriptor)
                files, size = files + 1, size + state.st_size
                if not stat.S_ISREG(state.st_mode) or files > MOST_FILES or size > MOST_OF_ONE:
                    raise OSError(f"{entry.path} is not kept")
                with open(there / entry.name, "xb") as new:
                    shutil.copyfileobj(old, new, 1 << 20)
                os.chmod(there / entry.name, 0o700 if state.st_mode & stat.S_IXUSR else 0o600)
    return size
