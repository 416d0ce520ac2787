"""What is measured of each compared method: answers by cell, and time next to the others.

A `Method` answers questions as text, with a model or with a model and a tool. `by_cell` compares whole answers and
counts tokens, `totals` sums cells up, and `timed` asks methods in turn, question by question, so that other work of
the machine meets all of them. Nothing is trained here. Try it: `pytest tests/benchmarks/test_commands.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.common.answer_loop import Answer, answered
from benchmarks.common.measuring import summary
from benchmarks.methods.items import LONGER, TRAINED
from benchmarks.methods.training import DIRECT, Form, wanted_tokens
from peft_igc.data.bigbench import OPERATION_NAMES
from peft_igc.inference.decoding import prompt_tokens


BATCH = 64  # rows that answer together where no time is taken
ROOM = 1.25, 8  # factor and tokens by which an answer may be longer than the longest right one of its cell
KEPT = 20  # mistakes
BOTH = ("seen", "held_out")

Cells = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass
class Method:
    """A method that answers questions."""

    name: str
    model: Any
    tokenizer: Any
    form: Form = DIRECT

    def ask(self, prompts: Sequence[str], limit: int) -> list[tuple[str, Answer]]:
        """The visible answer to each question, and how it was generated."""
        tokens = prompt_tokens(self.tokenizer, prompts, raw=False)
        return [
            (self.shown(answer), answer)
            for answer in answered(self.model, self.tokenizer, tokens, limit, self.form.tool)
        ]

    def shown(self, answer: Answer) -> str:
        """What a reader gets to see of an answer."""
        text = self.tokenizer.decode(answer.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return self.form.visible(text).strip()

    def limit(self, items: Sequence[Mapping[str, Any]]) -> int:
        """Most tokens of an answer to any of these questions; a right one in the method's form always fits."""
        factor, more = ROOM
        return round(factor * max(wanted_tokens(self.form, dict(item), self.tokenizer) for item in items)) + more


def by_cell(method: Method, cells: Cells, say: Callable[[str], None]) -> dict[str, Any]:
    """Counts of every cell, and the first mistakes. An answer that was cut is never right."""
    found: dict[str, Any] = {"cells": {}, "mistakes": []}
    for name, items in cells.items():
        answers: list[tuple[str, Answer]] = []
        limit = method.limit(items)
        for start in range(0, len(items), BATCH):
            answers += method.ask([item["prompt"] for item in items[start : start + BATCH]], limit)
        pairs = list(zip(items, answers, strict=True))
        right = [text == item["target"] and not made.cut for item, (text, made) in pairs]
        found["cells"][name] = {
            "n": len(items),
            "right": sum(right),
            "exact_match": sum(right) / len(items),
            "generated_tokens": sum(answer.generated for _, answer in answers),
            "calls": sum(len(answer.calls) for _, answer in answers),
        }
        found["mistakes"] += [
            {"prompt": item["prompt"], "target": item["target"], "answer": text}
            for (item, (text, _)), hit in zip(pairs, right, strict=True)
            if not hit
        ][: KEPT - len(found["mistakes"])]
    say(f"{len(cells)} cells, {totals(found)['all']}")
    return found


def _is_in(name: str, phrasings: tuple[str, ...], lengths: range, operation: str = "") -> bool:
    """Whether a cell is of these phrasings, lengths and operation."""
    phrasing, _, rest = name.partition("/")
    return phrasing in phrasings and int(rest.split("_")[0]) in lengths and rest.endswith(operation)


# Groups of cells; of trained lengths and of both phrasings, unless the name says otherwise.
GROUPS: dict[str, Callable[[str], bool]] = {
    "all": partial(_is_in, phrasings=BOTH, lengths=TRAINED),
    **{name: partial(_is_in, phrasings=BOTH, lengths=TRAINED, operation=name) for name in OPERATION_NAMES.values()},
    **{phrasing: partial(_is_in, phrasings=(phrasing,), lengths=TRAINED) for phrasing in BOTH},
    "longer": partial(_is_in, phrasings=BOTH, lengths=LONGER),
}


def totals(found: Mapping[str, Any]) -> dict[str, Any]:
    """Exact match and mean tokens of every group of cells, every item counting alike; None without a cell."""
    return {
        key: _total([cell for name, cell in found["cells"].items() if wanted(name)]) for key, wanted in GROUPS.items()
    }


def _total(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    n = sum(part["n"] for part in parts)
    if not n:
        return None
    means = {key: sum(part[key] for part in parts) / n for key in ("generated_tokens", "calls")}
    right = sum(part["right"] for part in parts)
    return {"n": n, "right": right, "exact_match": right / n, **means}


def timed(methods: Sequence[Method], items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds of an answer: one question at a time, methods in turn and in another order each time."""
    rng = random.Random("timed")
    taken: dict[str, list[float]] = {method.name: [] for method in methods}
    for method in methods:  # tables are made at the first use
        method.ask([items[0]["prompt"]], method.limit(items[:1]))
    for item in items:
        for method in rng.sample(methods, len(methods)):
            limit = method.limit([item])
            begin = time.perf_counter()
            method.ask([item["prompt"]], limit)
            taken[method.name].append(time.perf_counter() - begin)
    return {name: {"seconds": summary(values)} for name, values in taken.items()}
