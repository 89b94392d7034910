"""Tricks that need no GPU: all of them, and each as the file that is handed in."""

from __future__ import annotations

from trick import HEAD, Trick
from tricks_beyond_the_worker import REACHES
from tricks_for_results import OUTPUTS, REMEMBERED, VERDICTS
from tricks_round_rules import PREPARED, RULES

TRICKS = [*REMEMBERED, *VERDICTS, *OUTPUTS, *RULES, *REACHES]


def source_of(trick: Trick) -> str:
    return HEAD + PREPARED.get(trick.name, "") + trick.source
