"""Hooks on the causal LM itself: they tell the calculator's layers what a call knows, and carry their losses out.

PEFT calls the base model on several ways (`PeftModel.forward`, nested tuners, plain injection, `generate`), and all of
them go through the base model's own `__call__` and `generate`. So this is where the `igc_*` arguments are taken, where
a call's record is pushed and popped, and where the output gains its fields. Functions of this module hold no state.

Arguments taken from `model(...)`: `igc_anchors`, the six of `reading.Targets` (`igc_operands`, `igc_signs`,
`igc_operator`, `igc_result`, `igc_result_sign`, `igc_result_status`), `igc_add_loss`; from `generate`: `igc_anchors`.
Try it: `pytest tests/test_hooks.py`
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.utils import ModelOutput

from .anchors import check_anchors, last_tokens
from .config import PROMPT_END
from .outputs import with_fields
from .reading import Targets
from .state import (
    Call,
    Generation,
    anchors_for_assistant,
    current_call,
    current_generation,
    find_cache,
    generating,
    thread,
)


TARGETS = tuple(f"igc_{name}" for name in ("operands", "signs", "operator", "result", "result_sign", "result_status"))


def install(model: nn.Module, first_layer: nn.Module) -> None:
    """Installs the hooks on a causal LM and on its first decoder layer, once."""
    if "_igc_handles" in model.__dict__:
        return
    model.__dict__["_igc_handles"] = [
        model.register_forward_pre_hook(_before_forward, with_kwargs=True, prepend=True),
        model.register_forward_hook(_after_forward, with_kwargs=True, always_call=True),
        first_layer.register_forward_pre_hook(_Capture(model), with_kwargs=True),
    ]
    model.__dict__["generate"] = _Generate(model, model.__dict__.get("generate"))


def uninstall(model: nn.Module) -> None:
    """Removes the hooks; the model is as it was before."""
    for handle in model.__dict__.pop("_igc_handles", []):
        handle.remove()
    wrapper = model.__dict__.pop("generate", None)
    if isinstance(wrapper, _Generate) and wrapper.replaced is not None:
        model.__dict__["generate"] = wrapper.replaced


def _before_forward(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Takes the `igc_*` arguments and pushes the call."""
    ids = kwargs.get("input_ids", args[0] if args and torch.is_tensor(args[0]) else None)
    mask = kwargs.get("attention_mask", args[1] if len(args) > 1 and torch.is_tensor(args[1]) else None)
    call = Call(
        model=model,
        input_ids=ids,
        attention_mask=mask if torch.is_tensor(mask) and mask.dim() == 2 else None,
        labels=kwargs.get("labels"),
        cache=find_cache(args, kwargs),
        use_cache=kwargs.get("use_cache"),
    )
    thread.calls.append(call)  # before anything raises: the hook behind pops in any case
    call.anchors = kwargs.pop("igc_anchors", None)
    call.targets = _take_targets(kwargs)
    call.add_to_loss = kwargs.pop("igc_add_loss", True)
    _check_arguments(call, kwargs)
    tokens = kwargs.get("inputs_embeds") if ids is None else ids
    if call.anchors is not None and torch.is_tensor(tokens):
        check_anchors(call.anchors, tokens.shape, call.attention_mask)
    generation = current_generation(model)
    if generation is not None and generation.owns(call):
        call.generation = generation
    return args, kwargs


def _take_targets(kwargs: dict[str, Any]) -> Targets | None:
    """The targets among the arguments, all or none."""
    given = {name: kwargs.pop(name) for name in TARGETS if kwargs.get(name) is not None}
    for name in TARGETS:
        kwargs.pop(name, None)
    if not given:
        return None
    missing = [name for name in TARGETS if name not in given]
    if missing:
        raise ValueError(
            f"`{'`, `'.join(missing)}` is missing beside `{'`, `'.join(given)}`: targets come together. "
            "Use the collator of `IGCTrainer`, or `columns.encode_steps`."
        )
    return Targets(*(given[name] for name in TARGETS))


def _check_arguments(call: Call, kwargs: dict[str, Any]) -> None:
    """Refuses what would go wrong in silence."""
    unknown = [name for name in kwargs if name.startswith("igc_")]
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is no argument of the calculator. Known are `igc_anchors`, `igc_add_loss` and "
            f"`{'`, `'.join(TARGETS)}`."
        )
    if call.targets is not None and kwargs.get("return_dict") is False:
        raise ValueError(
            "`return_dict=False` leaves no place for the reading loss. Drop it, or pass no `igc_*` targets."
        )
    if getattr(call.model, "_is_replica", False):
        raise ValueError(
            "`nn.DataParallel` runs copies of the model that the calculator's layers do not know. "
            "Use DistributedDataParallel (`accelerate launch`), or one device (`CUDA_VISIBLE_DEVICES=0`)."
        )
    if kwargs.get("cu_seq_lens_q") is not None and active_config(call.model) is not None:
        raise ValueError(
            "`cu_seq_lens_q` packs several texts into one row (continuous batching, padding-free training), and a "
            "calculation would read across them. Use `generate` with a padded batch, and `padding_free=False`."
        )
    positions = kwargs.get("position_ids")
    if kwargs.get("attention_mask") is None and torch.is_tensor(positions) and positions.dim() == 2:
        # Several texts in one row (packing, padding-free): anchors and operands of different texts would mix.
        if bool((positions[:, 1:] <= positions[:, :-1]).any()):
            raise ValueError(
                "`position_ids` restart within a row: several texts are packed into it, and a calculation would read "
                "across them. Set `packing=False` and `padding_free=False`."
            )


def _after_forward(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """Pops the call, also after an error, and gives the output its fields."""
    if not thread.calls or thread.calls[-1].model is not model:
        return None  # an error before our pre-hook could push
    call = thread.calls.pop()
    if call.report is None or output is None:
        return None
    if not isinstance(output, ModelOutput):
        raise ValueError(
            f"The model returned a `{type(output).__name__}`, which has no place for the reading loss. "
            "Set `model.config.return_dict = True`, or pass no `igc_*` targets."
        )
    return with_fields(output, call.report, call.add_to_loss)


class _Capture:
    """Keeps what arrives at the first decoder layer: scaled, projected or noisy embeddings, as the model sees them.

    An object rather than a closure, so that copies and pickles of the model take it along.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = current_call(self.model)
        if call is not None:
            call.embedded = args[0] if args else kwargs["hidden_states"]


class _Generate:
    """`generate` of one model, which first finds out where the prompt ends.

    An object rather than a closure, so that copies and pickles of the model take it along.
    """

    def __init__(self, model: nn.Module, replaced: Any) -> None:
        self.model: Any = model
        self.replaced = replaced

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        anchors = kwargs.pop("igc_anchors", None)
        unused = [name for name in kwargs if name.startswith("igc_")]
        if unused:
            raise ValueError(f"`{unused[0]}` has no use in `generate`, which only takes `igc_anchors`. Drop it.")
        generate = self.replaced or type(self.model).generate.__get__(self.model)
        ids = kwargs.get("input_ids", kwargs.get("inputs", args[0] if args else None))
        embeddings = kwargs.get("inputs_embeds")
        prompt = embeddings if torch.is_tensor(embeddings) else ids
        if not torch.is_tensor(prompt) or not prompt.numel():
            return generate(*args, **kwargs)
        mask = self._mask(prompt, kwargs)
        ids = ids if prompt is ids else None
        given = anchors is not None
        if anchors is not None:
            check_anchors(anchors, prompt.shape, mask)
            # Beside a cache the prompt may be the new tokens alone; the mask then covers the whole text.
            anchors = torch.where(anchors >= 0, anchors + mask.shape[1] - prompt.shape[1], -1)
        elif ids is None or self._anchors_at_the_end():  # embeddings show no token sequences
            drafting_for = None if ids is None else anchors_for_assistant(self.model, ids)
            anchors = last_tokens(mask) if drafting_for is None else drafting_for
        with generating(Generation(self.model, ids, mask, anchors, given)):
            return generate(*args, **kwargs)

    def _mask(self, prompt: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
        """[B, P] mask of the prompt; where none is given, padding is found as transformers (5.23) finds it."""
        mask = kwargs.get("attention_mask")
        if torch.is_tensor(mask) and mask.dim() == 2:
            return mask
        cache = find_cache((), kwargs)
        length = 0 if cache is None else int(cache.get_seq_length())
        # A prompt no longer than what is cached is the new tokens alone, as transformers takes it.
        before = length if length >= prompt.shape[1] else 0
        ones = torch.ones(prompt.shape[0], before + prompt.shape[1], dtype=torch.int64, device=prompt.device)
        pad, end = (self._special(name, kwargs) for name in ("pad_token_id", "eos_token_id"))
        ends = end if isinstance(end, (list, tuple)) else [end]
        if prompt.dim() != 2 or pad is None or pad in ends:
            return ones
        ones[:, before:] = (prompt != pad).long()
        return ones

    def _special(self, name: str, kwargs: dict[str, Any]) -> Any:
        """A special token's id: as an argument, of the config given, or of the model's own."""
        configs = (kwargs.get("generation_config"), getattr(self.model, "generation_config", None))
        values = (kwargs.get(name), *(getattr(config, name, None) for config in configs))
        return next((value for value in values if value is not None), None)

    def _anchors_at_the_end(self) -> bool:
        """Whether the end of a prompt is an anchor of the active adapter."""
        config = active_config(self.model)
        return config is None or config.anchor == PROMPT_END


def active_config(model: nn.Module) -> Any:
    """The config of the IGC adapter that is active and switched on in `model`, or None."""
    module: Any
    for module in model.modules():
        configs = getattr(module, "igc_config", None)
        if configs and not module.disable_adapters:
            for name in module.active_adapters:
                if name in configs:
                    return configs[name]
    return None
