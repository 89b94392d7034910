"""Overflow, asserts and autotune."""

import torch
import triton
import triton.language as tl

import harness.interpreter as interpreter

INTS = torch.int32


def raises(kind, run):
    try:
        run()
    except Exception as error:
        cause = interpreter.root_cause(error)
        assert isinstance(cause, kind), repr(cause)
        return cause
    raise AssertionError(f"no {kind.__name__}")


# --- overflow


@triton.jit
def calculate(x, y, out, OP: tl.constexpr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(y + lanes)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    elif OP == "mul":
        c = a * b
    elif OP == "unchecked":
        c = tl.add(a, b, sanitize_overflow=False)
    elif OP == "sum":
        c = tl.sum(a, 0) + b * 0
    else:
        c = tl.cumsum(a, 0) + b * 0
    tl.store(out + lanes, c)


def calculated(x, y, op, overflow):
    out = torch.zeros_like(x)
    with interpreter.session(overflow=overflow, addresses=None):
        calculate[(1,)](x, y, out, op, len(x))
    return out


def case_overflow_raises_when_switched_on():
    for dtype in (torch.int32, torch.int64):
        top, low = torch.iinfo(dtype).max, torch.iinfo(dtype).min
        one, two = torch.tensor([0, 1], dtype=dtype), torch.tensor([2, 2], dtype=dtype)
        high, deep = torch.tensor([3, top], dtype=dtype), torch.tensor([3, low], dtype=dtype)
        for x, y, op in ((high, one, "add"), (deep, one, "sub"), (high, two, "mul"), (deep, -one, "add")):
            raises(interpreter.IntegerOverflow, lambda x=x, y=y, op=op: calculated(x, y, op, True))
            exact = {"add": torch.add, "sub": torch.sub, "mul": torch.mul}[op](x, y)
            assert torch.equal(calculated(x, y, op, False), exact)
        assert calculated(high, one, "sub", True).tolist() == [3, top - 1]
        assert calculated(deep, one, "add", True).tolist() == [3, low + 1]
        assert calculated(deep, torch.tensor([2, 1], dtype=dtype), "mul", True).tolist() == [6, low]
        assert calculated(high, one, "unchecked", True).tolist() == [3, low]


def case_overflow_of_a_sum():
    x = torch.tensor([2**30, 2**30], dtype=INTS)
    for op, wrapped in (("sum", [-(2**31)] * 2), ("cumsum", [2**30, -(2**31)])):
        assert calculated(x, x, op, False).tolist() == wrapped
        raises(interpreter.IntegerOverflow, lambda op=op: calculated(x, x, op, True))
    back = torch.tensor([2**31 - 1, 1, -5, 0], dtype=INTS)
    assert calculated(back, back, "sum", True).tolist() == [2**31 - 5] * 4


def case_narrow_and_unsigned_integers_wrap():
    for dtype in (torch.int8, torch.int16, torch.uint8):
        x = torch.tensor([torch.iinfo(dtype).max, 1], dtype=dtype)
        assert torch.equal(calculated(x, x, "add", True), x + x)


@triton.jit
def random_numbers(out, seed, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.rand(seed, lanes))


def case_random_numbers_are_no_overflow():
    out = torch.zeros(256)
    with interpreter.session(overflow=True, addresses=None):
        random_numbers[(1,)](out, 1234, 256)
    assert 0.4 < out.mean() < 0.6 and out.min() >= 0 and out.max() < 1 and len(out.unique()) > 250


# --- asserts


@triton.jit
def asserting(x, n, N: tl.constexpr):
    tl.static_assert(N == 4)
    lanes = tl.arange(0, N)
    tl.device_assert(tl.load(x + lanes) > 0, "must be positive", mask=lanes < n)


@triton.jit
def python_assert(x, N: tl.constexpr):
    assert tl.load(x + tl.arange(0, N)) > 0, "all positive"


def case_device_assert():
    x = torch.tensor([1.0, 2.0, -3.0, 4.0])
    asserting[(1,)](x, 4, 4)  # off outside a session, as without debug
    with interpreter.session(overflow=False, addresses=None):
        asserting[(1,)](x, 2, 4)
        error = raises(interpreter.DeviceAssertFailed, lambda: asserting[(1,)](x, 4, 4))
        assert "must be positive" in str(error) and "(2,)" in str(error) and "asserting" in str(error)
        raises(interpreter.DeviceAssertFailed, lambda: asserting[(1,)](x, 4, 4, debug=False))
        raises(AssertionError, lambda: asserting[(1,)](x, 1, 8))
        raises(interpreter.DeviceAssertFailed, lambda: python_assert[(1,)](x, 4))
        python_assert[(1,)](x.abs(), 4)
    asserting[(1,)](x, 4, 4)


# --- autotune

CONFIGS = [triton.Config({"N": 4}), triton.Config({"N": 8}, num_warps=8)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def tuned_in_place(x, n, N: tl.constexpr):
    for start in range(0, n, N):
        lanes = start + tl.arange(0, N)
        tl.store(x + lanes, tl.load(x + lanes, mask=lanes < n) + 1, mask=lanes < n)


@triton.autotune(configs=CONFIGS, key=["n"], restore_value=["x"])
@triton.heuristics({"M": lambda args: args["N"] * 2})
@triton.jit
def tuned_and_restored(x, n, N: tl.constexpr, M: tl.constexpr):
    for start in range(0, n, M):
        lanes = start + tl.arange(0, M)
        tl.store(x + lanes, tl.load(x + lanes, mask=lanes < n) + 1, mask=lanes < n)


def case_autotune():
    x = torch.zeros(10)
    tuned_in_place[(1,)](x, 10)
    assert x.tolist() == [3.0] * 10  # each configuration once, then the chosen one: a fault of the kernel
    tuned_in_place[(1,)](x, 10)
    tuned_in_place[(1,)](x[:9], 9)
    assert x.tolist() == [5.0] * 9 + [4.0] and tuned_in_place.best_config is CONFIGS[0]
    y = torch.zeros(10)
    tuned_and_restored[lambda meta: (1,)](y, 10)
    tuned_and_restored[(1,)](y, 10)
    assert y.tolist() == [2.0] * 10


# --- options of a launch


@triton.jit
def nothing(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1)


def case_options_that_no_compiler_takes():
    x = torch.zeros(16, dtype=INTS)
    for options in ({"num_warps": 3}, {"num_warps": 0}, {"num_warps": 64}, {"num_warps": 4.0}, {"num_ctas": 3}):
        error = raises(ValueError, lambda options=options: nothing[(1,)](x, 16, **options))
        assert f"{next(iter(options))} must be a power of 2" in str(error)
    for options in ({"num_warps": 1}, {"num_warps": 32, "num_stages": 5}, {"num_ctas": 2}, {"num_warps": None}):
        nothing[(1,)](x, 16, **options)
