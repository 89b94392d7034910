"""The address watch."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.interpreter import AddressBook, AddressFault, root_cause, session


@triton.jit
def copy(x, y, shift, keep, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(y + lanes, tl.load(x + lanes + shift, mask=lanes < keep))


@triton.jit
def copy_unmasked(x, y, to, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(y + lanes + to, tl.load(x + lanes))


@triton.jit
def copy_2d(x, y, M: tl.constexpr, N: tl.constexpr):
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + place, tl.load(x + place))


@triton.jit
def atomics(x, shift, N: tl.constexpr):
    tl.atomic_add(x + tl.arange(0, N) + shift, 1.0)


@triton.jit
def swap(x, shift):
    tl.atomic_cas(x + shift, 0, 1)


@triton.jit
def one(x, y, shift):
    tl.store(y, tl.load(x + shift))


@triton.jit
def device_descriptor(x, y, rows, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[rows, N], strides=[N, 1], block_shape=[M, N])
    target = tl.make_tensor_descriptor(y, shape=[rows, N], strides=[N, 1], block_shape=[M, N])
    target.store([tl.program_id(0) * M, 0], source.load([tl.program_id(0) * M, 0]))


@triton.jit
def host_descriptor(x, y, M: tl.constexpr):
    y.store([tl.program_id(0) * M, 0], x.load([tl.program_id(0) * M, 0]))


@triton.jit
def with_tuple(pair, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(pair[1] + lanes, tl.load(pair[0] + lanes))


def room(values: int = 64, dtype=torch.float32):
    """A tensor of 8 in the middle of a larger storage, and the book that allows only the tensor."""
    storage = torch.arange(values, dtype=torch.int64).to(dtype)
    x = storage[16:24]
    book = AddressBook()
    book.allow(x.data_ptr(), x.numel() * x.itemsize, "x")
    return storage, x, book


def fault(book, run) -> AddressFault:
    with session(overflow=True, addresses=book):
        try:
            run()
        except Exception as error:
            cause = root_cause(error)
            assert isinstance(cause, AddressFault), repr(cause)
            return cause
    raise AssertionError("no AddressFault")


def fine(book, run) -> None:
    with session(overflow=True, addresses=book):
        run()


def case_loads():
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.float64):
        _storage, x, book = room(dtype=dtype)
        y, size = torch.zeros(8, dtype=dtype), dtype.itemsize
        fine(book, lambda x=x, y=y: copy[(1,)](x, y, 0, 8, 8))
        assert torch.equal(x, y)
        found = fault(book, lambda x=x, y=y: copy[(1,)](x, y, 1, 8, 8))
        assert (found.kind, found.name_of_nearest, found.offset_bytes) == ("load", "x", 8 * size)
        assert (found.lane_index, found.kernel, found.program) == ((7,), "copy", (0, 0, 0))
        assert "load" in str(found) and "copy" in str(found)
        found = fault(book, lambda x=x, y=y: copy[(1,)](x, y, -2, 8, 8))
        assert (found.offset_bytes, found.lane_index) == (-2 * size, (0,))


def case_masked_off_lanes_are_free():
    _storage, x, book = room()
    fine(book, lambda: copy[(1,)](x, torch.zeros(8), 5, 3, 8))
    assert fault(book, lambda: copy[(1,)](x, torch.zeros(8), 5, 4, 8)).lane_index == (3,)
    fine(book, lambda: copy[(1,)](x, torch.zeros(8), 2**40, 0, 8))


def case_stores_change_nothing_outside():
    storage, x, book = room()
    before = storage.clone()
    found = fault(book, lambda: copy_unmasked[(1,)](torch.full((8,), -1.0), x, 1, 8))
    assert found.kind == "store" and found.offset_bytes == 32 and torch.equal(storage, before)


def case_an_access_that_straddles_the_end():
    _storage, x, book = room()
    book.allow(x.data_ptr(), 30, "x")
    assert fault(book, lambda: copy[(1,)](x, torch.zeros(8), 0, 8, 8)).lane_index == (7,)


def case_lanes_of_two_dimensions_and_scalars():
    _storage, x, book = room()
    fine(book, lambda: copy_2d[(1,)](x, torch.zeros(8), 2, 4))
    assert fault(book, lambda: copy_2d[(1,)](x, torch.zeros(16), 4, 4)).lane_index == (2, 0)
    assert fault(book, lambda: one[(1,)](x, torch.zeros(1), 8)).lane_index is None


def case_atomics():
    _storage, x, book = room()
    fine(book, lambda: atomics[(1,)](x, 0, 8))
    assert x[0] == 17
    found = fault(book, lambda: atomics[(1,)](x, 4, 8))
    assert found.kind == "atomic" and found.lane_index == (4,) and x[4] == 21
    _storage, x, book = room(dtype=torch.int32)
    fine(book, lambda: swap[(1,)](x, 7))
    assert fault(book, lambda: swap[(1,)](x, 8)).kind == "atomic"
    _storage, x, book = room(dtype=torch.bfloat16)
    assert fault(book, lambda: atomics[(1,)](x, 1, 8)).lane_index == (7,)


def case_tensors_that_the_book_does_not_know_are_allowed_for_their_launch():
    book = AddressBook()
    x, y = torch.arange(8.0), torch.zeros(8)
    fine(book, lambda: copy[(1,)](x, y, 0, 8, 8))
    assert torch.equal(x, y) and book.lookup(x.data_ptr()) is None
    fine(book, lambda: copy[(1,)](x[4:], y, -4, 8, 8))  # the whole storage
    assert fault(book, lambda: copy[(1,)](x, y, 1, 8, 8)).name_of_nearest in ("x", "y")
    fine(book, lambda: with_tuple[(1,)]((x, y), 8))
    assert book.lookup(y.data_ptr()) is None


def case_descriptors_made_on_the_device():
    storage = torch.arange(256.0)
    x, y = storage[64:144].view(5, 16), torch.zeros(5, 16)
    book = AddressBook()
    book.allow(x.data_ptr(), x.numel() * 4, "x")
    fine(book, lambda: device_descriptor[(2,)](x, y, 5, 4, 16))
    assert torch.equal(x, y)
    found = fault(book, lambda: device_descriptor[(2,)](x, torch.zeros(8, 16), 6, 4, 16))
    assert (found.kind, found.lane_index, found.program) == ("load", (1, 0), (1, 0, 0))


def case_descriptors_made_on_the_host():
    for dtype in (torch.float32, torch.bfloat16):
        storage = torch.arange(256.0).to(dtype)
        x, y = storage[64:144].view(5, 16), torch.zeros(5, 16, dtype=dtype)
        book = AddressBook()
        book.allow(x.data_ptr(), x.numel() * x.itemsize, "x")
        made = [TensorDescriptor(t, [5, 16], [16, 1], [4, 16]) for t in (x, y)]
        fine(book, lambda made=made: host_descriptor[(2,)](*made, 4))
        assert torch.equal(x, y)
        long = TensorDescriptor(x, [6, 16], [16, 1], [4, 16])
        target = TensorDescriptor(torch.zeros(8, 16, dtype=dtype), [8, 16], [16, 1], [4, 16])
        found = fault(book, lambda long=long, target=target: host_descriptor[(2,)](long, target, 4))
        assert (found.kind, found.name_of_nearest, found.lane_index) == ("load", "x", (1, 0))


def case_no_book_no_watch():
    _storage, x, _book = room()
    y = torch.zeros(8)
    fine(None, lambda: copy[(1,)](x, y, 1, 8, 8))
    assert y.tolist() == list(range(17, 25))


def case_sessions_nest():
    _storage, x, book = room()
    with session(overflow=False, addresses=book):
        fine(None, lambda: copy[(1,)](x, torch.zeros(8), 1, 8, 8))
        fault(book, lambda: copy[(1,)](x, torch.zeros(8), 1, 8, 8))


def case_the_book():
    book = AddressBook()
    assert book.lookup(100) is None and book.nearest(100) is None
    book.allow(100, 50, "long")
    book.allow(110, 10, "inner")
    book.allow(200, 0, "empty")
    assert book.lookup(149) == (100, 50, "long") and book.lookup(150) is None and book.lookup(200) is None
    assert book.nearest(160) == (100, 50, "long") and book.nearest(199) == (200, 0, "empty")
    lanes = torch.arange(100, 147, dtype=torch.int64).numpy()
    assert book.first_outside(lanes, 4) is None and book.first_outside(lanes, 5) == 46
    book.forget(100)
    book.forget(100)
    assert book.first_outside(lanes, 4) == 0 and book.first_outside(lanes[10:17], 4) is None
    try:
        book.allow(1, -1, "negative")
    except ValueError:
        return
    raise AssertionError("a negative size was taken")
