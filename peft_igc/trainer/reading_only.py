"""Training steps that end after the reading; the outputs of complete passes, kept for the reading loss.

In: a model and a batch with anchors and targets. Out: the reading's loss and metrics, not weighted. The reading learns
nothing from later layers (paper, "Modified Training Process"), so a pass that trains only the reading can end after
it. Nor does it train the layers before it, so `KeptOutputs` computes their outputs once per text: at layer 12 of
SmolLM2-135M they are nine tenths of a step. Dropout in these layers is drawn once. Memory: two bytes per number, 1.2
KB per token and layer read of SmolLM2-135M.

Shapes: B rows, T positions, H hidden size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel

from ..tuner.base_model import decoder_layers, innermost_model
from ..tuner.call import Fields, ReadingDone, current_call, reading_alone
from ..tuner.hooks.calls import TARGETS
from ..tuner.hooks.wrapper import active_config, active_layer
from ..tuner.passes import read_early
from .two_stage import without_calculator


MOST_BYTES = 8 << 30  # of kept outputs; further texts run each time


def read_alone(model: Any, inputs: Mapping[str, Any], kept: KeptOutputs | None = None) -> Fields:
    """Runs the layers that the calculator reads, and the reading; returns its loss and metrics.

    The model is in training mode, `inputs` is a batch of `IGCDataCollator`, and `kept` has the texts whose layers have
    run before.

    Raises:
        ValueError: The model is wrapped (DDP, FSDP, DeepSpeed), no adapter is active, or the adapter has no reading
            loss.
    """
    # The pass ends by an exception, which a wrapper does not expect: DDP would not average the gradients any more.
    if not isinstance(model, PeftModel | PreTrainedModel):
        raise ValueError(
            "`igc_writing_every` above 1 and `igc_writing` end forward passes early, which is not supported for a "
            f"model wrapped in `{type(model).__name__}`. Leave both out, or train in one process."
        )
    # No labels: there is no language-model loss, and the anchors are given.
    names = ("input_ids", "attention_mask", "igc_anchors", *TARGETS)
    given = {name: inputs[name] for name in names if name in inputs}
    if "igc_anchors" in given:  # nothing reads what follows each row's last anchor
        last = given["igc_anchors"].amax(1, keepdim=True).clamp(min=0)  # [B, 1]
        end, mask = int(last.max()) + 1, given["attention_mask"]
        mask = mask * (torch.arange(mask.shape[1], device=mask.device) <= last)
        given |= {"input_ids": given["input_ids"][:, :end], "attention_mask": mask[:, :end]}
    try:
        # `reading_alone` makes the calculator's layer raise after the reading.
        with reading_alone(), nullcontext() if kept is None else kept.once(given):
            model(**given, use_cache=False)
    except ReadingDone as done:
        return done.report
    raise ValueError("No IGC adapter is active, so nothing was read. Leave `igc_writing_every` and `igc_writing` out.")


class KeptOutputs:
    """The outputs of the layers that the calculator reads, by the tokens of a text; they are frozen up to there."""

    def __init__(self, model: Any) -> None:
        config = active_config(model)
        assert config is not None
        self.model, self.read = innermost_model(model), config.layers_read
        self.layers = list(decoder_layers(model)[1])
        self.texts: dict[bytes, torch.Tensor] = {}  # [layers read, tokens, H] bfloat16
        self.room = MOST_BYTES

    @contextmanager
    def once(self, inputs: Mapping[str, Any]) -> Iterator[None]:
        """Ends a pass over a batch before its first layer, by the reading of what is kept; the layers run before for
        the texts that are new."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()  # [B, T] both
        rows = [row[real] for row, real in zip(ids, mask, strict=True)]
        texts = [row.cpu().numpy().tobytes() for row in rows]
        new = {text: row for text, row in zip(texts, rows, strict=True) if text not in self.texts}
        made = dict(zip(new, self._run(list(new.values())), strict=True)) if new else {}
        states = [made[text] if text in made else self.texts[text] for text in texts]
        for text, outputs in made.items():  # kept as long as there is room
            if self.room >= outputs.nbytes:
                self.texts[text] = outputs
                self.room -= outputs.nbytes
        # After the hook that takes the embeddings.
        hook = self.layers[0].register_forward_pre_hook(lambda *_: self._read(states, mask))
        try:
            yield
        finally:  # a pass of the reading alone ends by an exception
            hook.remove()

    def _run(self, rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """[layers read, tokens, H] bfloat16 of each row of tokens. What all rows begin with runs once."""
        cache, before = DynamicCache(config=self.model.config), None
        repeats = all(hasattr(layer, "batch_repeat_interleave") for layer in cache.layers)  # not of linear attention
        shared = len(os.path.commonprefix([row[:-1].tolist() for row in rows])) if repeats else 0
        padded = pad_sequence([row[shared:] for row in rows], batch_first=True)  # [n, T]
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        with torch.no_grad(), without_calculator(self.model):
            if shared:
                before = self._outputs(input_ids=rows[0][None, :shared], past_key_values=cache, use_cache=True)
                cache.batch_repeat_interleave(len(rows))
            states = self._outputs(input_ids=padded, attention_mask=mask, past_key_values=cache, use_cache=True)
        if before is not None:
            states = torch.cat([before.expand(-1, len(rows), -1, -1), states], 2)
        return [states[:, at, : len(row)].clone() for at, row in enumerate(rows)]

    def _outputs(self, **inputs: Any) -> torch.Tensor:
        """[layers read, B, T, H] bfloat16 in a pass that ends after the last of these layers."""
        made: list[torch.Tensor] = []

        def keep(layer: Any, args: Any, output: Any) -> None:
            states = output[0] if isinstance(output, tuple) else output  # a tuple in GPT-J and Bloom
            self.dtype = states.dtype
            made.append(states.to(torch.bfloat16))
            if len(made) == len(self.read):
                raise _LayersDone

        hooks = [self.layers[at].register_forward_hook(keep) for at in self.read]
        try:
            with suppress(_LayersDone):
                self.model(**inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack(made)

    def _read(self, states: Sequence[torch.Tensor], mask: torch.Tensor) -> None:
        """Ends the pass in progress, over texts with these outputs and the mask [B, T]."""
        call = current_call(self.model)
        read = states[0].new_zeros(len(self.read), *mask.shape, states[0].shape[-1], dtype=self.dtype)  # [.., B, T, H]
        for row, kept in enumerate(states):
            read[:, row, mask[row]] = kept.to(self.dtype)
        layer, name = active_layer(self.model)
        if call is not None and layer is not None:
            call.outputs |= dict(zip(self.read, read, strict=True))
            read_early(layer.adapter(name), call)


class _LayersDone(Exception):  # noqa: N818 - not an error: it ends a pass
    """Ends a pass after the last layer whose output is kept."""
