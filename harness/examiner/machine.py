"""What a run needs of the machine and its process, and what its record says of them."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

import torch


def settle() -> None:
    """Make this process, and the judges that are forked from it, fit for many checks at a time."""
    # The checks of a run fill the cores; threads of torch's own would only get in each other's way.
    torch.set_num_threads(1)
    # Keep freed memory: the C library gives large blocks back to the kernel at once, and half the time of a comparison
    # of large tensors went into getting them again, page by page.
    with contextlib.suppress(AttributeError, OSError):
        for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of glibc's mallopt
            ctypes.CDLL(None).mallopt(option, 1 << 30)


def wake_gpu(device: str) -> None:
    """Give this process its CUDA context, which takes a second, while the checks run; baselines need it."""
    torch.cuda.set_device(torch.device(device))
    torch.zeros(1, device=device)


def device_name(device: str) -> str:
    """What every process of the machine calls this GPU: NVML's number, whatever part of them this process sees."""
    number = getattr(torch.cuda, "_get_nvml_device_index", None)
    with contextlib.suppress(Exception):
        return f"gpu{number(device)}" if number is not None else device
    return device


def driver_version() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/driver/nvidia/version").read_text().splitlines():
            words = line.split()
            for word in words:
                if word.count(".") >= 1 and word.replace(".", "").isdigit():
                    return word
    return None
