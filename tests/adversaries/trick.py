"""What tricks are made of: submissions that are written to cheat, and what must become of them.

Each was reported about some other grader, or is what an attacker would try next. A source stands after `HEAD`: a right
solution of ch02.vec_add (`right`), kernels that copy and fill, and the places that the attack is after, which the test
writes in front of it: the course (`ROOT`), somebody else's work (`OTHER`), a folder that is not its own (`OUTSIDE`), the
examiner's process (`EXAMINER`), servers that listen (`PORT`, `SOCKET`), the name of every file that it makes (`MARK`).

A trick that looks for something does right work first, and ends with `give(found)`, which says what it got: the test asks
for the message that it was nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import hostile_cases

# The frames of whatever called this submission: found through a traceback, which nobody forbids.
CALLERS = '''
def callers():
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame is not None:
        yield frame
        frame = frame.f_back


'''
HEAD = hostile_cases.HEAD + '''
@triton.jit
def fill_kernel(z_ptr, value, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, (tl.zeros([BLOCK], tl.float32) + value).to(z_ptr.dtype.element_ty), mask=offsets < n)


def new(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def filled(z, value):
    if z.numel():
        fill_kernel[(triton.cdiv(z.numel(), 256),)](z, value, z.numel(), BLOCK=256)
    return z


def give(found):
    raise LookupError(f"got hold of {found}" if found else "nothing was found")


'''+CALLERS

NOTHING = "nothing was found"


@dataclass(frozen=True)
class Trick:
    """`lines`: those of the list of known failures (docs/known-failures.md) that it tries. `check`: the one that it attacks.
    `status`: how the exercise may end; `message`: what one of its checks says. `beside`: other files that are handed in.

    What must not have happened is the same for all of them, see test_tricks.py.
    """

    name: str
    lines: tuple[int, ...]
    source: str
    status: tuple[str, ...]
    message: str = ""
    exercise: str = "ch02.vec_add"
    check: str = "aligned"
    examples: int = 2
    beside: dict[str, str] = field(default_factory=dict)


def call(name: str, lines: tuple[int, ...], body: str, status: str, message: str = "", **more: object) -> Trick:
    """A trick in the call: `body` stands between right work, `z`, and its return."""
    inside = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return load(name, lines, f"def vec_add(x, y):\n    z = right(x, y)\n{inside}    return z\n", status, message, **more)


def load(name: str, lines: tuple[int, ...], source: str, status: str, message: str = "", **more: object) -> Trick:
    """A trick with definitions of its own."""
    return Trick(name, lines, source, tuple(status.split("|")), message, **more)  # type: ignore[arg-type]
