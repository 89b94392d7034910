"""What NVML says of a GPU while something is timed on it: its clock, why it is held back, who else is there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from typing import Any

from harness.timing.verdict import Conditions

# Reasons that slow the device below what its power limit would allow. The power limit itself (SW_POWER_CAP) is where a
# matrix product normally runs, on both sides of a pair, and an idle clock says only that nothing ran just then.
_HELD_BACK = {
    "HwSlowdown": "the hardware slowed the clock", "SwThermalSlowdown": "it was too hot",
    "HwThermalSlowdown": "it was too hot", "HwPowerBrakeSlowdown": "the power supply slowed it",
}  # fmt: skip


class Gauge:
    """The gauges of one device. Where NVML is missing or refuses, `read` gives empty conditions."""

    def __init__(self, index: int, uuid: str = "") -> None:
        self._nvml: Any = None
        self._looked = int(time.time() * 1e6)
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else pynvml.nvmlDeviceGetHandleByIndex(index)
            self._nvml = pynvml
        except Exception:  # no library, no driver, no permission: timing goes on, with nobody watching the clock
            return
        self._reasons = {
            getattr(self._nvml, f"nvmlClocksThrottleReason{name}", 0): text for name, text in _HELD_BACK.items()
        }

    @property
    def watching(self) -> bool:
        """Whether there is anybody to ask."""
        return self._nvml is not None

    def read(self, own: Collection[int]) -> Conditions:
        """Now. `own`: processes that belong to this run."""
        if self._nvml is None:
            return Conditions()
        clock, reason = 0, ""
        with contextlib.suppress(self._nvml.NVMLError):
            clock = int(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))
        with contextlib.suppress(self._nvml.NVMLError):
            bits = int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle))
            reason = next((text for bit, text in self._reasons.items() if bit and bits & bit), "")
        return Conditions(clock, reason, self._busy_others(own))

    def _busy_others(self, own: Collection[int]) -> int:
        """How many other processes computed on the device since the last look; being there idle disturbs nobody."""
        with contextlib.suppress(self._nvml.NVMLError):
            listed = {process.pid for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
            if not listed & set(own):
                return 0  # a container that numbers processes otherwise: they cannot be told apart
            if not listed - set(own):
                return 0
            since, self._looked = self._looked, int(time.time() * 1e6)
            used = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since)
            return len({sample.pid for sample in used if sample.smUtil and sample.pid not in own})
        return 0
