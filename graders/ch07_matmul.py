"""Matrix multiplication: C[m, n] = sum over k of A[m, k] B[k, n], summed in float32 and rounded once.

The bound of all three exercises is that of a sum of K products in float32, whatever the order. With u the unit roundoff
of the output's format, u32 = 2**-24 and |A||B| the product of absolute values:

    |C - A B|  <=  2 u |A B|  +  u32 (4 sqrt(K) + 1) |A||B|

16-bit factors have exact products in float32; the + 1 is the rounding of a product of two float32 numbers where no fused
multiply-add takes it. What the bound has to refuse, at every K of the domain (K <= 8192, so 4 sqrt(K) + 1 < 364):

- TF32 in place of float32 leaves each factor 11 significant bits. 1 + 2**-11 needs 12: cut or rounded, every product with 1 is
  off by 2**-11, all to the same side: 8192 u32 against 366 u32, 22 times the bound and more. ("precision" has such factors. In
  normal data the losses have both signs; their sum exceeds the bound, which grows with K and not with its root, up to K of
  about 2,000.)
- 8-bit floats (e4m3, 4 significant bits) in place of 16-bit factors make 1 of 1 + 2**-4 - a little, and all products at least
  2**-4 too small. The bound is 2**-7 of the result for bfloat16 and 2**-10 for float16: 8 times and more.
- A float16 sum is off by up to 2**-11 of itself at *each* step along K; `long_sum` has 8192 terms.

And what it must not refuse: any order of the additions. Equal terms can be rounded to the same side again and again, in a running
sum up to K u32, against all probability. So in float32 the sums of "precision" are exact, in every order; in 16 bits the slack
2 u - u covers K u32 = 2**-11.
"""

from dataclasses import replace

import hypothesis.strategies as st
import torch

from harness.grading import (
    LAYOUTS,
    SUMMABLE,
    Check,
    Drawn,
    F,
    Focus,
    Part,
    TensorGrader,
    arguments,
    bounds,
    case,
    law,
    normal_data,
    small_integers,
    tensor,
)

HALF = (torch.float16, torch.bfloat16)
FEW = small_integers(-2, 2)  # short sums of their products are exact in every dtype


def products(values=None, long=("K",), **limits):
    """The domain: a[M, K] and b[K, N] of one dtype."""
    options = {} if values is None else {"values": values}
    factors = {"a": tensor("M", "K", **options), "b": tensor("K", "N", **options)}
    return arguments(**factors, dtypes=F, long=long, specials=SUMMABLE, **limits)


def timed(M, N, K, dtype):
    factors = {"a": normal_data(M, K, dtype=dtype), "b": normal_data(K, N, dtype=dtype)}
    return case("torch.matmul", torch.matmul, flops=2.0 * M * N * K, **factors)


class Product(TensorGrader):
    """[M, N], the product of a[M, K] and b[K, N]; an empty sum is 0."""

    inputs = products()
    whole = products(FEW)
    # K of at most 17 here: whole numbers up to 17 * 2 * 6 = 204, exact in bfloat16 too.
    exact_sizes = Focus("whole numbers", (16, 33, 65, 129), force={"K": (5, 16, 17)}, dtypes=F, cap=2**20)
    few = (16, 16), (3, 2), (1, 17)  # sizes of results of long sums; the first one suits descriptors
    bound = bounds.summation(over="K", operations=1)

    def oracle(self, a, b):
        return a.double() @ b.double()

    def excerpt(self, choose, a, b):
        """Some rows of A times some columns of B."""
        rows, columns = choose(len(a), 128), choose(b.shape[1], 128)
        return {"a": a[rows], "b": b[:, columns]}, (rows[:, None] * b.shape[1] + columns).reshape(-1)

    @law("identity")
    def identity(self, trial):
        """A I = A and I A = A, to the last bit of each dtype."""
        domain = arguments(a=tensor("M", "N"), dtypes=F, at_most=self.inputs.at_most)
        a = trial.draw(domain.under(Focus("identity", (3, 16, 33, 65), dtypes=F)))["a"]
        right, left = (torch.eye(n, dtype=a.dtype) for n in (a.shape[1], a.shape[0]))
        # Sums of signed zeros are not what this is about: + 0.0 makes them all 0.
        trial.same(trial.run(a, right, names=["a", "b"]) + 0.0, a + 0.0, "A I is not A")
        trial.same(trial.run(left, a, names=["a", "b"]) + 0.0, a + 0.0, "I A is not A")

    def long_sum(self, trial):
        """8192 equal terms 8 w. A float16 sum of them overflows, or rounds each step: from 16,384 on to multiples of 16."""
        dtype = trial.draw(st.sampled_from((*HALF, torch.float32)))
        # Partial sums are multiples of 1/8 below 2**19: exact in float32. 8 * 45/64 * 8192 = 46,080 is a float16; with
        # w = 8 the result is not, and infinity is right.
        w = trial.draw(st.sampled_from((19 / 64, -45 / 64, 0.5, 8.0)))
        self._constant(trial, 8.0, w, 8192, dtype)

    def every_bit(self, trial):
        """Factors that a coarser format makes all too small, or all too large, together; see the module's text."""
        dtype = trial.draw(st.sampled_from(F))
        K = trial.draw(st.sampled_from((1, 16, 33, 257, 1024, 5003)))
        short = 1 + 2.0**-4 - torch.finfo(dtype).eps
        # In float32 a sum of K terms is a multiple of 2**-11 below 2**13: exact.
        pair = (1 + 2.0**-11, 1.0) if dtype == torch.float32 else (short, short)
        v, w = trial.draw(st.permutations(pair))
        self._constant(trial, v, w, K, dtype)

    def _constant(self, trial, v, w, K, dtype):
        M, N = trial.draw(st.sampled_from(self.few))
        drawn = trial.draw(self.inputs.under(Focus("constant", (1,), force={"M": (M,), "N": (N,), "K": (K,)}, dtypes=(dtype,))))
        drawn = drawn.replace(a=torch.full((M, K), v, dtype=dtype), b=torch.full((K, N), w, dtype=dtype))
        trial.judge(trial.run(*drawn.values()), drawn)

    def checks(self, *, gpu):
        parts = Part("8192 terms", self.long_sum), Part("every bit of the factors", self.every_bit)
        return [*super().checks(gpu=gpu), Check("precision", parts, ("aligned",), 0.5)]


class matmul_naive(Product):
    """One element, or a row of elements, of the result a program; correctness only."""

    # Interpreted, a step of a program costs a third of a millisecond, and a right solution may need one for each product:
    # few rows, and long sums only where they are the point.
    inputs = products(at_most={"M": 7}, long=())
    few = (1, 17), (2, 3)

    def checks(self, *, gpu):
        return [replace(c, examples=0.25) if c.name == "precision" and not gpu else c for c in super().checks(gpu=gpu)]


class Tiled(Product):
    """Products of many tiles, and the laws that tell tiles put in the wrong place."""

    @law("transposed product")
    def transposed(self, trial):
        """(A B)^T = B^T A^T, whole numbers."""
        drawn = trial.draw(self.whole.under(self.exact_sizes))
        a, b = drawn["a"], drawn["b"]
        there, back = trial.run(a, b), trial.run(b.t(), a.t())
        trial.same(back + 0.0, there.t() + 0.0, "B^T A^T is not (A B)^T")

    def tiles(self, *, gpu):
        """What has many tiles, or takes another way than most examples of the standard checks do."""
        # K is short where there are many tiles: an interpreted tile costs as much with 16 terms as with 64.
        many = Focus("many tiles", (129, 257, 256, 293, 515), force={"K": (17, 16, 65, 64, 33)}, dtypes=F, cap=2**23)
        # More rows of tiles than any group has, and seldom a multiple of it: 1153 = 9 x 128 + 1, 1480 = 11 x 128 + 72. With
        # tiles of 64 x 64 the first of them are 24 x 7: more than the 132 programs that a persistent kernel has on an H200.
        groups = Focus(
            "many rows of tiles", (33,), force={"M": (1480, 1153, 777), "N": (392, 385, 200, 130), "K": (16, 17)},
            dtypes=HALF, cap=2**24,
        )  # fmt: skip
        # In 16 bits a product may take other ways (descriptors, tensor cores) than in float32.
        sizes = (16, 64, 40, 128)
        straight = "contiguous", "transposed", "storage offset"
        either = Focus("16-bit factors by rows and by columns", sizes, layouts=straight, dtypes=HALF, cap=2**19, share=2.0)
        layouts = Focus("layouts of 16-bit factors", (*sizes, 33), layouts=LAYOUTS, dtypes=HALF, cap=2**19, share=2.0)
        if not gpu:
            return [many, groups, either, layouts]
        sizes = (1024, 2048, 1009, 1280)
        large = Focus("large products", sizes, layouts=straight, dtypes=HALF, cap=2**33, share=0.4)
        return [many, groups, either, layouts, large]

    def no_terms(self, trial):
        """Rows that have an address and a pitch, as descriptors want them, but no elements."""
        for dtype in HALF:
            a, b = torch.ones(16, 8, dtype=dtype)[:, :0], torch.ones(8, 16, dtype=dtype)[:0]
            trial.hold(Drawn({"a": a, "b": b}, {"M": 16, "K": 0, "N": 16, "dtype": dtype}))

    def checks(self, *, gpu):
        parts = [Part(f.name, self._holds(f), share=f.share) for f in self.tiles(gpu=gpu)]
        parts.append(Part("16-bit factors with K = 0", self.no_terms, once=True))
        return [*super().checks(gpu=gpu), Check("tiles", tuple(parts), ("aligned",), 0.5)]


class matmul_tiled(Tiled):
    """One tile of the result a program."""

    benchmarks = tuple(timed(4096, 4096, 4096, dtype) for dtype in HALF)


class matmul(Tiled):
    """At the speed of a library: tiles in grouped order, tuned."""

    benchmarks = tuple(
        timed(*sizes, dtype)
        for sizes in ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 16384))
        for dtype in HALF
    )

    def tiles(self, *, gpu):
        # Large enough for most solutions to tune, and few multiply-adds enough to be interpreted once or twice.
        tuned = Focus(
            "a product to tune for", (8,), force={"M": (1288, 1303), "N": (656, 651), "K": (168, 173)}, dtypes=HALF,
            cap=2**33, share=0.3,
        )  # fmt: skip
        return [*super().tiles(gpu=gpu), tuned]

    def compile_calls(self, example):
        transposed = Focus("compile", (256,), dtypes=HALF[:1], layouts=("transposed",))
        return [*super().compile_calls(example), example(self.inputs.under(transposed)).values()]

    @law("linear")
    def linear(self, trial):
        """A (B + 2 C) = A B + 2 A C, whole numbers."""
        drawn = trial.draw(self.whole.under(self.exact_sizes))
        a, b = drawn["a"], drawn["b"]
        c = b.flip(0)
        at_once, first, second = (trial.run(a, x) for x in (b + 2 * c, b, c))
        trial.same(at_once + 0.0, first + 2 * second + 0.0, "A (B + 2 C) is not A B + 2 A C")

    @law("permuted rows")
    def permuted(self, trial):
        """(A[p]) B = (A B)[p] for a permutation p of the rows, whole numbers."""
        drawn = trial.draw(self.whole.under(self.exact_sizes))
        a, b = drawn["a"], drawn["b"]
        p = torch.tensor(trial.draw(st.permutations(range(len(a)))))
        straight = trial.run(a, b)
        trial.same(trial.run(a[p], b) + 0.0, straight[p] + 0.0, "permuted rows of A do not give permuted rows of A B")
