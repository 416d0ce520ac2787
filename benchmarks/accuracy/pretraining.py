"""The paper's open question at a small scale: does it help to pretrain a model with IGC in place?

Both arms start from the same untrained base and see the same batches in the same order: conversations, prose and
arithmetic rows, of which a part is annotated.

* `together`: IGC is in place from the first step. All rows pass through it, the annotated ones train the reading,
  whose gradient reaches the layers below (`detach_reading=False`), and the base is trained by everything.
* `afterwards`: the base alone is trained by all batches; then it is frozen, and IGC is added and trained on the same
  arithmetic batches in the same order, once each. So both calculators have seen the same rows; this arm takes more
  steps in all.

What is not equal: `together` clips the gradients of base and calculator by one norm, `afterwards` each by its own.

Out, for each arm and seed: exact match in BIG-bench's form (whole answers, greedy), with IGC and of the base alone,
bits per byte of held-out prose, and how well the base copies.

    python -m benchmarks.accuracy.pretraining --output benchmarks/results/pretraining.json
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes"))  # how the embedded base is made

import pretrain_tiny_base as pretrain
import torch
from peft import get_peft_model
from tiny_base import corpus, questions, scores

from benchmarks.common.measuring import facts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import COLUMNS
from peft_igc.demo.batches import tokenized_rows
from peft_igc.demo.run import demo_config, training_rows
from peft_igc.demo.settings import SETTINGS, DemoSettings
from peft_igc.inference.evaluation import evaluate
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.trainer.optimizer import MuonAdamW, calculator_mappings, calculator_matrices


Batch = dict[str, torch.Tensor]
ROWS = 128
REPEATS = 200  # items that tell how well the base copies


def igc_settings(arguments: argparse.Namespace) -> DemoSettings:
    """The demonstration's settings of an interface, every step whole and all rows fresh."""
    return dataclasses.replace(
        SETTINGS[arguments.interface], writing_every=1, distinct_rows=None, batch_size=ROWS, steps=arguments.steps
    )


def plan(arguments: argparse.Namespace, seed: int) -> list[str]:
    """What each step is made of; equal in both arms."""
    shares = {"arithmetic": arguments.arithmetic, "prose": 0.2}
    shares["chat"] = 1 - sum(shares.values())
    return random.Random(seed).choices(list(shares), list(shares.values()), k=arguments.steps)


def arithmetic_batches(
    tokenizer: Any, config: Any, settings: DemoSettings, annotated: float, seed: int, tested: list[Any]
) -> Iterator[Batch]:
    """Batches of arithmetic rows, a part of them annotated."""
    rng = random.Random(f"annotated/{seed}")

    def rows() -> Iterator[dict[str, Any]]:
        for row in training_rows(tested, seed, settings):
            yield row if rng.random() < annotated else row | dict.fromkeys(COLUMNS)

    made = tokenized_rows(rows(), tokenizer, ROWS, settings.batches_at_once, seed)
    collator = IGCDataCollator(pad_token_id=tokenizer.pad_token_id, igc_config=config, tokenizer=tokenizer)
    while True:
        yield collator(list(itertools.islice(made, ROWS)))


def optimizers_of_igc(model: Any, settings: DemoSettings) -> MuonAdamW:
    """As the demonstration's."""
    matrices = calculator_matrices(model)
    taken = {id(weight) for weight in matrices}
    others = [weight for name, weight in model.named_parameters() if ".igc." in name and id(weight) not in taken]
    made = MuonAdamW(
        matrices,
        [{"params": others, "weight_decay": 0.0}],
        muon_lr=settings.muon_learning_rate or 0.0,
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        weight_decay=settings.weight_decay,
        resting=calculator_mappings(model),
    )
    for group in made.param_groups:
        group["peak"] = group["lr"]
    return made


def fit(
    name: str,
    steps: int,
    loss_of: Callable[[int], torch.Tensor],
    model: Any,
    optimizers: list[torch.optim.Optimizer],
    schedule: pretrain.Settings,
) -> float:
    """All steps of an arm; seconds."""
    begin = time.perf_counter()
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    weights = [weight for group in groups for weight in group["params"]]
    schedule = dataclasses.replace(schedule, steps=steps)
    recent: list[float] = []
    model.train()
    for step in range(steps):
        for group in groups:
            group["lr"] = group["peak"] * pretrain.rate_factor(schedule, step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, schedule.max_norm)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        recent.append(loss.item())
        if (step + 1) % 50 == 0 or step + 1 == steps:
            seconds = time.perf_counter() - begin
            left = seconds / (step + 1) * (steps - step - 1)
            mean = sum(recent) / len(recent)
            print(f"{name}  step {step + 1}/{steps}  loss {mean:.3f}  {seconds:.0f} s, {left:.0f} s left", flush=True)
            recent = []
    model.eval()
    return round(time.perf_counter() - begin, 1)


def run(arm: str, seed: int, arguments: argparse.Namespace, tested: list[Any]) -> dict[str, Any]:
    """One arm with one seed."""
    schedule = dataclasses.replace(pretrain.Settings(), seed=seed, threads=arguments.threads, chat_rows=ROWS)
    base, tokenizer, drawn, _ = pretrain.build_everything(schedule)
    settings = igc_settings(arguments)
    of_base = pretrain.build_optimizers(schedule, base)  # before the calculator is one of its modules
    config = demo_config(tokenizer, settings, detach_reading=arm != "together")
    kinds = plan(arguments, seed)
    numbers = arithmetic_batches(tokenizer, config, settings, arguments.annotated, seed, tested)

    def plain(kind: str) -> torch.Tensor:
        ids, labels = drawn.english() if kind == "prose" else drawn.chats()
        return pretrain.answer_loss(base, base.model, ids, labels)

    told: dict[str, Any] = {}
    if arm == "together":
        torch.manual_seed(seed)
        model = get_peft_model(base, config)
        for weight in base.parameters():
            weight.requires_grad_(True)

        def joint(step: int) -> torch.Tensor:
            if kinds[step] == "arithmetic":
                return model(**next(numbers), use_cache=False).loss  # with the reading's
            ids, labels = drawn.english() if kinds[step] == "prose" else drawn.chats()
            mask = torch.ones_like(ids)
            return model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss

        of_all = [*of_base, optimizers_of_igc(model, settings)]
        told["seconds"] = fit(f"{arm}, seed {seed}", len(kinds), joint, model, of_all, schedule)
    else:

        def alone(step: int) -> torch.Tensor:
            if kinds[step] == "arithmetic":
                batch = next(numbers)
                return pretrain.answer_loss(base, base.model, batch["input_ids"], batch["labels"])
            return plain(kinds[step])

        told["seconds"] = fit(f"{arm}, seed {seed}, base", len(kinds), alone, base, of_base, schedule)
        torch.manual_seed(seed)
        model = get_peft_model(base, config)
        again = arithmetic_batches(tokenizer, config, settings, arguments.annotated, seed, tested)
        of_igc = [optimizers_of_igc(model, settings)]
        steps = kinds.count("arithmetic")
        told["seconds_afterwards"] = fit(
            f"{arm}, seed {seed}, IGC",
            steps,
            lambda _: model(**next(again), use_cache=False).loss,
            model,
            of_igc,
            schedule,
        )
    return told | measured(model, tokenizer, tested)


def measured(model: Any, tokenizer: Any, tested: list[Any]) -> dict[str, Any]:
    """Scores with the calculator and without."""
    told: dict[str, Any] = {}
    repeats = [questions.repeat(random.Random(seed)) for seed in range(REPEATS)]
    report = evaluate(model, tokenizer, tested, max_new_tokens=16)
    told["igc"] = {key: report[key] for key in ("n", "exact_match", "groups", "mistakes")}
    told["igc"]["bits_per_byte"] = scores.bits_per_byte(model, tokenizer, corpus.held_out_texts())
    with model.disable_adapter():
        told["base"] = {
            "exact_match": evaluate(model, tokenizer, tested, max_new_tokens=16)["exact_match"],
            "bits_per_byte": scores.bits_per_byte(model, tokenizer, corpus.held_out_texts()),
            "repeat": scores.exact_match(model, tokenizer, repeats),
        }
    return told


def main() -> None:
    """Runs both arms with all seeds, and writes results after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--interface", choices=list(SETTINGS), default="tokens")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], metavar="N")
    parser.add_argument("--steps", type=int, default=1500, help="of pretraining (default: %(default)s)")
    parser.add_argument("--arithmetic", type=float, default=0.4, help="part of the steps (default: %(default)s)")
    parser.add_argument("--annotated", type=float, default=0.5, help="part of their rows (default: %(default)s)")
    parser.add_argument("--per-group", type=int, default=50, help="test items per subtask (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    tested = bigbench_test_set(arguments.per_group)
    results: dict[str, Any] = {
        **facts(),
        "settings": {key: value for key, value in vars(arguments).items() if key not in ("output", "seeds")},
        "runs": {"together": {}, "afterwards": {}},
    }
    for seed in arguments.seeds:
        for arm, runs in results["runs"].items():
            runs[str(seed)] = told = run(arm, seed, arguments, tested)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(f"{arm}, seed {seed}: IGC {told['igc']['exact_match']:.2%}, base {told['base']}", flush=True)


if __name__ == "__main__":
    main()
