"""What graders are written with: domains, bounds, checks, laws, timed cases."""

from harness.grading import bounds
from harness.grading.domain import (
    LAYOUTS,
    LONG,
    RAGGED,
    SPECIALS,
    SUMMABLE,
    Drawn,
    F,
    Focus,
    I,
    arguments,
    choice,
    constant,
    index_into,
    lay,
    list_of,
    mask,
    normal,
    small_integers,
    sprinkle,
    tensor,
)
from harness.grading.grader import (
    Case,
    Check,
    Grader,
    Part,
    TensorGrader,
    booleans,
    case,
    check,
    integers,
    law,
    widened,
)
from harness.grading.grader import normal as normal_data

__all__ = [
    "LAYOUTS", "LONG", "RAGGED", "SPECIALS", "SUMMABLE", "Case", "Check", "Drawn", "F", "Focus", "Grader", "I", "Part",
    "TensorGrader",
    "arguments", "booleans", "bounds", "case", "check", "choice", "constant", "index_into", "integers", "law", "lay", "list_of",
    "mask", "normal", "normal_data", "small_integers", "sprinkle", "tensor", "widened",
]  # fmt: skip
