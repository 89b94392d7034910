"""The roofline model: how long an operator takes at the least, and what holds it back.

Two counts describe the operator, two rates the machine:

    flops   arithmetic operations        hw["flops"]         operations a second
    bytes   traffic to and from DRAM     hw["bytes_per_s"]   bytes a second

If arithmetic and traffic overlap perfectly, the longer of the two decides: t_min = max(flops / F, bytes / B).
Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4),
2009.
"""

from collections.abc import Callable
from fractions import Fraction

# Bytes an element takes, by torch's names for the dtypes.
ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
}  # fmt: skip

# What one element of a softmax costs: maximum, subtraction, exponential, sum, division.
SOFTMAX_STEPS = 5


def copy(n: int) -> tuple[int, int]:
    """(operations, elements moved): no arithmetic; each element is read once and written once."""
    return 0, 2 * n


def add(n: int) -> tuple[int, int]:
    """One addition an element; two elements read for each one written."""
    return n, 3 * n


def gemm(m: int, n: int, k: int) -> tuple[int, int]:
    """A[M, K] @ B[K, N]: a multiplication and an addition a term; A, B and C cross the bus once each."""
    return 2 * m * n * k, m * k + k * n + m * n


def softmax(m: int, n: int) -> tuple[int, int]:
    """The fused kernel: read a row, do everything on the chip, write the row."""
    return SOFTMAX_STEPS * m * n, 2 * m * n


def attn_naive(b: int, h: int, length: int, d: int) -> tuple[int, int]:
    """Three kernels a head, S = Q K^T, P = softmax(S), O = P V: S and P go out to DRAM and come back.

    Written as the sum of its parts, because that is what it is.
    """
    parts = gemm(length, length, d), softmax(length, length), gemm(length, d, length)
    flops, elements = (sum(column) for column in zip(*parts, strict=True))
    return b * h * flops, b * h * elements


def attn_flash(b: int, h: int, length: int, d: int) -> tuple[int, int]:
    """The same arithmetic; S and P never leave the chip, so only Q, K, V and O are moved."""
    flops, _ = attn_naive(b, h, length, d)
    return flops, 4 * b * h * length * d


# op -> (number of dimensions, its counts)
OPS: dict[str, tuple[int, Callable[..., tuple[int, int]]]] = {
    "copy": (1, copy),
    "add": (1, add),
    "gemm": (3, gemm),
    "softmax": (2, softmax),
    "attn_naive": (4, attn_naive),
    "attn_flash": (4, attn_flash),
}


def roofline(op: str, shape: tuple[int, ...], dtype: str, hw: dict) -> dict:
    """The counts, the intensity, the bound and the least time of `op` on `hw`.

    Returns flops (int), bytes (int), intensity (float, operations a byte), bound ("memory" or "compute") and
    t_min (float, seconds) as a dict. Raises ValueError for an unknown op or dtype, a wrong number of
    dimensions or a negative one.
    """
    if op not in OPS:
        raise ValueError(f"op must be one of {', '.join(OPS)} (got {op!r})")
    if dtype not in ITEMSIZE:
        raise ValueError(f"dtype must be one of {', '.join(ITEMSIZE)} (got {dtype!r})")
    arity, count = OPS[op]
    if len(shape) != arity:
        raise ValueError(f"{op} takes {arity} dimensions (got {len(shape)}: {shape})")
    if any(dim < 0 for dim in shape):
        raise ValueError(f"a dimension must not be negative (got {shape})")

    # Python's integers are exact at any size; a float would lose the last digits of anything past 2**53.
    flops, elements = count(*shape)
    traffic = elements * ITEMSIZE[dtype]

    # Fractions, not quotients of floats: at the ridge itself the two times are equal, and rounding must not
    # say otherwise.
    t_compute = Fraction(flops) / Fraction(hw["flops"])
    t_memory = Fraction(traffic) / Fraction(hw["bytes_per_s"])
    return {
        "flops": flops,
        "bytes": traffic,
        "intensity": flops / traffic if traffic else 0.0,
        "bound": "compute" if t_compute > t_memory else "memory",
        "t_min": float(max(t_compute, t_memory)),
    }
