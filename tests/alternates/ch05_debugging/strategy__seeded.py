"""Hypothesis draws the shape, the dtype, the layout and a seed; a seeded NumPy generator fills the values.

Quicker than drawing each element, and as repeatable; it shrinks sizes but not values.
"""

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

SPECIALS = (float("nan"), float("-inf"), float("inf"), 0.0)


def make(seed: int, dtype: type, M: int, N: int, rows: int, cols: int, start: int, mood: str) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    height, width = M * rows + start, N * cols + start
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        high = 0 if mood == "negative" else info.max
        data = rng.integers(info.min, high, (height, width)).astype(dtype)
    else:
        data = (rng.standard_normal((height, width)) * 10).astype(dtype)
        if mood == "negative":
            data = -np.abs(data) - dtype(1)
        elif mood == "special":
            data[rng.random((height, width)) < 0.2] = rng.choice(SPECIALS)
        elif mood == "minus infinity":
            data[rng.random(height) < 0.7] = -np.inf
    view = torch.from_numpy(data)[start::rows, start::cols][:M, :N]
    return view


@st.composite
def turned(draw: st.DrawFn, plain: SearchStrategy[torch.Tensor]) -> torch.Tensor:
    x = draw(plain)
    return x.t().contiguous().t() if draw(st.booleans()) else x


def strategy() -> SearchStrategy[torch.Tensor]:
    return turned(
        st.builds(
            make,
            seed=st.integers(0, 2**32 - 1),
            dtype=st.sampled_from([np.float32, np.float16, np.int32, np.int8]),
            M=st.integers(1, 5),
            N=st.one_of(st.integers(1, 12), st.integers(13, 300), st.integers(257, 600)),
            rows=st.integers(1, 2),
            cols=st.integers(1, 2),
            start=st.integers(0, 2),
            mood=st.sampled_from(["any", "negative", "special", "minus infinity"]),
        )
    )
