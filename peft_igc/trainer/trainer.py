"""`IGCTrainer`: TRL's `SFTTrainer` with operand columns, the reading loss and its metrics.

    trainer = IGCTrainer(model, IGCSFTConfig(output_dir="out"), train_dataset=rows, peft_config=IGCConfig(layer=1))

In: a dataset as for `SFTTrainer`, with operand columns (`data.columns`). Out: a trained adapter, logs and model cards.
The model computes the reading loss and returns it as a field of its output; the trainer weights it, adds it to the
language-model loss and logs it. A model without an IGC adapter is refused; `BaselineTrainer` takes it, and behaves as
`SFTTrainer` then. The trainer depends on internals of TRL 1.16 and transformers 5.23; comments name the places.
"""

import copy
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from accelerate.logging import get_logger
from datasets import Dataset
from torch import nn
from transformers import ProgressCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import SFTTrainer
from trl.data_utils import get_dataset_column_names
from trl.trainer.utils import global_then_local_main_first

from ..data.columns import ALL_COLUMNS, check_names
from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.call import Fields
from ..tuner.config import IGCConfig
from ..tuner.hooks.wrapper import active_config
from . import checks
from .batches import in_lots
from .checkpoints import SIGNALLED, last_complete_checkpoint, load_trained, save_trained, warn_of_other_rows
from .collator import ours, single_digits
from .config import IGCSFTConfig, WritingStage
from .exact_match import ExactMatch
from .labels import ROW_COLUMNS, STEPS, RowCheck, checked_rows
from .optimizer import MuonAdamW, calculator_weights, check_muon, muon_adamw, set_calculator_rate, undo_bfloat16
from .reading_only import KeptOutputs, read_alone
from .record import CURVES, annotated_rows, draw_curves, extend_card
from .two_stage import Batch, train_writing, training_only, writable


logger = get_logger(__name__)


class IGCTrainer(SFTTrainer):
    """
    Trainer for models with an Integrated Gated Calculator.

    A subclass of [`~trl.SFTTrainer`] with the same arguments. Datasets may have the columns `igc_operator`,
    `igc_operands` and `igc_result` (see [`columns.check_columns`]), in any format of [`~trl.SFTTrainer`] in which the
    rows have an anchor, such as prompts with completions, or conversations. These metrics are logged in addition to
    TRL's, over the supervised steps since the last log:

    - `igc/loss_read`: mean reading loss.
    - `igc/read_accuracy`: fraction of the steps with correct operator, operands and signs.
    - `igc/gate_mean`: mean gate over the positions that were written.
    - `exact_match`, `exact_match_skipped`, `exact_match_cut`: with `igc_exact_match`, at every evaluation.

    Checkpoints contain all trained weights, including those of a LoRA or the base, for resuming and for the best
    model. `save_model` saves adapters only; if the base is trained too, save it separately. At the end of the training
    the logged values are plotted into `learning_curves.png` in `output_dir`.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            As in [`~trl.SFTTrainer`]. Of several IGC adapters, the active one is trained.
        args ([`IGCSFTConfig`], *optional*):
            As in [`~trl.SFTTrainer`].
        data_collator, train_dataset, eval_dataset, processing_class, kwargs:
            As in [`~trl.SFTTrainer`]. A custom collator has to make the `igc_*` tensors itself.
        writing_rows (`Callable`, *optional*):
            With `igc_writing`, returns the tokenized rows of the second stage, given its settings. `None`: rows of the
            training set that have a result.

    Raises:
        ValueError: The model has no active IGC adapter; rows would be packed; operand columns of a row are faulty; or
            an option is not supported for this model, these rows or several processes.
    """

    needs_calculator = True  # whether a model without an IGC adapter is refused

    # Declared for the type checker, because TRL's attributes are not typed.
    _tag_names: list[str]
    _signature_columns: list[str]
    data_collator: Any
    optimizer: Any

    def __init__(
        self,
        model: Any,
        args: Any = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        writing_rows: Callable[[WritingStage], Iterable[dict[str, Any]]] | None = None,
        **kwargs: Any,
    ) -> None:
        self._writing_rows = writing_rows
        # TRL (1.16) prepares the datasets in its `__init__`, before `self.model` exists, so `_prepare_dataset` needs
        # the config now. With `peft_config`, TRL attaches the adapter there.
        given = kwargs.get("peft_config")
        self._igc_config: IGCConfig | None = given if isinstance(given, IGCConfig) else None
        if isinstance(model, nn.Module):
            self._igc_config = self._igc_config or active_config(model)
            checks.refuse_absent(model, self._igc_config, self.needs_calculator)
        if self._igc_config is not None:
            self._tag_names = [*self._tag_names, "igc"]
            checks.refuse_packing(args)
        before = calculator_weights(model)  # TRL's `__init__` casts them if the base is in 4 or 8 bit
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, processing_class, **kwargs)
        undo_bfloat16(self.model, before)
        self._igc_config = active_config(self.model)
        checks.refuse_absent(self.model, self._igc_config, self.needs_calculator)
        # Supervised steps of the current accumulation window on all ranks; None before the first window.
        self._igc_in_window: torch.Tensor | None = None
        self._igc_totals: dict[str, torch.Tensor] = {}  # sums over the supervised steps since the last log, by mode
        self._igc_eval_set = ""  # prefix of metrics, such as "NAME_", while one of several eval sets is evaluated
        self._igc_kept_step: int | None = None
        # Whether a SIGTERM ended the training, after `enable_jit_checkpoint` had saved a checkpoint.
        self.ended_by_signal = False
        # The settings of a second stage; `args` may be other training arguments than `IGCSFTConfig`.
        self._stage: WritingStage | None = getattr(self.args, "writing_stage", None)
        self._kept: KeptOutputs | None = None  # of a first stage
        self._igc_exact_match = ExactMatch.of_trainer(self, self._tokenizer)
        self._check_data(has_collator=data_collator is not None)

    def _check_data(self, has_collator: bool) -> None:
        """Refuses or warns of datasets and options that do not suit the model, and chooses the collator."""
        has_columns = any(name in get_dataset_column_names(self.train_dataset) for name in ALL_COLUMNS)
        has_operands = has_columns and annotated_rows(self.train_dataset) != 0
        # A custom collator may have the operands from elsewhere. `compute_loss` checks its first batch.
        checks.check_reading_alone(self.args, self._igc_config is not None, has_operands or has_collator)
        if self._igc_config is None:
            if has_columns:
                logger.warning("The model has no IGC adapter, so the operand columns of the dataset are not used.")
            return
        checks.refuse_sharded(self)
        check_tokenizer(self._igc_config.token_table, self._tokenizer)
        if not has_operands:
            lack = "no row with an annotation" if has_columns else "no column `igc_operator`"
            logger.warning(
                f"The training dataset has {lack}, so the reading is not trained. Add operands, unless you only want "
                "to train the writing."
            )
        self.data_collator = ours(self.data_collator, self._igc_config, self._tokenizer, has_columns)

    def _prepare_dataset(
        self, dataset: Any, processing_class: Any, args: Any, packing: bool, formatting_func: Any, dataset_name: str
    ) -> Any:
        """As the parent's; between tokenization and truncation, labels are respelled and operand columns checked."""
        names = get_dataset_column_names(dataset)
        prepare = super()._prepare_dataset
        respell = None if self._igc_config is None else single_digits(self._igc_config, self._tokenizer)
        has_operands = any(name in names for name in ALL_COLUMNS)
        if self._igc_config is not None:
            check_names({*names} - {STEPS}, f"The {dataset_name} dataset")
        # A dataset that another trainer has prepared has its labels already, and may be cut.
        if self._igc_config is None or STEPS in names or not (has_operands or respell):
            return prepare(dataset, processing_class, args, packing, formatting_func, dataset_name)
        # Two passes through TRL's preparation: the first one tokenizes, and the second one recognizes tokenized rows,
        # cuts and shuffles them. Shuffling first would break the row numbers of error messages.
        whole = copy.copy(args)
        whole.max_length, whole.shuffle_dataset = None, False
        dataset = prepare(dataset, processing_class, whole, packing, formatting_func, dataset_name)
        if respell is not None:  # single digits are more tokens, and the length is that of what the model is given
            with global_then_local_main_first():
                dataset = dataset.map(respell)
        if has_operands:
            keep_end, is_stream = args.truncation_mode == "keep_end", not isinstance(dataset, Dataset)
            check = RowCheck(self._igc_config, self._tokenizer, dataset_name, args.max_length, keep_end, is_stream)
            with global_then_local_main_first():  # the other processes load the result from the cache of `datasets`
                dataset = checked_rows(dataset, check, args.dataset_num_proc)
        return prepare(dataset, processing_class, args, packing, None, dataset_name)

    def _set_signature_columns_if_needed(self) -> None:
        """As the parent's, with the operand columns, which the trainer would otherwise remove before the collator."""
        super()._set_signature_columns_if_needed()
        if self._igc_config is not None:
            self._signature_columns = list(dict.fromkeys([*self._signature_columns, *ROW_COLUMNS]))

    def create_optimizer(self, model: Any = None) -> Any:
        """As the parent's with the calculator's own learning rate, or with `igc_muon_learning_rate` a `MuonAdamW`."""
        if self.optimizer is not None:
            return super().create_optimizer(model)
        muon_rate = getattr(self.args, "igc_muon_learning_rate", None)  # `args` may be plain `TrainingArguments`
        if muon_rate is not None:
            check_muon(self)
        made, trained = super().create_optimizer(model), self.model if model is None else model
        set_calculator_rate(made, trained, self.args)
        if muon_rate is not None:
            self.optimizer = made = muon_adamw(made, trained, muon_rate, self.args.weight_decay)
        return made

    def _get_learning_rate(self) -> float:
        """As the parent's, which is that of the first group; with Muon AdamW's, and Muon's as `learning_rate_muon`."""
        rate: float = super()._get_learning_rate()
        made = getattr(self.optimizer, "optimizer", self.optimizer)  # accelerate wraps it
        if isinstance(made, MuonAdamW) and len(made.param_groups) > 1:
            self._metrics["train"]["learning_rate_muon"] = [rate]
            rate = made.param_groups[1]["lr"]
        return rate

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        """As the parent's, but of two stages the first has rows of similar length in a batch."""
        dataset = self.train_dataset if train_dataset is None else train_dataset
        if self._stage is None or not hasattr(dataset, "__len__") or "input_ids" not in dataset.column_names:
            return super()._get_train_sampler(train_dataset)
        lengths, batches = map(len, dataset["input_ids"]), self.args.max_steps * self.args.gradient_accumulation_steps
        return in_lots(list(lengths), self._train_batch_size, batches, self.args.seed)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """As the parent's, and counts the supervised steps of the accumulation window on all ranks."""
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self._igc_config is not None:
            count = torch.zeros((), device=device)
            for batch in batches:  # counted as in the model
                if (operator := batch.get("igc_operator")) is not None:
                    count += ((operator >= 0) & (batch.get("igc_anchors", operator) >= 0)).sum().to(device)
            # A collective call: every rank must get here for every window, also without supervised steps.
            self._igc_in_window = self.accelerator.gather(count).sum()
        return batches, num_items

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """As the parent's, plus the weighted reading loss."""
        # With other arguments than ours no step trains only the reading.
        between = self.state.global_step % getattr(self.args, "igc_writing_every", 1)
        alone = self.model.training and (self._stage is not None or bool(between))
        if "igc_operator" not in inputs:
            if alone:  # a custom collator made no operands: the step would train nothing
                checks.check_reading_alone(self.args, self._igc_config is not None, False)
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if alone:
            report = read_alone(model, inputs, self._kept)
            # There is no output without the later layers. The parent's token metrics miss this step.
            self._log_reading(report)
            loss = self._weighted(report, num_items_in_batch)
            return (loss, None) if return_outputs else loss
        # TRL (1.16) does not return the outputs of the trained pass for every loss: for some it runs a second pass
        # without gradients, for its metrics. So those in which the calculator ran are recorded.
        outputs: list[Any] = []

        def recorded(*args: Any, **kwargs: Any) -> Any:
            output = model(*args, **kwargs)
            # The field is declared on the output's class (`hooks.calls`), so it survives DDP's rebuilding of outputs.
            if getattr(output, "igc_loss", None) is not None:
                outputs.append(output)
            return output

        inputs["igc_add_loss"] = False  # the model would add the mean over the batch, for trainers other than this
        result = super().compute_loss(recorded, inputs, return_outputs, num_items_in_batch)
        if not outputs:  # the adapter is disabled
            return result
        output = next((one for one in outputs if one.igc_loss.requires_grad), outputs[0])
        report = Fields(output.igc_loss, output.igc_count, output.igc_correct, output.igc_gate)
        self._log_reading(report)
        loss = result[0] if return_outputs else result
        # With a device map, the calculator's layer may be on another device than the head.
        loss = loss + self._weighted(report, num_items_in_batch).to(loss.device)
        return (loss, result[1]) if return_outputs else loss

    def _weighted(self, report: Fields, num_items_in_batch: Any) -> torch.Tensor:
        """The reading loss of a batch, weighted and normalized, as it is added to the loss.

        In training it is normalized like the language-model loss: by the number of supervised steps in the whole
        accumulation window on all ranks, so an update does not depend on how its rows are divided.
        """
        # `report.loss` is a sum over the supervised steps of the batch, `num_items_in_batch` the parent's number of
        # tokens in the accumulation window, or None.
        if self.model.training and self._igc_in_window is not None:
            # DDP averages gradients over ranks, but the count is a sum over ranks: hence the number of processes.
            reading = report.loss / self._igc_in_window.clamp(min=1) * self.accelerator.num_processes
            if num_items_in_batch is None:  # then `Trainer` divides by the accumulation steps (transformers 5.23)
                reading = reading * self.current_gradient_accumulation_steps
        else:  # an evaluation, or a call outside of the training loop
            reading = report.loss / report.count.clamp(min=1)
        return getattr(self.args, "igc_loss_weight", IGCSFTConfig.igc_loss_weight) * reading

    def _log_reading(self, report: Fields) -> None:
        """Adds a batch to the sums since the last log, and stores their means among TRL's metrics.

        TRL's own means over batches would weight a batch with one supervised step like others.
        """
        mode, prefix = ("train", "") if self.model.training else ("eval", self._igc_eval_set)
        metrics, with_gate = self._metrics[mode], report.count * (report.gate > 0)  # 0: nothing was written
        parts = [report.loss, report.count, report.correct, report.gate * with_gate, with_gate]
        batch = torch.stack([x.detach().float() for x in parts])  # [5]
        sums = self.accelerator.gather(batch[None]).sum(0).cpu()  # so all processes log the same
        if f"{prefix}igc/loss_read" in metrics:  # TRL (1.16) clears them after logging them
            sums = self._igc_totals[mode] + sums
        self._igc_totals[mode] = sums
        loss, count, correct, gate, gates = sums.tolist()
        if count:
            metrics |= {f"{prefix}igc/loss_read": [loss / count], f"{prefix}igc/read_accuracy": [correct / count]}
        if gates:
            metrics[f"{prefix}igc/gate_mean"] = [gate / gates]

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """As the parent's, with exact match. Of several datasets, each has its own metrics (`eval_NAME_...`)."""
        # TRL (1.16) adds "eval_" to the name of each metric, but not the name of the dataset: a later dataset would
        # overwrite the metrics of an earlier one. The parent calls this method once per dataset of a dict.
        name = metric_key_prefix.removeprefix("eval").removeprefix("_")
        self._igc_eval_set = f"{name}_" if name else ""
        try:
            if self._igc_exact_match is not None:  # among TRL's metrics, for the log and `metric_for_best_model`
                found = self._igc_exact_match.measure(self, eval_dataset, name)
                self._metrics["eval"] |= {f"{self._igc_eval_set}{key}": [value] for key, value in found.items()}
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            self._igc_eval_set = ""

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the parent's, but `True` resumes from the last complete checkpoint. With `igc_writing`, the second stage
        follows, which begins anew when a run is resumed. Plots the curves at the end."""
        self._igc_kept_step, self.ended_by_signal = None, False
        if self._igc_config is not None:
            checks.refuse_frozen(self.model)
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(self.args.output_dir, self.args.world_size)
        if (stage := self._stage) is not None:
            checks.refuse_others_trained(self.model)
            assert self._igc_config is not None  # else it is refused
            if self._writing_rows is None and hasattr(self.train_dataset, "__len__"):
                writable(self.train_dataset, self._igc_config, 1)  # an error after the first stage would lose it
            training_only(self.model, "igc_input_mapping")
            rows = self.args.max_steps * self._train_batch_size * self.args.gradient_accumulation_steps
            if hasattr(self.train_dataset, "__len__") and rows > len(self.train_dataset):  # rows come again
                self._kept = KeptOutputs(self.model)
        try:
            result = super().train(resume_from_checkpoint, *args, **kwargs)
            self._kept = None  # makes room for the second stage
            if stage is not None and not self.ended_by_signal:
                self._igc_kept_step = None  # of the reading alone
                self.train_writing(stage.shortened(self.state.global_step / self.args.max_steps))
        finally:
            self._kept = None
            if stage is not None:
                training_only(self.model, "igc_")
        if self._igc_config is not None and self.is_world_process_zero():
            draw_curves(self.state.log_history, Path(self.args.output_dir) / CURVES)
        return result

    def train_writing(self, stage: WritingStage) -> None:
        """The second of two stages, which `train` runs after its steps; shortened in proportion if they ended early.
        Afterwards the output mapping alone is trainable, until `train` ends.

        Raises:
            ValueError: No row has a result after its last anchor.
        """
        assert self._igc_config is not None
        rows = self.train_dataset
        if self._writing_rows is not None:
            respell = single_digits(self._igc_config, self._tokenizer)
            rows = (row if respell is None else {**row, **respell(row)} for row in self._writing_rows(stage))
        found = writable(rows, self._igc_config, stage.rows)
        self.remove_callback(ProgressCallback)  # its bar was closed with the first stage (transformers 5.23)
        train_writing(self, found, stage)
        if self.args.eval_strategy != "no":
            self.evaluate()

    def writing_loss(self, batch: Batch, output: Any) -> torch.Tensor:
        """The loss of a step of the second stage, given its batch and the model's output: that of its labels."""
        return output.loss

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As the parent's, which only loads adapters, and with all other trained weights."""
        if self._igc_config is not None and self.is_world_process_zero():
            warn_of_other_rows(self.train_dataset, resume_from_checkpoint)
        if self._igc_config is None or not load_trained(self.model, resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        """As the parent's, which only loads the active adapter, and with all other trained weights."""
        folder = Path(str(self.state.best_model_checkpoint))
        if not (loaded := self._igc_config is not None and load_trained(self.model, folder)):
            super()._load_best_model()
        # If the checkpoint is missing, the parent only warns, and the weights stay those of the last step.
        if loaded or self.is_fsdp_enabled or self.is_deepspeed_enabled or any(folder.glob("adapter_model.*")):
            self._igc_kept_step = self.state.best_global_step

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """As the parent's, with a note if a SIGTERM made it, before the last step."""
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        self.ended_by_signal |= (folder / SIGNALLED).exists() and self.state.global_step < self.state.max_steps
        super()._save_checkpoint(model, trial)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """As the parent's, with all trained weights in checkpoints, and our sections in the card of an adapter."""
        super()._save(output_dir, state_dict)
        folder = Path(output_dir or self.args.output_dir)
        if self._igc_config is None:
            return
        # Only in checkpoints: `save_model` also calls this method, and `output_dir` may have such a name.
        if re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-\d+", folder.name) and folder != Path(self.args.output_dir):
            save_trained(self.model, self.train_dataset, folder)
        if (folder / "README.md").is_file():
            extend_card(self, folder, None, self._igc_kept_step)

    def create_model_card(
        self, model_name: str | None = None, dataset_name: str | None = None, tags: str | list[str] | None = None
    ) -> None:
        """As the parent's, with a training record and a quick start that imports `peft_igc`."""
        super().create_model_card(model_name, dataset_name, tags)
        if self._igc_config is not None and self.is_world_process_zero():
            extend_card(self, Path(self.args.output_dir), self.hub_model_id or model_name, self._igc_kept_step)


class BaselineTrainer(IGCTrainer):
    """
    `IGCTrainer` that also takes models without a calculator, for baselines that are trained by the same code.

    Without an IGC adapter it trains as [`~trl.SFTTrainer`] does, to the same bits, and operand columns are not used.
    """

    needs_calculator = False
