"""Exercise ch01.roofline: count first, measure later.

The roofline model says how long an operator takes at the least, and what holds it back, from two counts and
two rates:

    flops   arithmetic operations that the operator does
    bytes   bytes that it reads from and writes to DRAM
    hw["flops"]         operations a second of the machine    (a positive int or float)
    hw["bytes_per_s"]   bytes a second of its DRAM            (a positive int or float)

There is no kernel in this exercise: it is plain Python.

The counts (each tensor is read or written once where it says so, whatever a cache might save):

    op          shape         flops                   elements read and written
    copy        (n,)          0                       read n, write n
    add         (n,)          n                       read n and n, write n
    gemm        (M, N, K)     2 M N K                 read A[M, K] and B[K, N], write C[M, N]
    softmax     (M, N)        5 M N                   read x[M, N], write y[M, N]
    attn_naive  (B, H, L, D)  B H (4 L L D + 5 L L)   a head: read Q and K, write S; read S, write P;
                                                      read P and V, write O
    attn_flash  (B, H, L, D)  B H (4 L L D + 5 L L)   a head: read Q, K and V, write O; no S, no P

In a head Q, K, V and O are [L, D], the scores S and their softmax P are [L, L].
The 5 of the softmax are maximum, subtraction, exponential, sum and division, one operation each for each
element, also in a row of one element. The scale of attention is not counted. Nothing else is special about a
dimension of 0: every product with it is 0 (attn_flash with D = 0 moves 0 bytes but still does 5 B H L L
operations).

Every tensor has the same dtype. Bytes an element:

    float64 8   float32 4   float16 2   bfloat16 2   float8_e4m3fn 1   float8_e5m2 1
    int64 8     int32 4     int16 2     int8 1
"""


def roofline(op: str, shape: tuple[int, ...], dtype: str, hw: dict) -> dict:
    """The counts, the intensity, the bound and the least time of `op` on `hw`.

    Returns a dict with exactly these keys:

        "flops"      int, exact also beyond 2**53
        "bytes"      int, exact also beyond 2**53
        "intensity"  float, flops / bytes; 0.0 where bytes is 0
        "bound"      "compute" if flops / hw["flops"] > bytes / hw["bytes_per_s"], else "memory"; so a tie is
                     "memory" (Python rounds int / int correctly: equal times compare equal)
        "t_min"      float, seconds: the larger of the two times, since arithmetic and traffic overlap

    Raises ValueError for an unknown op, an unknown dtype, a wrong number of dimensions or a negative
    dimension. Dimensions are graded from 0 to 2**17. `hw` is not changed.

    Example:

        >>> roofline("add", (1000,), "float32", {"flops": 1e12, "bytes_per_s": 1e12})
        {'flops': 1000, 'bytes': 12000, 'intensity': 0.08333333333333333, 'bound': 'memory', 't_min': 1.2e-08}
    """
    # TODO 1: refuse an op, a dtype, a number of dimensions or a dimension that the contract does not know.
    # TODO 2: count flops and elements of each op with integers only.
    # TODO 3: elements to bytes, then the two times, and from them the bound and t_min.
    raise NotImplementedError("ch01.roofline")
