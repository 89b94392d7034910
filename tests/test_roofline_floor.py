"""The floor below which no time is believed, and the share of the roofline that a case shows."""

from __future__ import annotations

import pytest
import torch

from harness.grading import normal_data
from harness.timing import roofline
from harness.timing.roofline import Peaks

# An H200 as it was measured: 4.3 TB/s, 790 TFLOP/s in bfloat16, 60 MB of L2.
H200 = Peaks(4.3e12, {"bfloat16": 790e12, "float16": 770e12, "float32": 51e12}, 60 << 20)


def matrices(n, dtype=torch.bfloat16):
    inputs = {"a": normal_data(n, n, dtype=dtype), "b": normal_data(n, n, dtype=dtype)}
    return roofline.work(inputs, [torch.empty((n, n), dtype=dtype, device="meta")], 2 * n**3)


def copy(count):
    return roofline.work({"x": normal_data(count)}, [torch.empty(count, device="meta")], 0)


def test_work_counts_each_tensor_once():
    found = matrices(4096)
    assert (found.bytes, found.flops, found.dtype) == (3 * 4096**2 * 2, 2 * 4096**3, "bfloat16")
    pitched = roofline.work({"x": normal_data(8, 10, pitch=16), "factor": 3.0}, [], 0)
    assert pitched.bytes == 8 * 10 * 4  # the gaps need not be read


def test_a_copy_is_bound_by_bytes_and_a_product_by_operations():
    assert roofline.ideal_ms(H200, copy(2**27)) == pytest.approx(2 * 2**29 / 4.3e12 * 1e3)
    assert roofline.ideal_ms(H200, matrices(8192)) == pytest.approx(2 * 8192**3 / 790e12 * 1e3)


@pytest.mark.parametrize(
    ("of", "measured_ms"),
    [(copy(2**27), 0.2550), (matrices(4096), 0.1782), (matrices(8192), 1.3571), (matrices(4096, torch.float32), 2.6)],
    ids=["copy", "product 4096", "product 8192", "product float32"],
)
def test_what_was_measured_lies_above_the_floor_and_a_half_of_it_below(of, measured_ms):
    floor = roofline.floor_ms(H200, of)
    assert measured_ms / 2 < floor < measured_ms
    assert 0.7 < roofline.ideal_ms(H200, of) / measured_ms < 1.1


def test_what_fits_into_the_cache_has_no_floor_by_bytes():
    assert roofline.floor_ms(H200, copy(2**20)) == 0


def test_an_unknown_dtype_is_bound_by_bytes():
    found = roofline.work({"x": normal_data(2**28, dtype=torch.float8_e4m3fn)}, [], 1e15)
    assert roofline.ideal_ms(H200, found) == pytest.approx(2**28 / 4.3e12 * 1e3)


def test_peaks_survive_being_written_down():
    assert roofline.from_table(roofline.to_table(H200)) == H200
    assert roofline.from_table({"bytes_per_s": "fast"}) is None
    assert roofline.from_table({}) is None
