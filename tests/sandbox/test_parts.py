"""The parts that can be looked at without shutting anything in."""

import os
from pathlib import Path

import pytest

from harness import sandbox
from harness.sandbox import machine, namespaces, paths, seccomp, syscalls


def test_without_takes_a_folder_apart(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/b/other", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "back").symlink_to(tmp_path / "a" / "b" / "secret")
    secret = tmp_path / "a" / "b" / "secret"
    assert sandbox.without(tmp_path, [secret]) == [tmp_path / "a/b/other", tmp_path / "a/c", tmp_path / "d"]
    assert sandbox.without(tmp_path / "d", [secret]) == [tmp_path / "d"]
    assert sandbox.without(secret, [secret]) == []
    assert sandbox.without(secret / "below", [secret]) == []
    assert sandbox.without(tmp_path / "missing", []) == []


@pytest.mark.parametrize(
    "layout", ["apart", "environment within", "environment is the repository", "below /opt"]
)
def test_readable_never_covers_an_answer(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "opt" / "course"
    closed = [repository / name for name in ("reference", "graders", "tests", "exercises", ".git")]
    for folder in (*closed, repository / "harness", repository / ".venv" / "lib", repository / "lib"):
        folder.mkdir(parents=True)
    (tmp_path / "opt" / "conda").mkdir()
    if layout == "environment within":
        monkeypatch.setattr("sys.prefix", str(repository / ".venv"))
    elif layout == "environment is the repository":
        monkeypatch.setattr("sys.prefix", str(repository))
        monkeypatch.setattr("sys.path", [str(repository)])
    elif layout == "below /opt":
        monkeypatch.setattr(paths, "SYSTEM", (str(tmp_path / "opt"), "/usr"))
    found = sandbox.default_readable(repository)
    for path in found:
        if not path.is_relative_to("/proc"):
            assert not any(c.is_relative_to(path) or path.is_relative_to(c) for c in closed), path
    assert not {Path("/"), Path("/root"), Path("/home"), Path("/tmp"), Path("/proc")} & set(found)
    assert repository / "harness" in found
    assert (repository / ".venv" in found) == (layout == "environment within")
    assert (repository / "lib" in found) == (layout == "environment is the repository")
    assert (tmp_path / "opt" / "conda" in found) == (layout == "below /opt")


def test_the_compiler_is_among_the_programs() -> None:
    assert all(path.exists() for path in sandbox.default_executable())


def test_probe_gives_a_reason_for_all_that_is_missing(probe: sandbox.Probe) -> None:
    for name in (
        "landlock_abi",
        "seccomp",
        "pid_namespace",
        "net_namespace",
        "user_namespace",
        "bubblewrap",
        "memory_cgroup",
    ):
        assert bool(getattr(probe, name)) != bool(probe.reasons.get(name)), name
    assert (probe.cage is sandbox.Level.LANDLOCK) == bool(probe.landlock_abi and probe.seccomp)
    best = sandbox.Level.BUBBLEWRAP if probe.bubblewrap else sandbox.Level.LANDLOCK
    assert probe.level is (best if probe.cage is sandbox.Level.LANDLOCK else sandbox.Level.NONE)
    assert bool(probe.to_bubblewrap()) == (probe.bubblewrap is None)


def test_probe_changes_nothing() -> None:
    before = os.readlink("/proc/self/ns/net"), Path("/proc/self/status").read_text().count("Seccomp:\t0")
    sandbox.probe()
    after = os.readlink("/proc/self/ns/net"), Path("/proc/self/status").read_text().count("Seccomp:\t0")
    assert before == after


def test_a_machine_without_anything_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_in_child", lambda work: {})
    found = sandbox.probe()
    assert found.level is sandbox.Level.NONE
    text = " ".join(found.remedies())
    assert all(word in text for word in ("Landlock", "filter", "namespaces"))


def test_namespaces_never_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *arguments: object) -> int:
        raise PermissionError(1, "no")

    monkeypatch.setattr(namespaces, "call", refuse)
    monkeypatch.setattr(namespaces, "prctl", refuse)
    assert sandbox.enter_namespaces() == ()
    assert sandbox.fresh_proc() is False


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_every_program_is_short_enough_and_lands(name: str) -> None:
    """No jump leaves the program, and it ends in a verdict (the kernel takes at most 4096 steps)."""
    for bits in range(32):
        flags = [bool(bits >> i & 1) for i in range(5)]
        policy = seccomp.Policy(
            7 if flags[0] else None, flags[1], flags[2], flags[3], flags[4], bool(bits & 1)
        )
        code = seccomp.program(policy, name)
        steps = [code[i : i + 8] for i in range(0, len(code), 8)]
        assert len(steps) <= 4096
        for index, step in enumerate(steps):
            if step[0] in (0x15, 0x35):
                assert index + 1 + max(step[2], step[3]) < len(steps)
        assert steps[-1][0] == 0x06


def test_no_number_is_given_twice() -> None:
    for column in (0, 1):
        numbers = [pair[column] for pair in syscalls.NUMBERS.values() if pair[column] is not None]
        assert len(numbers) == len(set(numbers))


def test_numbers_agree_with_the_kernel_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists() or syscalls.MACHINE != "x86_64":
        assert syscalls.number("socket") in (41, 198)
        return
    known = dict(
        line.split()[1:3] for line in header.read_text().splitlines() if line.startswith("#define __NR_")
    )
    for name, (here, _) in syscalls.NUMBERS.items():
        if f"__NR_{name}" in known:
            assert int(known[f"__NR_{name}"]) == here, name


def test_an_error_says_what_why_and_remedy() -> None:
    error = sandbox.SandboxError("cannot close Landlock", "no space", "do this")
    assert (error.what, error.why, error.remedy) == ("cannot close Landlock", "no space", "do this")
    assert str(error) == "cannot close Landlock: no space. do this"
