"""Pointers, strides, coalescing: two operators that compute nothing and move every bit."""

import math

import hypothesis.strategies as st
import torch

from harness.grading import (
    Drawn,
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
    tensor,
)

ANY = (*F, *I, torch.bool)
FAR = 2**30  # two steps of it are 2**31, where an int32 has wrapped to -2**31

# Run in the worker. The memory is larger than what may be sent, but the operating system gives a page of it
# only where one is touched. The limit on a worker's private memory counts untouched pages too, so it is a
# shared mapping, of which the touched pages are counted. The view begins 2**31 bytes into it: a wrapped
# offset finds a wrong value there, not the abyss.
DRIVER = '''
import mmap

import torch

GAP = 0x7B


def far(module, entry, cells, strides, cuda):
    """The submission's output for a view of `cells` with strides that lead to offsets of 2**31 and more."""
    size = 2**32 + 2**20
    if cuda:
        memory = torch.full((size,), GAP, dtype=torch.int8, device="cuda")
    else:
        unreserved = getattr(mmap, "MAP_NORESERVE", 0x4000)
        pages = mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | unreserved)
        memory = torch.frombuffer(pages, dtype=torch.int8)
    x = memory.as_strided(cells.shape, strides, 2**31)
    x.copy_(cells)
    return getattr(module, entry)(x)


def large(module, entry, shape, period, places):
    """Shape of the output and its elements at flat `places`, for x[i] = i % period with i flat."""
    cycle = torch.arange(period, device="cuda").to(torch.int8)
    x = cycle.repeat(shape[0] * shape[1] // period).reshape(shape if shape[0] > 1 else shape[1:])
    y = getattr(module, entry)(x)
    return list(y.shape), y.reshape(-1)[places.to("cuda")].cpu()
'''


def bits_to_nan(x):
    """x with every exponent full: NaNs (or infinities) with the signs of x, and its mantissas as payloads."""
    word, exponent = {
        torch.float32: (torch.int32, 0x7F80_0000),
        torch.float16: (torch.int16, 0x7C00),
        torch.bfloat16: (torch.int16, 0x7F80),
    }[x.dtype]
    return (x.view(word) | exponent).view(x.dtype)


class Moved(TensorGrader):
    """What both have in common: all dtypes, bit for bit, by strides of the submission's own."""

    bound = bounds.exact()
    moves = "refused"
    views: tuple = ()  # (shape, strides) of small int8 views with offsets of 2**31 and more
    big: tuple = ()  # sizes (rows, columns) of an int8 input of more than 2**31 elements

    @check("offsets past 2**31", needs=("aligned",), once=True)
    def far(self, trial):
        """An element's offset may exceed an int32 though every index, and nearly every stride, is small."""
        entry = type(self).__name__
        for shape, strides in self.views:
            cells = (torch.arange(math.prod(shape)) + 1).to(torch.int8).reshape(shape)
            got = trial.drive(DRIVER, "far", entry, cells, list(strides), trial.gpu)
            trial.judge(got, Drawn({"x": cells}, {"strides": strides}))
        if trial.gpu:
            self.hold_large(trial, entry)

    def hold_large(self, trial, entry):
        """More than 2**31 elements: the first, the last, the border and a thousand others are looked at."""
        period = 113
        rows, columns = self.big
        count = rows * columns
        some = torch.randint(0, count, (1000,))
        places = torch.cat([some, torch.tensor([0, 2**31 - 1, 2**31, count - 1])])
        shape, got = trial.drive(DRIVER, "large", entry, [rows, columns], period, places)
        right_shape = [columns, rows] if rows > 1 else [columns]
        trial.expect(shape == right_shape, f"the output has shape {shape} where {right_shape} is due")
        source = places % rows * columns + places // rows  # where y's element at a flat place lies in x
        right = (source % period).to(torch.int8)
        trial.same(got, right, f"wrong for an int8 input of {count:,} elements", "an int32 offset")

    @law("NaN payloads")
    def payloads(self, trial):
        """A NaN is copied with its sign and payload."""
        focus = Focus("NaN payloads", (16, 1, 3, 17, 33, 64), dtypes=F, ranks=(2, 1, 3))
        drawn = trial.draw(self.inputs.under(focus))
        trial.hold(drawn.replace(x=bits_to_nan(drawn["x"])))


class strided_copy(Moved):
    """y = x, contiguous; x has up to four dimensions and any strides."""

    inputs = arguments(x=tensor("*S"), dtypes=ANY, most_dims=4)
    benchmarks = tuple(
        case(".contiguous()", lambda x: x.contiguous(), x=normal_data(8192, 8192, dtype=dtype, pitch=8200))
        for dtype in (torch.float16, torch.float32)
    )
    views = (
        ((3, 5), (FAR, 7)), ((5, 3), (1, FAR)), ((2, 3, 4), (64, FAR, 1)), ((3, 2, 2, 3), (FAR, 32, 2, 8)),
        ((2, 2, 16), (FAR, FAR + 16, 1)), ((2, 4), (2**31 + 8, 2)),
    )  # fmt: skip
    big = (1, 113 * 19_100_003)

    def oracle(self, x):
        return x.contiguous()

    @law("permuted")
    def permuted(self, trial):
        """Any order of the dimensions, over padded, sliced and expanded memory."""
        kinds = ("contiguous", "step-2 slice", "step-2 rows", "padded pitch", "expanded", "expanded last")
        focus = Focus("permuted", (2, 3, 5, 17, 1), layouts=kinds, ranks=(3, 4))
        drawn = trial.draw(self.inputs.under(focus))
        order = trial.draw(st.permutations(range(drawn["x"].dim())))
        trial.hold(drawn.replace(x=drawn["x"].permute(order)))


class transpose(Moved):
    """y[n, m] = x[m, n]."""

    inputs = arguments(x=tensor("M", "N"), dtypes=ANY)
    benchmarks = (
        case(
            "x.t().contiguous()", lambda x: x.t().contiguous(), x=normal_data(8192, 8192, dtype=torch.float16)
        ),
    )
    views = (
        ((3, 5), (FAR, 7)), ((5, 3), (1, FAR)), ((5, 3), (7, FAR)), ((3, 40), (FAR, 1)),
        ((2, 4), (2**31 + 8, 2)),
    )  # fmt: skip
    big = (3, 113 * 6_400_001)

    def oracle(self, x):
        return x.t().contiguous()

    @law("involution")
    def involution(self, trial):
        """The transpose of the transpose is x."""
        drawn = trial.draw(self.inputs.under(Focus("involution", (16, 3, 17, 33, 100, 1), dtypes=ANY)))
        twice = trial.run(trial.run(drawn["x"]))
        trial.same(twice, drawn["x"], "transpose(transpose(x)) is not x")

    @check("tall and wide", needs=("aligned",), once=True)
    def tall_and_wide(self, trial):
        """More tiles along one side than axes 1 and 2 of a grid have room for (on a GPU); and where tiles are taken in
        groups, more of them than a group has, seldom a multiple of it, with several tiles along the other side."""
        long = 65_536 * 128 + 1 if trial.gpu else 4099
        for M, N in ((long, 1), (2, long), (2113, 150), (150, 2113)):
            x = (torch.arange(M * N) % 113).to(torch.int8).reshape(M, N)
            trial.drawn = drawn = Drawn({"x": x}, {"M": M, "N": N})
            trial.hold(drawn)
