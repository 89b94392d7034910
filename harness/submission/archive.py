"""An archive (.zip, .tar, .tar.gz) as folders with files. It is never unpacked: names in it become no paths of this machine, and
what is asked for is read into memory up to a limit, whatever its headers say of sizes."""

from __future__ import annotations

import gzip
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from harness.submission.model import Unreadable
from harness.submission.tree import Entry, Tree, load_file, printable

ZIP, TAR = (".zip",), (".tar", ".tar.gz", ".tgz")
MAX_ARCHIVE = 64 << 20  # bytes of the file
MAX_INDEX = 4 << 20  # bytes of a zip's list of entries
MAX_UNPACKED = 64 << 20  # bytes of a tar, which is unpacked (into memory) to be read
MAX_ENTRIES = 20_000  # of a tar
_DEEPEST = 40  # folders, one in the other
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # those of every common program; a header can make LZMA ask for gigabytes
_PLAIN = "pack it again as an ordinary zip"
_LINK = "is a link; links are not followed: hand in the file itself"
_ODD = "is no file, but a pipe or a device"


def open_archive(path: Path, label: str) -> Tree:
    """The archive at `path`. Raises `Unreadable`."""
    data = load_file(path, MAX_ARCHIVE, follow=True)
    if path.name.lower().endswith(ZIP):
        return _of_zip(data, label)
    return _of_tar(data, label)


class _Index(io.BytesIO):
    """A zip's bytes. `zipfile` reads the list of entries at once when it opens; one that is too long is not read at all."""

    opening = True

    def read(self, size: int | None = -1, /) -> bytes:
        if self.opening and size is not None and size > MAX_INDEX:
            raise Unreadable(f"its list of files has {size:,} bytes, more than {MAX_INDEX:,}: hand in your own files only")
        return super().read(size)


def _of_zip(data: bytes, label: str) -> Tree:
    index = _Index(data)
    try:
        archive = zipfile.ZipFile(index)
        index.opening = False
    except Unreadable as error:
        raise Unreadable(f"{label}: {error}") from None
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, IndexError, OverflowError) as error:
        what = "is empty" if not data else f"is no zip, or a damaged one ({error})"
        raise Unreadable(f"{label} {what}: {_PLAIN}") from None
    return _tree(label, ((_name(info), _in_zip(archive, info)) for info in archive.infolist()))


def _name(info: zipfile.ZipInfo) -> str:
    """The name as whoever packed it saw it: many programs write UTF-8 and do not say so."""
    if not info.flag_bits & 0x800:
        try:
            return info.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return info.filename


def _in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    mode, name = info.external_attr >> 16, _name(info)
    if name.endswith(("/", "\\")) or stat.S_ISDIR(mode):
        return Entry(name, folder=True)
    if stat.S_ISLNK(mode):
        return Entry(name, problem=_LINK)
    if stat.S_IFMT(mode) and not stat.S_ISREG(mode):
        return Entry(name, problem=_ODD)
    if info.flag_bits & 0x1:
        return Entry(name, problem=f"is encrypted: {_PLAIN}, without a password")
    if info.compress_type not in _METHODS:
        return Entry(name, problem=f"is packed by method {info.compress_type}, which is not read: {_PLAIN}")

    shown = printable(name)

    def load(limit: int) -> bytes:
        if info.file_size > limit:
            raise Unreadable(f"{shown} has {info.file_size:,} bytes, more than {limit:,}: a submission is source code")
        try:
            with archive.open(info) as file:
                data = file.read(limit + 1)  # never more than the header says, and then the checksum is wrong
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
            raise Unreadable(f"{shown} is damaged ({error}): {_PLAIN}") from None
        if len(data) != info.file_size:
            raise Unreadable(f"{shown} is damaged (it ends after {len(data):,} bytes): {_PLAIN}")
        return data

    return Entry(name, load=load)


def _of_tar(data: bytes, label: str) -> Tree:
    """Unpacked in memory at once, as a tar has no list of its entries; a bomb goes off against the limit."""
    try:
        if data[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(MAX_UNPACKED + 1)
        if len(data) > MAX_UNPACKED:
            raise Unreadable(f"{label} holds more than {MAX_UNPACKED:,} bytes: hand in your own files only")
        archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")  # noqa: SIM115  (memory, and read later on)
        return _tree(label, [(member.name, _in_tar(archive, member)) for member in _members(archive, label)])
    except (tarfile.TarError, OSError, ValueError, EOFError, zlib.error, RecursionError, OverflowError, MemoryError) as error:
        what = "is empty" if not data else f"is no tar, or a damaged one ({error})"
        raise Unreadable(f"{label} {what}: {_PLAIN}") from None


def _members(archive: tarfile.TarFile, label: str) -> list[tarfile.TarInfo]:
    found: list[tarfile.TarInfo] = []
    at = -1
    while (member := archive.next()) is not None:
        # A size below zero would lead back, and round and round.
        if member.size < 0 or member.offset <= at or len(found) >= MAX_ENTRIES:
            raise Unreadable(f"{label} is a damaged tar, or one of more than {MAX_ENTRIES:,} files: {_PLAIN}")
        at = member.offset
        found.append(member)
    return found


def _in_tar(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    if member.isdir():
        return Entry(member.name, folder=True)
    if member.issym() or member.islnk():
        return Entry(member.name, problem=_LINK)
    if not member.isreg():
        return Entry(member.name, problem=_ODD)
    name = printable(member.name)

    def load(limit: int) -> bytes:
        if member.size > limit:
            raise Unreadable(f"{name} has {member.size:,} bytes, more than {limit:,}: a submission is source code")
        try:
            file: IO[bytes] | None = archive.extractfile(member)
            data = file.read(limit + 1) if file is not None else b""
        except (tarfile.TarError, OSError, ValueError, EOFError) as error:
            raise Unreadable(f"{name} is damaged ({error}): {_PLAIN}") from None
        if len(data) != member.size:
            raise Unreadable(f"{name} is damaged (it ends after {len(data):,} bytes): {_PLAIN}")
        return data

    return Entry(member.name, load=load)


def _parts(name: str) -> list[str] | None:
    """The folders and the name of an entry; None for one that leads out of the archive, or into its abyss."""
    name = name.replace("\\", "/")  # programs of Windows
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or not 0 < len(parts) <= _DEEPEST or re.match(r"[A-Za-z]:", name):
        return None
    return parts


def _tree(label: str, entries: Iterable[tuple[str, Entry]]) -> Tree:
    folders: dict[str, dict[str, Entry]] = {"": {}}
    left_out: list[str] = []
    packed: list[str] = []
    for name, entry in entries:
        parts = _parts(name)
        if parts is None:
            left_out.append(printable(name))
            continue
        here = ""
        for part in parts[:-1]:
            folders.setdefault(here, {}).setdefault(part, Entry(part, folder=True))
            here = f"{here}/{part}" if here else part
        inside = folders.setdefault(here, {})
        known = inside.get(parts[-1])
        named = Entry(parts[-1], entry.folder, entry.problem, entry.load)
        if known is not None and not (known.folder and entry.folder):
            named = Entry(parts[-1], problem="stands in it more than once: which one is meant?")
        inside[parts[-1]] = named
        if not entry.folder and name.lower().endswith((*ZIP, *TAR, ".rar", ".7z")):
            packed.append(printable(name))
    notes = [f"{len(left_out)} of its names lead out of it and are left out ({left_out[0]})"] if left_out else []
    notes += [f"an archive in it is not opened ({packed[0]})"] if packed else []
    return Tree(label, lambda folder: folders.get(folder, {}), "; ".join(notes))
