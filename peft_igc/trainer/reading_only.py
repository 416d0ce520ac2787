"""Training steps that end after the reading; the outputs of complete passes, kept for the reading loss.

In: a model and a batch with anchors and targets. Out: the reading's loss and metrics, not weighted. The reading learns
nothing from later layers (paper, "Modified Training Process"), so a pass that trains only the reading can end after
it. Nor does it train the layers before it, so `KeptOutputs` computes their outputs once per text: at layer 12 of
SmolLM2-135M they are nine tenths of a step. Dropout in these layers is drawn once. Memory: two bytes per number, 1.2
KB per token and layer read of SmolLM2-135M. Also decides which steps train only the reading.

Shapes: B rows, T positions, H hidden size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from ..tuner.base_model import decoder_layers, innermost_model
from ..tuner.call import Fields, ReadingDone, current_call, reading_alone
from ..tuner.hooks.calls import TARGETS
from ..tuner.hooks.wrapper import active_config, active_layer
from ..tuner.passes import read_early


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
    given = _up_to_anchors({name: inputs[name] for name in names if name in inputs})
    try:
        # `reading_alone` makes the calculator's layer raise after the reading.
        with reading_alone(), nullcontext() if kept is None else kept.once(given):
            model(**given, use_cache=False)
    except ReadingDone as done:
        return done.report
    raise ValueError("No IGC adapter is active, so nothing was read. Leave `igc_writing_every` and `igc_writing` out.")


def _up_to_anchors(inputs: dict[str, Any]) -> dict[str, Any]:
    """The batch without the tokens after each row's last anchor, which nothing reads."""
    if "igc_anchors" not in inputs:
        return inputs
    last = inputs["igc_anchors"].amax(1, keepdim=True).clamp(min=0)  # [B, 1]
    end, mask = int(last.max()) + 1, inputs["attention_mask"]
    mask = mask * (torch.arange(mask.shape[1], device=mask.device) <= last)
    return inputs | {"input_ids": inputs["input_ids"][:, :end], "attention_mask": mask[:, :end]}


class KeptOutputs:
    """The outputs of the layers that the calculator reads, by the tokens of a text; they are frozen up to there."""

    def __init__(self, model: Any) -> None:
        config = active_config(model)
        assert config is not None
        self.model, self.read = innermost_model(model), config.layers_read
        self.layers = list(decoder_layers(model)[1])[: self.read[-1] + 1]
        self.texts: dict[bytes, torch.Tensor] = {}  # [layers read, tokens, H] bfloat16
        self.room = MOST_BYTES

    @classmethod
    def of_trainer(cls, trainer: Any) -> KeptOutputs | None:
        """Those of a first stage; None if its steps are no more than one pass over the rows."""
        rows = trainer.args.max_steps * trainer._train_batch_size * trainer.args.gradient_accumulation_steps
        come_again = hasattr(trainer.train_dataset, "__len__") and rows > len(trainer.train_dataset)
        return cls(trainer.model) if come_again else None

    @contextmanager
    def once(self, inputs: Mapping[str, Any]) -> Iterator[None]:
        """Lets the layers run in a pass over a batch if one of its texts is new, and ends it before them otherwise."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()  # [B, T] both
        texts = [row[real].cpu().numpy().tobytes() for row, real in zip(ids, mask, strict=True)]
        made: list[torch.Tensor] = []
        if all(text in self.texts for text in texts):  # after the hook that takes the embeddings
            hooks = [self.layers[0].register_forward_pre_hook(lambda *_: self._read(texts, mask))]
        else:
            rounded = functools.partial(_rounded, made)
            hooks = [layer.register_forward_hook(rounded, prepend=True) for layer in self.layers]
        try:
            yield
        finally:  # a pass of the reading alone ends by an exception
            for hook in hooks:
                hook.remove()
            if len(made) == len(self.layers):
                self._keep(texts, mask, made)

    def _keep(self, texts: Sequence[bytes], mask: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Keeps the outputs [B, T, H] of the layers in a pass with the mask [B, T]."""
        self.dtype = outputs[0].dtype
        read = torch.stack([outputs[at].detach() for at in self.read], 1)  # [B, layers read, T, H]
        for text, states, real in zip(texts, read, mask, strict=True):
            kept = states[:, real].to(torch.bfloat16)
            if text not in self.texts and self.room >= kept.nbytes:
                self.texts[text] = kept
                self.room -= kept.nbytes

    def _read(self, texts: Sequence[bytes], mask: torch.Tensor) -> None:
        """Ends the pass in progress, over known texts with the mask [B, T], by the reading of what is kept."""
        first, call = self.texts[texts[0]], current_call(self.model)
        read = first.new_zeros(len(self.read), *mask.shape, first.shape[-1], dtype=self.dtype)  # [.., B, T, H]
        for row, text in enumerate(texts):
            read[:, row, mask[row]] = self.texts[text].to(self.dtype)
        layer, name = active_layer(self.model)
        if call is not None and layer is not None:
            call.outputs |= dict(zip(self.read, read, strict=True))
            read_early(layer.adapter(name), call)


def _rounded(made: list[torch.Tensor], layer: Any, args: Any, output: Any) -> Any:
    """Forward hook: a layer's output as later passes read it, so that it does not matter which pass over a text is
    the first; its states [B, T, H], first of a tuple in GPT-J and Bloom, are added to `made`."""
    states = output[0] if isinstance(output, tuple) else output
    made.append(states.to(torch.bfloat16).to(states.dtype))
    return (made[-1], *output[1:]) if isinstance(output, tuple) else made[-1]


def supervised_steps(batches: Sequence[Mapping[str, Any]], device: torch.device) -> torch.Tensor:
    """The number of supervised steps in batches, counted in the same way as in the model."""
    count = torch.zeros((), device=device)
    for batch in batches:
        if (operator := batch.get("igc_operator")) is not None:
            count += ((operator >= 0) & (batch.get("igc_anchors", operator) >= 0)).sum().to(device)
    return count


def recorded(model: Any, outputs: list[Any]) -> Callable[..., Any]:
    """The model for `SFTTrainer.compute_loss`, which also keeps the outputs of passes in which the calculator ran.

    TRL (1.16) does not return them for every loss: for some it runs a second pass without gradients, for its metrics.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        output = model(*args, **kwargs)
        # The fields are declared on the output's class (`hooks.calls`), so they survive DDP's rebuilding of outputs.
        if getattr(output, "igc_loss", None) is not None:
            outputs.append(output)
        return output

    return run
