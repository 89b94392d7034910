"""The `grade` command from outside: what it prints, what it writes, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHAPTER = "ch02_triton_syntax"
REFERENCE = ROOT / "reference" / CHAPTER
QUICK = ("--device", "cpu", "--check", "aligned", "--examples", "2", "--seed", "1")


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A copy of the course to work in, with chapter 2's stubs; it becomes the working folder."""
    folder = tmp_path / "course"
    (folder / "exercises").mkdir(parents=True)
    shutil.copy(ROOT / "course.toml", folder)
    shutil.copytree(ROOT / "exercises" / CHAPTER, folder / "exercises" / CHAPTER)
    (folder / "graders").symlink_to(ROOT / "graders")
    return folder


@pytest.fixture
def graded(grade, course, monkeypatch):
    """`grade` in that course."""
    monkeypatch.chdir(course)
    return grade


@pytest.fixture
def command(course):
    """A command that needs no torch, in this process and in that course: (exit code, output)."""
    import click.testing

    from harness.cli import grade as entry

    def run(*args: str) -> str:
        before = Path.cwd()
        os.chdir(course)
        try:
            result = click.testing.CliRunner().invoke(entry, args, standalone_mode=False)
        finally:
            os.chdir(before)
        if result.exception is not None:
            raise result.exception
        assert not result.return_value
        return result.output

    return run


# -- without torch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["--help"], ["list"], ["hint", "ch02.vec_add"], ["run", "--help"], ["ch02x"], []], ids=" ".join)
def test_quick_commands_load_no_torch(course, args):
    program = (
        "import sys, atexit\n"
        "heavy = {'torch', 'triton', 'numpy', 'rich'}\n"
        "atexit.register(lambda: print('LOADED', sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
        "from harness.cli import main\nmain()\n"
    )
    started = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=course,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert "LOADED []" in done.stderr
    assert time.monotonic() - started < 10  # 0.3 s on a machine that does nothing else; benchmarks hold that
    assert done.returncode == (2 if args == ["ch02x"] else 0)


def test_help_names_commands_and_exit_codes(command):
    text = command("--help")
    for word in ("list", "hint", "inspect", "doctor", "--from", "--json", "130 interrupted"):
        assert word in text


def test_hints_come_one_more_at_a_time_and_start_with_the_first(command):
    seen = [command("hint", "ch02.vec_add").splitlines() for _ in range(6)]
    count = len(seen[-1])
    assert [len(lines) for lines in seen] == [min(n, count) for n in range(1, 7)]
    assert seen[0][0].startswith(f"1/{count}  ")
    assert all(lines == seen[-1][: len(lines)] for lines in seen)
    assert len(command("hint", "ch02.outer_add").splitlines()) == 1
    assert command("hint", "ch02.vec_add", "--again").splitlines() == seen[0]
    assert "程序" in command("hint", "ch02.vec_add", "--lang", "zh")


def test_list_shows_everything(command):
    text = command("list")
    for word in ("basics", "synthesis", "ch30", "(planned)", "ch02.vec_add", "-/15"):
        assert word in text


# -- wrong usage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["ch2.vec_add"], 2, ["nothing is called 'ch2.vec_add'", "did you mean ch02.vec_add"]),
        (["ch30"], 2, ["ch30 has no exercises yet", "ch02"]),
        (["ch02", "--nosuch"], 2, ["--nosuch"]),
        (["ch02", "--device", "tpu"], 2, ["--device tpu is none of auto, cpu, cuda, cuda:N"]),
        (["ch02", "--device", "cuda:99"], 3, ["--device cuda:99", "grade doctor"]),
        (["ch02", "--seed", "-1"], 2, ["--seed"]),
        (["ch02", "--examples", "0"], 2, ["--examples"]),
        (["ch02", "--check", "alined"], 2, ["no check is called 'alined'", "did you mean 'aligned'"]),
        (["ch02", "--from", "/nosuch"], 2, ["nothing at /nosuch"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("ch") else None,
)
def test_wrong_usage(grade, args, code, words):
    outcome = grade(*args)
    assert outcome.code == code
    assert outcome.document is None
    for word in words:
        assert word in outcome.stderr


def test_errors_as_a_person_sees_them(grade_command):
    outcome = grade_command("ch2.vec_add")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("grade: nothing is called")
    assert "Traceback" not in outcome.stderr


# -- results ------------------------------------------------------------------------------------------------------


def test_the_document_alone_on_stdout_and_in_a_file(grade_command, tmp_path):
    outcome = grade_command("ch02.vec_add", "--from", "reference", *QUICK, "--json", "-")
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout.startswith("{") and outcome.document["schema"] == "grade/result/v1"
    file = tmp_path / "result.json"
    outcome = grade_command("ch02.vec_add", "--from", "reference", *QUICK, "--json", str(file))
    assert "ch02.vec_add  passed" in outcome.stdout
    assert json.loads(file.read_text(encoding="utf-8"))["seed"] == 1
    assert not list(tmp_path.glob("*.part"))


def test_a_document_that_cannot_be_written(grade_command, tmp_path):
    outcome = grade_command("ch02.vec_add", "--from", "reference", *QUICK, "--json", str(tmp_path / "nosuch" / "result.json"))
    assert outcome.code == 2
    assert "cannot be written" in outcome.stderr and "Traceback" not in outcome.stderr


def test_a_document_goes_into_a_pipe_and_past_a_link(grade_command, tmp_path):
    """Neither a device (`--json /dev/null`) nor a link is replaced by a file."""
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file"))
    os.mkfifo(pipe)
    link.symlink_to(file)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        grade_command("ch02.vec_add", "--from", "reference", *QUICK, "--json", str(pipe))
        assert json.loads(reader.stdout.read())["exercises"]
    assert pipe.is_fifo()
    grade_command("ch02.vec_add", "--from", "reference", *QUICK, "--json", str(link))
    assert link.is_symlink() and json.loads(file.read_text("utf-8"))["exercises"]


@pytest.mark.parametrize("arguments", [["list"], ["ch02.vec_add", "--from", "reference", "--json", "-"]])
def test_a_full_disk_is_told_of(arguments):
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("there is no /dev/full")
    command = [sys.executable, "-m", "harness", *arguments, *(QUICK if len(arguments) > 1 else ())]
    with full.open("w") as out:
        outcome = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True)
    assert outcome.returncode == 3
    assert "No space left on device: make room" in outcome.stderr and "Traceback" not in outcome.stderr


def test_stubs_are_not_started(graded):
    outcome = graded("ch02", "--device", "cpu")
    assert outcome.code == 1
    assert outcome.document["score"] == 0
    for exercise in outcome.document["exercises"]:
        assert exercise["status"] == "not started"
        assert {c["status"] for c in exercise["checks"]} == {"not started"}


def test_best_scores_are_kept_and_listed(graded, course, command):
    work = course / "exercises" / CHAPTER / "vec_add.py"
    stub = work.read_bytes()
    work.write_bytes((REFERENCE / "vec_add.py").read_bytes())
    assert graded("ch02.vec_add", *QUICK).code == 0
    assert "2/15 passed" in command("list")
    work.write_bytes(stub)
    assert graded("ch02.vec_add", *QUICK).code == 1
    assert "2/15 passed" in command("list")
    assert graded("ch02.outer_add", "--from", str(REFERENCE), *QUICK).code == 0
    assert "-/15" in next(line for line in command("list").splitlines() if "ch02.outer_add" in line)
    (course / ".grade" / "scores.json").write_text("no json", encoding="utf-8")
    assert "-/15" in command("list")


def mutant(folder: Path, name: str) -> Path:
    """The reference of ch02.vec_add with the edits of one of its mutants."""
    text = (REFERENCE / "vec_add.py").read_text(encoding="utf-8")
    table = tomllib.loads((ROOT / "tests" / "mutants" / CHAPTER / "vec_add.toml").read_text(encoding="utf-8"))
    for edit in next(m for m in table["mutant"] if m["name"] == name)["edits"]:
        text = text.replace(edit["find"], edit["replace"])
    path = folder / "vec_add.py"
    path.write_text(text, encoding="utf-8")
    return path


def failures(document: dict) -> dict:
    (exercise,) = document["exercises"]
    return {c["name"]: (c["message"], c["counterexample"]) for c in exercise["checks"] if c["status"] == "failed"}


def test_replay_finds_the_same_counterexample(grade, tmp_path):
    path = mutant(tmp_path, "grid rounded down")
    first = grade("ch02.vec_add", "--from", str(path), "--device", "cpu", "--examples", "8", "--check", "ragged")
    found = failures(first.document)
    assert first.code == 1 and "ragged" in found
    check = next(c for c in first.document["exercises"][0]["checks"] if c["name"] == "ragged")
    program, *args = shlex.split(check["replay"])
    assert program == "grade"
    again = failures(grade(*args).document)
    assert again["ragged"] == found["ragged"]
    assert found["ragged"][1]["arguments"]["x"].startswith("float32[")


def same(document: dict) -> str:
    return json.dumps({**document, "duration_s": 0})


@pytest.mark.parametrize("name", ["mask off by one", "both inputs taken for contiguous"])
def test_one_seed_one_document(grade, tmp_path, name):
    args = (
        "ch02.vec_add",
        "--from",
        str(mutant(tmp_path, name)),
        "--device",
        "cpu",
        "--examples",
        "4",
        "--check",
        "aligned",
        "--check",
        "strided",
    )
    one, two, other = grade(*args, "--seed", "5"), grade(*args, "--seed", "5"), grade(*args, "--seed", "6")
    assert same(one.document) == same(two.document)
    assert (one.document["seed"], other.document["seed"]) == (5, 6)


# -- interrupted --------------------------------------------------------------------------------------------------


def below(pid: int) -> set[int]:
    """The living descendants of a process."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry)] = int(fields[1])
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


@contextlib.contextmanager
def endless(tmp_path, processes):
    """The command on a submission that never ends, once it has so many processes; and these."""
    (tmp_path / "vec_add.py").write_text("def vec_add(x, y):\n    while True:\n        pass\n", encoding="utf-8")
    command = subprocess.Popen(
        [sys.executable, "-m", "harness", "ch02.vec_add", "--from", str(tmp_path), "--device", "cpu"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # A test run in the background inherits an ignored SIGINT, which Python would leave ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    family: set[int] = set()
    deadline = time.monotonic() + 120
    while len(family) < processes and time.monotonic() < deadline:
        time.sleep(0.02)
        family = below(command.pid)
    assert len(family) >= processes
    yield command
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []


WITH_A_WORKER = 4 + min(4, len(os.sched_getaffinity(0)))  # two warm parents, judges, a warden, a worker


@pytest.mark.parametrize("processes", [2, 3, 4, WITH_A_WORKER])
def test_ctrl_c_ends_everything(tmp_path, processes):
    """At any time: while the warm parents start, while the judges do, while a worker works."""
    with endless(tmp_path, processes) as command:
        os.kill(command.pid, signal.SIGINT)
        out, err = command.communicate(timeout=60)
        # Python ends by the signal itself when it was interrupted within some imports; a shell says 130 of both.
        assert command.returncode in (130, -signal.SIGINT), err
        assert out == "" and "interrupted" in err and "Traceback" not in err


def test_nothing_is_left_of_a_command_that_is_killed(tmp_path):
    with endless(tmp_path, WITH_A_WORKER) as command:
        command.kill()
        command.wait()
