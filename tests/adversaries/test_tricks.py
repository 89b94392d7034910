"""Tricks of submissions through the `grade` command: each ends with its own status, earns nothing, and leaves nothing behind.

The same holds of every trick: the exercise after it is graded, no process of a worker is left, no folder of the run, and
nothing reached the places that the attack was told of. None of this depends on the user; what a machine without namespaces or
Landlock lets through shows as a failure here, as it should.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

import pytest
import tricks
from trick import Trick, load

from harness.examiner import check as checking

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "reference" / "ch02_triton_syntax" / "outer_add.py"
MARK = f"grade-trick-{os.getpid()}"
# Short limits, so that a loop without end, a full disk and full memory show soon. A right call takes milliseconds.
LIMITS = {
    "import_s": 4, "call_s": 4, "memory_bytes": 400_000_000, "file_bytes": 8_000_000, "scratch_bytes": 16_000_000,
    "processes": 24, "check_s": 120, "tune_s": 120,
}  # fmt: skip
# Set when tests are collected, before any of the processes that fork workers is started: none of them may know it.
os.environ["GRADE_TRICK_SECRET"] = "not for a submission"


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """The course with short limits: a copy of course.toml, the graders beside it, no exercises and no references."""
    folder = tmp_path_factory.mktemp("course")
    text = (ROOT / "course.toml").read_text(encoding="utf-8")
    head, _, tail = text.partition("[limits]\n")
    _, _, tail = tail.partition("\n\n")
    limits = "".join(f"{name} = {value}\n" for name, value in LIMITS.items())
    (folder / "course.toml").write_text(f"{head}[limits]\n{limits}\n{tail}", encoding="utf-8")
    (folder / "graders").symlink_to(ROOT / "graders")
    return folder


@pytest.fixture
def servers(tmp_path):
    """Servers that nobody may reach: TCP and UDP on one port, and a Unix socket."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, \
            socket.socket(socket.AF_UNIX) as unix:  # fmt: skip
        udp.bind(tcp.getsockname())
        place = tempfile.mkdtemp(prefix="s-")  # the name of a socket must be short
        unix.bind(f"{place}/s")
        unix.listen()
        for server in (tcp, udp, unix):
            server.setblocking(False)
        yield tcp.getsockname()[1], f"{place}/s"
        for server in (tcp, udp, unix):
            with pytest.raises(BlockingIOError):
                server.recv(1) if server is udp else server.accept()
    shutil.rmtree(place)


def family(park) -> set[int]:
    """What lives of the warm parents' descendants: they all began with the environment that holds their home."""
    home = str(park.folder).encode()
    parents = {pid for warm in park._parents.values() for pid in (warm.process.pid, warm.facts.get("pid"))}
    found = set()
    for entry in os.listdir("/proc"):
        try:
            state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0] if entry.isdigit() else "Z"
            environment = b"" if state == "Z" else Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if home in environment:
            found.add(int(entry))
    return found - parents


@pytest.fixture
def attack(grade, park, course, servers, tmp_path, monkeypatch):
    """Grades a trick and, after it, somebody's right work; looks at what is left."""
    port, unix = servers
    outside, other, work, temporary = (tmp_path / name for name in ("outside", "other", "work", "temporary"))
    for folder in (outside, other, work, temporary):
        folder.mkdir()
    (other / "vec_add.py").write_text("NAME = 'somebody else'\n", encoding="utf-8")
    places = {
        "ROOT": str(ROOT), "OTHER": str(other / "vec_add.py"), "OUTSIDE": str(outside), "EXAMINER": os.getpid(), "PORT": port,
        "SOCKET": unix, "MARK": MARK,
    }  # fmt: skip
    told = "".join(f"{name} = {value!r}\n" for name, value in places.items())
    park.warm("interpret").ready()  # so that only what the run makes lies in its temporary folder
    monkeypatch.setattr(checking, "SHRINK_S", 0.2)  # that it fails is the question here, not how small an example shows it
    monkeypatch.chdir(course)

    def run(trick: Trick):
        name = trick.exercise.split(".")[1]
        (work / f"{name}.py").write_text(told + tricks.source_of(trick), encoding="utf-8")
        for beside, text in trick.beside.items():
            (work / beside).write_text(told + text, encoding="utf-8")
        if name != "outer_add":
            shutil.copy(REFERENCE, work)
        checks = dict.fromkeys(("aligned", trick.check))
        options = [word for check in checks for word in ("--check", check)]
        if trick.check == "compiles":
            park.warm("compile").ready()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        outcome = grade(
            trick.exercise, "ch02.outer_add", "--from", str(work), "--device", "cpu", "--seed", "1",
            "--examples", str(trick.examples), *options,
        )  # fmt: skip
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert outcome.document is not None, outcome.stderr
        left_over = lambda: family(park) or [*temporary.iterdir(), *park.folder.glob("grade-*")]  # noqa: E731
        deadline = time.monotonic() + 10  # the kernel may take a while to put many processes away
        while left_over() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left_over()
        assert not list(outside.iterdir())
        assert (other / "vec_add.py").read_text(encoding="utf-8") == "NAME = 'somebody else'\n"
        anybodys = ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", tempfile.gettempdir())
        for folder in (*anybodys, ROOT, ROOT / "harness", ROOT / ".grade", other):
            assert not Path(folder, MARK).exists(), folder
        assert not list((ROOT / ".grade").rglob(MARK))
        return outcome

    return run


@pytest.mark.parametrize("trick", tricks.TRICKS, ids=lambda trick: trick.name.replace(" ", "_"))
def test_trick(attack, trick):
    outcome = attack(trick)
    results = {exercise["id"]: exercise for exercise in outcome.document["exercises"]}
    hostile, neighbour = results[trick.exercise], results["ch02.outer_add"]
    said = "\n".join(f"{c['name']}: {c['status']}: {c['message']}" for c in hostile["checks"])
    assert hostile["status"] in trick.status, said
    assert any(part in said for part in trick.message.split("|")), said
    attacked = next(c for c in hostile["checks"] if c["name"] == trick.check)
    assert attacked["status"] not in ("passed", "error")
    assert attacked["score"] == 0
    assert "error" not in {c["status"] for c in hostile["checks"]}
    assert neighbour["status"] == "passed", neighbour
    assert outcome.code == 1
    assert outcome.document["status"] == "graded"


REMEMBERS = '''
import glob
places = [os.getcwd(), os.environ["HOME"], os.environ["TMPDIR"], OUTSIDE, ROOT, "/tmp", "/var/tmp", "/dev/shm", "/run"]
places.append("/proc/self/cwd")
for place in places:
    for path in glob.glob(os.path.join(place, "*" + MARK)):
        if open(path).read() != os.getcwd():
            raise LookupError("a note of an earlier run in " + place)
    try:
        with open(os.path.join(place, MARK), "w") as file:
            file.write(os.getcwd())
    except OSError:
        pass
vec_add = right
'''


def test_nothing_is_remembered_from_run_to_run(attack):
    """Lines 6 and 58: what a submission writes dies with its run."""
    trick = load("notes", (6, 58), REMEMBERS, "passed")
    for _ in range(2):
        outcome = attack(trick)
        assert {e["status"] for e in outcome.document["exercises"]} == {"passed"}
        assert outcome.code == 0


def test_names_are_given_once():
    names = [trick.name for trick in tricks.TRICKS]
    assert len(set(names)) == len(names)
    assert set(tricks.PREPARED) <= set(names)
