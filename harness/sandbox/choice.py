"""Which level a run asks for: the best that works, or the one that GRADE_SANDBOX names."""

import os
from pathlib import Path
from typing import Final

from harness.errors import MachineError, UsageError
from harness.sandbox import bubblewrap, machine
from harness.sandbox.model import Level

SETTING: Final = "GRADE_SANDBOX"
CHOICES: Final = (Level.BUBBLEWRAP, Level.LANDLOCK)  # a setting that is forgotten somewhere must not open the cage


def asked(*, sandboxed: bool) -> Level | None:
    """The level that the environment of this process asks for, if any; `sandboxed`: whether the command asks for any.
    Raises UsageError."""
    word = os.environ.get(SETTING, "")
    if word and word not in CHOICES:
        raise UsageError(f"{SETTING}={word}", f"it can be {' or '.join(CHOICES)}, or unset for the best that works")
    if word and not sandboxed:
        raise UsageError(f"{SETTING}={word} asks for a sandbox, and --unsandboxed for none", f"unset {SETTING}")
    return Level(word) if word else None


def choose(wanted: Level | None) -> tuple[Path | None, str]:
    """bubblewrap's program where warm parents are to start in it; else None, and why not.

    wanted: the level that has to be reached; None takes the best. Raises MachineError where it cannot be reached.
    """
    if wanted is not None:
        probe = machine.probe()
        if probe.cage is Level.NONE:
            why = probe.reasons.get("landlock_abi") or probe.reasons["seccomp"]
            raise MachineError(f"{SETTING}={wanted}: {why}", "; ".join(probe.remedies()))
        if wanted is Level.LANDLOCK:
            return None, f"{SETTING}={wanted} was asked for"
    program, why = bubblewrap.works()
    if program is None and wanted is Level.BUBBLEWRAP:
        raise MachineError(f"{SETTING}={wanted}: {why}", "; ".join(machine.probe().to_bubblewrap()))
    return program, why
