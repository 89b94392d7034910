"""`python -m harness.profiler.target ROOT EXERCISE FILE CASE DEVICE`: one call of a timed case between profiler marks.

Run by Nsight Compute. Imports FILE as it is, in this process.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness import course as courses
from harness import data
from harness.examiner.graders import grader_of


def load(file: Path, name: str) -> Callable[..., Any]:
    """The function `name` of a file that is imported into this process, without a sandbox."""
    sys.path.append(str(file.parent))  # its helper files
    spec = importlib.util.spec_from_file_location(f"submission_{name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


def main(root: str, exercise: str, file: str, case: str, device: str) -> None:
    course = courses.load(Path(root) / "course.toml")
    (one,) = course.select((exercise,))
    timed = grader_of(course, one).benchmarks[int(case)]
    function = load(Path(file), one.name)
    where = torch.device(device)
    torch.cuda.set_device(where)
    function(*data.arguments(timed.inputs, 1, where))  # compiles and tunes
    args = data.arguments(timed.inputs, 2, where)
    torch.cuda.synchronize()
    marks = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    marks.cudaProfilerStart()
    function(*args)
    torch.cuda.synchronize()
    marks.cudaProfilerStop()


if __name__ == "__main__":
    main(*sys.argv[1:])
