"""Calculations wherever they happen: one adapter for worked solutions, with `=` in the middle, and for chats.

The base is the embedded one after `recipes/extend_tiny_base.py`, which has learned to write solutions of one to six
steps in GSM8K's form (plan and copy, but not calculate). Each seed trains an adapter on single questions, chats and
annotated solutions, whose numbers are drawn; then, all by greedy generation:

* worked solutions to new stories (same wordings, other numbers): a text is right if it is equal to the solution, a
  step if its line's calculation is. The base model alone answers the same.
* chats of six turns, each turn answered behind the model's own earlier answers: right answers (whole ones; where a
  sentence is asked for, all of its numbers), and `told`: the result, whatever form was asked for. Then, in one pass
  over each finished chat, whether everything before the first ok step is bit for bit the base model's, and whether any
  turn without an ok step was written to. `plain`: requests in trained phrasings, half of them in BIG-bench's form, and
  a third of the turns without arithmetic; `full`: with all that training rows have around and in them, refusals too.
* BIG-bench's form, single questions, on the same adapter.

Training rows and chats are drawn without the calculations of the test chats and of BIG-bench's items (but those of
two one-digit numbers; a turn that goes on from a result is drawn freely), solutions without the questions of the test.
Seeds can be measured apart and joined (`join.py`).

    python recipes/extend_tiny_base.py --output build/tiny_solutions
    python -m benchmarks.accuracy.worked_solutions --base build/tiny_solutions \\
        --output benchmarks/results/worked_solutions.json
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import set_seed

from benchmarks.common.measuring import facts
from peft_igc import assistant_header
from peft_igc.annotation.gsm8k import convert
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.chats import Conversations, arithmetic_chats
from peft_igc.data.dataset import Shuffled
from peft_igc.data.mixture import TOKENS_MIXTURE, Mixture
from peft_igc.data.worked_solutions import MOST_STEPS, WorkedSolutions
from peft_igc.demo.progress import Progress
from peft_igc.demo.run import demo_config, training_rows
from peft_igc.demo.settings import SETTINGS, DemoSettings
from peft_igc.demo.training import made_trainer
from peft_igc.inference import loading
from peft_igc.inference.decoding import greedy, padding_token
from peft_igc.inference.evaluation import evaluate
from peft_igc.inference.loading import load_adapter
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Step, Writing


TURNS = 6
LONGEST_SOLUTION, LONGEST_ANSWER = 320, 32  # tokens
BATCH = 48
NUMBER = re.compile(r"-?\d+")
SUBTASK = 50  # items of each BIG-bench subtask
NOT_SETTINGS = ("base", "output", "seeds", "keep")
TEST_SEED = 2_000_000  # of solutions and chats; training takes seeds below it, 1_000_000 was for development
CHATS = {"plain": Mixture(none=0.33, overflow=0, undefined=0, inexact=0, bigbench=0.5), "full": TOKENS_MIXTURE}
SECOND_STAGE = {"single": 8, "chats": 7, "solutions": 25}  # rows, in per cent of the single questions of the first
CALCULATION = re.compile(r"(\d+) ?([-+*/]) ?(\d+) ?= ?\$?(-?\d+)")


def rows_of(
    tokenizer: Any, config: Any, seed: int, arguments: argparse.Namespace, tested: list[dict[str, Any]]
) -> dict[str, list[Any]]:
    """The training set: single questions, chats, annotated solutions."""
    settings = dataclasses.replace(SETTINGS["tokens"], distinct_rows=None)
    excluded = [*bigbench_test_set(SUBTASK), *tested_turns(arguments.n_chats)]
    single = itertools.islice(training_rows(excluded, seed, settings), arguments.single)
    turns = arithmetic_chats(seed + 1000, excluded=excluded)
    asked = frozenset(row["question"] for row in tested)
    stories = WorkedSolutions(seed, excluded=asked).take(arguments.solutions)
    converted = convert(stories, tokenizer, config)
    print(converted.report.format(), flush=True)
    return {
        "single": list(single),
        "chats": Conversations(turns, seed, turns=(2, 4)).take(arguments.chats),
        "solutions": converted.rows,
    }


def asked_chats(n: int, mixture: Mixture) -> list[dict[str, Any]]:
    """Chats that are asked."""
    return Conversations(arithmetic_chats(TEST_SEED, mixture=mixture), TEST_SEED, turns=(TURNS, TURNS)).take(n)


def tested_turns(n: int) -> list[dict[str, Any]]:
    """The calculations of all test chats."""
    return [
        {"igc_operator": operator, "igc_operands": operands}
        for mixture in CHATS.values()
        for row in asked_chats(n, mixture)
        for operator, operands in zip(row["igc_operator"], row["igc_operands"], strict=True)
        if operands is not None
    ]


def train(seed: int, arguments: argparse.Namespace, tested: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Trains one adapter and saves it: first mostly the reading, on all rows; then the writing alone, in longer texts.

    A reading that goes on learning from a few rows of few kinds forgets the phrasings of the others.
    """
    base, tokenizer = loading.load_base(arguments.base, "float32")
    set_seed(seed)
    first: DemoSettings = dataclasses.replace(
        SETTINGS["tokens"], steps=arguments.steps, batch_size=arguments.rows, log_every=40
    )
    second = dataclasses.replace(
        first, steps=arguments.more_steps, batch_size=32, writing_every=1, muon_learning_rate=5e-3, warmup_steps=10
    )
    config = demo_config(tokenizer, first, anchors=["=", assistant_header(tokenizer)])
    model = get_peft_model(base, config)
    base.set_attn_implementation("eager")
    rows = rows_of(tokenizer, config, seed, arguments, tested)
    few = {kind: arguments.single * share // 100 for kind, share in SECOND_STAGE.items()}
    sample = bigbench_test_set(5, seed=1)

    def check() -> float:
        return evaluate(model, tokenizer, sample)["exact_match"]

    seconds, history = 0.0, []
    for settings, counts in ((first, {kind: len(made) for kind, made in rows.items()}), (second, few)):
        if settings is second:
            for name, weight in model.named_parameters():
                weight.requires_grad_(weight.requires_grad and ".igc_input_mapping." not in name)
        chosen = [row for kind, made in rows.items() for row in made[: counts[kind]]]
        random.Random(seed).shuffle(chosen)
        progress = Progress(lambda line: print(f"seed {seed}  {line}", flush=True), check, checks=1)
        with tempfile.TemporaryDirectory() as scratch:
            stream = Shuffled(chosen, seed)
            made_trainer(model, tokenizer, stream, Path(scratch), seed, settings, progress).train()
        seconds += progress.seconds
        history += progress.history
    model.save_pretrained(str(folder), save_embedding_layers=False)
    return {"seconds": round(seconds, 1), "history": history}


def left_padded(texts: list[str], model: Any, tokenizer: Any) -> dict[str, torch.Tensor]:
    """Token ids and mask [B, T]."""
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    width, padding = max(map(len, rows)), padding_token(model, tokenizer)
    ids = torch.tensor([[padding] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def answered(model: Any, tokenizer: Any, chats: list[list[dict[str, str]]], longest: int) -> list[str]:
    """What the model says next in each chat, up to its end."""
    made = []
    for start in range(0, len(chats), BATCH):
        texts = tokenizer.apply_chat_template(chats[start : start + BATCH], tokenize=False, add_generation_prompt=True)
        batch = left_padded(texts, model, tokenizer)
        output = model.generate(**batch, generation_config=greedy(model, tokenizer, longest))
        made += tokenizer.batch_decode(output[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return made


@torch.no_grad()
def solutions(model: Any, tokenizer: Any, tested: list[dict[str, Any]]) -> dict[str, Any]:
    """How many worked solutions are right: as wholes, by number of steps, and step by step."""
    order = sorted(range(len(tested)), key=lambda at: len(tested[at]["question"]))
    chats = [[{"role": "user", "content": tested[at]["question"]}] for at in order]
    given = dict(zip(order, answered(model, tokenizer, chats, LONGEST_SOLUTION), strict=True))
    right: dict[int, list[bool]] = {count: [] for count in range(1, MOST_STEPS + 1)}
    steps = steps_right = written = written_right = 0
    mistakes = []
    for at, row in enumerate(tested):
        wanted = re.sub("<<.*?>>", "", row["answer"])
        right[row["steps"]].append(given[at] == wanted)
        if given[at] != wanted:
            mistakes.append({"question": row["question"], "target": wanted, "answer": given[at]})
        expected, found = CALCULATION.findall(wanted), CALCULATION.findall(given[at])
        steps += len(expected)
        steps_right += sum(one == other for one, other in itertools.zip_longest(expected, found))
        written += len(found)
        written_right += sum(_is_true(*calculation) for calculation in found)
    whole = [hit for hits in right.values() for hit in hits]
    return {
        "n": len(whole),
        "whole": sum(whole) / len(whole),
        "whole_by_steps": {count: sum(hits) / len(hits) for count, hits in right.items()},
        "steps": steps,
        "steps_right": steps_right / steps,
        "calculations_written": written,
        "calculations_true": written_right / max(written, 1),
        "mistakes": mistakes[:20],
    }


def _is_true(a: str, operator: str, b: str, result: str) -> bool:
    """Whether a calculation, as written, is true; told by Python's integers."""
    x, y, r = int(a), int(b), int(result)
    return {"+": x + y == r, "-": x - y == r, "*": x * y == r, "/": y != 0 and x == y * r}[operator]


@torch.no_grad()
def chats(model: Any, tokenizer: Any, n: int, mixture: Mixture) -> dict[str, Any]:
    """Six turns, each behind the model's own answers; then one pass over each finished chat."""
    made = asked_chats(n, mixture)
    live: list[list[dict[str, str]]] = [[] for _ in made]
    asked = right = results_told = 0
    mistakes = []
    for turn in range(TURNS):
        for chat, row in zip(live, made, strict=True):
            said = [message for message in row["messages"] if message["role"] != "assistant"]
            first = len(said) - TURNS  # system prompts
            chat += said[: first + 1] if turn == 0 else [said[first + turn]]
        answers = answered(model, tokenizer, live, LONGEST_ANSWER)
        for chat, row, answer in zip(live, made, answers, strict=True):
            wanted = row["igc_result"][turn]
            if wanted is not None and wanted.lstrip("-").isdigit():
                told = [m["content"] for m in row["messages"] if m["role"] == "assistant"][turn]
                # where a sentence is asked for, what stands around its numbers is the base model's
                numbers, due = NUMBER.findall(answer), NUMBER.findall(told)
                hit = answer == wanted if told == wanted else numbers == due
                asked, right = asked + 1, right + hit
                results_told += wanted in numbers and set(numbers) <= set(due)
                if not hit:
                    mistakes.append({"turn": turn, "chat": chat[-3:], "target": wanted, "answer": answer})
            chat.append({"role": "assistant", "content": answer})
    found: dict[str, Any] = {
        "n": n,
        "asked": asked,
        "right": right / asked,
        "told": results_told / asked,
        "mistakes": mistakes[:20],
    }
    return found | untouched(model, tokenizer, live, made)


@torch.no_grad()
def untouched(model: Any, tokenizer: Any, live: Any, made: Any) -> dict[str, int]:
    """What the calculator left alone in finished chats, one by one without padding.

    A turn goes from the assistant's header to the end of the answer; what is written within questions is counted too.
    """
    names = ("beginnings_compared", "beginnings_changed", "silent_turns", "silent_turns_activated")
    counts = dict.fromkeys((*names, "silent_turns_written_to", "questions_with_an_ok_step"), 0)
    header = assistant_header(tokenizer)[-1]
    for chat, row in zip(live, made, strict=True):
        text = tokenizer.apply_chat_template([chat], tokenize=False)
        batch = left_padded(text, model, tokenizer)
        ids = batch["input_ids"][0].tolist()
        seen: list[Any] = []
        with observing(seen.append):
            logits = model(**batch).logits[0]
        with model.disable_adapter():
            base = model(**batch).logits[0]
        (step,) = (one for one in seen if isinstance(one, Step))
        written = [one.active for one in seen if isinstance(one, Writing)]  # none where no step is ok
        at, ok = step.anchors[0], (step.result.status[0] == Status.OK) & (step.anchors[0] >= 0)
        first = int(at[ok].min()) if ok.any() else len(logits)
        counts["beginnings_compared"] += 1
        counts["beginnings_changed"] += not torch.equal(logits[:first], base[:first])
        begins = [p for p in at.tolist() if p >= 0 and ids[p] == header]
        ends = [ids.index(tokenizer.eos_token_id, start) for start in begins]
        inside = torch.zeros_like(ok)
        for operator, start, end in zip(row["igc_operator"], begins, ends, strict=True):
            here = (at >= start) & (at <= end)
            inside |= here
            if operator != "none":
                continue
            quiet = not (ok & here).any()
            counts["silent_turns"] += 1
            counts["silent_turns_activated"] += not quiet
            counts["silent_turns_written_to"] += quiet and any(
                bool(active[0, start : end + 1].any()) for active in written
            )
        counts["questions_with_an_ok_step"] += int((ok & ~inside).sum())
    return counts


def measure(seed: int, arguments: argparse.Namespace, tested: list[dict[str, Any]]) -> dict[str, Any]:
    """One seed."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep / f"seed-{seed}" if arguments.keep else Path(scratch)
        training = train(seed, arguments, tested, folder)
        base, tokenizer = loading.load_base(arguments.base, "float32")
        model = load_adapter(base, folder)
    found: dict[str, Any] = {"training": training, "solutions": solutions(model, tokenizer, tested)}
    print(f"seed {seed}  solutions", {k: v for k, v in found["solutions"].items() if k != "mistakes"}, flush=True)
    for name, mixture in CHATS.items():
        found[f"chats_{name}"] = score = chats(model, tokenizer, arguments.n_chats, mixture)
        print(f"seed {seed}  chats, {name}", {k: v for k, v in score.items() if k != "mistakes"}, flush=True)
    report = evaluate(model, tokenizer, bigbench_test_set(SUBTASK), max_new_tokens=LONGEST_ANSWER)
    found["bigbench"] = {key: report[key] for key in ("n", "exact_match", "mistakes")}
    print(f"seed {seed}  BIG-bench {report['exact_match']:.2%}", flush=True)
    return found


def main() -> None:
    """Runs all seeds and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for the adapters (default: not kept)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--more-steps", type=int, default=600)
    parser.add_argument("--rows", type=int, default=96, help="rows per step (default: %(default)s)")
    parser.add_argument("--single", type=int, default=60_000, help="single questions (default: %(default)s)")
    parser.add_argument("--chats", type=int, default=12_000, help="training chats (default: %(default)s)")
    parser.add_argument("--solutions", type=int, default=15_000, help="training solutions (default: %(default)s)")
    parser.add_argument("--n", type=int, default=1_200, help="test solutions (default: %(default)s)")
    parser.add_argument("--n-chats", type=int, default=200, help="test chats (default: %(default)s)")
    arguments = parser.parse_args()
    tested = WorkedSolutions(TEST_SEED).take(arguments.n)
    results: dict[str, Any] = {
        **facts(),
        "base_sha256": hashlib.sha256((arguments.base / "model.safetensors").read_bytes()).hexdigest(),
        "settings": {key: value for key, value in vars(arguments).items() if key not in NOT_SETTINGS},
    }
    base, tokenizer = loading.load_base(arguments.base, "float32")
    results["base"] = solutions(base, tokenizer, tested)
    print("base", {k: v for k, v in results["base"].items() if k != "mistakes"}, flush=True)
    results["runs"] = {}
    for seed in arguments.seeds:
        results["runs"][str(seed)] = measure(seed, arguments, tested)
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
