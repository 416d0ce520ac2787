"""Texts with their steps for a terminal.

In: records. Out: lines of text (`format_steps`, `format_equals`), or output on a file (`print_texts`), in colours on a
terminal. Characters that steer a terminal are replaced, because texts come from models and strangers.
Try it: `pytest tests/inference/test_recording.py`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

from ..tuner.records import NumberRecord, StepRecord, percent
from .records import Equals, TextRecord, TokenRecord, equals_of


__all__ = ["format_equals", "format_steps", "harmless", "print_texts"]

_DARKEST = (0, 95, 95)  # background of a token with gate 1; black letters would not be readable on it


def format_steps(steps: Sequence[StepRecord], tokens: Sequence[TokenRecord]) -> list[str]:
    """Steps and tokens as lines of text."""
    lines: list[str] = []
    for step in steps:
        lines += _step_lines(step)
    if not steps:
        lines.append("step       none: the text has no anchor")
    lines.append("tokens     gate at the position that predicted each one (-: nothing written)")
    for token in tokens:
        gate = "    -" if token.gate is None else f"{token.gate:5.3f}"
        base = "" if token.base in (None, token.text) else f"  (without the calculator: {token.base!r})"
        lines.append(f"  {gate}      {token.text!r}{base}")
    return lines


def _step_lines(step: StepRecord) -> list[str]:
    """One step."""
    facts = facts_of(step)
    width = max((len(text) for title, text, _ in facts if title.startswith("operand")), default=0)
    lines = [f"step       at token {step.position}, after {step.before!r}, status {step.status}"]
    for title, text, sure in facts:
        lines.append(f"  {title:<10} {text:<{width}}  {sure}" if sure else f"  {title:<10} {text}")
    return lines


def facts_of(step: StepRecord, *, runners_up: bool = False) -> list[tuple[str, str, str]]:
    """What is shown of a step: for each fact its title, its text, and how sure it is (or nothing).

    Args:
        step: the step.
        runners_up: add the number or operator that is most probable besides the one that was read.
    """

    def other(text: str | None, probability: float | None) -> str:
        there = runners_up and text is not None and probability is not None
        return f"; next {text}  {percent(probability or 0.0)}" if there else ""

    facts = [("silent", step.explanation, "")] if step.reason is not None else []
    sure = percent(step.operator_probability or 0.0)
    operator = sure + other(step.operator_runner_up, step.operator_runner_up_probability)
    if step.expression is None:
        return [*facts, ("operator", step.operator, operator)]
    if step.by_rule:
        facts.append(("expression", step.expression, f"by rule; asked: {sure}"))
        facts += [("reduced", reduction, "") for reduction in step.reductions]
    else:
        numbers = [
            (f"operand {i}", one.text, _sure(one) + other(one.runner_up, one.runner_up_probability))
            for i, one in enumerate(step.operands, start=1)
        ]
        facts += [*numbers[:1], ("operator", step.operator, operator), *numbers[1:]]
    result = step.result if step.result is not None else "no number is written"
    return [*facts, ("result", result, "rounded" if step.rounded else "")]


def _sure(number: NumberRecord) -> str:
    """The probability of an operand."""
    least = "" if number.weakest == number.probability else f", least certain place {percent(number.weakest)}"
    return percent(number.probability) + least


def format_equals(found: Sequence[Equals]) -> list[str]:
    """Each `=` with the number after it and where that came from, as lines; none without any."""
    if not found:
        return []
    lines = [f"{one.text} {one.written if one.written is not None else '...'}" for one in found]
    width = max(map(len, lines))
    exact = sum(one.is_exact for one in found)
    rows = [f"  {line:<{width}}  {one.origin}" for line, one in zip(lines, found, strict=True)]
    return [f"calculations in the text: {exact} of {len(found)} exact", *rows]


def harmless(text: str) -> str:
    """Text in which characters that steer a terminal are replaced; line ends and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def print_texts(texts: Sequence[TextRecord], file: TextIO | None = None) -> None:
    """Prints texts with their steps.

    Args:
        texts: the texts.
        file: where to; None: stdout. On a terminal the prompt is faint, and what was written has a coloured ground.
    """
    file = sys.stdout if file is None else file
    for number, text in enumerate(texts):
        whole = _coloured(text) if file.isatty() else harmless("".join(token.text for token in text.tokens))
        steps = [*format_steps(text.steps, text.generated), *format_equals(equals_of(text))]
        lines = [f"text {number}     {whole}", *map(harmless, steps)]
        file.write("\n".join(lines) + "\n")


def _coloured(text: TextRecord) -> str:
    """A text with the codes of a terminal."""
    read = {place for step in text.steps for first, last in step.spans for place in range(first, last + 1)}

    def codes(token: TokenRecord) -> str:
        """Faint in the prompt, underlined if it was read, on the colour of its gate."""
        found = ["2"] * (not token.generated) + ["4"] * (token.position in read)
        if token.gate is not None:
            found += ["37", "48;2;" + ";".join(str(round(part * token.gate)) for part in _DARKEST)]
        return ";".join(found)

    parts = []
    for style, group in groupby(text.tokens, codes):
        shown = harmless("".join(token.text for token in group))
        parts.append(f"\x1b[{style}m{shown}\x1b[0m" if style else shown)
    return "".join(parts)
