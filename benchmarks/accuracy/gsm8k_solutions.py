"""A real model that writes its steps: is it right at every `=`, with a LoRA and a calculator, and with a LoRA alone?

In: a base model and GSM8K's training file. Its questions are split by a hash of their text: held-out ones, and those
to train on, with generated solutions that have longer numbers, and results that are zero, below zero or fractions.
Both kinds of adapter are trained by `recipes/smollm2_135m_gsm8k.yaml`, with the same rows, steps and batches; the LoRA
alone has as many parameters as calculator and LoRA together. The calculator begins with the demonstration's weights
and learns the `=` of solutions first (`gsm8k_sites`); after the joint training the writing learns for some steps more,
because the LoRA has changed the states to which it writes.
Out, for each seed and kind, on held-out questions:

* `given`: the human solution up to each annotated `=`, then the model writes greedily: is the first number the
  annotated one? With the status of the step, and `wrong_though_ok`.
* `copied`: the human solution up to the final answer, then the model writes greedily: is the first number the answer?
* `own`: solutions of its own: calculations that are true, with an ok step and all; final answers that are right.

Truth is told by `benchmarks.common.written_calculations`, which shares nothing with the package's rules.

    python -m benchmarks.accuracy.gsm8k_solutions --base DIR --data gsm8k_train.jsonl \
        --calculator demo-smollm2/adapter --output FILE.json
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors import safe_open

from benchmarks.accuracy.gsm8k_measures import copied_answers, given_solutions, own_solutions
from benchmarks.accuracy.gsm8k_sites import ROUNDING, Sites, read_sites, train_sites
from benchmarks.common.measuring import command, facts, write
from benchmarks.common.trainings import RECIPES, trained
from peft_igc import IGCConfig, assistant_header
from peft_igc.annotation.gsm8k import convert
from peft_igc.data.files import read_rows, write_rows
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.trainer.precision import in_bf16
from peft_igc.tuner.saving.companions import LOW_RANK
from recipes.tiny_base.worked_solutions import WorkedCalculations, WorkedSolutions


RECIPE = "smollm2_135m_gsm8k"
CALCULATOR = Path("demo-smollm2/adapter")  # of `make demo-smollm2`
KINDS = ("igc+lora", "lora")
GENERATED_DIGITS = 10
BATCH = 64  # texts


def split(
    questions: Sequence[dict[str, Any]], held_out: int, rows: int, seen: int = 0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows to train on, and held-out rows: by a hash of the question, so that no question is in both.

    `seen` questions are left out, because their results were read while the training was chosen.
    """
    known = {row["question"].strip(): row for row in questions}
    order = sorted(known, key=lambda question: hashlib.sha256(question.encode()).hexdigest())
    if len(order) < seen + held_out + rows:
        wanted = f"{seen} + {held_out} + {rows} questions"
        raise ValueError(f"{wanted} are asked for, but there are {len(order)}. Ask for fewer.")
    # From both ends: other numbers of held-out questions leave the training rows as they are.
    return [known[q] for q in order[len(order) - rows :]], [known[q] for q in order[seen : seen + held_out]]


def prepare(arguments: argparse.Namespace, tokenizer: Any, folder: Path) -> dict[str, Any]:
    """Writes `train.jsonl` with operand columns, `held_out.jsonl` as it is, and `calculator`, with which training
    begins; returns the reports of the conversion and of both trainings."""
    train, held = split(read_rows(arguments.data), arguments.held_out, arguments.rows, arguments.seen)
    config = IGCConfig.from_tokenizer(tokenizer, anchors=["=", assistant_header(tokenizer)], **ROUNDING)
    half = arguments.generated // 2
    generated = WorkedSolutions(seed=0, max_digits=GENERATED_DIGITS).take(arguments.generated - half)
    generated += WorkedCalculations(seed=0).take(half)
    train += [{key: row[key] for key in ("question", "answer")} for row in generated]
    converted = convert(train, tokenizer, config)
    write_rows(folder / "train.jsonl", converted.rows)
    write_rows(folder / "held_out.jsonl", held)
    record = converted.report.as_dict()
    print(record, flush=True)
    where = {"base": arguments.base, "rows": converted.rows, "device": arguments.device}
    sizes = Sites(sites=arguments.sites, steps=arguments.site_steps, layer=arguments.layer)
    made = folder / "calculator"
    writing = train_sites(calculator=arguments.calculator, output=made, settings=sizes, **where)
    reading = read_sites(folder=made, steps=arguments.reading_steps, **where)
    return record | {"calculator": {"writing": writing, "reading": reading}}


def train(kind: str, arguments: argparse.Namespace, folder: Path, seed: int) -> dict[str, Any]:
    """Trains one adapter by the recipe, with this run's paths, seed and rank."""
    data, place = folder / "data", folder / f"{kind}-{seed}"
    changes: dict[str, Any] = {"model_name_or_path": str(arguments.base), "dataset_name": str(data / "train.jsonl")}
    changes |= {"seed": seed, "num_train_epochs": arguments.epochs, "bf16": in_bf16(arguments.device)}
    changes |= {"use_cpu": torch.device(arguments.device).type == "cpu", "igc_adapter": kind, "igc_held_out": None}
    if kind == "lora":
        joint = folder / f"{KINDS[0]}-{seed}"
        recipe: dict[str, Any] = yaml.safe_load((RECIPES / f"{RECIPE}.yaml").read_text(encoding="utf-8"))
        rank = equal_rank(joint, recipe["lora_r"])
        of_calculator = [name for name in recipe if name.startswith("igc_") and name != "igc_adapter"]
        changes |= {"lora_r": rank, "lora_alpha": 2 * rank, **dict.fromkeys(of_calculator)}
    else:
        changes |= {"igc_init_from": str(data / "calculator"), "igc_held_out": 0}
    *_, found = trained(RECIPE, changes, place)
    if kind == KINDS[0] and arguments.again_steps:  # its LoRA stays as it is
        rows = read_rows(data / "train.jsonl", wanted="with operand columns")
        sizes = Sites(sites=arguments.sites, steps=arguments.again_steps, seed=seed)
        again = train_sites(arguments.base, place, rows, place, sizes, arguments.device)
        found["writing_again"] = again
    count = parameters_in(place) + (parameters_in(place / LOW_RANK) if kind == KINDS[0] else 0)
    return found | {"parameters": count}


def parameters_in(folder: Path) -> int:
    """The number of weights in an adapter's file."""
    with safe_open(folder / SAFETENSORS_WEIGHTS_NAME, framework="pt") as file:
        return sum(file.get_tensor(key).numel() for key in file.keys())  # noqa: SIM118 - not a dict


def equal_rank(joint: Path, rank: int) -> int:
    """The rank at which a LoRA has as many weights as a calculator and its LoRA of this rank."""
    lora = parameters_in(joint / LOW_RANK)
    return round(rank * (lora + parameters_in(joint)) / lora)


def measure(arguments: argparse.Namespace) -> None:
    """Trains and measures all seeds and kinds; results are written after each part."""
    dtype = "bfloat16" if in_bf16(arguments.device) else "float32"
    paths = ("base", "calculator", "data", "output", "keep")
    settings = {key: value for key, value in vars(arguments).items() if key not in paths}
    results: dict[str, Any] = {**facts(), "settings": settings | {"base": Path(arguments.base).name}, "runs": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        results["conversion"] = prepare(arguments, load_base(arguments.base)[1], folder / "data")
        held = read_rows(folder / "data" / "held_out.jsonl", wanted="with a solution")
        given = held[: arguments.given]
        for seed, kind in itertools.product(arguments.seeds, KINDS):
            found = results["runs"][f"{kind}, seed {seed}"] = {}
            found["training"] = train(kind, arguments, folder, seed)
            base, tokenizer = load_base(arguments.base, dtype)
            model = load_adapter(base.to(arguments.device), folder / f"{kind}-{seed}").to(arguments.device)
            parts: dict[str, Callable[[], dict[str, Any]]] = {
                "given": lambda m=model, t=tokenizer: given_solutions(m, t, given, BATCH),
                "copied": lambda m=model, t=tokenizer: copied_answers(m, t, given, BATCH),
                "own": lambda m=model, t=tokenizer: own_solutions(m, t, held, BATCH, arguments.longest),
            }
            for part, measured in parts.items():
                start = time.perf_counter()
                found[part] = measured() | {"seconds": round(time.perf_counter() - start, 1)}
                told = {key: value for key, value in found[part].items() if key != "examples"}
                print(f"{kind}, seed {seed}, {part}", told, flush=True)
                write(arguments.output, results)


def main() -> None:
    """Trains and measures."""
    parser = command(__doc__)
    add = parser.add_argument
    add("--base", required=True, metavar="DIR")
    add("--data", type=Path, required=True, metavar="FILE", help="GSM8K's training file")
    add("--rows", type=int, default=300, help="training questions (default: %(default)s)")
    add("--generated", type=int, default=150, help="generated rows to train on, too (default: %(default)s)")
    add("--held-out", type=int, default=500, help="held-out questions (default: %(default)s)")
    add("--seen", type=int, default=3000, metavar="N", help="leave out the first N of them (default: %(default)s)")
    add("--calculator", type=Path, default=CALCULATOR, metavar="DIR", help="of prompts (default: %(default)s)")
    add("--sites", type=int, default=512, help="results that its writing learns first (default: %(default)s)")
    add("--site-steps", type=int, default=300, metavar="N", help="(default: %(default)s)")
    add("--layer", type=int, default=-1, metavar="N", help="that is written to (default: %(default)s, the last)")
    add("--reading-steps", type=int, default=80, metavar="N", help="(default: %(default)s)")
    add("--again-steps", type=int, default=600, metavar="N", help="of the writing, after the joint run")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", metavar="NAME")
    add("--seeds", type=int, nargs="*", default=[0], metavar="N", help="(none: prepare only)")
    add("--given", type=int, default=500, help="human solutions (default: %(default)s)")
    add("--longest", type=int, default=240, help="tokens of a solution (default: %(default)s)")
    add("--epochs", type=float, default=1.0, metavar="N", help="of the joint training (default: %(default)s)")
    add("--keep", type=Path, metavar="DIR", help="keep rows and adapters there")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
