"""`IGCTrainer`: TRL's `SFTTrainer` with operand columns, the reading's loss and its metrics.

    trainer = IGCTrainer(model, IGCSFTConfig(output_dir="out"), train_dataset=rows, peft_config=IGCConfig(layer=1))

In: a dataset as for `SFTTrainer`, with the operand columns of `columns`. The reading loss comes out of the model as a
field of its output; here it is weighted, added to the language-model loss and logged. For a model without an IGC
adapter the class is `SFTTrainer`. What generated answers are asked for and compared is in `exact_match`.

Try it: `pytest tests/test_trainer.py`
"""

from __future__ import annotations

import copy
import dataclasses
import re
from pathlib import Path
from typing import Any

import torch
from accelerate.logging import get_logger
from datasets import Dataset
from peft import PeftModel
from torch import nn
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import SFTConfig, SFTTrainer
from trl.data_utils import get_dataset_column_names
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling
from trl.trainer.utils import add_fused_lm_head, global_then_local_main_first

from .adapters import check_tokenizer
from .card import annotated_rows, training_record, write_quick_start, write_record
from .checkpoints import last_complete_checkpoint, load_trained, save_trained, trained_beside
from .collator import CUT, ROW_COLUMNS, TRUNCATED, IGCDataCollator, RowCheck, warn_of_cut
from .columns import COLUMNS
from .config import IGCConfig
from .curves import FILE_NAME, draw_curves
from .exact_match import ExactMatch
from .hooks import active_config
from .model import innermost_model
from .optimizer import calculator_weights, muon_adamw, undo_bfloat16
from .outputs import Fields
from .passes import Recorder, check_reading_alone, check_writing_comes, read_alone, reads_alone
from .sft_config import IGCSFTConfig


__all__ = ["IGCSFTConfig", "IGCTrainer"]

logger = get_logger(__name__)


class IGCTrainer(SFTTrainer):
    """
    Trainer for models with an Integrated Gated Calculator.

    A subclass of [`~trl.SFTTrainer`] that takes the same arguments. Datasets may have the columns `igc_operator`,
    `igc_operands` and `igc_result` (see [`columns.check_columns`]), in any format that [`~trl.SFTTrainer`] takes as
    long as the row has an anchor: a prompt and a completion, or a conversation. Logged besides its metrics, over the
    supervised steps since the last log: `igc/loss_read`, `igc/read_accuracy` (operator, operands and signs all right),
    `igc/gate_mean` (over the positions written), and `igc/truncated_rows`, the number of rows whose supervision was
    dropped because `max_length` cut what would have been read. With `igc_exact_match`, generated answers are compared
    at every evaluation: `exact_match`, `exact_match_skipped` and `exact_match_cut`.

    Checkpoints hold all that is trained, a LoRA or the base beside the calculator included, and it is all resumed and
    brought back as the best model. `save_model` saves adapters only; save a base that was trained too by itself.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            As in [`~trl.SFTTrainer`]. Its IGC adapter, if it has one, is the one that is active now.
        args ([`IGCSFTConfig`], *optional*):
            As in [`~trl.SFTTrainer`].
        data_collator, train_dataset, eval_dataset, processing_class, kwargs:
            As in [`~trl.SFTTrainer`]. A collator of your own has to make the `igc_*` tensors itself.

    Raises:
        ValueError: if the model has an IGC adapter and rows would be packed, or a row's operand columns are faulty; if
            an option asks for what cannot be done with this model, these rows or several processes.
    """

    # Declared for the type checker: TRL's are not typed.
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
        **kwargs: Any,
    ) -> None:
        # TRL prepares the datasets in its own `__init__`, where `self.model` does not exist yet.
        peft_config = kwargs.get("peft_config")
        own = peft_config if isinstance(peft_config, IGCConfig) else None
        self._igc_config = active_config(model) if own is None and isinstance(model, nn.Module) else own
        if self._igc_config is not None:
            self._tag_names = [*self._tag_names, "igc"]
            _refuse_packing(args)
        before = calculator_weights(model)
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, processing_class, **kwargs)
        undo_bfloat16(self.model, before)
        _put_fused_head_on_the_base(self.model)
        self._igc_config = active_config(self.model)
        self._igc_in_window: torch.Tensor | None = None
        self._igc_totals: dict[str, torch.Tensor] = {}
        self._igc_truncated = {"train": 0, "eval": 0}
        self._igc_eval_set = ""
        self._igc_kept_step: int | None = None
        self._igc_exact_match = ExactMatch.of_trainer(self, self._tokenizer)
        has_columns = any(name in get_dataset_column_names(self.train_dataset) for name in COLUMNS)
        has_operands = has_columns and annotated_rows(self.train_dataset) != 0
        # A collator of one's own may know the operands from elsewhere; whether it does shows in a batch.
        check_reading_alone(self.args, self._igc_config is not None, has_operands or data_collator is not None)
        if self._igc_config is None:
            if has_columns:
                logger.warning("The model has no IGC adapter, so the operand columns of the dataset are not used.")
            return
        _refuse_sharded_sequences(self.accelerator.parallelism_config)
        if trained_beside(self.model) and (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            raise ValueError(
                "Something is trained beside the calculator, and under FSDP or DeepSpeed a checkpoint would hold a "
                "part of it only. Train with DDP, or the calculator alone, as the adapter `default`."
            )
        check_tokenizer(self._igc_config, self._tokenizer)
        if not has_operands:
            lack = "no row with an annotation" if has_columns else "no column `igc_operator`"
            logger.warning(
                f"The training dataset has {lack}, so the reading is not trained. "
                "Add operands, or go on if only the writing is to learn."
            )
        if type(self.data_collator) is DataCollatorForLanguageModeling:
            fields = {f.name: getattr(self.data_collator, f.name) for f in dataclasses.fields(self.data_collator)}
            self.data_collator = IGCDataCollator(**fields, igc_config=self._igc_config, tokenizer=self._tokenizer)
        elif has_columns and not isinstance(self.data_collator, IGCDataCollator):
            logger.warning(
                f"The operand columns are handed to `{type(self.data_collator).__name__}`, which has to make the "
                "`igc_*` tensors of them. Leave `data_collator` out, or derive yours from `IGCDataCollator`."
            )

    # ------------------------------------------------------------------------------------------ data
    def _prepare_dataset(
        self, dataset: Any, processing_class: Any, args: Any, packing: bool, formatting_func: Any, dataset_name: str
    ) -> Any:
        """As TRL's; in between, while rows are still whole, their operand columns are checked."""
        names = get_dataset_column_names(dataset)
        prepare = super()._prepare_dataset
        if self._igc_config is None or CUT in names or not any(name in names for name in COLUMNS):
            return prepare(dataset, processing_class, args, packing, formatting_func, dataset_name)
        whole = copy.copy(args)
        whole.max_length, whole.shuffle_dataset = None, False
        dataset = prepare(dataset, processing_class, whole, packing, formatting_func, dataset_name)
        keep_end = args.truncation_mode == "keep_end"
        is_stream = not isinstance(dataset, Dataset)
        check = RowCheck(self._igc_config, self._tokenizer, dataset_name, args.max_length, keep_end, is_stream)
        map_kwargs: dict[str, Any] = {}
        if not is_stream:  # a stream knows neither option
            map_kwargs = {"num_proc": args.dataset_num_proc, "desc": f"Checking operands of {dataset_name} dataset"}
        with global_then_local_main_first():
            dataset = dataset.map(check, with_indices=True, **map_kwargs)
        if not is_stream:
            cut = sum(lost > 0 for lost in dataset[CUT])
            if cut:
                warn_of_cut(dataset_name, args.max_length, f"{cut} of {len(dataset)} rows")
        return prepare(dataset, processing_class, args, packing, None, dataset_name)

    def _set_signature_columns_if_needed(self) -> None:
        """Lets the operand columns through to the collator."""
        super()._set_signature_columns_if_needed()
        if self._igc_config is not None:
            self._signature_columns = list(dict.fromkeys([*self._signature_columns, *ROW_COLUMNS]))

    # ------------------------------------------------------------------------------------------ optimizer
    def create_optimizer(self, model: Any = None) -> Any:
        """As the parent's; with `igc_muon_learning_rate`, Muon takes the calculator's matrices."""
        rate = getattr(self.args, "igc_muon_learning_rate", None)
        if self.optimizer is not None or rate is None:
            return super().create_optimizer(model)
        opt_model = self.model if model is None else model
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise ValueError(
                "`igc_muon_learning_rate` needs whole matrices, but FSDP or DeepSpeed shards them. "
                "Leave it out to train with AdamW alone."
            )
        optim = getattr(self.args.optim, "value", self.args.optim)
        if not optim.startswith("adamw_torch") or self.args.optim_args or self.optimizer_cls_and_kwargs:
            raise ValueError(
                f"`igc_muon_learning_rate` goes with torch's AdamW, but `optim={optim!r}`, `optim_args` or "
                "`optimizer_cls_and_kwargs` ask for something else. Leave out one or the other."
            )
        self.optimizer = muon_adamw(opt_model, self.args, set(self.get_decay_parameter_names(opt_model)))
        return self.optimizer

    # ------------------------------------------------------------------------------------------ loss
    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """As the parent's; also counts the supervised steps of the accumulation window on all ranks."""
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self._igc_config is not None:
            count = torch.zeros((), device=device)
            for batch in batches:
                if "igc_operator" in batch:
                    count += _supervised(batch).to(device)
            self._igc_in_window = self.accelerator.gather(count).sum()
        return batches, num_items

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """As the parent's, with the weighted reading loss added.

        In training it is normalised like the tokens' loss, by the supervised steps of the whole accumulation window on
        all ranks, so that neither splitting a batch nor spreading it over processes changes an update.
        """
        alone = self.model.training and reads_alone(self.args, self.state.global_step)
        if "igc_operator" not in inputs:
            if alone:
                check_reading_alone(self.args, self._igc_config is not None, False)
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if alone:
            check_writing_comes(self.args, self.state.max_steps)
            report = read_alone(model, inputs)
            self._log_reading(report, inputs["igc_operator"], written=False)
            loss = self._weighted(report, num_items_in_batch)
            return (loss, None) if return_outputs else loss
        recorder = Recorder(model)
        inputs["igc_add_loss"] = False
        result = super().compute_loss(recorder, inputs, return_outputs, num_items_in_batch)
        output = recorder.chosen()
        if output is None:  # the adapter is switched off
            return result
        report = Fields(output.igc_loss, output.igc_count, output.igc_correct, output.igc_gate)
        self._log_reading(report, inputs["igc_operator"])
        loss = result[0] if return_outputs else result
        loss = loss + self._weighted(report, num_items_in_batch).to(loss.device)
        return (loss, result[1]) if return_outputs else loss

    def _weighted(self, report: Fields, num_items_in_batch: Any) -> torch.Tensor:
        """The reading loss of a batch as it is added to the loss."""
        if self.model.training and self._igc_in_window is not None:
            reading = report.loss / self._igc_in_window.clamp(min=1) * self.accelerator.num_processes
            if num_items_in_batch is None:  # the parent will divide by the steps of the window
                reading = reading * self.current_gradient_accumulation_steps
        else:
            reading = report.loss / report.count.clamp(min=1)
        return getattr(self.args, "igc_loss_weight", IGCSFTConfig.igc_loss_weight) * reading

    # ------------------------------------------------------------------------------------------ metrics
    def _log_reading(self, report: Fields, operator: torch.Tensor, written: bool = True) -> None:
        """Adds a batch to the totals since the last log, and puts their means where TRL logs from."""
        mode = "train" if self.model.training else "eval"
        metrics = self._metrics[mode]
        prefix = self._igc_eval_set if mode == "eval" else ""
        cut = (operator == TRUNCATED).any(1).sum()
        with_gate = report.count * written
        sums = [report.loss, report.count, report.correct, report.gate * with_gate, with_gate, cut]
        batch = torch.stack([x.detach().float().to(operator.device) for x in sums])  # [6]
        batch = self.accelerator.gather(batch[None]).sum(0).cpu()
        if f"{prefix}igc/truncated_rows" not in metrics:  # TRL clears the metrics when it has logged them
            self._igc_totals[mode] = torch.zeros_like(batch)
        self._igc_totals[mode] += batch
        loss, count, correct, gate, with_gate, truncated = self._igc_totals[mode].tolist()
        if count:
            metrics[f"{prefix}igc/loss_read"] = [loss / count]
            metrics[f"{prefix}igc/read_accuracy"] = [correct / count]
        if with_gate:
            metrics[f"{prefix}igc/gate_mean"] = [gate / with_gate]
        if count or truncated:
            metrics[f"{prefix}igc/truncated_rows"] = [truncated]

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """As the parent's, with exact match; with a dict of datasets each keeps its own metrics (`eval_NAME_...`)."""
        # TRL (1.16) puts "eval_" before every metric whatever the set, so those of the last set would stand for all.
        name = metric_key_prefix.removeprefix("eval").removeprefix("_")
        self._igc_eval_set = f"{name}_" if name else ""
        try:
            self._measure_exact_match(eval_dataset)
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            self._igc_eval_set = ""

    def _measure_exact_match(self, dataset: Any) -> None:
        """Puts exact match where TRL logs from, so that it is in the logs and may choose the best model."""
        dataset = self.eval_dataset if dataset is None else dataset
        if isinstance(dataset, str):
            dataset = self.eval_dataset[dataset]
        if self._igc_exact_match is None or dataset is None or isinstance(dataset, dict):  # a dict's sets come singly
            return
        questions, skipped = self._igc_exact_match.draw(self.model, dataset, self._igc_eval_set.removesuffix("_"))
        ranks = self.accelerator.process_index, self.accelerator.num_processes
        counts = torch.tensor(self._igc_exact_match.counts(self.model, questions, *ranks), dtype=torch.float32)
        right, cut = self.accelerator.gather(counts.to(self.args.device)[None]).sum(0).tolist()
        for key, value in (("", right / len(questions)), ("_skipped", float(skipped)), ("_cut", cut)):
            self._metrics["eval"][f"{self._igc_eval_set}exact_match{key}"] = [value]

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the parent's, and resumes from the last checkpoint that is whole; at the end the curves are drawn."""
        self._igc_kept_step = None
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(self.args.output_dir, self.args.world_size)
        result = super().train(resume_from_checkpoint, *args, **kwargs)
        if self._igc_config is not None and getattr(self.args, "igc_curves", False) and self.is_world_process_zero():
            draw_curves(self.state.log_history, Path(self.args.output_dir) / FILE_NAME)
        return result

    # ------------------------------------------------------------------------------------------ checkpoints
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As the parent's, which knows adapters only; also what is trained beside the calculator."""
        if self._igc_config is None or not load_trained(self.model, resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        """As the parent's, which loads one adapter, or warns and leaves all as it was last."""
        folder = Path(str(self.state.best_model_checkpoint))
        loaded = self._igc_config is not None and load_trained(self.model, folder)
        if not loaded:
            super()._load_best_model()
        if loaded or self.is_fsdp_enabled or self.is_deepspeed_enabled or any(folder.glob("adapter_model.*")):
            self._igc_kept_step = self.state.best_global_step

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """As the parent's; with what is trained beside the calculator, and the card of an adapter is extended."""
        super()._save(output_dir, state_dict)
        folder = Path(output_dir or self.args.output_dir)
        if self._igc_config is None:
            return
        if re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-\d+", folder.name) and folder != Path(self.args.output_dir):
            save_trained(self.model, folder)
        if (folder / "README.md").is_file():
            self._extend_card(folder, None)

    # ------------------------------------------------------------------------------------------ card
    def create_model_card(
        self, model_name: str | None = None, dataset_name: str | None = None, tags: str | list[str] | None = None
    ) -> None:
        """As the parent's, with a record and a quick start that works: PEFT knows IGC after `import peft_igc` only."""
        super().create_model_card(model_name, dataset_name, tags)
        if self._igc_config is not None and self.is_world_process_zero():
            self._extend_card(Path(self.args.output_dir), self.hub_model_id or model_name)

    def _extend_card(self, folder: Path, adapter: str | None) -> None:
        """Says in a folder's card how to load the adapter, and what was trained and measured."""
        card = folder / "README.md"
        if adapter is not None or "import peft_igc" not in card.read_text("utf-8"):
            write_quick_start(card, self.model.config.name_or_path, adapter or "PATH_OF_THIS_FOLDER")
        sets = {"training": self.train_dataset}
        if isinstance(self.eval_dataset, dict):
            sets |= {f"evaluation ({name})": dataset for name, dataset in self.eval_dataset.items()}
        elif self.eval_dataset is not None:
            sets["evaluation"] = self.eval_dataset
        write_record(card, training_record(self.state.log_history, self.state.global_step, self._igc_kept_step, sets))


def _put_fused_head_on_the_base(model: nn.Module) -> None:
    """Moves TRL's fused head to the causal LM where PEFT models are nested (LoRA beside IGC).

    TRL (1.16) patches `get_base_model()`, which is the inner PEFT model then, and that has no backbone to call.
    """
    patched = model.get_base_model() if isinstance(model, PeftModel) else model
    if isinstance(patched, PeftModel):
        del patched.forward
        add_fused_lm_head(innermost_model(patched), outputs=("log_probs", "entropy", "is_top1"))


def _supervised(batch: dict[str, Any]) -> torch.Tensor:
    """Number of supervised steps of a batch, as the model counts them."""
    operator = batch["igc_operator"]
    return ((operator >= 0) & (batch.get("igc_anchors", operator) >= 0)).sum()


def _refuse_packing(args: Any) -> None:
    """Refuses options that put several texts into one row: a calculation would read across them."""
    if not isinstance(args, SFTConfig):
        return
    for name in ("packing", "eval_packing", "padding_free"):
        if getattr(args, name):
            raise ValueError(
                f"`{name}=True` puts several texts into one row and drops the operand columns, so the reading would "
                f"learn nothing and no error would show. Set `{name}=False`, or train without an IGC adapter."
            )


def _refuse_sharded_sequences(parallelism: Any) -> None:
    """Refuses options that split a text over processes: each would read a part of it."""
    if parallelism is not None and (parallelism.cp_enabled or parallelism.sp_enabled):
        raise ValueError(
            "Context or sequence parallelism (`cp_size` or `sp_size` above 1) splits a text over processes, and a "
            "calculation would read a part of it. Use data parallelism, or train without an IGC adapter."
        )
