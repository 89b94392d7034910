"""Landlock: a process gives up the file system but for what is named (Linux 5.13 and later).

Rights, structures and what each ABI added: Documentation/userspace-api/landlock.rst of the kernel.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterable
from enum import IntFlag
from pathlib import Path
from typing import Final

from harness.sandbox.syscalls import call


class Right(IntFlag):
    """What can be done to a file or a folder."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ: Final = Right.READ_FILE | Right.READ_DIR
EXECUTE: Final = READ | Right.EXECUTE
# Files and folders, nothing else: a link, a pipe or a socket would wait for whoever cleans the scratch folder
# up.
WRITE: Final = (
    READ | Right.WRITE_FILE | Right.TRUNCATE | Right.MAKE_REG | Right.MAKE_DIR
    | Right.REMOVE_FILE | Right.REMOVE_DIR | Right.REFER
)  # fmt: skip
DEVICE: Final = READ | Right.WRITE_FILE | Right.IOCTL_DEV

_OF_A_FILE: Final = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL_DEV
_RIGHTS_OF_ABI: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16}
_NET_TCP: Final = 0b11  # bind, connect
_SCOPES: Final = 0b11  # abstract Unix sockets, signals
_NEWEST: Final = 7
_CREATE_VERSION: Final = 1
_PATH_BENEATH: Final = 1


def abi() -> int:
    """The kernel's Landlock ABI, at most the newest known here; 0 where there is none."""
    try:
        return min(call("landlock_create_ruleset", None, 0, _CREATE_VERSION), _NEWEST)
    except OSError:
        return 0


def scopes_signals(version: int) -> bool:
    """Whether a Landlock domain of this ABI keeps its signals to itself."""
    return version >= 6


def _ruleset(version: int, *, network: bool) -> tuple[int, Right]:
    """The descriptor of an empty ruleset that handles all that the ABI can, and the rights handled."""
    handled = Right((1 << _RIGHTS_OF_ABI[version]) - 1)
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", 0 if network else _NET_TCP)
    if version >= 6:
        attributes += struct.pack("=Q", _SCOPES)
    return call("landlock_create_ruleset", attributes, len(attributes), 0), handled


def _allow(ruleset: int, handled: Right, path: Path, rights: Right) -> None:
    """Adds one path; a path that is not there, or cannot be reached, is left closed."""
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return
        raise
    try:
        rights &= handled
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= _OF_A_FILE
        if rights:
            # struct landlock_path_beneath_attr is packed: 8 bytes of rights, 4 of descriptor.
            call("landlock_add_rule", ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, target), 0)
    finally:
        os.close(target)


def restrict(version: int, rules: Iterable[tuple[Path, Right]], *, network: bool = False) -> None:
    """Closes the file system but for `rules`, TCP unless `network`, and from ABI 6 signals to the outside.

    Holds for the calling thread and for what it starts later; needs no_new_privs. Raises OSError.
    """
    ruleset, handled = _ruleset(version, network=network)
    try:
        for path, rights in rules:
            _allow(ruleset, handled, path, rights)
        call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
