"""Does the calculator read the calculations in texts that others wrote, people or large models, at every `=`?

In: a file with `prompt` and `solution`, or GSM8K's `question` and `answer`, whose annotations are removed. Out: for
each `=` of the solutions, given all of the text before it, whether the step there is ok. `due` are those whose
expression `written_calculations` can read, which shares nothing with the package's rules: their truth is its exact
value, whatever the text says. The truth of the `others` is the number that the text writes. Nothing is generated.

    python -m benchmarks.accuracy.written_by_others FILE.jsonl --base tiny --adapter tiny --output FILE.json
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from benchmarks.accuracy.expressions import MARK
from benchmarks.accuracy.gsm8k_measures import SHOWN, asked
from benchmarks.accuracy.gsm8k_sites import at_equals
from benchmarks.common.measuring import command, facts, write
from benchmarks.common.written_calculations import Calculation, agrees, calculations, interval
from peft_igc.data.files import read_rows
from peft_igc.inference.decoding import eval_mode, left_padded, padding_token
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.inference.tracing import igc_trace
from peft_igc.tuner.records import StepRecord


OUTCOMES = ("right", "wrong", "silent", "unknown")


def texts_of(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Prompts and solutions of a file's rows."""
    pairs = [(row.get("prompt", row.get("question")), row.get("solution", row.get("answer"))) for row in rows]
    if missing := [at for at, pair in enumerate(pairs, start=1) if not all(isinstance(one, str) for one in pair)]:
        raise ValueError(f"Line {missing[0]} has no `prompt` and `solution`. Give each line both, as texts.")
    return [(str(prompt), MARK.sub("", str(solution))) for prompt, solution in pairs]


def outcome(one: Calculation, step: StepRecord | None) -> str:
    """`right`, `wrong` or `silent`; `unknown` where there is no number to compare a result with."""
    if step is None or step.result is None:
        return "silent"
    number, percent, _ = step.result.partition("%")
    result, places = Fraction(number) / (100 if percent else 1), len(number.partition(".")[2]) + 2 * len(percent)
    if one.value is not None:
        return "right" if agrees(one.value, result, places) else "wrong"
    if one.written is None:
        return "unknown"
    return "right" if result in (one.written, 100 * one.written) else "wrong"  # `= 5%` is 0.05, and the result 5


@torch.no_grad()
def steps_at_equals(
    model: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]]
) -> list[list[tuple[Calculation, StepRecord | None]]]:
    """The `=` of each solution of a batch, with their steps."""
    prompts = [asked(tokenizer, prompt) for prompt, _ in pairs]
    texts = [prompt + solution for prompt, (_, solution) in zip(prompts, pairs, strict=True)]
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    batch = left_padded(encoded["input_ids"], padding_token(model, tokenizer), model.device)
    with eval_mode(model), igc_trace(model, tokenizer) as recording:
        model(**batch, use_cache=False, logits_to_keep=1)
    found = []
    for row, (prompt, (_, solution), offsets) in enumerate(
        zip(prompts, pairs, encoded["offset_mapping"], strict=True)
    ):
        steps = {step.position: step for text in recording.texts if text.row == row for step in text.steps}
        tokens = {place: at for at, (start, end) in enumerate(offsets) for place in range(start, end)}
        found.append([(one, steps.get(tokens[len(prompt) + one.place])) for one in calculations(solution)])
    return found


def measure(model: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]], batch_size: int) -> dict[str, Any]:
    """Counts by outcome, and the first mistakes."""
    counts: dict[str, Counter[str]] = {"due": Counter(), "others": Counter()}
    mistakes, silent = [], Counter[str]()
    order = sorted(range(len(pairs)), key=lambda at: -sum(map(len, pairs[at])))
    for start in range(0, len(order), batch_size):
        chosen = [pairs[at] for at in order[start : start + batch_size]]
        for (_, solution), found in zip(chosen, steps_at_equals(model, tokenizer, chosen), strict=True):
            for one, step in found:
                kind, got = "others" if one.value is None else "due", outcome(one, step)
                counts[kind][got] += 1
                if kind == "due" and got == "silent":
                    silent["no step" if step is None else str(step.reason)] += 1
                elif got == "wrong" and len(mistakes) < SHOWN:
                    text = solution[max(one.place - 80, 0) : one.place + 16]
                    mistakes.append({"text": text, "value": str(one.value), "result": step and step.result})
    due = counts["due"].total()
    wrong = sum(one["wrong"] for one in counts.values())
    spoken = sum(one["right"] + one["wrong"] for one in counts.values())
    return {
        "texts": len(pairs),
        "sites": {kind: {"n": one.total(), **{key: one[key] for key in OUTCOMES}} for kind, one in counts.items()},
        "right_of_due": counts["due"]["right"] / max(due, 1),
        "right_of_due_interval": interval(counts["due"]["right"], due),
        "wrong_of_ok": wrong / max(spoken, 1),
        "wrong_of_ok_interval": interval(wrong, spoken),
        "silent_because": dict(silent.most_common()),
        "mistakes": mistakes,
    }


def main() -> None:
    """Measures and writes the results."""
    parser = command(__doc__)
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--base", required=True, metavar="DIR")
    parser.add_argument("--adapter", required=True, metavar="DIR")
    parser.add_argument("-n", type=int, metavar="N", help="the last N texts (default: all)")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N")
    arguments = parser.parse_args()
    pairs = texts_of(read_rows(arguments.file, wanted="with a solution"))[-(arguments.n or 0) :]
    model, tokenizer = load_base(arguments.base, "float32")
    config = at_equals(arguments.adapter, tokenizer)
    model = load_adapter(model, arguments.adapter, config=config)
    names = {"base": Path(arguments.base).name, "adapter": Path(arguments.adapter).name, "file": arguments.file.name}
    results: dict[str, Any] = {**facts(), **names, **measure(model, tokenizer, pairs, arguments.batch_size)}
    print({key: results[key] for key in ("texts", "sites", "right_of_due", "wrong_of_ok")}, flush=True)
    write(arguments.output, results)


if __name__ == "__main__":
    main()
