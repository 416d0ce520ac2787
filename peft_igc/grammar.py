"""Texts with alternatives, and which of them are trained, held out, or of a family that is never trained.

A line like `"(Add|Sum up) {a} and {b}(.|, please.)"` is a *family*; each way to choose among its alternatives is a
*template*; `{a}` is a field that others fill. Which part a template belongs to is told by a fixed hash of the
complete template, so that it is the same on every machine and nobody picks. Capitals, punctuation, spaces and the sign
that means "times" do not count: no held-out template is a trained one with another full stop.
No alternatives inside plain brackets, and no field is filled here. Try it:
`python -c "from peft_igc.grammar import expand; print(*expand('(Add|Sum up) {a} and {b}.'), sep='\\n')"`.
"""

import enum
import functools
import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence


__all__ = [
    "Draft",
    "Part",
    "Parts",
    "choose",
    "drawn",
    "expand",
    "is_held_out",
    "is_new",
    "line_of",
    "part_of",
    "plain",
]

Draft = tuple[str, ...]  # a complete template and the families it is made of

_CHOICE = re.compile(r"\(([^()|]*\|[^()]*)\)")  # innermost first
_ONE_SIGN = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
_UNHEARD = re.compile(r"[\s.?:!,;'\"_]")
_HELD_OUT, _NEW = 6, 20  # one in so many
_CANDIDATES = 3  # of which the one is taken that came least often
# The form of BIG-bench is trained, whatever the hash says; so are the frame and the expressions that it is made of.
_ALWAYS = ("what is {x}", "{a} plus {b}", "{a} minus {b}", "{a} times {b}", "{a} divided by {b}")


class Part(enum.Enum):
    """What a template is used for."""

    TRAINED = "trained"
    HELD_OUT = "held out"  # others of its families are trained
    NEW = "new"  # nothing of one of its families is trained


Parts = frozenset[Part]


def plain(text: str) -> str:
    """What the hash sees of a text."""
    return _UNHEARD.sub("", text.lower().replace(" x ", "*").translate(_ONE_SIGN))


_ALWAYS_TRAINED = {plain(text) for text in (*_ALWAYS, *(_ALWAYS[0].format(x=text) for text in _ALWAYS[1:]))}


def is_held_out(template: str) -> bool:
    """Whether a complete template is held out: one in six."""
    seen = plain(template)
    return seen not in _ALWAYS_TRAINED and _number(seen) % _HELD_OUT == 0


def is_new(family: str) -> bool:
    """Whether a family is never trained: one in twenty."""
    seen = plain(family)
    return seen not in _ALWAYS_TRAINED and _number(f"family {seen}") % _NEW == 0


@functools.cache
def _templates(family: str) -> frozenset[str]:
    """All templates of a family."""
    return frozenset(expand(family))


@functools.cache
def _left_out(family: str) -> bool:
    """Whether every template of a family is held out, so that none of them is trained."""
    return all(map(is_held_out, _templates(family)))


def part_of(template: str, *families: str) -> Part:
    """Where a template belongs that is put together of these families."""
    if any(map(is_new, families)):
        return Part.NEW
    if any(template in _templates(family) and _left_out(family) for family in families):
        return Part.NEW  # a small family of complete templates, of which the hash leaves none to train
    return Part.HELD_OUT if is_held_out(template) else Part.TRAINED


def choose(line: str, rng: random.Random) -> str:
    """One template of a family; each alternative is as probable as the others beside it."""
    while match := _CHOICE.search(line):
        line = line[: match.start()] + rng.choice(match[1].split("|")) + line[match.end() :]
    return line


def expand(line: str) -> Iterator[str]:
    """All templates of a family, some perhaps twice."""
    match = _CHOICE.search(line)
    if match is None:
        yield line
        return
    for alternative in match[1].split("|"):
        yield from expand(line[: match.start()] + alternative + line[match.end() :])


def line_of(lines: Sequence[str], rng: random.Random) -> Draft:
    """A template of one of these families."""
    line = rng.choice(lines)
    return choose(line, rng), line


def drawn(draft: Callable[[], Draft], parts: Parts, used: Counter[str] | None = None) -> str:
    """A template of these parts: drafts are drawn until one is.

    With `used`, which counts what was drawn before, until `_CANDIDATES` are; the one that came least often is taken,
    so that few of a small pool are left out.
    """
    found: list[str] = []
    while len(found) < (1 if used is None else _CANDIDATES):
        template, *families = draft()
        if part_of(template, *families) in parts:
            found.append(template)
    if used is None:
        return found[0]
    rarest = min(found, key=lambda template: used[template])
    used[rarest] += 1
    return rarest


def _number(text: str) -> int:
    """A number that is as good as random, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
