"""What a worker answers when a submission cannot be used as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from harness.worker.evidence import Evidence


class Rejected(Exception):
    """A submission that cannot be used as it is; `reply` says why."""

    def __init__(self, **reply: Any) -> None:
        super().__init__(reply.get("message", ""))
        self.reply = reply


@contextlib.contextmanager
def ruled(seen: Evidence) -> Iterator[None]:
    """A broken rule is what the student must hear of, whatever the submission raised afterwards."""
    try:
        yield
    except Exception as error:
        if not seen.refused or isinstance(error, PermissionError):
            raise
        raise Rejected(status="refused", message="; ".join(seen.refused)) from error
