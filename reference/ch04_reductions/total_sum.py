"""total_sum: the sum of all elements of a tensor, in two passes and with the same bits every time.

Pass 1 gives each of at most MAX_PARTS programs a share of the elements; each writes one partial sum. Pass 2,
a single program, adds the partial sums. No atomics: which float32 additions are done, and in which order,
depends on the shape alone and never on which program happens to finish first, so the result repeats to the
last bit.
"""

import torch
import triton
import triton.language as tl

# A bound on the workspace (4 KiB) that does not grow with x, and about 8 programs for each of the 132 SMs of
# an H200.
MAX_PARTS = 1024
TILE_BYTES = 16384  # what a program has in flight: 64 bytes for each of its 256 threads
NUM_WARPS = 8
MAX_DIMS = 4  # a kernel has a fixed list of arguments; what has more dimensions, after merging, is copied


@triton.jit
def partial_sums_kernel(
    x_ptr,
    parts_ptr,
    count,  # elements of x
    steps,  # blocks each program walks through, from the host
    size_1,
    size_2,
    size_3,
    stride_0,
    stride_1,
    stride_2,
    stride_3,
    NUM_DIMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part = tl.program_id(0)
    parts = tl.num_programs(0)
    lanes = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(steps):
        # Programs take turns (a grid-stride loop): at any time all of them read one contiguous piece of
        # memory. The index has 64 bits, because x may have more than 2**31 elements.
        flat = (part.to(tl.int64) + step * parts) * BLOCK + lanes
        inside = flat < count
        if NUM_DIMS == 1:
            offsets = flat * stride_0
        else:
            # The flat index in row-major order, taken apart from the innermost dimension outwards.
            offsets = (flat % size_3) * stride_3
            rest = flat // size_3
            offsets += (rest % size_2) * stride_2
            rest = rest // size_2
            offsets += (rest % size_1) * stride_1
            offsets += (rest // size_1) * stride_0
        acc += tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    # Every program writes its part, also one that had no element to add: pass 2 reads all of them.
    tl.store(parts_ptr + part, tl.sum(acc, axis=0))


@triton.jit
def add_parts_kernel(parts_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    values = tl.load(parts_ptr + lanes, mask=lanes < parts, other=0.0)
    tl.store(out_ptr, tl.sum(values, axis=0))


def merged_layout(x: torch.Tensor) -> list[tuple[int, int]]:
    """(size, stride) of the fewest dimensions that visit the same elements, the largest stride first.

    A sum over everything does not care for the order of the dimensions. So they are sorted by stride, and two
    neighbours become one where the outer one goes on exactly where the inner one ends. A tensor without gaps,
    in whatever order its dimensions are, comes out as one dimension of stride 1.
    """
    dims = sorted(
        ((size, stride) for size, stride in zip(x.shape, x.stride(), strict=True) if size != 1),
        key=lambda dim: dim[1],
        reverse=True,
    )
    merged: list[tuple[int, int]] = []
    for size, stride in dims:
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged or [(1, 1)]


def total_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of all elements of x (float32, float16, bfloat16; any shape and strides) as a 0-d float32."""
    count = x.numel()
    layout = merged_layout(x) if count else [(0, 1)]
    if len(layout) > MAX_DIMS:
        x = x.contiguous()
        layout = [(count, 1)]
    num_dims = 1 if len(layout) == 1 else MAX_DIMS
    layout = [(1, 0)] * (num_dims - len(layout)) + layout  # pad on the outside: size 1 adds no offset
    sizes = [size for size, _ in layout] + [1] * (MAX_DIMS - num_dims)
    strides = [stride for _, stride in layout] + [0] * (MAX_DIMS - num_dims)

    block = min(TILE_BYTES // x.element_size(), triton.next_power_of_2(max(count, 1)))
    blocks = triton.cdiv(count, block)
    parts = max(1, min(MAX_PARTS, blocks))  # one program also for an empty x, so that its part is written
    workspace = torch.empty(parts, dtype=torch.float32, device=x.device)
    out = torch.empty((), dtype=torch.float32, device=x.device)
    partial_sums_kernel[(parts,)](
        x,
        workspace,
        count,
        triton.cdiv(blocks, parts),
        *sizes[1:],
        *strides,
        NUM_DIMS=num_dims,
        BLOCK=block,
        num_warps=NUM_WARPS,
    )
    add_parts_kernel[(1,)](workspace, out, parts, BLOCK=triton.next_power_of_2(parts), num_warps=4)
    return out
