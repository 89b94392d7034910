"""What the compiler made of a kernel, read from text: pure functions, no torch, no Triton, no subprocess.

Two things are read. `Usage` is what one thread and one block hold: registers, spilled registers, local
memory, shared memory; it comes from `cuobjdump -res-usage` or from the metadata at the end of AMDGCN text.
`Instructions` is what the code does: how wide its accesses to global memory are, how many tensor-core
instructions and asynchronous copies it has; it comes from SASS (`nvdisasm -c`), PTX or AMDGCN text. Counts
are of instructions in the text, not of executions.

SASS is the truth: ptxas may split, merge or drop what PTX says. PTX is what Triton decided and costs no
disassembly. The opcodes are those of NVIDIA's "CUDA binary utilities" (instruction set reference, sm_80 to
sm_100) and of LLVM's AMDGPU syntax for gfx942.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# A bulk (TMA) copy has no width a thread: it moves boxes whose rows are multiples of 16 bytes.
BULK_BITS = 128


@dataclass(frozen=True)
class Usage:
    """What a kernel holds. `spills` counts 32-bit registers a thread, as Triton's own `n_spills` does."""

    registers: int
    spills: int
    local_bytes: int
    shared_bytes: int  # the static part; Triton asks for nearly all of its shared memory at launch


@dataclass(frozen=True)
class Instructions:
    """What a kernel's code contains. Widths in bits a thread, 0 where there is no access to global memory."""

    widest_load: int
    widest_store: int
    mma: int
    mma_kinds: tuple[str, ...]
    async_copy: int
    local_accesses: int  # loads and stores of local (scratch) memory: the traffic that spills cause


class _Tally:
    """Collects instructions one by one."""

    def __init__(self) -> None:
        self.load = self.store = self.copies = self.local = self.mma = 0
        self.kinds: set[str] = set()

    def loads(self, bits: int) -> None:
        self.load = max(self.load, bits)

    def stores(self, bits: int) -> None:
        self.store = max(self.store, bits)

    def multiplies(self, kind: str) -> None:
        self.mma += 1
        self.kinds.add(kind)

    def total(self) -> Instructions:
        kinds = tuple(sorted(self.kinds))
        return Instructions(self.load, self.store, self.mma, kinds, self.copies, self.local)


# NVIDIA -----------------------------------------------------------------------------------------------------

_USAGE = re.compile(r"Function (?P<name>\S+?):\s*REG:(?P<reg>\d+) STACK:(?P<stack>\d+) "
                    r"SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)")  # fmt: skip


def usage_from_cuobjdump(text: str, kernel: str | None = None) -> Usage:
    """The usage of `kernel` (the only one if None) from the output of `cuobjdump -res-usage`.

    A Triton kernel has no arrays of its own in local memory, so its stack frame is what was spilled.
    Raises ValueError when the text holds no such kernel.
    """
    for match in _USAGE.finditer(text):
        if kernel is None or match["name"] == kernel:
            local = int(match["stack"]) + int(match["local"])
            return Usage(int(match["reg"]), local // 4, local, int(match["shared"]))
    raise ValueError(f"no resource usage of {kernel or 'a kernel'} in {text[:200]!r}")


# "/*0110*/   @!P0 LDG.E.128 R4, desc[UR4][R8.64] ;": the address, perhaps a predicate, the opcode.
_SASS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9]*)((?:\.[A-Za-z0-9_]+)*)", re.M)
# Only a whole token is a width: LDG.E.LTC128B is a 32-bit load that prefetches 128 bytes into L2.
_SASS_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_SASS_LOADS = {"LDG", "LD"}
_SASS_STORES = {"STG", "ST"}


def instructions_from_sass(text: str) -> Instructions:
    """Instructions of the SASS text that `nvdisasm -c` (or `cuobjdump -sass`) prints.

    `mma_kinds` holds opcodes without modifiers: HMMA, IMMA, HGMMA, QGMMA, UTCHMMA and so on.
    """
    tally = _Tally()
    for match in _SASS.finditer(text):
        opcode, modifiers = match[1], match[2].split(".")[1:]
        bits = next((_SASS_BITS[m] for m in modifiers if m in _SASS_BITS), 32)
        if opcode in _SASS_LOADS:
            tally.loads(bits)
        elif opcode in _SASS_STORES:
            tally.stores(bits)
        elif opcode == "LDGSTS":
            tally.loads(bits)
            tally.copies += 1
        elif opcode in ("UTMALDG", "UBLKCP"):
            # UBLKCP goes either way: its destination is named by the modifiers T.S (to shared) or S.T.
            if modifiers[:2] == ["T", "S"]:
                tally.stores(BULK_BITS)
            else:
                tally.loads(BULK_BITS)
            tally.copies += 1
        elif opcode == "UTMASTG":
            tally.stores(BULK_BITS)
            tally.copies += 1
        elif opcode in ("LDL", "STL"):
            tally.local += 1
        elif opcode.endswith("MMA"):
            tally.multiplies(opcode)
    return tally.total()


_PTX_ACCESS = re.compile(r"\b(ld|st)\.(?:\w+\.)*?(global|local)((?:[.:]+\w+)*)")
_PTX_COPY = re.compile(r"\bcp\.async\.(?:ca|cg)\.shared(?:::\w+)?\.global\S*\s+"
                       r"\[[^\]]*\]\s*,\s*\[[^\]]*\]\s*,\s*(0x[0-9a-fA-F]+|\d+)")  # fmt: skip
_PTX_BULK = re.compile(r"\bcp\.async\.bulk\.(?:tensor\.\dd\.)?([a-z:_]+)\.([a-z:_]+)")
_PTX_MMA = re.compile(r"\b(wgmma\.mma_async|tcgen05\.mma|wmma\.mma|mma)\.(?:sp[.:\w]*?\.)?"
                      r"(?:sync|cta_group|aligned|m\d)")  # fmt: skip


def instructions_from_ptx(text: str) -> Instructions:
    """Instructions of PTX text. `mma_kinds` are mma, wgmma.mma_async and tcgen05.mma.

    Spills do not show: PTX has as many registers as it likes, ptxas decides later.
    """
    tally = _Tally()
    for direction, space, modifiers in _PTX_ACCESS.findall(text):
        if space == "local":
            tally.local += 1
            continue
        parts = re.split(r"[.:]+", modifiers)
        element = next((int(p[1:]) for p in reversed(parts) if re.fullmatch(r"[bsuf]\d+", p)), 32)
        vector = next((int(p[1:]) for p in parts if re.fullmatch(r"v[248]", p)), 1)
        (tally.loads if direction == "ld" else tally.stores)(element * vector)
    for size in _PTX_COPY.findall(text):
        tally.loads(int(size, 0) * 8)
        tally.copies += 1
    for destination, source in _PTX_BULK.findall(text):
        if destination.startswith("shared") and source.startswith("global"):
            tally.loads(BULK_BITS)
        elif destination.startswith("global"):
            tally.stores(BULK_BITS)
        else:
            continue  # prefetches, commits and waits copy nothing
        tally.copies += 1
    for kind in _PTX_MMA.findall(text):
        tally.multiplies(kind)
    return tally.total()


_PTX_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]+)"', re.M)


def ptx_source_line(ptx: str, line: int, file_name: str) -> int | None:
    """The line of `file_name` (no folder) that line `line` of the PTX text (from 1) was made from, if it is
    known."""
    files = {number for number, name in _PTX_FILE.findall(ptx) if name.rsplit("/", 1)[-1] == file_name}
    for text in reversed(ptx.splitlines()[:line]):
        match = _PTX_LOC.match(text)
        if match and match[1] in files and match[2] != "0":
            return int(match[2])
    return None


# AMD --------------------------------------------------------------------------------------------------------

_AMD_FIELDS = ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size", "group_segment_fixed_size")
_AMD_BITS = {
    "ubyte": 8, "sbyte": 8, "byte": 8, "ushort": 16, "sshort": 16, "short": 16,
    "dword": 32, "dwordx2": 64, "dwordx3": 96, "dwordx4": 128,
    "u8": 8, "i8": 8, "u16": 16, "i16": 16, "b16": 16, "b8": 8, "b32": 32, "b64": 64, "b96": 96, "b128": 128,
}  # fmt: skip
_AMD_ACCESS = re.compile(r"^\s*(global|buffer|flat|scratch)_(load|store)_(lds_)?([a-z0-9]+)(.*)$")
_AMD_MMA = re.compile(r"^\s*(v_(?:mfma|smfmac|wmma|swmmac))_")


def usage_from_amdgcn(text: str) -> Usage:
    """The usage from the `amdhsa.kernels` metadata of AMDGCN text (one kernel, as Triton makes it).

    Registers are vector registers, of which gfx942 counts accumulation registers as part.
    Raises ValueError when a field is missing.
    """
    found = {}
    for field in _AMD_FIELDS:
        match = re.search(rf"^\s*(?:- )?\.{field}:\s*(\d+)", text, re.M)
        if match is None:
            raise ValueError(f"no .{field} in the AMDGCN text")
        found[field] = int(match[1])
    registers, spills, local, shared = (found[field] for field in _AMD_FIELDS)
    return Usage(registers, spills, local, shared)


def instructions_from_amdgcn(text: str) -> Instructions:
    """Instructions of AMDGCN text. `mma_kinds` are v_mfma, v_smfmac, v_wmma; a load into LDS is an async
    copy."""
    tally = _Tally()
    for line in _code(text):
        if match := _AMD_MMA.match(line):
            tally.multiplies(match[1])
            continue
        match = _AMD_ACCESS.match(line)
        if match is None:
            continue
        space, direction, to_lds, kind, rest = match.groups()
        bits = _AMD_BITS.get(kind, 32)
        if space == "scratch":
            tally.local += 1
        elif direction == "store":
            tally.stores(bits)
        else:
            tally.loads(bits)
            # "buffer_load_dword v0, s[4:7], 0 offen lds" and "global_load_lds_dwordx4" never touch a
            # register.
            tally.copies += bool(to_lds) or rest.split(";")[0].rstrip().endswith(" lds")
    return tally.total()


def _code(text: str) -> Iterator[str]:
    """Lines of the instructions: before the metadata, without comments."""
    for line in text.splitlines():
        if line.lstrip().startswith(".amdgpu_metadata"):
            return
        if not line.lstrip().startswith(";"):
            yield line
