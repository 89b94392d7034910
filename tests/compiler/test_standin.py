"""Memory of a GPU that is not there: where kernels are only compiled, nobody writes it."""

from __future__ import annotations

import pytest
import torch

from harness.compiler import standin


@pytest.mark.parametrize("count", [0, 1, 1000, standin.LARGE // 4, standin.LARGE // 4 + 3, 5_000_001])
def test_new_memory_reads_as_zero(count: int) -> None:
    used = torch.full((count,), 7.0)  # the allocator may give out what was written before
    del used
    with standin.cuda("sm_90", zero_new_memory=True):
        for new in (torch.empty(count), torch.empty(count, 2).mT, torch.empty(count, device="cuda", dtype=torch.int8)):
            assert torch.equal(new, torch.zeros_like(new))


def test_what_is_large_takes_no_memory_until_it_is_read() -> None:
    with standin.cuda("sm_90", zero_new_memory=True):
        before = resident()
        new = torch.empty(2**28)
        assert resident() - before < 2**24
        assert float(new[2**27]) == 0


def test_no_memory_but_its_own_is_set_to_zero() -> None:
    whole = torch.ones(2 * standin.LARGE)
    standin._zero(whole[5 : 5 + standin.LARGE])
    assert bool((whole[:5] == 1).all() and (whole[5 + standin.LARGE :] == 1).all())
    assert not whole[5 : 5 + standin.LARGE].any()


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096
