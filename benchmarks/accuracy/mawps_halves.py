"""MAWPS in two halves, split by wording: one half to train on, the other one to measure.

Two questions have one wording if they differ in their numbers and names only. A question of the other half that has
`MOST_ALIKE` of its words in common with a trained one is not measured either. Trained are questions of one step whose
two numbers are its operands, and as refusals those of several steps. The other ones (a number in words, a third
number, decimals) train nothing.
Try it: `pytest tests/benchmarks/test_mawps_halves.py`
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from peft_igc.data.files import read_rows
from peft_igc.demo.real_text import MAWPS, NUMBER, has_several_steps, measured_items, refusal, single_step


MOST_ALIKE = 0.7  # of the words of both questions, without numbers and names
_WORD = re.compile(r"[a-z]+")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")


def is_trained(question: str) -> bool:
    """Whether a question is in the half that is trained, by a hash of its wording."""
    wording = _NAME.sub("", NUMBER.sub("#", question))
    return hashlib.blake2b(" ".join(wording.split()).encode(), digest_size=1).digest()[0] % 2 == 0


def trained_rows(folder: Path) -> list[dict[str, Any]]:
    """Conversational rows with operand columns of the trained half."""
    rows = []
    for item in read_rows(folder / MAWPS, wanted="with a text"):
        question = item["question"]
        if not is_trained(question):
            continue
        if has_several_steps(item):
            rows.append(refusal(question))
        else:
            rows += single_step(question, item["expression"], NUMBER.findall(question))
    return rows


def measured_half(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The sets `word_problems` and `several_steps_mawps` of `measured_items`, without the trained half, and without
    questions that are much like a trained one."""
    sets, trained = measured_items(folder), [words(row["prompt"][0]["content"]) for row in trained_rows(folder)]

    def apart(question: str) -> bool:
        own = words(question)
        return not is_trained(question) and all(alike(own, one) < MOST_ALIKE for one in trained)

    names = ("word_problems", "several_steps_mawps")
    return {name: [item for item in sets[name] or () if apart(item["prompt"])] for name in names}


def words(question: str) -> frozenset[str]:
    """The words of a question without numbers and names."""
    return frozenset(_WORD.findall(_NAME.sub("", question)))


def alike(one: frozenset[str], other: frozenset[str]) -> float:
    """The words that both have, as a share (0..1) of all their words."""
    return len(one & other) / max(len(one | other), 1)
