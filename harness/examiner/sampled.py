"""What a timed call has to return: the right answer at positions that nobody knows before, and how far from it one may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from harness import data
from harness.examiner import compare
from harness.examiner.trial import Wrong
from harness.grading.domain import Drawn, Tensor
from harness.grading.grader import SAMPLED, TensorGrader


class Sampled:
    """The oracle on the values of `seed`, looked at in `SAMPLED` places of the output, or all over the output of the
    grader's excerpt; either is chosen now. `index` (int64, on the device): where in the whole flat output they stand,
    modulo its size."""

    def __init__(self, grader: TensorGrader, inputs: dict[str, Any], seed: int, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(data.fresh_seed())

        def choose(n: int, count: int) -> torch.Tensor:
            return torch.randint(n, (count,), generator=generator).to(device)

        args = dict(zip(inputs, data.arguments(inputs, seed, device), strict=True))
        excerpt = grader.excerpt(choose, **args)
        if excerpt is not None:
            args, self.index = excerpt
        else:
            self.index = choose(1 << 62, SAMPLED)
        self._grader, self._whole = grader, excerpt is None
        self._drawn = Drawn(args, _dims(grader, list(args.values())))
        expected = grader.oracle(**args)
        self._expected = expected if isinstance(expected, tuple) else (expected,)
        self.dtype = grader.result_dtype(self._drawn)

    def __len__(self) -> int:
        """How many tensors the output has."""
        return len(self._expected)

    def right(self, number: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The right elements of one of them, and the bound on the error of each where there is one; on the host."""
        expected, bound = self._expected[number], self._grader.bound

        def there(of: torch.Tensor) -> torch.Tensor:
            flat = of.expand(expected.shape).reshape(-1)
            return (flat[self.index % flat.numel()] if self._whole else flat).cpu()

        if bound.tolerance is None or not self.dtype.is_floating_point:
            return there(expected), None
        return there(expected), there(bound.tolerance(self._grader, self._drawn, expected, self.dtype))

    def hold(self, values: Sequence[torch.Tensor]) -> float:
        """Hold what a call returned at these positions to it: the share of the bound that is used. Raises `Wrong`."""
        most = 0.0
        for number, got in enumerate(values):
            if got.shape != self.index.shape:
                raise Wrong("the worker sent another number of elements than it was asked for")
            right, tolerance = self.right(number)
            if tolerance is not None:
                found, used = compare.within(got, right, tolerance)
                most = max(most, used)
            else:
                found = compare.equally(got, right) if self._grader.bound.kind == "equal" else compare.exactly(got, right)
            if found is not None:
                raise Wrong(
                    f"a timed call's output is wrong: expected {found.expected}, got {found.got}; "
                    f"{found.count} sampled elements"
                )
        return most


def _dims(grader: TensorGrader, args: list[Any]) -> dict[str, Any]:
    """The sizes of a timed case, read off its tensors."""
    dims: dict[str, Any] = {}
    for spec, value in zip(grader.inputs.specs.values(), args, strict=True):
        if isinstance(spec, Tensor) and isinstance(value, torch.Tensor):
            if spec.shape and isinstance(spec.shape[0], str) and spec.shape[0].startswith("*"):
                dims[spec.shape[0]] = tuple(value.shape)
            else:
                dims |= {d: n for d, n in zip(spec.shape, value.shape, strict=True) if isinstance(d, str)}
            dims.setdefault("dtype", value.dtype)
    return dims
