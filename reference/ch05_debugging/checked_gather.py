"""checked_gather: out[k] = x[index[k]], with a bounds check that can be switched on.

Two guards, for two different jobs. The assert tells a person that an index is wrong, and exists only in a
debug build. The mask on the load keeps a wrong index from touching memory that is not x's, and is always
there: it costs two comparisons in a kernel that waits for memory anyway.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, N, K, x_stride, index_stride, BLOCK: tl.constexpr):
    k = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    lane = k < K
    # The indices are read once and never again: let them leave the cache first, x profits from the room.
    i = tl.load(index_ptr + k * index_stride, mask=lane, other=0, eviction_policy="evict_first")
    in_range = (i >= 0) & (i < N)
    # Lanes past K hold no index of the caller's; the assert must not speak about them.
    tl.device_assert(in_range, "checked_gather: index out of range", mask=lane)
    # A GPU reports a failed assert late, other threads run on meanwhile: the load needs its own guard.
    value = tl.load(x_ptr + i * x_stride, mask=lane & in_range, other=0)
    tl.store(out_ptr + k, value, mask=lane)


def checked_gather(x: torch.Tensor, index: torch.Tensor, debug: bool) -> torch.Tensor:
    N, K = x.shape[0], index.shape[0]
    out = torch.empty(K, dtype=x.dtype, device=x.device)
    if K == 0:
        return out
    BLOCK = min(triton.next_power_of_2(K), 1024)
    # `debug` is a launch option, not a kernel argument: it selects a compilation in which device_assert exists.
    with torch.cuda.device_of(x):  # a launch goes to the current device, which need not be x's
        gather_kernel[(triton.cdiv(K, BLOCK),)](
            x, index, out, N, K, x.stride(0), index.stride(0), BLOCK=BLOCK, num_warps=4, debug=debug
        )
    return out
