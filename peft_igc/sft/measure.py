"""What a run of `peft-igc sft` with `igc_demonstration` measures after its training, and its report.

In: settings and the adapter's config before the training, the trainer after it. Out, in the adapter's folder: the
calibrated config, `results.json`, `operating_curve.png` and a model card with the scores; on the terminal a table. The
measured adapter is the saved one, on a base that is loaded anew.
"""

import functools
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ..calibration.calibrate import CURVE, calibrate, save_calibration
from ..data.bigbench import OPERATION_NAMES, bigbench_test_set
from ..inference.evaluation import duration, generate_answers, interval, versions
from ..inference.loading import load_adapter, load_base
from ..text.values import Limits
from ..trainer.precision import computes_bf16
from ..trainer.progress import Progress
from ..tuner.base_model import TINY
from ..tuner.config import IGCConfig
from ..tuner.saving.model_card import RECORD, write_card
from .sets import ANSWERED, answered, generated_sets, read, texts_of_authors


RESULTS, PLOT = "results.json", CURVE
SMOLLM2 = Path(".cache/smollm2/base")  # made by `recipes/smollm2_base.py`
WEIGHTS = "Q4_1 weights"  # every result of it says so: they are not those that were trained
_TITLES = {
    "bigbench": "BIG-bench arithmetic, whole answers",
    "unread_authors": "texts by authors who are not trained",
    "held_out_phrasings": "held-out phrasings, whole answers",
    "six_to_twenty_digits": "6 to 20 digits, whole answers",
    "held_out_silent": "held-out texts without a request (silence is right)",
}

say = functools.partial(print, flush=True)  # a line, at once, also into a pipe


@dataclass(frozen=True)
class Demonstration:
    """Settings of `igc_demonstration`."""

    calibration_items: int = 0  # texts by authors of whom none is trained, to calibrate with; 0: no calibration
    author_items: int = 0  # texts by further such authors to measure with; the model card has a bound from them
    most_wrong: float = 0.01  # share of the texts to calibrate with that may be answered wrongly
    least_confidence: float = 0.0  # smallest threshold that may be chosen
    per_group: int = 200  # test items in each of BIG-bench's 20 subtasks
    per_set: int = 0  # and in each further generated set; 0: BIG-bench alone
    base_per_group: int | None = None  # items of a subtask that the base answers alone, too; None: all
    number_only_tokens: int = 0  # of an answer when the base is asked for the number only; 0: it is not
    max_new_tokens: int = 16  # of all other answers
    batch_size: int = 128
    target: float = 0.98  # share of BIG-bench's items that is to be right
    target_per_group: float = 0.0  # and that of each subtask


class Measurement:
    """The texts of a demonstration, made before the training so that their calculations are not trained.

    `config` is that of the adapter, `tokenizer` the base's, which has a chat template. `sets` has items by name.
    """

    def __init__(self, settings: Demonstration, config: IGCConfig, tokenizer: Any) -> None:
        if tokenizer.chat_template is None:
            raise ValueError("The base's tokenizer has no chat template. Use a model that was tuned to chat.")
        self.settings, self.tokenizer, limits = settings, tokenizer, Limits.of(config)
        self.sets: dict[str, Any] = {"bigbench": bigbench_test_set(settings.per_group, 0)}
        if settings.per_set:
            self.sets = generated_sets(settings.per_group, settings.per_set, 0, limits)
        if settings.author_items:
            self.sets["unread_authors"] = texts_of_authors("measured", settings.author_items, 0, limits)

    @property
    def items(self) -> list[Mapping[str, Any]]:
        """The items with a calculation, which must not be trained."""
        return [item for name in ANSWERED for item in self.sets.get(name, ()) if item.get("igc_operator")]

    def finish(self, trainer: Any, base: str, arguments: Mapping[str, Any], progress: Progress) -> None:
        """Calibrates and measures the saved adapter of a trainer for `base`, the name or folder of a model; writes the
        report, which has the `arguments` and the training's `progress`, and prints the table."""
        folder, model = Path(trainer.args.output_dir), trainer.model
        say(f"Trained in {duration(progress.seconds)}; the adapter is saved, and loaded from disk onto a fresh base.")
        training = self._training(trainer, progress)
        calibration = self._calibrate(model, folder)
        fresh, tokenizer = load_base(base, model.dtype)
        if base == TINY:
            # With the base in it, `pipeline` and `AutoModelForCausalLM` of transformers load the adapter from its
            # folder: they would look for the name `tiny` on the hub.
            for part in (fresh, tokenizer):
                part.save_pretrained(folder)
        measured, alone = self._measure(load_adapter(fresh.to(model.device), folder).to(model.device))
        missed = missed_targets(measured["bigbench"], self.settings.target, self.settings.target_per_group)
        results = {
            "base_model": {
                "name": base,
                "weights": WEIGHTS if Path(base).parent.name == SMOLLM2.parent.name else None,
                "dtype": str(model.dtype),
            },
            "training": training,
            "calibration": calibration,
            "arguments": dict(arguments),
            "sets": measured,
            "base": alone,
            "summary": {
                "base": summary(alone["bigbench"]), "igc": summary(measured["bigbench"]), "targets_missed": missed,
            },
            "settings": asdict(self.settings),
            "versions": versions() | {name: version(name) for name in ("trl", "datasets", "accelerate")},
            "hardware": {
                "machine": platform.platform(),
                "cores": os.cpu_count(),
                "torch_threads": torch.get_num_threads(),
                "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                "bf16": computes_bf16(),
                "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            },
        }  # fmt: skip
        (folder / RESULTS).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        write_card(folder, base, record=card_record(results))
        say(f"\n{report_table(results)}\n")
        say("Targets missed:\n" + "\n".join(f"  {one}" for one in missed) if missed else "All targets are reached.")

    def _training(self, trainer: Any, progress: Progress) -> dict[str, Any]:
        """The part of the results about the training."""
        stage = trainer.args.writing_stage
        return {
            "seed": trainer.args.seed,
            "steps": trainer.state.global_step,
            "stopped_early": progress.stopped_early,
            "distinct_rows": len(trainer.train_dataset),
            "seconds": round(progress.seconds, 1),
            "history": progress.history,
            "writing": None if stage is None else asdict(stage),
        }

    def _calibrate(self, model: Any, folder: Path) -> dict[str, Any] | None:
        """Fits temperature and confidence on held-out texts, and saves them with the adapter."""
        settings = self.settings
        if not settings.calibration_items:
            return None
        limits = Limits.of(model.peft_config["default"])
        texts = texts_of_authors("calibrated", settings.calibration_items, 0, limits)
        most, least = settings.most_wrong, settings.least_confidence
        found = calibrate(model, self.tokenizer, texts, most_wrong=most, least=least)
        save_calibration(found, folder, {"texts": "authors held out"})
        told = ", ".join(f"{one:g} ({kind})" for kind, one in found.kinds.items())
        say(f"Temperature {found.temperature:g}, confidence {told}, fitted on authors held out.")
        return found.as_dict()

    def _measure(self, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reports of all sets, with the adapter and of the base alone."""
        settings, tokenizer, measured = self.settings, self.tokenizer, dict[str, Any]()
        for name, items in self.sets.items():
            if name in ANSWERED:
                measured[name] = self._answered(model, items)
            else:
                measured[name] = read(model, tokenizer, items, batch_size=settings.batch_size)
            say(f"{name}: " + ", ".join(f"{key} {measured[name][key]:,}" for key in ("right", "wrong", "silent")))
        say("The base model answers, without the adapter.")
        with model.disable_adapter():
            return measured, {"bigbench": self._base(model)}

    def _answered(self, model: Any, items: Sequence[Any]) -> dict[str, Any]:
        """Whole answers to items."""
        sizes = {"batch_size": self.settings.batch_size, "max_new_tokens": self.settings.max_new_tokens}
        return answered(model, self.tokenizer, items, **sizes)

    def _base(self, model: Any) -> dict[str, Any]:
        """The base alone on a part of BIG-bench's items: exact whole answers, and the last number of longer ones when
        it is asked for the number only."""
        kept: dict[str, list[Any]] = {}
        for item in self.sets["bigbench"]:
            kept.setdefault(item["group"], []).append(item)
        part = [item for group in kept.values() for item in group[: self.settings.base_per_group]]
        found = self._answered(model, part) | {"number_only": None}
        del found["mistakes"]
        if most := self.settings.number_only_tokens:
            asked, size = [f"{item['prompt']} Answer with the number only." for item in part], self.settings.batch_size
            answers = generate_answers(model, self.tokenizer, asked, batch_size=size, max_new_tokens=most)
            numbers = [re.findall(r"-?[0-9][0-9,]*", one) for one in answers]
            last = [one[-1].replace(",", "") if one else None for one in numbers]
            found["number_only"] = sum(a == b["target"] for a, b in zip(last, part, strict=True)) / len(part)
        return found


# ------------------------------------------------------------------------------------------ the report
def summary(report: Mapping[str, Any]) -> dict[str, float]:
    """Exact match overall, per operation, of the one-digit subtasks, which are complete sets, so that their items
    cannot be kept out of training, and of all others."""
    scores = report["groups"]

    def share(groups: Set[str]) -> float:
        found = [scores[group] for group in groups]
        return sum(round(one["exact_match"] * one["n"]) for one in found) / sum(one["n"] for one in found)

    of_one_digit = {group for group in scores if group.startswith("1_digit_")}
    operations = OPERATION_NAMES.values()
    parts = {name: share({group for group in scores if group.endswith(f"_{name}")}) for name in operations}
    parts |= {"one digit": share(of_one_digit), "two digits and more": share(scores.keys() - of_one_digit)}
    return {"all": report["exact_match"]} | parts


def missed_targets(report: Mapping[str, Any], target: float, per_group: float) -> list[str]:
    """One sentence per missed target of BIG-bench: over all items, and in each subtask."""
    wanted = {"BIG-bench": (report["exact_match"], target)}
    wanted |= {group: (score["exact_match"], per_group) for group, score in report["groups"].items()}
    missed = {name: pair for name, pair in wanted.items() if pair[0] < pair[1]}
    return [f"{name}: {found:.2%} exact, the target is {least:.1%}" for name, (found, least) in missed.items()]


def card_record(results: Mapping[str, Any]) -> str:
    """The section of the model card about the training and the test."""
    training, report = results["training"], results["sets"].get("unread_authors")
    about = (
        f"Trained for {training['steps']:,} steps on {training['distinct_rows']:,} rows, seed {training['seed']}. "
        f"Exact match of whole answers on the {results['sets']['bigbench']['n']:,} questions of a generated BIG-bench "
        "arithmetic set. None of its calculations was trained, except those of one digit, of which the set has all."
    )
    lines = [RECORD, "", about, "", *_parts(results)]
    if report is not None:
        n, wrong = report["n"], report["wrong"]
        low, high = (1000 * bound for bound in interval(wrong, n))
        lines += [
            "",
            f"Of {n:,} texts by authors of whom none was trained or used for `confidence`, {report['right']:,} were "
            f"answered rightly, and {wrong} wrongly: {1000 * wrong / n:.1f} per thousand, with a confidence of 95% "
            f"between {low:.1f} and {high:.1f}.",
        ]
    return "\n".join(lines)


def _parts(results: Mapping[str, Any]) -> list[str]:
    """The table of base and adapter on the parts of BIG-bench."""
    alone, found = (results["summary"][kind] for kind in ("base", "igc"))
    rows = [f"| {part} | {alone[part]:.2%} | {score:.2%} |" for part, score in found.items()]
    return ["| questions | base | with the adapter |", "|---|---|---|", *rows]


def report_table(results: Mapping[str, Any]) -> str:
    """The parts of BIG-bench, then all sets."""
    sets, base = results["sets"], results["base"]["bigbench"]
    width = max(map(len, _TITLES.values())) + 2
    header = f"{'per cent':<{width}}{'n':>6}{'base':>14}{'right':>8}{'wrong':>8}{'silent':>8}"
    lines = [*_parts(results), "", header]
    number = "-" if base["number_only"] is None else f"{100 * base['number_only']:.1f}"
    for name in (name for name in _TITLES if name in sets):
        found = sets[name]
        alone = f"{100 * base['exact_match']:.1f} / {number}" if name == "bigbench" else "-"
        shares = "".join(f"{100 * found[key] / found['n']:>8.1f}" for key in ("right", "wrong", "silent"))
        lines.append(f"{_TITLES[name]:<{width}}{found['n']:>6,}{alone:>14}{shares}")
    lines.append("base: whole answers / the last number when asked for the number only, of a part of the items.")
    if weights := results["base_model"]["weights"]:
        lines.append(f"The base model has {weights}.")
    return "\n".join(line.rstrip() for line in lines)


def failed(folder: str | Path) -> bool:
    """Whether a demonstration missed a target in training to its end."""
    results = json.loads((Path(folder) / RESULTS).read_text(encoding="utf-8"))
    return bool(results["summary"]["targets_missed"]) and not results["training"]["stopped_early"]
