"""The page of an audit: one HTML file without scripts and network, for a browser of any width, light or dark.

In: an `Audit`. Out: the text of the page. Everything that comes from data is escaped, and a content security policy
forbids scripts and all requests, so that a prompt in it can do nothing.
Try it: `pytest tests/inference/test_audit.py`
"""

from __future__ import annotations

from html import escape
from typing import Any

from .audit import Audit
from .audit_causes import CAUSES


__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #c9302c; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
body { overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; display: grid; grid-template-columns: 1fr auto; gap: 0 1rem; }
summary .bar { grid-column: 1 / -1; height: .35rem; background: var(--soft); border-radius: .2rem; }
.bar i { display: block; height: 100%; background: var(--bar); border-radius: .2rem; }
.count { font-variant-numeric: tabular-nums; white-space: nowrap; }
article { background: var(--soft); border-radius: .4rem; padding: .5rem .75rem; margin: .5rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .75rem; margin: 0; }
dt { opacity: .65; } dd { margin: 0; white-space: pre-wrap; }
code, dd { font-family: ui-monospace, monospace; font-size: .9rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .1rem 1rem .1rem 0; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(audit: Audit, *, title: str = "Audit", examples: int = 20) -> str:
    """The page.

    Args:
        audit: what to show.
        title: its heading, such as the names of adapter and data.
        examples: findings shown per cause. They hold prompts and answers: 0 leaves them out.
    """
    report = audit.report
    head = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>"
    )
    lead = (
        f"<h1>{escape(title)}</h1><p>{report['exact_match']:.2%} of {report['n']:,} answers are exactly right; "
        f"{report['wrong']:,} are not. The causes, most frequent first:</p>"
    )
    causes = "".join(_cause(audit, name, count, examples) for name, count in report["causes"].items())
    return f"{head}{lead}{causes}{_groups(report)}</body></html>\n"


def _cause(audit: Audit, name: str, count: int, examples: int) -> str:
    """A cause with its findings, folded."""
    cause, wrong = CAUSES[name], audit.report["wrong"]
    share = count / wrong
    details = audit.report["details"].get(name, {})
    rows = "".join(f"<tr><td>{n:,}</td><td>{escape(detail)}</td></tr>" for detail, n in details.items())
    shown = audit.examples(name, examples)
    more = "" if len(shown) == count else f"<p>{count - len(shown):,} more are not shown.</p>"
    return (
        f'<details><summary><strong>{escape(cause.title)}</strong><span class="count">{count:,} ({share:.1%})</span>'
        f'<span class="bar"><i style="width:{share:.1%}"></i></span></summary>'
        f"<p>What to do: {_code(cause.advice)}.</p>{f'<table>{rows}</table>' if rows else ''}"
        f"<p>Part: {_code(cause.part)}.</p>{''.join(_finding(finding) for finding in shown)}{more}</details>"
    )


def _code(text: str) -> str:
    """Escaped text, with what stands in backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _finding(finding: dict[str, Any]) -> str:
    """One wrong answer."""
    fields = {"item": str(finding["index"]), **{name: finding[name] for name in ("prompt", "target", "answer")}}
    fields["answer"] += " (cut)" if finding["cut"] else ""
    if finding["detail"]:
        fields["why"] = finding["detail"]
    rows = [*fields.items(), *(("step", step) for step in finding["steps"])]
    fields_ = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    return f"<article><dl>{fields_}</dl></article>"


def _groups(report: dict[str, Any]) -> str:
    """Exact match by group, and the steps by status."""
    groups = "".join(
        f"<tr><td>{escape(name)}</td><td>{score['exact_match']:.2%}</td><td>{score['n']:,}</td></tr>"
        for name, score in sorted(report["groups"].items())
    )
    table = f"<table><tr><th>group</th><th>right</th><th>items</th></tr>{groups}</table>" if groups else ""
    steps = ", ".join(f"{escape(name)} {count:,}" for name, count in report["steps"].items())
    return f"<details><summary>Groups and steps</summary><p>Steps by status: {steps or 'none'}.</p>{table}</details>"
