"""Progress of a run on a terminal: which checks are running. Silent where the output is no terminal."""

from __future__ import annotations

import threading
import time

from rich.console import Console
from rich.status import Status as Spinner


class Live:
    """A line that names the running checks; `update` may be called from any thread."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lock = threading.Lock()
        self.running: dict[tuple[str, str], float] = {}
        self.done = 0
        self.spinner: Spinner | None = None

    def __enter__(self) -> Live:
        if self.console.is_terminal:
            self.spinner = self.console.status("starting")
            self.spinner.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.spinner is not None:
            self.spinner.stop()

    def update(self, exercise: str, check: str, status: str) -> None:
        with self.lock:
            if status == "running":
                self.running[(exercise, check)] = time.monotonic()
            else:
                self.running.pop((exercise, check), None)
                self.done += 1
            if self.spinner is not None:
                names = ", ".join(f"{e} {c}" for e, c in list(self.running)[:3])
                self.spinner.update(f"{self.done} checks done; {names}")
