"""Audit: answers the items of a file as `evaluation` does, and sorts every wrong answer by its cause.

In: a model with an IGC adapter, its tokenizer, items `{"prompt", "target"}`, optionally with `group` and operand
columns. Out: an `Audit` with the counts of `evaluate`, and a `Finding` with one of `CAUSES` for each wrong answer.
A cause is the first thing on the way from the text to the answer that went wrong: a wrong operand also makes a wrong
operator probable, but not the other way round. What should have been read is known if the item has `igc_operator` and
`igc_operands`, or if its prompt is a question of BIG-bench. Otherwise a wrong result is `misread`, without the part.
Where the right result was calculated and the answer is wrong, it is generated again with every gate at 1: if it is
then right, the gate is the cause. Nothing is changed in the model.

Shapes: T positions of a call, H hidden size, B rows of a batch.
Try it: `peft-igc audit --base tiny --adapter tiny --data items.jsonl`
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ..data.bigbench import parse_question
from ..data.columns import label
from ..numbers.calculator import NO_ARITHMETIC
from ..text.operations import FUNCTIONS
from ..text.values import Limits
from ..tuner.hooks.wrapper import active_layer
from ..tuner.records import EXPLANATIONS, StepRecord
from .evaluation import answer_items, generate_answers, is_right
from .pages import elements
from .records import Answer


LEAST_OPEN = 0.5  # a gate below this is closed
# Reasons of a refusal that depend on what the network has read; all others follow from the text alone.
_AFTER_READING = {"other_number", "not_understood", "look_alike", "few_numbers", "unseen", "other_operation"}
_ASSETS = Path(__file__).parents[1] / "assets"
# The causes of wrong answers: what happened (`title`), what a user can do (`advice`), what is responsible (`part`).
CAUSES: dict[str, dict[str, str]] = tomllib.loads((_ASSETS / "audit" / "causes.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Finding:
    """A wrong answer."""

    index: int  # the item's place in the data, from 0
    item: Mapping[str, Any]  # with `prompt` and `target`
    answer: Answer  # as generated, with its record
    cause: str  # a key of `CAUSES`
    detail: str  # what was read, which rule refused, how far a gate was open

    @property
    def untrue(self) -> list[str]:
        """The calculations of prompt and answer that are untrue, each with its right value."""
        return [] if self.answer.record is None else [str(one) for one in self.answer.record.untrue]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a page shows of it next to the steps."""
        item, answer = self.item, self.answer.text + (" (cut)" if self.answer.cut else "")
        facts = [("item", str(self.index)), ("prompt", item["prompt"]), ("target", item["target"]), ("answer", answer)]
        return facts + [("why", self.detail)] * bool(self.detail) + [("untrue", one) for one in self.untrue]

    def as_dict(self) -> dict[str, Any]:
        """The finding for JSON, each step in one line."""
        item, answer = self.item, self.answer
        found = {"index": self.index, "prompt": item["prompt"], "target": item["target"], "answer": answer.text}
        found |= {"cut": answer.cut, "cause": self.cause, "detail": self.detail, "untrue": self.untrue}
        return found | {"steps": [step.summary for step in answer.steps]}


@dataclass(frozen=True)
class Audit:
    """The causes of all wrong answers."""

    # the counts of `evaluate`; `wrong`; `causes`, the number of wrong answers by cause, most frequent first;
    # `details`, the number of them by cause and detail for causes of few details; `settings`, `versions`
    report: dict[str, Any]
    findings: list[Finding]  # one for each wrong answer, in the order of the items

    def of_cause(self, cause: str) -> list[Finding]:
        """The findings of a cause."""
        return [finding for finding in self.findings if finding.cause == cause]

    def format(self) -> str:
        """The counts as text for a terminal."""
        report = self.report
        lines = [f"{report['exact_match']:.2%} of {report['n']:,} answers are exactly right; {report['wrong']:,} not."]
        for name, count in report["causes"].items():
            lines.append(f"{count:6,}  {count / report['wrong']:7.2%}  {CAUSES[name]['title']}")
            lines.append(f"{'':17}{CAUSES[name]['advice']}")
            lines += [f"{'':17}{n:,} x {detail}" for detail, n in report["details"].get(name, {}).items()]
            lines.append(f"{'':17}part: {CAUSES[name]['part']}")
        return "\n".join(lines)

    def as_dict(self, examples: int = 5) -> dict[str, Any]:
        """The report with up to `examples` findings per cause, as a dictionary for JSON."""
        shown = {name: [one.as_dict() for one in self.of_cause(name)[:examples]] for name in self.report["causes"]}
        return self.report | {"examples": shown}

    def page(self, title: str = "Audit", examples: int = 20) -> str:
        """The counts and the wrong answers as a page.

        Args:
            title: its heading, such as the names of adapter and data.
            examples: findings shown per cause. They hold prompts and answers: 0 leaves them out.
        """
        lead, _, _ = self.format().partition("\n")
        causes = []
        for name, count in self.report["causes"].items():
            details = [(f"{n:,}", detail) for detail, n in self.report["details"].get(name, {}).items()]
            causes.append((CAUSES[name], count, details, self.of_cause(name)[:examples]))
        return str(elements().audit(title, lead, causes, self.report))


def audit(
    model: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: bool = False,
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
    decoding: dict[str, Any] = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": raw}
    answers, report = answer_items(model, tokenizer, items, decoding, progress=progress, record=True)
    wrong = [i for i, answer in enumerate(answers) if not is_right(answer, items[i])]
    doubtful = [i for i in wrong if _plain(items[i]["target"]) in [step.result for step in answers[i].steps]]
    with open_gates(model):
        prompts = [items[i]["prompt"] for i in doubtful]
        again = generate_answers(model, tokenizer, prompts, **decoding, return_steps=True)
    opened = {i: is_right(answer, items[i]) for i, answer in zip(doubtful, again, strict=True)}
    findings = [Finding(i, items[i], answers[i], *cause_of(items[i], answers[i], opened.get(i, False))) for i in wrong]
    causes = Counter(finding.cause for finding in findings)
    details = {
        name: dict(Counter(one.detail for one in findings if one.cause == name).most_common())
        for name in ("refused", "unsure", "status")  # which have few
        if causes[name]
    }
    del report["mistakes"]  # the findings are these, and all of them
    report |= {"wrong": len(findings), "causes": dict(causes.most_common())}
    return Audit(report | {"details": details}, findings)


def open_gates(model: Any) -> RemovableHandle:
    """A context in which every gate of the active adapter is 1, so that results are written at full strength."""
    layer, name = active_layer(model)

    def full(module: Any, args: Any, output: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        update, gate = output  # [B, T, H], which has the gate as a factor (Eq. 14), and [B, T]
        least = torch.finfo(gate.dtype).tiny
        return update / gate.clamp(min=least)[..., None].to(update.dtype), torch.ones_like(gate)

    handle: RemovableHandle = layer.igc_output_mapping[name].register_forward_hook(full)
    return handle


# ------------------------------------------------------------------------------------------ causes
Expected = tuple[str, tuple[str, str] | None]  # the operator or `"none"`, and the operands in the calculator's order


def expected_of(item: Mapping[str, Any]) -> Expected | None:
    """What should have been read for an item, or None if that cannot be told."""
    operator, operands = item.get("igc_operator"), item.get("igc_operands")
    if operator == NO_ARITHMETIC:
        return NO_ARITHMETIC, None
    if isinstance(operator, str) and operator in FUNCTIONS:
        return None
    if isinstance(operator, str) and operands is not None and len(operands) == 2:
        return operator, (str(operands[0]), str(operands[1]))
    question = parse_question(item["prompt"])
    if question is not None:
        return question[1], (question[0], question[2])
    return None if re.search(r"\d", item["target"]) else (NO_ARITHMETIC, None)


def cause_of(item: Mapping[str, Any], answer: Answer, opened: bool) -> tuple[str, str]:
    """The cause of a wrong answer, a key of `CAUSES`, and a detail. `opened`: whether it is right with open gates."""
    expected, target, text = expected_of(item), _plain(item["target"]), answer.record
    assert text is not None
    if not text.steps:
        return "no_anchor", ""
    prompt = len(text.tokens) - len(text.generated)
    first = max((at for at, step in enumerate(text.steps) if step.position < prompt), default=0)
    written = [step for step in text.steps[first:] if step.status == "ok"]  # not of earlier calculations of the prompt
    if expected == (NO_ARITHMETIC, None):
        return ("silent", written[0].summary) if written else ("base", "")
    if any(step.result == target for step in written):
        gates = [token.gate for token in text.tokens if token.gate is not None]
        return _writing(item["target"].strip(), answer.text.strip(), answer.cut, gates, opened)
    return _reading(text.steps[first if text.steps[first].position < prompt else -1], expected, target)


def _plain(number: str) -> str:
    """A number without thousands separators, plus sign and spaces."""
    return number.strip().replace(",", "").removeprefix("+")


def _writing(target: str, answer: str, cut: bool, gates: Sequence[float], opened: bool) -> tuple[str, str]:
    """The cause where the right result was to be written."""
    if answer == target:
        return "cut", "the answer is right, but was cut"
    detail = f"gates {min(gates):.3f} to {max(gates):.3f}" if gates else "nothing was written"
    gates = gates or [0.0]
    if max(gates) < LEAST_OPEN:  # what the base says alone may contain the number
        return "gate", detail
    same, begins = _plain(answer) == _plain(target), answer.startswith(target)
    if same or re.search(rf"(?<![\d.,-]){re.escape(target)}(?![\d]|[.,]\d)", answer):
        # The last position is that of the number's end. It is the gate that is too low only if open gates mend it.
        if begins and (gates[-1] >= LEAST_OPEN or not opened):
            return "overruled", f"the number is right, the answer goes on; its end was written with {gates[-1]:.3f}"
        if not same and not begins and gates[0] >= LEAST_OPEN:
            return "overruled", detail  # something else is where the number was written
        return "formatting", "cut" if cut else ""
    return ("gate", f"{detail}; right with open gates") if opened else ("overruled", detail)


def _reading(step: StepRecord, expected: Expected | None, target: str) -> tuple[str, str]:
    """The cause where another result, or none, was to be written."""
    read_as = step.summary
    refused = step.status == "none" and step.reason not in ("no_arithmetic", "unsure")
    operator, operands = expected or (NO_ARITHMETIC, None)
    if not step.by_rule and operands is not None and (not refused or step.reason in _AFTER_READING):
        found = tuple(one.text for one in step.operands)
        if part := _misread(step, operator, operands):
            return part, f"{f' {step.operator} '.join(found)} instead of {operands[0]} {operator} {operands[1]}"
        if step.reason == "look_alike" and operands != found:
            return "sign", f"{read_as}; rules and network have to agree"
    if refused:
        return "refused", EXPLANATIONS[str(step.reason)]
    if step.reason == "no_arithmetic":
        return "operator", "taken for no arithmetic" + (f": {step.expression}" if step.by_rule else "")
    if step.reason == "unsure":
        named = 1.0 if step.operator_probability is None else step.operator_probability
        pointed = (step.probability or 0.0) / max(named, 1e-9)  # both operands together
        part = "operand" if not step.by_rule and pointed < named else "operator"
        return "unsure", f"least probable: the {part}; `confidence` {step.confidence}"
    if step.status != "ok":
        return "status", step.status
    wanted = operands and label(operator, operands, Limits())
    if step.by_rule:
        return ("target" if wanted == step.result else "expression"), read_as
    if wanted is None:
        return "misread", read_as
    return ("target", read_as) if wanted != target else ("sign", f"{read_as} instead of {wanted}")


def _misread(step: StepRecord, operator: str, operands: tuple[str, str]) -> str | None:
    """`operand` or `operator`, whichever was misread first; None if both are right but for signs."""
    wanted = tuple(_plain(one).lstrip("-").lstrip("0") or "0" for one in operands)
    if tuple(one.text.lstrip("-") for one in step.operands) != wanted:
        return "operand"
    if step.operator == NO_ARITHMETIC and step.reason != "no_arithmetic":
        return None  # a rule of the choice, not the classifier
    return "operator" if step.operator != operator else None
