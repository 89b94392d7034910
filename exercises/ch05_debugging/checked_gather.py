"""checked_gather: out[k] = x[index[k]], with a bounds check that a caller can switch on.

Contract
  x:      [N], float32, float16, bfloat16, int8, int16, int32 or int64, any stride
  index:  [K], int64, any stride
  debug:  with True, a tl.device_assert fires if, and only if, an index lies outside 0..N-1; -1 lies outside,
          it does not mean the last element. With False the caller promises that every index is in range.
  returns a new contiguous tensor [K] of x's dtype, every value bit for bit the one that was gathered;
          K = 0 gives an empty tensor. N = 0 with K > 0 is all out of range.

Where an index is wrong, memory outside x must not be touched: neither before the assert, nor after it.

>>> checked_gather(torch.tensor([10., 20., 30.]), torch.tensor([2, 0, 2]), debug=True)
tensor([30., 10., 30.])
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, N, K, x_stride, index_stride, BLOCK: tl.constexpr):
    # TODO 1: the numbers k of this program's outputs, and which of them exist. K may pass 2**31.
    # TODO 2: load their indices. What does a lane that does not exist hold?
    # TODO 3: which indices are in range? Assert it, for the lanes that exist only.
    # TODO 4: load the values. Which lanes may touch memory?
    # TODO 5: store.
    pass


def checked_gather(x: torch.Tensor, index: torch.Tensor, debug: bool) -> torch.Tensor:
    """x[index], checked on the device when `debug` is True (see the contract above)."""
    # TODO 6: allocate the output, choose BLOCK and the grid, and launch on x's device (with
    # torch.cuda.device_of(x): ...). tl.device_assert is compiled in only if the launch says so: which option of
    # kernel[grid](...) is that?
    raise NotImplementedError("checked_gather")
