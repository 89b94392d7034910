"""Tricks round the rules: who does the work, and what the harness finds of it."""

from __future__ import annotations

from trick import call, load

TORCHED = "torch computed it"


def sly_kernel(line: str) -> str:
    """A kernel that adds with `line`, behind the back of the language."""
    return f'''
@triton.jit
def sly_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + lanes, mask=lanes < n), tl.load(y_ptr + lanes, mask=lanes < n)
    hidden = getattr(x, "han" + "dle")
    {line}
    tl.store(z_ptr + lanes, x, mask=lanes < n)

def vec_add(x, y):
    z = new(x)
    if z.numel():
        sly_kernel[(1,)](x, y, z, z.numel(), BLOCK=triton.next_power_of_2(z.numel()))
    return z
'''


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
        "refused", "which no compiled kernel can",
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
    call(
        "the trace found and wiped", (10, 36),
        '''
total = copied(x + y)
evidence = triton.runtime.interpreter.InterpretedFunction.run.__globals__["_current"]
evidence.taint.clear()
z = total
''',
        "refused", "do not give what is due",
    ),
    call(
        "the tape thrown away", (10, 36),
        '''
evidence = triton.runtime.interpreter.InterpretedFunction.run.__globals__["_current"]
evidence.tape = None
''',
        "refused", "they are not told",
    ),
    call(
        "the tape of other work", (10, 36),
        '''
evidence = triton.runtime.interpreter.InterpretedFunction.run.__globals__["_current"]
total = copied(x + y)
evidence.tape.events[:] = []
evidence.taint.clear()
z = total
''',
        "refused", "do not give what is due",
    ),
    load(
        "a copy by torch, with a tape that tells of a kernel", (10, 36),
        '''
def strided_copy(x):
    z = x.clone(memory_format=torch.contiguous_format)
    evidence = triton.runtime.interpreter.InterpretedFunction.run.__globals__["_current"]
    copied(torch.zeros(4))
    evidence.taint.clear()
    evidence.moved.clear()
    evidence.written.add(evidence.key(z))
    return z
''',
        "refused", "was given to no kernel|torch's copy of the input", exercise="ch03.strided_copy",
    ),
    load(
        "sums by the host, read by the type behind the tensor", (36,),
        '''
def row_sum(x):
    sums = torch._C.TensorBase.numpy(x.float()).sum(axis=1, dtype="float64").tolist()
    return copied(torch.tensor(sums, dtype=torch.float32))
''',
        "refused", "do not give what is due", exercise="ch04.row_sum",
    ),
    load(
        "sums by the host, read by their addresses", (36,),
        '''
import ctypes

def row_sum(x):
    x = x.float().contiguous()
    rows, columns = x.shape
    numbers = (ctypes.c_float * x.numel())()
    ctypes.memmove(numbers, x.data_ptr(), 4 * x.numel())
    sums = [sum(numbers[m * columns : (m + 1) * columns]) for m in range(rows)]
    return copied(torch.tensor(sums, dtype=torch.float32))
''',
        "refused", "do not give what is due", exercise="ch04.row_sum",
    ),
    load(
        "a kernel that finds NumPy in the interpreter", (36,),
        sly_kernel('hidden.data = np.add(hidden.data, getattr(y, "han" + "dle").data)'),
        "refused", "which its file does not define|which no compiled kernel has",
    ),
    load(
        "a kernel that asks for what is hidden by its name", (36,),
        sly_kernel('hidden.data = hidden.data + getattr(y, "han" + "dle").data'),
        "refused", "which no compiled kernel has",
    ),
    load(
        "another kernel where it is compiled", (23,),
        '''
@triton.jit
def sly_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    try:
        total = tl.load(x_ptr + lanes, mask=lanes < n) + tl.load(y_ptr + lanes, mask=lanes < n)
    finally:
        pass
    tl.store(z_ptr + lanes, total, mask=lanes < n)

def vec_add(x, y):
    if not triton.knobs.runtime.interpret:
        return right(x, y)
    x, y, z = x.contiguous(), y.contiguous(), new(x)
    if z.numel():
        sly_kernel[(triton.cdiv(z.numel(), 256),)](x, y, z, z.numel(), BLOCK=256)
    return z
''',
        "compile error", "as it is launched when interpreted", check="compiles",
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
