"""Audit: answers the items of a file as `evaluation` does, and sorts every wrong answer by its cause.

In: a model with an IGC adapter, its tokenizer, items `{"prompt", "target"}`, optionally with `group` and operand
columns. Out: an `Audit` with the counts of `evaluate`, a `Finding` for each wrong answer, and the number of these by
cause. The causes and the parts of the adapter that they name are in `audit_causes`.

The answers are those of `evaluate`, batch by batch. Where the right result was calculated and the answer is wrong, it
is generated again with every gate at 1: if it is then right, the gate is the cause. Nothing is changed in the model.

Shapes: B rows of a batch, T positions of a call, A anchors per row.
Try it: `peft-igc audit --base tiny --adapter tiny --data items.jsonl --html audit.html`, `pytest
tests/inference/test_audit.py`
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..mappings.readings import Choice
from ..numbers.calculator import NO_ARITHMETIC, Status
from ..numbers.digits import PAD, decode
from ..text.refusals import Reason
from ..tuner.call import observing
from ..tuner.config import IGCConfig
from ..tuner.hooks.wrapper import active_config, active_layer
from ..tuner.steps import Step, Writing
from .audit_causes import CAUSES, ReadStep, Writes, cause_of, is_right, plain_number
from .evaluation import (
    Answer,
    ProgressCallback,
    answer_tokens,
    batches_of,
    check_items,
    checked_tokens,
    count_answers,
    versions,
)


__all__ = ["Audit", "Finding", "audit", "open_gates"]


@dataclass(frozen=True)
class Finding:
    """A wrong answer.

    Attributes:
        index: the item's place in the data, from 0.
        prompt, target, answer: as in the item, and as generated.
        cut: whether the answer was cut.
        cause: a key of `CAUSES`.
        detail: what was read, which rule refused, how far a gate was open.
        steps: every step in one line.
    """

    index: int
    prompt: str
    target: str
    answer: str
    cut: bool
    cause: str
    detail: str
    steps: tuple[str, ...]


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
        return self.report | {"examples": {name: self.examples(name, examples) for name in self.report["causes"]}}

    def examples(self, cause: str, most: int) -> list[dict[str, Any]]:
        """The first `most` findings of a cause, as dictionaries."""
        found = [finding for finding in self.findings if finding.cause == cause]
        return [dataclasses.asdict(finding) for finding in found[:most]]


class _Batch:
    """Observer that keeps the steps and the gates of each row of a batch.

    Attributes:
        steps: by row, event and index of each step by the position of its anchor. What is read repeatedly counts once.
        gates: by row, the gate of each position that was written.
    """

    def __init__(self, rows: int) -> None:
        self.steps: list[dict[int, tuple[Step, int]]] = [{} for _ in range(rows)]
        self.gates: list[dict[int, float]] = [{} for _ in range(rows)]

    def __call__(self, seen: Any) -> None:
        """Stores one event."""
        if isinstance(seen, Step):
            for row, anchors in enumerate(seen.anchors.tolist()):
                self.steps[row] |= {at: (seen, index) for index, at in enumerate(anchors) if at >= 0}
        elif isinstance(seen, Writing):
            gates = seen.gate.tolist()
            for row, at in seen.active.nonzero().tolist():
                self.gates[row][seen.start + at] = gates[row][at]


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
    check_items(items)
    config = active_config(model)
    if config is None:
        raise ValueError(
            f"`{type(model).__name__}` has no active IGC adapter, so there is nothing to audit. Load one with "
            "`PeftModel.from_pretrained(model, folder)`."
        )
    tokens = checked_tokens(model, tokenizer, [item["prompt"] for item in items], batch_size, max_new_tokens, raw)
    answers: dict[int, Answer] = {}
    steps: dict[int, list[ReadStep]] = {}  # of the wrong answers
    gates: dict[int, list[float]] = {}
    for chosen in batches_of(tokens, batch_size):
        batch = [tokens[index] for index in chosen]
        with observing(_Batch(len(chosen))) as seen:
            found = answer_tokens(model, tokenizer, batch, len(batch), max_new_tokens)
        answers.update(zip(chosen, found, strict=True))
        for row, index in enumerate(chosen):
            if not _right(answers[index], items[index]):
                steps[index] = _read_steps(seen, row, tokenizer, tokens[index], answers[index], config, len(batch[0]))
                gates[index] = [gate for _, gate in sorted(seen.gates[row].items())]
        if progress is not None:
            progress(len(answers), len(tokens))
    doubtful = [index for index, read in steps.items() if _calculated(read, items[index]["target"])]
    with open_gates(model):
        again = answer_tokens(model, tokenizer, [tokens[i] for i in doubtful], batch_size, max_new_tokens)
    opened = {index: _right(answer, items[index]) for index, answer in zip(doubtful, again, strict=True)}
    findings = [
        _finding(index, items[index], answers[index], steps[index], Writes(gates[index], opened.get(index)))
        for index in sorted(steps)
    ]
    settings = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": raw}
    return Audit(_report(items, [answers[index] for index in range(len(items))], findings, settings), findings)


def _calculated(steps: Sequence[ReadStep], target: str) -> bool:
    """Whether one of the steps has the target as its result."""
    return any(step.result == plain_number(target) for step in steps)


def _right(answer: Answer, item: Mapping[str, Any]) -> bool:
    """Whether an answer is right."""
    return is_right(answer.text, answer.cut, item["target"])


def _finding(
    index: int, item: Mapping[str, Any], answer: Answer, steps: Sequence[ReadStep], writes: Writes
) -> Finding:
    """The finding of a wrong answer."""
    cause, detail = cause_of(item, answer.text, answer.cut, steps, writes)
    lines = tuple(step.format() for step in steps)
    return Finding(index, item["prompt"], item["target"], answer.text, answer.cut, cause, detail, lines)


def _report(
    items: Sequence[Mapping[str, Any]],
    answers: Sequence[Answer],
    findings: Sequence[Finding],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """The counts: those of `evaluate`, and those by cause."""
    right = [_right(answer, item) for answer, item in zip(answers, items, strict=True)]
    counts = count_answers(items, answers, right)
    del counts["mistakes"]  # the findings are these, and all of them
    causes = Counter(finding.cause for finding in findings)
    details = {name: Counter(one.detail for one in findings if one.cause == name and one.detail) for name in causes}
    few = {name: dict(details[name].most_common()) for name in ("refused", "unsure", "status") if details.get(name)}
    return {
        **counts,
        "without_anchor": sum(not answer.steps for answer in answers),
        "wrong": len(findings),
        "causes": dict(causes.most_common()),
        "details": few,
        "settings": settings,
        "versions": versions(),
    }


@contextmanager
def open_gates(model: Any) -> Iterator[None]:
    """Sets every gate of the active adapter to 1 in this context, so that results are written at full strength."""
    layer, name = active_layer(model)
    if layer is None:
        raise ValueError(f"`{type(model).__name__}` has no active IGC adapter, so it has no gates.")

    def full(module: Any, args: Any, output: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        update, gate = output  # [B, T, H], which has the gate as a factor (Eq. 14), and [B, T]
        least = torch.finfo(gate.dtype).tiny
        return update / gate.clamp(min=least)[..., None].to(update.dtype), torch.ones_like(gate)

    handle = layer.igc_output_mapping[name].register_forward_hook(full)
    try:
        yield
    finally:
        handle.remove()


def _read_steps(
    seen: _Batch, row: int, tokenizer: Any, prompt: Sequence[int], answer: Answer, config: IGCConfig, width: int
) -> list[ReadStep]:
    """The steps of one row, by position; `width` is the padded length of the batch's prompts."""
    padding = width - len(prompt)
    ids = [*[prompt[0]] * padding, *prompt, *answer.tokens]
    found = sorted(seen.steps[row].items())
    return [_read_step(step, row, index, tokenizer, ids, config, at < width) for at, (step, index) in found]


def _read_step(
    step: Step, row: int, index: int, tokenizer: Any, ids: Sequence[int], config: IGCConfig, in_prompt: bool
) -> ReadStep:
    """Step `index` of a row as text and Python numbers; `ids` is the row's text with its padding."""
    assert step.reading is not None  # observers see all readings
    choice = step.reading.choose()
    operator = int(choice.operator[row, index])
    operations = len(config.operations)
    status = Status(int(step.result.status[row, index]))
    ok = status == Status.OK
    operands = choice.operand_chances[row, index].prod()
    result = decode(step.result.digits[row, index], step.result.sign[row, index])[0] if ok else None
    said: dict[str, Any] = {}
    decision, start = step.decision(row, index), int(step.first)
    if decision is not None:
        known = {reason.name.lower(): reason for reason in Reason}
        said["reason"] = known.get(decision.silence or "", Reason.NONE)
        first, last = (start + at for at in decision.culprit)
        said["culprit"] = tokenizer.decode(ids[first : last + 1]) if decision.culprit[1] >= 0 else None
        if decision.said.ruled:
            first, last = start + decision.said.first, start + decision.said.last
            said["expression"] = tokenizer.decode(ids[first : last + 1]).strip()
    return ReadStep(
        in_prompt=in_prompt,
        operands=(_operand(choice, row, index, 0), _operand(choice, row, index, 1)),
        operator=config.operations[operator] if operator < operations else NO_ARITHMETIC,
        asked=int(step.reading.operator[row, index].argmax()) < operations,
        status=status.name.lower(),
        result=result,
        doubtful="operand" if operands < choice.operator_chance[row, index] else "operator",
        **said,
    )


def _operand(choice: Choice, row: int, index: int, which: int) -> str:
    """Operand `which` (0 or 1) of a choice; a final `...` means that it is longer than `num_digits`."""
    digits = choice.digits[row, index, which].tolist()
    more = digits.pop() != PAD
    while digits and digits[-1] == PAD:
        digits.pop()
    sign = "-" if int(choice.signs[row, index, which]) else ""
    return sign + "".join("_" if digit == PAD else str(digit) for digit in digits) + ("..." if more else "")
