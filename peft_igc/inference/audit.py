"""Audit: answers the items of a file as `evaluation` does, and sorts every wrong answer by its cause.

In: a model with an IGC adapter, its tokenizer, items `{"prompt", "target"}`, optionally with `group` and operand
columns. Out: an `Audit` with the counts of `evaluate`, a `Finding` for each wrong answer, and the number of these by
cause (`causes`). Where the right result was calculated and the answer is wrong, it is generated again with every gate
at 1: if it is then right, the gate is the cause. Nothing is changed in the model.

Shapes: T positions of a call, H hidden size, B rows of a batch.
Try it: `peft-igc audit --base tiny --adapter tiny --data items.jsonl`, `pytest tests/inference/test_audit.py`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..tuner.hooks.wrapper import active_layer
from .causes import CAUSES, cause_of, plain_number
from .decoding import prompt_tokens
from .evaluation import ProgressCallback, answer_items, answer_tokens, is_right
from .pages import described, document, escaped, shown_step
from .records import Answer


__all__ = ["Audit", "Finding", "audit", "open_gates"]

_OF_FEW_DETAILS = ("refused", "unsure", "status")  # causes whose details are counted


@dataclass(frozen=True)
class Finding:
    """A wrong answer.

    Attributes:
        index: the item's place in the data, from 0.
        item: with `prompt` and `target`.
        answer: as generated, with its record.
        cause: a key of `CAUSES`.
        detail: what was read, which rule refused, how far a gate was open.
    """

    index: int
    item: Mapping[str, Any]
    answer: Answer
    cause: str
    detail: str

    @property
    def untrue(self) -> list[str]:
        """The calculations of prompt and answer that are untrue, each with its right value."""
        return [] if self.answer.record is None else [str(one) for one in self.answer.record.untrue]

    def as_dict(self) -> dict[str, Any]:
        """The finding for JSON, each step in one line."""
        item, answer = self.item, self.answer
        found = {"index": self.index, "prompt": item["prompt"], "target": item["target"], "answer": answer.text}
        found |= {"cut": answer.cut, "cause": self.cause, "detail": self.detail, "untrue": self.untrue}
        return found | {"steps": [step.summary for step in answer.steps]}


@dataclass(frozen=True)
class Audit:
    """The causes of all wrong answers.

    Attributes:
        report: the counts of `evaluate`; `wrong`; `causes`, the number of wrong answers by cause, most frequent first;
            `details`, the number of them by cause and detail for causes of few details; `settings`, `versions`.
        findings: one for each wrong answer, in the order of the items.
    """

    report: dict[str, Any]
    findings: list[Finding]

    def format(self) -> str:
        """The counts as text for a terminal."""
        report = self.report
        lines = [f"{report['exact_match']:.2%} of {report['n']:,} answers are exactly right; {report['wrong']:,} not."]
        for name, count in report["causes"].items():
            lines.append(f"{count:6,}  {count / report['wrong']:7.2%}  {CAUSES[name].title}")
            lines.append(f"{'':17}{CAUSES[name].advice}")
            lines += [f"{'':17}{n:,} x {detail}" for detail, n in report["details"].get(name, {}).items()]
            lines.append(f"{'':17}part: {CAUSES[name].part}")
        return "\n".join(lines)

    def as_dict(self, examples: int = 5) -> dict[str, Any]:
        """The report with up to `examples` findings per cause, as a dictionary for JSON."""
        shown = {name: [one.as_dict() for one in self.of_cause(name)[:examples]] for name in self.report["causes"]}
        return self.report | {"examples": shown}

    def of_cause(self, cause: str) -> list[Finding]:
        """The findings of a cause."""
        return [finding for finding in self.findings if finding.cause == cause]

    def page(self, title: str = "Audit", examples: int = 20) -> str:
        """The counts and the wrong answers as a page.

        Args:
            title: its heading, such as the names of adapter and data.
            examples: findings shown per cause. They hold prompts and answers: 0 leaves them out.
        """
        lead, _, _ = self.format().partition("\n")
        causes = "\n".join(_cause(self, name, count, examples) for name, count in self.report["causes"].items())
        return document(title, f"<p>{lead} The causes, most frequent first:</p>\n{causes}\n{_groups(self.report)}")


def audit(
    model: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: ProgressCallback | None = None,
) -> Audit:
    """Answers the items and finds the cause of each wrong answer.

    Args:
        model: a causal LM with an active IGC adapter.
        tokenizer, batch_size, max_new_tokens, raw, progress: as in `evaluation.evaluate`.
        items: each with the strings `prompt` and `target`, optionally with `group`, `igc_operator` (`"none"` where the
            calculator is to be silent) and `igc_operands`, by which a wrong reading is recognized.

    Raises:
        ValueError: if no IGC adapter is active, and as in `evaluate`.
    """
    decoding = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": raw}
    answers, report = answer_items(model, tokenizer, items, decoding, progress, record=True)
    wrong = [i for i, answer in enumerate(answers) if not is_right(answer, items[i])]
    doubtful = [i for i in wrong if plain_number(items[i]["target"]) in [step.result for step in answers[i].steps]]
    tokens = prompt_tokens(tokenizer, [items[i]["prompt"] for i in doubtful], raw)
    with open_gates(model):
        again = answer_tokens(model, tokenizer, tokens, batch_size, max_new_tokens)
    opened = {i: is_right(answer, items[i]) for i, answer in zip(doubtful, again, strict=True)}
    findings = [Finding(i, items[i], answers[i], *cause_of(items[i], answers[i], opened.get(i))) for i in wrong]
    causes = Counter(finding.cause for finding in findings)
    details = {
        name: dict(Counter(one.detail for one in findings if one.cause == name and one.detail).most_common())
        for name in _OF_FEW_DETAILS
    }
    del report["mistakes"]  # the findings are these, and all of them
    report |= {"wrong": len(findings), "causes": dict(causes.most_common())}
    return Audit(report | {"details": {name: found for name, found in details.items() if found}}, findings)


@contextmanager
def open_gates(model: Any) -> Iterator[None]:
    """Sets every gate of the active adapter to 1 in this context, so that results are written at full strength."""
    layer, name = active_layer(model)

    def full(module: Any, args: Any, output: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        update, gate = output  # [B, T, H], which has the gate as a factor (Eq. 14), and [B, T]
        least = torch.finfo(gate.dtype).tiny
        return update / gate.clamp(min=least)[..., None].to(update.dtype), torch.ones_like(gate)

    handle = layer.igc_output_mapping[name].register_forward_hook(full)
    try:
        yield
    finally:
        handle.remove()


# ------------------------------------------------------------------------------------------ the page
def _cause(audit: Audit, name: str, count: int, examples: int) -> str:
    """A cause with its findings, folded."""
    cause, share = CAUSES[name], count / audit.report["wrong"]
    details = [(f"{n:,}", detail) for detail, n in audit.report["details"].get(name, {}).items()]
    shown = audit.of_cause(name)[:examples]
    more = "" if len(shown) == count else f"<p>{count - len(shown):,} more are not shown.</p>"
    return (
        f"<details><summary><b>{escaped(cause.title)}</b> {count:,} ({share:.1%}) "
        f'<meter value="{share:.3f}"></meter></summary>\n<p>What to do: {escaped(cause.advice)}.</p>'
        f"{described(details)}<p>Part: {escaped(cause.part)}.</p>\n"
        f"{''.join(map(_finding, shown))}{more}</details>"
    )


def _finding(finding: Finding) -> str:
    """One wrong answer, with its steps."""
    item, answer = finding.item, finding.answer.text + (" (cut)" if finding.answer.cut else "")
    facts = [("item", str(finding.index)), ("prompt", item["prompt"]), ("target", item["target"]), ("answer", answer)]
    facts += [("why", finding.detail)] if finding.detail else []
    facts += [("untrue", one) for one in finding.untrue]
    steps = (shown_step(f"s{finding.index}-{i}", i, step) for i, step in enumerate(finding.answer.steps))
    return f"<article>{described(facts)}{''.join(steps)}</article>\n"


def _groups(report: Mapping[str, Any]) -> str:
    """Exact match by group, and the steps by status."""
    groups = [
        (escaped(name), f"{score['exact_match']:.2%} of {score['n']:,}")
        for name, score in sorted(report["groups"].items())
    ]
    steps = ", ".join(f"{escaped(name)} {count:,}" for name, count in report["steps"].items())
    return (
        f"<details><summary>Groups and steps</summary><p>Steps by status: {steps or 'none'}.</p>"
        f"{described(groups)}</details>"
    )
