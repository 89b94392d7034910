"""strategy: write the generator of inputs that finds the bugs of ten kernels you cannot see.

The operator under test
  row_max(x[M, N]) -> [M]: the largest element of each row, in x's dtype. NaN wins against everything, as in
  torch.amax; +0 and -0 count as equal.

  Its domain, all of which a right kernel must serve:
    dtype    float32, float16, int32 or int8
    shape    0 <= M <= 64 rows, 1 <= N <= 2048 columns
    layout   any: transposed, every second column, rows further apart than N, a storage offset, expanded
    values   any value of the dtype, with +-0, +-inf, NaN, and the largest and smallest integers
    memory   from the first to the last element of x there are at most 65,536 bytes

What you write
  strategy() returns a Hypothesis strategy. Each of its examples is one x: a torch.Tensor on the CPU, inside
  the domain.

How it is judged
  300 examples are drawn, in five runs with different seeds. Thirteen kernels compute row_max of each one: ten
  are faulty, three are right. At least nine of the ten must be exposed, that is, differ from the right answer
  on one example or more. The three right ones must never be blamed: an example outside the domain is a false
  alarm. Two draws with the same seed must give the same examples: everything random comes from Hypothesis.

  Each of the ten has one fault of another kind, and they are faults that people really make: think of what a
  kernel does at the end of a row, where its accumulator starts, how it finds the next element, what it does
  with the second block of a long row, which values compare strangely, and what a conversion to another dtype
  can lose. The kernels work in blocks of the next power of two, but of 256 columns at most.

>>> strategy().example().dim()
2
"""

import torch
from hypothesis.strategies import SearchStrategy


def strategy() -> SearchStrategy[torch.Tensor]:
    """The strategy whose examples are inputs of row_max (see the contract above)."""
    # TODO 1: draw a dtype, a number of rows, a row length. Which lengths does a kernel with blocks find hard?
    # TODO 2: draw values. hypothesis.extra.numpy.arrays is quick; which values must not be left to chance?
    # TODO 3: draw a layout, and make a view of a larger tensor.
    # Test it: write a wrong row_max in plain NumPy, and see whether your strategy notices.
    raise NotImplementedError("strategy")
