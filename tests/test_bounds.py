"""Bounds hold where the analysis is subtle: right arithmetic stays within, flushed subnormals do not."""

from types import SimpleNamespace

import numpy as np
import torch

from harness.grading import bounds

K, ROWS = 96, 400
SMALLEST = 2.0**-149  # of float32


def product(exponent):
    """Rows of products of size 2 ** exponent: their sums by the definition of IEEE arithmetic, exactly, and the bound."""
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=(ROWS, K)).astype(np.float32) * np.float32(2.0 ** (exponent // 2)) for _ in range(2))
    total = np.zeros(ROWS, np.float32)
    for k in range(K):
        total = total + a[:, k] * b[:, k]
    exact = (a.astype(np.float64) * b).sum(1)
    magnitude = torch.from_numpy(np.abs(a.astype(np.float64) * b).sum(1))
    grader = SimpleNamespace(magnitude=lambda: magnitude)
    bound = bounds.summation(over="K", operations=1).tolerance
    tolerance = bound(grader, SimpleNamespace(dims={"K": K}, args={}), torch.from_numpy(exact), torch.float32).numpy()
    return total, exact, tolerance


def test_products_that_underflow_are_within_their_bound():
    total, exact, tolerance = product(-148)
    error = np.abs(total - exact)
    assert error.max() > 2 * SMALLEST  # one subnormal of slack would not do
    assert (error <= tolerance).all()


def test_flushed_products_are_not():
    _, exact, tolerance = product(-134)
    assert (np.abs(exact) < 2.0**-126).all()  # subnormal, so that zeros stand in their place
    assert (np.abs(exact) > tolerance).mean() > 0.9
