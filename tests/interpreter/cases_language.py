"""The kernel language: loops, scalars, truth, libdevice, NaN, reductions, masked loads, errors."""

import inspect
import time

import numpy as numpy_here
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import harness.interpreter as interpreter

NAN = float("nan")
INTS = torch.int32


def raises(kind, run):
    try:
        run()
    except Exception as error:
        cause = interpreter.root_cause(error)
        assert isinstance(cause, kind), repr(cause)
        return cause
    raise AssertionError(f"no {kind.__name__}")


# --- loops and scalars


@triton.jit
def loops(out, n, wide, block: tl.constexpr):
    total = tl.zeros((1,), tl.int64)
    for k in range(0, n, block):
        total += k.to(tl.int64) * 1000
    for k in tl.range(n, num_stages=3):
        total += k
    for k in range(4, 0, -1):
        tl.static_assert(k.dtype == tl.int32)
        total += k * 7
    for k in range(wide - 2, wide):
        tl.static_assert(k.dtype == tl.int64)
        total += k
    for k in tl.static_range(3):
        total += k * block
    for k in range(n, 0):
        total += k
    step = n
    while step > 0:
        total += 1
        step -= 2
    tl.store(out + tl.arange(0, 1), total)


def case_loops():
    out, wide = torch.zeros(1, dtype=torch.int64), 2**40
    loops[(1,)](out, 5, wide, 2)
    expected = 1000 * (0 + 2 + 4) + 10 + 7 * 10 + (2 * wide - 3) + 2 * 3 + 3
    assert out.item() == expected


@triton.jit
def loop_variable_types(x, out, n):
    lanes = tl.arange(0, 4)
    small = tl.load(x + lanes)
    total = tl.zeros((4,), tl.int32)
    for k in range(n):
        product = small * (k + 100)  # int8 by int32: compiled code widens
        tl.static_assert(product.dtype == tl.int32)
        if k % 2 == 0 and k > 0:
            total += product
    tl.store(out + lanes, total)


def case_loop_variables_have_a_type():
    out = torch.zeros(4, dtype=INTS)
    loop_variable_types[(1,)](torch.full((4,), 100, dtype=torch.int8), out, 5)
    assert out.tolist() == [100 * 102 + 100 * 104] * 4


@triton.jit
def arguments(x, out, scale, big, flag, nothing, whole, size: tl.constexpr):
    half = tl.load(x + tl.arange(0, 2))
    product = half * scale  # float16 by a float32 scalar: compiled code widens
    tl.static_assert(product.dtype == tl.float32)
    tl.static_assert(scale.dtype == tl.float32)
    tl.static_assert(big.dtype == tl.int64)
    tl.static_assert(whole.dtype == tl.int32)
    tl.store(out + tl.arange(0, 2), product)
    tl.store(out + 2, (big * 4).to(tl.float32))
    tl.store(out + 3, whole.to(tl.int64) + size)
    if flag:
        tl.store(out + 4, 1.0)
    if nothing is None:
        tl.store(out + 5, 2.0)


def case_scalar_arguments():
    out = torch.zeros(6)
    arguments[(1,)](torch.tensor([1.0, 3.0]).half(), out, 0.1, 2**31 + 2**20, True, None, 7, 5)
    tenth = torch.tensor(0.1)
    assert out.tolist() == [tenth.item(), (3 * tenth).item(), 4.0 * (2**31 + 2**20), 12, 1, 2]


@triton.jit
def places(out, n, block: tl.constexpr):
    tl.store(out + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.num_programs(0))


def case_grids():
    seen = []

    def grid(meta):
        seen.append((type(meta["n"]), meta["n"], meta["block"]))
        return (triton.cdiv(meta["n"], meta["block"]), 2)

    out = torch.zeros(8)
    places[grid](out, 7, block=2)
    assert out.tolist() == [4.0] * 8 and seen == [(int, 7, 2)]
    places[[2]](out, 7, 2)
    places[(0,)](out, 7, 2)
    raises(ValueError, lambda: places[(1, 70_000)](out, 7, 2))


@triton.jit
def divide(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    tl.store(out + lanes, a // b)
    tl.store(out + N + lanes, a % b)
    tl.store(out + 2 * N + lanes, a >> 1)


def case_integer_division_is_that_of_c():
    x = torch.tensor([7, -7, 7, -7, -1, 0, -8, 5], dtype=INTS)
    y = torch.tensor([2, 2, -2, -2, 3, 5, 4, 7], dtype=INTS)
    for dtype in (torch.int32, torch.int64, torch.int8):
        out = torch.zeros(3, 8, dtype=dtype)
        divide[(1,)](x.to(dtype), y.to(dtype), out, 8)
        assert out[0].tolist() == torch.div(x, y, rounding_mode="trunc").tolist()
        assert out[1].tolist() == torch.fmod(x, y).tolist() and out[2].tolist() == (x >> 1).tolist()


# --- truth


@triton.jit
def conditions(out, n, FLAG: tl.constexpr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    inside = lanes >= 2 and lanes < n
    tl.store(out + lanes, 1, mask=inside and FLAG)
    tl.store(out + lanes, 2, mask=not (inside or lanes == 0))
    if n > 100 or FLAG:
        tl.store(out, 3)


def case_and_or_not_are_lane_by_lane():
    out = torch.zeros(8, dtype=INTS)
    conditions[(1,)](out, 5, True, 8)
    assert out.tolist() == [3, 2, 1, 1, 1, 2, 2, 2]
    conditions[(1,)](out, 5, False, 8)
    assert out.tolist() == [3, 2, 1, 1, 1, 2, 2, 2]


@triton.jit
def block_condition(x, N: tl.constexpr):
    if tl.load(x + tl.arange(0, N)) > 0:
        tl.store(x, 1.0)


def case_a_block_is_no_condition():
    raises(interpreter.BlockCondition, lambda: block_condition[(1,)](torch.ones(4), 4))
    one = torch.full((1,), 5.0)
    block_condition[(1,)](one, 1)
    assert one.item() == 1


@triton.jit
def imports(out):
    tl.store(out, 1.0)


def case_the_students_module_gets_no_other_names():
    imports[(1,)](torch.zeros(1))
    assert "np" not in globals() and "math" not in globals() and numpy_here.__name__ == "numpy"


def case_the_compilers_language_comes_back():
    x = torch.ones(8)
    reduce_with[(1,)](x, torch.zeros(2), 8)
    assert tl.core.is_builtin(tl.load) and tl.core.is_builtin(tl.core.load)
    assert tl.core.is_builtin(tl.tensor.__add__)
    assert not inspect.isfunction(tl.range) and not inspect.isfunction(tl.core.range)


# --- libdevice


@triton.jit
def device_library(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    tl.store(out + lanes, libdevice.tanh(a))
    tl.store(out + N + lanes, libdevice.pow(b, 2.0))
    tl.store(out + 2 * N + lanes, libdevice.erf(a))
    tl.store(out + 3 * N + lanes, tl.where(libdevice.isnan(a), 1.0, libdevice.round(a)))
    tl.store(out + 4 * N + lanes, tl.extra.cuda.libdevice.rsqrt(b))


def case_libdevice():
    x, y = torch.tensor([0.5, -1.5, NAN, 30.0]), torch.tensor([1.0, 2.0, 4.0, 0.25])
    out = torch.zeros(5, 4)
    device_library[(1,)](x, y, out, 4)
    expected = [x.tanh(), y**2, x.erf(), torch.tensor([1.0, -2.0, 1.0, 30.0]), y.rsqrt()]
    torch.testing.assert_close(out, torch.stack(expected), equal_nan=True)
    raises(TypeError, lambda: device_library[(1,)](x.half(), y, out, 4))


# --- NaN


@triton.jit
def extremes(x, y, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    tl.store(out + lanes, tl.maximum(a, b))
    tl.store(out + N + lanes, tl.minimum(a, b))
    tl.store(out + 2 * N + lanes, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 3 * N + lanes, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 4 * N + lanes, tl.clamp(a, -1.0, 1.0))


def case_maximum_minimum_and_clamp_drop_nan():
    x, y = torch.tensor([1.0, NAN, 3.0, NAN]), torch.tensor([2.0, 5.0, NAN, NAN])
    for dtype in (torch.float32, torch.float16, torch.float64):
        out = torch.zeros(5, 4, dtype=dtype)
        extremes[(1,)](x.to(dtype), y.to(dtype), out, 4)
        expected = [torch.fmax(x, y), torch.fmin(x, y), torch.maximum(x, y), torch.minimum(x, y)]
        expected.append(torch.tensor([1.0, -1.0, 1.0, -1.0]))
        assert torch.equal(out.float().nan_to_num(99), torch.stack(expected).nan_to_num(99)), out


@triton.jit
def reduce_extremes(x, out, index, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    block = tl.load(x + m[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + m, tl.max(block, 1))
    tl.store(out + M + m, tl.min(block, 1))
    tl.store(index + m, tl.argmax(block, 1))
    tl.store(index + M + m, tl.argmin(block, 1))
    _value, place = tl.max(block, 1, return_indices=True)
    tl.store(index + 2 * M + m, place)


def case_max_and_argmax():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
        x = torch.tensor([[3, 1, 3, 1], [0, 5, 5, 0], [7, 7, 7, 7], [-1, -2, -3, -4]]).to(dtype)
        out, index = torch.zeros(2, 4, dtype=dtype), torch.zeros(3, 4, dtype=INTS)
        reduce_extremes[(1,)](x, out, index, 4, 4)
        assert out.tolist() == [[3, 5, 7, -1], [1, 0, 7, -4]]
        assert index.tolist() == [[0, 1, 0, 0], [1, 0, 0, 3], [0, 1, 0, 0]]
    x = torch.tensor([[NAN, 1, 2, NAN], [NAN] * 4, [float("inf"), NAN, 0, 0], [1, 2, 3, NAN]])
    out, index = torch.zeros(2, 4), torch.zeros(3, 4, dtype=INTS)
    reduce_extremes[(1,)](x, out, index, 4, 4)
    assert out[0, [0, 2, 3]].tolist() == [2, float("inf"), 3] and out[1, [0, 2, 3]].tolist() == [1, 0, 1]
    assert out[:, 1].isnan().all() and ((index >= 0) & (index < 4)).all()


# --- custom reductions


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def branching(a, b):
    if a > b:
        d = a
        c = d
    else:
        c = b
    return c


@triton.jit
def choosing(a, b):
    both = a > 0 and b > 0
    return tl.where(both, a + b, tl.maximum(a, b))


@triton.jit
def reduce_with(x, out, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.reduce(a, 0, branching))
    tl.store(out + 1, a.reduce(0, choosing))


def case_combine_functions_may_branch():
    x = torch.tensor([3.0, -9, 4, 1, -5, 9, 2, 6])
    out = torch.zeros(2)
    reduce_with[(1,)](x, out, 8)
    level = x
    while len(level) > 1:
        a, b = level[0::2], level[1::2]
        level = torch.where((a > 0) & (b > 0), a + b, torch.maximum(a, b))
    assert out.tolist() == [9, level.item()]


@triton.jit
def affine_blocks(x, first, second, everything, scanned, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    place = m[:, None] * N + n[None, :]
    a = tl.load(x + place)
    b = a * 0 + 1
    _p, down = tl.reduce((a, b), 0, affine)
    _p, along = tl.reduce((a, b), axis=-1, combine_fn=affine, keep_dims=True)
    _p, whole = tl.reduce((a, b), None, affine)
    _p, prefix = tl.associative_scan((a, b), 1, affine)
    _p, suffix = tl.associative_scan((a, b), 1, affine, reverse=True)
    tl.store(first + n, down)
    tl.store(second + m[:, None], along)
    tl.store(everything, whole)
    tl.store(scanned + place, prefix)
    tl.store(scanned + M * N + place, suffix)


def fold(rows):
    """Every prefix of the recurrence b <- b * a + 1 along the last axis, from the left."""
    total, found = torch.zeros_like(rows[..., 0]), []
    for k in range(rows.shape[-1]):
        total = total * rows[..., k] + 1
        found.append(total)
    return torch.stack(found, -1)


def case_custom_reductions_keep_the_order():
    torch.manual_seed(4)
    x = torch.randint(-2, 3, (4, 8), dtype=torch.int64)
    first, second, everything = (torch.zeros(n, dtype=torch.int64) for n in (8, 4, 1))
    scanned = torch.zeros(2, 4, 8, dtype=torch.int64)
    affine_blocks[(1,)](x, first, second, everything, scanned, 4, 8)
    assert torch.equal(first, fold(x.T)[:, -1]) and torch.equal(second, fold(x)[:, -1])
    assert everything[0] == fold(x.reshape(-1))[-1]
    assert torch.equal(scanned[0], fold(x)) and torch.equal(scanned[1], fold(x.flip(1)).flip(1))


@triton.jit
def welford(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    return m1 + d * n2 / n, s1 + s2 + d * d * n1 * n2 / n, n


@triton.jit
def variance(x, out, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    _m, s, n = tl.reduce((a, a * 0, a * 0 + 1), 0, welford)
    tl.store(out, s / n)


def case_a_wide_custom_reduction_is_fast():
    x, out = torch.randn(8192), torch.zeros(1)
    variance[(1,)](x, out, 8192)
    start = time.perf_counter()
    variance[(1,)](x, out, 8192)
    assert time.perf_counter() - start < 0.5
    torch.testing.assert_close(out[0], x.var(correction=0))


# --- masked loads


@triton.jit
def masked(x, out, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.load(x + lanes, mask=lanes < 2))
    tl.store(out + N + lanes, tl.load(x + lanes, mask=lanes < 2, other=-1))
    tl.store(out + 2 * N, tl.load(x, mask=lanes.shape[0] < 2, other=0))


def case_lanes_that_are_masked_off():
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int8):
        x, out = torch.tensor([5, 6, 7, 8]).to(dtype), torch.ones(3, 4, dtype=dtype)
        masked[(1,)](x, out, 4)
        assert out.tolist() == [[5, 6, 0, 0], [5, 6, -1, -1], [0, 1, 1, 1]], out
        with interpreter.session(overflow=False, addresses=None, poison_masked=True):
            masked[(1,)](x, out, 4)
        assert out[1].tolist() == [5, 6, -1, -1] and out[2, 0] == 0
        assert out[0, 2].isnan() if dtype.is_floating_point else out[0, 2] > 20


# --- errors


@triton.jit
def helper(x):
    y = x + 1
    tl.device_assert(y < 0, "in a helper")
    return y


@triton.jit
def calling(x):
    value = tl.load(x)
    tl.store(x, helper(value))


@triton.jit
def wrong(x):
    value = tl.load(x)
    tl.store(x, value.no_such_thing)


def case_errors_name_the_students_line():
    lines, here = inspect.getsource(inspect.getmodule(raises)).splitlines(), __file__
    try:
        wrong[(1,)](torch.zeros(1))
    except Exception as error:
        assert isinstance(interpreter.root_cause(error), AttributeError)
        assert "no_such_thing" in lines[interpreter.student_line(error, here) - 1]
        assert interpreter.student_line(error, "/elsewhere.py") is None
    with interpreter.session(overflow=False, addresses=None):
        try:
            calling[(1,)](torch.zeros(1))
        except Exception as error:
            assert "in a helper" in lines[interpreter.student_line(error, here) - 1]
    try:
        torch.zeros(2) + torch.zeros(3)  # on the host
    except RuntimeError as error:
        assert interpreter.root_cause(error) is error
        assert "on the host" in lines[interpreter.student_line(error, here) - 1]


# --- what is built once


def seen(kind):
    """A type, and a tensor of it, by all that a kernel can ask of them."""
    tensor = tl.tensor(None, kind)
    shape = [(type(size), size.value) for size in tensor.shape.values]
    return (
        type(kind), str(kind), str(kind.scalar), kind == tl.float32, kind.is_block() and list(kind.shape.values),
        getattr(kind, "numel", None), shape, tensor.numel.value, str(tensor.dtype), tensor.type is kind,
    )  # fmt: skip


def case_what_is_built_once_is_what_stock_builds():
    from harness.interpreter import launch

    elements = [tl.int1, tl.int32, tl.bfloat16, tl.pointer_type(tl.float32), tl.pointer_type(tl.int64)]
    shapes = [[16], [4, 8], [tl.constexpr(2), 4], tl.tuple([1, 32]), [1, 1]]

    def build():
        blocks = [tl.block_type(element, shape) for element in elements for shape in shapes]
        blocks += [block.with_element_ty(tl.float16) for block in blocks]
        return [seen(kind) for kind in (*elements, *blocks)]

    def refused(shape):
        try:
            tl.block_type(tl.int32, shape)
        except Exception as error:
            return type(error)
        return None

    odd = [[], [3], [2.0], [True], [4, 0], (4, 8)]
    plain, said = build(), [refused(shape) for shape in odd]
    with launch.language_patch().on():
        for _ in range(3):
            assert build() == plain
            assert [refused(shape) for shape in odd] == said
    assert build() == plain
