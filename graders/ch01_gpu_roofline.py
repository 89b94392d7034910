"""Chapter 1, GPU architecture and the roofline: roofline, blocks_per_sm, stream_copy."""

import math
from fractions import Fraction
from itertools import combinations

import hypothesis.strategies as st
import torch
from hypothesis import assume

from harness.examiner.trial import Wrong
from harness.grading import (
    Drawn,
    F,
    Focus,
    Grader,
    I,
    TensorGrader,
    arguments,
    bounds,
    case,
    check,
    law,
    normal_data,
    tensor,
)


def refuses(trial, drawn):
    """These arguments are answered with a ValueError."""
    trial.drawn = drawn
    try:
        value = trial.value(*drawn.values())
    except Wrong as wrong:
        if wrong.facts.get("kind") == "ValueError":
            return
        raise
    raise Wrong(f"must raise ValueError (returned {value!r})", cause="check the arguments before the first use")


# -- roofline ---------------------------------------------------------------------------------------------------------

# An op is a row of kernels: operations at each point, the points, and the tensors that cross the bus.
KERNELS = {
    "copy": [(0, "n", ["n", "n"])],
    "add": [(1, "n", ["n", "n", "n"])],
    "gemm": [(2, "MNK", ["MK", "KN", "MN"])],
    "softmax": [(5, "MN", ["MN", "MN"])],
    "attn_naive": [
        (2, "BHLLD", ["BHLD", "BHLD", "BHLL"]),
        (5, "BHLL", ["BHLL", "BHLL"]),
        (2, "BHLLD", ["BHLL", "BHLD", "BHLD"]),
    ],
    "attn_flash": [(2, "BHLLD", ["BHLD", "BHLD"]), (5, "BHLL", []), (2, "BHLLD", ["BHLD", "BHLD"])],
}
DIMS = {"copy": "n", "add": "n", "gemm": "MNK", "softmax": "MN", "attn_naive": "BHLD", "attn_flash": "BHLD"}
BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
}  # fmt: skip
MACHINES = [
    {"flops": 989e12, "bytes_per_s": 4.8e12},  # H200, bfloat16
    {"flops": 67e12, "bytes_per_s": 4.8e12},  # H200, float32 without tensor cores
    {"flops": 312e12, "bytes_per_s": 2.039e12},  # A100, bfloat16
    {"flops": 10**12, "bytes_per_s": 10**11},
    {"flops": 10**9, "bytes_per_s": 10**12},  # a ridge far to the left: almost everything is bound by arithmetic
    {"flops": 3, "bytes_per_s": 7},
]
KEYS = {"flops": int, "bytes": int, "intensity": float, "bound": str, "t_min": float}
LARGEST = 2**17

sizes = st.sampled_from((1, 2, 3, 16, 17, 64, 1000, 4096, 65_537, LARGEST - 1, LARGEST)) | st.integers(1, LARGEST)


@st.composite
def calls(draw, ops=tuple(KERNELS), dims=sizes):
    """Arguments of `roofline`; every dimension from `dims`."""
    op = draw(st.sampled_from(ops))
    shape = tuple(draw(dims) for _ in DIMS[op])
    return Drawn(
        {
            "op": op,
            "shape": shape,
            "dtype": draw(st.sampled_from(list(BYTES))),
            "hw": draw(st.sampled_from(MACHINES)),
        },
        {},
    )


def counts(op, shape, dtype, hw):
    """(flops, bytes): the sums over the op's kernels."""
    dims = dict(zip(DIMS[op], shape, strict=True))

    def points(letters):
        return math.prod(dims[letter] for letter in letters)

    flops = sum(each * points(space) for each, space, _ in KERNELS[op])
    return flops, BYTES[dtype] * sum(points(t) for _, _, tensors in KERNELS[op] for t in tensors)


def answer(trial, drawn):
    """The submission's dict for these arguments, checked for its keys and types."""
    trial.drawn = drawn
    got = trial.value(*drawn.values())
    trial.expect(type(got) is dict, f"must return a dict (got {type(got).__name__})")
    trial.expect(set(got) == set(KEYS), f"must return the keys {', '.join(KEYS)} (got {', '.join(map(str, got))})")
    for key, kind in KEYS.items():
        trial.expect(
            type(got[key]) is kind, f"{key} must be of type {kind.__name__} (got {got[key]!r})",
            cause="count with integers; a float is exact up to 2**53 only" if kind is int else "",
        )  # fmt: skip
    return got


def agrees(trial, key, got, right, cause=""):
    """A float within a few roundings of the right value."""
    trial.expect(
        abs(Fraction(got) - right) <= right / 10**12 if math.isfinite(got) else False,
        f"{key} is wrong: expected {float(right):.17g}, got {got:.17g}", cause=cause,
    )  # fmt: skip


def counted(trial, drawn):
    """The answer, its counts held to the oracle; and the right counts."""
    got = answer(trial, drawn)
    flops, moved = counts(**drawn.args)
    trial.expect(got["flops"] == flops, f"flops is wrong: expected {flops:,}, got {got['flops']:,}")
    trial.expect(got["bytes"] == moved, f"bytes is wrong: expected {moved:,}, got {got['bytes']:,}")
    return got, flops, moved


def timed(trial, drawn):
    """intensity = flops / bytes (0 without bytes); t_min = the longer time; bound = what takes it."""
    got, flops, moved = counted(trial, drawn)
    arithmetic = Fraction(flops) / Fraction(drawn["hw"]["flops"])
    traffic = Fraction(moved) / Fraction(drawn["hw"]["bytes_per_s"])
    agrees(trial, "intensity", got["intensity"], Fraction(flops, moved) if moved else Fraction(0), "operations a byte")
    agrees(trial, "t_min", got["t_min"], max(arithmetic, traffic), "the longer of the two times: they overlap")
    right = "compute" if arithmetic > traffic else "memory"
    # Times that nearly agree are left to the check of the ridge: quotients of floats cannot tell them apart.
    close = arithmetic != traffic and abs(arithmetic - traffic) <= max(arithmetic, traffic) / 10**9
    trial.expect(
        close or got["bound"] == right, f"bound is wrong: expected {right!r}, got {got['bound']!r}",
        cause=f"the arithmetic takes {float(arithmetic):.3g} s, the traffic {float(traffic):.3g} s",
    )  # fmt: skip


class roofline(Grader):
    """Counts, intensity, bound and least time of an operator: t_min = max(flops / F, bytes / B)."""

    kernels = False

    @check("counts", examples=6)
    def counts_(self, trial):
        """flops and bytes, exactly."""
        counted(trial, trial.draw(calls()))

    @check("bound and time", needs=("counts",), examples=3)
    def times(self, trial):
        timed(trial, trial.draw(calls()))

    @check("flips at the ridge", needs=("counts",))
    def ridge(self, trial):
        """On a machine whose ridge is the op's own intensity the bound is memory; with slower arithmetic, compute."""
        drawn = trial.draw(calls(ops=tuple(op for op in KERNELS if op != "copy")))
        flops, moved = counts(**drawn.args)
        unit = trial.draw(st.sampled_from((1, 1000, 10**9)))
        for rate, bound in ((1024, "memory"), (1023, "compute"), (1025, "memory")):
            hw = {"flops": flops * unit * rate, "bytes_per_s": moved * unit * 1024}
            got = answer(trial, drawn.replace(hw=hw))
            trial.expect(
                got["bound"] == bound,
                f"bound is wrong: expected {bound!r}, got {got['bound']!r}, arithmetic at {rate} / 1024 of the ridge",
                cause="a tie is memory" if rate == 1024 else "the longer of the two times binds",
            )

    @check("monotone", needs=("counts",))
    def monotone(self, trial):
        """More of a dimension never means less work, traffic or time; a faster machine never takes longer."""
        drawn = trial.draw(calls())
        axis = trial.draw(st.integers(0, len(drawn["shape"]) - 1))
        grown = list(drawn["shape"])
        grown[axis] += trial.draw(st.integers(1, 1000))
        before, after = answer(trial, drawn), answer(trial, drawn.replace(shape=tuple(grown)))
        for key in ("flops", "bytes", "t_min"):
            trial.expect(
                after[key] >= before[key], f"{key} falls from {before[key]:,} for shape {drawn['shape']} to {after[key]:,}"
            )
        faster = {rate: 2 * value for rate, value in drawn["hw"].items()}
        t = answer(trial, drawn.replace(hw=faster))["t_min"]
        trial.expect(2 * t == before["t_min"], f"t_min is {before['t_min']}, on a machine twice as fast {t}")

    @check("zero sizes", needs=("counts",), examples=0.2)
    def zeros(self, trial):
        """One or two dimensions are 0, every choice of them: no division by zero, and nothing else is special."""
        for op, dims in DIMS.items():
            drawn = trial.draw(calls(ops=(op,), dims=st.sampled_from((3, 1, 4096))))
            axes = range(len(dims))
            for empty in (*combinations(axes, 1), *combinations(axes, 2)):
                timed(trial, drawn.replace(shape=tuple(0 if axis in empty else n for axis, n in enumerate(drawn["shape"]))))

    @check("bad arguments")
    def bad(self, trial):
        """An unknown op or dtype, a dimension too many or too few, a negative one: ValueError."""
        drawn = trial.draw(calls())
        shape, axis = drawn["shape"], trial.draw(st.integers(0, len(drawn["shape"]) - 1))
        wrong = [
            {"op": trial.draw(st.sampled_from(("matmul", "GEMM", "attn", "")))},
            {"dtype": trial.draw(st.sampled_from(("fp16", "float", "torch.float32", "")))},
            {"shape": (*shape, 1)},
            {"shape": shape[:-1]},
            {"shape": (*shape[:axis], -1, *shape[axis + 1 :])},
        ]
        for change in wrong:
            refuses(trial, drawn.replace(**change))


# -- blocks_per_sm ----------------------------------------------------------------------------------------------------

COMMON = {
    "warp_size": 32, "max_threads_per_block": 1024, "max_registers_per_thread": 255, "registers": 65_536,
    "partitions": 4, "register_unit": 256, "shared_unit": 128, "shared_reserved": 1024,
}  # fmt: skip
GPUS = [
    COMMON | {"max_blocks": blocks, "max_warps": warps, "max_threads": 32 * warps, "shared": 1024 * kib}
    for blocks, warps, kib in (
        (32, 64, 228),  # H100, H200, B200: capability 9.0 and 10.0
        (32, 64, 164),  # A100: 8.0
        (16, 48, 100),  # RTX 3090: 8.6
        (24, 48, 100),  # RTX 4090: 8.9
    )
]
# Figures that no GPU has, so that only the rules help.
OTHERS = st.fixed_dictionaries(
    {
        "warp_size": st.sampled_from((32, 16, 64)),
        "max_threads_per_block": st.sampled_from((1024, 512, 2048)),
        "max_registers_per_thread": st.sampled_from((255, 127, 511)),
        "max_blocks": st.sampled_from((32, 5, 100)),
        "max_warps": st.sampled_from((64, 20, 37)),
        "max_threads": st.sampled_from((4096, 640, 1000)),
        "registers": st.sampled_from((65_536, 32_768, 40_000)),
        "partitions": st.sampled_from((4, 1, 2, 3)),
        "register_unit": st.sampled_from((256, 1, 512, 100)),
        "shared": st.sampled_from((233_472, 49_152, 100_001)),
        "shared_unit": st.sampled_from((128, 4096, 1000, 1)),
        "shared_reserved": st.sampled_from((1024, 300, 1500, 0)),
    }
)


def place_blocks(registers_per_thread, shared_bytes, warps, hw):
    """The oracle: put blocks on an empty SM, warp by warp, until one does not fit."""
    if registers_per_thread > hw["max_registers_per_thread"] or warps * hw["warp_size"] > hw["max_threads_per_block"]:
        return 0

    def whole_units(amount, unit):
        return amount + -amount % unit

    a_warp = whole_units(registers_per_thread * hw["warp_size"], hw["register_unit"])
    a_block = whole_units(shared_bytes + hw["shared_reserved"], hw["shared_unit"])
    registers = [hw["registers"] // hw["partitions"]] * hw["partitions"]
    shared, slots, threads, blocks = hw["shared"], hw["max_warps"], hw["max_threads"], 0
    while blocks < hw["max_blocks"]:
        shared, slots, threads = shared - a_block, slots - warps, threads - warps * hw["warp_size"]
        for _ in range(warps):
            emptiest = registers.index(max(registers))
            registers[emptiest] -= a_warp
        if min(shared, slots, threads, *registers) < 0:
            break
        blocks += 1
    return blocks


@st.composite
def kernels(draw, machines):
    """Arguments of `blocks_per_sm`: any; or limited by slots, by registers, or by shared memory of which one block
    more just fits or does not."""
    hw = draw(machines)
    limit = draw(st.sampled_from(("slots", "registers", "shared", "any")))
    if limit == "any":
        registers = draw(st.integers(16, 255) | st.sampled_from((32, 33, 40, 41, 64, 65, 96, 128, 168, 255)))
        shared = draw(st.sampled_from((0, 1, 1024, 49_152)) | st.integers(0, hw["shared"]))
        warps = draw(st.integers(1, 12) | st.sampled_from((1, 2, 4, 8, 16, 32)))
    elif limit == "slots":
        registers, shared, warps = draw(st.integers(16, 24)), draw(st.integers(0, 512)), draw(st.integers(1, 15))
    elif limit == "registers":
        registers, shared, warps = draw(st.integers(33, 255)), draw(st.integers(0, 512)), draw(st.integers(2, 6))
    else:
        registers, warps = draw(st.integers(16, 32)), draw(st.integers(1, 2))
        share = hw["shared"] // draw(st.integers(1, 20)) - hw["shared_reserved"]
        shared = max(0, share + draw(st.sampled_from((0, 1)) | st.integers(-hw["shared_unit"], hw["shared_unit"])))
    return Drawn({"registers_per_thread": registers, "shared_bytes": shared, "warps": warps, "hw": hw}, {})


def blocks(trial, drawn):
    """The submission's answer: an int."""
    trial.drawn = drawn
    got = trial.value(*drawn.values())
    trial.expect(type(got) is int, f"must return an int (got {got!r})")
    return got


def placed(trial, drawn):
    """As many blocks as can be placed one by one."""
    right, got = place_blocks(**drawn.args), blocks(trial, drawn)
    trial.expect(got == right, f"expected {right} blocks, got {got}", cause=_limits(**drawn.args))


def _limits(registers_per_thread, shared_bytes, warps, hw):
    """What one resource alone would allow, for the message: every other one is made ample."""
    ample = {"registers": 10**9, "shared": 10**9, "max_warps": 10**6, "max_threads": 10**6, "max_blocks": 200}
    words = {"registers": "registers", "shared": "shared memory", "max_warps": "warps", "max_threads": "threads"}
    alone = []
    for key, word in words.items():
        count = place_blocks(registers_per_thread, shared_bytes, warps, {**hw, **ample, key: hw[key]})
        alone.append(f"{word} alone allow {count if count < 200 else 'any number'}")
    return ", ".join(alone) + f", the SM takes {hw['max_blocks']}"


class blocks_per_sm(Grader):
    """The number of blocks that fit on one SM."""

    kernels = False

    @check("real gpus", examples=10)
    def real(self, trial):
        """Four GPUs, blocks that fit."""
        drawn = trial.draw(kernels(st.sampled_from(GPUS)))
        assume(place_blocks(**drawn.args) > 0)
        placed(trial, drawn)

    @check("any hardware", needs=("real gpus",), examples=16)
    def any_hardware(self, trial):
        """Any figures, so that none can be built in; also blocks that take no registers."""
        drawn = trial.draw(kernels(OTHERS))
        drawn = drawn.replace(registers_per_thread=trial.draw(st.sampled_from((drawn["registers_per_thread"], 0))))
        assume(place_blocks(**drawn.args) > 0)
        placed(trial, drawn)

    @check("nothing fits", needs=("real gpus",), examples=4)
    def nothing(self, trial):
        """0 where a thread has too many registers, a block too many threads, or an SM too little of anything."""
        drawn = trial.draw(kernels(st.sampled_from(GPUS)))
        hw = drawn["hw"]
        excess = [
            {"registers_per_thread": hw["max_registers_per_thread"] + trial.draw(st.sampled_from((1, 2, 1000))), "warps": 1},
            {"warps": 33, "registers_per_thread": 16},
            {"warps": 48, "registers_per_thread": 16, "shared_bytes": 0},
            {"warps": 32, "registers_per_thread": 65},
            {"shared_bytes": hw["shared"] - hw["shared_reserved"] + trial.draw(st.sampled_from((1, 1024, 10**6)))},
        ]
        drawn = drawn.replace(**trial.draw(st.sampled_from(excess)))
        placed(trial, drawn)

    @check("monotone", needs=("real gpus",), examples=2)
    def monotone(self, trial):
        """A kernel that asks for more never gets more blocks."""
        drawn = trial.draw(kernels(st.sampled_from(GPUS) | OTHERS))
        name = trial.draw(st.sampled_from(("registers_per_thread", "shared_bytes", "warps")))
        more = drawn.replace(**{name: drawn[name] + trial.draw(st.integers(1, 8) | st.integers(1, 3000))})
        few, many = blocks(trial, more), blocks(trial, drawn)
        trial.expect(few <= many, f"{many} blocks, but {few} with {name} = {more[name]:,}")

    @check("bad arguments")
    def bad(self, trial):
        """Negative registers, negative shared memory, a block without warps: ValueError."""
        drawn = trial.draw(kernels(st.sampled_from(GPUS)))
        wrong = [{"registers_per_thread": -1}, {"shared_bytes": -1}, {"warps": 0}, {"warps": -4}]
        for change in wrong:
            refuses(trial, drawn.replace(**change))


# -- stream_copy ------------------------------------------------------------------------------------------------------

FLOATS = (*F, torch.float64)
AS_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class stream_copy(TensorGrader):
    """y = x, bit for bit."""

    inputs = arguments(x=tensor("*S"), dtypes=(*FLOATS, *I, torch.uint8, torch.bool), most_dims=4)
    bound = bounds.exact()
    pointwise = True
    moves = "preparation"  # contiguous() may straighten the input, but torch must not have made the copy
    benchmarks = (case("clone", torch.clone, x=normal_data(2**27)),)

    def oracle(self, x):
        return x

    @law("nan payloads")
    def payloads(self, trial):
        """A NaN keeps its sign and its payload, quiet or signalling."""
        dtype = trial.draw(st.sampled_from(FLOATS))
        drawn = trial.draw(self.inputs.under(Focus("payloads", (16, 33, 100, 1), dtypes=(dtype,), ranks=(1, 2))))
        x = drawn["x"]
        noise = torch.Generator().manual_seed(trial.draw(st.integers(0, 2**32)))
        bits = torch.randint(-(2**63), 2**63 - 1, x.shape, dtype=torch.int64, generator=noise)
        # All ones in the exponent and in the lowest bit of the fraction make a NaN; sign and the rest are anything.
        always = torch.full_like(x, math.inf).view(AS_BITS[dtype.itemsize]) | 1
        trial.hold(drawn.replace(x=(bits.to(always.dtype) | always).view(dtype)))
