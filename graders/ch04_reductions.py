"""Reductions: many numbers in, one number out, in any order that is the same on every run."""

import hypothesis.strategies as st
import torch

from harness.grading import (
    LAYOUTS,
    SUMMABLE,
    F,
    Focus,
    I,
    TensorGrader,
    arguments,
    bounds,
    case,
    check,
    law,
    normal_data,
    small_integers,
    tensor,
)

WHOLE = small_integers(-8, 8)  # every partial sum of these is exact in float32, whatever the order


class row_sum(TensorGrader):
    """f32[M], the sums of the rows of x[M, N]; an empty row sums to 0."""

    inputs = arguments(x=tensor("M", "N"), dtypes=F, long=("N",), specials=SUMMABLE)
    whole = arguments(x=tensor("M", "N", values=WHOLE), dtypes=F)
    result = torch.float32
    bound = bounds.summation(over="N")
    benchmarks = tuple(
        case("torch.sum", lambda x: x.sum(dim=1, dtype=torch.float32), x=normal_data(8192, 16384, dtype=d))
        for d in (torch.float32, torch.float16)
    )

    def oracle(self, x):
        return x.double().sum(dim=1)

    @law("large sums")
    def large(self, trial):
        """N v, exactly, for rows of one whole number v: beyond float16's 65504, bfloat16's 256 ones."""
        v, N = trial.draw(st.sampled_from([(100, 2048), (1, 5003), (-48, 4999), (60000, 33), (96, 700)]))
        dtype = trial.draw(st.sampled_from((torch.float16, torch.bfloat16)))
        x = torch.full((3, N), v, dtype=dtype)
        expected = x[0, 0].double() * N
        got = trial.run(x, names=["x"])
        trial.shaped(got, (3,), torch.float32)
        trial.expect(
            bool((got == expected).all()),
            f"{N} times {v} in {dtype} sums to {expected.item():g} (got {got[0].item():g})",
            cause="accumulate in float32, whatever the dtype of x",
        )

    @law("exact integers")
    def exact(self, trial):
        """Whole numbers from -8 to 8 sum to the last bit."""
        focus = Focus("whole numbers", (3, 33, 64, 257), layouts=LAYOUTS, dtypes=F)
        drawn = trial.draw(self.whole.under(focus))
        got = trial.run(drawn["x"])
        trial.shaped(got, (drawn.dims["M"],), torch.float32)
        trial.same(got + 0.0, self.oracle(drawn["x"]).float(), "sums of small whole numbers must be exact")

    @law("permuted rows")
    def permuted(self, trial):
        """row_sum(x[p, q]) = row_sum(x)[p] for permutations p of the rows and q of the columns."""
        drawn = trial.draw(self.whole.under(Focus("whole numbers", (3, 33, 65, 100))))
        p = torch.tensor(trial.draw(st.permutations(range(drawn.dims["M"]))))
        q = torch.tensor(trial.draw(st.permutations(range(drawn.dims["N"]))))
        sums = trial.run(drawn["x"])
        trial.same(trial.run(drawn["x"][p][:, q]), sums[p], "permuted rows do not give permuted sums")


class total_sum(TensorGrader):
    """f32[], the sum of all elements, by the same additions on every run; the sum of nothing is 0."""

    inputs = arguments(x=tensor("*S"), dtypes=F, specials=SUMMABLE)
    whole = arguments(x=tensor("*S", values=WHOLE), dtypes=F)
    result = torch.float32
    bound = bounds.summation(over="*S")
    benchmarks = (case("torch.sum", lambda x: x.sum(), x=normal_data(2**28)),)

    def oracle(self, x):
        return x.double().sum()

    @check("many parts", needs=("aligned",), once=True)
    def many(self, trial):
        """More elements than one round of a thousand programs takes; whole numbers, so exactly."""
        for count in (20_497, 300_007, 2**22 + 20_497, *((2**27 + 20_497,) if trial.gpu else ())):
            # Around 0 where there are many, so that no partial sum leaves the whole numbers that float32 holds.
            x = (torch.arange(count) * 40_503 % 17 - (6 if count < 2**23 else 8)).float()
            expected = self.oracle(x)
            got = trial.run(x, names=["x"])
            trial.shaped(got, (), torch.float32)
            trial.expect(
                got.item() == expected.item(),
                f"{count:,} whole numbers sum to {expected.item():.0f} (got {got.item():.0f})",
                cause="is every element some program's share, and every partial sum written and read?",
            )

    @check("ten runs", needs=("aligned",), examples=0.05)
    def ten(self, trial):
        """Ten runs on the same values give the same bits."""
        sizes = (4096, 1023) if trial.gpu else (256, 255)
        drawn = trial.draw(self.inputs.under(Focus("ten runs", sizes, ranks=(2,), dtypes=F, cap=2**24)))
        first = trial.run(drawn["x"])
        for run in range(2, 11):
            again = trial.run(drawn["x"])
            trial.same(again, first, f"run {run} differs from the first", "partial sums in no fixed order?")

    @law("any order")
    def order(self, trial):
        """The sum of whole numbers does not depend on their order, shape or layout."""
        focus = Focus("whole numbers", (3, 17, 33, 64), ranks=(2, 3, 4), dtypes=F)
        x = trial.draw(self.whole.under(focus))["x"]
        dims = trial.draw(st.permutations(range(x.dim())))
        others = {"permuted": x.permute(dims), "reversed": x.flip(0), "flat": x.reshape(-1)}
        for words, other in others.items():
            message = f"the sum of whole numbers is another one with the {x.dim()}-d tensor {words}"
            trial.same(trial.run(other) + 0.0, self.oracle(x).float(), message)


def few(rng, shape, dtype, dims):
    """One to three values, so that each comes up again and again; -0 equals +0."""
    pool = [0.0, -0.0, 1.0] if dtype.is_floating_point else [0, -1, 1]
    which = rng.choice(3, size=shape, p=[(0.9, 0.1, 0.0), (0.4, 0.4, 0.2), (0.0, 0.0, 1.0)][rng.integers(3)])
    return torch.tensor(pool, dtype=dtype)[torch.from_numpy(which)]


def with_nans(rng, shape, dtype, dims):
    """Numbers from 0 to 1, and many NaNs."""
    x = torch.from_numpy(rng.random(shape)).to(dtype)
    return torch.where(torch.from_numpy(rng.random(shape) < rng.choice([0.5, 0.1])), float("nan"), x)


def lowest(rng, shape, dtype, dims):
    """The smallest value of the dtype and, in each row a share of its own, the one above it; for floats -inf and the smallest
    finite one."""
    if dtype.is_floating_point:
        pool = torch.tensor([float("-inf"), torch.finfo(dtype).min], dtype=dtype)
    else:
        pool = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).min + 1], dtype=dtype)
    share = rng.choice([0.5, 0.1, 0.0], size=(shape[0], 1), p=[0.45, 0.35, 0.2])
    return pool[torch.from_numpy((rng.random(shape) < share).astype("int64"))]


class row_argmax(TensorGrader):
    """i64[M], the first column that holds the maximum of its row; NaN is larger than every number."""

    inputs = arguments(x=tensor("M", "N"), dtypes=F + I, at_least={"N": 1}, long=("N",))
    result = torch.int64
    bound = bounds.equal()
    benchmarks = tuple(
        case("torch.argmax", lambda x: x.argmax(dim=1), x=normal_data(8192, 16384, dtype=dtype))
        for dtype in (torch.float32, torch.float16)
    )

    def oracle(self, x):
        top = x.amax(dim=1, keepdim=True)  # NaN where the row has one
        holds = torch.where(top.isnan(), x.isnan(), x == top)
        columns = torch.arange(x.shape[1], device=x.device)
        return torch.where(holds, columns, x.shape[1]).amin(dim=1)

    def _made_of(self, trial, values, dtypes=F + I):
        """The contract on matrices of `values`, in every dtype: short rows, and rows of several blocks."""
        domain = arguments(x=tensor("M", "N", values=values), dtypes=dtypes, at_least={"N": 1})
        for dtype in dtypes:
            for columns in (2, 3, 33, 257), (9001,):
                focus = Focus("few values", (1, 2, 3), force={"N": columns}, dtypes=(dtype,))
                trial.hold(trial.draw(domain.under(focus)))

    @law("ties", examples=0.15)
    def ties(self, trial):
        """The first of equals, also where they are blocks apart."""
        self._made_of(trial, few)

    @law("several NaNs", examples=0.15)
    def nans(self, trial):
        """The first NaN, also where the next one, or a number, is blocks behind it."""
        self._made_of(trial, with_nans, F)

    @law("lowest values", examples=0.25)
    def bottom(self, trial):
        """Rows of the two smallest values that the dtype has."""
        self._made_of(trial, lowest)

    @law("monotone maps")
    def monotone(self, trial):
        """argmax(2 x + 3) = argmax(x), whole numbers that no dtype rounds."""
        domain = arguments(x=tensor("M", "N", values=WHOLE), dtypes=F + I, at_least={"N": 1})
        drawn = trial.draw(domain.under(Focus("whole numbers", (3, 33, 65, 257), dtypes=F + I)))
        before = trial.run(drawn["x"])
        trial.same(trial.run(2 * drawn["x"] + 3), before, "argmax(2 x + 3) is not argmax(x)")
