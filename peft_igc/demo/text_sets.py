"""What a model with a calculator is measured on, and the verdict on each answer.

Sets of items `{"prompt", "target", "group"}`; a target of None asks for silence. `ANSWERED` sets are answered by
generation and whole answers count; of the others only the reading is asked, which a pass through a few layers shows.
The generated sets are here, the human-written ones in `real_text`. Calculations and phrasings of the generated ones
are not trained. Try it: `pytest tests/demo/test_text_sets.py`
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..calibration.prompt_readings import read_results
from ..data.arithmetic import ArithmeticRows
from ..data.bigbench import bigbench_test_set
from ..data.mixture import Mixture
from ..data.wording.handwritten import texts_by
from ..data.wording.wording import HELD_OUT, TRAINING
from ..data.writing_rows import has_number
from ..inference.decoding import eval_mode, prompt_tokens
from ..inference.evaluation import answer_tokens, count_answers, is_right
from ..tuner.config import IGCConfig


__all__ = ["ANSWERED", "answered", "generated_sets", "harm", "judge", "read", "texts_of_authors"]

Item = Mapping[str, Any]

# Answered by generation; all other sets are read only. The plain requests come from outside of the package.
ANSWERED = (
    *("bigbench", "plain_requests", "new_plain_requests", "third_plain_requests", "fourth_plain_requests"),
    *("fifth_plain_requests", "sixth_plain_requests", "seventh_plain_requests"),
    "eighth_plain_requests",
    *("held_out_phrasings", "six_to_twenty_digits"),
)
RIGHT, WRONG, SILENT = "right", "wrong", "silent"
_LONGEST = 20  # digits
_ARITHMETIC = Mixture(none=0, overflow=0, undefined=0, inexact=0, bigbench=0)
_BY_HAND = Mixture(none=0, overflow=0, undefined=0, inexact=0, separators=0.1, spelled_signs=0.3, by_hand=1)
_SILENT = Mixture(none=0.5, overflow=0, undefined=0, inexact=0, unsupported=0.5)


def generated_sets(per_group: int, n: int, seed: int, config: IGCConfig) -> dict[str, list[dict[str, Any]] | None]:
    """The sets that need no folder of texts, by name.

    Args:
        per_group: items in each of BIG-bench's 20 subtasks; one-digit division has fewer.
        n: items in each other set; twice as many silent ones.
        seed: of all sets.
        config: of the adapter, which says what is supported.

    Returns:
        bigbench; held_out_phrasings; six_to_twenty_digits, whose operands have 6 to 20 digits, in trained phrasings,
        or None for an adapter of fewer digits; held_out_silent, texts without a calculation, or with one that the
        calculator does not do.
    """
    assert config.num_digits is not None
    digits: dict[str, Any] = {name: getattr(config, name) for name in ("num_digits", "result_digits")}
    limits: dict[str, Any] = {**digits, "conversational": False, "distinct": True}
    shorter = {**limits, "max_digits": min(6, config.num_digits)}
    read: dict[str, Any] = {"max_operands": config.max_operands, "decimals": config.decimals}
    phrasings = ArithmeticRows(seed, mixture=_ARITHMETIC, wording=HELD_OUT, **shorter)
    silent = ArithmeticRows(seed, mixture=_SILENT, wording=HELD_OUT, **shorter, **read)
    long = None
    if config.num_digits >= _LONGEST:
        rows = ArithmeticRows(seed, max_digits=_LONGEST, mixture=_ARITHMETIC, wording=TRAINING, **limits)
        long = _items((row for row in rows if _is_long(row)), n)
    return {
        "bigbench": bigbench_test_set(per_group, seed),
        "held_out_phrasings": _items(phrasings, n),
        "six_to_twenty_digits": long,
        "held_out_silent": _items((row for row in silent if row["igc_operator"] == "none"), 2 * n),
    }


def texts_of_authors(part: str, n: int, seed: int, config: IGCConfig) -> list[dict[str, Any]]:
    """Items of texts by authors of whom none is trained, each filled once as long as there are others.

    Args:
        part: of `handwritten.HELD_OUT`: "calibrated" or "measured".
        n: of the items.
        seed: of their order and their numbers.
        config: of the adapter, which says what is supported.
    """
    limits = {name: getattr(config, name) for name in ("num_digits", "result_digits", "max_operands", "decimals")}
    limits["max_digits"] = min(6, limits["num_digits"])
    texts, items = texts_by(part), []
    order = random.Random(f"{part}/{seed}").sample(texts, len(texts))
    for at, text in enumerate(itertools.islice(itertools.cycle(order), n)):
        wording = replace(TRAINING, by_hand=(text,))
        rows = ArithmeticRows(seed + at, **limits, mixture=_BY_HAND, wording=wording, conversational=False)
        (row,) = rows.take(1)
        result = row["igc_result"]
        items.append({"prompt": row["prompt"], "target": result if has_number(result) else None})
    return items


def _items(rows: Iterable[Item], n: int) -> list[dict[str, Any]]:
    """The first `n` rows as items, with their operand columns."""
    made = []
    for row in rows:
        columns = {name: row[name] for name in ("igc_operator", "igc_operands", "igc_result")}
        made.append({"prompt": row["prompt"], "target": row["igc_result"], **columns})
        if len(made) == n:
            break
    return made


def _is_long(row: Item) -> bool:
    """Whether an operand has more than six digits, and none has fewer than six."""
    lengths = sorted(len(number.lstrip("-")) for number in row["igc_operands"])
    return lengths[0] >= 6 and lengths[1] > 6


def judge(target: str | None, said: str | None) -> str:
    """The verdict on a result that was written, or on None for silence."""
    if said is None:
        return SILENT
    return RIGHT if target is not None and said.strip() == target.strip() else WRONG


def answered(
    model: Any, tokenizer: Any, items: Sequence[Item], *, batch_size: int, max_new_tokens: int
) -> dict[str, Any]:
    """Whole answers to items with targets: a count by verdict, mistakes, seconds, and the answers.

    An answer is `right` if it equals its target, whoever wrote it; else `wrong` if the calculator wrote, or `silent`.
    """
    start = time.perf_counter()
    tokens = prompt_tokens(tokenizer, [item["prompt"] for item in items], False)
    answers = answer_tokens(model, tokenizer, tokens, batch_size, max_new_tokens)
    right = [is_right(one, item) for one, item in zip(answers, items, strict=True)]
    verdicts = [
        RIGHT if hit else WRONG if any(step.status == "ok" for step in one.steps) else SILENT
        for hit, one in zip(right, answers, strict=True)
    ]
    report = _report(items, verdicts, [one.text for one in answers], start)
    counted = count_answers([{**item, "group": item.get("group") or "all"} for item in items], answers)
    return report | {name: counted[name] for name in ("groups", "exact_match")}


def read(model: Any, tokenizer: Any, items: Sequence[Item], *, batch_size: int) -> dict[str, Any]:
    """What the calculator would write at the end of each prompt, by verdict; nothing is generated."""
    start = time.perf_counter()
    said = read_results(model, tokenizer, [item["prompt"] for item in items], batch_size=batch_size)
    verdicts = [judge(item["target"], result) for item, result in zip(items, said, strict=True)]
    return _report(items, verdicts, [result or "" for result in said], start)


def _report(items: Sequence[Item], verdicts: Sequence[str], said: Sequence[str], start: float) -> dict[str, Any]:
    """Counts of verdicts, and the first mistakes: wrong ones, then silent ones that had a target."""
    counts = Counter(verdicts)
    mistakes = [
        {"prompt": item["prompt"], "target": item["target"], "answer": text, "verdict": verdict}
        for item, text, verdict in zip(items, said, verdicts, strict=True)
        if verdict == WRONG or (verdict == SILENT and item["target"] is not None)
    ]
    mistakes.sort(key=lambda mistake: mistake["verdict"] != WRONG)
    return {
        "n": len(items),
        **{verdict: counts[verdict] for verdict in (RIGHT, WRONG, SILENT)},
        "mistakes": mistakes[:30],
        "seconds": round(time.perf_counter() - start, 1),
    }


@torch.no_grad()
def harm(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, most_answers: int, max_new_tokens: int
) -> dict[str, Any]:
    """Compares a model with and without its adapter on prompts without a calculation.

    Args:
        model: a PEFT model.
        tokenizer: its tokenizer.
        prompts: user messages. Their own tokens are the texts whose bits per byte are measured.
        most_answers: how many of them are also answered.
        max_new_tokens: of an answer.
    """
    rows = prompt_tokens(tokenizer, prompts, False)
    equal, nats = 0, [0.0, 0.0]
    with eval_mode(model):
        for row in rows:
            ids = torch.tensor([row], device=model.device)
            logits = model(input_ids=ids).logits[0]  # [T, V]
            with model.disable_adapter():
                plain = model(input_ids=ids).logits[0]
            equal += int(torch.equal(logits, plain))
            for at, found in enumerate((logits, plain)):
                nats[at] += float(torch.nn.functional.cross_entropy(found[:-1].float(), ids[0, 1:], reduction="sum"))
    size = sum(len(tokenizer.decode(row).encode()) for row in rows) * math.log(2)
    asked = rows[:most_answers]
    texts = [one.text for one in answer_tokens(model, tokenizer, asked, 16, max_new_tokens)]
    with model.disable_adapter():
        base = [one.text for one in answer_tokens(model, tokenizer, asked, 16, max_new_tokens)]
    return {
        "prompts": len(rows),
        "logits_bit_identical": equal,
        "bits_per_byte": {"igc": nats[0] / size, "base": nats[1] / size},
        "answers": len(asked),
        "same_answers": sum(a == b for a, b in zip(texts, base, strict=True)),
        "max_new_tokens": max_new_tokens,
    }
