"""Tricks for a result without the work: answers that are remembered, verdicts that are written, outputs that are none."""

from __future__ import annotations

from trick import NOTHING, call, load

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
        "failed|refused", "is wrong", check="repeated calls",
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
        "failed|refused", "is wrong", check="repeated calls",
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
        "failed|refused", "is wrong", check="repeated calls",
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
        "failed|refused", "is wrong", check="repeated calls",
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
