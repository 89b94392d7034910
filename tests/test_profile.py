"""`grade profile` without a GPU: what it makes of a trace, of Nsight Compute's table, and how it reads."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.profiler import counters, position
from harness.profiler.counters import Counters
from harness.profiler.position import Part, Position
from harness.timing.roofline import Peaks, Work
from harness.timing.trace import Kernel
from harness.views import profile as view

H200 = Peaks(4.29e12, {"float16": 7.5e14, "float32": 5.2e13}, 60 << 20)
ADD = Work(3 * 4 << 26, 0.0, "float32")
SQUARE = Work(3 * 2 * 4096**2, 2.0 * 4096**3, "float16")


TORCH = Part("at::native::vectorized_elementwise_kernel", "library", 1, 0.189)


def place(work, *ours):
    return Position("x float32[67108864], y float32[67108864]", "torch.add", work, H200, tuple(ours), (TORCH,))


def test_where_an_addition_is():
    found = place(ADD, Part("add_kernel", "own", 1, 0.2))
    assert (found.bound, found.ms, found.baseline_ms, found.intensity) == ("memory", 0.2, 0.189, 0.0)
    assert found.ideal_ms == pytest.approx(805306368 / 4.29e9)
    row = position.to_dict(found)
    assert row["roofline"] == pytest.approx(0.939, abs=1e-3)
    assert row["bytes_per_s"] == pytest.approx(805306368 / 0.2e-3)
    assert row["kernels"] == [{"kernel": "add_kernel", "whose": "own", "count": 1, "ms": 0.2}]


def test_where_a_matrix_product_is():
    found = place(SQUARE, Part("tile_kernel", "own", 1, 0.19))
    assert found.bound == "compute"
    assert found.ideal_ms == pytest.approx(2 * 4096**3 / 7.5e11)
    assert found.intensity == pytest.approx(4096 / 3)
    assert found.ridge == pytest.approx(7.5e14 / 4.29e12)


def test_kernels_of_several_calls_are_those_of_the_median_one():
    quick = [Kernel("b_kernel", 2, 0.2), Kernel("a_kernel", 1, 1.0)]
    slow = [Kernel("b_kernel", 2, 0.4), Kernel("a_kernel", 1, 3.0), Kernel("odd", 1, 9.0)]
    found = position.parts([quick, quick, slow], frozenset({"a_kernel"}))
    assert found == (Part("a_kernel", "own", 1, 1.0), Part("b_kernel", "library", 2, 0.2))
    assert position.parts([], frozenset()) == ()


NCU = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "add_kernel" - 0: 0%....50%....100% - 3 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Kernel Name","Grid Size","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum",\
"launch__registers_per_thread","lts__t_sector_hit_rate.pct"
"","","","","%","us","register/thread","%"
"0","4711","add_kernel","(32768, 1, 1)","91.20","190.11","32",""
"1","4711","finish","(1, 1, 1)","0.10","2.01","18","55.5"
"""


def test_the_table_of_nsight_compute():
    assert counters.parse(NCU) == [
        Counters("add_kernel", {"time": "190.11 us", "DRAM busy": "91.20 %", "registers a thread": "32 register/thread"}),
        Counters(
            "finish",
            {"time": "2.01 us", "DRAM busy": "0.10 %", "L2 hits": "55.5 %", "registers a thread": "18 register/thread"},
        ),
    ]


@pytest.mark.parametrize("text", ["", "==ERROR== nothing\n", '"a","b"\n"",""\n', NCU.replace("Kernel Name", "Name")])
def test_what_is_no_table_holds_no_counters(text):
    assert counters.parse(text) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >&2; exit 1", "ERR_NVGPUCTRPERM"),
        ("echo 'no kernel was profiled'", "read no counters: no kernel was profiled"),
        ("sleep 5", "took longer"),
        (None, "not on the PATH"),
    ],
)
def test_why_there_are_no_counters(tmp_path, monkeypatch, script, message):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(counters, "LIMIT_S", 0.5)
    if script is not None:
        ncu = tmp_path / "ncu"
        ncu.write_text(f"#!/bin/sh\n{script}\n")
        ncu.chmod(0o755)
    with pytest.raises(counters.Unreadable, match=message):
        counters.collect(tmp_path, "ch02.vec_add", Path("vec_add.py"), 0, "cuda:0")


def test_nsight_compute_is_asked_for_the_marked_call(tmp_path, monkeypatch):
    """What it is given: one call between two marks, the clocks left alone."""
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\ncat <<'END'\n{NCU}END\n")
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = counters.collect(tmp_path, "ch02.vec_add", Path("/w/vec_add.py"), 1, "cuda:0")
    assert [c.kernel for c in found] == ["add_kernel", "finish"]
    asked = (tmp_path / "asked").read_text()
    assert "--clock-control none --profile-from-start off" in asked
    assert f"-m harness.profiler.target {tmp_path} ch02.vec_add /w/vec_add.py 1 cuda:0" in asked


def shown(found, launches=(), note=""):
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(view.render(found, launches, note))
    return console.file.getvalue()


def test_the_view_fits_80_columns_and_says_what_the_figures_say():
    text = shown(place(SQUARE, Part("tile_kernel", "own", 1, 0.19)), counters.parse(NCU))
    assert max(map(len, text.splitlines())) <= 80
    for part in ("compute bound", "1,365 operations a byte", "100%  tile_kernel", "DRAM busy", "723 TFLOP/s of 750"):
        assert part in text, text
    assert "as busy as they get" in text


@pytest.mark.parametrize(
    ("work", "ours", "says"),
    [
        (ADD, [Part("add_kernel", "own", 1, 0.2)], "only moving fewer bytes"),
        (ADD, [Part("add_kernel", "own", 1, 0.4)], "the memory waits"),
        (ADD, [Part("add_kernel", "own", 1, 0.2), Part("direct_copy", "library", 2, 0.1)], "33% of the time is not your"),
        (ADD, [Part("first", "own", 1, 0.2), Part("second", "own", 1, 0.2)], "several kernels share"),
        (SQUARE, [Part("tile_kernel", "own", 1, 0.5)], "the matrix units wait"),
    ],
)
def test_reading(work, ours, says):
    assert says in view.reading(place(work, *ours))


def test_a_note_stands_where_counters_would():
    assert "this user may not read" in shown(place(ADD, Part("add_kernel", "own", 1, 0.2)), note="this user may not read them")
    assert "no kernel ran" in shown(place(ADD))


def test_without_a_gpu_it_says_so_and_what_to_do(grade_command, device):
    if device.startswith("cuda"):
        pytest.skip("for machines without a GPU")
    outcome = grade_command("profile", "ch02.vec_add", "--from", "reference")
    assert outcome.code == 3
    assert "there is no GPU here to profile on" in outcome.stderr and "grade inspect" in outcome.stderr


@pytest.mark.parametrize("exercise", ["ch02.vec_add", "ch07.matmul", "ch01.roofline"])
def test_on_a_gpu(grade_command, device, exercise):
    if not device.startswith("cuda"):
        pytest.skip("needs a GPU: --device cuda")
    outcome = grade_command("profile", exercise, "--from", "reference", "--json", "-")
    (found,) = outcome.document
    if exercise == "ch01.roofline":
        assert (outcome.code, found["message"]) == (1, "nothing of it is timed")
        return
    assert outcome.code == 0, outcome.stderr
    for case in found["cases"]:
        assert 0.5 < case["roofline"] < 1.2
        assert [k["whose"] for k in case["kernels"]] == ["own"]
        assert case["counters"] or case["note"]
