"""Every exercise by its solutions: reference, stub, mutants, alternates, through the `grade` command.

Run with `--device cuda` on a GPU to hold the same solutions to the larger domain there (`--no-timing`: a ratio is no test),
and with `--examples-seed N` to see whether another seed agrees.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness import course as courses
from harness.examiner import check as checking

ROOT = Path(__file__).parents[1]
COURSE = courses.load(ROOT / "course.toml")
EXERCISES = list(COURSE.exercises())
FEWEST_MUTANTS = 6
ALTERNATE_EXAMPLES = "6"  # of each check, interpreted, where a reference gets 24: more seeds tell more than more examples


def _reference(exercise):
    return ROOT / "reference" / exercise.chapter / f"{exercise.name}.py"


def _mutants():
    return list(_each_mutant())


def _each_mutant():
    for exercise in EXERCISES:
        path = ROOT / "tests" / "mutants" / exercise.chapter / f"{exercise.name}.toml"
        for mutant in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            yield pytest.param(exercise, mutant, id=f"{exercise.id}-{mutant['name'].replace(' ', '_')}")


def _alternates():
    return list(_each_alternate())


def _each_alternate():
    for exercise in EXERCISES:
        folder = ROOT / "tests" / "alternates" / exercise.chapter
        for path in sorted(folder.glob(f"{exercise.name}__*.py")):
            yield pytest.param(exercise, path, id=f"{exercise.id}-{path.stem.split('__')[1]}")


def _only(document, exercise):
    (result,) = [e for e in document["exercises"] if e["id"] == exercise.id]
    return result


def _why(result):
    told = [c for c in result["checks"] if c["message"]]
    return "\n".join(f"{c['name']}: {c['status']}: {c['message']} {c['counterexample']}" for c in told)


def _listed(value):
    return value if isinstance(value, list) else [value]


def mutate(source: str, mutant: dict) -> str:
    """The reference with the mutant's edits; each must apply exactly once."""
    for edit in mutant["edits"]:
        assert source.count(edit["find"]) == 1, f"{mutant['name']}: the edit applies {source.count(edit['find'])} times"
        source = source.replace(edit["find"], edit["replace"])
    return source


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_reference_gets_full_marks(grade, device, seed, exercise):
    outcome = grade(exercise.id, "--from", "reference", "--device", device, "--no-timing", "--seed", seed)
    result = _only(outcome.document, exercise)
    assert result["status"] == "passed", _why(result)
    assert outcome.code == 0
    assert result["score"] == exercise.max_score - exercise.speed
    assert result["pending"] == exercise.speed
    assert result["performance"]["status"] == ("not measured" if exercise.speed else "not needed")


def test_untouched_stubs_are_not_started(grade, device):
    outcome = grade("all", "--device", device, "--from", "exercises")
    assert outcome.code == 1
    assert outcome.document["score"] == 0
    assert {e["status"] for e in outcome.document["exercises"]} == {"not started"}
    assert {c["status"] for e in outcome.document["exercises"] for c in e["checks"]} == {"not started"}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_there_are_enough_mutants_and_alternates(exercise):
    mutants = [m for m in _mutants() if m.values[0] is exercise]
    assert len(mutants) >= FEWEST_MUTANTS
    assert len({m.values[1]["name"] for m in mutants}) == len(mutants)
    assert len([a for a in _alternates() if a.values[0] is exercise]) >= 1


@pytest.mark.parametrize(("exercise", "mutant"), _mutants())
def test_mutant_fails_where_it_says(grade, device, seed, tmp_path, monkeypatch, exercise, mutant):
    monkeypatch.setattr(checking, "SHRINK_S", 0.2)  # that it fails is the question here, not how small an example shows it
    if ("gpu" if device.startswith("cuda") else "cpu") not in mutant.get("on", ["cpu", "gpu"]):
        pytest.skip(f"shows only on {mutant['on']}: {mutant['why']}")
    file = tmp_path / f"{exercise.name}.py"
    file.write_text(mutate(_reference(exercise).read_text(encoding="utf-8"), mutant), encoding="utf-8")
    # More than one is named where a check that the last of them needs may see it first: larger draws do on a GPU.
    checks = _listed(mutant["check"])
    options = ["--device", device, "--no-timing", "--seed", seed, "--check", checks[-1]]
    outcome = grade(exercise.id, "--from", str(file), *options)
    result = _only(outcome.document, exercise)
    named = {c["name"]: c for c in result["checks"]}
    statuses = set(_listed(mutant.get("status", "failed")))
    if device.startswith("cuda") and "failed" in statuses:
        statuses.add("device fault")  # what the interpreter sees as a wrong address ends the device's context
    first = next((named[c] for c in checks if named[c]["status"] != "passed"), named[checks[-1]])
    assert first["status"] in statuses, _why(result)
    assert first["message"]
    assert outcome.code == 1


@pytest.mark.parametrize(("exercise", "path"), _alternates())
def test_alternate_passes(grade, device, seed, exercise, path):
    fewer = ["--examples", ALTERNATE_EXAMPLES] if device == "cpu" else []
    outcome = grade(exercise.id, "--from", str(path), "--device", device, "--no-timing", "--seed", seed, *fewer)
    result = _only(outcome.document, exercise)
    assert result["status"] == "passed", _why(result)
