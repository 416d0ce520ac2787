"""`IGCSFTConfig`: the settings of `IGCTrainer`, those of TRL's `SFTConfig` and what a calculator adds.

In: arguments. Out: the same, checked. Nothing is trained here, and what needs a model or a dataset to be judged is
refused by the trainer. Try it: `pytest tests/test_trainer.py -k default`
"""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers.integrations import is_tensorboard_available
from trl import SFTConfig


__all__ = ["IGCSFTConfig"]


@dataclass
class IGCSFTConfig(SFTConfig):
    r"""
    Configuration class for the [`IGCTrainer`].

    This class includes only the parameters that are specific to IGC. For a full list of training arguments, please
    refer to the [`~trl.SFTConfig`] documentation. All defaults but that of `report_to` are those of
    [`~trl.SFTConfig`], so that the trainer behaves alike without a calculator. With one, set `learning_rate` as for
    new modules, not as for a trained model: `3e-3` was good on the embedded base, and TRL's `2e-5` learns next to
    nothing. Where memory allows, also set `gradient_checkpointing=False`: it saves the second forward pass. For a run
    that may be interrupted, set `enable_jit_checkpoint=True`: SIGTERM then saves a checkpoint.

    Parameters:
        > Parameters that control the calculator

        igc_loss_weight (`float`, *optional*, defaults to `1.0`):
            Weight of the reading loss (the cross-entropy of operator, operands and signs, mean over the supervised
            steps) in the training loss. The reading learns from nothing else: `0.0` leaves it as it is.
        igc_muon_learning_rate (`float`, *optional*):
            Learning rate of Muon for the calculator's weight matrices; everything else keeps `optim` AdamW with
            `learning_rate`. `None`: AdamW for all. The reading learns faster with it (`benchmarks/optimizers.py`);
            `4e-3` beside a `learning_rate` of `3e-3` was good on the embedded base. Not for sharded parameters (FSDP,
            DeepSpeed).
        igc_writing_every (`int`, *optional*, defaults to `1`):
            Compute the language-model loss, from which the writing learns, in one step of so many. The other steps
            end behind the reading: no later layer is run, which is several times as fast, and the reading needs more
            steps than the writing. On one process only, and with operand columns.
        igc_reading_steps (`int`, *optional*, defaults to `0`):
            Train the reading alone for so many steps at first, each of which ends behind the reading; then both. On
            one process only, and with operand columns.

        > Parameters that control what is measured and reported

        igc_exact_match (`int`, *optional*, defaults to `0`):
            At every evaluation, answer so many rows of each eval set by greedy generation, from their prompts alone,
            and compare the whole answers: `eval_exact_match` (`eval_NAME_exact_match` with a dict of eval sets), which
            `metric_for_best_model="exact_match"` may name. The rows are the same each time, drawn with `seed`; of a
            stream they are its first. Rows in prompt-completion or messages form; others are counted in
            `eval_exact_match_skipped`. `0`: none. Not for sharded parameters (FSDP, DeepSpeed).
        igc_exact_match_tokens (`int`, *optional*, defaults to `24`):
            The longest answer, in tokens, its end included. One that has not ended by then counts as wrong, and in
            `eval_exact_match_cut`; rows whose right answer is longer are skipped.
        igc_curves (`bool`, *optional*, defaults to `True`):
            Draw losses, read accuracy and exact match over the steps into `learning_curves.png` in `output_dir` when
            training ends. Needs matplotlib.
        report_to (`str` or `list[str]`, *optional*):
            As in [`~transformers.TrainingArguments`]. `None`: `"tensorboard"` where it is installed, else `"none"`.
    """

    igc_loss_weight: float = field(
        default=1.0,
        metadata={
            "help": "Weight of the reading loss (the cross-entropy of operator, operands and signs, mean over the "
            "supervised steps) in the training loss. The reading learns from nothing else: `0.0` leaves it as it is."
        },
    )
    igc_muon_learning_rate: float | None = field(
        default=None,
        metadata={"help": "Learning rate of Muon for the calculator's weight matrices. None: AdamW for all."},
    )
    igc_writing_every: int = field(
        default=1,
        metadata={"help": "The language-model loss is computed in one step of so many; others train the reading."},
    )
    igc_reading_steps: int = field(
        default=0,
        metadata={"help": "The first so many steps train the reading alone."},
    )
    igc_exact_match: int = field(
        default=0,
        metadata={"help": "Rows of each eval set that are answered by greedy generation at every evaluation."},
    )
    igc_exact_match_tokens: int = field(
        default=24,
        metadata={"help": "The longest answer for `igc_exact_match`, in tokens, its end included."},
    )
    igc_curves: bool = field(
        default=True,
        metadata={"help": "Draw `learning_curves.png` into `output_dir` when training ends."},
    )
    report_to: None | str | list[str] = field(
        default=None,
        metadata={"help": "Integrations to report to. None: tensorboard where it is installed, else none."},
    )

    def __post_init__(self) -> None:
        if self.report_to is None:
            self.report_to = "tensorboard" if is_tensorboard_available() else "none"
        super().__post_init__()
        if self.igc_writing_every < 1:
            raise ValueError(f"`igc_writing_every={self.igc_writing_every}` is not at least 1. Leave it out for 1.")
        for name, least in (("igc_reading_steps", 0), ("igc_exact_match", 0), ("igc_exact_match_tokens", 1)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"`{name}={getattr(self, name)}` is not at least {least}. Set it so, or leave it out."
                )
        if 0 < self.max_steps <= self.igc_reading_steps:
            raise ValueError(
                f"`igc_reading_steps={self.igc_reading_steps}` leaves none of the `max_steps={self.max_steps}` for "
                "the writing. Set `max_steps` higher, or `igc_reading_steps` lower."
            )
        if not self.igc_loss_weight >= 0:
            raise ValueError(f"`igc_loss_weight={self.igc_loss_weight}` is negative. Set it to 0 or more.")
        if self.igc_muon_learning_rate is not None and not self.igc_muon_learning_rate > 0:
            raise ValueError(
                f"`igc_muon_learning_rate={self.igc_muon_learning_rate}` is not above 0. Leave it out for AdamW alone."
            )
