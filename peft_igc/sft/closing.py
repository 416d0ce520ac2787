"""The closing evaluation of `peft-igc sft`: what the trained calculator does on rows held out of the training.

Before the training, labels that teach nothing are refused. Afterwards a `Closing` has the number of whole answers that
are right with the calculator and without it. The share has its interval, so few rows are judged, too.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.logging import get_logger

from ..data.columns import ALL_COLUMNS, COLUMNS, EXPRESSION_COLUMN, REFUSALS, supervised_rows
from ..data.dataset import row_labels, similar_columns, summarize
from ..inference.evaluation import interval
from ..numbers.calculator import NO_ARITHMETIC
from ..trainer.exact_match import ExactMatch
from ..trainer.two_stage import without_calculator
from ..tuner.config import IGCConfig
from .arguments import Parsed


logger = get_logger(__name__)

FILE_NAME = "closing_evaluation.json"  # in the output folder
BATCH_SIZE = 32
GOOD = 0.9  # part of the answers that a base may have right by itself, so that a calculator cannot add much


def check_annotated(train: Any, parsed: Parsed) -> None:
    """Refuses rows that teach a new calculator nothing; with a saved one they train its writing, or a LoRA."""
    names = train.column_names
    if names is None or parsed.igc.igc_init_from is not None or not parsed.training.igc_loss_weight:
        return
    if supervised_rows(train) if hasattr(train, "__len__") else {COLUMNS[0], EXPRESSION_COLUMN} & set(names):
        return
    cure = "Add these columns, find them with `peft-igc annotate`, or add generated rows with `igc_generated_rows`."
    if meant := [f"`{name}` as `{column}`" for name, column in similar_columns(names).items()]:
        cure = f"Probably meant: {', '.join(meant)}; rename the columns."
    raise ValueError(
        f"No training row has a value in `{COLUMNS[0]}` or `{EXPRESSION_COLUMN}`, so the calculator would learn to "
        f"read nothing. {cure}"
    )


def describe(train: Any, config: IGCConfig, parsed: Parsed) -> None:
    """Prints the labels of the training set and the learning rates, and warns of what the labels lack."""
    training, state, summary = parsed.training, PartialState(), summarize(train, config.operations)
    if summary is not None:  # a stream is not counted
        state.print(summary[0])
        for text in summary[1]:
            logger.warning(text)
    rates = f"{training.calculator_learning_rate:g} for the calculator"
    if training.igc_muon_learning_rate is not None:
        rates += f" ({training.igc_muon_learning_rate:g} for its matrices, by Muon)"
    if parsed.igc.has_lora or parsed.igc.igc_train_base:
        rates += f", {training.learning_rate:g} for the {'LoRA' if parsed.igc.has_lora else 'base'}"
    state.print(f"Learning rate: {rates}.")


@dataclass(frozen=True)
class Closing:
    """Counts over held-out rows."""

    rows: int
    answers: int = 0  # rows that ask for a calculation and whose whole answer was generated
    right: int = 0  # of these, the ones with exactly the row's answer
    right_without: int = 0  # the same with the calculator switched off
    unanswered: str | None = None  # why no answer was generated

    def format(self) -> str:
        """The counts, in two lines."""
        found = f"no answer was generated: {self.unanswered}"
        if self.answers:
            found = f"{self._shares}, without the calculator {self.right_without}"
        return f"Closing evaluation of {self.rows:,} rows that were held out:\n  {found}"

    @property
    def _shares(self) -> str:
        """The share of right answers, with its interval, in words."""
        low, high = (100 * end for end in interval(self.right, self.answers))
        return f"{self.right} of {self.answers} whole answers are right (95% interval {low:.0f} to {high:.0f}%)"

    def failure(self) -> str | None:
        """What was not learned, with a cure; None if the share of right answers without the calculator is below the
        interval of those with it."""
        if not self.answers or self.right >= GOOD * self.answers:
            return None
        counts = f"{self._shares}, and {self.right_without} without the calculator"
        more = "train for more steps (`max_steps`), or with another `igc_learning_rate`"
        if self.right <= self.right_without:
            return (
                f"The calculator adds nothing: {counts}. {more.capitalize()}. `igc/read_accuracy` in the log is that "
                "of the reading."
            )
        if interval(self.right, self.answers)[0] <= self.right_without / self.answers:
            return (
                f"The answers may be no better than the base's: {counts}. Hold out more rows (`igc_held_out`), {more}."
            )
        return None


def evaluate_closing(trainer: Any, rows: Any) -> Closing:
    """Answers the rows that ask for a calculation, with the calculator of a trainer and without it.

    The model must not be sharded, and answers in this process alone. `rows` is a dataset with operand columns.
    """
    labels = [row_labels(*(row.get(ALL_COLUMNS[at]) for at in (0, 2, 3))) for row in rows]
    asks = [any(label not in (NO_ARITHMETIC, *REFUSALS) for label in one) for one in labels]
    asking = rows.select([index for index, one in enumerate(asks) if one])
    if not len(asking):
        return Closing(len(rows), unanswered="no held-out row asks for a calculation")
    sizes = {"max_new_tokens": trainer.args.igc_exact_match_tokens, "batch_size": BATCH_SIZE}
    questions = ExactMatch(trainer._tokenizer, rows=len(asking), chat_template=trainer.chat_template, **sizes)
    try:
        asked, _ = questions.draw(trainer.model, asking)
    except ValueError as error:  # no row has a question, or nothing ends an answer
        return Closing(len(rows), unanswered=str(error))
    right, _ = questions.counts(trainer.model, asked)
    with without_calculator(trainer.model):
        right_without, _ = questions.counts(trainer.model, asked)
    return Closing(len(rows), len(asked), right, right_without)


def close(trainer: Any, held: Any) -> str | None:
    """Evaluates held-out rows, prints the counts and writes them; returns what was not learned, if so."""
    say, folder = trainer.accelerator.print, Path(trainer.args.output_dir)
    reason = None
    if held is None:
        reason = (
            "no annotated rows were held out. `igc_held_out` takes at most one in ten: annotate more rows, name a "
            "dataset with a test split, or measure the adapter on other rows with `peft-igc eval`"
        )
    elif trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        reason = "the model is sharded; run `peft-igc eval`"
    elif trainer.state.global_step < trainer.state.max_steps:
        reason = f"training was interrupted in step {trainer.state.global_step} of {trainer.state.max_steps}"
    if reason is not None:
        if trainer.is_world_process_zero():
            (folder / FILE_NAME).unlink(missing_ok=True)  # of an earlier run
        say(f"Not evaluated: {reason}.")
        return None
    failure = None
    if trainer.is_world_process_zero():  # the model is whole in each process
        closing = evaluate_closing(trainer, held)
        write_closing(closing, folder)
        say(closing.format())
        failure = closing.failure()
    trainer.accelerator.wait_for_everyone()
    return failure


def write_closing(closing: Closing, folder: Path) -> None:
    """Writes the counts into the output folder, for `learned_nothing` and for users, and into the model card."""
    failure = closing.failure()
    found = dataclasses.asdict(closing) | {"failure": failure}
    (folder / FILE_NAME).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    card = folder / "README.md"
    if card.is_file():
        verdict = [] if failure is None else [f"**Not fit for use.** {failure}"]
        text = "\n\n".join(["\n## Closing evaluation", *verdict, f"```\n{closing.format()}\n```"])
        card.write_text(f"{card.read_text(encoding='utf-8').rstrip()}\n{text}\n", encoding="utf-8")


def learned_nothing(folder: str | Path) -> bool:
    """Whether the closing evaluation in an output folder found that nothing was learned; False without one."""
    path = Path(folder) / FILE_NAME
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["failure"] is not None
