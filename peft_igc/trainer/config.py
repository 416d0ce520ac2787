"""`IGCSFTConfig`: the arguments of `IGCTrainer`, which are those of TRL's `SFTConfig` and a few for the calculator.

In: arguments. Out: the same arguments, validated. Arguments that depend on the model or the dataset are validated by
the trainer.
Try it: `pytest tests/trainer/test_trainer.py -k default`
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from trl import SFTConfig


__all__ = ["CALCULATOR_RATE", "TRL_RATE", "IGCSFTConfig"]

TRL_RATE = next(f.default for f in fields(SFTConfig) if f.name == "learning_rate")
CALCULATOR_RATE = 1e-3  # without any setting


@dataclass
class IGCSFTConfig(SFTConfig):
    r"""
    Configuration class for the [`IGCTrainer`].

    This class includes only the parameters that are specific to IGC. For a full list of training arguments, please
    refer to the [`~trl.SFTConfig`] documentation. All its defaults are kept, so without a calculator both trainers
    behave the same. With a calculator, consider these:

    - `gradient_checkpointing`: set it to `False` if memory allows. This saves the second forward pass.
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
            Compute the language-model loss, which trains the writing, in the first of every `igc_writing_every` steps.
            The other steps end after the reading and run no later layer, so they are several times faster; the reading
            needs more steps than the writing. Requires a single process and operand columns.
        igc_reading_steps (`int`, *optional*, defaults to `0`):
            Number of steps at the beginning that train the reading alone and end after it. The writing has the whole
            schedule of the learning rate in the steps that remain, if the schedule depends on the step alone; a LoRA
            or base that is trained, too, goes on with the run's. Requires a single process and operand columns.

        igc_skip_silent_rows (`bool`, *optional*, defaults to `False`):
            Leave out the layers after the calculator's for training rows in which the labels ask it for no result.
            Where nothing else is trained, their language-model loss has no gradient: weights are the same, and the
            logged `loss` and token metrics are those of the other rows. Rows without any label of the language model
            are always left out. Not done in several processes.

        > Parameters that control evaluation and reports

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
        igc_curves (`bool`, *optional*, defaults to `True`):
            Whether to plot losses, read accuracy and exact match against the step at the end of the training, into
            `learning_curves.png` in `output_dir`. Requires matplotlib.
    """

    igc_loss_weight: float = field(
        default=1.0,
        metadata={"help": "Weight of the reading loss in the training loss. The reading learns from no other loss."},
    )
    igc_learning_rate: float | None = field(
        default=None,
        metadata={"help": "AdamW's learning rate of the calculator. None: `learning_rate`, or 1e-3 if that is 2e-5."},
    )
    igc_muon_learning_rate: float | None = field(
        default=None,
        metadata={"help": "Learning rate of Muon for the weight matrices of the calculator. None: AdamW for all."},
    )
    igc_writing_every: int = field(
        default=1,
        metadata={"help": "Train the writing in the first of every N steps, and only the reading in the others."},
    )
    igc_reading_steps: int = field(
        default=0,
        metadata={"help": "Number of steps at the beginning that train the reading alone."},
    )
    igc_skip_silent_rows: bool = field(
        default=False,
        metadata={"help": "Run no later layers for training rows with nothing to write, if nothing else is trained."},
    )
    igc_exact_match: int = field(
        default=0,
        metadata={"help": "Number of rows of each eval set answered by greedy generation at every evaluation."},
    )
    igc_exact_match_tokens: int = field(
        default=24,
        metadata={"help": "Maximum number of tokens of an answer for `igc_exact_match`, including the end token."},
    )
    igc_curves: bool = field(
        default=True,
        metadata={"help": "Whether to plot `learning_curves.png` in `output_dir` at the end of the training."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # `max_steps` is compared when training begins: with epochs, the number of steps is not known before.
        for name, least in (
            ("igc_writing_every", 1),
            ("igc_reading_steps", 0),
            ("igc_exact_match", 0),
            ("igc_exact_match_tokens", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}={getattr(self, name)}` is not at least {least}. Set it to {least} or more.")
        if not self.igc_loss_weight >= 0:  # NaN is refused too
            raise ValueError(f"`igc_loss_weight={self.igc_loss_weight}` is negative. Set it to 0 or more.")
        for name, without in (
            ("igc_learning_rate", "for the one of all parameters"),
            ("igc_muon_learning_rate", "for AdamW alone"),
        ):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"`{name}={getattr(self, name)}` is not above 0. Leave it out {without}.")

    @property
    def calculator_learning_rate(self) -> float:
        """The learning rate of AdamW for the calculator, see `igc_learning_rate`."""
        if self.igc_learning_rate is not None:
            return self.igc_learning_rate
        return CALCULATOR_RATE if self.learning_rate == TRL_RATE else self.learning_rate
