"""strategy: a generator of inputs that brings out the classic faults of a row maximum.

Every line below is there because some fault does not show without it. The choices (dtype, shape, layout, kind
of values) are drawn one by one, so that Hypothesis can vary and shrink each on its own, and so that every
combination comes up.
"""

import hypothesis.extra.numpy as hnp
import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

DTYPES = (np.float32, np.float16, np.int32, np.int8)
LAYOUTS = ("contiguous", "transposed", "column step", "row pitch", "one row", "one column")


def columns() -> SearchStrategy[int]:
    """Row lengths: mostly small and odd, powers of two with their neighbours, and rows of several blocks."""
    near_powers = st.builds(lambda e, d: 2**e + d, st.integers(2, 9), st.sampled_from([-1, 0, 1]))
    return st.one_of(st.integers(1, 20), near_powers, st.integers(257, 1100))


def values(dtype: type) -> SearchStrategy[float]:
    """One element: anything, negative only, or (floats) one of the values that arithmetic treats apart."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return st.sampled_from(
            [st.integers(info.min, info.max), st.integers(info.min, -1), st.integers(info.max // 2, info.max)]
        ).flatmap(lambda chosen: chosen)
    width = np.dtype(dtype).itemsize * 8
    return st.one_of(
        st.floats(width=width),
        st.floats(max_value=-1.0, width=width),
        st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -0.0]),
    )


def fill(dtype: type) -> SearchStrategy[float]:
    """What most of a large array holds: one value, often negative, so that maxima are negative too."""
    if np.issubdtype(dtype, np.integer):
        return st.integers(-100, 20)
    return st.sampled_from([-100.0, -1.0, 0.5, float("-inf"), float("nan")])


@st.composite
def inputs(draw: DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    M, N = draw(st.integers(0, 5)), draw(columns())
    layout = draw(st.sampled_from(LAYOUTS))
    shape = {
        "contiguous": (M, N),
        "transposed": (N, M),
        "column step": (M, 2 * N),
        "row pitch": (M + 1, N + 3),
        "one row": (1, N),
        "one column": (M, 1),
    }[layout]
    base = torch.from_numpy(draw(hnp.arrays(dtype, shape, elements=values(dtype), fill=fill(dtype))))
    views = {
        "contiguous": lambda: base,
        "transposed": lambda: base.t(),
        "column step": lambda: base[:, ::2],
        "row pitch": lambda: base[1:, 2 : 2 + N],  # a storage offset as well
        "one row": lambda: base.expand(M, N),
        "one column": lambda: base.expand(M, N),
    }
    return views[layout]()


def strategy() -> SearchStrategy[torch.Tensor]:
    return inputs()
