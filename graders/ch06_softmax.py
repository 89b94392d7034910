"""Softmax and log-sum-exp: one pass, online, and stable whatever the offset of a row.

Where the bounds come from. All three operators are made of terms e_j = exp(x_j - m), with m the largest x of the row.
In float32, with unit roundoff u,

- x_j - m is rounded once, as is its product with log2(e), which itself is a rounded constant: exp turns the absolute
  error 3 u |x_j - m| of its argument into a relative one of its value. An online algorithm takes the way from x_j to m
  in steps, exp(x_j - m_1) exp(m_1 - m_2) ...; as m_1 <= m_2 <= ... the steps add up to the same |x_j - m|. Some fold
  log2(e) into x before they subtract: one rounding of x_j log2(e), u |x_j|, that no difference takes away again.
- exp2 as a GPU computes it has a relative error of 2**-22 = 4 u; one more rounding scales or stores the term.

So e_j has a relative error of at most u (5 + 3 |x_j - m| + |x_j|) =: u r_j. Their sum s adds LAMBDA sqrt(N) u for its
additions and rescalings (all terms are positive, so the sum of magnitudes is the sum) and passes on the terms' errors
with their weights y_j = e_j / s. Cf. P. Blanchard, D. J. Higham, N. J. Higham, "Accurately computing the log-sum-exp and
softmax functions", IMA J. Numer. Anal. 41(4), 2021, theorems 3.2 and 3.5.
"""

import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import torch

from harness.grading import (
    LONG,
    Drawn,
    F,
    Focus,
    Part,
    TensorGrader,
    arguments,
    bounds,
    case,
    check,
    choice,
    law,
    normal_data,
    small_integers,
    tensor,
    widened,
)

U = bounds.roundoff(torch.float32)
FLUSHED = torch.finfo(torch.float32).smallest_normal / U  # a term may be flushed to 0 where it is subnormal
FOLDED = 4096.0  # up to this |x_j| a product with log2(e) before the subtraction is worth accepting
WHOLE = small_integers(-8, 8)
# exp(120) is infinite in float32 and exp(-112) is 0: without the subtraction of the maximum a row is lost. Whole
# numbers of this size are exact in every dtype (1000 + 8 in float32 and float16 only).
SHIFTS = {torch.float32: (120, -120, 1000, -1000), torch.float16: (120, -120, 1000, -1000), torch.bfloat16: (120, -120)}


def has_dimensions(dims):
    """x has a dimension to work along."""
    return len(dims["*S"]) > 0


def has_few_rows(dims):
    """So few rows, whatever the dimension, that a program for each of them is interpreted in a second."""
    shape = dims["*S"]
    return len(shape) > 0 and math.prod(shape) <= 640 * max(1, min(shape))


def weights_and_roundings(x, dim):
    """y_j and r_j, with r_j = 0 where y_j is: what contributes nothing errs by nothing."""
    x = x.double()
    y = torch.softmax(x, dim)
    away = (x - x.amax(dim, keepdim=True)).abs()
    return y, torch.where(y > 0, 5 + 3 * away + x.abs().clamp(max=FOLDED), 0.0)


def softmax_magnitude(x):
    """y_i (LAMBDA sqrt(N) + r_i + sum of y_j r_j + 4): a quotient, or a reciprocal and a product, as a GPU has it, is 4."""
    if x.numel() == 0:
        return torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    y, r = weights_and_roundings(x, -1)
    relative = bounds.LAMBDA * math.sqrt(x.shape[-1]) + r + (y * r).sum(-1, keepdim=True) + 4
    return y * relative + FLUSHED


def normals(draw_from, rows, columns, dtype, scale=1.0):
    """Normal data [rows, columns], the same for the same seed."""
    rng = np.random.Generator(np.random.Philox(draw_from))
    return torch.from_numpy(rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(scale)).to(dtype)


def infinite_rows(trial, columns, dtype):
    """[5, columns]: -inf at first, at last, everywhere; a +inf among numbers; a NaN among -inf."""
    x = normals(trial.draw(st.integers(0, 2**16)), 5, columns, dtype, trial.draw(st.sampled_from((1.0, 30.0))))
    cut = trial.draw(st.integers(1, columns - 1) | st.sampled_from((columns - 1, columns // 2)))
    x[0, :cut] = -math.inf
    x[1, cut:] = -math.inf
    x[2] = -math.inf
    x[3, cut] = math.inf
    x[4] = -math.inf
    x[4, cut] = math.nan
    return x


def row_shifts(trial, x, dim):
    """Whole numbers to add to x, another one for each row along `dim`."""
    shape = [1 if i == dim % x.dim() else n for i, n in enumerate(x.shape)]
    rng = np.random.Generator(np.random.Philox(trial.draw(st.integers(0, 2**16))))
    return torch.from_numpy(rng.choice(SHIFTS[x.dtype], size=shape)).to(x.dtype)


def far_rows(trial, lengths):
    """Long rows of normal data, each far from 0."""
    dtype, columns = trial.draw(st.sampled_from(F)), trial.draw(st.sampled_from(lengths))
    x = normals(trial.draw(st.integers(0, 2**16)), 3, columns, dtype)
    return Drawn({"x": x + row_shifts(trial, x, -1)}, {"M": len(x), "N": columns, "dtype": dtype})


def either_way(trial, x):
    """The rows of x, or the columns of its transpose."""
    x, dim = trial.draw(st.sampled_from(((x, 1), (x.t().contiguous(), 0))))
    return Drawn({"x": x, "dim": dim}, {"*S": tuple(x.shape), "dtype": x.dtype})


class Softmax(TensorGrader):
    """What both softmax exercises are: y = exp(x - max) / sum(exp(x - max)) along the last dimension."""

    bound = bounds.pointwise(operations=1)
    lengths: tuple[int, ...] = LONG  # of long rows
    far: tuple[int, ...] = (5003, 8191)  # of those that are also far from 0

    def oracle(self, x):
        return torch.softmax(x.double(), -1)

    def magnitude(self, x):
        return softmax_magnitude(x)

    def checks(self, *, gpu):
        whole_rows = Part("whole rows of infinities", lambda trial: self._infinite(trial, (17, 33, 65, 3)))
        return widened(super().checks(gpu=gpu), "special values", whole_rows)

    def _infinite(self, trial, lengths):
        dtype, columns = trial.draw(st.sampled_from(F)), trial.draw(st.sampled_from(lengths))
        x = infinite_rows(trial, columns, dtype)
        trial.hold(Drawn({"x": x}, {"M": len(x), "N": columns, "dtype": dtype}))

    def _long_rows(self, trial, dtypes=F):
        dtype = trial.draw(st.sampled_from(dtypes))
        rows, columns = trial.draw(st.sampled_from((3, 1, 2))), trial.draw(st.sampled_from(self.lengths))
        x = normals(trial.draw(st.integers(0, 2**16)), rows, columns, dtype, trial.draw(st.sampled_from((1.0, 0.01))))
        return Drawn({"x": x}, {"M": rows, "N": columns, "dtype": dtype})

    @law("rows sum to one")
    def ones(self, trial):
        """The roundings of a row's elements are independent of each other and largely cancel in its sum; an error of
        the divisor does not. So the sum tells a 16-bit accumulator that each single element hides in its rounding."""
        drawn = self._long_rows(trial)
        y = trial.run(drawn["x"])
        trial.shaped(y, tuple(drawn["x"].shape), drawn["x"].dtype)
        exact, N = self.oracle(drawn["x"]), y.shape[-1]
        tiny = torch.finfo(y.dtype).smallest_normal * torch.finfo(y.dtype).eps
        stored = 2 * bounds.roundoff(y.dtype) * exact.square().sum(-1).sqrt() + tiny * math.sqrt(N)
        allowed = bounds.LAMBDA * stored + U * self.magnitude(drawn["x"]).sum(-1)
        off = (y.double().sum(-1) - 1).abs()
        worst = int((off / allowed).nan_to_num(math.inf).argmax())
        trial.expect(
            bool((off <= allowed).all()),
            f"a row of {N} sums to 1 with an error of {off[worst]:.3g} (at most {allowed[worst]:.3g})",
            cause="is the sum accumulated in float32, whatever the dtype of x?",
        )

    @law("shift invariance")
    def shifted(self, trial):
        """softmax(x + c) = softmax(x), with a c for each row, also where short rows share a tile; and long rows far from 0,
        whose blocks and parts have lanes past the end as well."""
        short = Focus("short rows", (3, 2, 5, 7, 8, 17), ranks=(2,), dtypes=F)
        for focus in (short, replace(self.ragged_sizes, dtypes=F)):
            drawn = trial.draw(self.whole.under(focus))
            moved = drawn.replace(x=drawn["x"] + row_shifts(trial, drawn["x"], -1))
            trial.judge(trial.run(moved["x"]), moved, self.oracle(drawn["x"]))
        trial.hold(far_rows(trial, self.far))

    @law("permuted rows and columns")
    def permuted(self, trial):
        """softmax(x[p, q]) = softmax(x)[p, q], bit for bit where each term is 1 or 0, so that no sum is rounded."""
        rows, columns = trial.draw(st.sampled_from((3, 1, 17))), trial.draw(st.sampled_from((33, 3, 64, 100, 257)))
        rng = np.random.Generator(np.random.Philox(trial.draw(st.integers(0, 2**16))))
        pool = torch.tensor([1.0, -199.0, -math.inf])
        x = pool[torch.from_numpy(rng.choice(3, size=(rows, columns), p=(0.3, 0.4, 0.3)))]
        x[:, int(rng.integers(columns))] = 1.0
        p, q = torch.from_numpy(rng.permutation(rows)), torch.from_numpy(rng.permutation(columns))
        drawn = Drawn({"x": x}, {"M": rows, "N": columns})
        y = trial.run(x)
        trial.judge(y, drawn)
        trial.same(trial.run(x[p][:, q]), y[p][:, q], "permuted rows or columns do not give permuted results")


class softmax(Softmax):
    """Softmax along the last dimension of x[..., N], N up to 8192."""

    inputs = arguments(x=tensor("*S"), dtypes=F, where=has_dimensions)
    whole = arguments(x=tensor("*S", values=WHOLE), dtypes=F, where=has_few_rows)
    lengths = (*LONG, 8191, 8192)
    benchmarks = (
        case("torch.softmax", lambda x: torch.softmax(x, -1), x=normal_data(8192, 4096, dtype=torch.float16)),
    )

    def checks(self, *, gpu):
        if not gpu:
            self.inputs = replace(self.inputs, where=has_few_rows)

        def long(*dtypes):
            return Part("a long row", lambda trial: trial.hold(self._long_rows(trial, dtypes)))

        checks = widened(super().checks(gpu=gpu), "ragged", long(torch.float32))
        return widened(checks, "dtypes", long(torch.float16, torch.bfloat16))

    def compile_calls(self, example):
        # The widest rows have to fit in registers too.
        wide = replace(self.inputs, where=has_dimensions)
        focuses = [
            Focus("compile", (8,), force={"*S1": (columns,)}, dtypes=(dtype,), ranks=(2,))
            for columns, dtype in ((4096, torch.float16), (8192, torch.float32))
        ]
        return super().compile_calls(example) + [example(wide.under(focus)).values() for focus in focuses]


class softmax_long(Softmax):
    """Softmax along the rows of x[M, N], N up to 2**18."""

    inputs = arguments(x=tensor("M", "N"), dtypes=F, long=("N",))
    whole = arguments(x=tensor("M", "N", values=WHOLE), dtypes=F)
    lengths = (*LONG, 20_011)
    far = (40_009, 20_011, 5003)
    program_each = "M"
    benchmarks = (case("torch.softmax", lambda x: torch.softmax(x, -1), x=normal_data(512, 131_072)),)

    @check("a quarter of a million columns", needs=("aligned",), once=True)
    def longest(self, trial):
        """N = 2**18, and the largest N that is no multiple of anything."""
        for columns, dtype in (2**18, torch.float32), (2**18 - 1, torch.float16):
            trial.hold(Drawn({"x": normals(columns, 1, columns, dtype, 3.0)}, {"M": 1, "N": columns, "dtype": dtype}))

    @law("blocks of -inf", examples=0.3)
    def masked(self, trial):
        """Rows that begin with -inf or end with it, over many blocks."""
        self._infinite(trial, (20_011, 40_009, 5003))


def each_dimension(dims):
    """The dimensions of a tensor of shape `*S`, counted from either end."""
    rank = len(dims["*S"])
    return choice(rank - 1, *range(rank - 1), -1, *range(-rank, -1))


class logsumexp(TensorGrader):
    """log(sum(exp(x))) along any dimension; the dimension is gone."""

    inputs = arguments(x=tensor("*S"), dim=each_dimension, dtypes=F, where=has_dimensions)
    whole = arguments(x=tensor("*S", values=WHOLE), dim=each_dimension, dtypes=F, where=has_few_rows)
    bound = bounds.pointwise(operations=1)
    benchmarks = tuple(
        case("torch.logsumexp", torch.logsumexp, x=normal_data(8192, 16384, dtype=dtype), dim=dim)
        for dtype, dim in ((torch.float32, 1), (torch.float16, 1), (torch.float32, 0))
    )

    def oracle(self, x, dim):
        return torch.logsumexp(x.double(), dim)

    def magnitude(self, x, dim):
        """The absolute error, in u: that of log(s), which is the relative one of s and 4 for the logarithm, and the
        roundings of max, log(s) and their sum (or, in powers of two, of their product with log(2)); they may cancel."""
        y = self.oracle(x, dim)
        if x.numel() == 0:
            return torch.zeros_like(y)
        share, r = weights_and_roundings(x, dim)
        top = x.double().amax(dim)
        of_sum = bounds.LAMBDA * math.sqrt(x.shape[dim]) + (share * r).sum(dim) + 4
        return (of_sum + 2 * top.abs() + 2 * (y - top).abs()).nan_to_num(0.0, posinf=0.0)

    def checks(self, *, gpu):
        if not gpu:
            self.inputs = replace(self.inputs, where=has_few_rows)

        def long(dim, *dtypes):
            name = "long columns" if dim == 0 else "long rows"
            focus = Focus(name, (1, 2, 3, 17), force={f"*S{dim}": LONG}, ranks=(2,), dtypes=dtypes)
            examples = replace(self.inputs, where=has_dimensions).under(focus)
            return Part(name, lambda trial: trial.hold(trial.draw(examples).replace(dim=dim)))

        whole_rows = Part("whole rows of infinities", lambda trial: self._infinite(trial, (17, 33, 65, 3)))
        checks = widened(super().checks(gpu=gpu), "special values", whole_rows)
        checks = widened(checks, "ragged", *(long(dim, F[0]) for dim in (1, 0)))
        return widened(checks, "dtypes", *(long(dim, *F[1:]) for dim in (1, 0)))

    def compile_calls(self, example):
        # Both directions: a reduction along the last dimension and one along the first.
        calls = super().compile_calls(example)
        return [[x, dim] for dim in (1, 0) for x, _ in calls]

    @law("every dimension", examples=0.3)
    def dimensions(self, trial):
        """Each dimension of a tensor of three or four; counted from the end it is the same one, bit for bit."""
        focus = Focus("every dimension", (2, 3, 5, 16, 17, 1), ranks=(3, 4), dtypes=F)
        drawn = trial.draw(self.inputs.under(focus))
        rank = drawn["x"].dim()
        for dim in range(rank):
            one = drawn.replace(dim=dim)
            got = trial.run(one["x"], dim)
            trial.judge(got, one)
            same = trial.run(one["x"], dim - rank)
            trial.same(same, got, f"dim = {dim - rank} is not dim = {dim} of a {rank}-d tensor")

    @law("shifts")
    def shifted(self, trial):
        """logsumexp(x + c) = logsumexp(x) + c, with a c for each row; and long rows far from 0, along either dimension."""
        drawn = trial.draw(self.whole.under(replace(self.ragged_sizes, dtypes=F)))
        x, dim = drawn.values()
        c = row_shifts(trial, x, dim)
        moved = drawn.replace(x=x + c)
        trial.judge(trial.run(*moved.values()), moved, self.oracle(x, dim) + c.squeeze(dim).double())
        trial.hold(either_way(trial, far_rows(trial, (5003, 20_011))["x"]))

    @law("blocks of infinities", examples=0.4)
    def infinite(self, trial):
        """Long rows that begin or end with -inf, hold nothing else, or have a +inf, along either dimension."""
        self._infinite(trial, (5003, 20_011))

    def _infinite(self, trial, lengths):
        dtype, length = trial.draw(st.sampled_from(F)), trial.draw(st.sampled_from(lengths))
        trial.hold(either_way(trial, infinite_rows(trial, length, dtype)))
