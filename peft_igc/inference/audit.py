"""Audit: answers the items of a file as `evaluation` does, and sorts every wrong answer by its cause.

In: a model with an IGC adapter, its tokenizer, items `{"prompt", "target"}`, optionally with `group` and operand
columns. Out: an `Audit` with the counts of `evaluate`, a `Finding` for each wrong answer, and the number of these by
cause. The causes and the parts of the adapter that they name are in `causes`; what was read and written is recorded by
`igc_trace`.

The answers are those of `evaluate`, batch by batch. Where the right result was calculated and the answer is wrong, it
is generated again with every gate at 1: if it is then right, the gate is the cause. Nothing is changed in the model.

Shapes: T positions of a call, H hidden size, B rows of a batch.
Try it: `peft-igc audit --base tiny --adapter tiny --data items.jsonl --html audit.html`, `pytest
tests/inference/test_audit.py`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ..tuner.hooks.wrapper import active_config, active_layer
from .causes import Audit, Finding, cause_of, plain_number
from .decoding import batches_of
from .evaluation import (
    ProgressCallback,
    answer_tokens,
    check_items,
    checked_tokens,
    count_answers,
    is_right,
    versions,
)
from .records import Answer, TextRecord
from .tracing import igc_trace


__all__ = ["audit", "open_gates"]

_OF_FEW_DETAILS = ("refused", "unsure", "status")  # causes whose details are counted


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
    if active_config(model) is None:
        raise ValueError(
            f"`{type(model).__name__}` has no active IGC adapter, so there is nothing to audit. Load one with "
            "`PeftModel.from_pretrained(model, folder)`."
        )
    tokens = checked_tokens(model, tokenizer, [item["prompt"] for item in items], batch_size, max_new_tokens, raw)
    answers: dict[int, Answer] = {}
    wrong: dict[int, TextRecord] = {}
    for chosen in batches_of(tokens, batch_size):
        with igc_trace(model, tokenizer) as recording:
            found = answer_tokens(model, tokenizer, [tokens[i] for i in chosen], len(chosen), max_new_tokens)
        answers.update(zip(chosen, found, strict=True))
        texts = zip(chosen, recording.texts, strict=True)
        wrong.update({i: text for i, text in texts if not is_right(answers[i], items[i])})
        if progress is not None:
            progress(len(answers), len(tokens))
    doubtful = [i for i, text in wrong.items() if _calculated(text, items[i]["target"])]
    with open_gates(model):
        again = answer_tokens(model, tokenizer, [tokens[i] for i in doubtful], batch_size, max_new_tokens)
    opened = {i: is_right(answer, items[i]) for i, answer in zip(doubtful, again, strict=True)}
    findings = []
    for i in sorted(wrong):
        cause, detail = cause_of(items[i], answers[i], wrong[i], opened.get(i))
        shown = items[i]["prompt"], items[i]["target"], answers[i].text
        untrue = tuple(map(str, wrong[i].untrue))
        findings.append(Finding(i, *shown, answers[i].cut, cause, detail, wrong[i].steps, untrue))
    settings = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": raw}
    return Audit(_report(items, [answers[i] for i in range(len(items))], findings, settings), findings)


def _calculated(text: TextRecord, target: str) -> bool:
    """Whether one of the steps of a text has the target as its result."""
    return any(step.result == plain_number(target) for step in text.steps)


def _report(
    items: Sequence[Mapping[str, Any]],
    answers: Sequence[Answer],
    findings: Sequence[Finding],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """The counts: those of `evaluate`, and those by cause."""
    counts = count_answers(items, answers)
    del counts["mistakes"]  # the findings are these, and all of them
    causes = Counter(finding.cause for finding in findings)
    details = {
        name: dict(Counter(one.detail for one in findings if one.cause == name and one.detail).most_common())
        for name in _OF_FEW_DETAILS
    }
    return {
        **counts,
        "without_anchor": sum(not answer.steps for answer in answers),
        "wrong": len(findings),
        "causes": dict(causes.most_common()),
        "details": {name: found for name, found in details.items() if found},
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
