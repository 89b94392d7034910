"""Tricks with the clock on a GPU, where there is one: `python -m pytest tests/adversaries --device cuda`.

What the clock does with such tricks is tested without a GPU, on simulated devices, in tests/test_stopwatch.py and
tests/test_witness.py.
"""

from __future__ import annotations

import clock_tricks
import pytest


@pytest.mark.parametrize("trick", clock_tricks.TRICKS, ids=lambda trick: trick.name.replace(" ", "_"))
def test_trick(grade, device, seed, tmp_path, trick):
    if not device.startswith("cuda"):
        pytest.skip("the clock runs on a GPU only: --device cuda")
    file = tmp_path / "vec_add.py"
    file.write_text(clock_tricks.HEAD + trick.source, encoding="utf-8")
    outcome = grade("ch02.vec_add", "--from", str(file), "--device", device, "--seed", seed, "--examples", "3")
    (exercise,) = outcome.document["exercises"]
    wrong = [c for c in exercise["checks"] if c["status"] != "passed"]
    assert not wrong, wrong  # the trick is in the timed calls; the clock has to find it
    found = exercise["performance"]
    lines = ", ".join(map(str, trick.lines))
    print(f"| {trick.name} | {lines} | {found['status']} | {found['ratio'] or ''} | {found['message']} |")
    assert found["status"] in trick.outcome, found
    assert trick.message in found["message"], found
    assert (exercise["status"] == "passed") == (trick.outcome == ("passed",))
