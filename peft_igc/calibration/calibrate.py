"""`peft-igc calibrate`: a temperature and a threshold for texts of yours, saved with the adapter.

In: a model with an adapter, and items `{"prompt", "target"}`; a target of null asks for silence. Out: the config of
the adapter with `temperature`, with which the probability of a reading is how often it is right, and `confidence`, the
smallest threshold that keeps wrong answers below a share; a record of how they were found, and a plot of the operating
curve. An adapter with functions has a threshold for each kind of operations, fitted to the prompts in which this kind
is read. Half of the items fit the temperature and choose the threshold; the curve of the other half is reported. Rules
alone decide some prompts, which no threshold silences. Which reading is the most probable one does not change.

Prompts are read without being answered: a pass ends after the calculator's layer, a tenth of a whole one or less.
Nothing is generated and nothing is trained.

Shapes: B rows of a batch, A anchors per row, R digits of a result.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft.utils import CONFIG_NAME

from ..inference.decoding import batches_of, eval_mode, left_padded, padding_token, prompt_tokens
from ..mappings.decisions import ARITHMETIC, KINDS, LEAST_ASKED, Decision, certainty, kind_of, least_of
from ..mappings.readings import Pointing
from ..numbers.calculator import Status
from ..numbers.digits import canonical
from ..tuner.base_model import innermost_model
from ..tuner.call import observing
from ..tuner.config import IGCConfig
from ..tuner.hooks.wrapper import active_config
from ..tuner.saving.model_card import write_card
from ..tuner.steps import Step


FEWEST = 20  # items that a threshold or a temperature is fitted to
RECORD, CURVE = "calibration.json", "operating_curve.png"
_LEAST = 1e-6  # a probability of 0 or 1 in float32 has no logarithm
# Those for which the probability of a reading is computed: a fixed grid, so that no logits have to be kept.
TEMPERATURES = tuple(round(2 ** (step / 4), 4) for step in range(-8, 21))
THRESHOLDS = (
    0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985,
    0.99, 0.9925, 0.995, 0.9975, 0.999, 0.9995, 0.9999,
)  # fmt: skip


class PromptReading(NamedTuple):
    """What the calculator reads at the last anchor of a prompt."""

    result: str | None  # what it would write if it were sure enough; None if it would be silent
    by_rule: bool  # whether the text alone decides, so that no confidence refuses it
    probabilities: tuple[float, ...]  # of the reading, for each of `TEMPERATURES`
    kind: str = ARITHMETIC  # of the operation that is read, even where no calculation is asked for
    least: float = 0.0  # smallest probability with which it is written, whatever `confidence` is


class OperatingPoint(NamedTuple):
    """Numbers of prompts that are answered with their target, with anything else, or not, with one threshold."""

    confidence: float
    right: int
    wrong: int
    silent: int


class Calibration(NamedTuple):
    """Temperature and confidence for the adapter's config, the result of `fit_temperature`, and the operating curves
    of the items that were fitted and of the others, by kind of operations."""

    temperature: float
    confidence: float | dict[str, float]
    fit: Mapping[str, float | int]
    fitted: dict[str, list[OperatingPoint]]
    tested: dict[str, list[OperatingPoint]]

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        curves = {
            name: {kind: [point._asdict() for point in curve] for kind, curve in getattr(self, name).items()}
            for name in ("fitted", "tested")
        }
        return {"temperature": self.temperature, "confidence": self.confidence, "fit": dict(self.fit), **curves}

    @property
    def kinds(self) -> dict[str, float]:
        """The threshold of each kind that was fitted."""
        return {kind: least_of(self.confidence, kind) for kind in self.fitted}


def check_items(items: Sequence[Mapping[str, Any]]) -> None:
    """Refuses items that cannot calibrate.

    Raises:
        ValueError: an item without a prompt, with a target that is neither text nor null, or fewer than 20 items.
    """
    for number, item in enumerate(items, start=1):
        if not isinstance(item.get("prompt"), str):
            raise ValueError(f"Item {number}: `prompt` must be a string, got {item.get('prompt')!r}.")
        if "target" not in item or not isinstance(item["target"], str | int | None):
            raise ValueError(
                f"Item {number}: `target` must be the result as a string, or null where the calculator should be "
                f"silent, got {item.get('target', 'no `target`')!r}."
            )
    if len(items) < FEWEST:
        raise ValueError(
            f"{len(items)} items are too few for a temperature. Give {FEWEST} or more, hundreds if you can."
        )


def calibrate(
    model: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    *,
    most_wrong: float = 0.01,
    least: float = 0.0,
    batch_size: int = 64,
) -> Calibration:
    """Fits temperature and thresholds of the active adapter; `save_calibration` puts them into its config.

    Of an adapter with functions, a kind of operations that is read in fewer than `FEWEST` of the items that are fitted
    keeps its threshold if it is not below `least`, and is not among the `kinds` of the result.

    Args:
        model: a model with an active IGC adapter.
        tokenizer: its tokenizer.
        items: held-out prompts with targets, as `check_items` accepts. Every second one is fitted.
        most_wrong: share of the items that may be answered wrongly, of each kind of operations.
        least: smallest threshold that may be chosen, for users' texts that are misread more often than these.
        batch_size: prompts per pass.
    """
    check_items(items)
    targets = [None if item["target"] is None else str(item["target"]).strip() for item in items]
    readings = read_prompts(model, tokenizer, [item["prompt"] for item in items], batch_size=batch_size)
    temperature, fit = fit_temperature(readings[::2], targets[::2])
    counts = Counter(one.kind for one in readings[::2])
    config = _config(model)
    functions = any(kind_of(one) != ARITHMETIC for one in config.operations)
    kinds = [kind for kind in KINDS if counts[kind] >= (FEWEST if functions else 1)]
    if not kinds:
        raise ValueError(
            f"Of {len(items)} items every second one is fitted, and an adapter with functions needs {FEWEST} of a "
            f"kind ({', '.join(KINDS)}) among these. Give more items."
        )
    fitted, tested = (
        {kind: operating_curve(readings[start::2], targets[start::2], temperature, kind) for kind in kinds}
        for start in (0, 1)
    )
    chosen = {kind: choose_confidence(curve, most_wrong, least).confidence for kind, curve in fitted.items()}
    kept = {kind: max(least_of(config.confidence, kind), least) for kind in KINDS}
    return Calibration(temperature, kept | chosen if functions else chosen[ARITHMETIC], fit, fitted, tested)


def fit_temperature(
    readings: Sequence[PromptReading], targets: Sequence[str | None]
) -> tuple[float, dict[str, float | int]]:
    """The temperature, and of the prompts that were used number, right ones, and nats per prompt without and with it.

    A target is the result that answers a prompt, or None if the calculator should be silent. 1.0 without any prompt.
    """
    pairs = zip(readings, targets, strict=True)
    known = TEMPERATURES.index(1.0)
    used = [
        (one, one.result == target)
        for one, target in pairs
        if one.result is not None and not one.by_rule and one.probabilities[known] >= one.least
    ]
    if not used:
        return 1.0, {"n": 0, "right": 0, "nats_before": 0.0, "nats_after": 0.0}
    nats = []
    for index in range(len(TEMPERATURES)):
        chances = [min(max(one.probabilities[index], _LEAST), 1 - _LEAST) for one, _ in used]
        logs = (-math.log(p if hit else 1 - p) for p, (_, hit) in zip(chances, used, strict=True))
        nats.append(sum(logs) / len(used))
    best = min(range(len(nats)), key=nats.__getitem__)
    right = sum(hit for _, hit in used)
    found = {"n": len(used), "right": right, "nats_before": nats[TEMPERATURES.index(1.0)], "nats_after": nats[best]}
    return TEMPERATURES[best], found


def operating_curve(
    readings: Sequence[PromptReading], targets: Sequence[str | None], temperature: float, kind: str | None = None
) -> list[OperatingPoint]:
    """A point for each of `THRESHOLDS`; arguments as in `fit_temperature`. With a `kind`, of its readings alone."""
    index, points = TEMPERATURES.index(temperature), []
    pairs = [pair for pair in zip(readings, targets, strict=True) if kind in (None, pair[0].kind)]
    for threshold in THRESHOLDS:
        answered = [
            one.result == target
            for one, target in pairs
            if one.result is not None and (one.by_rule or one.probabilities[index] >= max(threshold, one.least))
        ]
        right = sum(answered)
        points.append(OperatingPoint(threshold, right, len(answered) - right, len(pairs) - len(answered)))
    return points


def choose_confidence(curve: Sequence[OperatingPoint], most_wrong: float, least: float = 0.0) -> OperatingPoint:
    """The first point from the threshold `least` on whose wrong answers are at most this share of all prompts.

    Wrong answers that no threshold silences do not count: they would drive it up in vain, and silence right ones.

    Raises:
        ValueError: `least` is above all thresholds.
    """
    if least > (last := curve[-1].confidence):
        raise ValueError(f"A least threshold of {least:g} is above {last:g}, the last one of the curve. Lower it.")
    most = curve[-1].wrong + most_wrong * sum(curve[0][1:])
    return next(point for point in curve if point.confidence >= least and point.wrong <= most)


def save_calibration(found: Calibration, folder: str | Path, facts: Mapping[str, Any]) -> None:
    """Writes temperature and confidence into the saved config of an adapter, with the record, the plot and the card.

    `facts` is what else the record says, such as the name of the texts.
    """
    folder = Path(folder)
    path = folder / CONFIG_NAME
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"temperature": found.temperature, "confidence": found.confidence}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    record = {**facts, **found.as_dict()}
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    write_card(folder, config.get("base_model_name_or_path"))
    draw_curves(found, folder / CURVE)


def draw_curves(found: Calibration, path: Path) -> None:
    """Plots the curves of the items that were fitted and of the others side by side, with a line at the threshold."""
    # Imported here, without `pyplot`, whose state belongs to the caller.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4 * len(found.kinds)), layout="constrained")
    axes = iter(figure.subplots(len(found.kinds), 2).flat)
    places = range(len(THRESHOLDS))
    for kind, name in itertools.product(found.kinds, ("fitted", "tested")):
        axis, curve = next(axes), getattr(found, name)[kind]
        total = max(sum(curve[0][1:]), 1)
        for field, colour in (("right", "tab:green"), ("wrong", "tab:red"), ("silent", "tab:gray")):
            shares = [100 * getattr(point, field) / total for point in curve]
            axis.plot(places, shares, color=colour, label=field)
        at = sum(threshold < found.kinds[kind] for threshold in THRESHOLDS)
        axis.axvline(min(at, len(THRESHOLDS) - 1), color="black", linewidth=0.8, linestyle="--")
        shown = range(0, len(THRESHOLDS), 3)
        axis.set_xticks(list(shown), [f"{THRESHOLDS[place]:g}" for place in shown], rotation=60)
        axis.set(title=f"{kind}, {name} ({total:,})", xlabel="confidence", ylabel="per cent", ylim=(-2, 102))
    axis.legend()
    figure.savefig(path, dpi=120)


# ------------------------------------------------------------------------------------------ reading prompts
def read_prompts(model: Any, tokenizer: Any, prompts: Sequence[str], *, batch_size: int = 64) -> list[PromptReading]:
    """Readings in the order of the prompts, which are user messages.

    The model's mode, temperature and confidence are as before afterwards.

    Raises:
        ValueError: the model has no active IGC adapter, and as in `inference.generate_answers`.
    """
    config = _config(model)
    own = config.confidence, config.temperature
    config.confidence, config.temperature = -1.0, 1.0
    found: dict[int, PromptReading] = {}
    try:
        for chosen, step, last in _steps(model, tokenizer, prompts, batch_size, raw=False):
            decisions = [step.decision(row, at) for row, at in enumerate(last[1].tolist())]
            final = [one is not None and one.said.is_final for one in decisions]
            kinds = [ARITHMETIC if one is None else one.kind for one in decisions]
            least = [0.0 if one is None else LEAST_ASKED for one in decisions]
            made = map(PromptReading, _results(step, last), final, _chances(step, last, decisions), kinds, least)
            found |= zip(chosen, made, strict=True)
    finally:
        config.confidence, config.temperature = own
    nothing = PromptReading(None, False, (0.0,) * len(TEMPERATURES))
    return [found.get(at, nothing) for at in range(len(prompts))]


def read_results(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, batch_size: int = 64, raw: bool = False
) -> list[str | None]:
    """What the calculator would write, with its own confidence and temperature, or None.

    Arguments and errors as of `read_prompts`; with `raw`, prompts are plain texts.
    """
    _config(model)
    found: dict[int, str | None] = {}
    for chosen, step, last in _steps(model, tokenizer, prompts, batch_size, raw):
        found |= zip(chosen, _results(step, last), strict=True)
    return [found.get(at) for at in range(len(prompts))]


def _config(model: Any) -> IGCConfig:
    config = active_config(model)
    if config is None:
        raise ValueError("The model has no active IGC adapter, so there is no reading. Load one with `--adapter`.")
    return config


_Last = tuple[torch.Tensor, torch.Tensor]  # index of the latest anchor of each row in a tensor [B, A, ...]


class _Read(Exception):  # noqa: N818 - not an error: it ends a pass after the reading
    """Ends a forward pass with the step that was read."""


def _steps(
    model: Any, tokenizer: Any, prompts: Sequence[str], batch_size: int, raw: bool
) -> Iterator[tuple[list[int], Step, _Last]]:
    """The indices of the prompts in each batch that has an anchor, and the step of a pass that ends after it."""

    def watch(seen: Step) -> None:  # a pass reads before it writes
        raise _Read(seen)

    rows = prompt_tokens(tokenizer, prompts, raw)
    positioned = "position_ids" in inspect.signature(type(innermost_model(model)).forward).parameters
    for chosen in batches_of(rows, batch_size):
        batch = left_padded([rows[at] for at in chosen], padding_token(model, tokenizer), model.device)
        if positioned:  # as `generate` passes them: a base may have learned positions, which padding would move
            batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
        try:
            with eval_mode(model), torch.no_grad(), observing(watch):
                model(**batch, use_cache=False, logits_to_keep=1)
        except _Read as read:
            step = read.args[0]
            at = step.anchors.argmax(1)
            yield chosen, step, (torch.arange(len(at), device=at.device), at)


def _results(step: Step, last: _Last) -> list[str | None]:
    """The result at the last anchor of each row; None where the status is not ok."""
    digits, sign, status, scale = (x[last] for x in step.result)
    speaks = status == int(Status.OK)  # [B]
    found = iter(canonical(digits[speaks], sign[speaks], scale[speaks]))
    return [next(found) if ok else None for ok in speaks.tolist()]


def _chances(step: Step, last: _Last, decisions: Sequence[Decision | None]) -> list[tuple[float, ...]]:
    """For each row the probability that `confidence` is compared with, at each of `TEMPERATURES`.

    The step was read at a temperature of 1, and `decisions` are those at the last anchors.
    """
    assert step.reading is not None  # observers see all readings
    found = []
    for temperature in TEMPERATURES:
        reading = step.reading.cooled(temperature)
        if isinstance(reading, Pointing):
            parts = zip(decisions, *(x[last].tolist() for x in reading.chances()[:3]), strict=True)
            found.append([0.0 if one is None else certainty(chances, one.stated) for one, *chances in parts])
        else:
            found.append(reading.choose().probability[last].tolist())
    return list(zip(*found, strict=True))
