"""Mutants of a solution: its source with one small, systematic fault each.

A grader that passes a mutant has a hole, unless the mutant is equivalent: no input tells it from the original. The idea is
that of DeMillo, Lipton and Sayward, "Hints on test data selection: help for the practicing programmer", Computer 11(4), 1978;
the faults are those of `operators`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass

from harness.gate.operators import OPERATORS
from harness.gate.site import Text, sites


@dataclass(frozen=True)
class Mutation:
    """One fault: what was edited (on one line, for people), and the whole file with it.

    line: where the edit begins in the original, from 1. function: the one it is in, `outer.inner` where nested. number: which
    of the edits that read alike in that function, from 1.
    """

    operator: str
    line: int
    before: str
    after: str
    source: str
    function: str
    number: int = 1

    @property
    def key(self) -> str:
        """A name that edits elsewhere in the file do not change."""
        name = f"{self.operator}: {self.before} -> {self.after} in {self.function}"
        return name if self.number == 1 else f"{name} #{self.number}"


def mutations(source: str) -> list[Mutation]:
    """All mutants of a file, in the order of the edits; no two have the same syntax tree, nor has one the original's.

    Raises SyntaxError where `source` is no Python.
    """
    tree, text = ast.parse(source), Text(source)
    proposed = [
        (edit, name, site)
        for site in sites(tree, text)
        for name, operator in OPERATORS.items()
        if isinstance(site.node, operator.kinds) and (operator.tuning or not site.tuning)
        for edit in operator.propose(site, site.node)
    ]
    # Only the statement of the file that holds the edit can differ, and to compare that alone is much faster.
    seen = {(place, ast.dump(statement)) for place, statement in enumerate(tree.body)}
    alike = Counter[tuple[str, str, str, str]]()
    found = []
    for edit, name, site in sorted(proposed, key=lambda one: one[0].pieces[0][:2]):
        mutated = text.edited(edit.pieces)
        made = (site.place, ast.dump(ast.parse(mutated).body[site.place]))
        if made in seen:
            continue
        seen.add(made)
        read = (name, _one_line(edit.before), _one_line(edit.after), site.function)
        alike[read] += 1
        found.append(Mutation(name, text.line(edit.start), read[1], read[2], mutated, site.function, alike[read]))
    return found


def _one_line(text: str) -> str:
    """The text as it is or, if it has several lines, as it would be on one and without comments."""
    if "\n" not in text:
        return text
    bare = re.sub(r"#[^\n]*", "", text)
    bare = re.sub(r"(?<=[(\[{])\s*\n\s*|,?\s*\n\s*(?=[)\]}])", "", bare)
    return " ".join(bare.split())
