"""The small kernels that the self-test runs; imported after TRITON_INTERPRET=1 is set."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, attr-defined"

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def sum_to(out, n):
    total = 0
    for i in range(0, n, 2):
        total += i
    tl.store(out, total)


@triton.jit
def loop_scalars(out, n):
    total = tl.zeros((1,), tl.int64)
    for i in range(n):
        total += i.to(tl.int64) * 4294967296
    for i in tl.range(0, n, num_stages=2):
        total += i.to(tl.int64)
    tl.store(out + tl.arange(0, 1), total)


@triton.jit
def scalar_arguments(x, out, scale, big, flag):
    tl.store(out, (tl.load(x) * scale).to(tl.float32))
    tl.store(out + 1, (big * 4 // 1048576).to(tl.float32))
    tl.store(out + 2, tl.where(flag, 1.0, 0.0))


@triton.jit
def arithmetic(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    tl.store(out + lanes, a * b + a)
    tl.store(out + N + lanes, a * 0.7)
    tl.store(out + 2 * N + lanes, tl.sum(a, 0) + tl.zeros((N,), a.dtype))


@triton.jit
def cast(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.load(x + lanes).to(out.dtype.element_ty))


@triton.jit
def dot(x, y, out, PRECISION: tl.constexpr):
    square = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    product = tl.dot(tl.load(x + square), tl.load(y + square), input_precision=PRECISION)
    tl.store(out + square, product)


@triton.jit
def nan_extremes(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    tl.store(out + lanes, tl.maximum(a, b))
    tl.store(out + N + lanes, tl.minimum(a, b))
    tl.store(out + 2 * N + lanes, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 3 * N + lanes, tl.clamp(a, -1.0, 1.0))


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def reductions(x, whole, out, index, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, whole_numbers = tl.load(x + lanes), tl.load(whole + lanes)
    slope, offset = tl.reduce((whole_numbers, lanes), 0, affine)
    tl.store(out, tl.max(a, 0))
    tl.store(index, slope)
    tl.store(index + 1, offset)
    tl.store(index + 2, tl.sum(whole_numbers * 1073741824, 0))
    tl.store(index + 3, tl.argmax(whole_numbers, 0))
    _slopes, offsets = tl.associative_scan((whole_numbers, lanes), 0, affine)
    tl.store(index + 4 + lanes, offsets)
    tall = tl.full((1024, 2), 0.1, tl.float32)
    tl.store(out + 1 + tl.arange(0, 2), tl.sum(tall, 0))


@triton.jit
def conditions(x, out, n, N: tl.constexpr):
    lanes = tl.arange(0, N)
    inside = lanes < n and lanes > 0
    tl.store(out + lanes, tl.load(x + lanes), mask=inside or lanes == N - 1)


@triton.jit
def device_library(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, libdevice.tanh(tl.load(x + lanes)))


@triton.autotune(configs=[triton.Config({"N": 2}), triton.Config({"N": 4})], key=["n"])
@triton.jit
def tuned(out, n, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, lanes, mask=lanes < n)


@triton.jit
def asserting(x, N: tl.constexpr):
    tl.device_assert(tl.load(x + tl.arange(0, N)) > 0, "positive")


@triton.jit
def doubling(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.load(x + lanes) * 2)


@triton.jit
def copy(x, out, shift, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.load(x + shift + lanes))
