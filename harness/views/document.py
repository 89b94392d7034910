"""The JSON view: the result document as text."""

from __future__ import annotations

import json

from harness.record import Record, document


def render(record: Record) -> str:
    return json.dumps(document(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
