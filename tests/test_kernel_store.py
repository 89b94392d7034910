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


def _kept(store, name, tmp_path):
    store.take(name, tmp_path / "taken")
    return {p.relative_to(tmp_path / "taken").as_posix() for p in (tmp_path / "taken").rglob("*") if p.is_file()}


def test_what_was_kept_is_there_again(store, compiled, tmp_path):
    name = KernelStore.name("work", "3.7")
    store.keep(name, compiled)
    assert _kept(store, name, tmp_path) == {"KEY/kernel.cubin", "KEY/launcher.so"}
    assert os.access(tmp_path / "taken" / "KEY" / "launcher.so", os.X_OK)
    assert not _kept(store, KernelStore.name("work", "3.8"), tmp_path / "other")


def test_the_last_run_counts(store, compiled, tmp_path):
    store.keep("name", compiled)
    (compiled / "KEY2").mkdir()
    (compiled / "KEY2" / "more.ptx").write_text("x")
    store.keep("name", compiled)
    assert "KEY2/more.ptx" in _kept(store, "name", tmp_path)
    assert [p.name for p in (tmp_path / "kernels").iterdir()] == ["name"]


@pytest.mark.parametrize("plant", [lambda p: p.symlink_to("/etc/passwd"), os.mkfifo, lambda p: p.symlink_to("/etc")])
def test_a_folder_with_anything_but_files_is_not_kept(store, compiled, tmp_path, plant):
    plant(compiled / "KEY" / "odd")
    store.keep("name", compiled)
    assert not _kept(store, "name", tmp_path)
    assert not list((tmp_path / "kernels").iterdir())


def test_what_is_too_large_is_not_kept(store, compiled, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_store, "MOST_OF_ONE", 100)
    store.keep("name", compiled)
    assert not _kept(store, "name", tmp_path)


def test_what_was_not_used_for_the_longest_time_goes_first(store, compiled, monkeypatch):
    for age, name in enumerate(("new", "old", "older")):
        store.keep(name, compiled)
        os.utime(store._folder / name, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(kernel_store, "MOST_BYTES", 1000)
    (compiled / "KEY2").mkdir()
    store.keep("newest", compiled)
    assert {p.name for p in store._folder.iterdir()} == {"new", "newest"}


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
            return sorted(p.name for p in (tmp_path / "kernels").iterdir()) if (tmp_path / "kernels").exists() else []

        yield run


def test_the_next_run_of_the_same_file_finds_its_kernels(graded, tmp_path):
    file = tmp_path / "vec_add.py"
    file.write_text((ROOT / "reference/ch02_triton_syntax/vec_add.py").read_text())
    first = graded(file)
    assert len(first) == 2  # two targets
    stamps = {p: p.stat().st_mtime for p in (tmp_path / "kernels").rglob("*.cubin")}
    assert stamps
    assert graded(file) == first
    assert {p: p.stat().st_mtime for p in (tmp_path / "kernels").rglob("*.cubin")} == stamps  # nothing new was made
    file.write_text(file.read_text() + "\n# another work\n")
    assert len(graded(file)) == 4
