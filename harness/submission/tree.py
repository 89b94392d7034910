"""What was handed in as folders with files, be it a folder or an archive. Nothing is read before it is asked for, or twice."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.submission.model import Unreadable

_JUNK = re.compile(r"__MACOSX|\.DS_Store|\._.*|desktop\.ini|Thumbs\.db", re.IGNORECASE)
_DEEPEST = 8  # folders that hold nothing but one folder, one in the other


@dataclass(frozen=True)
class Entry:
    """A name in a folder. `problem`: why it is not read, "" for a file. `load`: its bytes, at most so many and one more."""

    name: str
    folder: bool = False
    problem: str = ""
    load: Callable[[int], bytes] = lambda limit: b""


class Tree:
    """`label` is the whole as it is shown, `list_folder` gives the entries of a folder (`a/b`, "" for the top; none where
    there is none; raises `Unreadable`), `note` is what was left out and why."""

    def __init__(self, label: str, list_folder: Callable[[str], Mapping[str, Entry]], note: str = "") -> None:
        self.label, self.note, self._list = label, note, list_folder
        self._listings: dict[str, Mapping[str, Entry]] = {}
        self._plain: dict[str, dict[str, list[Entry]]] = {}
        self._read: dict[str, bytes] = {}

    def listing(self, folder: str) -> Mapping[str, Entry]:
        if folder not in self._listings:
            self._listings[folder] = {n: e for n, e in self._list(folder).items() if not _JUNK.fullmatch(n)}
        return self._listings[folder]

    def top(self, chapters: frozenset[str]) -> str:
        """The folder that the work lies in: below folders that hold one folder only, which is no chapter's."""
        folder = ""
        for _ in range(_DEEPEST):
            inside = [entry for entry in self.listing(folder).values() if not entry.name.startswith(".")]
            if len(inside) != 1 or not inside[0].folder or inside[0].problem or inside[0].name in chapters:
                return folder
            folder = joined(folder, inside[0].name)
        return folder

    def find(self, folder: str, name: str) -> Entry | None:
        """The entry called `name`, or the only one called nearly so: other case, "name (1)". Raises `Unreadable` for several."""
        listing = self.listing(folder)
        if name in listing:
            return listing[name]
        if folder not in self._plain:
            self._plain[folder] = {}
            for entry in listing.values():
                self._plain[folder].setdefault(plain(entry.name), []).append(entry)
        near = self._plain[folder].get(plain(name), [])
        if len(near) > 1:
            names = " and ".join(sorted(printable(entry.name) for entry in near)[:3])
            raise Unreadable(f"{names} could each be {name}: keep one, and call it {name}")
        return near[0] if near else None

    def read(self, folder: str, entry: Entry, limit: int) -> bytes:
        """An entry's bytes. Raises `Unreadable`, for one of more than `limit` bytes too."""
        name = printable(entry.name)
        if entry.folder:
            raise Unreadable(f"{name} is a folder, where a file is due")
        if entry.problem:
            raise Unreadable(f"{name} {entry.problem}")
        path = joined(folder, entry.name)
        if path not in self._read:
            data = entry.load(limit)
            if len(data) > limit:
                raise Unreadable(f"{name} has more than {limit:,} bytes: a submission is source code")
            self._read[path] = data
        return self._read[path]

    def shown(self, folder: str, name: str) -> str:
        """As people know it: `work.zip/ch02_triton_syntax/vec_add.py`."""
        return "/".join(part for part in (self.label, printable(folder), printable(name)) if part)


def joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def plain(name: str) -> str:
    """A file's name without what browsers and systems add to it: `Vec_Add (1).PY` is `vec_add.py`."""
    stem, dot, suffix = unicodedata.normalize("NFKC", name).casefold().rpartition(".")
    return re.sub(r"( ?\(\d{1,3}\)| - copy| copy)+$", "", stem.strip()) + dot + suffix.strip()


def printable(text: str) -> str:
    """A name as it can be shown: what is no character, or moves the cursor, by its number."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def of_folder(folder: Path, label: str) -> Tree:
    """A folder. Links in it are not followed, and nothing in it is opened that is no plain file."""

    def list_folder(inner: str) -> dict[str, Entry]:
        if any(os.path.islink(folder.joinpath(*inner.split("/")[:n])) for n in range(1, inner.count("/") + 2)) and inner:
            raise Unreadable(f"{inner} is a link; links are not followed")
        place = folder / inner
        try:
            with os.scandir(place) as found:
                return {e.name: _on_disk(e) for e in sorted(found, key=lambda e: e.name)}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise Unreadable(f"{printable(str(place))} cannot be read ({error.strerror}): check its permissions") from None

    return Tree(label, list_folder)


def _on_disk(entry: os.DirEntry[str]) -> Entry:
    if entry.is_symlink():
        return Entry(entry.name, problem="is a link; links are not followed: hand in the file itself")
    if entry.is_dir(follow_symlinks=False):
        return Entry(entry.name, folder=True)
    if not entry.is_file(follow_symlinks=False):
        return Entry(entry.name, problem="is no file, but a pipe, a socket or a device")
    return Entry(entry.name, load=lambda limit: load_file(Path(entry.path), limit))


def load_file(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """The bytes of a plain file, `limit` and one more at most. Never waits, as a pipe would make it. Raises `Unreadable`."""
    name = printable(path.name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise Unreadable(f"{name} is no file, but a pipe, a socket or a device")
            if about.st_size > limit:
                raise Unreadable(f"{name} has {about.st_size:,} bytes, more than {limit:,}: a submission is source code")
            return file.read(limit + 1)
    except OSError as error:
        raise Unreadable(f"{name} cannot be read ({error.strerror}): check its permissions") from None
