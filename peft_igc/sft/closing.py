"""The closing evaluation of `peft-igc sft`: what the trained calculator does on rows held out of the training.

Before the training, labels that teach nothing are refused. Afterwards a `Closing` has the counts, with intervals, so
that few rows are judged, too. Nothing is trained here.

Shapes: B rows of a batch, A anchors per row, R digits of a result.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.logging import get_logger

from ..data.columns import COLUMNS, EXPRESSION_COLUMN, REFUSALS
from ..data.dataset import labels_of, summarize, supervised_rows
from ..inference.decoding import eval_mode
from ..inference.evaluation import interval
from ..mappings.readings import IGNORE
from ..numbers.calculator import NO_ARITHMETIC, Status
from ..trainer.exact_match import ExactMatch
from ..trainer.reading_only import read_alone
from ..trainer.two_stage import without_calculator
from ..tuner.call import observing
from ..tuner.config import IGCConfig
from ..tuner.steps import Step
from .arguments import Parsed


logger = get_logger(__name__)

FILE_NAME = "closing_evaluation.json"  # in the output folder
BATCH_SIZE = 32
Batches = list[dict[str, torch.Tensor]]
LEAST_READ = 0.1  # part of the calculations below which the reading counts as untrained
GOOD = 0.9  # part of the answers that a base may have right by itself, so that a calculator cannot add much


def check_annotated(train: Any, parsed: Parsed) -> None:
    """Refuses rows that teach a new calculator nothing; with a saved one they train its writing, or a LoRA."""
    names = train.column_names
    if names is None or parsed.igc.igc_init_from is not None or not parsed.training.igc_loss_weight:
        return
    if supervised_rows(train) if hasattr(train, "__len__") else {COLUMNS[0], EXPRESSION_COLUMN} & set(names):
        return
    raise ValueError(
        f"No training row has a value in `{COLUMNS[0]}` or `{EXPRESSION_COLUMN}`, so the calculator would learn to "
        "read nothing. Rename or add these columns, find them with `peft-igc annotate`, or add generated rows with "
        "`igc_generated_rows`."
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
    asked: int = 0  # calculations that the labels ask for
    read: int = 0  # of these, the ones with the labelled result
    misread: int = 0  # of these, the ones with another result, which would be written
    refusals: int = 0  # steps at which the labels ask for silence
    spoken: int = 0  # of these, the ones at which the calculator would have written a result
    answers: int = 0  # rows whose whole answer was generated
    right: int = 0  # of these, the ones with exactly the row's answer
    right_without: int = 0  # the same with the calculator switched off
    unanswered: str | None = None  # why no answer was generated

    def format(self) -> str:
        """The counts, in up to four lines."""
        lines = [f"Closing evaluation of {self.rows:,} rows that were held out:"]
        if self.asked:
            right = f"{self.read} of {self.asked} calculations are read right {_shown(self.read, self.asked)}"
            lines.append(f"  {right}, {self.misread} wrong, {self.asked - self.read - self.misread} not at all")
        if self.refusals:
            lines.append(f"  {self.refusals - self.spoken} of {self.refusals} refusals are left alone")
        if self.answers:
            right = f"{self.right} of {self.answers} whole answers are right {_shown(self.right, self.answers)}"
            lines.append(f"  {right}, without the calculator {self.right_without}")
        elif self.unanswered:
            lines.append(f"  no answer was generated: {self.unanswered}")
        return "\n".join(lines)

    def failure(self) -> str | None:
        """What was not learned, with a cure; None if reading and answers are better than the base's. Answers are if
        the share of right ones without the calculator is below the interval of those with it."""
        if self.read < LEAST_READ * self.asked:
            return (
                f"The reading learned next to nothing: {self.read} of {self.asked} held-out calculations are read "
                f"right {_shown(self.read, self.asked)}. Train for more steps (`max_steps`), on more rows, or with "
                "another `igc_learning_rate`; if `igc/read_accuracy` is high in the log, the held-out rows are of "
                "another kind."
            )
        if not self.answers or self.right >= GOOD * self.answers:
            return None
        counts = (
            f"{self.right} of {self.answers} held-out answers are right, and {self.right_without} without the "
            f"calculator {_shown(self.right, self.answers, ' with it')}"
        )
        more = "train for more steps (`max_steps`), or with another `igc_learning_rate`."
        if self.right <= self.right_without:
            return f"The writing learned nothing: {counts}. {more.capitalize()}"
        if interval(self.right, self.answers)[0] <= self.right_without / self.answers:
            return (
                f"The answers may be no better than the base's: {counts}. Hold out more rows (`igc_held_out`), {more}"
            )
        return None


def _shown(count: int, of: int, what: str = "") -> str:
    """The interval of a share in words."""
    low, high = interval(count, of)
    return f"(95% interval{what} {100 * low:.0f} to {100 * high:.0f}%)"


def evaluate_closing(trainer: Any, rows: Any, batches: Batches | None = None) -> Closing:
    """Evaluates the calculator of a trainer, whose model is not sharded, in this process alone, on `rows`, a dataset
    with operand columns that is not tokenized; `batches` are those of `held_out_batches`, if made before."""
    model = trainer.model
    with eval_mode(model), torch.no_grad():
        with trainer.compute_loss_context_manager():  # the autocast of the training
            counts: dict[str, Any] = _read(model, held_out_batches(trainer, rows) if batches is None else batches)
        asks = [any(label not in (NO_ARITHMETIC, *REFUSALS) for label in labels) for labels in labels_of(rows)]
        asking = rows.select([index for index, one in enumerate(asks) if one])  # for a calculation with a result
        counts |= _answered(trainer, model, asking)
    return Closing(len(rows), **counts)


def held_out_batches(trainer: Any, rows: Any) -> Batches:
    """The batches of held-out rows. Made before the training, they show faulty rows by then."""
    prepared = trainer._prepare_dataset(rows, trainer.processing_class, trainer.args, False, None, "held-out")
    listed, starts = prepared.to_list(), range(0, len(prepared), BATCH_SIZE)
    return [trainer.data_collator(listed[start : start + BATCH_SIZE]) for start in starts]


def _read(model: Any, batches: Batches) -> dict[str, int]:
    """What the calculator reads at the anchors of rows, compared with their labels."""
    counts: Counter[str] = Counter()
    for batch in batches:
        seen: list[Step] = []
        with observing(seen.append):  # the pass ends before anything is written
            read_alone(model, {name: value.to(model.device) for name, value in batch.items()})
        counts.update(_compared(seen[0], batch))
    return dict(counts)


def _compared(step: Step, batch: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Counts of one batch: its steps' results against its labels."""
    digits, sign, status, scale = (x.cpu() for x in step.result)  # [B, A, R], [B, A], [B, A], [B, A]
    known = (batch["igc_anchors"] >= 0) & (batch["igc_operator"] != IGNORE)  # [B, A]
    asked, spoken = known & (batch["igc_result_status"] == int(Status.OK)), status == int(Status.OK)
    same = (digits == batch["igc_result"]).all(-1)
    same &= (sign == batch["igc_result_sign"]) & (scale == batch["igc_result_scale"])
    found = {
        "asked": asked,
        "read": asked & spoken & same,
        "misread": asked & spoken & ~same,
        "refusals": known & ~asked,
        "spoken": known & ~asked & spoken,
    }
    return {name: int(mask.sum()) for name, mask in found.items()}


def _answered(trainer: Any, model: Any, rows: Any) -> dict[str, Any]:
    """Whole answers to rows that ask for a calculation, with the calculator and without it."""
    if not len(rows):
        return {"unanswered": "no held-out row asks for a calculation"}
    sizes = {"max_new_tokens": trainer.args.igc_exact_match_tokens, "batch_size": BATCH_SIZE}
    questions = ExactMatch(trainer._tokenizer, rows=len(rows), chat_template=trainer.chat_template, **sizes)
    try:
        asked, _ = questions.draw(model, rows)
    except ValueError as error:  # no row has a question, or nothing ends an answer
        return {"unanswered": str(error)}
    right, _ = questions.counts(model, asked)
    with without_calculator(model):
        right_without, _ = questions.counts(model, asked)
    return {"answers": len(asked), "right": right, "right_without": right_without}


def close(trainer: Any, held: Any, batches: Any) -> str | None:
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
    if reason is not None:
        if trainer.is_world_process_zero():
            (folder / FILE_NAME).unlink(missing_ok=True)  # of an earlier run
        say(f"Not evaluated: {reason}.")
        return None
    failure = None
    if trainer.is_world_process_zero():  # the model is whole in each process
        closing = evaluate_closing(trainer, held, batches)
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
