"""Other style: the dimensions are not merged and no dtype is reinterpreted; a fixed number of programs
shares the lines of the last dimension among them (grid-stride) and walks along each line in a loop."""

import torch
import triton
import triton.language as tl


@triton.jit
def _lines(
    x, y, lines, d1, d2, length, s0, s1, s2, s3, LINES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    step = tl.num_programs(0) * LINES
    for first in range(tl.program_id(0) * LINES, lines, step):
        line = first + tl.arange(0, LINES)
        line = line.to(tl.int64)
        origin = (line // (d1 * d2)) * s0 + (line // d2 % d1) * s1 + (line % d2) * s2
        for start in range(0, length, BLOCK):
            column = start + tl.arange(0, BLOCK)
            column = column.to(tl.int64)
            inside = (line < lines)[:, None] & (column < length)[None, :]
            values = tl.load(x + origin[:, None] + column[None, :] * s3, mask=inside)
            tl.store(y + line[:, None] * length + column[None, :], values, mask=inside)


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    if y.numel() == 0:
        return y
    d0, d1, d2, d3 = (1,) * (4 - x.dim()) + tuple(x.shape)
    strides = (0,) * (4 - x.dim()) + tuple(x.stride())
    lines = d0 * d1 * d2
    width = min(512, triton.next_power_of_2(d3))
    together = max(1, 2048 // width)
    with torch.cuda.device_of(x):
        _lines[(min(1024, triton.cdiv(lines, together)),)](
            x, y, lines, d1, d2, d3, *strides, LINES=together, BLOCK=width
        )
    return y
