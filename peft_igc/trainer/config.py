"""`IGCSFTConfig`: the arguments of `IGCTrainer`, which are those of TRL's `SFTConfig` and a few for the calculator.

Those that depend on the model or the dataset are validated by the trainer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, get_args, get_type_hints

from trl import SFTConfig

from ..tuner.config_values import with_help


Settings = TypeVar("Settings")

TRL_RATE = SFTConfig.learning_rate
CALCULATOR_RATE = 1e-3  # without any setting
_CURES = {float: "a number, such as 1.0e-3: YAML reads 1e-3 as a text", int: "an integer", bool: "true or false"}


def settings_of(kind: type[Settings], given: Mapping[str, Any], name: str) -> Settings:
    """A dataclass from a mapping of some of its fields, which is the argument `name`.

    Raises:
        ValueError: The mapping is none, has another key, lacks one that is required, or has a value of another type.
    """
    hints = get_type_hints(kind)
    for key, value in given.items() if isinstance(given, Mapping) else ():
        wanted = get_args(hints.get(key)) or (hints.get(key),)
        if wanted[0] in _CURES and type(value) not in (wanted if float not in wanted else (*wanted, int)):
            cure = _CURES[wanted[0]]
            raise ValueError(f"`{key}={value!r}` of `{name}` is of type {type(value).__name__}. Write {cure}.")
    try:
        return kind(**given)
    except TypeError as error:  # which names a key that is unknown or missing
        known = ", ".join(one.name for one in fields(kind))  # type: ignore[arg-type]
        raise ValueError(f"`{name}` {given!r:.80} is no mapping of {known}: {error}.") from error


@dataclass(frozen=True)
class WritingStage:
    """Settings of `igc_writing`, the second of two stages: the writing alone, on prompts that the model reads once."""

    steps: int
    batch_size: int = 32  # a batch keeps its rows, which have similar lengths
    rows: int = 2048  # with a result, at most; keys and values of their prompts are kept in memory
    learning_rate: float = 3e-3  # of AdamW
    muon_learning_rate: float = 1e-2  # for matrices
    weight_decay: float = 0.1
    warmup_steps: int = 10
    # Of generated rows: those whose results have all leading digits in turn; and of half of the others, the digits of
    # the longest operand, whether results have all lengths equally often, and the fraction that has an expression.
    covering: int = 0
    max_digits: int = 20
    equal_lengths: bool = False
    expressions: float = 0.4

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}={getattr(self, name)}` of `igc_writing` is not at least 1.")
        if not 0 <= self.covering <= self.rows:
            raise ValueError(f"`covering={self.covering}` of `igc_writing` is not between 0 and `rows={self.rows}`.")

    def rate(self, step: int) -> float:
        """The factor of the learning rates: a linear warm-up, then a cosine to 0."""
        warmup = max(self.warmup_steps, 1)
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(self.steps - warmup, 1)))

    def shortened(self, part: float) -> WritingStage:
        """The stage after a reading that had only this part of its steps."""
        if part >= 1:
            return self
        short = {name: math.ceil(part * getattr(self, name)) for name in ("steps", "warmup_steps", "covering")}
        return replace(self, **short, rows=max(self.batch_size, math.ceil(part * self.rows)))


@with_help
@dataclass
class IGCSFTConfig(SFTConfig):
    r"""
    Configuration class for the [`IGCTrainer`].

    This class includes only the parameters that are specific to IGC. For a full list of training arguments, please
    refer to the [`~trl.SFTConfig`] documentation. All its defaults are kept, so without a calculator both trainers
    behave the same. With a calculator, consider these:

    - `activation_checkpointing`: set it to `False` if memory allows. This saves the second forward pass. All versions
      of transformers take this name here, which is theirs from 5.23 on.
    - `enable_jit_checkpoint`: set it to `True` if the run may be interrupted. SIGTERM then saves a checkpoint.

    Parameters:
        > Parameters that control the calculator

        igc_loss_weight (`float`, *optional*, defaults to `1.0`):
            Weight of the reading loss in the training loss. The reading loss is the cross-entropy of operator,
            operands and signs, averaged over the supervised steps. The reading learns from no other loss, so `0.0`
            does not train it.
        igc_learning_rate (`float`, *optional*):
            Learning rate of AdamW for the calculator; all other trained parameters, of a LoRA or the base, follow
            `learning_rate`. `None`: `learning_rate`, too, unless that is TRL's default of `2e-5`, with which a new
            module hardly learns; then `1e-3`.
        igc_muon_learning_rate (`float`, *optional*):
            Learning rate of Muon for the weight matrices of the calculator. All other parameters are trained by
            AdamW, as they all are with `None`. The reading learns faster with Muon;
            `4e-3` with a `learning_rate` of `3e-3` was good on the embedded base.
            Not supported for sharded parameters (FSDP, DeepSpeed).
        igc_writing_every (`int`, *optional*, defaults to `1`):
            One step in this many computes the language-model loss, which trains the writing. The other steps end after
            the reading and run no later layer, so they are several times faster; the reading needs more steps than the
            writing. Requires a single process and operand columns.
        igc_writing (`dict`, *optional*):
            Train in two stages: all steps of the run train the reading alone and end after it; then the writing is
            trained on prompts that the model reads once, with the settings of [`WritingStage`]. Several times faster
            than whole passes. Requires `max_steps`, a single process, a calculator and nothing else that is trained,
            and rows in which only the last anchor is followed by labels.

        > Parameters that control evaluation

        igc_exact_match (`int`, *optional*, defaults to `0`):
            Number of rows of each eval set that are answered by greedy generation at every evaluation, given only
            their prompts. Whole answers are compared, and the result is logged as `eval_exact_match`, or
            `eval_NAME_exact_match` with a dict of eval sets. It can be used as `metric_for_best_model="exact_match"`.
            The rows are drawn with `seed` and the same each time; of a stream, the first rows are used. Rows without
            a prompt and an answer are counted in `eval_exact_match_skipped`. Not supported for sharded parameters
            (FSDP, DeepSpeed).
        igc_exact_match_tokens (`int`, *optional*, defaults to `24`):
            Maximum number of tokens of an answer, including the end token. A generated answer without an end is wrong
            and also counted in `eval_exact_match_cut`. Rows whose correct answer is longer are skipped.
    """

    _VALID_DICT_FIELDS = [*SFTConfig._VALID_DICT_FIELDS, "igc_writing"]

    igc_loss_weight: float = 1.0
    igc_learning_rate: float | None = None
    igc_muon_learning_rate: float | None = None
    igc_writing_every: int = 1
    igc_writing: dict[str, Any] | str | None = None
    # The name of `gradient_checkpointing` in transformers from version 5.23 on, so that it holds in all of them.
    activation_checkpointing: bool | None = field(
        default=None, metadata={"help": "Replaces `gradient_checkpointing`.", "nargs": "?", "const": True}
    )
    igc_exact_match: int = 0
    igc_exact_match_tokens: int = 24

    def __post_init__(self) -> None:
        # Both names at once, so that no version warns of the other one, which TRL (1.16) sets by default.
        if self.activation_checkpointing is None:
            self.activation_checkpointing = self.gradient_checkpointing  # type: ignore[has-type]
        self.gradient_checkpointing = self.activation_checkpointing
        super().__post_init__()
        for name, least in (("igc_writing_every", 1), ("igc_exact_match", 0), ("igc_exact_match_tokens", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}={getattr(self, name)}` is not at least {least}. Set it to {least} or more.")
        if not self.igc_loss_weight >= 0:  # NaN is refused too
            raise ValueError(f"`igc_loss_weight={self.igc_loss_weight}` is negative. Set it to 0 or more.")
        for name in ("igc_learning_rate", "igc_muon_learning_rate"):
            if (rate := getattr(self, name)) is not None and not rate > 0:
                raise ValueError(f"`{name}={rate}` is not above 0. Leave it out to train without a rate of its own.")

        if self.writing_stage is None:
            return
        if self.igc_writing_every > 1:
            raise ValueError(
                "`igc_writing_every` and `igc_writing` are two ways to train the writing. Leave one of them out."
            )
        if self.activation_checkpointing:
            raise ValueError(
                "`igc_writing` keeps what the model reads of each prompt, and activation checkpointing, which is on "
                "by TRL's default, keeps nothing. Set `activation_checkpointing=False`."
            )
        if self.max_steps <= 0:
            raise ValueError("`igc_writing` needs the number of steps that train the reading. Set `max_steps`.")

    @property
    def writing_stage(self) -> WritingStage | None:
        """The settings of `igc_writing`."""
        return None if self.igc_writing is None else settings_of(WritingStage, self.igc_writing, "igc_writing")  # type: ignore[arg-type]

    @property
    def calculator_learning_rate(self) -> float:
        """The learning rate of AdamW for the calculator, see `igc_learning_rate`."""
        if self.igc_learning_rate is not None:
            return self.igc_learning_rate
        return CALCULATOR_RATE if self.learning_rate == TRL_RATE else self.learning_rate
