"""The likely cause of a wrong output, when the pattern of its errors tells it."""

from __future__ import annotations

import torch

from harness.examiner.compare import Mismatch, bits
from harness.grading.domain import Drawn, layout_name


def _poisoned(got: torch.Tensor, wrong: torch.Tensor) -> bool:
    """Whether every wrong element still holds the byte that fresh memory is filled with."""
    values = got[wrong].contiguous().view(torch.uint8) if got.dtype != torch.bool else bits(got[wrong])
    return bool((values == 0xFF).all()) or (not got.is_floating_point() and bool((values == 0x7B).all()))


def cause(got: torch.Tensor, expected: torch.Tensor, mismatch: Mismatch, drawn: Drawn, focus: str) -> str:
    """One sentence, or an empty string when nothing stands out."""
    wrong = mismatch.wrong
    if _poisoned(got, wrong):
        return "these elements were never written: does the grid cover the whole output, and does the store's mask?"
    odd = [n for n, a in drawn.args.items() if isinstance(a, torch.Tensor) and not a.is_contiguous()]
    if odd:
        names = ", ".join(f"{n} has {layout_name(drawn[n])}" for n in odd)
        return f"{names}: does the kernel use every stride, each with its own dimension?"
    if got.is_floating_point():
        value, reached = got.double(), expected.double()
        if bool((value.isnan() & ~reached.isnan()).any()):
            return "NaN where a number is due: memory past the end of the input was used, or inf - inf, 0 * inf arose"
        if bool((~value.isnan() & reached.isnan()).any()):
            return "NaN was lost: a comparison with NaN is false, and tl.maximum drops it unless told to keep it"
        if bool((value.isinf() != reached.isinf()).any()):
            return "a result overflowed or underflowed: in which precision is it accumulated?"
        relative = (value - reached).abs() / reached.abs().clamp_min(1e-300)
        worst = float(relative[wrong & reached.isfinite()].max()) if bool((wrong & reached.isfinite()).any()) else 1.0
        if worst < 0.02:
            return (
                f"the error is small (relative {worst:.1g}) but over the bound: is everything accumulated in float32?"
            )
    if wrong.dim() >= 1 and wrong.shape[-1] > 1:
        columns = wrong.reshape(-1, wrong.shape[-1]).any(0).nonzero().reshape(-1)
        n = wrong.shape[-1]
        if 0 < int(columns.numel()) < n and int(columns[0]) == n - int(columns.numel()):
            return "only the end of the last dimension is wrong: look at the mask of the last block"
        steps = columns.diff()
        if columns.numel() > 2 and bool((steps == steps[0]).all()) and int(steps[0]) > 1:
            return f"every {int(steps[0])}th column is wrong: look at the stride of the last dimension"
    if wrong.dim() >= 2 and wrong.shape[-2] > 1:
        rows = wrong.reshape(-1, wrong.shape[-2], wrong.shape[-1]).any(0).any(-1).nonzero().reshape(-1)
        m = wrong.shape[-2]
        if 0 < int(rows.numel()) < m and int(rows[0]) == m - int(rows.numel()):
            return "only the last rows are wrong: look at the mask and the grid of the first dimension"
    if bool(wrong.all()):
        return "every element is wrong: the formula itself, rather than an edge"
    return ""
