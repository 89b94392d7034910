# ruff: noqa: E501  (a case reads best on one line)
"""Submissions of ch02.vec_add that are broken or mean, and what the grade must say of each.

Every body stands after `HEAD`, which has a right solution (`right`) and a kernel that copies (`copied`). The comment
behind a group names the lines of the list of known failures of graders that it tries.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = '''\
import os
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


@triton.jit
def copy_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


def right_into(x, y, z):
    n = z.numel()
    if n:
        add_kernel[(triton.cdiv(n, 256),)](x.contiguous(), y.contiguous(), z, n, BLOCK=256)
    return z


def right(x, y):
    return right_into(x, y, torch.empty(x.shape, dtype=x.dtype, device=x.device))


def copied(source):
    z = torch.empty(source.shape, dtype=source.dtype, device=source.device)
    n = z.numel()
    if n:
        copy_kernel[(triton.cdiv(n, 256),)](source.contiguous(), z, n, BLOCK=256)
    return z


'''


@dataclass(frozen=True)
class Case:
    """`status` and a part of the `message` of the check; `whole` files do without `HEAD`."""

    name: str
    body: str
    status: str
    message: str = ""
    whole: bool = False

    @property
    def source(self) -> bytes:
        return (self.body if self.whole else HEAD + self.body).encode()


def call(name: str, body: str, status: str, message: str = "") -> Case:
    """A case whose `vec_add(x, y)` is `body`, one statement a line."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Case(name, f"def vec_add(x, y):\n{lines}", status, message)


def load(name: str, statement: str, status: str, message: str = "") -> Case:
    """A right solution with a statement that is run while it is imported."""
    return Case(name, f"vec_add = right\n{statement}\n", status, message)


# 16, 17, 65, 66, 70: the process ends, hangs or swallows the signal that should end it
ENDS = [
    load("loop at import", "while True: pass", "timed out", "while it was imported: no answer within 3 s"),
    call("loop in the call", "while True: pass", "timed out", "no answer within 4 s"),
    call(
        "loop that catches everything",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", "timed out", "no answer within 4 s",
    ),
    load("os._exit at import", "os._exit(0)", "crashed", "while it was imported: the process ended itself with exit code 0"),
    call("os._exit in the call", "os._exit(0)", "crashed", "ended itself with exit code 0 before it answered"),
    load("sys.exit at import", "sys.exit(0)", "failed", "SystemExit: 0"),
    call("sys.exit in the call", "sys.exit(0)", "failed", "SystemExit: 0"),
    call("KeyboardInterrupt", "raise KeyboardInterrupt", "failed", "KeyboardInterrupt"),
    load("exit in atexit", "import atexit; atexit.register(os._exit, 0)", "passed"),
    call(
        "segmentation fault",
        "import numpy as np\nfrom triton._C.libtriton import interpreter\n"
        "interpreter.load(np.array([8], np.uint64), np.ones(1, bool), np.zeros(1, np.uint32), np.dtype(np.uint32))",
        "crashed", "SIGSEGV",
    ),
    call("abort", "os.abort()", "crashed", ""),
    call("kills itself", "os.kill(os.getpid(), 9)\nreturn right(x, y)", "crashed|passed", ""),  # process 1 of a namespace lives on
    call("recursion", "return vec_add(x, y)", "failed", "RecursionError"),
    call(
        "pointer out of bounds",
        "z = torch.empty_like(x)\nadd_kernel[(1 << 10,)](x, y, z, 1 << 40, BLOCK=256)\nreturn z", "failed", "outside the tensors",
    ),
]  # fmt: skip

# 67, 68: memory and output
SIZES = [
    call("torch.empty 10 GB", "return torch.empty(10 << 30, dtype=torch.uint8)", "out of memory", "memory"),
    call("torch.zeros 10 GB", "return torch.zeros(10 << 30, dtype=torch.uint8)", "out of memory", ""),
    call("bytearray 10 GB", "big = bytearray(10 << 30)", "out of memory", "MemoryError"),
    call("list 10 GB", "big = [0] * (10 << 27)", "out of memory", "MemoryError"),
    call("grows slowly", "held = []\nwhile True: held.append(bytearray(1 << 24))", "out of memory", ""),
    call("a megabyte of output", "print('x' * (1 << 20))\nreturn right(x, y)", "passed"),
    call("output that is no text", "os.write(1, bytes(range(256)) * 16)\nreturn right(x, y)", "passed"),
]

# 26, 27, 28, 29: what comes back
OUTPUTS = [
    Case("takes one argument", "def vec_add(x):\n    return right(x, x)\n", "failed", "takes 1 positional argument"),
    call("returns a pair", "return right(x, y), right(x, y)", "failed", "must be a torch.Tensor (got a tuple of 2)"),
    call("wrong shape", "return right(x, y).reshape(-1)[:1]", "failed", "must have shape"),
    call("wrong dtype", "return right_into(x, y, torch.empty(x.shape, dtype=torch.float64))", "failed", "must have dtype torch.float32"),
    call("wrong device", "right(x, y)\nreturn torch.empty_like(x, device='meta')", "failed", "(got tensor on meta"),
    Case(
        "a subclass of Tensor",
        "class Sly(torch.Tensor):\n    pass\n\n\ndef vec_add(x, y):\n    return right(x, y).as_subclass(Sly)\n",
        "failed", "must be a torch.Tensor (got Sly)",
    ),
    call(
        "output not contiguous",
        "z = torch.empty(x.numel() * 2, dtype=x.dtype)[::2]\n"
        "z.copy_(right(x, y).reshape(-1))\nreturn z.view(x.shape) if x.dim() == 1 else z.as_strided(x.shape, (1,) * x.dim())",
        "failed", "return a contiguous tensor",
    ),
    call("returns an input", "right(x, y)\nreturn x", "failed", "is the memory of argument x"),
    call("changes an input", "z = right(x, y)\nright_into(y, y, x)\nreturn z", "failed", "changed its input x"),
    Case(
        "the same output twice",
        "kept = {}\n\n\ndef vec_add(x, y):\n    z = kept.setdefault(tuple(x.shape), torch.empty_like(x))\n    return right_into(x, y, z)\n",
        "failed", "an earlier call's output",
    ),
    call("returns a list", "return right(x, y).tolist()", "refused", "the host read more than a few elements"),
    call("returns a list of nothing", "right(x, y)\nreturn []", "failed", "must be a torch.Tensor (got a list of 0)"),
    call("returns None", "right(x, y)", "failed", "must be a torch.Tensor (got NoneType)"),
    call("a generator", "yield right(x, y)", "failed", "must be a torch.Tensor (got generator)"),
    call("requires grad", "return right(x, y).requires_grad_()", "failed", "requires_grad"),
    call("a lazily negated tensor", "return torch._neg_view(right(x, y))", "failed", "negative or conjugate bit"),
    call("a sparse tensor", "return right(x, y).to_sparse()", "failed", "must be a torch.Tensor"),
    call("all zeros", "right(x, y)\nreturn right_into(torch.zeros_like(x), torch.zeros_like(y), torch.empty_like(x))", "failed", "is wrong"),
]  # fmt: skip

# 70, 72, 74, and what beginners do
BEGINNERS = [
    Case("syntax error", "def vec_add(x, y:\n    return x\n", "compile error", "SyntaxError", whole=True),
    Case("missing function", "def vec_ad(x, y):\n    return right(x, y)\n", "failed", "did you mean to call `vec_ad` that?"),
    Case("import error", "import nosuchmodule\nvec_add = None\n", "failed", "No module named 'nosuchmodule'", whole=True),
    Case("not a function", "vec_add = 3\n", "failed", "no function `vec_add`"),
    call("NotImplementedError", "raise NotImplementedError('later')", "not started", "not implemented yet"),
    call("an exception", "return x[0] + undefined", "failed", "NameError: name 'undefined' is not defined\n  at vec_add.py:"),
    Case("empty file", "", "failed", "there is no function `vec_add` in the file", whole=True),
    Case("null bytes", "x = 1\0\n", "compile error", "null bytes", whole=True),
]

# 10, 16, 22, 63, 69 and the sandbox
PROCESSES = [
    call("kills the parent", "os.kill(os.getppid(), 9)\nreturn right(x, y)", "failed|passed", ""),  # in a namespace it has none
    call("kills everything", "os.kill(-1, 9)\nreturn right(x, y)", "failed|crashed", ""),
    call("forks", "os.fork()\nreturn right(x, y)", "refused", "forks"),
    call("fork bomb", "while True:\n    try:\n        os.fork()\n    except PermissionError: pass", "refused|timed out", ""),
    call("a subprocess", "import subprocess\nsubprocess.run(['true'])\nreturn right(x, y)", "refused", "starts another program"),
    call("os.system", "os.system('true')\nreturn right(x, y)", "refused", "starts another program"),
    call(
        "a thread that computes",
        "import threading\nout = []\nt = threading.Thread(target=lambda: out.append(x + y))\nt.start()\nt.join()\nreturn copied(out[0])",
        "refused", "starts a thread",
    ),
    call("a socket", "import socket\nsocket.socket()\nreturn right(x, y)", "refused", "opens a socket"),
    call("a native library", "import ctypes\nctypes.CDLL(None)\nreturn right(x, y)", "refused", "loads a native library"),
    call("a refused import", "try:\n    import numba\nexcept ImportError: pass\nreturn right(x, y)", "refused", "imports numba"),
    load("a subprocess at import", "import subprocess; subprocess.Popen(['true'])", "refused", "starts another program"),
    call("reads the reference", "open(ROOT + '/reference/ch02_triton_syntax/vec_add.py').read()\nreturn right(x, y)", "failed", "PermissionError|FileNotFoundError"),
    call("reads the grader", "open(ROOT + '/graders/ch02_triton_syntax.py').read()\nreturn right(x, y)", "failed", "PermissionError|FileNotFoundError"),
    call("lists the course", "os.listdir(ROOT)\nreturn right(x, y)", "failed", "PermissionError"),
    call("imports a grader", "import graders.ch02_triton_syntax\nreturn right(x, y)", "refused|failed", "graders"),
    call("writes outside its folder", "open('/tmp/grade-hostile', 'w').write('x')\nreturn right(x, y)", "failed", "PermissionError|Read-only file system"),
    call("writes to its folder", "open('note', 'w').write('x')\nreturn right(x, y)", "passed"),
    call("fills its folder", "while True:\n    with open('big', 'ab') as f: f.write(bytes(1 << 24))", "failed|refused|crashed", ""),
    call(
        "writes to every descriptor",
        "for fd in range(3, 64):\n    try:\n        os.write(fd, b'{\"status\": \"ok\"}' * 100)\n    except OSError: pass\nreturn right(x, y)",
        "refused", "not data",
    ),
    call(
        "a frame of 2**63 bytes",
        "for fd in range(3, 64):\n    try:\n        os.write(fd, b'\\xff' * 7 + b'\\x7f')\n    except OSError: pass\nreturn right(x, y)",
        "refused", "not data",
    ),
    call(
        "a verdict instead of an answer",
        "from harness import wire\nfor fd in range(3, 64):\n    try:\n"
        "        os.write(fd, wire.pack_frame({'status': 'ok', 'value': None, 'passed': True, 'facts': {}}))\n    except OSError: pass\n"
        "return right(x, y)",
        "refused", "",
    ),
    Case(
        "a pickle bomb",
        "class Bomb(torch.Tensor):\n    def __reduce_ex__(self, protocol):\n        return os._exit, (0,)\n\n\n"
        "def vec_add(x, y):\n    return right(x, y).as_subclass(Bomb)\n", "failed", "must be a torch.Tensor (got Bomb)",
    ),
    Case(
        "an int that is a str",
        "class Sly(str):\n    def __eq__(self, other):\n        return True\n    __hash__ = str.__hash__\n\n\n"
        "def vec_add(x, y):\n    return Sly('ok')\n", "failed", "must be a torch.Tensor (got Sly)",
    ),
]  # fmt: skip

# 24, 34, 35, 36, 37 and the rule that the submission's own kernels do the work
WORK = [
    call("torch.add", "return torch.add(x, y)", "refused", "no Triton kernel of the submission was launched"),
    call("torch.add beside a kernel", "right(x, y)\nreturn x + y", "refused", "torch computed it (aten::add)"),
    call("a decoy that copies", "return copied(x + y)", "refused", "torch computed it (aten::add)"),
    call("a decoy over an in-place sum", "z = x.clone()\nz += y\nreturn copied(z)", "refused", "torch computed it (aten::add_)"),
    call("torch into the kernel's memory", "z = right(x, y)\nreturn torch.add(x, y, out=z)", "refused", "torch computed it"),
    call("kernel, except torch", "try:\n    add_kernel[(1,)](x)\nexcept Exception:\n    return x + y", "refused", ""),
    call("numpy", "return copied(torch.from_numpy(x.numpy() + y.numpy()))", "refused", "NumPy"),
    call("numpy by asarray", "import numpy\nreturn copied(torch.as_tensor(numpy.asarray(x) + numpy.asarray(y)))", "refused", "NumPy"),
    call(
        "a Python loop",
        "z = torch.empty_like(x)\na, b, c = x.reshape(-1), y.reshape(-1), z.reshape(-1)\n"
        "for i in range(c.numel()):\n    c[i] = a[i].item() + b[i].item()\nreturn copied(z)",
        "refused", "the host read more than a few elements",
    ),
    call("tolist", "a, b = x.reshape(-1).tolist(), y.reshape(-1).tolist()\nreturn copied(torch.tensor([i + j for i, j in zip(a, b)]).view(x.shape))",
         "refused", "the host read more than a few elements"),
    call("autograd computes", "with torch.enable_grad():\n    a = x.clone().requires_grad_()\n    z = (a + y).detach()\nreturn copied(z)",
         "refused", "torch computed it"),
    call("torchscript", "f = torch.jit.script(torch.nn.Identity())\nz = torch.ops.aten.add(x, y)\nreturn copied(z)", "refused", "torch computed it"),
    # the trace switched off, in the ways that torch offers
    call("trace off: disable modes", "from torch.utils import _python_dispatch as d\nwith d._disable_current_modes():\n    z = x + y\nreturn copied(z)", "refused"),
    call("trace off: disable modes, out=", "from torch.utils import _python_dispatch as d\nz = torch.empty_like(x)\n"
         "with d._disable_current_modes():\n    torch.add(x, y, out=z)\nreturn copied(z)", "refused"),
    call("trace off: pop", "z = torch.empty_like(x)\nmode = torch._C._pop_torch_dispatch_stack()\ntorch.add(x, y, out=z)\n"
         "torch._C._set_dispatch_mode(mode)\nreturn copied(z)", "refused"),
    call("trace off: no_dispatch", "from torch.utils._mode_utils import no_dispatch\nz = torch.empty_like(x)\n"
         "with no_dispatch():\n    torch.add(x, y, out=z)\nreturn copied(z)", "refused"),
    call("trace off: exclude the key", "z = torch.empty_like(x)\n"
         "with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Python)):\n"
         "    torch.add(x, y, out=z)\nreturn copied(z)", "refused"),
    call("trace off: then a traced copy", "from torch.utils import _python_dispatch as d\nz = torch.empty_like(x)\n"
         "with d._disable_current_modes():\n    w = x + y\nz.copy_(w)\nreturn copied(z)", "refused"),
    call("trace off: after the kernel", "from torch.utils import _python_dispatch as d\nz = right(x, y)\n"
         "with d._disable_current_modes():\n    torch.add(x, y, out=z)\nreturn z", "refused"),
    call("trace off: numpy behind torch", "z = torch.empty_like(x)\nnp = torch._C.TensorBase.numpy\n"
         "np(z)[...] = np(x) + np(y)\nreturn copied(z)", "refused"),
    call("trace off: many literals", "r = [0.5] * x.numel()\nz = torch.tensor(r + [0.0] * 2000)\nreturn copied(z[: x.numel()].view(x.shape))", "refused", "numbers into tensors"),
    call("trace off: raw storage", "a, b = x.untyped_storage(), y.untyped_storage()\nbytes(a)\nlist(a)\nreturn right(x, y)", "refused"),
    Case(
        "torch inside a kernel's body",
        "def cheat(x_ptr, y_ptr, z_ptr, n):\n    Z.copy_(X + Y)\n\n\n@triton.jit\ndef sly_kernel(x_ptr, y_ptr, z_ptr, n):\n"
        "    cheat(x_ptr, y_ptr, z_ptr, n)\n\n\n"
        "def vec_add(x, y):\n    global X, Y, Z\n    z = torch.empty_like(x)\n    X, Y, Z = x, y, z\n"
        "    sly_kernel[(1,)](x, y, z, z.numel())\n    return z\n",
        "refused", "",
    ),
    Case(
        "an import inside a kernel's body",
        "@triton.jit\ndef sly_kernel(x_ptr, y_ptr, z_ptr, n):\n    import __main__\n\n\n"
        "def vec_add(x, y):\n    sly_kernel[(1,)](x, y, x, 1)\n    return right(x, y)\n", "refused", "imports __main__",
    ),
    Case(
        "numpy inside a kernel's body",
        "import numpy\n\n\n@triton.jit\ndef sly_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):\n"
        "    offsets = tl.arange(0, BLOCK)\n    inside = offsets < n\n    x = tl.load(x_ptr + offsets, mask=inside)\n"
        "    x.handle.data = numpy.add(x.handle.data, tl.load(y_ptr + offsets, mask=inside).handle.data)\n"
        "    tl.store(z_ptr + offsets, x, mask=inside)\n\n\n"
        "def vec_add(x, y):\n    z = torch.empty_like(x)\n    sly_kernel[(1,)](x, y, z, z.numel(), BLOCK=4096)\n    return z\n",
        "refused", "",
    ),
]  # fmt: skip

# 1, 2, 5, 10, 21: what is patched or remembered
PATCHES = [
    load("torch.equal patched", "torch.equal = lambda a, b: True\nvec_add = lambda x, y: copied(x)", "failed", "is wrong"),
    load("Tensor.__eq__ patched", "torch.Tensor.__eq__ = lambda a, b: True\nvec_add = lambda x, y: copied(x)", "failed|refused", ""),
    load("allclose patched", "torch.allclose = lambda *a, **k: True\ntorch.testing.assert_close = print\nvec_add = lambda x, y: copied(x)", "failed", "is wrong"),
    load(
        "the comparison patched in sys.modules",
        "for name, module in list(sys.modules.items()):\n    if name.startswith('harness') and hasattr(module, 'within'):\n"
        "        module.within = lambda *a: (None, 0.0)\nvec_add = lambda x, y: copied(x)",
        "failed", "is wrong",
    ),
    call(
        "the trace patched in sys.modules",
        "z = x + y\nseen = sys.modules['harness.worker.evidence']._current\nseen.taint.clear()\nreturn copied(z)", "failed|refused", "",
    ),
    call("the trace imported again", "import harness.worker.evidence as e\nz = x + y\ne._current.taint.clear()\nreturn copied(z)", "refused", ""),
    call("the trace by gc", "import gc\nz = x + y\n[o.taint.clear() for o in gc.get_objects() if type(o).__name__ == 'Evidence']\nreturn copied(z)",
         "refused", ""),
    call("the trace by a frame", "z = x + y\nf = sys._getframe()\nwhile f:\n    if 'seen' in f.f_locals: f.f_locals['seen'].taint.clear()\n"
         "    f = f.f_back\nreturn copied(z)", "refused", ""),
    Case("a new class in Tensor's place", "class T(torch.Tensor):\n    pass\n\n\ntorch.Tensor = T\nvec_add = right\n", "passed|failed|error", ""),
]  # fmt: skip

# 44 to 50: sound work that looks odd must pass
SOUND = [
    load("sound: a right solution", "", "passed"),
    Case(
        "sound: tables and work space",
        """TABLE = torch.tensor([0.0] * 300)
WORK = {}


@triton.jit
def table_kernel(x_ptr, y_ptr, z_ptr, table_ptr, small_ptr, work_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    nothing = tl.load(table_ptr + offsets % 300) + tl.load(small_ptr)
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(work_ptr + offsets, x, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, (x + y) + nothing.to(x.dtype), mask=inside)


def vec_add(x, y):
    z = torch.empty(x.shape, dtype=x.dtype)
    n = z.numel()
    if n:
        small = torch.tensor([0.0, 0.0]) if n % 2 else torch.as_tensor([0.0]).to(x.dtype)
        work = WORK.setdefault((n, x.dtype), torch.empty(n, dtype=x.dtype))
        assert not x.is_meta and str(x.shape)
        table_kernel[(triton.cdiv(n, 128),)](x.contiguous(), y.contiguous(), z, TABLE, small, work, n, BLOCK=128)
    return z
""",
        "passed",
    ),
    call("sound: a print for debugging", "print(x.shape, x.dtype, x.stride())\nprint(x[:2])\nreturn right(x, y)", "passed"),
    call(
        "sound: torch computes a check on the side",
        "z = right(x, y)\nif os.environ.get('DEBUG'):\n    assert torch.equal(z, x + y)\ns = (x + y).sum()\nreturn z", "passed",
    ),
    call("sound: an exception caught", "try:\n    x.view(-7)\nexcept RuntimeError:\n    pass\nreturn right(x, y)", "passed"),
    call("sound: a fill and a copy", "z = torch.zeros_like(x)\nz.fill_(1)\nw = torch.empty_like(z).copy_(right_into(x, y, z))\nreturn w", "passed"),
    Case(
        "sound: a class, a closure, a generator",
        """class Adder:
    def __init__(self, block):
        self.block = block

    def __call__(self, x, y):
        return next(self.go(x, y))

    def go(self, x, y):
        yield right(x, y)


vec_add = Adder(256)
""",
        "passed",
    ),
    Case(
        "sound: kernels that call kernels",
        """from enum import IntEnum

SCALE = tl.constexpr(1)


class Mode(IntEnum):
    ADD = 0


@triton.jit
def add(x, y, MODE: tl.constexpr):
    if MODE == 0:
        return x + y
    return x - y


@triton.constexpr_function
def half(n):
    return max(1, n // 2)


@triton.jit
def deep_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, MODE: tl.constexpr):
    SIZE: tl.constexpr = half(BLOCK) * 2
    start = tl.program_id(0).to(tl.int64) * SIZE
    for i in tl.static_range(SCALE):
        offsets = start + i + tl.arange(0, SIZE)
        inside = offsets < n
        z = add(tl.load(x_ptr + offsets, mask=inside), tl.load(y_ptr + offsets, mask=inside), MODE)
        tl.store(z_ptr + offsets, z, mask=inside)


def vec_add(x, y):
    z = torch.empty(x.shape, dtype=x.dtype)
    n = z.numel()
    if n:
        deep_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.contiguous(), y.contiguous(), z, n, BLOCK=256, MODE=int(Mode.ADD))
    return z
""",
        "passed",
    ),
]  # fmt: skip

CASES = [*SOUND, *ENDS, *SIZES, *OUTPUTS, *BEGINNERS, *PROCESSES, *WORK, *PATCHES]
