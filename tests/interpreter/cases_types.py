"""Numbers: bfloat16, float16, float8, casts, sums, dot, atomics."""

import numpy as np
import torch
import triton
import triton.language as tl

LOW = (torch.bfloat16, torch.float16)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    """Equal bits, but for the sign and payload of NaN."""
    assert a.dtype == b.dtype and a.shape == b.shape
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.itemsize]
    a, b = a.contiguous(), b.contiguous()
    both_nan = a.float().isnan() & b.float().isnan()
    wrong = ~(both_nan | (a.view(bits) == b.view(bits)))
    assert not wrong.any(), (int(wrong.sum()), a[wrong][:5], b[wrong][:5])


def saturate(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    largest = torch.finfo(dtype).max
    return values.float().clamp(-largest, largest).to(dtype)


@triton.jit
def cast(x, y, ROUNDING: tl.constexpr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(y + lanes, tl.cast(tl.load(x + lanes), y.dtype.element_ty, fp_downcast_rounding=ROUNDING))


def casted(x: torch.Tensor, dtype: torch.dtype, rounding: str | None = None) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=dtype)
    cast[(1,)](x, y, rounding, x.numel())
    return y


def patterns(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def float32_grid() -> list[torch.Tensor]:
    """All 65,536 upper halves with lower halves about ties, of bfloat16, float16 and both float8 types."""
    upper = np.arange(65536, dtype=np.uint32) << 16
    lower = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x0FFF, 0x1000, 0x1001, 0x3000)
    return [torch.from_numpy((upper | low).astype(np.uint32).view(np.float32)) for low in lower]


def case_every_16_bit_pattern_widens_as_in_torch():
    for dtype in LOW:
        same(casted(patterns(dtype), torch.float32), patterns(dtype).float())


def case_every_8_bit_pattern_widens_as_in_torch():
    for dtype in FP8:
        x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
        same(casted(x, torch.float32), x.float())
        same(casted(x, torch.bfloat16), x.to(torch.bfloat16))


def case_float32_narrows_as_in_torch():
    for x in float32_grid():
        for dtype in LOW:
            same(casted(x, dtype), x.to(dtype))


def case_float32_to_float8_rounds_as_in_torch_and_saturates_as_on_the_gpu():
    for x in float32_grid():
        for dtype in FP8:
            same(casted(x, dtype), saturate(x, dtype))


def case_every_16_bit_pattern_converts_across():
    for source in LOW:
        x = patterns(source)
        for target in LOW:
            same(casted(x, target), x.float().to(target))
        for target in FP8:
            same(casted(x, target), saturate(x, target))


def case_rounding_toward_zero():
    for x in float32_grid()[:6]:
        finite = torch.where(x.isfinite(), x, 1.0)
        truncated = (finite.view(torch.int32) & -65536).view(torch.float32).to(torch.bfloat16)
        same(casted(finite, torch.bfloat16, "rtz"), truncated)
    largest = casted(torch.tensor([1e5, -1e5]), torch.float16, "rtz")
    assert largest.tolist() == [65504.0, -65504.0]


def case_float_to_int_saturates_and_nan_is_zero():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 3e9, -3e9, -1.9, 1.9, 2147483520.0])
    top, low = 2**31 - 1, -(2**31)
    assert casted(x, torch.int32).tolist() == [0, top, low, top, low, -1, 1, 2147483520]
    assert casted(torch.tensor([1e30, -1e30]), torch.int64).tolist() == [2**63 - 1, -(2**63)]
    assert casted(torch.tensor([-3.0, 5.0]), torch.uint8).tolist()[1] == 5
    assert casted(torch.tensor([-3.7, 100.2]), torch.int8).tolist() == [-3, 100]


def case_int_to_float():
    x = torch.tensor([0, 1, -257, 65537, 2**31 - 1, -(2**31), 259, 3], dtype=torch.int32)
    for dtype in (torch.float32, torch.float16):
        same(casted(x, dtype), x.to(dtype))
    same(casted(x[:3].repeat(4)[:8], torch.bfloat16), x[:3].repeat(4)[:8].to(torch.bfloat16))


@triton.jit
def arithmetic(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    tl.store(out + lanes, a + b)
    tl.store(out + N + lanes, a - b)
    tl.store(out + 2 * N + lanes, a * b)
    tl.store(out + 3 * N + lanes, a / b)
    tl.store(out + 4 * N + lanes, -a)
    tl.store(out + 5 * N + lanes, tl.abs(a))
    tl.store(out + 6 * N + lanes, tl.where(a > b, a, b))
    tl.store(out + 7 * N + lanes, tl.maximum(a, b))


def case_low_precision_arithmetic():
    torch.manual_seed(0)
    for dtype in LOW:
        x, y = torch.randn(2, 4096).to(dtype)
        out = torch.empty(8, 4096, dtype=dtype)
        arithmetic[(1,)](x, y, out, 4096)
        quotient = (x.float() / y.float()).to(dtype)
        rows = [x + y, x - y, x * y, quotient, -x, x.abs(), torch.maximum(x, y), torch.maximum(x, y)]
        same(out, torch.stack(rows))


@triton.jit
def constants(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a = tl.load(x + lanes, mask=lanes < 4, other=0.3)
    tl.static_assert((a * 0.1).dtype == x.dtype.element_ty)
    tl.static_assert((2 - a).dtype == x.dtype.element_ty)
    tl.store(out + lanes, a * 0.1)
    tl.store(out + N + lanes, 2 - a)
    tl.store(out + 2 * N + lanes, tl.full((N,), 0.7, x.dtype.element_ty) + tl.zeros_like(a))
    tl.store(out + 3 * N + lanes, (a > 0).to(x.dtype.element_ty) + a)


def case_python_numbers_take_the_blocks_type():
    for dtype in LOW:
        x = torch.tensor([1.0, -2.0, 3.5, 0.1, 9, 9, 9, 9], dtype=dtype)
        out = torch.empty(4, 8, dtype=dtype)
        constants[(1,)](x, out, 8)
        x[4:] = 0.3
        number = torch.tensor([0.1, 0.7], dtype=dtype)
        same(out, torch.stack([x * number[0], 2 - x, number[1].expand(8), (x > 0).to(dtype) + x]))


def pairwise(x: torch.Tensor) -> torch.Tensor:
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x[..., 0]


@triton.jit
def sums(x, rows, columns, everything, M: tl.constexpr, N: tl.constexpr):
    block = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(rows + tl.arange(0, M), tl.sum(block, 1))
    tl.store(columns + tl.arange(0, N), tl.sum(block, axis=0))
    tl.store(everything, tl.sum(tl.sum(block, 1, keep_dims=True)))


def case_sums_are_pairwise_in_their_own_type():
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        x = torch.rand(16, 256).to(dtype)
        rows, columns, everything = (torch.empty(n, dtype=dtype) for n in (16, 256, 1))
        sums[(1,)](x, rows, columns, everything, 16, 256)
        same(rows, pairwise(x))
        same(columns, pairwise(x.T))
        same(everything[0], pairwise(pairwise(x)))


@triton.jit
def scans(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a = tl.load(x + lanes)
    tl.store(out + lanes, tl.cumsum(a, 0))
    tl.store(out + N + lanes, tl.cumsum(a, 0, reverse=True))
    tl.store(out + 2 * N + lanes, tl.cumprod(a, 0))


def case_scans():
    x = torch.tensor([1.0, 2, 0.5, 4, 1, 1, 3, 2])
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
        y = (x * 2).to(dtype)
        out = torch.empty(3, 8, dtype=dtype)
        scans[(1,)](y, out, 8)
        expected = [y.cumsum(0), y.flip(0).cumsum(0).flip(0), y.cumprod(0)]
        assert torch.equal(out.double(), torch.stack(expected).double())


@triton.jit
def dot(x, y, out, PRECISION: tl.constexpr, OUT: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * M + m[None, :])
    tl.store(out + m[:, None] * M + m[None, :], tl.dot(a, b, input_precision=PRECISION, out_dtype=OUT))


def dotted(x, y, precision="ieee", out=tl.float32, dtype=torch.float32):
    result = torch.empty(x.shape[0], x.shape[0], dtype=dtype)
    dot[(1,)](x, y, result, precision, out, x.shape[0], x.shape[1])
    return result


def case_dot_accumulates_in_float32():
    torch.manual_seed(2)
    x, y = torch.randn(16, 256), torch.randn(256, 16)
    for dtype in (torch.bfloat16, torch.float16, *FP8):
        a, b = x.to(dtype), y.to(dtype)
        exact = a.double() @ b.double()
        error = (dotted(a, b) - exact).abs().max() / (a.double().abs() @ b.double().abs()).max()
        assert error < 1e-6, (dtype, error)


def case_dot_precision_of_float32():
    torch.manual_seed(3)
    x, y = torch.randn(16, 64), torch.randn(64, 16)
    exact, size = x.double() @ y.double(), x.double().abs() @ y.double().abs()
    error = {p: ((dotted(x, y, p) - exact).abs() / size).max().item() for p in ("tf32", "tf32x3", "ieee")}
    assert error["ieee"] < 1e-6 and error["tf32x3"] < 1e-6
    assert 1e-5 < error["tf32"] < 2**-9
    nan = torch.full((16, 64), float("nan"))
    assert dotted(nan, y, "tf32").isnan().all()


def case_dot_with_a_float16_accumulator_rounds():
    x, y = torch.ones(16, 4096, dtype=torch.float16), torch.ones(4096, 16, dtype=torch.float16) * 0.6
    narrow = dotted(x, y, out=tl.float16, dtype=torch.float16)
    assert abs(narrow[0, 0].item() - 2457.6) > 0.4  # each of the 256 steps rounds to 11 bits
    assert abs(dotted(x, y)[0, 0].item() - 4096 * float(y[0, 0])) < 1e-2


def case_dot_of_int8():
    x = torch.randint(-128, 128, (16, 32), dtype=torch.int8)
    y = torch.randint(-128, 128, (32, 16), dtype=torch.int8)
    assert torch.equal(dotted(x, y, out=tl.int32, dtype=torch.int32), x.int() @ y.int())


@triton.jit
def add_atomically(out, index, value, before, N: tl.constexpr):
    lanes = tl.arange(0, N)
    amount = tl.load(value + lanes)
    old = tl.atomic_add(out + tl.load(index + lanes), amount, mask=lanes < N - 1)
    tl.store(before + lanes, old)


def case_atomic_add():
    index = torch.tensor([0, 1, 0, 0, 2, 1, 0, 2])
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
        value = torch.tensor([1, 2, 3, 4, 5, 6, 7, 80]).to(dtype)
        out, before = torch.zeros(3, dtype=dtype), torch.zeros(8, dtype=dtype)
        add_atomically[(1,)](out, index, value, before, 8)
        assert out.tolist() == [15, 8, 5]
        assert before[:7].tolist() == [0, 0, 1, 4, 0, 2, 8]


@triton.jit
def fused(x, y, z, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.fma(tl.load(x + lanes), tl.load(y + lanes), tl.load(z + lanes)))


def case_fma_rounds_once():
    x, z = torch.full((4,), 1.0 + 2.0**-12), torch.full((4,), -1.0)
    out = torch.empty(4)
    fused[(1,)](x, x, z, out, 4)
    same(out, (x.double() * x.double() + z.double()).float())


@triton.jit
def sorting(x, out, best, N: tl.constexpr, K: tl.constexpr):
    lanes = tl.arange(0, N)
    a = tl.load(x + lanes)
    tl.store(out + lanes, tl.sort(a))
    tl.store(best + tl.arange(0, K), tl.topk(a, K))


def case_sort_and_topk():
    for dtype in (torch.float32, torch.int32, torch.float16):
        x = torch.randperm(64).to(dtype)
        out, best = torch.empty_like(x), torch.empty(8, dtype=dtype)
        sorting[(1,)](x, out, best, 64, 8)
        assert torch.equal(out, x.sort()[0]) and torch.equal(best, x.topk(8)[0])


@triton.jit
def scaled(a, sa, b, sb, out, M: tl.constexpr, K: tl.constexpr):
    m, k, s = tl.arange(0, M), tl.arange(0, K), tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * M + m[None, :])
    scales = m[:, None] * (K // 32) + s[None, :]
    xs, ys = tl.load(sa + scales), tl.load(sb + scales)
    tl.store(out + m[:, None] * M + m[None, :], tl.dot_scaled(x, xs, "e4m3", y, ys, "e4m3"))


def case_dot_scaled_where_the_interpreter_has_it():
    if not hasattr(triton.runtime.interpreter.InterpreterBuilder, "create_dot_scaled"):
        return
    a, b = torch.randn(16, 64).to(FP8[0]), torch.randn(64, 16).to(FP8[0])
    sa, sb = (torch.randint(120, 130, (16, 2), dtype=torch.uint8) for _ in range(2))
    out = torch.empty(16, 16)
    scaled[(1,)](a, sa, b, sb, out, 16, 64)
    wide_a = a.double() * (2.0 ** (sa.double() - 127)).repeat_interleave(32, 1)
    wide_b = b.double() * (2.0 ** (sb.double() - 127)).repeat_interleave(32, 1).T
    torch.testing.assert_close(out.double(), wide_a @ wide_b, rtol=1e-5, atol=1e-4)
