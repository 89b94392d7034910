"""What is read of files and of workers, one function a format: it takes any bytes, and raises for what must never happen.

The project's own errors are answers. Anything else that is raised is a find; so is a hang, and memory without end, which the
fuzzer's limits show. Hypothesis calls these (tests/fuzz/test_fuzz.py), and so does atheris (tests/fuzz/run.py).
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import course as courses
from harness import submission
from harness.errors import UsageError

ROOT = Path(__file__).parents[2]
COURSE = courses.load(ROOT / "course.toml")
EXERCISES = COURSE.select(("ch02",))
REFERENCE = ROOT / "reference" / "ch02_triton_syntax"
SMALL = """schema = 1
course = "c"
title = { en = "a", zh = "b" }
limits = { call_s = 30 }
[modules.basics]
title = { en = "a", zh = "b" }
chapters = ["ch02_x"]
[chapters.ch02_x]
title = { en = "a", zh = "b" }
[chapters.ch02_x.exercises.scale]
title = { en = "a", zh = "b" }
stub = "0123456789abcdef"
points = { compiles = 1, speed = 2 }
threshold = 0.9
hints = { en = ["a", "b"], zh = ["a", "b"] }
"""
_folder = Path(tempfile.mkdtemp(prefix="grade-fuzz-"))


def remove_files() -> None:
    import shutil

    shutil.rmtree(_folder, ignore_errors=True)


def course(data: bytes) -> None:
    path = _folder / "course.toml"
    path.write_bytes(data)
    with contextlib.suppress(UsageError):
        loaded = courses.load(path)
        for exercise in loaded.exercises():
            assert exercise.max_score >= 0
            assert loaded.select((exercise.id,))
        str(loaded.chapters)


def _submission(name: str, data: bytes) -> None:
    path = _folder / name
    path.write_bytes(data)
    try:
        found = submission.find(COURSE, EXERCISES, path)
    except UsageError as error:
        assert name in str(error)
        assert str(error).replace("\n", "").isprintable(), error
        return
    for work in found:
        assert work.path.isprintable() and work.path.startswith(str(path))
        assert bool(work.files) != bool(work.missing or work.refused)
        assert (work.refused + work.missing).isprintable(), work
        assert all("/" not in name and len(content) <= submission.MAX_FILE for name, content in work.files.items())
        assert len(work.sha256) == (64 if work.files else 0)
        assert isinstance(work.untouched, bool)
        work.located(f"at {work.main}:3: x, line 99999999 at line 12")
    assert {p.name for p in _folder.iterdir()} <= _WRITTEN


def notebook(data: bytes) -> None:
    _submission("work.ipynb", data)


def cells(data: bytes) -> None:
    """A notebook whose structure is sound, and whose cells are anything."""
    texts = data.decode("utf-8", "surrogateescape").split("# %%\n")
    found = [{"cell_type": "code", "source": text} for text in texts]
    _submission("work.ipynb", json.dumps({"cells": found}).encode())


def zip(data: bytes) -> None:
    _submission("work.zip", data)


def tar(data: bytes) -> None:
    _submission("work.tar", data)


def script(data: bytes) -> None:
    _submission("vec_add.py", data)


def wire(data: bytes) -> None:
    from harness import wire as wires

    with contextlib.suppress(wires.WireError):
        wires.loads(data)


_WRITTEN = {"course.toml", "work.ipynb", "work.zip", "work.tar", "vec_add.py"}
TARGETS: dict[str, Callable[[bytes], None]] = {
    "course": course, "notebook": notebook, "cells": cells, "zip": zip, "tar": tar, "script": script, "wire": wire,
}  # fmt: skip


def seeds(name: str) -> Iterator[bytes]:
    """Sound files of a format, to begin with."""
    source = (REFERENCE / "vec_add.py").read_bytes()
    if name == "course":
        yield SMALL.encode()
    elif name == "script":
        yield source
    elif name == "notebook":
        magic = "%%time\ndef vec_add():\n    x = !ls\n    return x"
        for text in (source.decode(), magic, "!pip install x\nCONFIGS = []\nCONFIGS.append(1)"):
            yield json.dumps({"cells": [{"cell_type": "code", "source": text.splitlines(True)}], "nbformat": 4}).encode()
        cells = [{"cell_type": "code", "input": "def vec_add(): pass", "outputs": []}]
        for version in (2, 3):
            yield json.dumps({"nbformat": version, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}).encode()
        yield json.dumps({"cells": cells}).encode()
    elif name == "cells":
        yield b"# %%\n".join(
            [source, b"!ls \\\n a\n%%b\n", b"%%time\nx = !ls\n", b"X = [1]\nX[0] = 2\n", b"def outer_add():\n    return X\n"]
        )
        yield b"class A:\n    b = c\n    def d(self, e): return [f for f in e if (g := f)]\nvec_add = A().d\n# %%\ndef (\n"
    elif name == "zip":
        for files in ({"vec_add.py": b"x = 1\n"}, {"a/ch02/vec_add.py": b"x", "a/ch02/b.py": b"y", "../c": b""}):
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
                for path, content in files.items():
                    archive.writestr(path, content)
            yield buffer.getvalue()
    elif name == "tar":
        for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w", format=kind) as whole:
                for path in ("vec_add.py", "ä" * 101 + "/b.py"):
                    info = tarfile.TarInfo(path)
                    info.size = 4
                    whole.addfile(info, io.BytesIO(b"x=1\n"))
            yield buffer.getvalue()[:4096]
    elif name == "wire":
        import torch

        from harness import wire as wires

        for value in ({"a": [1, 2.5, None, True, "x", (b"yz", float("nan"))]}, [torch.ones(2, 3).t(), torch.bfloat16]):
            yield wires.dumps(value)
