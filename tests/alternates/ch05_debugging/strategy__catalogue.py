"""A catalogue: one narrow strategy for each kind of fault, joined by `one_of`; lists instead of NumPy arrays."""

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

FLOATS = (torch.float32, torch.float16)
INTS = (torch.int32, torch.int8)


def table(dtypes: tuple[torch.dtype, ...], elements: SearchStrategy, N: SearchStrategy) -> SearchStrategy:
    """Contiguous tensors of up to four rows."""

    def of_width(n: int) -> SearchStrategy:
        row = st.lists(elements, min_size=n, max_size=n)
        rows = st.lists(row, min_size=1, max_size=4)
        return st.builds(lambda data, dtype: torch.tensor(data, dtype=dtype), rows, st.sampled_from(dtypes))

    return N.flatmap(of_width)


def long_rows(n: int, peak: int, dtype: torch.dtype) -> torch.Tensor:
    """Two long rows whose maximum is the element `peak`."""
    x = torch.full((2, n), -7, dtype=dtype)
    x[:, peak] = 9
    return x


def strategy() -> SearchStrategy[torch.Tensor]:
    ragged = st.sampled_from([1, 3, 5, 7, 11, 13])
    half = st.floats(width=16, allow_nan=False)
    byte = st.integers(-128, 127)
    plain = st.one_of(table(FLOATS, half, ragged), table(INTS, byte, ragged))
    return st.one_of(
        plain,
        table(FLOATS, st.floats(max_value=-0.5, width=16), ragged),
        table(INTS, st.integers(-128, -1), ragged),
        table((torch.int32,), st.integers(2**24, 2**31 - 1), ragged),
        table(FLOATS, st.sampled_from([float("nan"), float("-inf"), 1.0]), st.integers(1, 3)),
        st.builds(
            long_rows, st.integers(257, 1500), st.sampled_from([0, -1]), st.sampled_from(FLOATS + INTS)
        ),
        plain.map(lambda x: x.t()),
        plain.map(lambda x: x.repeat_interleave(2, dim=1)[:, 1::2]),
        plain.map(lambda x: torch.cat([x, -x], dim=1)[:, : x.shape[1]]),
        plain.map(lambda x: x[:1].expand(4, -1)),
    )
