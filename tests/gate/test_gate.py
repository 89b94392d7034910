"""`grade gate` on a small course: what is whole passes, and each rule that is broken is named with file and remedy."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from .conftest import KERNEL, MUTANTS, SLUG, STUB, toml_of

EXAMPLES = ("--device", "cpu", "--examples", "8")


def test_a_whole_set_passes(grade, small, monkeypatch):
    monkeypatch.chdir(small)
    junit, summary = small / "gate.xml", small / "gate.md"
    outcome = grade("gate", *EXAMPLES, "--report", f"junit={junit}", "--report", f"markdown={summary}")
    document = outcome.document
    assert [s for s in document["solutions"] if not s["held"]] == document["faults"] == []
    assert outcome.code == 0
    assert (document["schema"], document["status"], document["target"]) == ("grade/gate/v1", "passed", "all")
    assert (document["mutants"], document["killed"], document["kill_rate"]) == (6, 6, 1)
    assert (document["right"], document["rejected"], document["false_reject_rate"]) == (3, 0, 0)
    (suite,) = ElementTree.parse(junit).getroot()
    assert suite.attrib["tests"] == "10"
    assert suite.attrib["failures"] == suite.attrib["errors"] == "0"
    cases = {case.attrib["name"]: case.attrib for case in suite}
    assert cases["mutant: no sign"]["file"] == f"tests/mutants/{SLUG}/negate.toml"
    assert cases["mutant: no sign"]["classname"] == "ch02.negate"
    assert "| ch02.negate | 1/1 | 1/1 | 6/6 | - | 2/2 |" in summary.read_text(encoding="utf-8")
    assert "6 of 6 mutants killed (100.0%); 0 of 3 gradings of right solutions rejected" in summary.read_text(encoding="utf-8")


def test_what_belongs_to_a_broken_file_is_not_graded(grade, small, monkeypatch):
    monkeypatch.chdir(small)
    (small / f"exercises/{SLUG}/negate.py").unlink()
    outcome = grade("gate", *EXAMPLES)
    assert (outcome.code, outcome.document["status"], outcome.document["solutions"]) == (1, "failed", [])


def test_what_is_graded_otherwise_is_told(grade_command, small):
    """A mutant that is right, one that fails elsewhere, an alternate that is wrong; in files, and in 80 columns."""
    mutants = [*MUTANTS, ("another block", "ragged", "cdiv(n, 64)", "cdiv(n, 32)"), ("late", "dtypes", "x.contiguous()", "x")]
    (small / f"tests/mutants/{SLUG}/negate.toml").write_text(toml_of(mutants), encoding="utf-8")
    alternate = small / f"tests/alternates/{SLUG}/negate__wide.py"
    alternate.write_text(KERNEL.replace("-tl.load", "tl.load"), encoding="utf-8")
    junit, summary = small / "gate.xml", small / "gate.md"
    found = small / "gate.json"
    reports = ("--report", f"junit={junit}", "--report", f"markdown={summary}", "--json", found)
    outcome = grade_command("gate", "ch02", *EXAMPLES, *reports, cwd=small)
    document = json.loads(found.read_text(encoding="utf-8"))
    assert outcome.code == 1
    wrong = {(s["kind"], s["name"]): s["wrong"] for s in document["solutions"] if not s["held"]}
    assert set(wrong) == {("mutant", "another block"), ("mutant", "late"), ("alternate", "wide")}
    assert wrong["mutant", "another block"] == "must end as failed in ragged; ragged: passed"
    assert wrong["mutant", "late"].startswith("must end as failed in dtypes; dtypes: ")
    assert wrong["alternate", "wide"].startswith("aligned: failed: ")
    again = f"(`grade ch02.negate --from tests/alternates/{SLUG}/negate__wide.py --device cpu --seed 1 --examples 8`)"
    assert wrong["alternate", "wide"].endswith(again)
    assert (document["kill_rate"], document["false_reject_rate"]) == (pytest.approx(6 / 8), pytest.approx(1 / 3))
    (suite,) = ElementTree.parse(junit).getroot()
    failed = {case.attrib["name"]: case.find("failure").attrib["type"] for case in suite if case.find("failure") is not None}
    assert failed == {
        "mutant: another block": "Survived", "mutant: late": "Survived", "alternate: wide": "Rejected",
    }  # fmt: skip
    assert "| ch02.negate mutant: another block | must end as failed in ragged; ragged: passed |" in summary.read_text("utf-8")
    lines = outcome.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "xx ch02.negate alternate: wide (seed 1)" in lines
    assert any(line.split() == ["ch02.negate", "1/1", "1/1", "6/8", "-", "1/2"] for line in lines)


def test_mutations_that_live_are_named_until_they_are_proved_equivalent(grade, small, monkeypatch):
    monkeypatch.chdir(small)
    reference, table = small / f"reference/{SLUG}/negate.py", small / f"tests/mutants/{SLUG}/negate.toml"
    reference.write_text(KERNEL.replace("tl.program_id(0) *", "tl.program_id(0).to(tl.int64) *"), encoding="utf-8")
    key = "drop cast: tl.program_id(0).to(tl.int64) -> tl.program_id(0) in negate_kernel"
    outcome = grade("gate", "--device", "cpu", "--examples", "4", "--mutate")
    alive = [s for s in outcome.document["solutions"] if not s["held"]]
    assert [(s["kind"], s["name"], s["wrong"]) for s in alive] == [("mutation", key, "every check passes")]
    assert outcome.code == 1
    assert outcome.document["mutants"] - outcome.document["killed"] == 1
    dead = next(s for s in outcome.document["solutions"] if s["name"].startswith("unary"))
    # Once a check has failed nothing more is asked for.
    assert dead["checks"]["aligned"] == "failed"
    assert {status for name, status in dead["checks"].items() if name != "aligned"} == {"not run"}
    proof = f'[[equivalent]]\nmutation = "{key}"\nwhy = "no tensor of this course has 2**31 blocks"\n'
    table.write_text(table.read_text(encoding="utf-8") + proof, encoding="utf-8")
    outcome = grade("gate", "--device", "cpu", "--examples", "4", "--mutate")
    assert outcome.code == 0
    assert key not in {s["name"] for s in outcome.document["solutions"]}


def test_more_seeds_for_right_solutions(grade, small, monkeypatch):
    monkeypatch.chdir(small)
    outcome = grade("gate", "--device", "cpu", "--examples", "2", "--seed", "5", "--seeds", "2")
    right = [(s["kind"], s["name"], s["seed"]) for s in outcome.document["solutions"] if s["kind"] in ("reference", "alternate")]
    assert sorted(right) == sorted(
        (*who, seed) for seed in (5, 6) for who in (("reference", ""), ("alternate", "product"), ("alternate", "wide"))
    )
    assert outcome.document["right"] == 6


def test_a_fault_of_the_harness_is_no_verdict(grade, small, monkeypatch):
    monkeypatch.chdir(small)
    grader = small / f"graders/{SLUG}.py"
    grader.write_text(grader.read_text(encoding="utf-8").replace("return -x", "raise ZeroDivisionError"), encoding="utf-8")
    junit = small / "gate.xml"
    outcome = grade("gate", "--device", "cpu", "--examples", "1", "--report", f"junit={junit}")
    assert outcome.code == 3
    assert outcome.document["status"] == "error"
    assert outcome.document["right"] == 0  # nothing is known of them
    assert outcome.document["false_reject_rate"] is None
    (suite,) = ElementTree.parse(junit).getroot()
    assert "ZeroDivisionError" in next(case.find("error").attrib["message"] for case in suite if case.find("error") is not None)


def _write(name, text):
    return lambda small: (small / name.format(SLUG)).write_text(text, encoding="utf-8")


def _edit(name, old, new):
    def edit(small):
        path = small / name.format(SLUG)
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def _remove(name):
    return lambda small: (small / name.format(SLUG)).unlink()


def _both(*edits):
    return lambda small: [edit(small) for edit in edits]


_STUB, _REFERENCE, _GRADER = "exercises/{}/negate.py", "reference/{}/negate.py", "graders/{}.py"
_NO_SIGN = '[[mutant]]\nname = "no sign"'
_MUTANTS, _WIDE, _HANDOUT = "tests/mutants/{}/negate.toml", "tests/alternates/{}/negate__wide.py", "exercises/{}/README.md"
# What is done to the course; the file, a part of the rule and of the remedy that must be named.
BROKEN = {
    "no stub": (_remove(_STUB), _STUB, "the stub is missing", "contract in the docstring"),
    "no TODO": (_edit(_STUB, "# TODO:", "# Now"), _STUB, "has no TODO", "# TODO:"),
    "another stub": (_edit(_STUB, "raise", "x = 1\n    raise"), _STUB, "is not the stub that course.toml knows", 'stub = "'),
    "a stub of another name": (_edit(_STUB, "def negate", "def negation"), _STUB, "defines no `negate`", "define `negate`"),
    "no reference": (_remove(_REFERENCE), _REFERENCE, "the reference is missing", "full marks"),
    "the stub as its reference": (_write(_REFERENCE, STUB), _REFERENCE, "is the stub", "full marks"),
    "a reference that is no Python": (_write(_REFERENCE, "def negate(:"), _REFERENCE, "is no Python", "define `negate`"),
    "a reference with a slip": (_write(_REFERENCE, f"{KERNEL}\ndef ("), _REFERENCE, "is no Python", "define `negate`"),
    "no grader": (_edit(_GRADER, "class negate", "class negation"), _GRADER, "no grader class `negate`", "name the class"),
    "a grader with a fault": (_write(_GRADER, "1 / 0"), _GRADER, "ZeroDivisionError", "mend the grader"),
    "points for no check": (_edit("course.toml", "empty = 1", "tidy = 1"), _GRADER, "gives points to", "make the two agree"),
    "points for speed and no baseline": (
        _both(_edit("course.toml", "empty = 1", "empty = 1, speed = 3"), _edit("course.toml", "hints", "threshold = 1\nhints")),
        _GRADER, "benchmarks go together", "give both",
    ),
    "no mutants": (_remove(_MUTANTS), _MUTANTS, "there are no mutants", "6 or more"),
    "few mutants": (_write(_MUTANTS, toml_of(MUTANTS[:5])), _MUTANTS, "has 5 mutants", "6 or more"),
    "mutants of one name": (_write(_MUTANTS, toml_of([*MUTANTS, MUTANTS[0]])), _MUTANTS, "2 mutants are called", "of its own"),
    "a mutant in no check": (_edit(_MUTANTS, '"strided"', '"strides"'), _MUTANTS, "`check` must be one of", "compiles"),
    "a mutant that ends oddly": (
        _edit(_MUTANTS, 'check = "strided"', 'check = "strided"\nstatus = "lost"'),
        _MUTANTS, "'lost' is not a valid", "known: passed",
    ),
    "an edit of nothing": (
        _edit(_MUTANTS, 'find = "x.contiguous()"', 'find = "y.contiguous()"'), _MUTANTS, "applies 0 times", "quote more",
    ),
    "a mutant without a reason": (_edit(_MUTANTS, '"shows it"', '""'), _MUTANTS, "`why` is missing", "in words"),
    "a key of no meaning": (_edit(_MUTANTS, "why =", "because ="), _MUTANTS, "`because` means nothing here", "known: also"),
    "an equivalent of nothing": (
        _edit(_MUTANTS, _NO_SIGN, f'[[equivalent]]\nmutation = "x"\nwhy = "y"\n{_NO_SIGN}'),
        _MUTANTS, "there is no mutation 'x'", "look at it again",
    ),
    "an equivalent without a reason": (
        _edit(_MUTANTS, _NO_SIGN, f'[[equivalent]]\nmutation = "x"\n{_NO_SIGN}'),
        _MUTANTS, "an `equivalent` is not whole", "`why` no input tells it",
    ),
    "mutants that are no TOML": (_write(_MUTANTS, "[[mutant"), _MUTANTS, "is no TOML", "toml.io"),
    "a mutant that is no Python": (
        _edit(_MUTANTS, 'replace = "n // 64"', 'replace = "n //"'), _MUTANTS, "grid rounded down: is no Python", "handed in",
    ),
    "one alternate": (_remove(_WIDE), "tests/alternates/{}", "negate has 1 alternates, not 2", "negate__STYLE.py"),
    "an alternate that is no Python": (_write(_WIDE, "def"), _WIDE, "is no Python", "define `negate`"),
    "no handout": (_remove(_HANDOUT), _HANDOUT, "the handout is missing", "Principle, Method, Case, Review"),
    "a part too few": (
        _edit(_HANDOUT, "## Case", "### Case"), _HANDOUT, "its parts are Principle, Method, Review", "must be Principle",
    ),
    "other code": (
        _edit(_HANDOUT, "text", "```python\n## Case\n```"),
        "exercises/{}", "4 in README.md, 0 in README.zh.md", "the same in both",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_names_file_rule_and_remedy(grade, small, monkeypatch, name):
    broken, file, rule, remedy = BROKEN[name]
    monkeypatch.chdir(small)
    broken(small)
    junit = small / "gate.xml"
    outcome = grade("gate", "--device", "cpu", "--files", "--report", f"junit={junit}")
    assert outcome.code == 1
    assert outcome.document["solutions"] == []
    found = [f for f in outcome.document["faults"] if f["file"] == file.format(SLUG) and rule in f["rule"]]
    assert found, outcome.document["faults"]
    assert remedy in found[0]["remedy"]
    root = ElementTree.parse(junit).getroot()
    assert any(rule in case.attrib["name"] for suite in root for case in suite if case.find("failure") is not None)


@pytest.mark.parametrize("asked", ["junit", "junit=", "html=x.html"])
def test_a_report_that_nobody_writes(grade, small, monkeypatch, asked):
    monkeypatch.chdir(small)
    outcome = grade("gate", "--device", "cpu", "--report", asked)
    assert outcome.code == 2
    assert f"--report {asked} is no FORMAT=PATH" in outcome.stderr
    assert "junit, markdown" in outcome.stderr
