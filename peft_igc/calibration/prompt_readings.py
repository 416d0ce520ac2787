"""Reads prompts without answering them: a pass ends after the calculator's layer, a tenth of a whole one or less.

In: a model with an IGC adapter, its tokenizer, prompts. Out: for each prompt a `PromptReading`, what the calculator
would write and the logits that say how sure it is. Nothing is generated and nothing is trained.
Try it: `pytest tests/calibration/test_calibrate.py`

Shapes: B rows of a batch, A anchors per row, R digits of a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..inference.decoding import batches_of, eval_mode, left_padded, padding_token, prompt_tokens
from ..mappings.decisions import Decision, certainty
from ..mappings.readings import Pointing
from ..numbers.calculator import Status
from ..numbers.digits import canonical
from ..tuner.call import observing
from ..tuner.config import IGCConfig
from ..tuner.hooks.wrapper import active_config
from ..tuner.steps import Step, Writing


__all__ = ["TEMPERATURES", "PromptReading", "read_prompts", "read_results"]

# Those for which the probability of a reading is computed: a fixed grid, so that no logits have to be kept.
TEMPERATURES = tuple(round(2 ** (step / 4), 4) for step in range(-8, 21))


class PromptReading(NamedTuple):
    """What the calculator reads at the last anchor of a prompt."""

    result: str | None  # what it would write with `confidence=0`; None if it would be silent
    by_rule: bool  # whether the text alone decides, so that no confidence refuses it
    probabilities: tuple[float, ...]  # of the reading, for each of `TEMPERATURES`

    def is_right(self, target: str | None) -> bool:
        """Whether what would be written is the target; a target of None asks for silence."""
        return target is not None and self.result == target


class _Read(Exception):  # noqa: N818 - not an error: it ends a pass after the reading
    """Ends a forward pass with the step that was read."""

    def __init__(self, step: Step) -> None:
        super().__init__("the pass ends after the reading")
        self.step = step


def read_prompts(model: Any, tokenizer: Any, prompts: Sequence[str], *, batch_size: int = 64) -> list[PromptReading]:
    """Readings in the order of the prompts.

    Args:
        model: a causal LM with an active IGC adapter. Its mode, temperature and confidence are as before afterwards.
        tokenizer: the model's tokenizer.
        prompts: user messages.
        batch_size: prompts per pass.

    Raises:
        ValueError: the model has no active IGC adapter, and as in `inference.generate_answers`.
    """
    config = _config(model)
    own = config.confidence, config.temperature
    config.confidence, config.temperature = 0.0, 1.0
    found = [PromptReading(None, False, (0.0,) * len(TEMPERATURES))] * len(prompts)
    try:
        for chosen, step in _steps(model, tokenizer, prompts, batch_size, raw=False):
            decisions = [step.decision(row, at) for row, at in enumerate(step.anchors.argmax(1).tolist())]
            final = [one is not None and one.said.is_final for one in decisions]
            made = map(PromptReading, _results(step), final, _chances(step, decisions))
            for at, reading in zip(chosen, made, strict=True):
                found[at] = reading
    finally:
        config.confidence, config.temperature = own
    return found


def read_results(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, batch_size: int = 64, raw: bool = False
) -> list[str | None]:
    """What the calculator would write, with its own confidence and temperature, or None.

    Arguments and errors as of `read_prompts`; with `raw`, prompts are plain texts.
    """
    _config(model)
    found: list[str | None] = [None] * len(prompts)
    for chosen, step in _steps(model, tokenizer, prompts, batch_size, raw):
        for at, result in zip(chosen, _results(step), strict=True):
            found[at] = result
    return found


def _config(model: Any) -> IGCConfig:
    """The config of the active adapter."""
    config = active_config(model)
    if config is None:
        raise ValueError("The model has no active IGC adapter, so there is no reading. Load one with `--adapter`.")
    return config


def _steps(
    model: Any, tokenizer: Any, prompts: Sequence[str], batch_size: int, raw: bool
) -> Iterator[tuple[list[int], Step]]:
    """The indices of the prompts in each batch that has an anchor, and the step of a pass that ends after it."""

    def watch(seen: Step | Writing) -> None:
        if isinstance(seen, Step):
            raise _Read(seen)

    rows = prompt_tokens(tokenizer, prompts, raw)
    for chosen in batches_of(rows, batch_size):
        batch = left_padded([rows[at] for at in chosen], padding_token(model, tokenizer), model.device)
        try:
            with eval_mode(model), torch.no_grad(), observing(watch):
                model(**batch, use_cache=False, logits_to_keep=1)
        except _Read as read:
            yield chosen, read.step


def _last(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices [B] of the rows, and of the latest anchor in each."""
    at = step.anchors.argmax(1)
    return torch.arange(len(at), device=at.device), at


def _results(step: Step) -> list[str | None]:
    """The result at the last anchor of each row; None where the status is not ok."""
    at = _last(step)
    speaks = step.result.status[at] == int(Status.OK)  # [B]
    numbers = (x[at][speaks] for x in (step.result.digits, step.result.sign, step.result.scale))
    found = iter(canonical(*numbers))
    return [next(found) if ok else None for ok in speaks.tolist()]


def _chances(step: Step, decisions: Sequence[Decision | None]) -> list[tuple[float, ...]]:
    """For each row the probability that `confidence` is compared with, at each of `TEMPERATURES`.

    The step was read at a temperature of 1, and `decisions` are those at the last anchors.
    """
    if step.reading is None:
        return [(0.0,) * len(TEMPERATURES)] * len(decisions)
    found = []
    for temperature in TEMPERATURES:
        reading = step.reading.cooled(temperature)
        if step.decisions and isinstance(reading, Pointing):
            asked, sure = (x[_last(step)].tolist() for x in reading.chances()[:2])
            found.append([_certainty(*one) for one in zip(decisions, asked, sure, strict=True)])
        else:
            found.append(reading.choose().probability[_last(step)].tolist())
    return list(zip(*found, strict=True))


def _certainty(decision: Decision | None, asked: float, sure: float) -> float:
    """The probability that `confidence` is compared with in a decision."""
    if decision is None:
        return 0.0
    return certainty(asked, sure, stated=decision.stated or decision.said.ruled, ruled=decision.said.ruled)
