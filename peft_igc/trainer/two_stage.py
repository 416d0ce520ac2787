"""The second of two stages of a training: the writing alone, on prompts that the model reads once.

In: a trainer whose steps have trained the reading, and tokenized rows with results. Out: a trained output mapping. The
reading learns nothing from the layers above the calculator's, so the passes of its stage end there (`reading_only`);
nothing before a row's last anchor depends on the writing, so the prompt's keys and values are computed once, without
gradients and without the calculator, and kept: a step runs the few tokens from the anchor on. Together the stages take
about half the time of whole passes. Of rows with one anchor the gradients are those of whole passes
(`pytest tests/trainer/test_two_stage.py`); of rows with several, those of passes in which the base wrote what follows
the earlier ones. Memory: the keys and values of `WritingStage.rows` prompts (46 KB per token for SmolLM2-135M in
float32).

Shapes: B rows, P tokens of the longest prompt, T tokens from the anchor on.
"""

import copy
import functools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache

from ..data.columns import UNKNOWN, check_columns, encode_steps
from ..inference.decoding import padding_token
from ..text.values import Limits
from ..tuner.anchors import Rules, anchors_of_labels
from ..tuner.base_model import innermost_model
from ..tuner.config import IGCConfig
from ..tuner.hooks.wrapper import active_config
from .config import WritingStage
from .labels import STEPS, steps_of_checked
from .optimizer import calculators, muon_adamw
from .progress import Progress


class Batch(NamedTuple):
    """Rows from their anchors on."""

    cache: DynamicCache  # keys and values, and the state, of the prompts before the anchors
    inputs: dict[str, Any]  # of the model: `input_ids` [B, T], `attention_mask` [B, P + T], `labels` [B, T], `igc_*`
    rows: Sequence[Mapping[str, Any]]
    lengths: Sequence[int]  # tokens of each row from its anchor on


def training_only(model: Any, part: str) -> None:
    """Lets only one mapping of the calculators be trained: `"igc_input_mapping"` or `"igc_output_mapping"`."""
    for layer in calculators(model):
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(part in name)


def after_prompts(model: Any, rows: Sequence[dict[str, Any]], pad: int) -> Batch:
    """Runs the prompts of a batch of rows without gradients, up to the token before the anchor.

    The rows are `writable`.
    """
    config = active_config(model)
    assert config is not None
    starts, device = [row["start"] for row in rows], model.device
    lengths = [len(row["input_ids"]) - start for row, start in zip(rows, starts, strict=True)]
    before, after = max(starts), max(lengths)
    prompts, rest = torch.full((len(rows), before), pad), torch.full((len(rows), after), pad)
    labels, mask = torch.full_like(rest, -100), torch.zeros(len(rows), before + after, dtype=torch.int64)
    for at, (row, start, length) in enumerate(zip(rows, starts, lengths, strict=True)):
        ids = torch.tensor(row["input_ids"])
        prompts[at, before - start :], rest[at, :length] = ids[:start], ids[start:]
        labels[at, :length] = torch.tensor(row["labels"][start:])
        mask[at, before - start : before + length] = 1
    position = (mask.cumsum(1) - 1).clamp(min=0)
    prompts, rest, labels, mask, position = (x.to(device) for x in (prompts, rest, labels, mask, position))
    cache = DynamicCache(config=innermost_model(model).config)
    with torch.no_grad(), without_calculator(model):  # what is read of the prompt trains nothing here
        of_prompts = {"input_ids": prompts, "attention_mask": mask[:, :before], "position_ids": position[:, :before]}
        model(**of_prompts, past_key_values=cache, use_cache=True, logits_to_keep=1)
    targets = encode_steps([[row["step"]] for row in rows], Limits.of(config))
    targets["igc_anchors"] = torch.zeros(len(rows), 1, dtype=torch.int64)
    targets = {name: target.to(device) for name, target in targets.items()}
    inputs = {"input_ids": rest, "attention_mask": mask, "position_ids": position[:, before:]}
    return Batch(cache, {**inputs, "labels": labels, **targets, "igc_add_loss": False}, rows, lengths)


@contextmanager
def without_calculator(model: Any) -> Iterator[None]:
    """Turns the calculators off. `disable_adapter` of PEFT (0.21) would make all their weights trainable again, and
    turn off a LoRA trained with them."""
    layers: list[Any] = calculators(model)
    before = [layer.disable_adapters for layer in layers]
    try:
        for layer in layers:
            layer._disable_adapters = True
        yield
    finally:
        for layer, was in zip(layers, before, strict=True):
            layer._disable_adapters = was


def train_writing(trainer: Any, rows: Sequence[dict[str, Any]], stage: WritingStage) -> None:
    """Trains the output mapping on `writable` rows with the language-model loss, after an `IGCTrainer`'s own steps.

    Steps are counted after those of the trainer, logged by it and told to its callbacks.
    """
    model, args, state = trainer.model, trainer.args, trainer.state
    pad, start = padding_token(model, trainer._tokenizer), state.global_step
    training_only(model, "igc_output_mapping")
    for one in trainer.callback_handler.callbacks:
        if isinstance(one, Progress):
            one.begin_writing(start)
    trained = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if (p.dim() > 1) == decays], "weight_decay": decays * stage.weight_decay}
        for decays in (True, False)
    ]
    adamw = torch.optim.AdamW(groups, stage.learning_rate, (args.adam_beta1, args.adam_beta2), args.adam_epsilon)
    optimizer = muon_adamw(adamw, model, stage.muon_learning_rate, stage.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, stage.rate)
    state.max_steps, total, since = start + stage.steps, 0.0, 0
    model.train()
    for step, batch in enumerate(_batches(model, rows, pad, stage, args.seed), start=1):
        cache = copy.deepcopy(batch.cache)  # the cache would grow by the answer, with the graph of this step
        output = model(**batch.inputs, past_key_values=cache, use_cache=True)
        loss = trainer.writing_loss(batch, output)
        loss.backward()
        if args.max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_(trained, args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        total, state.global_step = total + float(loss.detach()), start + step
        trainer.control = trainer.callback_handler.on_step_end(args, state, trainer.control)
        model.train()  # a callback may have measured it
        if step % max(int(args.logging_steps), 1) == 0 or step == stage.steps:
            trainer.log({"loss": total / (step - since)})
            total, since = 0.0, step
    model.eval()


def writable(rows: Iterable[Mapping[str, Any]], config: IGCConfig, most: int) -> list[dict[str, Any]]:
    """The first `most` of a trainer's tokenized rows that can train the writing: those whose labels begin after their
    last anchor, at which they have a number as their result. Its position and label become their `start` and `step`.

    Raises:
        ValueError: There is none.
    """
    found, rules = list[dict[str, Any]](), Rules.of(config)
    for row in rows:
        if len(found) == most:
            break
        anchors = anchors_of_labels(rules, row["input_ids"], row["labels"])
        anchor = anchors[-1].at if anchors else -1
        if anchor < 1 or set(row["labels"][: anchor + 1]) != {-100}:  # a prompt has a token at least
            continue
        # Rows made for this stage may have another result than their text.
        made = row.get(STEPS) is None
        step = check_columns(row, Limits.of(config))[-1] if made else steps_of_checked(row).get(anchor, UNKNOWN)
        if step.result is not None:
            found.append({**row, "step": step, "start": anchor})
    if not found:
        raise ValueError(
            "No training row can train the writing in a stage of its own (`igc_writing`): each needs a number as its "
            "result, and labels after its last anchor only. Leave `igc_writing` out to train by whole passes."
        )
    return found


def _batches(model: Any, rows: Sequence[dict[str, Any]], pad: int, stage: WritingStage, seed: int) -> Iterator[Batch]:
    """The batches of all steps: all in random order, then again in another one. Prompts are read when first needed."""
    rng = random.Random(f"train_writing/{seed}")
    rows = sorted(rows, key=lambda row: len(row["input_ids"]))
    groups = [rows[start : start + stage.batch_size] for start in range(0, len(rows), stage.batch_size)]
    batch = functools.cache(lambda index: after_prompts(model, groups[index], pad))
    order: list[int] = []
    for _ in range(stage.steps):
        order = order or rng.sample(range(len(groups)), len(groups))
        yield batch(order.pop())
