"""Coverage-guided fuzzing of one format with atheris, which `pip install -e '.[fuzz]'` brings; see docs/fuzzing.md.

    python tests/fuzz/run.py notebook CORPUS -max_total_time=300

What comes after the format goes to libFuzzer. A find is written to crash-*, timeout-* or oom-*; `run.py FORMAT FILE` repeats it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]
LIMITS = ["-timeout=20", "-rss_limit_mb=2560", "-max_len=8192"]  # seconds, MiB, bytes
READ_BY = ["harness", "zipfile", "tarfile", "json", "tomllib", "nbformat"]


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=READ_BY):
        import nbformat  # noqa: F401  (else imported when it is first needed, and not watched)
        import targets

        if name == "wire":
            import harness.wire  # noqa: F401
    if name not in targets.TARGETS:
        sys.exit(f"no format is called {name!r}; formats: {', '.join(targets.TARGETS)}")
    folders = [Path(word) for word in sys.argv[1:] if not word.startswith("-") and Path(word).is_dir()]
    for folder in folders[:1]:
        for number, seed in enumerate(targets.seeds(name)):
            (folder / f"seed-{number}").write_bytes(seed)
    given = {word.split("=")[0] for word in sys.argv}
    atheris.Setup([*sys.argv, *(limit for limit in LIMITS if limit.split("=")[0] not in given)], targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
