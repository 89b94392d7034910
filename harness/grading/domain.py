"""Domains in the syllabus' words: sizes, dtypes, layouts and values of an exercise's arguments, as Hypothesis strategies.

A grader states the widest domain once, ``arguments(x=tensor("M", "N"), dtypes=F)``; each standard check looks at a
part of it through a `Focus` (aligned sizes, one layout, one dtype, one kind of special value). Every choice is drawn
from a list that begins with the simplest, so that a counterexample shrinks to the smallest shape that fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import torch

from harness.grading.patterns import Pattern

F = (torch.float32, torch.float16, torch.bfloat16)
I = (torch.int8, torch.int16, torch.int32, torch.int64)  # noqa: E741  (the syllabus' letter)

ALIGNED = (16, 32, 64, 128, 256)
RAGGED = (1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 5, 7, 11, 97, 211, 293)
SMALL = tuple(n for n in RAGGED if n <= 33)
LARGE = tuple(n for n in RAGGED if n >= 63)
LONG = (4999, 5003, 5120)  # carries over wide blocks
GPU_LARGE = (1009, 2048, 3001, 4096, 4099)  # up to 16 times the interpreted sizes
CAP_CPU = 1 << 14  # elements of one tensor when interpreted: a program of a small block costs milliseconds
CAP_GPU = 1 << 20

CONTIGUOUS = "contiguous"
LAYOUTS = (
    "transposed", "step-2 slice", "step-2 rows", "padded pitch", "storage offset", "expanded", "expanded last",
    "gaps everywhere", "reversed",
)  # fmt: skip

Values = Callable[[np.random.Generator, tuple[int, ...], torch.dtype, Mapping[str, Any]], torch.Tensor]


# -- values -------------------------------------------------------------------------------------------------------


def normal(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, dims: Mapping[str, Any]
) -> torch.Tensor:
    """Normal data with the drawn offset and scale and a few outliers; for integers the whole range, small values too."""
    if dtype == torch.bool:
        return torch.from_numpy(rng.random(shape) < 0.5)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        wide = rng.integers(info.min, info.max, size=shape, dtype=np.int64, endpoint=True)
        near = rng.integers(-8 if info.min < 0 else 0, 8, size=shape, dtype=np.int64)
        return torch.from_numpy(np.where(rng.random(shape) < 0.5, wide, near)).to(dtype)
    values = rng.standard_normal(shape, dtype=np.float32)
    values = np.where(rng.random(shape) < 0.01, values * 20, values)
    out = torch.from_numpy(np.asarray(values * np.float32(dims.get("scale", 1.0)) + np.float32(dims.get("shift", 0.0))))
    return out.to(dtype)


def small_integers(low: int, high: int) -> Values:
    """Whole numbers from `low` to `high` inclusive in the tensor's dtype: sums of them are exact in any order."""

    def values(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, dims: Mapping[str, Any]
    ) -> torch.Tensor:
        return torch.from_numpy(rng.integers(low, high, size=shape, endpoint=True)).to(dtype)

    return values


def constant(value: float) -> Values:
    def values(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, dims: Mapping[str, Any]
    ) -> torch.Tensor:
        return torch.full(shape, value, dtype=dtype)

    return values


def index_into(dim: str) -> Values:
    """Indices from 0 to the size of `dim`, less one."""

    def values(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, dims: Mapping[str, Any]
    ) -> torch.Tensor:
        return torch.from_numpy(rng.integers(0, max(1, dims[dim]), size=shape)).to(dtype)

    return values


def mask(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, dims: Mapping[str, Any]) -> torch.Tensor:
    """Booleans; each row has a share of them true of its own: none, few, half, most, all."""
    density = rng.choice([0.5, 0.0, 0.1, 0.9, 1.0], size=(*shape[:-1], 1) if shape else ())
    return torch.from_numpy(np.asarray(rng.random(shape) < density)).to(dtype)


SPECIALS = ("zeros", "minus infinity", "plus infinity", "infinities", "nan", "largest", "subnormal", "mixture")
# Without the largest numbers, alone or mixed in: sums whose absolute values overflow float32 are outside the domain.
SUMMABLE = ("zeros", "minus infinity", "plus infinity", "infinities", "nan", "subnormal")


def _special(kind: str, dtype: torch.dtype) -> list[float]:
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return [info.min, info.max, 0, 1, -1 if info.min < 0 else 1]
    info_f = torch.finfo(dtype)
    tiny = float(info_f.smallest_normal)
    table: dict[str, list[float]] = {
        "zeros": [0.0, -0.0], "minus infinity": [-math.inf], "plus infinity": [math.inf], "infinities": [math.inf, -math.inf],
        "nan": [math.nan], "largest": [float(info_f.max), float(info_f.min)],
        "subnormal": [tiny * info_f.eps, -tiny * info_f.eps, tiny * (1 - info_f.eps), tiny / 2],
    }  # fmt: skip
    table["mixture"] = [v for values in list(table.values()) for v in values]
    return table[kind]


def sprinkle(values: torch.Tensor, kind: str, density: float, rng: np.random.Generator) -> torch.Tensor:
    """`values` with a share of them, and at least one, replaced by special ones of `kind`."""
    if values.dtype == torch.bool or values.numel() == 0:
        return values
    pool = torch.tensor(
        _special(kind, values.dtype), dtype=torch.float64 if values.dtype.is_floating_point else torch.int64
    )
    chosen = pool[torch.from_numpy(rng.integers(0, len(pool), size=tuple(values.shape)))].to(values.dtype)
    places = np.asarray(rng.random(tuple(values.shape)) < density)
    places.reshape(-1)[rng.integers(places.size)] = True
    return torch.where(torch.from_numpy(places), chosen, values)


# -- layouts ------------------------------------------------------------------------------------------------------


def _gap(nbytes: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory that belongs to no element: NaN for floats, large for integers, so that reading it shows."""
    byte = 0xFF if dtype.is_floating_point else 0x7B
    base = torch.full((nbytes,), byte, dtype=torch.uint8)
    return base if dtype != torch.bool else base.fill_(1)


def lay(values: torch.Tensor, layout: str, amount: int = 3) -> torch.Tensor:
    """`values` as a view with `layout` of a storage of its own; falls back to a kind that its rank allows."""
    shape, rank, dtype = list(values.shape), values.dim(), values.dtype
    if rank == 0 and layout != CONTIGUOUS:
        layout = "storage offset"
    if rank == 1 and layout in ("transposed", "step-2 rows", "padded pitch", "gaps everywhere", "reversed"):
        layout = "step-2 slice"
    if rank == 1 and layout == "expanded last":
        layout = "expanded"
    if layout in ("expanded", "expanded last"):
        dim = 0 if layout == "expanded" else rank - 1
        if shape[dim] == 0:
            layout = "storage offset"
        else:
            kept = values.select(dim, 0).clone().unsqueeze(dim)
            return kept.expand(shape)
    if layout == CONTIGUOUS:
        return values.contiguous()
    outer = list(shape)
    take = [slice(None)] * rank
    order = list(range(rank))  # of the dimensions in memory: its own inverse in each of these layouts
    lead = 0
    if layout == "step-2 slice":
        outer[-1], take[-1] = 2 * shape[-1], slice(0, 2 * shape[-1], 2)
    elif layout == "step-2 rows":
        outer[0], take[0] = 2 * shape[0], slice(0, 2 * shape[0], 2)
    elif layout == "padded pitch":
        outer[-1], take[-1] = shape[-1] + amount, slice(0, shape[-1])
    elif layout == "gaps everywhere":  # no two dimensions can be walked as one
        outer, take = [*(n + 1 for n in shape[:-1]), shape[-1] + amount], [slice(0, n) for n in shape]
    elif layout == "transposed":
        order[-2:] = rank - 1, rank - 2
    elif layout == "reversed":
        order.reverse()
    elif layout == "storage offset":
        lead = amount
    else:
        raise ValueError(f"layout {layout!r} is none of {LAYOUTS}")
    outer = [outer[i] for i in order]
    count = math.prod(outer)
    base = _gap((count + lead) * dtype.itemsize, dtype).view(dtype)[lead:]
    room = torch.as_strided(base, outer, torch.empty(outer, device="meta").stride(), base.storage_offset())
    view = room[tuple(take)].permute(order)
    view.copy_(values)
    return view


def layout_name(tensor: torch.Tensor) -> str:
    """A tensor's layout in a few words, for messages."""
    if 0 in tensor.stride() and any(n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True)):
        return "expanded (a stride is 0)"
    if tensor.is_contiguous():
        return "contiguous" if tensor.storage_offset() == 0 else f"contiguous, storage offset {tensor.storage_offset()}"
    return f"strides {tuple(tensor.stride())}"


# -- arguments ----------------------------------------------------------------------------------------------------

Dim = str | int


@dataclass(frozen=True)
class Tensor:
    """One tensor argument: `shape` of dimension names, numbers, or one `*S` for any shape; see `tensor`."""

    shape: tuple[Dim, ...]
    dtype: torch.dtype | None = None
    values: Values = normal
    layouts: tuple[str, ...] = LAYOUTS
    special: bool = True
    host: bool = False
    optional: bool = False


def tensor(*shape: Dim, **options: Any) -> Tensor:
    """``tensor("M", "N")``; `dtype` fixes the dtype (else that of the example), `values` says what it holds,
    `layouts` which it may have, `special=False` keeps special values out, `host=True` lets the host read it,
    `optional=True` lets it be None. Strings such as ``"N // 2"`` are computed from the other dimensions."""
    return Tensor(shape, **options)


@dataclass(frozen=True)
class Focus:
    """The part of a domain that one variant of a check looks at."""

    name: str
    sizes: tuple[int, ...] = SMALL
    force: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layouts: tuple[str, ...] = (CONTIGUOUS,)
    dtypes: tuple[torch.dtype, ...] = ()
    special: str | None = None
    ranks: tuple[int, ...] = (2, 1, 3, 4, 0, 5)
    cap: int = CAP_CPU
    share: float = 1.0  # of the examples that a part of a check gets


@dataclass(frozen=True)
class Drawn:
    """One example: the arguments by name, in order, and the sizes they were made with."""

    args: dict[str, Any]
    dims: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def values(self) -> list[Any]:
        return list(self.args.values())

    def names(self) -> list[str]:
        return list(self.args)

    def replace(self, **changed: Any) -> Drawn:
        return Drawn({**self.args, **changed}, self.dims)


@dataclass(frozen=True)
class Arguments:
    """The widest domain of an exercise's arguments; made by `arguments`."""

    specs: Mapping[str, Any]
    dtypes: tuple[torch.dtype, ...]
    at_least: Mapping[str, int]
    at_most: Mapping[str, int]
    choices: Mapping[str, tuple[int, ...]]
    long: tuple[str, ...]
    specials: tuple[str, ...]
    scales: tuple[float, ...]
    shifts: tuple[float, ...]
    where: Callable[[Mapping[str, Any]], bool]
    most_dims: int

    def dims(self) -> list[str]:
        """The names of the free dimensions in order of appearance (`*S` with its star)."""
        names: list[str] = []
        for spec in self._tensors():
            for dim in spec.shape:
                if isinstance(dim, str) and (dim.isidentifier() or dim.startswith("*")) and dim not in names:
                    names.append(dim)
        return names

    def _tensors(self) -> list[Tensor]:
        found = []
        for spec in self.specs.values():
            if isinstance(spec, Tensor):
                found.append(spec)
            elif isinstance(spec, ListOf):
                found.append(spec.of)
        return found

    def layouts(self) -> tuple[str, ...]:
        return tuple(n for n in LAYOUTS if any(n in spec.layouts for spec in self._tensors()))

    def readable(self) -> list[str]:
        return [n for n, spec in self.specs.items() if isinstance(spec, Tensor) and spec.host]

    def sizes(self, dim: str, focus: Focus) -> tuple[int, ...]:
        """The sizes `dim` may have under `focus`, simplest first."""
        if dim in focus.force:
            return focus.force[dim]
        low, high = self.at_least.get(dim, 0), self.at_most.get(dim, math.inf)
        if dim in self.choices:
            return self.choices[dim]
        fitting = tuple(n for n in focus.sizes if low <= n <= high)
        return fitting or tuple(n for n in RAGGED if low <= n <= high) or (max(low, 1),)

    def under(self, focus: Focus) -> st.SearchStrategy[Drawn]:
        """The strategy of examples that `focus` admits."""
        return _examples(self, focus)


@dataclass(frozen=True)
class ListOf:
    """A list of tensors, each with sizes of its own; made by `list_of`."""

    of: Tensor
    low: int
    high: int


def list_of(of: Tensor, low: int = 1, high: int = 4) -> ListOf:
    return ListOf(of, low, high)


@dataclass(frozen=True)
class Choice:
    """An argument that has one of a few values; made by `choice`."""

    values: tuple[Any, ...]


def choice(*values: Any) -> Choice:
    """One of `values`, the simplest first. Unlike those of a Hypothesis strategy, few examples see many of them."""
    return Choice(values)


def arguments(
    *,
    dtypes: tuple[torch.dtype, ...] = F,
    at_least: Mapping[str, int] | None = None,
    at_most: Mapping[str, int] | None = None,
    choices: Mapping[str, tuple[int, ...]] | None = None,
    long: tuple[str, ...] = (),
    specials: tuple[str, ...] = SPECIALS,
    scales: tuple[float, ...] = (1.0, 0.01, 30.0),
    shifts: tuple[float, ...] = (0.0, 1.0, -7.0),
    where: Callable[[Mapping[str, Any]], bool] = lambda dims: True,
    most_dims: int = 6,
    **specs: Any,
) -> Arguments:
    """The domain of an exercise: its arguments in order, `tensor(...)`, `choice(...)`, any Hypothesis strategy, or a
    function that makes one of the last two from the sizes.

    `dtypes` are those that the tensors without a fixed one share (the first is the usual one); `at_least`, `at_most`
    and `choices` restrict dimensions; `long` names those that also get a row of about 5,000; `specials` are the
    special values that the operator defines; `scales` and `shifts` of the normal data; `where` refuses combinations;
    `most_dims` that a `*S` may have (6: any number, as far as it is drawn).
    """
    return Arguments(
        specs, dtypes, at_least or {}, at_most or {}, choices or {}, long, specials, scales, shifts, where, most_dims
    )


@st.composite
def _examples(draw: Any, domain: Arguments, focus: Focus) -> Drawn:
    dims: dict[str, Any] = {}
    pattern = Pattern(draw)
    count = 1
    for name in domain.dims():
        if name.startswith("*"):
            rank = draw(st.sampled_from([n for n in focus.ranks if n <= domain.most_dims]))
            shape: list[int] = []
            for i in range(rank):
                sizes = domain.sizes(name, focus)
                room = focus.cap // (max(1, math.prod(shape)) * max(1, min(sizes)) ** (rank - i - 1))
                fitting = tuple(n for n in sizes if n <= room) or (1,)
                force = focus.force.get(f"{name}{i}")
                shape.append(draw(st.sampled_from(pattern.sizes(f"{name}{i}", force or fitting))))
            dims[name] = tuple(shape)
            count *= max(1, math.prod(shape))
        else:
            fitting = tuple(n for n in domain.sizes(name, focus) if n * max(1, count) <= focus.cap)
            fitting = fitting or (min(domain.sizes(name, focus)),)
            dims[name] = draw(st.sampled_from(pattern.sizes(name, fitting)))
            count *= max(1, dims[name])
    if not domain.where(dims):
        from hypothesis import reject

        reject()
    dtype = draw(st.sampled_from(pattern.one("dtype", focus.dtypes or domain.dtypes[:1])))
    dims |= {
        "dtype": dtype,
        "scale": draw(st.sampled_from(domain.scales)),
        "shift": draw(st.sampled_from(domain.shifts)),
    }
    seed = draw(st.integers(0, 2**16 - 1))  # few bits: a seed is not worth shrinking
    rng = np.random.Generator(np.random.Philox(seed))
    density = draw(st.sampled_from((0.5, 0.02, 1.0))) if focus.special else 0.0
    tensors = [name for name, spec in domain.specs.items() if isinstance(spec, Tensor)]
    # With several tensors, one odd layout among plain ones tells strides taken from the wrong tensor.
    odd = ""
    if focus.layouts[0] != CONTIGUOUS and len(tensors) > 1:
        odd = draw(st.sampled_from(pattern.turn("odd", (*tensors, ""))))
    args: dict[str, Any] = {}
    for name, spec in domain.specs.items():
        if isinstance(spec, Tensor):
            plain = replace(focus, layouts=(CONTIGUOUS,))
            args[name] = _one(draw, spec, dims, plain if odd not in ("", name) else focus, rng, density, pattern)
        elif isinstance(spec, ListOf):
            length = draw(st.integers(spec.low, spec.high))
            args[name] = []
            for _ in range(length):
                own = {
                    **dims,
                    **{d: draw(st.sampled_from(domain.sizes(d, focus))) for d in spec.of.shape if isinstance(d, str)},
                }
                args[name].append(_one(draw, spec.of, own, focus, rng, density, pattern))
        else:
            value = spec(dims) if callable(spec) else spec
            if isinstance(value, Choice):
                value = st.sampled_from(pattern.turn(name, value.values))
            args[name] = draw(value) if isinstance(value, st.SearchStrategy) else value
    return Drawn(args, dims)


def _size(dim: Dim, dims: Mapping[str, Any]) -> tuple[int, ...]:
    if isinstance(dim, int):
        return (dim,)
    if dim.startswith("*"):
        return tuple(dims[dim])
    if dim in dims:
        return (int(dims[dim]),)
    return (int(eval(dim, {"__builtins__": {}}, dict(dims))),)


def _one(
    draw: Any,
    spec: Tensor,
    dims: Mapping[str, Any],
    focus: Focus,
    rng: np.random.Generator,
    density: float,
    pattern: Pattern,
) -> torch.Tensor | None:
    if spec.optional and draw(st.booleans()):
        return None
    shape = tuple(n for dim in spec.shape for n in _size(dim, dims))
    dtype = spec.dtype or dims["dtype"]
    values = spec.values(rng, shape, dtype, dims)
    if focus.special and spec.special:
        values = sprinkle(values, focus.special, density, rng)
    fitting = tuple(n for n in focus.layouts if n in spec.layouts) or (CONTIGUOUS,)
    amount = draw(st.sampled_from(pattern.one("amount", (3, 8, 1))))
    return lay(values, draw(st.sampled_from(fitting)), amount)


# -- the standard checks' parts of a domain -------------------------------------------------------------------------


def aligned(domain: Arguments, *, gpu: bool) -> list[Focus]:
    """Powers of two, contiguous, the first dtype."""
    usual = Focus("powers of two", ALIGNED, ranks=(2, 1, 3))
    if not gpu:
        return [usual]
    return [usual, replace(usual, name="large powers of two", sizes=(1024, 2048, 4096), cap=CAP_GPU, share=0.2)]


def ragged(domain: Arguments, *, gpu: bool) -> list[Focus]:
    """Sizes that are no multiple of anything, one by one; long rows for reductions."""
    parts = [Focus("small sizes", SMALL), Focus("larger sizes", LARGE + SMALL, ranks=(1, 2, 3, 4))]
    for dim in domain.long:
        parts.append(Focus(f"a long {dim}", (1, 2, 3), force={dim: LONG}, ranks=(1,)))
        if gpu:
            parts.append(
                Focus(
                    f"a very long {dim}", (1, 3, 33), force={dim: (65537, 80_021)}, ranks=(1,), cap=CAP_GPU, share=0.25
                )
            )
    if gpu:
        parts.append(Focus("large sizes", GPU_LARGE, ranks=(2, 1), cap=CAP_GPU, share=0.25))
    return parts


def empty(domain: Arguments, *, gpu: bool) -> list[Focus]:
    """Each dimension that may be 0 at 0, and all of them; the strides of what is empty may be anything."""
    layouts = (CONTIGUOUS, "transposed", "padded pitch", "step-2 slice")
    parts, names = (
        [],
        [d for d in domain.dims() if domain.at_least.get(d, 0) == 0 and 0 in (0, *domain.choices.get(d, (0,)))],
    )
    for name in names:
        if name.startswith("*"):
            parts += [
                Focus("an empty vector", (0,), ranks=(1,), layouts=layouts),
                Focus("a shape with a 0 in it", (0, 1, 3, 16), force={f"{name}1": (0,)}, ranks=(2, 3), layouts=layouts),
            ]
        else:
            parts.append(Focus(f"{name} = 0", (1, 2, 3, 16, 33), force={name: (0,)}, layouts=layouts))
    if len(names) > 1:
        parts.append(Focus("all sizes 0", (0,), force=dict.fromkeys(names, (0,))))
    return parts


def strided(domain: Arguments, *, gpu: bool) -> list[Focus]:
    """Each layout in turn, then any mixture of them."""
    sizes = (2, 3, 16, 17, 33, 64, 100, 129, 1)
    # Two dimensions look like a padded pitch and a transposed matrix: these two need more of them.
    ranks = dict.fromkeys(("gaps everywhere", "reversed"), (4, 3, 2))
    parts = [Focus(name, sizes, layouts=(name,), ranks=ranks.get(name, (2, 1, 3, 4))) for name in domain.layouts()]
    if not parts:
        return []
    parts.append(Focus("mixed layouts", sizes, layouts=(CONTIGUOUS, *LAYOUTS), ranks=(2, 3, 4, 1)))
    if domain.most_dims > 4 and any(name.startswith("*") for name in domain.dims()):  # more than a kernel has arguments for
        parts.append(Focus("five and six dimensions", (2, 3, 4, 1), layouts=("gaps everywhere",), ranks=(5, 6)))
    return parts


def dtypes(domain: Arguments, *, gpu: bool) -> list[Focus]:
    """Each other dtype in turn, on ragged sizes; the long rows too, where precision is lost."""
    parts = []
    for dtype in domain.dtypes[1:]:
        name = str(dtype).removeprefix("torch.")
        parts.append(Focus(name, RAGGED, dtypes=(dtype,), ranks=(1, 2, 3)))
        for dim in domain.long:
            parts.append(Focus(f"{name}, a long {dim}", (1, 2, 3), force={dim: LONG}, dtypes=(dtype,), ranks=(1,)))
    return parts


def special_values(domain: Arguments, *, gpu: bool) -> list[Focus]:
    """Each kind of special value that the operator defines, in every floating dtype; the extremes of the integers."""
    floats = tuple(d for d in domain.dtypes if d.is_floating_point)
    integers = tuple(d for d in domain.dtypes if not d.is_floating_point)
    usual = Focus("", (2, 3, 16, 17, 33, 65, 1), ranks=(2, 1))
    parts = [replace(usual, name=kind, special=kind, dtypes=floats) for kind in domain.specials if floats]
    if integers:
        parts.append(replace(usual, name="extremes", special="mixture", dtypes=integers))
    return parts
