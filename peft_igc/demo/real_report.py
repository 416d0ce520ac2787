"""The table of the demonstration on a language model: base beside IGC, a row per set.

In: the content of `results.json`. Out: lines of text. Nothing is measured here.
Try it: `pytest tests/demo/test_real_model.py -k table`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .report import accuracy_table


__all__ = ["NOT_MEASURED", "report_table"]

NOT_MEASURED = "not measured"
_ROWS = {
    "bigbench": "BIG-bench arithmetic, whole answers",
    "plain_requests": "plain requests, whole answers",
    "new_plain_requests": "plain requests of another author, whole answers",
    "third_plain_requests": "plain requests of a third author, whole answers",
    "fourth_plain_requests": "plain requests of a fourth author, whole answers",
    "fifth_plain_requests": "plain requests of a fifth author, whole answers",
    "sixth_plain_requests": "plain requests of a sixth author, whole answers",
    "seventh_plain_requests": "plain requests of a seventh author, whole answers",
    "eighth_plain_requests": "plain requests of an eighth author, whole answers",
    "misleading_stories": "stories made to mislead (silence is due)",
    "mentioned_calculations": "texts that name a calculation and ask for something else (silence is due)",
    "more_mentioned_calculations": "such texts of another author (silence is due)",
    "new_mentioned_calculations": "such texts of a third author (silence is due)",
    "held_out_phrasings": "held-out phrasings, whole answers",
    "six_to_twenty_digits": "6 to 20 digits, whole answers",
    "word_problems": "MAWPS with one step (held out)",
    "several_steps_mawps": "MAWPS with several steps (silence is right)",
    "several_steps_gsm8k": "GSM8K with several steps (silence is right)",
    "assistant_prompts": "prompts to assistants (silence is right)",
    "held_out_silent": "held-out texts without a request (silence is right)",
}


def report_table(results: Mapping[str, Any]) -> str:
    """BIG-bench's subtasks, then all sets, then harm; `not measured` where texts were not at hand."""
    sets, beside = results["sets"], results["base"]
    columns = {"base": beside["bigbench"]} if "bigbench" in beside else {}
    columns["IGC"] = sets["bigbench"]
    width = max(map(len, _ROWS.values())) + 2
    header = f"{'per cent':<{width}}{'n':>6}{'base':>14}{'right':>8}{'wrong':>8}{'silent':>8}"
    lines = [accuracy_table(columns), "", header]
    for name, title in _ROWS.items():
        if name not in sets:
            continue
        found = sets[name]
        if found is None:
            lines.append(f"{title:<{width}}{NOT_MEASURED:>20}")
            continue
        shares = "".join(f"{100 * found[key] / found['n']:>8.1f}" for key in ("right", "wrong", "silent"))
        lines.append(f"{title:<{width}}{found['n']:>6,}{_base(beside.get(name)):>14}{shares}")
    quiet = sets["harm"]
    bits = quiet["bits_per_byte"]
    lines += [
        "base: whole answers / the last number when asked for the number only, of a part of the items.",
        f"Without a calculation: logits bit-identical in {quiet['logits_bit_identical']} of {quiet['prompts']} "
        f"prompts, {quiet['same_answers']} of {quiet['answers']} greedy answers the same, {bits['igc']:.4f} bits per "
        f"byte (base {bits['base']:.4f}).",
    ]
    weights = results["base_model"]["weights"]
    if weights:
        lines.append(f"The base model has {weights}.")
    return "\n".join(line.rstrip() for line in lines)


def _base(found: Mapping[str, Any] | None) -> str:
    """The base's two figures, or a dash."""
    return "-" if found is None else f"{100 * found['whole_answer']:.1f} / {100 * found['number_only']:.1f}"
