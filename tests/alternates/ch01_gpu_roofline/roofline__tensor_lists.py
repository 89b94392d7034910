"""Different from the reference: each op lists the tensors that cross the bus; floats decide the bound.

Plain quotients of Python numbers, as most people would write them: the division of integers is correctly
rounded, so equal times compare equal.
"""

from math import prod


def _describe(op, shape):
    """(flops, [shape of each tensor read or written])."""
    if op == "copy":
        (n,) = shape
        return 0, [(n,)] * 2
    if op == "add":
        (n,) = shape
        return n, [(n,)] * 3
    if op == "gemm":
        m, n, k = shape
        return 2 * m * n * k, [(m, k), (k, n), (m, n)]
    if op == "softmax":
        m, n = shape
        return 5 * m * n, [(m, n)] * 2
    if op in ("attn_naive", "attn_flash"):
        b, h, length, d = shape
        tensors = [(b, h, length, d)] * 4
        if op == "attn_naive":
            tensors += [(b, h, length, length)] * 4
        return 4 * b * h * length * length * d + 5 * b * h * length * length, tensors
    raise ValueError(op)


def roofline(op: str, shape: tuple[int, ...], dtype: str, hw: dict) -> dict:
    widths = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
    widths |= {"int64": 8, "int32": 4, "int16": 2, "int8": 1}
    if dtype not in widths:
        raise ValueError(dtype)
    flops, tensors = _describe(op, shape)  # a wrong number of dimensions cannot be unpacked
    if min(shape) < 0:
        raise ValueError(shape)
    total = sum(prod(tensor) for tensor in tensors) * widths[dtype]
    seconds = {"compute": flops / hw["flops"], "memory": total / hw["bytes_per_s"]}
    bound = "compute" if seconds["compute"] > seconds["memory"] else "memory"
    intensity = 0.0 if total == 0 else flops / total
    return {"flops": flops, "bytes": total, "intensity": intensity, "bound": bound, "t_min": seconds[bound]}
