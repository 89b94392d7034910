"""What a session has switched on, shared by the repairs and the launcher.

One process interprets one kernel at a time (a grid runs as a Python loop), so plain module state is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.interpreter.watch import AddressBook


class DeviceAssertFailed(AssertionError):
    """`tl.device_assert` (or a Python `assert` inside a kernel) was false in at least one lane."""


class IntegerOverflow(OverflowError):
    """A signed 32- or 64-bit tensor sum, difference or product left the range of its type."""


class BlockCondition(ValueError):
    """A block of several elements was used as the condition of `if`, `while` or `x if c else y`.

    The compiler refuses such code ("truth value is ambiguous"); stock Triton's interpreter takes it as true.
    """


Told = Callable[[dict[str, Any], tuple[int, int, int], dict[str, Any]], None]  # a launch: arguments, grid, options


@dataclass
class State:
    """The switches of the running session, and the place in the grid for messages."""

    asserts: bool = False
    overflow: bool = False
    poison_masked: bool = False
    book: AddressBook | None = None
    kernel: str = "?"
    program: tuple[int, int, int] = field(default=(0, 0, 0))
    told: Told | None = None


STATE = State()
