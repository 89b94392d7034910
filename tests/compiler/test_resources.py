"""Figures read out of text alone: lines as nvdisasm, cuobjdump, ptxas and LLVM write them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.compiler import resources
from harness.compiler.resources import Instructions, Usage

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function first:
  REG:18 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:392 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function second:
  REG:255 STACK:160 SHARED:1024 LOCAL:8 CONSTANT[0]:584 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_usage_of_a_kernel() -> None:
    assert resources.usage_from_cuobjdump(USAGE) == Usage(18, 0, 0, 0)
    assert resources.usage_from_cuobjdump(USAGE, "second") == Usage(255, 42, 168, 1024)
    with pytest.raises(ValueError, match="no resource usage of third"):
        resources.usage_from_cuobjdump(USAGE, "third")


def sass(*lines: str) -> Instructions:
    text = "\n".join(f"        /*{16 * at:04x}*/    {line} ;" for at, line in enumerate(lines))
    return resources.instructions_from_sass(text)


@pytest.mark.parametrize(
    ("line", "load", "store", "copies"),
    [
        ("LDG.E R2, [R2.64]", 32, 0, 0),
        ("@!P0 LDG.E.128 R4, desc[UR4][R8.64+0x800]", 128, 0, 0),
        ("@UP0 LDG.E.U16.CONSTANT R4, [R2.64]", 16, 0, 0),
        ("LDG.E.LTC128B.64 R4, [R2.64]", 64, 0, 0),
        ("LDG.E.LTC128B R4, [R2.64]", 32, 0, 0),  # 128 bytes into L2, 32 bits into the register
        ("LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64]", 256, 0, 0),
        ("STG.E.U8 desc[UR4][R2.64], R4", 0, 8, 0),
        ("@P3 STG.E.128 [R2.64], R4", 0, 128, 0),
        ("LDGSTS.E.BYPASS.128 [R5], [R2.64], P1", 128, 0, 1),
        ("LDGDEPBAR", 0, 0, 0),
        ("UTMALDG.2D [UR8], [UR4]", 128, 0, 1),
        ("UTMASTG.2D [UR8], [UR4]", 0, 128, 1),
        ("UBLKCP.S.G [UR8], [UR4], UR6", 128, 0, 1),
        ("LDS.128 R4, [R2]", 0, 0, 0),
        ("ATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR4][R2.64], R5", 0, 0, 0),
    ],
)
def test_sass_accesses(line: str, load: int, store: int, copies: int) -> None:
    found = sass(line)
    assert (found.widest_load, found.widest_store, found.async_copy, found.mma) == (load, store, copies, 0)


def test_sass_tensor_cores_and_spills() -> None:
    found = sass(
        "HMMA.16816.F32 R4, R8, R2, R4", "HMMA.1688.F32.TF32 R4, R8, R2, R4",
        "IMMA.16832.S8.S8 R4, R8, R2, R4",
        "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0", "@UP1 UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]",
        "STL.64 [R1], R2", "@P0 LDL R2, [R1+0x4]", "WARPGROUP.ARRIVE", "FFMA R2, R3, R4, R5",
    )  # fmt: skip
    assert found.mma == 5 and found.mma_kinds == ("HGMMA", "HMMA", "IMMA", "UTCHMMA")
    assert found.local_accesses == 2


@pytest.mark.parametrize(
    ("line", "load", "store", "copies", "mma"),
    [
        ("@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", 128, 0, 0, ()),
        ("ld.global.L1::evict_last.L2::cache_hint.v2.b64 {%rd1, %rd2}, [%rd3], %rd4;", 128, 0, 0, ()),
        ("ld.global.v8.b32 {%r1}, [%rd1];", 256, 0, 0, ()),
        ("ld.acquire.gpu.global.b16 %rs1, [%rd1];", 16, 0, 0, ()),
        ("st.global.b8 [%rd1], %rs1;", 0, 8, 0, ()),
        ("ld.param.b64 %rd1, [k_param_0];", 0, 0, 0, ()),
        ("st.shared.v4.b32 [%r1], {%r2};", 0, 0, 0, ()),
        ("cp.async.cg.shared.global [ %r24 + 0 ], [ %rd8 + 0 ], 0x10, %r25;", 128, 0, 1, ()),
        ("cp.async.ca.shared.global [ %r24 + 0 ], [ %rd8 + 0 ], 0x8, 0x8;", 64, 0, 1, ()),
        ("cp.async.commit_group;", 0, 0, 0, ()),
        ("cp.async.bulk.commit_group;", 0, 0, 0, ()),
        ("cp.async.bulk.wait_group.read 0;", 0, 0, 0, ()),
        ("@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1];",
         128, 0, 1, ()),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];", 0, 128, 1, ()),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", 0, 0, 0, ("mma",)),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%r1}, %rd1;", 0, 0, 0, ("wgmma.mma_async",)),
        ("wgmma.fence.sync.aligned;", 0, 0, 0, ()),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r1 ], %rd1, %rd2, %r2;", 0, 0, 0, ("tcgen05.mma",)),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];", 0, 0, 0, ()),
    ],
)  # fmt: skip
def test_ptx(line: str, load: int, store: int, copies: int, mma: tuple[str, ...]) -> None:
    found = resources.instructions_from_ptx(f"\t{line}\n")
    assert found == Instructions(load, store, len(mma), mma, copies, 0)


PTX = """//
.visible .entry k()
{
	.loc	1 12 22                         // k.py:12:22
	mov.u32 	%r1, %ctaid.x;
	.loc	2 291 36                        // standard.py:291:36
	no.such.f32 %r1, %r2;
	.loc	1 0 0
	ret;
}
	.file	1 "/home/student" "k.py"
	.file	2 "/opt/triton/language" "standard.py"
"""


def test_a_line_of_ptx_leads_back_to_the_source() -> None:
    assert resources.ptx_source_line(PTX, 5, "k.py") == 12
    assert resources.ptx_source_line(PTX, 7, "k.py") == 12  # a library function that line 12 calls
    assert resources.ptx_source_line(PTX, 7, "standard.py") == 291
    assert resources.ptx_source_line(PTX, 2, "k.py") is None


AMDGCN = """
	global_load_dwordx4 v[2:5], v[0:1], off
	buffer_load_dwordx2 v[2:3], v0, s[4:7], 0 offen
	buffer_load_dword v0, s[4:7], 0 offen lds
	global_load_lds_dwordx4 v[0:1], off
	global_store_short v[0:1], v2, off
	scratch_store_dword off, v3, off offset:4 ; 4-byte Folded Spill
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10
	; global_load_dwordx4 in a comment
	.amdgpu_metadata
amdhsa.kernels:
  - .agpr_count:     4
    .group_segment_fixed_size: 256
    .private_segment_fixed_size: 12
    .sgpr_count:     28
    .vgpr_count:     124
    .vgpr_spill_count: 3
"""


def test_amdgcn() -> None:
    assert resources.usage_from_amdgcn(AMDGCN) == Usage(124, 3, 12, 256)
    found = resources.instructions_from_amdgcn(AMDGCN)
    assert found == Instructions(128, 16, 2, ("v_mfma", "v_smfmac"), async_copy=2, local_accesses=1)
    with pytest.raises(ValueError, match=r"no \.vgpr_count"):
        resources.usage_from_amdgcn("s_endpgm")


def test_no_torch_and_no_triton_are_imported() -> None:
    code = (
        "import sys, harness.compiler.resources, harness.compiler.binutils, harness.compiler.report; "
        "print(sorted({'torch', 'triton'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
