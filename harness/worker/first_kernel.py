"""A kernel to warm the compiler with; in a module of its own, since Triton reads the source of what it compiles."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def add_one(x_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)
