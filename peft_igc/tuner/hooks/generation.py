"""`generate`: finds the anchors of the prompt, chooses graphs, and returns the steps of each sequence.

In: `generate(..., igc_anchors)`. Out: outputs with the field `igc_steps`, if they are dictionaries.
Try it: `pytest tests/tuner/test_hooks.py tests/tuner/test_step_log.py`
"""

import importlib
import warnings
from typing import Any

import torch
from torch import nn

from ..anchors import check_anchors, last_tokens
from ..call import Generation, thread
from ..config_values import PROMPT_END
from ..graphs import make_plan
from ..state.cache import find_cache, states_of
from ..steps import Generated
from .calls import extended
from .notices import tell_of_absence
from .step_log import StepLog
from .wrapper import Wrapper, active_config, active_layer


class PrepareInputsWrapper(Wrapper):
    """`prepare_inputs_for_generation`, which precedes each pass of `generate` and is never compiled."""

    name = "prepare_inputs_for_generation"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self.original(*args, **kwargs)
        if torch.is_tensor(inputs.get("input_ids")):
            choose_graph(self.model, inputs["input_ids"], find_cache((), inputs))
        return inputs


def choose_graph(model: nn.Module, input_ids: torch.Tensor, past_key_values: Any) -> None:
    """Chooses which of two graphs a compiled decode step on a static KV cache runs next; `generate` does so itself.

    One graph looks for anchors and runs their steps on the host, the other does not. The choice costs a
    synchronization. Without it a compiled pass takes the graph that looks for anchors, which is slower, never wrong.

    Args:
        model: the model, with or without PEFT around it.
        input_ids: [B, T] int64 ids of the next pass. On the CPU, for a loop that knows them there, the choice needs
            no synchronization until the next step.
        past_key_values: its KV cache.
    """
    cache = find_cache((), {"past_key_values": past_key_values})
    layer, name = active_layer(model)
    if layer is not None and cache is not None and cache.layers:
        make_plan(layer.adapter(name), input_ids, states_of(cache, layer.layer_index))


class GenerateWrapper(Wrapper):
    """`generate`, which first finds the anchors at the end of the prompt: later passes see single tokens."""

    name = "generate"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        anchors = kwargs.pop("igc_anchors", None)
        ids = kwargs.get("input_ids", kwargs.get("inputs", args[0] if args else None))
        embeddings = kwargs.get("inputs_embeds")
        prompt = embeddings if torch.is_tensor(embeddings) else ids
        if not torch.is_tensor(prompt) or not prompt.numel():
            return self.original(*args, **kwargs)
        mask = self._mask(prompt, kwargs)
        ids = ids if prompt is ids else None
        given, config = anchors is not None, active_config(self.model)
        if ids is None and config is not None and config.interface == "tokens":
            warnings.warn(
                "`generate(inputs_embeds=...)` has no token ids, and the token interface reads numbers from them, so "
                "the calculator is off in this prompt. Pass `input_ids`.",
                stacklevel=2,
            )
        if anchors is not None:
            check_anchors(anchors, prompt.shape, mask)
            # With a KV cache the prompt may be the new tokens only, while the mask covers the whole text.
            before = mask.shape[1] - prompt.shape[1]
            anchors = [[at + before for at in row if at >= 0] for row in anchors.tolist()]
        elif ids is None or config is None or config.anchors.get(PROMPT_END):  # without ids nothing else can be found
            anchors = last_tokens(mask.tolist())
        returned = self._setting("return_dict_in_generate", kwargs)
        reused = bool(returned) or find_cache((), kwargs) is not None
        generation = Generation(self.model, ids, mask, anchors, given, reused)
        if returned and config is not None:
            generation.log = StepLog(config, mask.shape[1], beams=self._beams(kwargs) > 1)
        thread.generations.append(generation)
        try:
            output = self.original(*args, **kwargs)
        finally:
            thread.generations.remove(generation)
        tell_of_absence(generation)
        if not returned and not thread.observers:
            return output
        finished = self._finished(generation, prompt.shape[1], output, kwargs)
        for observer in thread.observers:
            if hasattr(observer, "finish"):  # most observers are functions, which see forward passes only
                observer.finish(finished)
        if not returned:
            return output
        log = generation.log  # None without an active adapter
        return extended(output, {"igc_steps": log and log.of_sequences(finished, output.get("beam_indices"))})

    def _beams(self, kwargs: dict[str, Any]) -> int:
        return self._setting("num_beams", kwargs) or 1

    def _finished(self, generation: Generation, width: int, output: Any, kwargs: dict[str, Any]) -> Generated:
        """The finished texts; `width`: tokens of the prompt that was passed."""
        sequences = output if torch.is_tensor(output) else output.sequences
        # A prompt of embeddings is no part of the sequences (transformers 5.23).
        prompt = 0 if generation.prompt is None else width
        end = self._setting("eos_token_id", kwargs)
        ends = () if end is None else tuple(end) if isinstance(end, (list, tuple)) else (int(end),)
        start = generation.mask.shape[1] - prompt
        return Generated(generation, sequences, start, prompt, ends, self._beams(kwargs))

    def _mask(self, prompt: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
        """[B, L] mask of the text up to the end of the prompt, cached tokens included.

        If the caller gave none, it is derived from the padding token by the rule of `generate` in transformers 5.23,
        which derives its own mask later. The two must agree, or the anchor could be a padding token.
        """
        mask = kwargs.get("attention_mask")
        if torch.is_tensor(mask) and mask.dim() == 2:
            return mask
        cache = find_cache((), kwargs)
        length = 0 if cache is None else int(cache.get_seq_length())
        # Like transformers 5.23: a prompt that is no longer than the cached text consists of new tokens only.
        before = length if length >= prompt.shape[1] else 0
        ones = torch.ones(prompt.shape[0], before + prompt.shape[1], dtype=torch.int64, device=prompt.device)
        pad, end = (self._setting(name, kwargs) for name in ("pad_token_id", "eos_token_id"))
        ends = end if isinstance(end, (list, tuple)) else [end]
        if prompt.dim() == 2 and pad is not None and pad not in ends:
            ones[:, before:] = (prompt != pad).long()
        return ones

    def _setting(self, name: str, kwargs: dict[str, Any]) -> Any:
        """A setting of `generate`: from the argument, the `generation_config` passed, or the model's own."""
        configs = (kwargs.get("generation_config"), getattr(self.model, "generation_config", None))
        values = (kwargs.get(name), *(getattr(config, name, None) for config in configs))
        return next((value for value in values if value is not None), None)


class ContinuousBatchingWrapper(Wrapper):
    """`init_continuous_batching`, which precedes passes with several texts in one row."""

    name = "init_continuous_batching"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        config = active_config(self.model)
        if config is None:
            return self.original(*args, **kwargs)
        engine = importlib.import_module("peft_igc.engines.continuous_batching")  # by name: it is built upon this room
        engine.check(config)
        return engine.followed(self.original(*args, **kwargs))
