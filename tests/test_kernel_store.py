"""Compiled kernels are kept from run to run, for the same work only, and nothing is followed out of the folder."""

import os
from pathlib import Path

import pytest

from harness.examiner import kernel_store
from harness.examiner.kernel_store import KernelStore

ROOT = Path(__file__).parents[1]


@pytest.fixture
def store(tmp_path):
    return KernelStore(tmp_path / "kernels")


@pytest.fixture
def compiled(tmp_path):
    """A folder like those that Triton's compiler leaves."""
    folder = tmp_path / "cache"
    (folder / "KEY").mkdir(parents=True)
    (folder / "KEY" / "kernel.cubin").write_bytes(b"\x7fELF" * 100)
    (folder / "KEY" / "launcher.so").write_bytes(b"so")
    (folder / "KEY" / "launcher.so").chmod(0o755)
    return folder


def _kept(store, name):
    folder = store.find(name)
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} if folder else set()


def _names(store):
    """Of what is kept; nothing else may be left in the folder."""
    found = sorted(p.name for p in store._folder.iterdir()) if store._folder.exists() else []
    assert found == sorted(name for f in found if not f.endswith(".bytes") for name in (f, f + ".bytes"))
    return [name for name in found if not name.endswith(".bytes")]


def test_what_was_kept_is_there_again(store, compiled):
    name = KernelStore.name("work", "3.7")
    store.keep(name, compiled)
    assert _kept(store, name) == {"KEY/kernel.cubin", "KEY/launcher.so"}
    assert os.access(store.find(name) / "KEY" / "launcher.so", os.X_OK)
    assert not _kept(store, KernelStore.name("work", "3.8"))


def test_that_timed_calls_are_compiled_is_remembered(store, compiled):
    store.keep("name", compiled)
    assert not store.timed("name")  # nothing was timed so far
    store.keep("name", compiled, timed=True)  # nothing new was compiled for it
    assert store.timed("name")
    assert not store.timed("other")


def test_what_is_not_kept_is_not_remembered(store, compiled, monkeypatch):
    monkeypatch.setattr(kernel_store, "MOST_OF_ONE", 0)
    store.keep("name", compiled, timed=True)
    assert not store.timed("name")


def test_each_run_adds_what_is_new(store, compiled):
    store.keep("name", compiled)
    (compiled / "KEY" / "kernel.cubin").write_text("a file of that name is there")
    (compiled / "KEY" / "kernel.ptx").write_text("and this one is not")
    (compiled / "KEY2").mkdir()
    (compiled / "KEY2" / "more.ptx").write_text("x")
    (compiled / "EMPTY").mkdir()  # as Triton leaves it where it has found a kernel elsewhere
    store.keep("name", compiled)
    assert _kept(store, "name") == {"KEY/kernel.cubin", "KEY/kernel.ptx", "KEY/launcher.so", "KEY2/more.ptx"}
    assert (store.find("name") / "KEY" / "kernel.cubin").read_bytes().startswith(b"\x7fELF")
    assert not (store.find("name") / "EMPTY").exists()
    assert _names(store) == ["name"]


@pytest.mark.parametrize("plant", [lambda p: p.symlink_to("/etc/passwd"), os.mkfifo, lambda p: p.symlink_to("/etc")])
def test_a_folder_with_anything_but_files_is_not_kept(store, compiled, tmp_path, plant):
    plant(compiled / "KEY" / "odd")
    store.keep("name", compiled)
    assert not _kept(store, "name")
    assert not list((tmp_path / "kernels").iterdir())


def test_what_is_too_large_is_not_kept(store, compiled, monkeypatch):
    monkeypatch.setattr(kernel_store, "MOST_OF_ONE", 100)
    store.keep("name", compiled)
    assert not _kept(store, "name")


def test_what_has_become_too_large_begins_anew(store, compiled, monkeypatch):
    monkeypatch.setattr(kernel_store, "MOST_OF_ONE", 500)
    store.keep("name", compiled)
    (compiled / "KEY2").mkdir()
    (compiled / "KEY2" / "kernel.cubin").write_bytes(b"x" * 200)
    store.keep("name", compiled)
    assert _names(store) == []
    store.keep("name", compiled)
    assert not _kept(store, "name")


def test_what_was_not_used_for_the_longest_time_goes_first(store, compiled, monkeypatch):
    for age, name in enumerate(("new", "old", "older")):
        store.keep(name, compiled)
        os.utime(store._folder / f"{name}.bytes", (1e9 - age, 1e9 - age))
    monkeypatch.setattr(kernel_store, "MOST_BYTES", 1300)
    assert store.find("older")  # used again
    store.keep("newest", compiled)
    assert _names(store) == ["new", "newest", "older"]


def test_what_an_ended_run_has_left_is_thrown_away(store, compiled):
    store.keep("name", compiled)
    (store._folder / "part-1").mkdir()
    (store._folder / "part-2").mkdir()
    os.utime(store._folder / "part-1", (1e9, 1e9))
    store.keep("other", compiled)
    assert [p.name for p in store._folder.glob("part-*")] == ["part-2"]


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(compiled, tmp_path):
    (tmp_path / "file").write_text("")
    KernelStore(tmp_path / "file" / "kernels").keep("name", compiled)


@pytest.fixture
def graded(tmp_path):
    """`grade ch02.vec_add --check compiles` on a file, with a store."""
    from click.testing import CliRunner

    from harness.cli import grade
    from harness.examiner.warm import Park

    with Park(store=KernelStore(tmp_path / "kernels")) as park:

        def run(file):
            arguments = ["ch02.vec_add", "--from", str(file), "--device", "cpu", "--check", "compiles", "--json", "-"]
            result = CliRunner().invoke(grade, arguments, obj=park, standalone_mode=False)
            assert '"status": "passed"' in result.stdout, result.stdout
            return _names(KernelStore(tmp_path / "kernels"))

        yield run


def test_the_next_run_of_the_same_file_finds_its_kernels(graded, tmp_path, monkeypatch):
    file = tmp_path / "vec_add.py"
    file.write_text((ROOT / "reference/ch02_triton_syntax/vec_add.py").read_text())
    first = graded(file)
    assert len(first) == 2  # two targets
    stamps = {p: p.stat().st_mtime for p in (tmp_path / "kernels").rglob("*.cubin")}
    assert stamps
    made, keep = [], KernelStore.keep

    def seen(self, name, source, **how):
        made.extend(source.rglob("*.cubin"))
        keep(self, name, source, **how)

    monkeypatch.setattr(KernelStore, "keep", seen)
    assert graded(file) == first
    assert not made
    assert {p: p.stat().st_mtime for p in (tmp_path / "kernels").rglob("*.cubin")} == stamps  # nothing new was made
    file.write_text(file.read_text() + "\n# another work\n")
    assert len(graded(file)) == 4
    assert made


TRIES = """
own, other = "{own}", "{other}"
file = "/KEY/launcher.so"
for path, mode in (own + file, "rb"), (own + file, "wb"), (own + "/new", "wb"), (other + file, "rb"):
    try:
        print(open(path, mode).close())
    except OSError as error:
        print(type(error).__name__)
def vec_add(x, y): ...
"""


def test_a_worker_reads_its_own_kernels_only_and_changes_none(compiled, tmp_path):
    from harness import course, submission
    from harness.examiner.warm import Park

    loaded = course.load(ROOT / "course.toml")
    exercises = loaded.select(("ch02.vec_add",))
    store = KernelStore(tmp_path / "kernels")
    with Park(store=store) as park:
        warm = park.warm("compile")
        warm.ready()
        own, other = (warm._kept_as("compile", origin) for origin in ("own", "other"))
        for name in (own, other):
            store.keep(name, compiled)
        file = tmp_path / "vec_add.py"
        file.write_text(TRIES.format(own=store.find(own), other=store.find(other)))
        (work,) = submission.find(loaded, exercises, file)
        (park.folder / "scratch").mkdir()
        worker = warm.worker(park.folder / "scratch", exercises[0].limits, "cpu", origin="own")
        worker.ask(work.load_request, 60.0)
        worker.close()
        worker.output.thread.join()
        read, *refused = worker.output.text().split()
        assert (read, len(refused)) == ("None", 3)
        assert set(refused) <= {"PermissionError", "FileNotFoundError", "OSError"}  # closed, not there, read-only
