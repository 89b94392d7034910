"""Programs, blocks, masks: three pointwise operators."""


import torch
import torch.nn.functional as nn

from harness.grading import F, I, TensorGrader, arguments, bounds, case, law, normal_data, tensor


class vec_add(TensorGrader):
    """z = x + y for two tensors of one shape, any number of dimensions; integers wrap."""

    inputs = arguments(x=tensor("*S"), y=tensor("*S"), dtypes=F + I)
    bound = bounds.rounding()
    overflow = False
    benchmarks = (case("torch.add", torch.add, x=normal_data(2**26), y=normal_data(2**26)),)

    def oracle(self, x, y):
        return x.double() + y.double() if x.is_floating_point() else x + y


class outer_add(TensorGrader):
    """z[m, n] = y[m] + x[n]."""

    inputs = arguments(x=tensor("N"), y=tensor("M"), dtypes=F + I)
    bound = bounds.rounding()
    overflow = False
    benchmarks = (
        case("torch", lambda x, y: y[:, None] + x[None, :], x=normal_data(16384), y=normal_data(16384)),
    )

    def oracle(self, x, y):
        if not x.is_floating_point():
            return y[:, None] + x[None, :]
        return y.double()[:, None] + x.double()[None, :]

    @law("swapped arguments")
    def swapped(self, trial):
        """outer_add(y, x) is the transpose of outer_add(x, y)."""
        drawn = trial.draw(self.inputs.under(self.ragged_sizes))
        z = trial.run(drawn["x"], drawn["y"])
        trial.same(trial.run(drawn["y"], drawn["x"]), z.t(), "outer_add(y, x) is not the transpose of outer_add(x, y)")


class gelu_tanh(TensorGrader):
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))."""

    inputs = arguments(x=tensor("*S"), dtypes=F)
    # 1 + tanh(u) may cancel: a sound evaluation in float32 has an error of a few roundings of x, not of the result;
    # the argument u has a relative error of a few roundings, which exp amplifies by |u| (at most about 10 where it counts).
    bound = bounds.pointwise(operations=16)
    benchmarks = (case("F.gelu", lambda x: nn.gelu(x, approximate="tanh"), x=normal_data(2**26)),)

    def oracle(self, x):
        return nn.gelu(x.double(), approximate="tanh")

    def magnitude(self, x):
        return x.double().abs()

    @law("large values")
    def large(self, trial):
        """|x| up to 1e4 stays finite: x on the right, 0 on the left."""
        drawn = trial.draw(self.inputs.under(self.ragged_sizes))
        x = drawn["x"]
        sign = torch.where(torch.arange(x.numel()).reshape(x.shape) % 2 == 0, 1.0, -1.0)
        drawn = drawn.replace(x=(sign * 10.0 ** (x.abs().clamp(0, 4).nan_to_num(4.0))).to(x.dtype))
        trial.hold(drawn)
