"""The texts of a demonstration, and the verdict on each answer.

In: an adapter's limits. Out: sets of items `{"prompt", "target", "group"}`, whose target is None where silence is
right. `ANSWERED` sets are answered by generation; of the others only the reading is measured, by a pass through a few
layers. Calculations and phrasings of the generated sets are not trained, and neither are texts by authors held out.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..calibration.calibrate import read_results
from ..data.arithmetic import ArithmeticRows
from ..data.bigbench import bigbench_test_set
from ..data.columns import has_number
from ..data.mixture import Mixture
from ..data.wording.handwritten import texts_by
from ..data.wording.wording import HELD_OUT, TRAINING
from ..inference.evaluation import answer_items, is_right
from ..text.rounding import EXACT
from ..text.values import Limits


Item = Mapping[str, Any]

ANSWERED = ("bigbench", "held_out_phrasings", "six_to_twenty_digits")
RIGHT, WRONG, SILENT = "right", "wrong", "silent"
_LONGEST = 20  # digits
_ARITHMETIC = Mixture(none=0, overflow=0, undefined=0, inexact=0, bigbench=0)
_BY_HAND = Mixture(none=0, overflow=0, undefined=0, inexact=0, separators=0.1, spelled_signs=0.3, by_hand=1, long=0.1)
_SILENT = Mixture(none=0.5, overflow=0, undefined=0, inexact=0, unsupported=0.5)


def generated_sets(per_group: int, n: int, seed: int, limits: Limits) -> dict[str, list[dict[str, Any]]]:
    """The generated sets by name: BIG-bench with `per_group` items in each subtask, the others
    with n items, twice as many silent ones.

    six_to_twenty_digits is in trained phrasings, and left out for an adapter of fewer digits; held_out_silent has
    texts without a calculation, or with one that the calculator does not do.
    """
    made: dict[str, Any] = {"limits": _exact(limits), "conversational": False, "distinct": True}
    shorter = {**made, "max_digits": min(6, limits.digits), "wording": HELD_OUT}
    phrasings = ArithmeticRows(seed, mixture=_ARITHMETIC, **shorter)
    silent = ArithmeticRows(seed, mixture=_SILENT, **shorter)
    sets = {
        "bigbench": bigbench_test_set(per_group, seed),
        "held_out_phrasings": _items(phrasings, n),
        "held_out_silent": _items((row for row in silent if row["igc_operator"] == "none"), 2 * n),
    }
    if limits.digits >= _LONGEST:
        rows = ArithmeticRows(seed, max_digits=_LONGEST, mixture=_ARITHMETIC, wording=TRAINING, **made)
        sets["six_to_twenty_digits"] = _items((row for row in rows if _is_long(row)), n)
    return sets


def texts_of_authors(part: str, n: int, seed: int, limits: Limits) -> list[dict[str, Any]]:
    """n items of texts by authors of whom none is trained, each filled once as long as there are others.

    `part` is a key of `handwritten.HELD_OUT`; the seed is that of their order and numbers. Texts that ask for a
    function of the adapter's are left out: silence would not be right, and their answers are not known here.
    """
    texts, items = [one for one in texts_by(part) if one.function not in limits.operations], []
    order = random.Random(f"{part}/{seed}").sample(texts, len(texts))
    made: dict[str, Any] = {"limits": _exact(limits), "max_digits": min(6, limits.digits), "conversational": False}
    for at, text in enumerate(itertools.islice(itertools.cycle(order), n)):
        wording = replace(TRAINING, by_hand=(text,))
        (row,) = ArithmeticRows(seed + at, mixture=_BY_HAND, wording=wording, **made).take(1)
        result = row["igc_result"]
        items.append({"prompt": row["prompt"], "target": result if has_number(result) else None})
    return items


def _exact(limits: Limits) -> Limits:
    """The limits with the four operations, without rounding."""
    return replace(limits, operations=("+", "-", "*", "/"), rounding=EXACT)


def _items(rows: Iterable[Item], n: int) -> list[dict[str, Any]]:
    """The first `n` rows as items, with their operand columns."""
    names = ("prompt", "igc_operator", "igc_operands", "igc_result")
    taken = itertools.islice(rows, n)
    return [{"target": row["igc_result"]} | {name: row[name] for name in names} for row in taken]


def _is_long(row: Item) -> bool:
    """Whether an operand has more than six digits, and none has fewer than six."""
    lengths = sorted(len(number.lstrip("-")) for number in row["igc_operands"])
    return lengths[0] >= 6 and lengths[1] > 6


# ------------------------------------------------------------------------------------------ verdicts
def judge(target: str | None, result: str | None) -> str:
    """The verdict on a result that was written, or on None for silence."""
    if result is None:
        return SILENT
    return RIGHT if target is not None and result.strip() == target.strip() else WRONG


def answered(
    model: Any, tokenizer: Any, items: Sequence[Item], *, batch_size: int, max_new_tokens: int
) -> dict[str, Any]:
    """Whole answers to items with targets: counts by verdict, mistakes, seconds. An answer is `right` if it equals its
    target, whoever wrote it; else `wrong` if the calculator wrote, or `silent`."""
    start = time.perf_counter()
    decoding = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": False}
    answers, counted = answer_items(model, tokenizer, items, decoding)
    verdicts = [
        RIGHT if is_right(one, item) else WRONG if any(step.status == "ok" for step in one.steps) else SILENT
        for one, item in zip(answers, items, strict=True)
    ]
    report = _report(items, verdicts, [one.text for one in answers], start)
    return report | {name: counted[name] for name in ("groups", "exact_match")}


def read(model: Any, tokenizer: Any, items: Sequence[Item], *, batch_size: int) -> dict[str, Any]:
    """What the calculator would write at the end of each prompt, by verdict; nothing is generated."""
    start = time.perf_counter()
    results = read_results(model, tokenizer, [item["prompt"] for item in items], batch_size=batch_size)
    verdicts = [judge(item["target"], result) for item, result in zip(items, results, strict=True)]
    return _report(items, verdicts, [result or "" for result in results], start)


def _report(items: Sequence[Item], verdicts: Sequence[str], texts: Sequence[str], start: float) -> dict[str, Any]:
    """Counts of verdicts, and the first mistakes: wrong ones, then silent ones that had a target."""
    counts = Counter(verdicts)
    mistakes = [
        {"prompt": item["prompt"], "target": item["target"], "answer": text, "verdict": verdict}
        for item, text, verdict in zip(items, texts, verdicts, strict=True)
        if verdict == WRONG or (verdict == SILENT and item["target"] is not None)
    ]
    mistakes.sort(key=lambda mistake: mistake["verdict"] != WRONG)
    return {
        "n": len(items),
        **{verdict: counts[verdict] for verdict in (RIGHT, WRONG, SILENT)},
        "mistakes": mistakes[:30],
        "seconds": round(time.perf_counter() - start, 1),
    }
