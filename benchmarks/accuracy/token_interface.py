"""What the token interface promises, measured on adapters of the demonstration: one run per seed, the worst counts.

Each seed trains the demonstration's adapter and answers its 20 BIG-bench subtasks; then come the suites of
`benchmarks.accuracy.suites` (held-out phrasings, operands of 6 to 20 digits, negative numbers, separators, numbers
that are no
operands, families of phrasings that were never trained), beside the base model, and questions whose answer has begun
with words. Where there is nothing to calculate, no right answer is compared: counted are the prompts at which a step
was ok all the same, and at which any logit of the prompt and of 16 tokens behind it differs from the base model's by a
single bit, in batches shared with arithmetic. Last, the same adapter on the base in bfloat16 and in 8 bits.
Of BIG-bench's test set no calculation is trained but one-digit ones; what else is asked here may be, in other words.

    python -m benchmarks.accuracy.token_interface --seeds 0 1 2 3 4 --output benchmarks/results/token_interface.json

Seeds may be measured apart; the last command then takes the others' files: `--with FILE ...`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from benchmarks.accuracy.suites import ARITHMETIC, REPORTED, SILENT, suites
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.inference import loading
from peft_igc.inference.decoding import greedy, padding_token, prompt_tokens
from peft_igc.inference.evaluation import evaluate, versions
from peft_igc.inference.loading import load_adapter
from peft_igc.numbers.calculator import Status
from peft_igc.sft.demo import run_demo
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Step


CONTINUATION = 16  # tokens behind a prompt without arithmetic that are compared, too
ROWS, BESIDE = 48, 16  # of a batch: prompts without arithmetic, and arithmetic between them
BATCH = 128
BEGUN = ("The answer is", "It is", "The result is")  # of answers that are sentences
LONGEST_ANSWER = 32  # tokens: 40 digits in threes, a sign, the end
ANSWERED = (*ARITHMETIC, REPORTED[0])
UNANSWERED = (*SILENT, *REPORTED[1:])


def left_padded(rows: list[list[int]], padding: int) -> dict[str, torch.Tensor]:
    """Token ids and mask [B, T]."""
    width = max(map(len, rows))
    ids = torch.tensor([[padding] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


@torch.no_grad()
def silence(model: Any, tokenizer: Any, items: list[dict[str, Any]], beside: list[dict[str, Any]]) -> dict[str, Any]:
    """How often the calculator spoke up where it should not, in batches with rows where it should."""
    prompts = prompt_tokens(tokenizer, [item["prompt"] for item in items], raw=False)
    others = prompt_tokens(tokenizer, [item["prompt"] for item in beside[:BESIDE]], raw=False)
    padding = padding_token(model, tokenizer)
    activated: list[str] = []
    changed = active_beside = 0
    for start in range(0, len(items), ROWS):
        batch = left_padded(prompts[start : start + ROWS] + others, padding)
        with model.disable_adapter():
            made = model.generate(**batch, generation_config=greedy(model, tokenizer, CONTINUATION))
            more = made.shape[1] - batch["input_ids"].shape[1]
            mask = torch.cat([batch["attention_mask"], torch.ones(len(made), more, dtype=torch.int64)], 1)
            expected = model(input_ids=made, attention_mask=mask).logits
        ok = torch.zeros(len(made), dtype=torch.bool)

        def watch(seen: Any, ok: torch.Tensor = ok) -> None:
            if isinstance(seen, Step):
                ok |= (seen.result.status == Status.OK).any(1)

        with observing(watch):
            logits = model(input_ids=made, attention_mask=mask).logits
        differs = ((logits != expected) & mask[..., None].bool()).flatten(1).any(1)
        n = len(prompts[start : start + ROWS])
        activated += [items[start + row]["prompt"] for row in ok[:n].nonzero().flatten().tolist()]
        changed += int(differs[:n].sum())
        active_beside += int((ok & differs)[n:].sum())
    return {
        "n": len(items),
        "activated": len(activated),
        "with_changed_logits": changed,
        "examples": activated[:20],
        "arithmetic_rows_beside_that_changed": active_beside,
    }


@torch.no_grad()
def in_sentences(model: Any, tokenizer: Any, items: list[dict[str, Any]]) -> dict[str, Any]:
    """How often the number is right where the answer has begun with words; what follows it is the base model's."""
    mistakes, right = [], 0
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        asked = [[{"role": "user", "content": item["prompt"]}] for item in batch]
        texts = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        texts = [text + BEGUN[(start + at) % len(BEGUN)] for at, text in enumerate(texts)]
        ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
        inputs = left_padded(ids, padding_token(model, tokenizer))
        made = model.generate(**inputs, generation_config=greedy(model, tokenizer, LONGEST_ANSWER))
        answers = tokenizer.batch_decode(made[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for item, text, answer in zip(batch, texts, answers, strict=True):
            if re.match(rf"\s?{re.escape(item['target'])}(?!\d|[.,]\d)", answer):
                right += 1
            else:
                mistakes.append({"prompt": text, "target": item["target"], "answer": answer})
    return {"n": len(items), "exact_match": right / len(items), "mistakes": mistakes[:20]}


def other_bases(folder: Path, items: list[dict[str, Any]]) -> dict[str, float]:
    """Exact match of the same adapter on the base in other number formats."""
    source = str(loading._TINY_FOLDER)
    eight = BitsAndBytesConfig(load_in_8bit=True)
    bases = {
        "float32": lambda: loading.load_base(loading.TINY)[0],
        "bfloat16": lambda: loading.load_base(loading.TINY, torch.bfloat16)[0],
        "8 bits": lambda: AutoModelForCausalLM.from_pretrained(source, quantization_config=eight),
    }
    tokenizer = loading.tiny_base()[1]
    return {
        name: evaluate(load_adapter(make(), folder), tokenizer, items, max_new_tokens=LONGEST_ANSWER)["exact_match"]
        for name, make in bases.items()
    }


def measure_base(texts: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Exact match of the base model."""
    base, tokenizer = loading.tiny_base()
    reports = {name: evaluate(base, tokenizer, texts[name], max_new_tokens=LONGEST_ANSWER) for name in ANSWERED}
    return {name: report["exact_match"] for name, report in reports.items()}


def measure(seed: int, texts: dict[str, list[dict[str, Any]]], folder: Path) -> dict[str, Any]:
    """One seed: trained, then everything else."""
    found = run_demo(folder, seed=seed)
    base, tokenizer = loading.tiny_base()
    model = load_adapter(base, folder / "adapter")
    scores: dict[str, Any] = {}
    for name in ANSWERED:
        report = evaluate(model, tokenizer, texts[name], max_new_tokens=LONGEST_ANSWER)
        scores[name] = {key: report[key] for key in ("n", "exact_match", "groups", "truncated", "mistakes")}
        print(f"seed {seed}  {name:20s} {report['exact_match']:8.2%}", flush=True)
    scores["in_sentences"] = in_sentences(model, tokenizer, bigbench_test_set(50, seed=3))
    print(f"seed {seed}  in sentences {scores['in_sentences']['exact_match']:8.2%}", flush=True)
    for name in UNANSWERED:
        scores[name] = silence(model, tokenizer, texts[name], texts["held_out_phrasings"])
        quiet = scores[name]
        print(f"seed {seed}  {name:20s} {quiet['activated']} of {quiet['n']} activated", flush=True)
    results, training = found["sets"]["bigbench"], found["training"]
    formats = other_bases(folder / "adapter", bigbench_test_set(50, seed=2))
    print(f"seed {seed}  {formats}", flush=True)
    return {
        "training": {
            key: training[key] for key in ("seconds", "seconds_of_checks", "steps", "rows", "trainable_parameters")
        },
        "hardware": found["hardware"],
        "bigbench": {key: results[key] for key in ("n", "exact_match", "groups", "mistakes")},
        "base": found["base"]["bigbench"]["exact_match"],
        **scores,
        "number_formats": formats,
    }


def worst(runs: dict[int, dict[str, Any]]) -> dict[str, float]:
    """The least exact match, the most activations and changes, over all seeds."""
    values = list(runs.values())
    found = {name: min(run[name]["exact_match"] for run in values) for name in ("bigbench", "in_sentences", *ANSWERED)}
    found["bigbench_subtask"] = min(g["exact_match"] for run in values for g in run["bigbench"]["groups"].values())
    for name in UNANSWERED:
        found[f"{name}_activated"] = max(run[name]["activated"] for run in values)
        found[f"{name}_with_changed_logits"] = max(run[name]["with_changed_logits"] for run in values)
    found["number_formats_apart"] = max(
        max(run["number_formats"].values()) - min(run["number_formats"].values()) for run in values
    )
    found["training_seconds"] = max(run["training"]["seconds"] for run in values)
    return found


def main() -> None:
    """Runs all seeds and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4], metavar="N")
    parser.add_argument("--n", type=int, default=1000, metavar="N", help="items per suite (default: %(default)s)")
    parser.add_argument("--with", type=Path, nargs="+", default=[], metavar="FILE", dest="others")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    others = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.others]
    if odd := [other["commit"] for other in others if other["commit"] != commit]:
        parser.error(f"A file in `--with` is of commit {odd[0]}, not of {commit}. Measure it again.")
    texts = suites(arguments.n)
    runs = {int(seed): run for other in others for seed, run in other["runs"].items()}
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            runs[seed] = measure(seed, texts, Path(folder) / "run")
    runs = dict(sorted(runs.items()))
    results = {"commit": commit, "versions": versions(), "worst": worst(runs), "base": measure_base(texts)}
    results["runs"] = runs
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results["worst"], indent=1))


if __name__ == "__main__":
    main()
