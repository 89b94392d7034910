"""Every exercise by its solutions: reference, stub, mutants, alternates, through `grade gate`.

Run with `--device cuda` on a GPU to hold the same solutions to the larger domain there (`grade gate --device cuda` does the
same side by side), and with `--examples-seed N` to see whether another seed agrees. A ratio is no test: nothing is timed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import course as courses

COURSE = courses.load(Path(__file__).parents[1] / "course.toml")


@pytest.mark.parametrize("exercise", list(COURSE.exercises()), ids=lambda e: e.id)
def test_every_solution_is_graded_as_it_must_be(grade, device, seed, exercise):
    outcome = grade("gate", exercise.id, "--device", device, "--seed", seed, "--no-timing")
    document = outcome.document
    assert [s for s in document["solutions"] if not s["held"]] == []
    assert document["faults"] == []
    assert outcome.code == 0
    kinds = [s["kind"] for s in document["solutions"]]
    assert kinds.count("reference") == kinds.count("stub") == 1
    assert kinds.count("mutant") + sum(s["kind"] == "mutant" for s in document["left_out"]) >= 6
    assert kinds.count("alternate") >= 2
    assert (document["kill_rate"], document["false_reject_rate"]) == (1, 0)


def test_untouched_stubs_are_not_started(grade, device):
    outcome = grade("all", "--device", device, "--from", "exercises")
    assert outcome.code == 1
    assert outcome.document["score"] == 0
    assert {e["status"] for e in outcome.document["exercises"]} == {"not started"}
    assert {c["status"] for e in outcome.document["exercises"] for c in e["checks"]} == {"not started"}
