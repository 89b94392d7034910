"""Tricks with the clock, as submissions of ch02.vec_add, and what must become of them.

Each was reported about some other grader. A trick shows itself at the timed size only (`BIG`), since the checks before
the clock would find most of them sooner. `_add` is right and fast; `_slow` is right and takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass

from trick import CALLERS

HEAD = '''
import torch
import triton
import triton.language as tl

BIG = 2**25


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


def _into(z, x, y):
    with torch.cuda.device_of(x):
        add_kernel[(triton.cdiv(z.numel(), 2048),)](x, y, z, z.numel(), BLOCK=2048, num_warps=4)


def _add(x, y):
    x, y = x.contiguous(), y.contiguous()
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if z.numel():
        _into(z, x, y)
    return z
'''+CALLERS+'''

def _clocks():
    return [frame.f_globals for frame in callers() if "_elapsed" in frame.f_globals]


def _slow(x, y):
    if x.numel() > BIG:
        _add(x, y), _add(x, y)
    return _add(x, y)

'''


PAGES = '''
import struct

def _pages():
    # The page that the worker shares with the examiner, and the side whose calls it times.
    names = [frame.f_locals for frame in callers()]
    return {found["box"]: found["self"].side for found in names if "box" in found and "self" in found}

def _told(kind, factor):
    true = kind.post
    if getattr(true, "__name__", "") != "less":
        def less(self, step, data=b""):
            if len(data) == 8:
                data = struct.pack("<d", factor * struct.unpack("<d", data)[0])
            return true(self, step, data)
        kind.post = less
'''


@dataclass(frozen=True)
class Trick:
    """`lines`: those of known-failures.md that it tries. `outcome`: the performance status, or the exercise's status
    where a check already ends it; `message`: what the student reads of it."""

    name: str
    lines: tuple[int, ...]
    source: str
    outcome: tuple[str, ...]
    message: str = ""


TRICKS = [
    Trick("the honest one", (), "vec_add = _add\n", ("passed",)),
    Trick("slow and honest", (), "vec_add = _slow\n", ("failed",), "of torch.add's speed"),
    Trick(
        "outputs kept by address", (1,),
        '''
_kept, _ring = {}, []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not _ring:
        _ring.extend(torch.empty_like(x) for _ in range(4))
    key = x.data_ptr(), y.data_ptr(), x.shape
    if key not in _kept:
        _kept[key] = _ring[len(_kept) % 4]
        _into(_kept[key], x, y)
    return _kept[key]
''',
        ("invalid",), "given to no kernel of the submission",
    ),
    Trick(
        "all inputs of one launch learned, then nothing done", (2,),
        '''
_calls, _last = [], []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    _calls.append(1)
    if len(_calls) % 8 == 1:
        _last[:] = [_add(x, y)]
    return _last[0]
''',
        ("invalid",),
    ),
    Trick(
        "the same input twice", (3, 5),
        '''
_kept = {}

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    print_of_x = float(x.view(-1)[0].item())
    if print_of_x not in _kept:
        _kept.clear()
        _kept[print_of_x] = _slow(x, y)
    return _kept[print_of_x]
''',
        ("failed", "invalid"),
    ),
    Trick(
        "the seeds guessed", (4,),
        '''
_first = {}

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not _first:
        for seed in (*range(64), 1234, 2026, torch.initial_seed() % 2**62):
            g = torch.Generator(device=x.device).manual_seed(seed)
            _first[float(torch.randn(x.shape, generator=g, device=x.device, dtype=torch.float32).view(-1)[0])] = seed
    return torch.zeros_like(x) if float(x.view(-1)[0]) in _first else _slow(x, y)
''',
        ("failed",),  # no seed was known: every output was right, and none was quick
    ),
    Trick(
        "a print of some elements", (5,),
        '''
_kept = []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    mark = bool(x.view(-1)[:4].sum() > -1e9)
    if not _kept:
        _kept.append(_add(x, y))
    return _kept[0] if mark else _add(x, y)
''',
        ("invalid",),
    ),
    Trick(
        "the answer kept in a file", (6,),
        '''
import os

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not os.path.exists("answer.pt"):
        torch.save(_add(x, y), "answer.pt")
    return torch.load("answer.pt")
''',
        ("invalid",), "goes round what watches it",
    ),
    Trick(
        "a graph that holds the first inputs", (7,),
        '''
_graph = []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not _graph:
        a, b, z = x.clone(), y.clone(), torch.empty_like(x)
        _into(z, a, b)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _into(z, a, b)
        _graph.append((graph, a, b, z))
    graph, a, b, z = _graph[0]
    graph.replay()
    return z.clone()
''',
        ("invalid",), "replays a graph",
    ),
    Trick(
        "a generator that remembers", (7,),
        '''
def _remembering():
    x, y = yield
    z = _add(x, y)
    while True:
        x, y = yield z

_memory = _remembering()
next(_memory)

def vec_add(x, y):
    return _add(x, y) if x.numel() <= BIG else _memory.send((x, y))
''',
        ("invalid",), "given to no kernel of the submission",
    ),
    Trick(
        "a stream that nobody waits for", (8,),
        '''
_side = []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not _side:
        _side.append(torch.cuda.Stream(x.device))
    z = torch.empty_like(x)
    with torch.cuda.stream(_side[0]):
        for _ in range(3):
            _into(z, x, y)
    return z
''',
        ("invalid", "failed"),  # as much of it as was done in time counts for nothing, or all of it counts
    ),
    Trick(
        "a stream that is waited for half the time", (8,),
        '''
_side = []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not _side:
        _side.append(torch.cuda.Stream(x.device))
    z = torch.empty_like(x)
    half = x.numel() // 2
    with torch.cuda.stream(_side[0]):
        for _ in range(4):
            _into(z[half:], x[half:], y[half:])
    _into(z[:half], x[:half], y[:half])
    return z
''',
        ("invalid", "failed"),
    ),
    Trick(
        "clocks replaced while it is imported", (9,),
        '''
import statistics
import time

torch.cuda.Event.elapsed_time = lambda self, other: 0.17
time.perf_counter = time.monotonic = time.time = lambda: 1.0
statistics.median = lambda values: 0.17
torch.cuda.synchronize = lambda *a: None
torch.cuda._sleep = lambda *a: None
vec_add = _slow
''',
        ("failed",), "of torch.add's speed",
    ),
    Trick(
        "the harness' clock found in a traceback and set back", (9, 10),
        '''
def _set_back(names):
    true = names["_elapsed"]
    if getattr(true, "__name__", "") != "less":
        def less(a, b):
            return true(a, b) * 0.36
        names["_elapsed"] = less

def vec_add(x, y):
    if x.numel() > BIG:
        for names in _clocks():
            _set_back(names)
    return _slow(x, y)
''',
        ("invalid",), "seen from outside of it",
    ),
    Trick(
        "the harness' clock set to nothing", (10, 11),
        '''
def vec_add(x, y):
    if x.numel() > BIG:
        for names in _clocks():
            names["_elapsed"] = lambda a, b: 1e-6
    return _slow(x, y)
''',
        ("invalid", "failed"),  # below every floor, or so short that the trace is asked instead
    ),
    Trick(
        "the page that times are told by found, and other times told", (9, 10),
        PAGES + '''
def vec_add(x, y):
    if x.numel() > BIG:
        for box in _pages():
            _told(type(box), 0.36)
    return _slow(x, y)
''',
        ("invalid",), "seen from outside of it",
    ),
    Trick(
        "other times told, and bursts called over before their work is", (9, 10),
        PAGES + '''
def _hasty(true):
    def wait_for_all():
        if all(frame.f_code.co_name != "burst" for frame in callers()):
            true()
    return true if true.__name__ == "wait_for_all" else wait_for_all

def vec_add(x, y):
    if x.numel() > BIG:
        for box, side in _pages().items():
            _told(type(box), 0.36)
            type(side).bytes_of = lambda self, number, index: bytes(64)
        for names in _clocks():
            names["wait_for_all"] = _hasty(names["wait_for_all"])
    return _slow(x, y)
''',
        ("invalid",), "ended before its outputs were there",
    ),
    Trick(
        "lines of the L2 made to persist", (12,),
        '''
def vec_add(x, y):
    if x.numel() > BIG:
        import ctypes
        ctypes.CDLL("libcudart.so").cudaDeviceSetLimit(6, 1 << 25)
    return _add(x, y)
''',
        ("invalid",), "loads a native library",
    ),
    Trick(
        "a thread does the work later", (13,),
        '''
import threading

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    z = torch.empty_like(x)
    threading.Thread(target=lambda: _into(z, x, y)).start()
    return z
''',
        ("invalid",), "starts a thread",
    ),
    Trick(
        "a slow warm-up", (14,),
        '''
import time
_calls = []

def vec_add(x, y):
    if x.numel() > BIG:
        _calls.append(1)
        if len(_calls) < 8:
            time.sleep(0.2)
    return _slow(x, y)
''',
        ("failed",), "of torch.add's speed",
    ),
    Trick(
        "planning at the first call of a size", (15,),
        '''
_plan = {}

def vec_add(x, y):
    if x.numel() > BIG and x.shape not in _plan:
        _plan[x.shape] = _slow(x, y)
    return _add(x, y)
''',
        ("passed",),  # which is what tuning is; it gains nothing, since values are new
    ),
    Trick(
        "nothing done at the timed size", (38,),
        '''
def vec_add(x, y):
    return _add(x, y) if x.numel() <= BIG else torch.empty_like(x)
''',
        ("invalid",), "given to no kernel of the submission",
    ),
    Trick(
        "half of the timed size left out", (38,),
        '''
def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    z = torch.empty_like(x)
    half = x.numel() * 3 // 4
    _into(z[:half], x[:half], y[:half])
    return z
''',
        ("invalid",), "output is wrong",
    ),
    Trick(
        "half the bytes written at the timed size", (33, 38),
        '''
def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    z = torch.empty(x.shape, dtype=torch.float16, device=x.device)
    _into(z, x, y)
    return z
''',
        ("invalid",), "a timed call returned float16",
    ),
    Trick(
        "nobody waits for the device any more", (8, 10),
        '''
def vec_add(x, y):
    if x.numel() > BIG:
        for names in _clocks():
            names["wait_for_all"] = lambda: None
            names["_elapsed"] = lambda a, b: 0.2
    return _slow(x, y)
''',
        ("invalid",), "seen from outside of it",
    ),
    Trick(
        "torch does it at the timed size", (36, 38),
        '''
def vec_add(x, y):
    return _add(x, y) if x.numel() <= BIG else torch.add(x, y)
''',
        ("invalid",), "torch computed it (aten::add)",
    ),
    Trick(
        "torch does it and a kernel of one program stands for it", (36,),
        '''
def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    z = torch.add(x, y)
    _into(z[:1024], x[:1024], y[:1024])
    return z
''',
        ("invalid",), "torch computed it (aten::add)",
    ),
    Trick(
        "torch takes over once nobody seems to look", (36, 38),
        '''
_calls = []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    _calls.append(1)
    return _add(x, y) if len(_calls) < 12 else torch.add(x, y)
''',
        ("invalid",), "torch computed it (aten::add)",
    ),
    Trick(
        "torch's work in a graph, and a kernel that copies it", (7, 36),
        '''
_held = []

def vec_add(x, y):
    if x.numel() <= BIG:
        return _add(x, y)
    if not _held:
        a, b = torch.empty_like(x), torch.empty_like(y)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = torch.add(a, b)
        _held.extend((graph, a, b, c))
    graph, a, b, c = _held
    a.copy_(x), b.copy_(y)
    graph.replay()
    z = torch.empty_like(x)
    _into(z, c, torch.zeros_like(c))
    return z
''',
        ("invalid",), "replays a graph",
    ),
]
