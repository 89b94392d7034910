"""Compiled kernels, kept from run to run for the same submission: the second run of `grade` need not compile again.

What is kept was written by a worker, so it is handed to nobody but workers of the very same files under the same
versions, and copied without following a link. Of its contents the examiner reads Triton's lists of files only, which
name the folder that they lie in. Losing it costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path

MOST_BYTES = 2 << 30  # of the whole store; what was not used for the longest time goes first
MOST_OF_ONE = 512 << 20
MOST_FILES = 20_000


class KernelStore:
    """Folders of compiled kernels below `folder`, each under a name that says what they were compiled from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def name(*origin: str) -> str:
        """The name for what was compiled from all of this: the submission, versions, the kind of worker."""
        return hashlib.sha256("\0".join(origin).encode()).hexdigest()

    def take(self, name: str, into: Path) -> None:
        """Copy what is kept under `name` to the folder `into`, which is not there yet; nothing where nothing is kept."""
        kept = self._folder / name
        if not kept.is_dir():
            return
        try:
            os.utime(kept)
            _copy(kept, into)
            for group in into.glob("*/__grp__*.json"):
                _moved(group)
        except (OSError, ValueError):  # another run has just replaced it, or it is not what Triton writes
            shutil.rmtree(into, ignore_errors=True)

    def keep(self, name: str, source: Path) -> None:
        """Keep the files of `source`, to which nobody may be writing any more, under `name`. What is kept there already is
        left as it is: a file's name says what was compiled.

        Not kept is what holds anything but plain files, or too much. A folder that cannot be written is no reason to fail.
        """
        kept = self._folder / name
        with contextlib.suppress(OSError):
            before, now = _files(kept), _files(source)
            if now <= before:  # nothing new was compiled
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix="part-", dir=self._folder))
            try:
                _copy(source, fresh / "new", before)
                if before and _bytes(kept) + _bytes(fresh) > MOST_OF_ONE:
                    os.rename(kept, fresh / "old")  # to begin anew
                    return
                if not before:
                    os.rename(fresh / "new", kept)
                for file in now - before if before else ():
                    (kept / file).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(fresh / "new" / file, kept / file)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
            self._shrink()

    def _shrink(self) -> None:
        kept = [(path.stat().st_mtime, _bytes(path), path) for path in self._folder.iterdir()]
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= MOST_BYTES:
                return
            shutil.rmtree(path, ignore_errors=True)
            total -= size


def _files(folder: Path) -> set[Path]:
    return {Path(place, name).relative_to(folder) for place, _, names in os.walk(folder) for name in names}


def _bytes(folder: Path) -> int:
    return sum((folder / name).lstat().st_size for name in _files(folder))


def _moved(group: Path) -> None:
    """Triton's list of the files that make up a kernel names where they were; they lie beside it."""
    table = json.loads(group.read_bytes())
    children = table.get("child_paths") if isinstance(table, dict) else None
    if not isinstance(children, dict):
        raise ValueError(group)
    here = {name: str(group.parent / Path(name).name) for name in children}
    group.write_text(json.dumps({"child_paths": here}))


def _copy(source: Path, target: Path, without: Collection[Path] = ()) -> None:
    """Copy a tree of folders and plain files, but for those `without`, by their paths in the tree. OSError for anything
    else, a link above all, and for more than is kept."""
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
            if (here / entry.name).relative_to(source) in without:
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
