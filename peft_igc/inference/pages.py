"""Pages: one HTML file for people, of a trace or of an audit.

In: records. Out: a file that needs no other file and no network, for desks and phones, light and dark. A trace has the
texts with what was read and written, and under each text its steps; it is complete without its script, which only
lights up what a step has read. The elements are in `assets/trace_page/pages.html`. All text is escaped; a content
policy forbids the network and every script and style but the page's own, which it names by their hashes.

Every token, and every mark on one, is written once, so the page grows with the length of the texts.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..tuner.records import StepRecord, percent
from .records import TextRecord, TokenRecord, facts_of


ASSETS = Path(__file__).parents[1] / "assets" / "trace_page"
_STRENGTHS = 10  # classes of the gate's colour, besides that of 0


def write(page: str, path: str | Path) -> None:
    """Writes a page to a file, in UTF-8."""
    Path(path).write_text(page, encoding="utf-8", errors="replace")


def trace_page(texts: Sequence[TextRecord], title: str = "Trace") -> str:
    """The page of a trace."""
    script = Markup((ASSETS / "script.js").read_text(encoding="utf-8"))
    return str(elements().trace(title, script, texts))


def elements() -> Any:
    """The macros of `pages.html`."""
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = Markup((ASSETS / "style.css").read_text(encoding="utf-8"))
    environment.globals.update(style=style, source_of=_source, kind_of=_kind, details_of=_details, tokens_of=_tokens)
    return environment.get_template("pages.html").module


def _shown(value: Any) -> Any:
    """A value whose text is escaped next. Control characters, which HTML does not allow, are replaced."""
    if hasattr(value, "__html__"):
        return value
    return "".join(char if char >= " " or char in "\n\t" else "\ufffd" for char in str(value))


def _source(content: str) -> Markup:
    """The source expression of a content policy that allows exactly this inline content, or nothing if it is empty."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return Markup(f"'sha256-{digest}'" if content else "'none'")


def _kind(step: StepRecord) -> str:
    """The class of a step: `ok`, `silent` or `refused`."""
    if step.status == "ok":
        return "ok"
    return "silent" if step.status == "none" and step.refusal is None else "refused"


def _details(step: StepRecord) -> list[tuple[str, str]]:
    """All that is shown of a step when it is opened."""
    facts = [("after", step.before), ("at token", f"{step.position} {step.anchor!r}")]
    return [*facts, *((title, f"{text}  {sure}".rstrip()) for title, text, sure in facts_of(step))]


def _tokens(text: TextRecord) -> Iterator[dict[str, Any]]:
    """For each token its classes, the indices of the steps that it concerns and of those it is the anchor of, its
    numbers in a sentence, and its text."""
    marks: dict[int, list[tuple[int, str]]] = {}  # the steps that concern a token, with the class of their mark
    anchors: dict[int, list[int]] = {}
    for index, step in enumerate(text.steps):
        anchors.setdefault(step.position, []).append(index)
        spans = [(span, "read") for span in step.spans]
        if step.culprit_position is not None:
            spans.append(((step.culprit_position,) * 2, "bad"))
        if step.expression_span is not None:
            spans.append((step.expression_span, ""))  # lit with its step, not underlined
        for (first, last), kind in spans:
            for place in range(first, last + 1):
                marks.setdefault(place, []).append((index, kind))
    for token in text.tokens:
        own = marks.get(token.position, [])
        is_new = token.generated or token.gate is not None
        classes = [*(kind for _, kind in own if kind), *["new"] * is_new, *["prompt"] * (not token.generated)]
        if token.gate is not None:
            classes.append(f"g{round(token.gate * _STRENGTHS)}")
        yield {
            "classes": " ".join(dict.fromkeys(classes)),
            "steps": list(dict.fromkeys(index for index, _ in own)),
            "anchors": anchors.get(token.position, ()),
            "facts": _facts(token) if is_new else "",
            "text": token.text,
        }


def _facts(token: TokenRecord) -> str:
    """The numbers of one token in a sentence."""
    facts = [f"token {token.position} {token.text!r}"]
    facts.append("nothing written" if token.gate is None else f"gate {token.gate:.3f}")
    if token.size is not None:
        facts.append(f"size {token.size:.3g} of the hidden state")
    if token.base is not None and token.base_probability is not None:
        facts.append(f"without the calculator {token.base!r} ({percent(token.base_probability)})")
    return "; ".join(facts)
