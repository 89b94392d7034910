"""The graders of a course: the classes of graders/chNN_slug.py, held to what course.toml says of their checks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from harness.course import Course, Exercise
from harness.errors import MachineError
from harness.examiner import compiling
from harness.grading.grader import Check, Grader

_modules: dict[Path, ModuleType] = {}


def grader_of(course: Course, exercise: Exercise) -> Grader:
    """The grader class named like the exercise, out of graders/chNN_slug.py."""
    path = course.root / "graders" / f"{exercise.chapter}.py"
    if path not in _modules:
        spec = importlib.util.spec_from_file_location(f"graders.{exercise.chapter}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise MachineError(f"there is no grader file {path}", "add it, see CONTRIBUTING.md")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        _modules[path] = module
    found = getattr(_modules[path], exercise.name, None)
    if not isinstance(found, type) or not issubclass(found, Grader):
        raise MachineError(f"{path.name} has no grader class `{exercise.name}`", "name the class like the exercise")
    return found()


def checks_of(exercise: Exercise, grader: Grader, *, gpu: bool) -> list[Check]:
    """The grader's checks, which course.toml must give points to, one by one."""
    checks = grader.checks(gpu=gpu)
    names = ([compiling.CHECK] if grader.kernels else []) + [c.name for c in checks]
    if set(names) != set(exercise.points) or len(set(names)) != len(names):
        raise MachineError(
            f"{exercise.id}: course.toml gives points to {sorted(exercise.points)}, the grader has {sorted(names)}",
            "make the two agree",
        )
    if bool(grader.benchmarks) != bool(exercise.speed):
        raise MachineError(
            f"{exercise.id}: points for speed and the grader's benchmarks go together", "give both, or neither"
        )
    return checks
