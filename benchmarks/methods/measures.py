"""What is measured of each compared method: answers by cell, time beside the others, passes.

A `Method` answers questions as text, with whatever it has: a model, a model and a tool, or rules. `by_cell` compares
whole answers and counts tokens (`method_totals` sums them up); `timed` asks methods in turn, question by question, so
that what else the machine does meets all of them. Nothing is trained here, and no method is shown more than a
question. Try it: `pytest tests/benchmarks/test_methods.py -k counts`.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from benchmarks.common.answer_loop import Answer, answered, counted_passes
from benchmarks.common.measuring import summary
from benchmarks.methods import fixed_parser
from benchmarks.methods.training import DIRECT, Form, wanted_tokens
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.evaluation import longest_text


BATCH = 64  # rows that answer together where no time is taken
ROOM = 1.25, 8  # an answer may be so much longer than the longest right one of its cell, and so many tokens more
KEPT = 20  # mistakes

Cells = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass
class Method:
    """Something that answers questions; without a model, the fixed parser."""

    name: str
    model: Any
    tokenizer: Any
    form: Form = DIRECT

    def ask(self, prompts: Sequence[str], limit: int, tool: Any = None) -> list[tuple[str, Answer]]:
        """The visible answer to each question, and how it came about; `tool` replaces the method's own."""
        if self.model is None:
            return [(fixed_parser.answer(prompt), Answer(done=True)) for prompt in prompts]
        tokens = prompt_tokens(self.tokenizer, prompts, raw=False)
        made = answered(self.model, self.tokenizer, tokens, limit, tool or self.form.tool)
        return [(self.shown(answer), answer) for answer in made]

    def shown(self, answer: Answer) -> str:
        """What a reader gets to see of an answer."""
        text = self.tokenizer.decode(answer.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return self.form.visible(text).strip()

    def limit(self, items: Sequence[Mapping[str, Any]]) -> int:
        """Most tokens of an answer to any of these questions; a right one in the method's form always fits."""
        factor, more = ROOM
        return round(factor * max(wanted_tokens(self.form, dict(item), self.tokenizer) for item in items)) + more

    def room(self, items: Sequence[Mapping[str, Any]]) -> int | None:
        """Tokens that the model's positions leave behind the longest of these questions."""
        positions = None if self.model is None else longest_text(self.model)
        if positions is None:
            return None
        prompts = prompt_tokens(self.tokenizer, [item["prompt"] for item in items], raw=False)
        return positions - max(map(len, prompts))


def by_cell(method: Method, cells: Cells, say: Callable[[str], None]) -> dict[str, Any]:
    """Exact match and tokens of every cell, the first mistakes, and the cells that were skipped: items and reason."""
    found: dict[str, Any] = {"cells": {}, "skipped": {}, "mistakes": []}
    begin = time.perf_counter()
    for done, (name, items) in enumerate(cells.items()):
        room, limit = method.room(items), method.limit(items)
        shortest = min(wanted_tokens(method.form, dict(item), method.tokenizer) for item in items)
        if room is not None and shortest > room:
            reason = f"a right answer takes {shortest} tokens or more, there is room for {room}"
            found["skipped"][name] = {"n": len(items), "reason": reason}
            say(f"{name} is skipped: {reason}")
            continue
        if room is not None:
            limit = min(limit, room + 1)  # an answer that fills its room may end there; one token more is not fed
        answers: list[tuple[str, Answer]] = []
        for start in range(0, len(items), BATCH):
            prompts = [item["prompt"] for item in items[start : start + BATCH]]
            answers += method.ask(prompts, limit)
        found["cells"][name], mistakes = scored(method, items, answers)
        found["mistakes"] = (found["mistakes"] + mistakes)[:KEPT]
        if done % 20 == 19:
            left = (time.perf_counter() - begin) / (done + 1) * (len(cells) - done - 1)
            say(f"{done + 1} of {len(cells)} cells, {left:.0f} s left")
    return found


def scored(
    method: Method, items: Sequence[Mapping[str, Any]], answers: Sequence[tuple[str, Answer]]
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Counts of one cell, and its mistakes. An answer that was cut is never right."""
    right = [text == item["target"] and not made.cut for item, (text, made) in zip(items, answers, strict=True)]
    targets = [target_tokens(method, item) for item in items]
    made = [answer for _, answer in answers]
    beyond = [answer.generated - tokens - 1 for answer, tokens, hit in zip(made, targets, right, strict=True) if hit]
    counts = {
        "n": len(items),
        "right": sum(right),
        "exact_match": sum(right) / len(items),
        "generated_tokens": sum(answer.generated for answer in made),
        "target_tokens_and_end": sum(targets) + len(targets),
        "most_tokens_beyond_target": max(beyond, default=None),  # of right answers
        "cut": sum(answer.cut for answer in made),
        "calls": sum(len(answer.calls) for answer in made),
        "malformed_calls": sum(call is None for answer in made for call in answer.calls),
        "seconds_in_tool": sum(answer.seconds for answer in made),
    }
    mistakes = [
        {"prompt": item["prompt"], "target": item["target"], "answer": text, "tokens": method_text(method, answer)}
        for item, (text, answer), hit in zip(items, answers, right, strict=True)
        if not hit
    ]
    return counts, mistakes


def target_tokens(method: Method, item: Mapping[str, Any]) -> int:
    """How many tokens the tokenizer makes of a target."""
    return len(method.tokenizer(item["target"], add_special_tokens=False)["input_ids"])


def method_text(method: Method, answer: Answer) -> str:
    """Everything that was written, steps and calls too."""
    return method.tokenizer.decode(answer.tokens)


def timed(methods: Sequence[Method], items: Sequence[Mapping[str, Any]], batch: int, rounds: int) -> dict[str, Any]:
    """Seconds per answer: one question at a time, methods in turn and in another order each time; then in batches.

    `all_...` have an entry per question, wrong answers too; `most_passes_beyond_target` is of right answers only: the
    most that one took more than the target has tokens and an end (None without any).
    """
    rng = random.Random("timed")
    single: dict[str, list[float]] = {method.name: [] for method in methods}
    counted: dict[str, list[tuple[int, bool]]] = {method.name: [] for method in methods}
    together: dict[str, list[float]] = {method.name: [] for method in methods}
    for method in methods:  # what is made once is made here
        method.ask([items[0]["prompt"]], method.limit(items[:1]))
    for item in items:
        for method in rng.sample(methods, len(methods)):
            limit = method.limit([item])
            single[method.name].append(_seconds(method, [item], limit))
            counted[method.name].append(_passes(method, item, limit))
    for _ in range(rounds):
        chosen = rng.sample(list(items), min(batch, len(items)))
        for method in rng.sample(methods, len(methods)):
            together[method.name].append(_seconds(method, chosen, method.limit(chosen)) / len(chosen))
    made: dict[str, Any] = {}
    for method in methods:
        name = method.name
        passes, right = ([one[at] for one in counted[name]] for at in (0, 1))
        targets = [target_tokens(method, item) for item in items]
        beyond = [n - tokens - 1 for n, tokens, hit in zip(passes, targets, right, strict=True) if hit]
        made[name] = {
            "seconds": summary(single[name]),
            "passes": statistics.mean(passes),
            "exact_match": statistics.mean(right),
            "most_passes_beyond_target": max(beyond, default=None),
            "seconds_in_batches": summary(together[name]) | {"rows": min(batch, len(items))},
            "all_seconds": single[name],
            "all_passes": passes,
            "all_right": right,
        }
    return made


def _seconds(method: Method, items: Sequence[Mapping[str, Any]], limit: int) -> float:
    """From questions as text to answers as text."""
    begin = time.perf_counter()
    method.ask([item["prompt"] for item in items], limit)
    return time.perf_counter() - begin


def _passes(method: Method, item: Mapping[str, Any], limit: int) -> tuple[int, bool]:
    """Forward passes of one answer, counted where they happen, and whether it is right."""
    with counted_passes(method.model) if method.model is not None else nullcontext([]) as passes:
        ((text, made),) = method.ask([item["prompt"]], limit)
    return len(passes), text == item["target"] and not made.cut
