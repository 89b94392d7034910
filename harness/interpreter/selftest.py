"""What stock Triton's interpreter gets wrong here, found by running small kernels, and the repair of each
fault.

`install` runs every check on stock Triton first and repairs only what fails; `probe` runs them all on the
repaired interpreter. Imported by `install` only, after TRITON_INTERPRET=1 is set, so that the kernels are
interpreted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as stock

from harness.interpreter import kernels, language, launch, lowfloat, memory, session
from harness.interpreter.errors import root_cause
from harness.interpreter.report import Report
from harness.interpreter.state import DeviceAssertFailed, IntegerOverflow
from harness.interpreter.watch import AddressBook, AddressFault


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal bits, but for the payload and sign of a NaN."""
    wide_a, wide_b = a.to(torch.float32), b.to(torch.float32)
    nan = wide_a.isnan()
    if not torch.equal(nan, wide_b.isnan()):
        return False
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.itemsize]
    return bool((nan | (a.view(bits) == b.view(bits))).all())


def _loop_bounds() -> bool:
    out = torch.zeros(1, dtype=torch.int32)
    kernels.sum_to[(1,)](out, 7)
    return int(out) == 12


def _loop_variables() -> bool:
    out = torch.zeros(1, dtype=torch.int64)
    kernels.loop_scalars[(1,)](out, 3)
    return int(out) == 3 * 2**32 + 3


def _arguments() -> bool:
    x, out = torch.tensor([1.5], dtype=torch.float16), torch.zeros(3)
    kernels.scalar_arguments[(1,)](x, out, 0.1, 2**31 + 2**20, True)
    return out.tolist() == [float(torch.tensor(0.1) * 1.5), 8196.0, 1.0]


def _low_arithmetic() -> bool:
    x = torch.tensor([1.0, -2.5, 3e38, 0.1, 7e-40, 257.0, -0.0, 3.0]).to(torch.bfloat16)
    y = x.flip(0).clone()
    out = torch.empty(24, dtype=torch.bfloat16)
    x[2] = 33.0
    kernels.arithmetic[(1,)](x, y, out, 8)
    total = x
    while len(total) > 1:
        total = total[0::2] + total[1::2]
    factor = torch.tensor(0.7, dtype=torch.bfloat16)
    return _same(out, torch.cat([x * y + x, x * factor, total.expand(8)]))


def cast_values() -> torch.Tensor:
    """512 float32 values about the edges of the narrower types: ties, subnormals, limits, inf, NaN."""
    edges = [0.0, 1.0, 448.0, 57344.0, 65504.0, 3.3895314e38, 6e-8, 2.0**-133, 2.0**-9, 2.0**-16, 2.0**-24]
    base = np.array(edges, np.float32).view(np.uint32)[:, None]
    cuts = np.array(
        [0, 1, 0x7FFF, 0x8000, 0x8001, 0x17FFF, 0x18000, 0xFFF, 0x1000, 0x1001, 0x3000, 0x80000, 0x180000]
    )
    bits = (base + cuts.astype(np.uint32)).reshape(-1)
    special = np.array([0x7F800000, 0x7FC00000, 0x7F800001, 0x00000001], np.uint32)
    signed = np.concatenate([bits, special, bits | 0x80000000, special | 0x80000000]).astype(np.uint32)
    return torch.from_numpy(np.resize(signed, 512).view(np.float32).copy())


def saturated(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """torch's cast to float8, out of range as the GPU's `satfinite` conversion has it."""
    largest = torch.finfo(dtype).max
    return values.clamp(-largest, largest).to(dtype)


def _low_casts() -> bool:
    values = cast_values()
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        narrow = torch.empty(512, dtype=dtype)
        kernels.cast[(1,)](values, narrow, 512)
        if not _same(narrow, saturated(values, dtype) if dtype.itemsize == 1 else values.to(dtype)):
            return False
        wide = torch.empty(512)
        kernels.cast[(1,)](narrow, wide, 512)
        if not _same(wide, narrow.to(torch.float32)):
            return False
    whole = torch.empty(4, dtype=torch.int32)
    kernels.cast[(1,)](torch.tensor([float("nan"), 3e9, -3e9, -1.7]), whole, 4)
    return whole.tolist() == [0, 2**31 - 1, -(2**31), -1]


def _dots() -> bool:
    numbers = torch.arange(256, dtype=torch.float32).reshape(16, 16)
    x, y = (numbers % 7 - 3) / 8, (numbers % 5 - 2) / 4
    out = torch.empty(16, 16)
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e5m2):
        kernels.dot[(1,)](x.to(dtype), y.to(dtype), out, "tf32")
        if not torch.equal(out, x @ y):
            return False
    fine = torch.full((16, 16), 1.0 + 2.0**-12)
    eye = torch.eye(16)
    kernels.dot[(1,)](fine, eye, out, "ieee")
    exact = torch.equal(out, fine)
    kernels.dot[(1,)](fine, eye, out, "tf32")
    return exact and torch.equal(out, torch.ones(16, 16))


def _nan() -> bool:
    nan, out = float("nan"), torch.empty(16)
    x, y = torch.tensor([1.0, nan, 3.0, nan]), torch.tensor([2.0, 5.0, nan, nan])
    kernels.nan_extremes[(1,)](x, y, out, 4)
    expected = torch.tensor(
        [2.0, 5.0, 3.0, nan, 1.0, 5.0, 3.0, nan, 2.0, nan, nan, nan, 1.0, -1.0, 1.0, -1.0]
    )
    return _same(out, expected)


def _reduces() -> bool:
    nan, out, index = float("nan"), torch.empty(3), torch.zeros(12, dtype=torch.int32)
    whole = torch.tensor([2, 3, 1, 3, -1, 2, 1, 1], dtype=torch.int32)
    kernels.reductions[(1,)](torch.tensor([nan, 1, 7, nan, 2, 0, 0, 0]), whole, out, index, 8)
    slope, offset, offsets = 1, 0, []
    for lane, factor in enumerate(whole.tolist()):
        slope, offset = slope * factor, offset * factor + lane
        offsets.append(offset)
    pairwise = 1024 * float(torch.tensor(0.1))
    return out.tolist() == [7, pairwise, pairwise] and index.tolist() == [slope, offset, 0, 1, *offsets]


def _block_conditions() -> bool:
    x, out = torch.arange(8.0), torch.full((8,), -1.0)
    kernels.conditions[(1,)](x, out, 4, 8)
    return out.tolist() == [-1, 1, 2, 3, -1, -1, -1, 7]


def _device_library() -> bool:
    x, out = torch.tensor([0.0, 1.0, -2.0, float("inf")]), torch.zeros(4)
    kernels.device_library[(1,)](x, out, 4)
    return torch.allclose(out, x.tanh(), rtol=1e-6)


def _autotuned() -> bool:
    out = torch.full((4,), -1, dtype=torch.int32)
    kernels.tuned[(1,)](out, 4)
    return out.tolist()[:2] == [0, 1]


def _raises(kind: type[BaseException], run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception as error:
        return isinstance(root_cause(error), kind)
    return False


def _asserts() -> bool:
    x = torch.tensor([1.0, 2.0, -3.0, 4.0])
    with session(overflow=False, addresses=None):
        fires = _raises(DeviceAssertFailed, lambda: kernels.asserting[(1,)](x, 4))
        kernels.asserting[(1,)](x.abs(), 4)
    return fires


def _overflows() -> bool:
    x = torch.tensor([2**30 - 1, 2**30], dtype=torch.int32)
    out = torch.zeros(2, dtype=torch.int32)
    with session(overflow=False, addresses=None):
        kernels.doubling[(1,)](x, out, 2)
    wraps = out.tolist() == [2**31 - 2, -(2**31)]
    with session(overflow=True, addresses=None):
        fires = _raises(IntegerOverflow, lambda: kernels.doubling[(1,)](x, out, 2))
        kernels.doubling[(1,)](x[:1], out, 1)
    return wraps and fires


def _watches() -> bool:
    storage, out, book = torch.arange(16.0), torch.zeros(4), AddressBook()
    x = storage[4:12]
    book.allow(x.data_ptr(), 32, "x")
    with session(overflow=False, addresses=book):
        kernels.copy[(1,)](x, out, 4, 4)
        behind = _raises(AddressFault, lambda: kernels.copy[(1,)](x, out, 5, 4))
        before = _raises(AddressFault, lambda: kernels.copy[(1,)](x, out, -1, 4))
    return out.tolist() == [8, 9, 10, 11] and behind and before


@dataclass(frozen=True)
class _Fault:
    """A fault of stock Triton: the check that shows it, the repair (None: part of what is always installed).

    tried: whether the check runs on stock Triton. It does not where stock surely fails: autotune would
    start a GPU driver, and the last three need what this package adds.
    """

    name: str
    check: Callable[[], bool]
    mend: Callable[[], Any] | None = None
    tried: bool = True


_FAULTS = (
    _Fault("low-precision arithmetic", _low_arithmetic, lowfloat.mend_types),
    _Fault("low-precision casts", _low_casts, lowfloat.mend_types),
    _Fault("dot", _dots, lowfloat.mend_dot),
    _Fault("loop bounds", _loop_bounds, launch.mend_loop_bounds),
    _Fault("loop variables", _loop_variables, launch.mend_loop_variables),
    _Fault("scalar arguments", _arguments, language.mend_arguments),
    _Fault("NaN in maximum and minimum", _nan, language.mend_nan),
    _Fault("reductions", _reduces, launch.mend_reductions),
    _Fault("conditions on blocks", _block_conditions, language.mend_language),
    _Fault("libdevice", _device_library, launch.mend_libdevice),
    _Fault("autotune without a driver", _autotuned, language.mend_autotune, tried=False),
    _Fault("device_assert", _asserts, tried=False),
    _Fault("integer overflow", _overflows, tried=False),
    _Fault("address watch", _watches, tried=False),
)

_needed: tuple[str, ...] | None = None


def _fails(fault: _Fault) -> bool:
    try:
        return not fault.check()
    except Exception:  # whatever a check dies of, what it checks does not work
        return True


def _failing() -> tuple[str, ...]:
    with np.errstate(all="ignore"):
        return tuple(
            fault.name for fault in _FAULTS if (fault.tried or _needed is not None) and _fails(fault)
        )


def install() -> None:
    """Look for stock Triton's faults and repair those, and only those; a second call does nothing."""
    global _needed
    if _needed is not None:
        return
    patch = launch.language_patch()
    found = set(_failing())
    patch.restore()  # stock leaves its language patched after a device function was called
    needed = tuple(fault.name for fault in _FAULTS if fault.name in found or not fault.tried)
    memory.install()
    launch.install()
    language.install_asserts()
    for fault in _FAULTS:
        if fault.name in needed and fault.mend is not None:
            fault.mend()
    stock.InterpretedFunction.rewritten_fn.clear()  # rewritten by stock's rules
    _needed = needed


def probe() -> Report:
    """Check everything now. Before `install` the faults that need it count as broken."""
    if _needed is None:
        launch.language_patch()  # must see the language before stock Triton patches it
        failing = set(_failing())
        launch.language_patch().restore()
        names = tuple(fault.name for fault in _FAULTS if fault.name in failing or not fault.tried)
        return Report(needed=names, mended=(), broken=names)
    broken = _failing()
    return Report(_needed, tuple(name for name in _needed if name not in broken), broken)
