"""Which level a run asks for: the best that works, or the one that GRADE_SANDBOX names."""

from pathlib import Path
from typing import Final

from harness.sandbox import bubblewrap, machine
from harness.sandbox.model import Level, SandboxError

SETTING: Final = "GRADE_SANDBOX"
CHOICES: Final = (Level.BUBBLEWRAP, Level.LANDLOCK)  # a setting that is forgotten somewhere must not open the cage


def choose(wanted: Level | None) -> tuple[Path | None, str]:
    """bubblewrap's program where warm parents are to start in it; else None, and why not.

    wanted: the level that has to be reached; None takes the best. Raises SandboxError where it cannot be reached.
    """
    if wanted is not None:
        probe = machine.probe()
        if probe.cage is Level.NONE:
            why = probe.reasons.get("landlock_abi") or probe.reasons["seccomp"]
            raise SandboxError(f"{SETTING}={wanted}", why, "; ".join(probe.remedies()))
        if wanted is Level.LANDLOCK:
            return None, f"{SETTING}={wanted} was asked for"
    program, why = bubblewrap.works()
    if program is None and wanted is Level.BUBBLEWRAP:
        raise SandboxError(f"{SETTING}={wanted}", why, "; ".join(machine.probe().to_bubblewrap()))
    return program, why
