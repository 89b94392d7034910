"""The levels: what each layer closes, the warm parent in bubblewrap, and what happens where bubblewrap does not do."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_cases import HEAD

from harness import sandbox
from harness.course import Limits
from harness.errors import MachineError, UsageError
from harness.examiner.warm import Park, Warm
from harness.sandbox import bubblewrap, choice, watch

from .conftest import PLAIN

ROOT = Path(__file__).parents[2]
ATTEMPTS = Path(__file__).with_name("attempts.py")
SYSTEM_PYTHON = "/usr/bin/python3"  # which every user can read; that of root may lie in a home folder
LEVELS = (sandbox.Level.LANDLOCK, sandbox.Level.BUBBLEWRAP)
# By user: whose files these are. A plain user does not own the harness.
OPEN_TO_SOME = {"list the home folder", "write to the harness"}
NOT_THE_FILES = {"a program", "a namespace", "shared memory of the system"}


def needs(level: str, probe: sandbox.Probe) -> None:
    if probe.cage is sandbox.Level.NONE:
        pytest.skip(f"no cage on this machine: {probe.reasons}")
    if level in ("mounts", "bubblewrap") and probe.bubblewrap is None:
        pytest.skip(f"no bubblewrap on this machine: {probe.reasons['bubblewrap']}")


def tried(layer: str, user: str) -> dict[str, Any]:
    python, who = sys.executable, {}
    if user == "plain" and os.geteuid() == 0:
        python, who = SYSTEM_PYTHON, {"user": PLAIN, "group": PLAIN, "extra_groups": []}
        version = "import sys; sys.exit(sys.version_info < (3, 11))"
        if not os.path.exists(python) or subprocess.run([python, "-c", version], check=False, **who).returncode:
            pytest.skip(f"no {python} of 3.11 or later for a plain user")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, "-S", ATTEMPTS, layer], capture_output=True, text=True, check=False, env=environment, timeout=120, **who
    )
    if user == "plain" and layer in ("mounts", "bubblewrap") and "bwrap:" in done.stderr:
        pytest.skip(f"no bubblewrap for a plain user: {done.stderr.strip()}")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


USERS = ("root", "plain") if os.geteuid() == 0 else ("plain",)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("layer", ["none", "landlock", "mounts", "bubblewrap"])
def test_what_a_layer_closes(layer: str, user: str, probe: sandbox.Probe) -> None:
    needs(layer, probe)
    result = tried(layer, user)
    found: dict[str, str] = result["found"]
    is_open = {name for name, came in found.items() if came == "open"}
    if layer == "none":  # so that what is closed below is closed by a layer
        missing = {f"find {name}" for name in (".git", "exercises") if not (ROOT / name).exists()}
        assert set(found) - is_open <= OPEN_TO_SOME | missing, found
        assert result["arrived"] == 4
        return
    assert result["arrived"] == 0
    assert result["alive"]
    if layer == "landlock":
        assert is_open == {"read the examiner"}, found
    elif layer == "mounts":
        # The way to Python itself may lead through the home folder: its empty frame is there.
        assert is_open - {"list the home folder"} == NOT_THE_FILES, found
        assert {found["find reference"], found["find graders"], found["read another scratch folder"]} == {"ENOENT"}
    else:
        assert not is_open, found


LOOKS = """
import glob, os
PLACES = {places!r}
def vec_add(x, y):
    seen = []
    for name, look in (
        ("course", lambda: os.listdir(PLACES["root"])),
        ("reference", lambda: open(PLACES["root"] + "/reference/ch02_triton_syntax/vec_add.py").read()),
        ("grader", lambda: open(PLACES["root"] + "/graders/ch02_triton_syntax.py").read()),
        ("other", lambda: open(PLACES["other"]).read()),
        ("own file by its place", lambda: open(PLACES["own"]).read()),
        ("outside", lambda: open(PLACES["outside"], "w")),
        ("run", lambda: os.listdir(os.path.dirname(os.getcwd()))),
        ("examiner", lambda: open("/proc/%d/environ" % PLACES["examiner"]).read()),
        ("signal", lambda: os.kill(PLACES["examiner"], 0)),
        ("tmp", lambda: open("/tmp/grade-levels", "w")),
    ):
        try:
            look()
            seen.append(name)
        except OSError:
            pass
    there = [n for n in ("reference", "graders", "tests", ".git") if os.path.exists(os.path.join(PLACES["root"], n))]
    raise LookupError("reached %s; there %s" % (seen, there))
"""


@pytest.fixture(scope="module", params=LEVELS, ids=str)
def park(request: pytest.FixtureRequest) -> Iterator[Park]:
    needs(request.param, sandbox.probe())
    with Park(level=request.param) as kept:
        yield kept


def test_a_submission_sees_nothing(park: Park, grade: Callable[..., Any], tmp_path: Path) -> None:
    """Through the command; what a submission may not read is not even found where the warm parent is in bubblewrap."""
    (tmp_path / "other.py").write_text("x = 1\n")
    file = tmp_path / "vec_add.py"
    places = {
        "root": str(ROOT), "other": str(tmp_path / "other.py"), "own": str(file), "outside": str(tmp_path / "new"),
        "examiner": os.getpid(),
    }  # fmt: skip
    file.write_text(HEAD + LOOKS.format(places=places))
    quick = ("--device", "cpu", "--check", "aligned", "--examples", "1", "--seed", "1")
    document = grade("ch02.vec_add", "--from", str(file), *quick).document
    assert document["environment"]["sandbox"] == park.wanted
    (check,) = (c for c in document["exercises"][0]["checks"] if c["name"] == "aligned")
    there = [] if park.wanted is sandbox.Level.BUBBLEWRAP else ["reference", "graders", "tests", ".git"]
    # At the level landlock names can be looked up; a listing of the folder that holds the scratch folder shows it alone.
    allowed = [[], ["run"]]
    said = check["message"]
    assert any(f"reached {reached}" in said for reached in allowed), said
    assert all(name in said.partition("there")[2] for name in there if (ROOT / name).exists()), said
    assert there or "there []" in said, said
    assert not (tmp_path / "new").exists()


def test_right_work_is_compiled_and_passes(park: Park, grade: Callable[..., Any]) -> None:
    """Interpreted, and compiled by programs that are started in the cage."""
    checks = ("--check", "aligned", "--check", "compiles", "--examples", "2")
    outcome = grade("ch02.vec_add", "--from", "reference", "--device", "cpu", "--seed", "1", *checks)
    statuses = {c["name"]: c["status"] for c in outcome.document["exercises"][0]["checks"]}
    assert (statuses["aligned"], statuses["compiles"]) == ("passed", "passed")
    assert "sandbox_reason" not in outcome.document["environment"] or park.wanted is sandbox.Level.LANDLOCK


def test_a_parent_that_was_ended_is_started_anew_at_its_level(park: Park) -> None:
    warm = park.warm("interpret")
    level = start(park, warm)
    os.kill(warm.facts["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 5
    while warm.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not warm.alive()
    assert start(park, warm) == level == park.wanted


def start(park: Park, warm: Warm) -> str:
    """The level of a worker of this parent."""
    scratch = park.folder / f"scratch-{time.monotonic_ns()}"
    scratch.mkdir()
    worker = warm.worker(scratch, Limits(), "cpu")
    worker.close()
    return worker.level


def test_a_scratch_folder_that_the_parent_cannot_see(park: Park, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not in"):
        park.warm("interpret").worker(tmp_path, Limits(), "cpu")


def test_a_parent_that_was_in_bubblewrap_is_not_started_without(probe: sandbox.Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """No submission can weaken the sandbox of the next by what it does to its parent."""
    needs("bubblewrap", probe)
    monkeypatch.delenv(sandbox.SETTING, raising=False)
    with Park() as park:
        warm = park.warm("interpret")
        assert warm.ready()["walled"]
        os.kill(warm.facts["pid"], signal.SIGKILL)
        warm.process.wait()
        warm._program = Path("/bin/false")
        with pytest.raises(MachineError, match="no warm parent in bubblewrap"):
            start(park, warm)


def test_a_python_that_is_reached_by_links(probe: sandbox.Probe, tmp_path: Path) -> None:
    """As installers lay them out: an environment whose Python is a link through a folder that is a link itself; and
    temporary files in a folder that is a link."""
    needs("bubblewrap", probe)
    real = Path(sys.executable).resolve()
    (tmp_path / "3.x").symlink_to("versions")
    (tmp_path / "versions").symlink_to(real.parent.parent)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(f"../../3.x/bin/{real.name}")
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {tmp_path}/3.x/bin\n")
    (tmp_path / "real").mkdir()
    (tmp_path / "temporary").symlink_to("real")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")}
    command = [tmp_path / "venv/bin/python", "-S", "-c", "from harness.sandbox import bubblewrap as b; print(b.works()[1])"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


ENDS = """
import os, signal, sys
from harness.examiner.warm import Park
park = Park()
park.warm("interpret").ready()
print(park.warm("interpret").process.pid, park.warm("interpret").facts["pid"], park.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_outlives_an_examiner_that_was_ended() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False, env=environment)
    *pids, folder = done.stdout.split()
    shutil.rmtree(folder)
    deadline = time.monotonic() + 5
    while any(watch.running(int(pid)) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(watch.running(int(pid)) for pid in pids)


# Programs in bubblewrap's place. Each fails in its own way, and at its own time.
FAULTS = {
    "refuses": ('echo "bwrap: No permissions to create new namespace" >&2; exit 1', "No permissions to create new namespace"),
    "hangs": ("sleep 600", "bwrap does not start"),
    "fails when it matters": ('case "$*" in *zygote*) echo "bwrap: out of luck" >&2; exit 1;; esac; exit 0', "out of luck"),
    "shuts nothing in": ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "can be seen in bubblewrap"),
}


@pytest.fixture
def in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def put(script: str) -> None:
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        bubblewrap.works.cache_clear()

    monkeypatch.setattr(bubblewrap, "_START_LIMIT_S", 1.0)
    yield put
    bubblewrap.works.cache_clear()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bubblewrap_that_does_not_do_costs_nobody_the_grade(
    fault: str, probe: sandbox.Probe, in_its_place: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("landlock", probe)
    script, why = FAULTS[fault]
    in_its_place(script)
    monkeypatch.delenv(sandbox.SETTING, raising=False)
    with Park() as park:
        assert start(park, park.warm("interpret")) == "landlock"
        assert why in park.reason["sandbox_reason"]
    with pytest.raises(MachineError) as caught, Park(level=sandbox.Level.BUBBLEWRAP) as park:
        park.warm("interpret").ready()
    assert why in caught.value.what
    assert caught.value.remedy


def test_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for level in choice.CHOICES:
        monkeypatch.setenv(sandbox.SETTING, str(level))
        assert Park().wanted is level
        with pytest.raises(UsageError, match="--unsandboxed"):
            Park(sandboxed=False)
    for wrong in ("none", "Landlock", "1"):
        monkeypatch.setenv(sandbox.SETTING, wrong)
        with pytest.raises(UsageError, match=wrong):
            Park()
    monkeypatch.setenv(sandbox.SETTING, "")
    assert Park().wanted is None


def test_a_level_that_is_asked_for_is_not_weakened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.machine, "_in_child", lambda work: {})  # a machine without anything
    for level in choice.CHOICES:
        with pytest.raises(MachineError) as caught:
            sandbox.choose(level)
        assert "Landlock" in caught.value.remedy


DRIVER = """
int cuInit(unsigned f) { return CODE; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuMemAlloc_v2(void **p, unsigned long n) { return 0; }
int cuMemsetD8_v2(void *p, unsigned char v, unsigned long n) { return 0; }
int cuCtxSynchronize(void) { return 0; }
"""
REHEARSES = "import sys; from pathlib import Path; from harness.sandbox import rehearsal; "
REHEARSES += "print(rehearsal.begin(Path(sys.argv[1]), gpu=True)())"


@pytest.mark.parametrize(("code", "said"), [(0, ""), (999, "CUDA does not work in bubblewrap: cuInit gives 999")])
def test_a_gpu_that_does_not_work_within_is_noticed(code: int, said: str, probe: sandbox.Probe, tmp_path: Path) -> None:
    """With a driver in place of CUDA's, found as CUDA's is."""
    needs("bubblewrap", probe)
    if (compiler := shutil.which("gcc") or shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    library, scratch = tmp_path / "lib" / "libcuda.so.1", tmp_path / "scratch"
    library.parent.mkdir()
    scratch.mkdir()
    (tmp_path / "driver.c").write_text(DRIVER.replace("CODE", str(code)))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "PYTHONPATH": str(ROOT)}
    shown = [library.parent.resolve()]
    command = [str(probe.bubblewrap), *bubblewrap.options(scratch.resolve(), shown, gpu=True), sys.executable, "-S", "-c"]
    done = subprocess.run([*command, REHEARSES, scratch], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == said, done.stderr
