"""Programs, blocks, masks: three pointwise operators."""

from dataclasses import replace
from itertools import product

import torch
import torch.nn.functional as nn

from harness.grading import (
    LAYOUTS,
    LONG,
    F,
    Focus,
    I,
    Part,
    TensorGrader,
    arguments,
    bounds,
    case,
    law,
    normal,
    normal_data,
    tensor,
    widened,
)


def special_in_one(inputs):
    """Parts with special values in one input and none in the others, where one could hide what another loses."""
    for name, kind in product(inputs.specs, ("nan", "infinities")):
        alone = {n: replace(spec, special=n == name) for n, spec in inputs.specs.items()}
        focus = Focus(f"{kind} in {name} alone", (16, 17, 33, 65), special=kind, dtypes=F, ranks=(2, 1))
        examples = replace(inputs, specs=alone).under(focus)
        yield Part(focus.name, lambda trial, examples=examples: trial.hold(trial.draw(examples)))


class vec_add(TensorGrader):
    """z = x + y for two tensors of one shape, any number of dimensions, each in its layout; integers wrap."""

    inputs = arguments(x=tensor("*S"), y=tensor("*S"), dtypes=F + I)
    bound = bounds.rounding()
    pointwise = True
    overflow = False
    benchmarks = (case("torch.add", torch.add, x=normal_data(2**26), y=normal_data(2**26)),)

    def oracle(self, x, y):
        return x.double() + y.double() if x.is_floating_point() else x + y

    def checks(self, *, gpu):
        many = Focus("any layouts of five and six dimensions", (2, 3, 4, 1), layouts=LAYOUTS, ranks=(5, 6))
        checks = widened(super().checks(gpu=gpu), "strided", Part(many.name, self._holds(many)))
        return widened(checks, "special values", *special_in_one(self.inputs))


class outer_add(TensorGrader):
    """z[m, n] = x[n] + y[m]."""

    inputs = arguments(x=tensor("N"), y=tensor("M"), dtypes=F + I)
    bound = bounds.rounding()
    overflow = False
    benchmarks = (
        case("x + y[:, None]", lambda x, y: x + y[:, None], x=normal_data(16384), y=normal_data(16384)),
    )

    def oracle(self, x, y):
        if x.is_floating_point():
            x, y = x.double(), y.double()
        return x[None, :] + y[:, None]

    def checks(self, *, gpu):
        # Axis 1 of a grid has 65,535 programs or less: 2,097,120 rows in blocks of 32. Too many to interpret.
        tall = Focus("more rows of blocks than axis 1 has", (1,), force={"M": (2_200_003,)}, cap=1 << 24, share=0.1)
        # More than one block along either side, whatever the blocks are.
        long = [Focus(f"a long {dim}", (1, 3, 2), force={dim: LONG}) for dim in ("N", "M")]
        parts = [Part(f.name, self._holds(f)) for f in (*long, *([tall] if gpu else []))]
        checks = widened(super().checks(gpu=gpu), "ragged", *parts)
        return widened(checks, "special values", *special_in_one(self.inputs))

    @law("swapped arguments")
    def swapped(self, trial):
        """outer_add(y, x) is the transpose of outer_add(x, y)."""
        drawn = trial.draw(self.inputs.under(self.ragged_sizes))
        z = trial.run(drawn["x"], drawn["y"])
        trial.same(
            trial.run(drawn["y"], drawn["x"]), z.t(),
            "outer_add(y, x) is not the transpose of outer_add(x, y)", "are rows and columns mixed up?",
        )  # fmt: skip


def moderate(rng, shape, dtype, dims):
    """Normal data between -8 and 8, where no form of tanh overflows; larger values have their own check."""
    return normal(rng, shape, dtype, dims).clamp(-8, 8)


class gelu_tanh(TensorGrader):
    """0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x**3)."""

    inputs = arguments(
        x=tensor("*S", values=moderate), dtypes=F, scales=(1.0, 0.01, 3.0), shifts=(0.0, 1.0, -2.0)
    )
    # 1 + tanh(u) may cancel: a sound evaluation in float32 errs by a few roundings of x, not of the result,
    # hence the magnitude |x|. exp amplifies the four roundings of 2u by |2u|, where it is small itself: by
    # |2u| exp(-|2u|) <= 0.37 of x. With exp, the sum, the quotient and the product that is 6; in the form with
    # tanh less. Twice as many would hide an argument that was rounded to 16 bits.
    bound = bounds.pointwise(operations=8)
    pointwise = True
    benchmarks = (
        case("F.gelu(approximate='tanh')", lambda x: nn.gelu(x, approximate="tanh"), x=normal_data(2**26)),
    )

    def oracle(self, x):
        return nn.gelu(x.double(), approximate="tanh")

    def magnitude(self, x):
        return x.double().abs()

    @law("large values")
    def large(self, trial):
        """|x| from 1 to 1e4 stays finite: gelu(x) tends to x on the right and to 0 on the left."""
        drawn = trial.draw(self.inputs.under(replace(self.ragged_sizes, dtypes=F)))
        exponent = drawn["x"].double() / 4 + 2  # x lies between -8 and 8, so this between 0 and 4
        odd = torch.arange(exponent.numel()).reshape(exponent.shape) % 2 == 1
        trial.hold(drawn.replace(x=torch.where(odd, -(10**exponent), 10**exponent).to(drawn["x"].dtype)))
