"""A real model that writes its steps: is it right at every `=`, with a LoRA and a calculator, and with a LoRA alone?

In: a base model and GSM8K's training file. Its questions are split by a hash of their text: held-out ones, and as many
as asked for to train on, beside generated solutions with longer numbers and lines of calculations whose results are
zero, below zero or fractions, which people's solutions seldom have and the model's own often. Both kinds of adapter
are trained by `recipes/smollm2_135m_gsm8k.yaml`, with the same rows, steps and batches; the LoRA alone gets the rank
at which it has as many parameters as calculator and LoRA together. The calculator begins with the weights of the
demonstration, which learned from generated prompts, and then learns to write, after the last layer, and to read at
the `=` of the solutions (`gsm8k_sites`); the LoRA begins with none. After the joint training the writing alone learns
for some steps more, because the LoRA has changed the states to which it writes.
Out, for each seed and kind, on held-out questions:

* `given`: the human solution up to each annotated `=`, then the model writes greedily: is the first number the
  annotated one? With the status of the step, and `wrong_though_ok`.
* `copied`: the human solution up to the final answer, then the model writes greedily: is the first number the answer,
  which nearly always stands in the line before?
* `own`: solutions of its own: the calculations in them that are true as written, those with an ok step and all; `=`
  per solution; final answers that are right.

Truth is told by `benchmarks.common.written_calculations`, which shares nothing with the package's rules.

    python -m benchmarks.accuracy.gsm8k_solutions --base DIR --data gsm8k_train.jsonl \
        --calculator demo-smollm2/adapter --output FILE.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors import safe_open

from benchmarks.accuracy.gsm8k_measures import copied_answers, given_solutions, own_solutions
from benchmarks.accuracy.gsm8k_sites import ROUNDING, Sites, read_sites, train_sites
from benchmarks.common.measuring import command, facts, write
from peft_igc import IGCConfig, assistant_header
from peft_igc.annotation.gsm8k import convert
from peft_igc.data.files import read_rows, write_rows
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.trainer.precision import in_bf16
from peft_igc.tuner.saving.companions import LOW_RANK
from recipes.tiny_base.worked_solutions import WorkedCalculations, WorkedSolutions


RECIPE = Path(__file__).parents[2] / "recipes" / "smollm2_135m_gsm8k.yaml"
CALCULATOR = Path("demo-smollm2/adapter")  # of `make demo-smollm2`
KINDS = ("igc+lora", "lora")
GENERATED_DIGITS = 10
PARTS = ("given", "copied", "own")


# ------------------------------------------------------------------------------------------ data
def split(
    lines: Sequence[str], held_out: int, rows: int, seen: int = 0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows to train on, and held-out rows: by a hash of the question, so that no question is in both.

    Args:
        lines: JSON objects with `question` and `answer`.
        held_out, rows: numbers of questions.
        seen: number of questions that are left out, because their results were read while the training was chosen.

    Raises:
        ValueError: there are fewer questions.
    """
    known = {row["question"].strip(): row for row in map(json.loads, lines)}
    order = sorted(known, key=lambda question: hashlib.sha256(question.encode()).hexdigest())
    if len(order) < seen + held_out + rows:
        wanted = f"{seen} + {held_out} + {rows} questions"
        raise ValueError(f"{wanted} are asked for, but there are {len(order)}. Ask for fewer.")
    # From both ends: other numbers of held-out questions leave the training rows as they are.
    return [known[q] for q in order[len(order) - rows :]], [known[q] for q in order[seen : seen + held_out]]


def prepare(arguments: argparse.Namespace, tokenizer: Any, folder: Path) -> dict[str, Any]:
    """Writes `train.jsonl` with operand columns, `held_out.jsonl` as it is, and unless it is there `calculator`, with
    which training begins; returns the report of the conversion."""
    lines = arguments.data.read_text(encoding="utf-8").strip().split("\n")
    train, held = split(lines, arguments.held_out, arguments.rows, arguments.seen)
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
    made, told = folder / "calculator", folder / "calculator.json"
    sizes = {"sites": arguments.sites, "steps": arguments.site_steps, "layer": arguments.layer}
    settings = {**sizes, "reading_steps": arguments.reading_steps, "base": str(arguments.base)}
    settings |= {"calculator": str(arguments.calculator), "rows": arguments.rows}
    if not told.is_file():
        where = {"base": arguments.base, "rows": converted.rows, "device": arguments.device}
        trained = train_sites(calculator=arguments.calculator, output=made, settings=Sites(**sizes), **where)
        reading = read_sites(folder=made, steps=arguments.reading_steps, **where)
        record_of = {"writing": trained, "reading": reading}
        told.write_text(json.dumps({"settings": settings, "record": record_of}) + "\n", encoding="utf-8")
    known = json.loads(told.read_text(encoding="utf-8"))
    if known["settings"] != settings:
        raise ValueError(f"`{made}` was made with {known['settings']}. Delete `{told}`, or name another folder.")
    return record | {"calculator": known["record"]}


# ------------------------------------------------------------------------------------------ training
def settings_of(kind: str, arguments: argparse.Namespace, data: Path, folder: Path, seed: int) -> dict[str, Any]:
    """The recipe for a kind of adapter, with this run's paths, seed and rank."""
    recipe: dict[str, Any] = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    recipe |= {"model_name_or_path": str(arguments.base), "dataset_name": str(data), "output_dir": str(folder)}
    on_cpu = torch.device(arguments.device).type == "cpu"
    recipe |= {"seed": seed, "igc_adapter": kind, "igc_held_out": 0}
    recipe |= {"use_cpu": on_cpu, "bf16": in_bf16(arguments.device)}
    recipe |= {"igc_init_from": str(data.parent / "calculator")}
    recipe |= dict(arguments.set or [])
    if kind == "lora":
        recipe = {key: value for key, value in recipe.items() if not key.startswith("igc_") or key == "igc_adapter"}
        joint = folder.parent / f"{KINDS[0]}-{seed}"
        recipe["lora_r"] = equal_rank(joint, recipe["lora_r"])
        recipe["lora_alpha"] = recipe["lora_r"] * 2
    return recipe


def parameters_in(folder: Path) -> int:
    """The number of weights in an adapter's file."""
    with safe_open(folder / SAFETENSORS_WEIGHTS_NAME, framework="pt") as file:
        return sum(file.get_tensor(key).numel() for key in file.keys())  # noqa: SIM118 - not a dict


def equal_rank(joint: Path, rank: int) -> int:
    """The rank at which a LoRA has as many weights as a calculator and its LoRA of this rank."""
    lora = parameters_in(joint / LOW_RANK)
    return round(rank * (lora + parameters_in(joint)) / lora)


def train(kind: str, arguments: argparse.Namespace, data: Path, folder: Path, seed: int) -> dict[str, Any]:
    """Trains one adapter, unless its folder has it already."""
    from peft_igc.sft import run as sft  # TRL takes seconds to import

    settings = settings_of(kind, arguments, data, folder, seed)
    record = folder / "training.json"
    if record.is_file():  # trained by an earlier run
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "run.yaml"
            path.write_text(yaml.safe_dump(settings), encoding="utf-8")
            start = time.perf_counter()
            trainer = sft.main(sft.parse(["--config", str(path)]))
        trained = time.perf_counter() - start
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        read = [entry["igc/read_accuracy"] for entry in trainer.state.log_history if "igc/read_accuracy" in entry]
        found = {"seconds": round(trained, 1), "steps": trainer.state.global_step}
        found |= {"last_loss": losses[-1:], "last_read_accuracy": read[-1:]}
        record.write_text(json.dumps(found) + "\n", encoding="utf-8")
    if kind == KINDS[0] and arguments.again_steps and "writing_again" not in found:
        found["writing_again"] = _write_again(arguments, data, folder, seed)
        record.write_text(json.dumps(found) + "\n", encoding="utf-8")
    paths = ("model_name_or_path", "output_dir", "dataset_name", "igc_init_from")
    shown = {key: value for key, value in settings.items() if key not in paths}
    count = parameters_in(folder) + (parameters_in(folder / LOW_RANK) if kind == KINDS[0] else 0)
    return found | {"parameters": count, "settings": shown}


def _write_again(arguments: argparse.Namespace, data: Path, folder: Path, seed: int) -> dict[str, Any]:
    """Trains the writing of a calculator beside its LoRA, which stays as it is, and saves it where it was."""
    rows = read_rows(data, wanted="with operand columns")
    where: dict[str, Any] = {"base": arguments.base, "calculator": folder, "output": folder, "rows": rows}
    sizes = Sites(sites=arguments.sites, steps=arguments.again_steps, seed=seed)
    return train_sites(**where, settings=sizes, device=arguments.device)


def measure(arguments: argparse.Namespace) -> None:
    """Trains and measures all seeds and kinds; results are written after each part."""
    dtype = "bfloat16" if in_bf16(arguments.device) else "float32"
    results: dict[str, Any] = {**facts(), "settings": _plain(arguments), "runs": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        _, tokenizer = load_base(arguments.base)
        results["conversion"] = prepare(arguments, tokenizer, folder / "data")
        _say_and_write("prepared", {}, results, arguments.output)
        held = read_rows(folder / "data" / "held_out.jsonl", wanted="with a solution")
        for seed in arguments.seeds:
            for kind in arguments.kinds:
                place = folder / f"{kind}-{seed}"
                found = results["runs"][f"{kind}, seed {seed}"] = {}
                found["training"] = train(kind, arguments, folder / "data" / "train.jsonl", place, seed)
                base, tokenizer = load_base(arguments.base, dtype)
                model = load_adapter(base.to(arguments.device), place).to(arguments.device)
                parts: dict[str, Any] = {
                    "given": lambda m, t: given_solutions(m, t, held[: arguments.given], arguments.batch_size),
                    "copied": lambda m, t: copied_answers(m, t, held[: arguments.given], arguments.batch_size),
                    "own": lambda m, t: own_solutions(m, t, held, arguments.batch_size, arguments.longest),
                }
                for part in (one for one in parts if one in arguments.parts):
                    start = time.perf_counter()
                    found[part] = parts[part](model, tokenizer)
                    found[part]["seconds"] = round(time.perf_counter() - start, 1)
                    _say_and_write(f"{kind}, seed {seed}, {part}", found[part], results, arguments.output)


def _say_and_write(what: str, found: dict[str, Any], results: dict[str, Any], output: Path) -> None:
    """Prints what was measured last, and writes everything that was measured until now."""
    print(what, json.dumps({key: value for key, value in found.items() if key != "examples"}), flush=True)
    write(output, results)


def _plain(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings without paths of this machine."""
    left_out = ("base", "calculator", "data", "output", "keep", "set")
    return {key: value for key, value in vars(arguments).items() if key not in left_out} | {
        "base": Path(str(arguments.base)).name,
        "set": dict(arguments.set or []),
    }


def _assignment(text: str) -> tuple[str, Any]:
    """`NAME=VALUE` of an argument of `peft-igc sft`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, yaml.safe_load(value)


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
    add("--kinds", nargs="+", default=list(KINDS), choices=KINDS, metavar="KIND")
    add("--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART")
    add("--seeds", type=int, nargs="*", default=[0], metavar="N", help="(none: prepare only)")
    add("--given", type=int, default=500, help="human solutions (default: %(default)s)")
    add("--longest", type=int, default=240, help="tokens of a solution (default: %(default)s)")
    add("--batch-size", type=int, default=64, metavar="N", help="texts (default: %(default)s)")
    add("--keep", type=Path, metavar="DIR", help="keep adapters there; those there are not trained")
    add("--set", type=_assignment, nargs="+", metavar="NAME=VALUE", help="changes of the recipe")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
