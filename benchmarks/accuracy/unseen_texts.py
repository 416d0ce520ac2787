"""Where a trained adapter stops being right: what it does with texts that are unlike its training rows.

For each kind of text: how often the whole answer is right, how often the calculator refused (nothing is written then),
and how often it wrote a wrong number. The last column is the one that matters: a refusal is honest, a wrong number is
not. Beside each stands the base model without the adapter. Texts are drawn with a seed of their own. Held-out
phrasings and operands longer than any trained are outside of what was trained; the other kinds, negative operands
included, have their like among the training rows.

    python -m benchmarks.accuracy.unseen_texts --adapter demo-output/adapter --output benchmarks/results/beyond.json
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch

from peft_igc import tiny_base
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import Mixture
from peft_igc.data.wording.phrases import BIGBENCH
from peft_igc.data.wording.templates import Templates
from peft_igc.inference.evaluation import versions
from peft_igc.inference.loading import load_adapter
from peft_igc.numbers.calculator import Status, evaluate_exactly
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Step


Text = tuple[str, str | None]  # a prompt, and the right answer or None where the calculator must refuse

ORDINARY = Mixture(none=0.0, overflow=0.0, undefined=0.0, inexact=0.0, bigbench=0.0)

# Phrasings that no wording of the package has, by operator.
UNSEEN: dict[str, tuple[str, ...]] = {
    "+": (
        "Put {a} and {b} together and give me the total.",
        "Let me know the result of adding {b} to {a}.",
        "Starting from {a}, go up by {b}.",
        "sum({a}, {b})",
        "{name} walked {a} steps, then {b} steps. How many steps did {name} walk?",
    ),
    "-": (
        "Remove {b} from {a} and give me the rest.",
        "Let me know the result of subtracting {b} from {a}.",
        "Starting from {a}, go down by {b}.",
        "subtract({a}, {b})",
        "{name} must walk {a} steps and has walked {b}. How many steps are to go?",
    ),
    "*": (
        "Take {a} exactly {b} times and give me the total.",
        "Let me know the result of multiplying {a} by {b}.",
        "{a} groups of {b} make how many?",
        "multiply({a}, {b})",
        "{name} walks {a} steps a day for {b} days. How many steps is that?",
    ),
    "/": (
        "Split {a} into {b} equal parts and give me one of them.",
        "Let me know the result of dividing {a} by {b}.",
        "How large is one of {b} equal shares of {a}?",
        "divide({a}, {b})",
        "{name} walks {a} steps in {b} days, the same number each day. How many steps a day is that?",
    ),
}


def of_rows(rows: list[dict[str, Any]]) -> list[Text]:
    """Training-like rows as texts."""
    return [(row["prompt"][-1]["content"], row["igc_result"]) for row in rows]


def questions(n: int, low: int, high: int, rng: random.Random, negative: bool = False) -> list[Text]:
    """BIG-bench questions with operands of `low` to `high` digits, or with negative operands; no division."""
    made: list[Text] = []
    for _ in range(n):
        operator = rng.choice("+-*")
        a, b = (rng.randrange(10 ** (d - 1), 10**d) for d in (rng.randint(low, high), rng.randint(low, high)))
        if negative:
            a, b = rng.choice(((-a, b), (a, -b), (-a, -b)))
        made.append((BIGBENCH[operator].format(a=a, b=b), str(evaluate_exactly(operator, a, b)) if negative else None))
    return made


def kinds(n: int, seed: int) -> dict[str, list[Text]]:
    """All kinds of texts, `n` of each."""
    rng = random.Random(f"beyond/{seed}")
    limits = {"max_digits": 5, "num_digits": 5, "result_digits": 10}
    unseen = ArithmeticRows(seed + 1000, mixture=ORDINARY, wording=Templates(UNSEEN), **limits)
    mostly_refused = Mixture(none=0.45, overflow=0.0, undefined=0.0, inexact=0.45)
    drawn = ArithmeticRows(seed + 2000, mixture=mostly_refused, **limits).take(4 * n)
    none = [(row["prompt"][-1]["content"], None) for row in drawn if row["igc_operator"] == "none"]
    remainders = [(row["prompt"][-1]["content"], None) for row in drawn if row["igc_result"] == "inexact"]
    return {
        "held-out phrasings": of_rows(unseen.take(n)),
        "negative operands": questions(n, 1, 5, rng, negative=True),
        "operands of 6 to 8 digits (trained as overflow)": questions(n, 6, 8, rng),
        "operands of 9 to 14 digits (longer than any trained)": questions(n, 9, 14, rng),
        "division with remainder": remainders[:n],
        "no arithmetic asked, trained phrasings": none[:n],
        "three operands, trained as none": [
            (f"What is {rng.randrange(999)} plus {rng.randrange(999)} plus {rng.randrange(999)}?", None)
            for _ in range(n)
        ],
        "three operands, held-out phrasing": [
            (f"Find {rng.randrange(999)} times {rng.randrange(999)} minus {rng.randrange(999)}.", None)
            for _ in range(n)
        ],
    }


@torch.no_grad()
def answer(model: Any, tokenizer: Any, prompts: list[str]) -> tuple[list[str], list[bool]]:
    """Greedy answers, and whether a number was written, row by row."""
    chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
    batch = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, return_tensors="pt", return_dict=True, padding=True, padding_side="left"
    )
    steps: list[Step] = []
    with observing(lambda seen: steps.append(seen) if isinstance(seen, Step) else None):
        made = model.generate(**batch, max_new_tokens=16, do_sample=False)
    texts = tokenizer.batch_decode(made[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    wrote = (steps[0].result.status == Status.OK).any(1).tolist() if steps else [False] * len(prompts)
    return [text.strip() for text in texts], wrote


def score(model: Any, tokenizer: Any, texts: list[Text]) -> dict[str, float]:
    """Shares of right answers, of texts on which nothing was written, and of wrong numbers written."""
    answers, wrote = answer(model, tokenizer, [prompt for prompt, _ in texts])
    right = [a == target for a, (_, target) in zip(answers, texts, strict=True)]
    n = len(texts)
    return {
        "n": n,
        "right": sum(right) / n,
        "refused": wrote.count(False) / n,
        "wrong_number_written": sum(w and not r for w, r in zip(wrote, right, strict=True)) / n,
    }


def main() -> None:
    """Scores all kinds and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--n", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    base, tokenizer = tiny_base()
    model = load_adapter(base, arguments.adapter)
    results: dict[str, Any] = {"seed": arguments.seed, "versions": versions(), "kinds": {}}
    for name, texts in kinds(arguments.n, arguments.seed).items():
        with model.disable_adapter():
            without = score(model, tokenizer, texts)["right"]
        results["kinds"][name] = {**score(model, tokenizer, texts), "base_right": without}
        row = results["kinds"][name]
        print(
            f"{name:52s} right {row['right']:6.1%}  refused {row['refused']:6.1%}  "
            f"wrong number {row['wrong_number_written']:6.1%}  base right {row['base_right']:6.1%}"
        )
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
