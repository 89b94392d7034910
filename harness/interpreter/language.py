"""Repairs of the kernel language: loops, truth, scalar arguments, NaN in max and min, autotune, overflow.

`RewriteKernel` changes a kernel's source where Python cannot do what the compiler does; its helpers are the
functions with a leading `_kernel_`, which the rewritten kernel finds among its globals.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import autotuner
from triton.runtime import interpreter as stock

from harness.interpreter.state import STATE, BlockCondition, DeviceAssertFailed, IntegerOverflow

Handle = stock.TensorHandle

# --- scalars ----------------------------------------------------------------------------------------------


def index(value: Any) -> int:
    """`int` of a one-element tensor; Triton 3.6 asks an array of rank 1 for it, which NumPy 2.4 refuses."""
    return int(value.handle.data.item())


def integer(value: int) -> Any:
    """A run-time integer scalar as the launcher types it: int32, int64 if it does not fit, uint64 above that.

    Stock Triton holds 2**31 .. 2**32 - 1 in uint32 data that is typed int64, so that products wrap at 32
    bits.
    """
    data: NDArray[Any]
    if -(2**31) <= value < 2**31:
        kind, data = tl.int32, np.array([value], np.int32)
    elif -(2**63) <= value < 2**63:
        kind, data = tl.int64, np.array([value], np.int64)
    elif value < 2**64:
        kind, data = tl.uint64, np.array([value], np.uint64)
    else:
        raise ValueError(f"{value} fits no 64-bit integer")
    return tl.tensor(Handle(data, kind), kind)


_stock_argument = stock._implicit_cvt


def argument(value: Any) -> Any:
    """A kernel's argument as compiled code sees it.

    Stock keeps a float as a Python number, which takes a float16 block's type where compiled code has a
    float32 scalar and widens; it fails on bool (3.6 to 3.8).
    """
    if isinstance(value, bool):
        return tl.tensor(Handle(np.array([value], np.bool_), tl.int1), tl.int1)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return tl.tensor(Handle(np.array([value], np.float32), tl.float32), tl.float32)
    return _stock_argument(value)


# --- loops ------------------------------------------------------------------------------------------------


def _bound(value: Any) -> tuple[int, Any]:
    """A loop bound's value, and its type if it is a tensor."""
    if isinstance(value, tl.core.tensor):
        return index(value), value.dtype
    value = value.value if isinstance(value, tl.constexpr) else value
    return operator.index(value), None


def _kernel_range(first: Any, second: Any = None, step: Any = None, **_: Any) -> Iterator[Any]:
    """`range` and `tl.range`: the variable is an int32 scalar, int64 if a bound is, as when compiled.

    Stock Triton (3.6 to 3.9) yields Python ints: `k.to(tl.int64)` fails, and `k * block` takes the block's
    type where a scalar of its own would widen it. The options of `tl.range` (num_stages, ...) change no
    value.
    """
    start, stop = (0, first) if second is None else (first, second)
    bounds = [_bound(part) for part in (start, stop, 1 if step is None else step)]
    kinds = [kind for _, kind in bounds if kind is not None]
    wide = any(kind.int_bitwidth == 64 for kind in kinds) or any(abs(value) > 2**31 for value, _ in bounds)
    kind, dtype = (tl.int64, np.int64) if wide else (tl.int32, np.int32)
    for value in range(*(number for number, _ in bounds)):
        yield tl.core.tensor(Handle(np.array([value], dtype), kind), kind)


# --- truth ------------------------------------------------------------------------------------------------


def _kernel_truth(value: Any) -> Any:
    """The condition of `if`, `while` or `x if c else y`: one value, not a block (refused by the compiler)."""
    if isinstance(value, tl.core.tensor):
        if value.handle.data.size != 1:
            raise BlockCondition("a block of several elements has no single truth value: use tl.where")
        return bool(value.handle.data.item())
    return value


def _logical(parts: tuple[Callable[[], Any], ...], method: str, stop: bool) -> Any:
    tensors: list[Any] = []
    value: Any = None
    for part in parts:
        value = part()
        if isinstance(value, tl.core.tensor):
            tensors.append(value)
        elif bool(value) is stop:
            return value
    if not tensors:
        return value
    result = tensors[0]
    for one in tensors[1:]:
        result = getattr(result, method)(one)
    return result


def _kernel_and(*parts: Callable[[], Any]) -> Any:
    """`a and b`, lane by lane, both sides evaluated. Python takes a block as true and returns b."""
    return _logical(parts, "logical_and", False)


def _kernel_or(*parts: Callable[[], Any]) -> Any:
    """`a or b`, likewise."""
    return _logical(parts, "logical_or", True)


def _kernel_not(value: Any) -> Any:
    """`not a`, lane by lane."""
    return value.__not__() if isinstance(value, tl.core.tensor) else not value


def _kernel_assert(condition: Any, message: Any = "") -> None:
    """`assert` in a kernel: a device_assert for the compiler, while Python takes any block as true."""
    if isinstance(condition, tl.core.tensor):
        if STATE.asserts:
            _assert_handle(condition.handle, message)
        return
    if not condition:
        raise DeviceAssertFailed(str(message))


def _assert_handle(condition: Any, message: Any) -> None:
    data = condition.data
    if not data.all():
        lane = tuple(int(i) for i in np.argwhere(~data.astype(bool))[0])
        where = "" if data.size == 1 else f" (lane {lane})"
        raise DeviceAssertFailed(f"{message}{where} in {STATE.kernel} at program {STATE.program}")


HELPERS: dict[str, Any] = {
    "_kernel_range": _kernel_range,
    "_kernel_truth": _kernel_truth,
    "_kernel_and": _kernel_and,
    "_kernel_or": _kernel_or,
    "_kernel_not": _kernel_not,
    "_kernel_assert": _kernel_assert,
}


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=[])


def _later(body: ast.expr) -> ast.Lambda:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=empty, body=body)


class RewriteKernel(stock.ASTTransformer):  # type: ignore[misc]
    """Stock's rewriting (assigned numbers become tensors; 3.9: chained comparisons) and this module's."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        if len(node.targets) > 1:
            raise ValueError("Multiple assignments are not supported")
        owner = ast.Name(id="interpreter_semantic", ctx=ast.Load())
        convert = ast.Attribute(value=owner, attr="to_tensor", ctx=ast.Load())
        node.targets = [self.visit(target) for target in node.targets]
        value = self.visit(node.value)
        node.value = ast.Call(func=convert, args=[value, ast.Constant(value=False)], keywords=[])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        name = "_kernel_and" if isinstance(node.op, ast.And) else "_kernel_or"
        return ast.copy_location(_call(name, *(_later(value) for value in node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(_call("_kernel_not", node.operand), node)

    def _visit_test(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = ast.copy_location(_call("_kernel_truth", node.test), node.test)
        return node

    visit_If = visit_While = visit_IfExp = _visit_test

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        parts = [node.test] if node.msg is None else [node.test, node.msg]
        return ast.copy_location(ast.Expr(value=_call("_kernel_assert", *parts)), node)

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        if isinstance(called, ast.Name) and called.id == "range":
            called.id = "_kernel_range"
        return node


def _compile_and_exec(self: Any, tree: ast.Module) -> Any:
    """Give the student's module what the rewritten kernel needs, and no more.

    Stock puts all of its own globals there (np, ast, math, ...), which hides missing imports.
    """
    code = compile(tree, filename=self.filename, mode="exec")
    names: dict[str, Any] = {"interpreter_semantic": stock.interpreter_semantic, **HELPERS}
    if hasattr(stock, "_InterpreterComparison"):
        names["_InterpreterComparison"] = stock._InterpreterComparison
    for name, value in names.items():
        self.fn.__globals__.setdefault(name, value)
    local = {**self.kwargs}
    exec(code, self.fn.__globals__, local)
    return local[self.fn.__name__]


# --- NaN, asserts, overflow, autotune ---------------------------------------------------------------------


def _clamp(self: Any, value: Any, low: Any, high: Any, propagate: Any) -> Any:
    if propagate == stock._ir.PROPAGATE_NAN.NONE:
        return self.binary_op(self.binary_op(value, low, np.fmax), high, np.fmin)
    return self.binary_op(self.binary_op(value, low, np.maximum), high, np.minimum)


def mend_nan() -> None:
    """tl.maximum, minimum and clamp drop NaN unless told otherwise (`max.f32`). Needed on 3.6 and 3.7."""
    builder = stock.InterpreterBuilder
    builder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
    builder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)
    builder.create_clampf = _clamp


def _wraps(op: str, a: NDArray[Any], b: NDArray[Any]) -> bool:
    """True when a (op) b leaves its signed type somewhere; a and b have one type and broadcast."""
    if not a.size or not b.size:
        return False
    if op == "mul":
        reach = max(abs(int(a.min())), abs(int(a.max()))) * max(abs(int(b.min())), abs(int(b.max())))
        if reach <= np.iinfo(a.dtype).max:
            return False
        exact = a.astype(object) * b.astype(object)
        return bool(((exact < np.iinfo(a.dtype).min) | (exact > np.iinfo(a.dtype).max)).any())
    # The sign of the result is wrong: both operands differ from it (add), or b's opposite does (sub).
    result = np.add(a, b) if op == "add" else np.subtract(a, b)
    wrong = (a ^ result) & ((b ^ result) if op == "add" else (a ^ b))
    return bool((wrong < 0).any())


def sanitize(left: Any, right: Any, operation: Callable[..., Any]) -> None:
    """The overflow check in front of each integer +, - and * (unless called with sanitize_overflow=False).

    int32 and int64 only: narrower types wrap on a GPU as they do here, and wrapping is what unsigned types
    are for (hashes, random numbers).
    """
    kind = left.type.scalar
    if STATE.overflow and kind in (tl.int32, tl.int64):
        a, b = left.handle.data, right.handle.data
        if _wraps(operation.__name__, a, b):
            raise IntegerOverflow(
                f"{kind} overflow detected for operation {operation.__name__} "
                f"in {STATE.kernel} at program {STATE.program}"
            )


def try_config(call: Callable[[], Any], **_: Any) -> list[float]:
    """Stands in for the benchmark: runs the kernel once and calls all configurations equally fast."""
    call()
    return [1.0, 1.0, 1.0]


_stock_bench = autotuner.Autotuner._bench


def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
    """Try each configuration once in a process, so that tuning over an in-place output shows its fault.

    Later keys take the first configuration without a trial. Stock Triton asks a GPU driver for a benchmark.
    """
    tried = self.__dict__.setdefault("_tried_configs", set())
    if id(config) in tried:
        return [1.0, 1.0, 1.0]
    tried.add(id(config))
    self.__dict__["do_bench"] = try_config
    return _stock_bench(self, *args, config=config, **meta)


def mend_autotune() -> None:
    """Autotune without a driver. Needed on 3.6 to 3.9."""
    autotuner.Autotuner._bench = _bench


def mend_language() -> None:
    """Loop variables, `and`/`or`/`not`/`assert` on blocks, block conditions. Needed on 3.6 to 3.9."""
    stock.FunctionRewriter.ast_transformer = RewriteKernel()
    stock.FunctionRewriter._compile_and_exec = _compile_and_exec


def mend_arguments() -> None:
    """Scalar arguments. Needed on 3.6 to 3.9 (float, large int) and 3.6 to 3.8 (bool)."""
    stock._implicit_cvt = argument


def install_asserts() -> None:
    """Asserts that name the lane and the program; whether they are on is the session's choice."""
    builder = stock.InterpreterBuilder
    builder.create_assert = lambda self, condition, message: _assert_handle(condition, message)
    stock.interpreter_semantic.binary_op_sanitize_overflow_impl = sanitize
