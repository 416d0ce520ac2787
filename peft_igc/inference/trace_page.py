"""A trace as one HTML page: the texts with what was read and written, and under each text its steps.

In: records. Out: a file that needs no other file and no network, for desks and phones, light and dark. It is complete
without its script (`assets/trace_page`), which only lights up what a step has read. All text is escaped; a content
policy forbids the network and every script and style but the page's own, which it names by their hashes.

Every token, and every mark on one, is written once, so the page grows with the length of the texts.
Try it: `pytest tests/inference/test_trace_page.py`
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from .records import TracedNumber, TracedStep, TracedToken, explanation, percent
from .trace_text import Recorded


ASSETS = Path(__file__).parents[1] / "assets" / "trace_page"
_STRENGTHS = 10  # classes of the gate's colour, besides that of 0

__all__ = ["page", "write_page"]


class _Mark(NamedTuple):
    """What is shown at one token: the steps that concern it, and its classes."""

    steps: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


def write_page(texts: Sequence[Recorded], path: str | Path, title: str = "Trace") -> None:
    """Writes the page of `page` to a file, in UTF-8."""
    Path(path).write_text(page(texts, title), encoding="utf-8", errors="replace")


def page(texts: Sequence[Recorded], title: str = "Trace") -> str:
    """The page.

    Args:
        texts: the texts, in their order on the page.
        title: its heading.
    """
    style, script = ((ASSETS / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
    steps = [step for text in texts for step in text.steps]
    ok = sum(step.status == "ok" for step in steps)
    body = "\n".join(_section(number, text) for number, text in enumerate(texts))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{_escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<h1>{_escaped(title)}</h1>
<p class="faint">Texts: {len(texts):,}. Steps: {len(steps):,}, {ok:,} of them with a result.</p>
<p class="faint legend">Written by the calculator: gate <span class="g0">0</span> <span class="g5">0.5</span>
<span class="g10">1</span>; <span class="read">read</span>; <span class="bad">cause of a refusal</span>;
a step <a class="step" href="#t0">1</a>, <a class="step silent" href="#t0">silent</a>,
<a class="step refused" href="#t0">refused</a>. Choose a step or a new token for its numbers.</p>
<main id="t0">
{body}
</main>
<output id="bar"></output>
<script>{script}</script>
</body>
</html>
"""


def _hash(content: str) -> str:
    """The source expression of a content policy that allows exactly this inline content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _escaped(text: str) -> str:
    """Text for an element or a quoted attribute. Control characters, which HTML does not allow, are replaced."""
    visible = "".join(char if char >= " " or char in "\n\t" else "\ufffd" for char in text)
    return html.escape(visible, quote=True)


def _section(number: int, text: Recorded) -> str:
    """One text and its steps."""
    steps = "\n".join(f"<li>{_details(_name(number, i), i, step)}</li>" for i, step in enumerate(text.steps))
    none = '<p class="faint">No step: the text has no anchor.</p>'
    return (
        f"<section>\n<h2>Text {number + 1} (row {text.row})</h2>\n"
        f'<div class="text">{"".join(_tokens(number, text))}</div>\n'
        f"{f'<ol class=steps>{steps}</ol>' if steps else none}\n</section>"
    )


def _name(number: int, index: int) -> str:
    """The id of a step's element."""
    return f"s{number}-{index}"


def _kind(step: TracedStep) -> str:
    """The class of a step: `ok`, `silent` or `refused`."""
    if step.status == "ok":
        return "ok"
    return "silent" if step.status == "none" and step.refusal is None else "refused"


def _marks(number: int, text: Recorded) -> dict[int, _Mark]:
    """The marks of a text by the position of their token."""
    marks: dict[int, _Mark] = {}
    for index, step in enumerate(text.steps):
        spans = [(span, "read") for span in step.spans]
        if step.culprit_position is not None:
            spans.append(((step.culprit_position,) * 2, "bad"))
        if step.expression_span is not None:
            spans.append((step.expression_span, ""))  # lit with its step, not underlined
        for (first, last), kind in spans:
            for place in range(first, last + 1):
                old = marks.get(place, _Mark())
                marks[place] = _Mark((*old.steps, _name(number, index)), (*old.classes, kind))
    return marks


def _tokens(number: int, text: Recorded) -> Iterator[str]:
    """The elements of a text; tokens of the prompt with the same marks share one."""
    marks = _marks(number, text)
    anchors: dict[int, list[int]] = {}
    for index, step in enumerate(text.steps):
        anchors.setdefault(step.position, []).append(index)

    def together(token: TracedToken) -> object:
        """Equal for neighbours that share an element."""
        if token.generated or token.gate is not None:
            return token.position
        before = token.position - 1 if token.position - 1 in anchors else -1  # a step's number stands between
        return marks.get(token.position), before

    for _, group in groupby(text.tokens, together):
        found = list(group)
        yield _token(found, marks.get(found[0].position, _Mark()))
        for index in anchors.get(found[-1].position, ()):
            yield f'<a class="step {_kind(text.steps[index])}" href="#{_name(number, index)}">{index + 1}</a>'


def _token(found: Sequence[TracedToken], mark: _Mark) -> str:
    """The element of one token, or of several of a prompt."""
    token = found[0]
    classes = list(dict.fromkeys(kind for kind in mark.classes if kind))
    facts = ""
    if token.generated or token.gate is not None:
        classes.append("new")
        facts = f' data-facts="{_escaped(_facts(token))}"'
    if not token.generated:
        classes.append("prompt")
    if token.gate is not None:
        classes.append(f"g{round(token.gate * _STRENGTHS)}")
    steps = f' data-steps="{" ".join(dict.fromkeys(mark.steps))}"' if mark.steps else ""
    shown = _escaped("".join(one.text for one in found))
    return f'<span class="{" ".join(classes)}"{steps}{facts}>{shown}</span>'


def _facts(token: TracedToken) -> str:
    """The numbers of one token in a sentence."""
    facts = [f"token {token.position} {token.text!r}"]
    if token.gate is None:
        facts.append("nothing written")
    else:
        facts.append(f"gate {token.gate:.3f}")
        if token.size is not None:
            facts.append(f"size {token.size:.3g} of the hidden state")
    if token.base is not None and token.base_probability is not None:
        facts.append(f"without the calculator {token.base!r} ({percent(token.base_probability)})")
    return "; ".join(facts)


def _details(name: str, index: int, step: TracedStep) -> str:
    """One step, closed."""
    facts: list[tuple[str, str]] = [("after", step.text), ("at token", f"{step.position} {step.anchor!r}")]
    if step.expression is not None:
        facts += [("expression", step.expression), ("asked", percent(step.operator_probability))]
        facts += [("reduced", reduction) for reduction in step.reductions]
    else:
        if step.operator != "none":
            facts += [(f"operand {i}", _number(number)) for i, number in enumerate(step.operands, start=1)]
        facts.append(("operator", _operator(step)))
    facts.append(("result", step.result if step.result is not None else "no number is written"))
    why = explanation(step)
    if why:
        facts.append(("because", why))
    rows = "".join(f"<dt>{title}</dt><dd>{_escaped(text)}</dd>" for title, text in facts)
    status = step.status if not why else f"{step.status}: {why}"
    return (
        f'<details id="{name}" class="{_kind(step)}"><summary>{index + 1}. <b>{_escaped(step.calculation)}</b> '
        f'<span class="status">{_escaped(status)}</span></summary><dl>{rows}</dl></details>'
    )


def _number(number: TracedNumber) -> str:
    """An operand, with the number that is most probable besides it."""
    shown = f"{number.text}  {percent(number.probability)}"
    if number.runner_up is not None and number.runner_up_probability is not None:
        shown += f"; next {number.runner_up}  {percent(number.runner_up_probability)}"
    return shown


def _operator(step: TracedStep) -> str:
    """The operator, with the one that is most probable besides it."""
    shown = f"{step.operator}  {percent(step.operator_probability)}"
    if step.operator_runner_up is not None and step.operator_runner_up_probability is not None:
        shown += f"; next {step.operator_runner_up}  {percent(step.operator_runner_up_probability)}"
    return shown
