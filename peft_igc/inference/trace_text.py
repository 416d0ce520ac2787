"""Traces for a terminal: plain text that a program can print anywhere, and a coloured form with `rich`.

In: records. Out: text (`format_trace`), or output on a file (`print_texts`). Characters that steer a terminal are
replaced, because texts come from models and strangers. For a page see `trace_page`.
Try it: `pytest tests/inference/test_recording.py`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from ..numbers.calculator import NO_ARITHMETIC
from .records import TracedNumber, TracedStep, TracedToken, explanation, percent


if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["format_trace", "harmless", "print_texts"]

_DARKEST = (0, 95, 95)  # background of a token with gate 1; black letters would not be readable on it


class Recorded(Protocol):
    """What is shown of a text (`recording.RecordedText`)."""

    @property
    def row(self) -> int:
        """Its row in the batch."""

    @property
    def tokens(self) -> tuple[TracedToken, ...]:
        """All of its tokens."""

    @property
    def steps(self) -> tuple[TracedStep, ...]:
        """Its steps."""


def format_trace(steps: Sequence[TracedStep], tokens: Sequence[TracedToken]) -> list[str]:
    """Steps and tokens as lines of text."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"step       at token {step.position}, after {step.text!r}, status {step.status}")
        if step.reason is not None:
            lines.append(f"  silent     {explanation(step)}")
        if step.operator == NO_ARITHMETIC and step.result is None:  # rules may answer what the network did not ask
            lines.append(f"  operator   {NO_ARITHMETIC}  {percent(step.operator_probability)}")
            continue
        if step.expression is not None:
            lines.append(f"  expression {step.expression}  by rule; asked: {percent(step.operator_probability)}")
            lines += [f"  reduced    {reduction}" for reduction in step.reductions]
        else:
            first, second = step.operands
            width = max(len(first.text), len(second.text))
            lines.append(_number_line("operand 1", first, width))
            lines.append(f"  operator   {step.operator:<{width}}  {percent(step.operator_probability)}")
            lines.append(_number_line("operand 2", second, width))
        lines.append(f"  result     {step.result if step.result is not None else 'no number is written'}")
    if not steps:
        lines.append("step       none: the text has no anchor")
    lines.append("tokens     gate at the position that predicted each one (-: nothing written)")
    for token in tokens:
        gate = "    -" if token.gate is None else f"{token.gate:5.3f}"
        base = "" if token.base in (None, token.text) else f"  (without the calculator: {token.base!r})"
        lines.append(f"  {gate}      {token.text!r}{base}")
    return lines


def _number_line(title: str, number: TracedNumber, width: int) -> str:
    """A line with an operand and its probabilities."""
    sure = percent(number.probability)
    if number.weakest != number.probability:
        sure += f", least certain place {percent(number.weakest)}"
    return f"  {title}  {number.text:<{width}}  {sure}"


def harmless(text: str) -> str:
    """Text in which characters that steer a terminal are replaced; line ends and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def print_texts(texts: Sequence[Recorded], file: TextIO | None = None) -> None:
    """Prints texts with their steps.

    Args:
        texts: the texts.
        file: where to; None: stdout. Colours are used on a terminal, if `rich` is installed.
    """
    file = sys.stdout if file is None else file
    if find_spec("rich") is not None:
        _print_rich(texts, file)
        return
    for number, text in enumerate(texts):
        made = [token for token in text.tokens if token.generated]
        whole = "".join(token.text for token in text.tokens)
        lines = [f"text {number}     {harmless(whole)}", *map(harmless, format_trace(text.steps, made))]
        file.write("\n".join(lines) + "\n")


def _print_rich(texts: Sequence[Recorded], file: TextIO) -> None:
    """`print_texts` with rich."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=file, highlight=False)
    for number, text in enumerate(texts):
        console.rule(f"text {number}", align="left")
        console.print(_coloured(text))
        table = Table("token", "after", "calculation", "sure", "status", box=None, header_style="dim")
        for step in text.steps:
            why = explanation(step)
            sure = "by rule" if step.expression is not None else percent(step.operator_probability)
            cells = [str(step.position), step.text[-24:], step.calculation, sure]
            cells.append(f"{step.status}: {why}" if why else step.status)
            table.add_row(*(_plain(cell) for cell in cells))
        console.print(table if text.steps else "no step: the text has no anchor")


def _plain(text: str) -> Text:
    """Text without rich's markup, so that brackets of a prompt are no styles."""
    from rich.text import Text

    return Text(harmless(text))


def _coloured(text: Recorded) -> Any:
    """The tokens of a text: the prompt dim, what was read underlined, what was written on a coloured ground."""
    from rich.style import Style
    from rich.text import Text

    read = {place for step in text.steps for first, last in step.spans for place in range(first, last + 1)}
    shown = Text()
    for token in text.tokens:
        ground = None
        if token.gate is not None:
            ground = "rgb({},{},{})".format(*(round(part * token.gate) for part in _DARKEST))
        style = Style(
            dim=not token.generated,
            underline=token.position in read,
            color="white" if ground else None,
            bgcolor=ground,
        )
        shown.append(harmless(token.text), style)
    return shown
