"""Every `=` of a text: which calculations were exact, and which were the model's own.

In: the tokens of a text, and the steps that ran in it. Out: one `Equals` for each `=`, in order: the text before it,
the number after it, the status of its step, and whether that number is the calculator's. A step that was refused, a
token in which no anchor rule finds the `=` (such as `="`), and a text in which the calculator was off leave the number
to the model. Whether the number is right is not asked.

Shapes: L tokens of a text. Try it: `pytest tests/inference/test_equals.py`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


__all__ = ["EXACT", "OWN", "Equals", "equals_of", "format_equals"]

EXACT, OWN = "exact", "the model's own"
_SHOWN = 16  # tokens shown before an `=`
_LONGEST = 64  # tokens after it in which its number is looked for
_NUMBER = re.compile(r"\s*(?:[^\s\w.+-]\s*)?([-\u2212]?)\s*(?:[$€£¥₹]\s*)?(\d[\d,]*(?:\.\d+)?|\.\d+)")


@dataclass(frozen=True)
class Equals:
    """One `=` of a text.

    Attributes:
        position: position of its token, counted in tokens from the beginning of the text.
        text: the end of the line before it, and the `=` itself.
        written: the number after it as the text has it, without thousands separators; None if there is none.
        status: the status of its step, or None without a step.
        result: the calculator's result, or None if the status is not `ok`.
    """

    position: int
    text: str
    written: str | None
    status: str | None
    result: str | None

    @property
    def is_exact(self) -> bool:
        """Whether the text has the calculator's result here."""
        return self.result is not None and self.written is not None and _same(self.result, self.written)

    @property
    def origin(self) -> str:
        """`EXACT`, or `OWN` with the reason."""
        if self.is_exact:
            return EXACT
        if self.status is None:
            return f"{OWN} (no step)"
        if self.result is None:
            return f"{OWN} ({self.status})"
        return f"{OWN} (the calculator had {self.result})"


def equals_of(tokenizer: Any, ids: Sequence[int], steps: Mapping[int, tuple[str, str | None]]) -> list[Equals]:
    """All `=` of a text.

    Args:
        tokenizer: the tokenizer of the text.
        ids: its tokens, L of them.
        steps: status and result of each step, by the position of its anchor; the result is None if it is not `ok`.
    """
    found = []
    for position, token in enumerate(ids):
        if "=" not in (piece := tokenizer.decode([token])):
            continue
        before = tokenizer.decode(ids[max(position - _SHOWN + 1, 0) : position + 1])
        after = piece.rpartition("=")[2] + tokenizer.decode(ids[position + 1 : position + 1 + _LONGEST])
        match = _NUMBER.match(after)
        written = None if match is None else ("-" if match[1] else "") + match[2].replace(",", "").rstrip(".")
        status, result = steps.get(position, (None, None))
        found.append(Equals(position, before.rpartition("\n")[2].lstrip(), written, status, result))
    return found


def format_equals(found: Sequence[Equals]) -> str:
    """A table for a terminal: each `=` with the number after it and where that came from; empty without any."""
    if not found:
        return ""
    lines = [f"{one.text} {one.written if one.written is not None else '...'}" for one in found]
    width = max(map(len, lines))
    exact = sum(one.is_exact for one in found)
    rows = [f"  {line:<{width}}  {one.origin}" for line, one in zip(lines, found, strict=True)]
    return "\n".join([f"calculations in the text: {exact} of {len(found)} exact", *rows])


def _same(one: str, other: str) -> bool:
    """Whether two decimal numbers are equal: `12.50` and `12.5`."""
    return _plain(one) == _plain(other)


def _plain(number: str) -> tuple[bool, str, str]:
    """Sign, whole part and fraction of a decimal number, without zeros that say nothing."""
    whole, _, fraction = number.replace("\u2212", "-").lstrip("-").partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    return number.startswith(("-", "\u2212")) and bool(whole or fraction), whole, fraction
