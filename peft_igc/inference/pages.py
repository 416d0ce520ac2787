"""Pages: one HTML file for people; that of a trace is here, that of an audit in `audit`.

In: records. Out: a file that needs no other file and no network, for desks and phones, light and dark. A trace has the
texts with what was read and written, and under each text its steps; it is complete without its script
(`assets/trace_page`), which only lights up what a step has read. All text is escaped; a content policy forbids the
network and every script and style but the page's own, which it names by their hashes.

Every token, and every mark on one, is written once, so the page grows with the length of the texts.
Try it: `pytest tests/inference/test_pages.py`
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..tuner.records import StepRecord, percent
from .records import TextRecord, TokenRecord, facts_of


ASSETS = Path(__file__).parents[1] / "assets" / "trace_page"
_STRENGTHS = 10  # classes of the gate's colour, besides that of 0

__all__ = ["described", "document", "escaped", "shown_step", "trace_page", "write"]


def write(page: str, path: str | Path) -> None:
    """Writes a page to a file, in UTF-8."""
    Path(path).write_text(page, encoding="utf-8", errors="replace")


def document(title: str, body: str, script: str = "") -> str:
    """A page; `script` is the only one that its policy allows."""
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    scripts, last = (_hash(script), f"<script>{script}</script>\n") if script else ("'none'", "")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {scripts}; base-uri 'none'; "
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<h1>{escaped(title)}</h1>
{body}
{last}</body>
</html>
"""


def _hash(content: str) -> str:
    """The source expression of a content policy that allows exactly this inline content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def escaped(text: str) -> str:
    """Text for an element or a quoted attribute. Control characters, which HTML does not allow, are replaced."""
    visible = "".join(char if char >= " " or char in "\n\t" else "\ufffd" for char in text)
    return html.escape(visible, quote=True)


def described(facts: Sequence[tuple[str, str]]) -> str:
    """Names with their texts; nothing without any."""
    if not facts:
        return ""
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{escaped(text)}</dd>' for name, text in facts)}</dl>"


def _kind(step: StepRecord) -> str:
    """The class of a step: `ok`, `silent` or `refused`."""
    if step.status == "ok":
        return "ok"
    return "silent" if step.status == "none" and step.refusal is None else "refused"


def shown_step(name: str, index: int, step: StepRecord) -> str:
    """One step, closed."""
    facts = [("after", step.before), ("at token", f"{step.position} {step.anchor!r}")]
    facts += [(title, f"{text}  {sure}".rstrip()) for title, text, sure in facts_of(step)]
    status = step.status if step.reason is None else f"{step.status}: {step.explanation}"
    return (
        f'<details id="{name}" class="{_kind(step)}"><summary>{index + 1}. <b>{escaped(step.calculation)}</b> '
        f'<span class="status">{escaped(status)}</span></summary>{described(facts)}</details>'
    )


# ------------------------------------------------------------------------------------------ the page of a trace
def trace_page(texts: Sequence[TextRecord], title: str = "Trace") -> str:
    """The page of a trace."""
    steps = [step for text in texts for step in text.steps]
    ok = sum(step.status == "ok" for step in steps)
    sections = "\n".join(_section(number, text) for number, text in enumerate(texts))
    body = f"""<p class="faint">Texts: {len(texts):,}. Steps: {len(steps):,}, {ok:,} of them with a result.</p>
<p class="faint legend">Written by the calculator: gate <span class="g0">0</span> <span class="g5">0.5</span>
<span class="g10">1</span>; <span class="read">read</span>; <span class="bad">cause of a refusal</span>;
a step <a class="step" href="#t0">1</a>, <a class="step silent" href="#t0">silent</a>,
<a class="step refused" href="#t0">refused</a>. Choose a step or a new token for its numbers.</p>
<main id="t0">
{sections}
</main>
<output id="bar"></output>"""
    return document(title, body, (ASSETS / "script.js").read_text(encoding="utf-8"))


def _section(number: int, text: TextRecord) -> str:
    """One text and its steps."""
    steps = "\n".join(f"<li>{shown_step(f's{number}-{i}', i, step)}</li>" for i, step in enumerate(text.steps))
    none = '<p class="faint">No step: the text has no anchor.</p>'
    return (
        f"<section>\n<h2>Text {number + 1} (row {text.row})</h2>\n"
        f'<div class="text">{"".join(_tokens(number, text))}</div>\n'
        f"{described([('untrue', str(one)) for one in text.untrue])}"
        f"{f'<ol class=steps>{steps}</ol>' if steps else none}\n</section>"
    )


def _marks(number: int, text: TextRecord) -> dict[int, list[tuple[str, str]]]:
    """The steps that concern a token, each with the class of its mark, by the position of the token."""
    marks: dict[int, list[tuple[str, str]]] = {}
    for index, step in enumerate(text.steps):
        spans = [(span, "read") for span in step.spans]
        if step.culprit_position is not None:
            spans.append(((step.culprit_position,) * 2, "bad"))
        if step.expression_span is not None:
            spans.append((step.expression_span, ""))  # lit with its step, not underlined
        for (first, last), kind in spans:
            for place in range(first, last + 1):
                marks.setdefault(place, []).append((f"s{number}-{index}", kind))
    return marks


def _tokens(number: int, text: TextRecord) -> Iterator[str]:
    """The elements of a text: its tokens, and after an anchor the number of its step."""
    marks = _marks(number, text)
    anchors: dict[int, list[int]] = {}
    for index, step in enumerate(text.steps):
        anchors.setdefault(step.position, []).append(index)
    for token in text.tokens:
        yield _token(token, marks.get(token.position, []))
        for index in anchors.get(token.position, ()):
            yield f'<a class="step {_kind(text.steps[index])}" href="#s{number}-{index}">{index + 1}</a>'


def _token(token: TokenRecord, marks: Sequence[tuple[str, str]]) -> str:
    """The element of one token."""
    classes = list(dict.fromkeys(kind for _, kind in marks if kind))
    facts = ""
    if token.generated or token.gate is not None:
        classes.append("new")
        facts = f' data-facts="{escaped(_facts(token))}"'
    if not token.generated:
        classes.append("prompt")
    if token.gate is not None:
        classes.append(f"g{round(token.gate * _STRENGTHS)}")
    steps = f' data-steps="{" ".join(dict.fromkeys(step for step, _ in marks))}"' if marks else ""
    return f'<span class="{" ".join(classes)}"{steps}{facts}>{escaped(token.text)}</span>'


def _facts(token: TokenRecord) -> str:
    """The numbers of one token in a sentence."""
    facts = [f"token {token.position} {token.text!r}"]
    facts.append("nothing written" if token.gate is None else f"gate {token.gate:.3f}")
    if token.size is not None:
        facts.append(f"size {token.size:.3g} of the hidden state")
    if token.base is not None and token.base_probability is not None:
        facts.append(f"without the calculator {token.base!r} ({percent(token.base_probability)})")
    return "; ".join(facts)
