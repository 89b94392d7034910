"""The GPUs that kernels are compiled for with none of them at hand: limits, and what a host may ask about
them.

Limits are those of CUDA's programming guide (table "technical specifications per compute capability": shared
memory a block may opt into is 163 KiB on 8.0 and 227 KiB on 9.0 and 10.0) and of AMD's CDNA 3 ISA guide (64
KiB of LDS a workgroup). Each target is stood in for by its best-known card: A100, H200, B200, MI300X.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One GPU. Sizes in bytes, clocks in kHz, bus width in bits."""

    name: str
    backend: str  # as Triton names it: "cuda" or "hip"
    arch: int | str  # 90 for sm_90, "gfx942"
    warp_size: int
    max_shared: int  # a block
    max_threads: int  # a block
    multiprocessors: int
    capability: tuple[int, int]
    device_name: str
    memory: int
    l2: int
    shared_per_multiprocessor: int
    clock: int
    memory_clock: int
    memory_bus: int

    @property
    def properties(self) -> dict[str, int | str]:
        """What `triton.runtime.driver.active.utils.get_device_properties` gives on such a device."""
        return {
            "max_shared_mem": self.max_shared,
            "max_num_regs": 65_536,
            "multiprocessor_count": self.multiprocessors,
            "warpSize": self.warp_size,
            "sm_clock_rate": self.clock,
            "mem_clock_rate": self.memory_clock,
            "mem_bus_width": self.memory_bus,
            "cooperativeLaunch": 1,
            "arch": str(self.arch) if self.backend == "hip" else self.name,
        }


GIB = 1024**3
MIB = 1024**2

TARGETS = {
    target.name: target
    for target in (
        Target("sm_80", "cuda", 80, 32, 166_912, 1024, 108, (8, 0), "NVIDIA A100-SXM4-80GB",
               80 * GIB, 40 * MIB, 167_936, 1_410_000, 1_593_000, 5120),
        Target("sm_90", "cuda", 90, 32, 232_448, 1024, 132, (9, 0), "NVIDIA H200",
               141 * GIB, 60 * MIB, 233_472, 1_980_000, 3_201_000, 6144),
        Target("sm_100", "cuda", 100, 32, 232_448, 1024, 148, (10, 0), "NVIDIA B200",
               180 * GIB, 126 * MIB, 233_472, 1_965_000, 3_996_000, 8192),
        Target("gfx942", "hip", "gfx942", 64, 65_536, 1024, 304, (9, 4), "AMD Instinct MI300X",
               192 * GIB, 4 * MIB, 65_536, 2_100_000, 1_300_000, 8192),
    )
}  # fmt: skip


def find(name: str) -> Target:
    """The target of this name; ValueError lists those there are."""
    try:
        return TARGETS[name]
    except KeyError:
        known = ", ".join(TARGETS)
        raise ValueError(f"'target' must be one of {known} (got {name!r})") from None
