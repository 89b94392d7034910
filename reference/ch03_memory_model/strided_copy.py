"""strided_copy: any view of up to four dimensions into new contiguous memory, bit for bit.

A copy does no arithmetic, so its whole cost is memory traffic, and the traffic is decided by which lanes
of a warp touch which addresses. The kernel below moves a two-dimensional tile:

    columns   the last dimension: neighbours in the *output*, so stores along it are coalesced;
    rows      another one. Where the *input* has its neighbours along it (a transposed view), the tile is
              read in that direction and turned round on the chip by `tl.trans`.

The two dimensions left over are found from the program's number, once a program and not once an element.
"""

import torch
import triton
import triton.language as tl

# A copy moves bits. Seen as integers, a NaN keeps its payload and a bool its byte, and four kernels serve
# eight dtypes.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_TILE_BYTES = 16384  # 128 bytes in flight for each of 128 threads: eight loads of 16 bytes
_WARPS = 4


@triton.jit
def _copy_tile(
    x_ptr, y_ptr,
    size_b, rows, cols,
    x_stride_a, x_stride_b, x_stride_r, x_stride_c,
    y_stride_a, y_stride_b, y_stride_r,
    VEC: tl.constexpr, TURNED: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    # All tiles are on axis 0 of the grid: axes 1 and 2 end at 65,535 programs.
    pid = tl.program_id(0)
    tiles_c = tl.cdiv(cols, BLOCK_C)
    tiles_r = tl.cdiv(rows, BLOCK_R)
    tile_c = pid % tiles_c
    pid = pid // tiles_c
    tile_r = pid % tiles_r
    pid = pid // tiles_r
    # int64 from here on: an index times a stride passes 2**31 long before either of them does.
    b = (pid % size_b).to(tl.int64)
    a = (pid // size_b).to(tl.int64)
    r = tile_r.to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tile_c.to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)

    # The host has divided the strides that cross lines by VEC. Multiplying by a constant tells the
    # compiler that every line starts on a multiple of VEC elements; with that (and a near stride of 1) it
    # loads 16 bytes at a time.
    x_ptr += (a * x_stride_a + b * x_stride_b) * VEC
    y_ptr += a * y_stride_a + b * y_stride_b

    if TURNED:
        # The input's neighbours lie along r: put r last in the tile that is read, then exchange the two.
        mask = (c[:, None] < cols) & (r[None, :] < rows)
        tile = tl.load(x_ptr + c[:, None] * x_stride_c * VEC + r[None, :] * x_stride_r, mask=mask)
        tile = tl.trans(tile)
    else:
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        tile = tl.load(x_ptr + r[:, None] * x_stride_r * VEC + c[None, :] * x_stride_c, mask=mask)

    mask = (r[:, None] < rows) & (c[None, :] < cols)
    tl.store(y_ptr + r[:, None] * y_stride_r + c[None, :], tile, mask=mask)


def _merged(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(size, stride) of the fewest dimensions that visit the same addresses in the same order.

    Dimensions of size 1 vanish. Two neighbours are one dimension where a step of the outer one is a whole
    walk along the inner one; so a contiguous tensor, and also a wholly expanded one, ends as a single
    dimension.
    """
    merged: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged or [(1, 1)]


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    """A new contiguous tensor with x's shape, dtype and bits; x has 0 to 4 dimensions and any strides."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    dims = _merged(tuple(x.shape), tuple(x.stride()))

    # (size, input stride, output stride) of each dimension; the output is contiguous over the merged
    # dimensions.
    walk: list[tuple[int, int, int]] = []
    y_stride = 1
    for size, stride in reversed(dims):
        walk.insert(0, (size, stride, y_stride))
        y_stride *= size

    column = walk.pop()
    if not walk:
        walk = [(1, 0, 0)]
    nearest = min((d for d in walk if d[1] > 0), key=lambda d: d[1], default=None)
    turned = nearest is not None and nearest[1] < column[1]
    # Where nothing has to be turned the longest dimension is the best second side: it fills its tiles.
    row = nearest if nearest is not None and turned else max(walk, key=lambda d: d[0])
    walk.remove(row)
    (size_a, x_stride_a, y_stride_a), (size_b, x_stride_b, y_stride_b) = [(1, 0, 0)] * (2 - len(walk)) + walk
    rows, x_stride_r, y_stride_r = row
    cols, x_stride_c, _ = column

    # Few different tiles, so that few kernels are compiled.
    elements = _TILE_BYTES // x.element_size()
    if turned:
        block_c = 64
        block_r = min(64, elements // block_c)
    else:
        block_c = elements if rows == 1 else 16 if cols <= 16 else 128 if cols <= 128 else 1024
        block_r = elements // block_c

    # 16 bytes is the widest load of a lane. Lines that all start on such a boundary can be read that way.
    vec = 16 // x.element_size()
    far = [x_stride_a, x_stride_b, x_stride_c if turned else x_stride_r]
    if any(stride % vec for stride in far):
        vec = 1
    x_stride_a, x_stride_b = x_stride_a // vec, x_stride_b // vec
    if turned:
        x_stride_c //= vec
    else:
        x_stride_r //= vec

    bits = _BITS[x.element_size()]
    tiles = size_a * size_b * triton.cdiv(rows, block_r) * triton.cdiv(cols, block_c)
    with torch.cuda.device_of(x):  # the launch goes to the current device, which may be another one
        _copy_tile[(tiles,)](
            x.view(bits), y.view(bits),
            size_b, rows, cols,
            x_stride_a, x_stride_b, x_stride_r, x_stride_c,
            y_stride_a, y_stride_b, y_stride_r,
            VEC=vec, TURNED=turned, BLOCK_R=block_r, BLOCK_C=block_c, num_warps=_WARPS,
        )  # fmt: skip
    return y
