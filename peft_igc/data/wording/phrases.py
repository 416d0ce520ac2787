"""The phrase system: text files with alternatives, and which of their texts are trained or held out.

A file in `texts` has pools of lines under headings such as `== expressions > + > words ==`; `pools` reads it. A
line such as `(Add|Sum up) {a} and {b}(.|, please.)` is a *family*; each choice among its alternatives is a *template*;
`{a}` is a field that is filled later. A fixed hash of the complete template decides which part it belongs to, so the
split is the same on every machine and nobody selects it. The hash ignores capitals, punctuation, spaces and the choice
of the sign for "times": no held-out template is a trained one with another full stop. Plain brackets must not contain
alternatives.
Try it: `pytest tests/data/test_wording.py -k split`.
"""

import functools
import hashlib
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


__all__ = [
    "BIGBENCH",
    "OPERATOR_WORDS",
    "TEXTS",
    "UNABLE",
    "Text",
    "choose",
    "drawn",
    "is_held_out",
    "line_of",
    "pools",
    "words",
]

# The completion of every row in which the calculator gives no number.
UNABLE = "I cannot compute that."
OPERATOR_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
# The one form of the BIG-bench arithmetic task, by operator.
BIGBENCH = {symbol: f"What is {{a}} {word} {{b}}?" for symbol, word in OPERATOR_WORDS.items()}

TEXTS = Path(__file__).parent / "texts"
_HEADING = re.compile(r"== (.+) ==")
_ESCAPE, _ESCAPED = re.compile(r"\\(.)"), {"n": "\n", "s": " ", "\\": "\\"}
_CHOICE = re.compile(r"\(([^()|]*\|[^()]*)\)")  # innermost first
_ONE_SIGN = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
_IGNORED = re.compile(r"[\s.?:!,;'\"_]")
_HELD_OUT = 6  # one template in 6


class Text(NamedTuple):
    """A drawn text, or a template of one, whose fields are still open.

    Attributes:
        text: The text.
        completion: Its completion, for a text that asks for no supported calculation.
        kind: The kind of such a text.
        thing: The counted things, if the answer may name them.
    """

    text: str
    completion: str = UNABLE
    kind: str = ""
    thing: str | None = None


@functools.cache
def pools(file: str) -> dict[str, Any]:
    """The pools of `texts/file.txt`: lists of lines, in dictionaries by the parts of their headings.

    Comments begin with `# `. A new line is written `\\n`, a space at an end `\\s`, a backslash `\\\\`.
    """
    found: dict[str, Any] = {}
    pool: list[str] = []
    for line in (TEXTS / f"{file}.txt").read_text(encoding="utf-8").split("\n"):
        if heading := _HEADING.fullmatch(line):
            *path, last = heading[1].split(" > ")
            level = found
            for name in path:
                level = level.setdefault(name, {})
            pool = level.setdefault(last, [])
        elif line and not line.startswith("# "):
            pool.append(_ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], line))
    return found


@functools.cache
def words(name: str) -> list[str]:
    """One of the lists of `words.txt`."""
    return ", ".join(line.rstrip(",") for line in pools("words")[name]).split(", ")


def _normalized(text: str) -> str:
    """The text as it is hashed."""
    return _IGNORED.sub("", text.lower().replace(" x ", "*").translate(_ONE_SIGN))


# The form of BIG-bench is trained whatever its hash is, and so are the frame and the expressions it is made of.
_EXPRESSIONS = (f"{{a}} {word} {{b}}" for word in OPERATOR_WORDS.values())
_ALWAYS_TRAINED = {_normalized(text) for text in (*BIGBENCH.values(), "What is {x}?", *_EXPRESSIONS)}


def is_held_out(template: str) -> bool:
    """Whether a complete template is held out: one in six, the same ones on every machine."""
    text = _normalized(template)
    hashed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return text not in _ALWAYS_TRAINED and hashed % _HELD_OUT == 0


def choose(line: str, rng: random.Random) -> str:
    """One template of a family; alternatives at one place are equally probable."""
    while match := _CHOICE.search(line):
        line = line[: match.start()] + rng.choice(match[1].split("|")) + line[match.end() :]
    return line


def line_of(lines: Sequence[str], rng: random.Random) -> Text:
    """A template of one of these lines."""
    return Text(choose(rng.choice(lines), rng))


def drawn(draft: Callable[[], Text], held_out: bool) -> Text:
    """The first of the drafts that is held out, or that is not."""
    while is_held_out((found := draft()).text) != held_out:
        pass
    return found
