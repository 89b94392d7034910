"""transpose: x[M, N] -> y[N, M], contiguous, bit for bit.

Either the reads or the writes of an element-by-element transpose jump by a whole line from lane to lane,
and a jump costs a sector of 32 bytes for 2 useful ones. The way out is a tile: read it along the input's
lines, exchange its two dimensions on the chip (`tl.trans`; the compiler goes through shared memory with
swizzled, conflict-free addresses), write it along the output's lines. Both sides then move whole sectors.
"""

import torch
import triton
import triton.language as tl

# A copy moves bits. Seen as integers, a NaN keeps its payload and a bool its byte, and four kernels serve
# eight dtypes.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# The side of the square tile, by bytes an element: a side is 128 bytes or more, so four whole sectors,
# both ways; a tile is 8 to 16 KiB, so that many programs share an SM and their loads and stores overlap.
_SIDE = {1: 128, 2: 64, 4: 64, 8: 32}
_WARPS = 4


@triton.jit
def _transpose_tile(
    x_ptr, y_ptr, M, N, x_stride_m, x_stride_n, y_stride_n,
    TURN: tl.constexpr, SIDE: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    # Programs that run together should touch long pieces of few lines in both matrices. In plain row
    # order they would read whole lines of x but write single tiles into every line of y; so tiles go in
    # bands of GROUP tile rows. All of them are on axis 0 of the grid: axes 1 and 2 end at 65,535
    # programs.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, SIDE)
    tiles_n = tl.cdiv(N, SIDE)
    band = pid // (GROUP * tiles_n)
    within = pid % (GROUP * tiles_n)
    height = tl.minimum(tiles_m - band * GROUP, GROUP)  # the last band may be lower
    tile_m = band * GROUP + within % height
    tile_n = within // height

    # int64: m * x_stride_m passes 2**31 although M, N and the stride do not.
    m = tile_m.to(tl.int64) * SIDE + tl.arange(0, SIDE)
    n = tile_n.to(tl.int64) * SIDE + tl.arange(0, SIDE)

    if TURN:
        # Lines of x lie along n: the tile is read as [m, n], neighbours last, and turned.
        mask = (m[:, None] < M) & (n[None, :] < N)
        tile = tl.load(x_ptr + m[:, None] * x_stride_m + n[None, :] * x_stride_n, mask=mask)
        tile = tl.trans(tile)
    else:
        # x is itself a transposed view: its lines already lie as y's do, and nothing has to be turned.
        mask = (n[:, None] < N) & (m[None, :] < M)
        tile = tl.load(x_ptr + n[:, None] * x_stride_n + m[None, :] * x_stride_m, mask=mask)

    mask = (n[:, None] < N) & (m[None, :] < M)
    tl.store(y_ptr + n[:, None] * y_stride_n + m[None, :], tile, mask=mask)


def transpose(x: torch.Tensor) -> torch.Tensor:
    """y[n, m] = x[m, n]: a new contiguous tensor [N, M] with x's dtype and bits; x has any strides."""
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    stride_m, stride_n = x.stride()
    # Read along the shorter stride. A stride of 0 (an expanded dimension) is the same address again:
    # shortest of all.
    turn = stride_n <= stride_m
    side = _SIDE[x.element_size()]
    bits = _BITS[x.element_size()]
    tiles = triton.cdiv(M, side) * triton.cdiv(N, side)
    with torch.cuda.device_of(x):  # the launch goes to the current device, which may be another one
        _transpose_tile[(tiles,)](
            x.view(bits), y.view(bits), M, N, stride_m, stride_n, M,
            TURN=turn, SIDE=side, GROUP=16, num_warps=_WARPS,
        )  # fmt: skip
    return y
