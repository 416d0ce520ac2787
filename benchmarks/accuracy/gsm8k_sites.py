"""Teaches a calculator of prompts to work at the `=` of solutions, before a LoRA is trained with it.

In: the demonstration's calculator, which works at the assistant's header, and converted solutions. Out: the same
calculator with anchors at every `=`, which reads where it did and writes at another layer: what is written at an early
one stays in the states that all later tokens attend to, and keeps the model from copying a result into the next lines.
First the writing is trained on solutions up to one result, with a point or comma after it. What is before its `=` is
read once, by the base alone (`trainer.two_stage`). After the result and the point the target is what the base would
write if it were no digit: what people wrote there would be learned by heart, and written elsewhere. The rows exchange
their results, as a LoRA knows those of the solutions that it was trained on. Then the reading is trained on whole
solutions. A LoRA that was trained with a calculator stays as it is: the writing learns the states that it left.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from peft import get_peft_model

from peft_igc import IGCConfig, assistant_header
from peft_igc.data.columns import ALL_COLUMNS, has_number
from peft_igc.data.dataset import to_dataset
from peft_igc.inference.decoding import eval_mode
from peft_igc.inference.loading import find_adapter, load_adapter, load_base, read_config
from peft_igc.text.token_table import TokenTable
from peft_igc.trainer import IGCSFTConfig, IGCTrainer
from peft_igc.trainer.batches import tokenized
from peft_igc.trainer.config import WritingStage
from peft_igc.trainer.precision import in_bf16
from peft_igc.trainer.progress import Progress
from peft_igc.trainer.two_stage import Batch, training_only, without_calculator
from peft_igc.tuner.anchors import Rules, anchors_of_labels
from peft_igc.tuner.base_model import decoder_layers
from peft_igc.tuner.hooks.wrapper import active_config, active_layer


LONGEST_RESULT = 24  # tokens, with what is before it
READ_AT_ONCE = 16  # whole solutions
ROUNDING = {"rounding": "half_up:2"}  # of divisions in symbols, as people round their steps
MARKS = (".", ".", ".", ",")  # that follow the results in turn
IMPOSSIBLE = -1e4  # a logit whose probability is zero, and finite, as a divergence multiplies it with that zero


def sites_of_rows(
    rows: Sequence[Mapping[str, Any]], tokenizer: Any, config: IGCConfig, longest: int = 400
) -> list[dict[str, Any]]:
    """Tokenized rows, of at most `longest` tokens, that end in the result of one `=` and a point or comma, with one
    entry per operand column, from those of `annotation.gsm8k.convert`.

    `open_ends` has a bool for each of the last tokens: no digit may follow it, or none but zeros if it is True. A zero
    may follow a decimal, and no digit the point after an integer, as `4.0` went on as 4.05. `number` has the indices
    of the first token of the result and of the one after it, None where the first one is not a digit alone.
    """
    made: list[dict[str, Any]] = []
    marks = [tokenizer(mark, add_special_tokens=False)["input_ids"][-1] for mark in MARKS]
    for row in tokenized(rows, tokenizer):
        ids, labels = row["input_ids"], row["labels"]
        for index, (anchor, _) in enumerate(anchors_of_labels(Rules.of(config), ids, labels)):
            result = row["igc_result"][index]
            end = None if not has_number(result) or labels[anchor] == -100 else _end(ids, anchor, result, tokenizer)
            if end is not None and end <= longest:
                columns = {name: row[name] and row[name][index] for name in ALL_COLUMNS}
                mark = marks[len(made) % len(marks)]
                number = ids[anchor + 1 : end - 1]
                first = next(at for at in range(anchor + 1, end) if tokenizer.decode([ids[at]]).strip(" $€£"))
                place = (first, end - 1) if tokenizer.decode([ids[first]]).isdigit() else None
                text = {"input_ids": [*ids[: end - 1], mark], "labels": [-100] * (anchor + 1) + number + [-100]}
                made.append({**row, **columns, **text, "number": place, "open_ends": ["." in result, False]})
    return made


def exchanged(sites: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The rows of `sites_of_rows` with the results, their ends and the operand columns of others."""
    there = [at for at, row in enumerate(sites) if row["number"] is not None]
    made = list(sites)
    for at, other in zip(there, random.Random(f"exchanged/{seed}").sample(there, len(there)), strict=True):
        start, (begin, end) = sites[at]["number"][0], sites[other]["number"]
        row = {**sites[at], "number": (start, start + end - begin)}
        row |= {name: sites[other][name] for name in (*ALL_COLUMNS, "open_ends")}
        row |= {name: [*sites[at][name][:start], *sites[other][name][begin:]] for name in ("input_ids", "labels")}
        made[at] = row
    return made


def drawn_sites(found: Sequence[dict[str, Any]], sites: int, seed: int) -> list[dict[str, Any]]:
    """`sites` of the rows, or all of them; at least a quarter has results below zero, if there are as many: people's
    solutions have hardly any, and a LoRA writes 0 instead."""
    order = random.Random(f"train_sites/{seed}").sample(found, len(found))
    below = [row for row in order if row["igc_result"].startswith("-")][: sites // 4]
    kept = set(map(id, below))
    return below + [row for row in order if id(row) not in kept][: sites - len(below)]


def _end(ids: Sequence[int], anchor: int, result: str, tokenizer: Any) -> int | None:
    """Behind the first token after a result, which ends its number; None if the text goes on with something else."""
    for end in range(anchor + 2, min(anchor + LONGEST_RESULT, len(ids))):
        said = tokenizer.decode(list(ids[anchor + 1 : end])).replace(",", "").strip(" $€£")
        following = tokenizer.decode([ids[end]])
        if "=" in following:  # the next anchor, or `= 24 = 24`
            return None
        if said == result and not following[:1].isdigit() and following[:1] not in ".,":
            return end + 1
        if said == result and following[:1] in ".,":  # `24. Then` ends it, `24.5` does not
            after = tokenizer.decode(list(ids[end + 1 : end + 2]))
            return None if after[:1].isdigit() else end + 1
    return None


@dataclass(frozen=True)
class Sites:
    """Settings of `train_sites`."""

    # the decoder layer whose output is written, from the end if negative; unless it is the calculator's (None), the
    # writing begins with new weights
    layer: int | None = None
    sites: int = 512  # rows that are drawn, a quarter of them with results below zero, if there are as many
    steps: int = 300
    batch_size: int = 32
    seed: int = 0


def train_sites(
    base: str | Path,
    calculator: str | Path,
    rows: Sequence[Mapping[str, Any]],
    output: Path,
    settings: Sites,
    device: str = "cpu",
) -> dict[str, Any]:
    """Trains the writing of a calculator at `=`, alone, and saves it with these anchors in the folder `output`.

    The folder `calculator` may have adapters that were trained with it, which are not trained. `rows` are those of
    `annotation.gsm8k.convert`. The record has the number of sites, steps, seconds, and the losses.
    """
    start = time.perf_counter()
    model, tokenizer = _base(base, device)
    config = at_equals(calculator, tokenizer)
    found, seed = sites_of_rows(rows, tokenizer, config), settings.seed
    chosen = exchanged(drawn_sites(found, settings.sites, seed), seed)
    torch.manual_seed(seed)
    model = _writing_to(settings.layer, model, calculator, config)
    model.requires_grad_(False)  # `train_writing` lets the writing be trained
    stage = WritingStage(
        *(settings.steps, settings.batch_size, len(chosen)),
        learning_rate=2e-3, muon_learning_rate=6e-3, weight_decay=0.1, warmup_steps=10,
    )  # fmt: skip
    # The reading is not trained here: the rows of the dataset stay unused.
    made = tokenized(rows[:1], tokenizer)
    trainer = _trainer(model, tokenizer, made, output, lambda _: chosen, max_steps=settings.steps, seed=seed)
    trainer.train_writing(stage)
    log = [{name: entry[name] for name in ("step", "loss")} for entry in trainer.state.log_history if "loss" in entry]
    model.save_pretrained(str(output), save_embedding_layers=False)
    seconds = round(time.perf_counter() - start, 1)
    return {"sites": len(chosen), "of": len(found), "steps": settings.steps, "seconds": seconds, "log": log}


def read_sites(
    base: str | Path, folder: Path, rows: Sequence[dict[str, Any]], steps: int = 80, device: str = "cpu"
) -> dict[str, Any]:
    """Trains the reading of a calculator, as `train_sites` writes it, on whole solutions, and saves it where it was.

    The record has steps, seconds, and the losses.
    """
    model, tokenizer = _base(base, device)
    model = load_adapter(model, folder, is_trainable=True)
    training_only(model, "igc_input_mapping")
    sizes = {"max_steps": steps, "per_device_train_batch_size": READ_AT_ONCE, "bf16": in_bf16(device)}
    trainer = _trainer(model, tokenizer, tokenized(rows, tokenizer), folder, None, **sizes)
    progress = Progress(lambda line: print(line, flush=True))
    trainer.add_callback(progress)
    super(IGCTrainer, trainer).train()  # the first stage alone
    model.save_pretrained(str(folder), save_embedding_layers=False)
    record = {"seconds": round(progress.seconds, 1), "history": progress.history}
    return {"steps": steps, "batch_size": READ_AT_ONCE} | record


def at_equals(calculator: str | Path, tokenizer: Any) -> IGCConfig:
    """The config of a saved calculator, with anchors at `=`, results that are written once, and rounded divisions."""
    config: IGCConfig = read_config(find_adapter(calculator))
    wanted = IGCConfig.from_tokenizer(tokenizer, anchors=["=", assistant_header(tokenizer)])
    return replace(config, anchors=wanted.anchors, **ROUNDING, write_again=False)


def _writing_to(layer: int | None, model: Any, calculator: str | Path, config: IGCConfig) -> Any:
    """The base with the saved calculator. If it is to write to another layer, it reads with the same weights, and
    writes with new ones. Arguments and errors as of `train_sites`."""
    count = len(decoder_layers(model)[1])
    if layer is not None and not -count <= layer < count:
        raise ValueError(f"`layer={layer}` is out of range: the base has {count} decoder layers. Name one of them.")
    if layer is None or layer % count == config.layer:
        return load_adapter(model, calculator, config=config, is_trainable=True)
    loaded = load_adapter(model, calculator)
    before = active_layer(loaded)[0].igc_input_mapping["default"].state_dict()
    moved = replace(config, read_from=list(config.layers_read), layer=layer % count, inference_mode=False)
    made = get_peft_model(loaded.unload(), moved)
    active_layer(made)[0].igc_input_mapping["default"].load_state_dict(before)
    return made


def _trainer(model: Any, tokenizer: Any, made: Any, output: Path, rows: Any, **settings: Any) -> IGCTrainer:
    """A trainer of two stages on tokenized rows; `rows` are those of the second."""
    usual = {
        "learning_rate": 2e-3, "igc_muon_learning_rate": 6e-3, "weight_decay": 0.1, "adam_beta2": 0.98,
        "warmup_steps": 8, "lr_scheduler_type": "cosine", "use_cpu": model.device.type == "cpu", "bf16": False,
        "activation_checkpointing": False, "logging_steps": 10, "max_length": None, "save_strategy": "no",
        "report_to": "none", "disable_tqdm": True, "igc_writing": {"steps": 1}, "seed": 0,
    }  # fmt: skip
    args = IGCSFTConfig(str(output), **usual | settings)
    return OpenEndsTrainer(model, args, train_dataset=to_dataset(made), processing_class=tokenizer, writing_rows=rows)


def _base(base: str | Path, device: str) -> tuple[Any, Any]:
    """The base model where it is trained, in the dtype that suits, and its tokenizer."""
    model, tokenizer = load_base(base, "bfloat16" if in_bf16(device) else "float32")
    return model.to(device), tokenizer


# ------------------------------------------------------------------------------------------ ends of numbers
def without_digits(logits: torch.Tensor, zeros: torch.Tensor, table: TokenTable) -> torch.Tensor:
    """The base's log-probabilities [N, V] at each place, given that no digit follows, or none but zeros where `zeros`
    [N] is True: 7.5 is 7.50. A point alone may end a sentence. From its logits [N, V]."""
    characters = {token: table.characters(token) for token in range(len(table.vocabulary.tokens))}
    texts = {token: text for token, text in characters.items() if text[:1] != " " and any(map(str.isdigit, text))}
    digits, changing = torch.zeros(2, logits.shape[-1], dtype=torch.bool, device=logits.device)
    digits[list(texts)] = True
    changing[[token for token, text in texts.items() if text.strip("0.")]] = True
    forbidden = torch.where(zeros[:, None], changing, digits)  # [N, V]
    return logits.float().masked_fill(forbidden, IMPOSSIBLE).log_softmax(-1)


class Ends(NamedTuple):
    """Where the numbers of a batch have ended."""

    row: torch.Tensor  # [N] int64, with `place` each token after which no digit may follow that changes the number
    place: torch.Tensor
    target: torch.Tensor  # [N, V] log-probabilities of what may follow, in the model's dtype


def ends_of(model: Any, batch: Batch) -> Ends | None:
    """The ends of a batch, with what the base would write there; None if there are none."""
    found = [
        (index, length - len(ends) + at, zeros)
        for index, (row, length) in enumerate(zip(batch.rows, batch.lengths, strict=True))
        for ends in [row.get("open_ends", ())]
        for at, zeros in enumerate(ends)
    ]
    if not found:
        return None
    config = active_config(model)
    if config is None or config.token_table is None or config.write_again:
        raise ValueError(
            "`open_ends` need a calculator with the token interface, which knows the digits, and `write_again=False`, "
            "which ends a result once. Leave them out of the rows."
        )
    inputs = {name: batch.inputs[name] for name in ("input_ids", "attention_mask", "position_ids")}
    row, place, zeros = torch.tensor(found, device=model.device).T
    with torch.no_grad(), eval_mode(model), without_calculator(model):
        logits = model(**inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True).logits[row, place]
    return Ends(row, place, without_digits(logits, zeros.bool(), config.token_table).to(logits.dtype))


class OpenEndsTrainer(IGCTrainer):
    """`IGCTrainer` whose second stage also trains what follows the ends of numbers."""

    def writing_loss(self, batch: Batch, output: Any) -> torch.Tensor:
        """The mean over all labels [B, T] and ends."""
        if not hasattr(self, "_ends"):
            self._ends: dict[int, Ends | None] = {}
        if id(batch) not in self._ends:  # the same batches in every epoch
            self._ends[id(batch)] = ends_of(self.model, batch)
        ends, labels = self._ends[id(batch)], batch.inputs["labels"]
        if ends is None:
            return super().writing_loss(batch, output)
        count = int((labels[:, 1:] != -100).sum())
        written = output.logits[ends.row, ends.place].float().log_softmax(-1)
        there = F.kl_div(written, ends.target.float(), reduction="sum", log_target=True)
        return (output.loss * count + there) / (count + len(ends.row))
