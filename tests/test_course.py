"""course.toml: the real one is whole; one with a broken rule is answered with line, key, rule and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import course as courses
from harness.errors import CourseError, UsageError

ROOT = Path(__file__).parents[1]

GOOD = """\
schema = 1
course = "a-course"
title = { en = "A course", zh = "课程" }

[limits]
call_s = 20

[modules.basics]
title = { en = "Basics", zh = "基础" }
chapters = ["ch01_one", "ch02_two"]

[chapters.ch01_one]
title = { en = "One", zh = "一" }

[chapters.ch02_two]
title = { en = "Two", zh = "二" }

[chapters.ch02_two.exercises.twice]
stub = "0123456789abcdef"
title = { en = "Twice", zh = "两倍" }
points = { aligned = 2, ragged = 3, speed = 4 }
threshold = 0.9
stretch = 1.1
limits = { call_s = 5 }
hints = { en = ["a", "b"], zh = ["甲", "乙"] }
"""
TWICE = "chapters.ch02_two.exercises.twice"

# what is replaced, by what, and what the error says: key, rule, remedy
BROKEN = {
    "syntax": ("schema = 1", "schema = ", "syntax", "Invalid value", "toml.io"),
    "no schema": ("schema = 1\n", "", "the file", "`schema` is missing", "add `schema = ...`"),
    "a schema of the future": ("schema = 1", "schema = 2", "schema", "reads schema 1 (got 2)", "update the harness"),
    "a schema that is true": ("schema = 1", "schema = true", "schema", "must be the number 1", "write the number 1"),
    "unknown key": ("course =", "coarse = 1\ncourse =", "coarse", "means nothing here", "did you mean `course`?"),
    "no course": ('course = "a-course"\n', "", "the file", "`course` is missing", "add `course"),
    "no title": ('title = { en = "A course", zh = "课程" }\n', "", "the file", "`title` is missing", "add `title"),
    "title in one language": (', zh = "课程" }', " }", "title", "`zh` is missing or empty", "both languages"),
    "empty title": ('zh = "一"', 'zh = " "', "chapters.ch01_one.title", "`zh` is missing or empty", "both languages"),
    "third language": (
        'zh = "一"',
        'zh = "一", fr = "un"',
        "chapters.ch01_one.title.fr",
        "means nothing here",
        "known here: en, zh",
    ),
    "title of the wrong type": (
        'title = { en = "One", zh = "一" }',
        'title = "One"',
        "chapters.ch01_one.title",
        "must be a table",
        "en",
    ),
    "limits are no table": ("[limits]\ncall_s = 20", "limits = 3", "limits", "must be a table", "limits = {"),
    "unknown limit": ("call_s = 20", "cal_s = 20", "limits.cal_s", "means nothing here", "did you mean `call_s`?"),
    "negative limit": ("call_s = 20", "call_s = -1", "limits.call_s", "positive number (got -1)", "seconds or bytes"),
    "infinite limit": ("call_s = 20", "call_s = inf", "limits.call_s", "positive number (got inf)", "seconds or bytes"),
    "a limit that is true": ("call_s = 20", "call_s = true", "limits.call_s", "positive number (got True)", "seconds"),
    "an exercise's limit": ("call_s = 5", "call_s = 0", f"{TWICE}.limits.call_s", "positive number (got 0)", "seconds"),
    "no modules": ("[modules.basics]", "[chapters.basics]", "the file", "`modules` is missing", "add `modules"),
    "unknown key in a module": (
        'chapters = ["ch01',
        'x = 1\nchapters = ["ch01',
        "modules.basics.x",
        "means nothing here",
        "known here",
    ),
    "module without chapters": ('chapters = ["ch01_one", "ch02_two"]\n', "", "modules.basics", "`chapters` is missing", "list"),
    "chapters are no list": ('["ch01_one", "ch02_two"]', '"ch01_one"', "modules.basics.chapters", "must be a list", "list"),
    "no chapter name": ('["ch01_one",', '["one",', "modules.basics.chapters", "'one' is no chapter name", "chNN_slug"),
    "a chapter that is a number": ('["ch01_one",', "[1,", "modules.basics.chapters", "1 is no chapter name", "chNN_slug"),
    "chapter without a table": (
        '["ch01_one",',
        '["ch09_nine", "ch01_one",',
        "modules.basics.chapters",
        "ch09_nine has no table",
        "[chapters.ch09_nine]",
    ),
    "chapter twice": ('["ch01_one",', '["ch01_one", "ch01_one",', "modules.basics.chapters", "two places", "once"),
    "chapter in no module": (
        '["ch01_one", "ch02_two"]',
        '["ch02_two"]',
        "chapters.ch01_one",
        "belongs to no module",
        "`chapters`",
    ),
    "unknown key in a chapter": (
        "[chapters.ch02_two]\n",
        "[chapters.ch02_two]\npoints = 3\n",
        "chapters.ch02_two.points",
        "means nothing",
        "known here",
    ),
    "a chapter that is no table": (
        '[chapters.ch01_one]\ntitle = { en = "One", zh = "一" }',
        "[chapters]\nch01_one = 1",
        "chapters.ch01_one",
        "must be a table (got 1)",
        "[chapters.ch01_one]",
    ),
    "exercises that are no table": (
        'title = { en = "One", zh = "一" }',
        'title = { en = "One", zh = "一" }\nexercises = 1',
        "chapters.ch01_one.exercises",
        "must be a table",
        "NAME",
    ),
    "a module that is no table": (
        "[limits]",
        "[modules]\nextra = 1\n[limits]",
        "modules.extra",
        "must be a table (got 1)",
        "[modules.extra]",
    ),
    "exercise that is no table": (
        'title = { en = "One", zh = "一" }',
        'title = { en = "One", zh = "一" }\nexercises = { x = 1 }',
        "chapters.ch01_one.exercises.x",
        "must be a table",
        "[chapters.ch01_one.exercises.x]",
    ),
    "exercise with a dash": (
        ".twice]",
        ".twice-more]",
        "chapters.ch02_two.exercises.twice-more",
        "named like its function",
        "letters, digits and _",
    ),
    "unknown key in an exercise": ("stretch =", "strech =", f"{TWICE}.strech", "means nothing here", "did you mean `stretch`?"),
    "no points": ("points = { aligned = 2, ragged = 3, speed = 4 }\n", "", TWICE, "`points` is missing", "points for each check"),
    "half a point": (
        "aligned = 2",
        "aligned = 2.5",
        f"{TWICE}.points",
        "`aligned` must be a whole number, 0 or more (got 2.5)",
        "whole",
    ),
    "negative points": ("aligned = 2", "aligned = -2", f"{TWICE}.points", "0 or more (got -2)", "whole"),
    "points that are true": ("aligned = 2", "aligned = true", f"{TWICE}.points", "0 or more (got True)", "whole"),
    "no threshold": ("threshold = 0.9\n", "", TWICE, "go together", "give both, or neither"),
    "threshold without points": (", speed = 4", "", TWICE, "go together", "give both, or neither"),
    "threshold of text": (
        "threshold = 0.9",
        'threshold = "fast"',
        f"{TWICE}.threshold",
        "ratio above 0 (got 'fast')",
        "time of the baseline",
    ),
    "threshold 0": ("threshold = 0.9", "threshold = 0", f"{TWICE}.threshold", "ratio above 0 (got 0)", "time of the baseline"),
    "stretch below": ("stretch = 1.1", "stretch = 0.5", f"{TWICE}.stretch", "below the threshold", "reference reaches"),
    "floor of text": (
        "threshold = 0.9", 'threshold = 0.9\nfloor = "low"', f"{TWICE}.floor", "ratio above 0 (got 'low')", "time of",
    ),
    "floor above": ("threshold = 0.9", "threshold = 0.9\nfloor = 0.9", f"{TWICE}.floor", "below a threshold", "earns nothing"),
    "speed floor": ("schema = 1", "schema = 1\nspeed_floor = 1", "speed_floor", "share of the threshold (got 1)", "0.5"),
    "no stub": ('stub = "0123456789abcdef"\n', "", TWICE, "`stub` is missing", "digest"),
    "stub of the wrong type": (
        'stub = "0123456789abcdef"',
        "stub = 3",
        f"{TWICE}.stub",
        "must be the stub's digest (got 3)",
        "digest",
    ),
    "no hints": ('hints = { en = ["a", "b"], zh = ["甲", "乙"] }\n', "", TWICE, "`hints` is missing", "lists"),
    "one hint": ('en = ["a", "b"]', 'en = ["a"]', f"{TWICE}.hints", "`en` needs two or more hints", "gentle to concrete"),
    "empty hint": ('"乙"', '" "', f"{TWICE}.hints", "`zh` needs two or more hints, none empty", "gentle to concrete"),
    "hint that is a number": ('"乙"', "1", f"{TWICE}.hints", "`zh` needs two or more hints", "gentle to concrete"),
    "more hints in one language": ('"b"]', '"b", "c"]', f"{TWICE}.hints", "en and zh differ in number", "translate"),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "course.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_good_one_loads(tmp_path):
    course = courses.load(write(tmp_path, GOOD))
    (exercise,) = course.exercises()
    assert (exercise.id, exercise.max_score, exercise.speed) == ("ch02.twice", 9, 4)
    assert list(exercise.points.items()) == [("aligned", 2), ("ragged", 3)]
    assert (exercise.threshold, exercise.floor, exercise.stretch) == (0.9, 0.45, 1.1)
    assert exercise.limits.call_s == 5 and exercise.limits.import_s == courses.Limits().import_s
    with pytest.raises(AttributeError):
        exercise.speed = 1
    with pytest.raises(TypeError):
        exercise.points["aligned"] = 10


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_names_line_key_rule_and_remedy(tmp_path, name):
    old, new, key, rule, remedy = BROKEN[name]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    with pytest.raises(CourseError) as caught:
        courses.load(write(tmp_path, text))
    error = caught.value
    assert error.key == key
    assert rule in error.rule
    assert remedy in error.remedy
    assert error.exit_code == 2
    assert f"course.toml, line {error.line}, {error.key}: " in str(error)
    # The line is the one that spells the key, or the table that lacks it.
    line = text.splitlines()[error.line - 1]
    if error.key not in ("syntax", "the file"):
        assert error.key.split(".")[-1] in line or error.key.split(".")[-2] in line


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(UsageError, match="no course file"):
        courses.load(tmp_path / "course.toml")
    path = write(tmp_path, GOOD)
    path.write_bytes(b"schema = 1 # \xff\n")
    with pytest.raises(UsageError, match="UTF-8"):
        courses.load(path)


@pytest.mark.parametrize("target", ["all", "basics", "ch02", "ch02_two", "ch02.twice", "ch02_two.twice"])
def test_targets(tmp_path, target):
    course = courses.load(write(tmp_path, GOOD))
    assert [e.id for e in course.select((target,))] == ["ch02.twice"]


@pytest.mark.parametrize(
    ("target", "what", "remedy"),
    [("ch01", "ch01 has no exercises yet", "ch02"), ("ch2.twice", "nothing is called 'ch2.twice'", "did you mean ch02.twice"),
     ("zzz", "nothing is called 'zzz'", "grade list")],
)  # fmt: skip
def test_unknown_targets(tmp_path, target, what, remedy):
    course = courses.load(write(tmp_path, GOOD))
    with pytest.raises(UsageError) as caught:
        course.select((target,))
    assert what in caught.value.what and remedy in caught.value.remedy


def test_a_stub_has_the_same_digest_under_every_python():
    """`ast.dump` gives another text from 3.12 on, and another from 3.13 on; the digests in course.toml stay."""
    source = "import a\n\n@a.b(1)\ndef f(x: int = 2, *y) -> str:\n    return f'{x!r:>3}' if y else 'é'\n".encode()
    assert courses.digest(source) == "4f25e51b4fcbcdf9"


def test_a_stub_is_known_by_its_syntax_tree():
    stub = b"def f(x):\n    # TODO 1\n    raise NotImplementedError\n"
    same = [stub.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + stub, stub + b"\n\n# a note\n", stub.replace(b"# TODO 1", b"# done?")]
    assert {courses.digest(s) for s in same} == {courses.digest(stub)}
    assert courses.digest(stub.replace(b"f(x)", b"f(y)")) != courses.digest(stub)
    assert courses.digest(b"def f(:") != courses.digest(b"def g(:")


def test_the_real_course():
    course = courses.load(ROOT / "course.toml")
    assert len(course.modules) == 5
    assert len(course.chapters) == 30
    assert [c.id for c in course.chapters] == [f"ch{n:02}" for n in range(1, 31)]
    for exercise in course.exercises():
        stub = ROOT / "exercises" / exercise.chapter / f"{exercise.name}.py"
        assert courses.digest(stub.read_bytes()) == exercise.stub, f"{exercise.id}: the stub's digest is another one"
        assert re.search(r"# TODO", stub.read_text(encoding="utf-8")), exercise.id
        assert all(len(hints) >= 2 for hints in exercise.hints.values())
