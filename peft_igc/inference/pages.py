"""Pages: a trace, or an audit, as one HTML file.

In: records. Out: a file that needs no other file and no network, for desks and phones, light and dark. A trace has the
texts with what was read and written, and under each text its steps; it is complete without its script
(`assets/trace_page`), which only lights up what a step has read. An audit has the causes, their wrong answers and the
steps of these. All text is escaped; a content policy forbids the network and every script and style but the page's
own, which it names by their hashes.

Every token, and every mark on one, is written once, so the page grows with the length of the texts.
Try it: `pytest tests/inference/test_pages.py`
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ..tuner.records import StepRecord, percent
from .causes import CAUSES, Audit, Finding
from .records import UNTRUE, TextRecord, TokenRecord
from .terminal import facts_of


ASSETS = Path(__file__).parents[1] / "assets" / "trace_page"
_STRENGTHS = 10  # classes of the gate's colour, besides that of 0

__all__ = ["audit_page", "trace_page", "write"]


def write(page: str, path: str | Path) -> None:
    """Writes a page to a file, in UTF-8."""
    Path(path).write_text(page, encoding="utf-8", errors="replace")


def _document(title: str, body: str, script: str = "") -> str:
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
<title>{_escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<h1>{_escaped(title)}</h1>
{body}
{last}</body>
</html>
"""


def _hash(content: str) -> str:
    """The source expression of a content policy that allows exactly this inline content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _escaped(text: str) -> str:
    """Text for an element or a quoted attribute. Control characters, which HTML does not allow, are replaced."""
    visible = "".join(char if char >= " " or char in "\n\t" else "\ufffd" for char in text)
    return html.escape(visible, quote=True)


def _list(facts: Sequence[tuple[str, str]]) -> str:
    """Names with their texts."""
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{_escaped(text)}</dd>' for name, text in facts)}</dl>"


# ------------------------------------------------------------------------------------------ steps, of both pages
def _kind(step: StepRecord) -> str:
    """The class of a step: `ok`, `silent` or `refused`."""
    if step.status == "ok":
        return "ok"
    return "silent" if step.status == "none" and step.refusal is None else "refused"


def _details(name: str, index: int, step: StepRecord) -> str:
    """One step, closed."""
    facts = [("after", step.before), ("at token", f"{step.position} {step.anchor!r}")]
    facts += [(title, f"{text}  {sure}".rstrip()) for title, text, sure in facts_of(step, runners_up=True)]
    status = step.status if step.reason is None else f"{step.status}: {step.explanation}"
    return (
        f'<details id="{name}" class="{_kind(step)}"><summary>{index + 1}. <b>{_escaped(step.calculation)}</b> '
        f'<span class="status">{_escaped(status)}</span></summary>{_list(facts)}</details>'
    )


# ------------------------------------------------------------------------------------------ the page of a trace
class _Mark(NamedTuple):
    """What is shown at one token: the steps that concern it, and its classes."""

    steps: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


def trace_page(texts: Sequence[TextRecord], title: str = "Trace") -> str:
    """The page of a trace.

    Args:
        texts: the texts, in their order on the page.
        title: its heading.
    """
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
    return _document(title, body, (ASSETS / "script.js").read_text(encoding="utf-8"))


def _section(number: int, text: TextRecord) -> str:
    """One text and its steps."""
    steps = "\n".join(f"<li>{_details(f's{number}-{i}', i, step)}</li>" for i, step in enumerate(text.steps))
    untrue = [(UNTRUE, str(one)) for one in text.untrue]
    none = '<p class="faint">No step: the text has no anchor.</p>'
    return (
        f"<section>\n<h2>Text {number + 1} (row {text.row})</h2>\n"
        f'<div class="text">{"".join(_tokens(number, text))}</div>\n'
        f"{_list(untrue) if untrue else ''}{f'<ol class=steps>{steps}</ol>' if steps else none}\n</section>"
    )


def _marks(number: int, text: TextRecord) -> dict[int, _Mark]:
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
                marks[place] = _Mark((*old.steps, f"s{number}-{index}"), (*old.classes, kind))
    return marks


def _tokens(number: int, text: TextRecord) -> Iterator[str]:
    """The elements of a text; tokens of the prompt with the same marks share one."""
    marks = _marks(number, text)
    anchors: dict[int, list[int]] = {}
    for index, step in enumerate(text.steps):
        anchors.setdefault(step.position, []).append(index)

    def together(token: TokenRecord) -> object:
        """Equal for neighbours that share an element."""
        if token.generated or token.gate is not None:
            return token.position
        before = token.position - 1 if token.position - 1 in anchors else -1  # a step's number is between them
        return marks.get(token.position), before

    for _, group in groupby(text.tokens, together):
        found = list(group)
        yield _token(found, marks.get(found[0].position, _Mark()))
        for index in anchors.get(found[-1].position, ()):
            yield f'<a class="step {_kind(text.steps[index])}" href="#s{number}-{index}">{index + 1}</a>'


def _token(found: Sequence[TokenRecord], mark: _Mark) -> str:
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


def _facts(token: TokenRecord) -> str:
    """The numbers of one token in a sentence."""
    facts = [f"token {token.position} {token.text!r}"]
    facts.append("nothing written" if token.gate is None else f"gate {token.gate:.3f}")
    if token.size is not None:
        facts.append(f"size {token.size:.3g} of the hidden state")
    if token.base is not None and token.base_probability is not None:
        facts.append(f"without the calculator {token.base!r} ({percent(token.base_probability)})")
    return "; ".join(facts)


# ------------------------------------------------------------------------------------------ the page of an audit
def audit_page(audit: Audit, *, title: str = "Audit", examples: int = 20) -> str:
    """The page of an audit.

    Args:
        audit: what to show.
        title: its heading, such as the names of adapter and data.
        examples: findings shown per cause. They hold prompts and answers: 0 leaves them out.
    """
    report = audit.report
    lead = (
        f"<p>{report['exact_match']:.2%} of {report['n']:,} answers are exactly right; {report['wrong']:,} are not. "
        "The causes, most frequent first:</p>"
    )
    causes = "\n".join(_cause(audit, name, count, examples) for name, count in report["causes"].items())
    return _document(title, f"{lead}\n{causes}\n{_groups(report)}")


def _cause(audit: Audit, name: str, count: int, examples: int) -> str:
    """A cause with its findings, folded."""
    cause, share = CAUSES[name], count / audit.report["wrong"]
    details = [(f"{n:,}", detail) for detail, n in audit.report["details"].get(name, {}).items()]
    shown = audit.of_cause(name)[:examples]
    more = "" if len(shown) == count else f"<p>{count - len(shown):,} more are not shown.</p>"
    return (
        f"<details><summary><b>{_escaped(cause.title)}</b> {count:,} ({share:.1%}) "
        f'<meter value="{share:.3f}"></meter></summary>\n<p>What to do: {_code(cause.advice)}.</p>'
        f"{_list(details) if details else ''}<p>Part: {_code(cause.part)}.</p>\n"
        f"{''.join(map(_finding, shown))}{more}</details>"
    )


def _code(text: str) -> str:
    """Escaped text, with what is in backticks as code."""
    parts = _escaped(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _finding(finding: Finding) -> str:
    """One wrong answer, with its steps."""
    answer = finding.answer + (" (cut)" if finding.cut else "")
    facts = [("item", str(finding.index)), ("prompt", finding.prompt), ("target", finding.target), ("answer", answer)]
    facts += [("why", finding.detail)] if finding.detail else []
    facts += [(UNTRUE, one) for one in finding.untrue]
    steps = (_details(f"s{finding.index}-{i}", i, step) for i, step in enumerate(finding.steps))
    return f"<article>{_list(facts)}{''.join(steps)}</article>\n"


def _groups(report: Mapping[str, Any]) -> str:
    """Exact match by group, and the steps by status."""
    groups = [
        (_escaped(name), f"{score['exact_match']:.2%} of {score['n']:,}")
        for name, score in sorted(report["groups"].items())
    ]
    steps = ", ".join(f"{_escaped(name)} {count:,}" for name, count in report["steps"].items())
    return (
        f"<details><summary>Groups and steps</summary><p>Steps by status: {steps or 'none'}.</p>"
        f"{_list(groups) if groups else ''}</details>"
    )
