"""A real model that writes its steps: is it right at every `=`, with a LoRA and a calculator, and with a LoRA alone?

In: a base model and GSM8K's training file. Its questions are split by a hash of their text: held-out ones, and as many
as asked for to train on, beside generated solutions with longer numbers and lines of calculations whose results are
zero, below zero or fractions, which people's solutions seldom have and the model's own often. Both kinds of adapter
are trained by `recipes/smollm2_135m_gsm8k.yaml`, with the same rows, steps and batches; the LoRA alone gets the rank
at which it has as many parameters as calculator and LoRA together. The calculator begins with the weights of the
demonstration, which learned from generated prompts, and then learns to write, behind the last layer, and to read at
the `=` of the solutions (`gsm8k_sites`); the LoRA begins with none. After the joint training the writing alone learns
for some steps more, because the LoRA has changed the states to which it writes.
Out, for each seed and kind, on held-out questions:

* `given`: the human solution up to each annotated `=`, then the model writes greedily: is the first number the
  annotated one? With the status of the step, and `wrong_though_ok`.
* `copied`: the human solution up to the final answer, then the model writes greedily: is the first number the answer,
  which nearly always stands in the line before?
* `own`: solutions of its own: the calculations in them that are true as written, those with an ok step and all; `=`
  per solution; final answers that are right; and `replayed`: final answers that would be right if every calculation
  were exact, which is the share of right plans. What a calculator can bring lies between the two.
* `token_times`: milliseconds per token of solutions of its own, the prompt included, alone and in batches of 16; both
  kinds take turns.

Truth is told by `benchmarks.common.written_calculations`, which shares nothing with the package's rules.

    python -m benchmarks.accuracy.gsm8k_solutions prepare --base DIR --data gsm8k_train.jsonl \
        --calculator demo-smollm2/adapter --output build/gsm8k
    python -m benchmarks.accuracy.gsm8k_solutions measure --base DIR --data gsm8k_train.jsonl --output FILE.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors import safe_open

from benchmarks.accuracy.gsm8k_sites import ROUNDING, read_sites, train_sites
from benchmarks.accuracy.symbols_gsm8k import sites_of
from benchmarks.common.measuring import alternating, facts, overhead, seconds, summary
from benchmarks.common.written_calculations import calculations, final_answer, first_number, interval, replayed
from peft_igc import IGCConfig, assistant_header
from peft_igc.annotation.gsm8k import convert
from peft_igc.data.files import read_rows
from peft_igc.data.worked_solutions import WorkedCalculations, WorkedSolutions
from peft_igc.inference.decoding import end_tokens, eval_mode, greedy, padding_token
from peft_igc.inference.evaluation import decode_answer
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.numbers.calculator import Status
from peft_igc.trainer.precision import in_bf16
from peft_igc.tuner.call import observing
from peft_igc.tuner.saving.beside import LOW_RANK
from peft_igc.tuner.steps import Step, Writing


RECIPE = Path(__file__).parents[2] / "recipes" / "smollm2_135m_gsm8k.yaml"
CALCULATOR = Path("demo-smollm2/adapter")  # of `make demo-smollm2`
KINDS = ("igc+lora", "lora")
NUMBER_TOKENS = 16  # enough for the number after an `=` in single digits
SHOWN = 20  # examples of each kind of mistake in the results
GENERATED_DIGITS = 10
PARTS = ("given", "copied", "own", "token_times")
BEFORE_ANSWER = "####"
TIMED_BATCHES, TIMED_TOKENS, TIMED_ROUNDS = (1, 16), 96, 7
_MARK = re.compile("<<.*?>>")
_STATUSES = [status.name.lower() for status in Status]


class Solution(NamedTuple):
    """A text that the model wrote.

    Attributes:
        text: up to the end token.
        cut: whether there is no end token.
        statuses: status of the step at each anchor, by the index of the anchor's last character in the text; -1 for
            the last token of the prompt.
    """

    text: str
    cut: bool
    statuses: dict[int, str]


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
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", converted.rows), ("held_out", held)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    print(converted.report.format(), flush=True)
    record = converted.report.as_dict()
    made, told = folder / "calculator", folder / "calculator.json"
    sizes = {"sites": arguments.sites, "steps": arguments.site_steps}
    sizes |= {"layer": arguments.layer, "exchange": arguments.exchange}
    settings = {**sizes, "reading_steps": arguments.reading_steps, "base": str(arguments.base)}
    settings |= {"calculator": str(arguments.calculator), "rows": arguments.rows}
    if not told.is_file():
        where = {"base": arguments.base, "rows": converted.rows, "device": arguments.device}
        trained = train_sites(calculator=arguments.calculator, output=made, **sizes, **where)
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
        recipe["lora_r"] = arguments.lora_rank or equal_rank(joint, recipe["lora_r"])
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
            trainer = sft.main(*sft.parse(["--config", str(path)]).arguments)
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
    sizes = {"sites": arguments.sites, "steps": arguments.again_steps, "exchange": arguments.exchange}
    return train_sites(**where, **sizes, seed=seed, device=arguments.device)


# ------------------------------------------------------------------------------------------ generation
@torch.no_grad()
def written(model: Any, tokenizer: Any, prompts: Sequence[str], longest: int, batch_size: int) -> list[Solution]:
    """Greedy continuations of prompts that are texts, the longest prompts first."""
    rows = tokenizer(list(prompts), add_special_tokens=False)["input_ids"]
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    found: dict[int, Solution] = {}
    begin = said = time.perf_counter()
    with eval_mode(model):
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            made = _batch(model, tokenizer, [rows[index] for index in chosen], longest)
            found.update(zip(chosen, made, strict=True))
            if (now := time.perf_counter()) - said > 30:
                said, left = now, (now - begin) / len(found) * (len(order) - len(found))
                print(f"  {len(found):,} of {len(order):,}, about {left / 60:.1f} minutes left", flush=True)
    return [found[index] for index in range(len(rows))]


def _batch(model: Any, tokenizer: Any, rows: list[list[int]], longest: int) -> list[Solution]:
    """The solutions of one left-padded batch."""
    width, padding = max(map(len, rows)), padding_token(model, tokenizer)
    ids = torch.tensor([[padding] * (width - len(row)) + row for row in rows], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
    statuses: list[dict[int, str]] = [{} for _ in rows]  # by position

    def watch(seen: Step | Writing) -> None:
        if isinstance(seen, Step):
            for one, at, got in zip(statuses, seen.anchors.tolist(), seen.result.status.tolist(), strict=True):
                one |= {place: _STATUSES[status] for place, status in zip(at, got, strict=True) if place >= 0}

    with observing(watch):
        output = model.generate(
            input_ids=ids, attention_mask=mask, generation_config=greedy(model, tokenizer, longest)
        )
    ends = end_tokens(model, tokenizer)
    made = []
    for tokens, found in zip(output[:, width:].tolist(), statuses, strict=True):
        text, cut = decode_answer(tokenizer, tokens, ends)
        placed = {}
        for position, status in found.items():
            if position >= width:
                before, _ = decode_answer(tokenizer, tokens[: position - width + 1], ends)
                placed[len(before.rstrip()) - 1] = status
            elif position == width - 1:
                placed[-1] = status
        made.append(Solution(text, cut, placed))
    return made


def asked(tokenizer: Any, question: str) -> str:
    """The prompt of a question."""
    chat = [{"role": "user", "content": question}]
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


# ------------------------------------------------------------------------------------------ measurements
def given_solutions(model: Any, tokenizer: Any, held: list[dict[str, Any]], batch_size: int) -> dict[str, Any]:
    """The number that the model writes after each annotated `=` of the human solutions."""
    sites = [site for index, row in enumerate(held) for site in sites_of(index, row["answer"])]
    known = [site for site in sites if site.text is not None]
    prompts = [asked(tokenizer, held[site.row]["question"]) + str(site.text).lstrip() for site in known]
    counts: Counter[str] = Counter()
    examples: dict[str, list[dict[str, Any]]] = {"wrong_though_ok": [], "wrong": []}
    for site, made in zip(known, written(model, tokenizer, prompts, NUMBER_TOKENS, batch_size), strict=True):
        number, status = first_number(made.text), made.statuses.get(-1, "no step")
        right = number is not None and number in site.values
        counts[f"{status}, {'right' if right else 'wrong'}"] += 1
        if not right:
            kind = "wrong_though_ok" if status == "ok" else "wrong"
            text = {"text": str(site.text)[-120:], "annotation": site.written, "written": made.text, "status": status}
            examples[kind] += [text] * (len(examples[kind]) < SHOWN)
    n = len(known)
    right = sum(count for name, count in counts.items() if name.endswith("right"))
    ok = sum(count for name, count in counts.items() if name.startswith("ok,"))
    return {
        "n": n,
        "without_equals": len(sites) - n,
        "right": right / max(n, 1),
        "right_interval": interval(right, n),
        "wrong_though_ok": counts["ok, wrong"] / max(n, 1),
        "ok": ok / max(n, 1),
        "counts": dict(counts.most_common()),
        "examples": examples,
    }


def copied_answers(model: Any, tokenizer: Any, held: list[dict[str, Any]], batch_size: int) -> dict[str, Any]:
    """The number that the model writes for the final answer of the human solutions."""
    texts = [_MARK.sub("", row["answer"]).partition(BEFORE_ANSWER)[0] + BEFORE_ANSWER for row in held]
    prompts = [asked(tokenizer, row["question"]) + text for row, text in zip(held, texts, strict=True)]
    made = written(model, tokenizer, prompts, NUMBER_TOKENS, batch_size)
    wrong = []
    for row, text, solution in zip(held, texts, made, strict=True):
        wanted = final_answer(row["answer"])
        if first_number(solution.text) != wanted:
            wrong.append({"text": text[-80:], "answer": str(wanted), "written": solution.text})
    right = len(held) - len(wrong)
    found = {"n": len(held), "right": right / max(len(held), 1), "right_interval": interval(right, len(held))}
    return found | {"examples": {"wrong": wrong[:SHOWN]}}


def own_solutions(
    model: Any, tokenizer: Any, held: list[dict[str, Any]], batch_size: int, longest: int
) -> dict[str, Any]:
    """Solutions of the model's own: calculations, final answers, plans."""
    made = written(model, tokenizer, [asked(tokenizer, row["question"]) for row in held], longest, batch_size)
    counts: Counter[str] = Counter()
    examples: dict[str, list[dict[str, Any]]] = {"untrue_though_ok": [], "untrue": [], "solutions": []}
    for row, solution in zip(held, made, strict=True):
        wanted = final_answer(row["answer"])
        found = [one for one in calculations(solution.text) if not _is_cut_off(solution, one.place)]
        counts["equals"] += len(found)
        counts["cut"] += solution.cut
        counts["right"] += final_answer(solution.text) == wanted
        counts["without_answer"] += final_answer(solution.text) is None
        counts["replayed_right"] += replayed(solution.text) == wanted
        for one in found:
            status = solution.statuses.get(one.place, "no step")
            told = "unreadable" if one.is_true is None else "true" if one.is_true else "untrue"
            counts[f"{status}, {told}"] += 1
            if told == "untrue":
                kind = "untrue_though_ok" if status == "ok" else "untrue"
                line = {"text": solution.text[max(one.place - 100, 0) : one.place + 20], "value": str(one.value)}
                examples[kind] += [line] * (len(examples[kind]) < SHOWN)
        line = {"question": row["question"], "solution": solution.text, "answer": str(wanted)}
        examples["solutions"] += [line] * (len(examples["solutions"]) < SHOWN)
    return _own_report(counts, len(held)) | {"examples": examples}


def _is_cut_off(solution: Solution, place: int) -> bool:
    """Whether the limit of tokens ended a solution within the number behind this `=`: `= 1` of `= 146`."""
    return solution.cut and not re.search(r"[^\s\d.,$€£%-]", solution.text[place + 1 :])


def _own_report(counts: Counter[str], n: int) -> dict[str, Any]:
    """Shares and intervals of `own_solutions`."""

    def share(name: str, hits: int, of: int) -> dict[str, Any]:
        return {name: hits / max(of, 1), f"{name}_n": of, f"{name}_interval": interval(hits, of)}

    pairs = {k: v for k, v in counts.items() if ", " in k}
    true = {key: sum(v for k, v in pairs.items() if k.endswith(", true") and key in ("", k.split(",")[0]))
            for key in ("", "ok")}  # fmt: skip
    untrue = {key: sum(v for k, v in pairs.items() if k.endswith(", untrue") and key in ("", k.split(",")[0]))
              for key in ("", "ok")}  # fmt: skip
    return {
        "n": n,
        **share("answers_right", counts["right"], n),
        **share("plans_right", counts["replayed_right"], n),
        **share("true", true[""], true[""] + untrue[""]),
        **share("true_though_ok", true["ok"], true["ok"] + untrue["ok"]),
        "equals_per_solution": counts["equals"] / max(n, 1),
        "cut": counts["cut"],
        "without_answer": counts["without_answer"],
        "counts": dict(sorted(pairs.items())),
    }


def token_times(models: dict[str, Any], tokenizer: Any, held: list[dict[str, Any]]) -> dict[str, Any]:
    """Milliseconds per token, in turn, and how much longer the first model takes than the second one."""
    first, second = models
    found = {}
    for size in TIMED_BATCHES:
        texts = [asked(tokenizer, row["question"]) for row in held[:size]]
        batch = tokenizer(texts, padding=True, padding_side="left", add_special_tokens=False, return_tensors="pt")

        def timed(model: Any, batch: Any = batch) -> dict[str, float]:
            settings = greedy(model, tokenizer, TIMED_TOKENS)
            settings.min_new_tokens = TIMED_TOKENS
            rows = batch.to(model.device)
            with eval_mode(model), torch.no_grad():
                took = seconds(lambda: model.generate(**rows, generation_config=settings), model.device)
            return {"token": 1000 * took / TIMED_TOKENS}

        times = alternating({kind: partial(timed, model) for kind, model in models.items()}, TIMED_ROUNDS)["token"]
        found[f"batch {size}"] = {
            **{kind: summary(values) for kind, values in times.items()},
            "overhead": overhead(times[first], times[second]),
        }
    return found


def measure(arguments: argparse.Namespace) -> None:
    """Trains and measures all seeds and kinds; results are written after each part."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    arguments.dtype = arguments.dtype or ("bfloat16" if in_bf16(arguments.device) else "float32")
    results: dict[str, Any] = {**facts(), "settings": _plain(arguments), "runs": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        _, tokenizer = load_base(arguments.base)
        results["conversion"] = prepare(arguments, tokenizer, folder / "data")
        held = read_rows(folder / "data" / "held_out.jsonl", wanted="with a solution")
        for seed in arguments.seeds:
            models = {}
            for kind in arguments.kinds:
                place = folder / f"{kind}-{seed}"
                found = results["runs"][f"{kind}, seed {seed}"] = {}
                found["training"] = train(kind, arguments, folder / "data" / "train.jsonl", place, seed)
                base, tokenizer = load_base(arguments.base, arguments.dtype)
                models[kind] = model = load_adapter(base.to(arguments.device), place).to(arguments.device)
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
            if "token_times" in arguments.parts and len(models) < len(KINDS):
                print(f"Token times are not measured: they need the kinds {' and '.join(KINDS)}.", flush=True)
            elif "token_times" in arguments.parts:
                found = results["runs"][f"token times, seed {seed}"] = token_times(models, tokenizer, held)
                _say_and_write(f"token times, seed {seed}", found, results, arguments.output)


def _say_and_write(what: str, found: dict[str, Any], results: dict[str, Any], output: Path) -> None:
    """Prints what was measured last, and writes everything that was measured until now."""
    print(what, json.dumps({key: value for key, value in found.items() if key != "examples"}), flush=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings without paths of this machine."""
    left_out = ("base", "calculator", "data", "output", "keep", "run", "set")
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


def build_parser() -> argparse.ArgumentParser:
    """The parser of both commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="run", required=True, metavar="COMMAND")
    preparing = commands.add_parser("prepare", help="split and convert the rows")
    measuring = commands.add_parser("measure", help="train and measure")
    for command in (preparing, measuring):
        command.add_argument("--base", required=True, metavar="DIR_OR_ID")
        command.add_argument("--data", type=Path, required=True, metavar="FILE", help="GSM8K's training file")
        command.add_argument("--output", type=Path, required=True, metavar="PATH")
        command.add_argument("--rows", type=int, default=600, help="training questions (default: %(default)s)")
        command.add_argument(
            "--generated", type=int, default=400, help="generated rows to train on, too (default: %(default)s)"
        )
        command.add_argument("--held-out", type=int, default=500, help="held-out questions (default: %(default)s)")
        command.add_argument("--seen", type=int, default=0, metavar="N", help="leave out the first N of them")
        command.add_argument(
            "--calculator", type=Path, default=CALCULATOR, metavar="DIR", help="of prompts (default: %(default)s)"
        )
        command.add_argument("--sites", type=int, default=512, help="results that its writing learns first")
        command.add_argument("--site-steps", type=int, default=300, metavar="N", help="(default: %(default)s)")
        command.add_argument(
            "--layer", type=int, default=-1, metavar="N", help="that is written to (default: %(default)s, the last)"
        )
        command.add_argument(
            "--exchange", action=argparse.BooleanOptionalAction, default=True, help="they exchange their results"
        )
        command.add_argument("--reading-steps", type=int, default=80, metavar="N", help="(default: %(default)s)")
        command.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", metavar="NAME")
    measuring.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, metavar="KIND")
    measuring.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART")
    measuring.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N")
    measuring.add_argument("--given", type=int, default=500, help="human solutions (default: %(default)s)")
    measuring.add_argument("--longest", type=int, default=240, help="tokens of a solution (default: %(default)s)")
    measuring.add_argument("--batch-size", type=int, default=64, metavar="N", help="texts (default: %(default)s)")
    measuring.add_argument("--dtype", help="of the base in measurements (default: bfloat16 where it is faster)")
    measuring.add_argument("--threads", type=int, metavar="N")
    measuring.add_argument(
        "--lora-rank", type=int, metavar="N", help="of the LoRA alone (default: with as many weights as both together)"
    )
    measuring.add_argument(
        "--again-steps", type=int, default=600, metavar="N", help="of the writing, beside a LoRA (default: 600)"
    )
    measuring.add_argument("--keep", type=Path, metavar="DIR", help="keep adapters there; those there are not trained")
    measuring.add_argument("--set", type=_assignment, nargs="+", metavar="NAME=VALUE", help="changes of the recipe")
    return parser


def main() -> None:
    """Runs one of the commands."""
    arguments = build_parser().parse_args()
    if arguments.run == "measure":
        measure(arguments)
    else:
        prepare(arguments, load_base(arguments.base)[1], arguments.output)


if __name__ == "__main__":
    main()
