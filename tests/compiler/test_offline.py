"""Kernels compiled for four targets with no GPU: what is found, what fails and how it is said."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from harness.compiler.targets import TARGETS

from .conftest import HERE, Probes, clean_environment

MMA = {"sm_80": "HMMA", "sm_90": "HGMMA", "sm_100": "UTCHMMA", "gfx942": "v_mfma"}
SOURCE = (HERE / "kernels.py").read_text(encoding="utf-8").splitlines()

each_target = pytest.mark.parametrize("target", TARGETS)


def only(result: dict[str, Any]) -> dict[str, Any]:
    assert result["raised"] is None and not result["failures"], result["raised"]
    (compiled,) = result["compiled"]
    return compiled


def failure(result: dict[str, Any]) -> dict[str, Any]:
    (found,) = result["failures"]
    assert not result["compiled"]
    return found


@each_target
def test_an_aligned_copy_moves_128_bits_at_a_time(probes: Probes, target: str) -> None:
    copy = only(probes[target]["copy"])
    assert (copy["widest_load"], copy["widest_store"]) == (128, 128)
    assert copy["kernel"] == "copy_kernel" and copy["target"] == target and copy["config"] is None
    assert SOURCE[copy["line"] - 1].startswith("def copy_kernel(") and copy["file"].endswith("kernels.py")
    assert 0 < copy["registers"] < 64
    assert copy["spills"] == copy["local_bytes"] == copy["mma"] == copy["shared_bytes"] == 0
    binary = {"hsaco", "amdgcn"} if target == "gfx942" else {"cubin", "ptx", "sass"}
    assert set(copy["asm"]) == {"ttir", "ttgir", "llir"} | binary


@pytest.mark.parametrize(
    ("target", "case"), [("sm_80", "copy strided"), ("sm_80", "copy misaligned"), ("gfx942", "copy strided")]
)
def test_a_strided_or_misaligned_copy_loads_32_bits_at_a_time(probes: Probes, target: str, case: str) -> None:
    copy = only(probes[target][case])
    assert (copy["widest_load"], copy["widest_store"]) == (32, 128)


@each_target
def test_a_matrix_product_runs_on_the_tensor_cores(probes: Probes, target: str) -> None:
    matmul = only(probes[target]["matmul"])
    assert matmul["mma_kinds"] == [MMA[target]] and matmul["mma"] > 0
    assert 0 < matmul["shared_bytes"] <= matmul["max_shared"] == TARGETS[target].max_shared
    assert (matmul["async_copy"] > 0) == (target != "gfx942")
    assert matmul["num_warps"] == 8


def test_a_tile_that_is_too_large_spills(probes: Probes) -> None:
    huge = only(probes["sm_80"]["huge tile"])
    assert huge["spills"] > 0 and huge["local_bytes"] == 4 * huge["spills"]


@pytest.mark.parametrize("case", ["host descriptor", "device descriptor"])
def test_descriptors_become_bulk_copies(probes: Probes, case: str) -> None:
    copy = only(probes["sm_90"][case])
    assert copy["async_copy"] == 2 and (copy["widest_load"], copy["widest_store"]) == (128, 128)
    if case == "host descriptor":
        assert only(probes["sm_80"][case])["async_copy"] == 0  # no such unit there: rewritten to pointers


def test_a_signature_is_compiled_once(probes: Probes) -> None:
    twice = probes["sm_90"]["copy twice"]
    assert only(twice) == only(probes["sm_90"]["copy"]) and twice["seconds"] < 0.5


def test_every_configuration_that_pruning_leaves_is_compiled(probes: Probes) -> None:
    tuned = probes["sm_90"]["tuned"]
    assert [compiled["config"]["BM"] for compiled in tuned["compiled"]] == [32, 64, 128]
    shared = [compiled["shared_bytes"] for compiled in tuned["compiled"]]
    assert shared == sorted(set(shared)), "the hook that sets the block shape ran"


def test_a_configuration_that_the_tuner_passes_over_is_no_failure(probes: Probes) -> None:
    picky = probes["sm_90"]["picky"]
    assert only(picky)["config"]["BM"] == 64
    (passed_over,) = picky["passed over"]
    assert passed_over["config"]["BM"] == 512 and "too large" in passed_over["message"]


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_host_code_may_ask_about_the_gpu(probes: Probes, target: str) -> None:
    curious = probes[target]["curious"]
    assert curious["raised"] is None and len(curious["compiled"]) == 2


# (case, kind, a piece of the source line, a piece of the message)
FAILURES = [
    ("broken", "language", "return y + undefined_name", "NameError: undefined_name is not defined"),
    ("mismatch", "language", "tl.load(x + at) + wide", "incompatible dimensions at index 0: 32 and 64"),
    ("asserting", "language", "tl.static_assert(BLOCK > 64", "assertion failed: the block is too small"),
    ("assembly", "ptxas", "tl.inline_asm_elementwise(", "Not a name of any known instruction: 'no'"),
    ("missing argument", "call", "asserting_kernel[(1,)](x)", "asserting_kernel() missing 1 required"),
    ("unknown option", "call", "num_warp=4", "Keyword argument num_warp was specified but unrecognised"),
    ("odd warps", "call", "num_warps=3", "num_warps must be a power of 2"),
    ("many warps", "threads", "def asserting_kernel(", "2,048 threads, sm_90 allows 1,024"),
    ("too much shared", "shared memory", "def matmul_kernel(", "sm_90 has 232,448"),
    ("swallowing", "language", "tl.static_assert(BLOCK > 64", "the block is too small"),
]


@pytest.mark.parametrize(("case", "kind", "source", "message"), FAILURES, ids=[row[0] for row in FAILURES])
def test_a_failure_names_the_line_and_the_reason(
    probes: Probes, case: str, kind: str, source: str, message: str
) -> None:
    result = probes["sm_90"][case]
    found = failure(result)
    assert found["kind"] == kind
    assert source in found["source"] and SOURCE[found["line"] - 1].strip() == found["source"]
    assert message in found["message"]
    assert "Traceback" not in found["message"] and "triton/" not in found["message"]
    # A submission that catches the exception does not hide it.
    assert (result["raised"] is None) == (case == "swallowing")


@pytest.mark.parametrize("target", ["sm_80", "sm_100", "gfx942"])
def test_failures_are_found_for_every_target(probes: Probes, target: str) -> None:
    results = probes[target]
    assert failure(results["broken"])["source"].startswith("return y + undefined_name")
    shared = failure(results["too much shared"])
    assert shared["kind"] == "shared memory" and f"{TARGETS[target].max_shared:,}" in shared["message"]
    assembly = failure(results["assembly"])
    assert assembly["kind"] == ("compiler" if target == "gfx942" else "ptxas")
    assert "instruction" in assembly["message"]


def test_files_are_written(probes: Probes) -> None:
    assert probes["sm_80"] and probes["gfx942"]
    folder = probes.folder / "written" / "copy"
    assert "LDG.E.128" in (folder / "copy_kernel.sm_80.sass").read_text(encoding="utf-8")
    assert "ld.global.v4.b32" in (folder / "copy_kernel.sm_80.ptx").read_text(encoding="utf-8")
    assert "dwordx4" in (folder / "copy_kernel.gfx942.amdgcn").read_text(encoding="utf-8")
    assert (folder.parent / "matmul" / "matmul_kernel.sm_80.ttgir").exists()


def test_a_second_process_finds_everything_in_the_cache(probes: Probes) -> None:
    first = only(probes["sm_80"]["copy"])
    nothing = {"TRITON_NVDISASM_PATH": "/bin/false", "TRITON_CUOBJDUMP_PATH": "/bin/false"}
    again = probes.run("sm_80", "copy", **nothing)["copy"]
    assert only(again) == first and again["seconds"] < 0.5


def test_ptx_alone_tells_nearly_as_much(probes: Probes) -> None:
    quick = probes.run("sm_90", "copy", "matmul", "host descriptor", "--ptx")
    for case, result in quick.items():
        ptx, sass = only(result), only(probes["sm_90"][case])
        for name in ("registers", "spills", "shared_bytes", "widest_load", "widest_store", "async_copy"):
            assert ptx[name] == sass[name], (case, name)
        assert (ptx["mma"] > 0) == (sass["mma"] > 0)


# Processes --------------------------------------------------------------------------------------------------


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
        env=clean_environment(folder, **environment),
    )  # fmt: skip


def test_misuse_is_refused_with_a_remedy(tmp_path: Path) -> None:
    code = """
        import os
        from harness.compiler import offline
        from harness.errors import MachineError

        def refused(call, error, words):
            try:
                call()
            except error as caught:
                assert words in str(caught), caught
            else:
                raise SystemExit(f"not refused: {words}")

        refused(lambda: offline.recording().__enter__(), MachineError, "call prepare() first")
        refused(lambda: offline.prepare("sm_42"), ValueError, "'target' must be one of sm_80")
        os.environ["TRITON_INTERPRET"] = "1"
        refused(lambda: offline.prepare("sm_90"), MachineError, "without TRITON_INTERPRET")
        del os.environ["TRITON_INTERPRET"]
        offline.prepare("sm_90")
        offline.prepare("sm_90")
        refused(lambda: offline.prepare("sm_80"), MachineError, "fork another one for sm_80")
        refused(lambda: offline.recording(0).__enter__(), ValueError, "at least 1")

        # The compiler takes the process with it.
        child = os.fork()
        if child == 0:
            with offline._standard_error("doomed for sm_90\\n"):
                os.write(2, b"LLVM ERROR: cannot select\\n")
                os.abort()
        os.waitpid(child, 0)
        assert offline.last_words(child) == "doomed for sm_90\\nLLVM ERROR: cannot select\\n"
        assert offline.last_words(child) is None
    """
    done = python(code, tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_interpreted_host_code_sees_the_gpu_as_well(tmp_path: Path) -> None:
    code = """
        import torch
        from harness.compiler import standin
        import triton

        with standin.cuda("sm_80"):
            import kernels
            assert kernels.MULTIPROCESSORS == 108
            x = torch.randn(3000)
            assert torch.equal(kernels.asking(x), x)
            torch.manual_seed(0)
        assert not torch.cuda.is_available() and not x.is_cuda
    """
    paths = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    done = python(code, tmp_path, TRITON_INTERPRET="1", PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
