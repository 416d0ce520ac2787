"""Wrappers on the causal LM: they take the `igc_*` arguments, push and pop the `Call`, add the loss to the output.

The model can be called in several ways (`PeftModel.forward`, nested tuners, plain injection, `generate`). All of them
pass through the `__call__` and `generate` of the innermost causal LM, so the wrappers are installed there and not on a
PEFT model. The functions hold no state and compute nothing: `layer` does that.

In: `model(..., igc_anchors, igc_operands, igc_signs, igc_operator, igc_result, igc_result_sign, igc_result_status,
igc_result_scale, igc_add_loss)` and `generate(..., igc_anchors)`. Out: outputs with the fields of `outputs.Fields`.

Shapes: B rows, T positions of this call, L tokens of the text so far, A anchors per row, P tokens of a prompt.
Try it: `pytest tests/tuner/test_hooks.py`
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import torch
from peft import PeftModel, set_peft_model_state_dict
from peft.utils import load_peft_weights
from torch import nn
from transformers.utils import ModelOutput
from transformers.utils.loading_report import LoadStateDictInfo

from ..mappings.readings import Targets
from .anchors import check_anchors, last_tokens
from .call import Call, Generation, anchors_for_assistant, current_call, current_generation, generating, thread
from .config import IGCConfig
from .config_values import PROMPT_END
from .outputs import extended, with_fields
from .saving.companions import active_adapters, load_companions_of_base
from .state.cache import find_cache, states_of
from .step_log import StepLog
from .steps import Generated


UNRELATED = "igc_unrelated"  # the only target that may be left out
TARGETS = tuple(name for name in (f"igc_{field}" for field in Targets._fields) if name != UNRELATED)


def install(model: nn.Module, first_layer: nn.Module) -> None:
    """Installs the hooks on a causal LM and on its first decoder layer. A second call does nothing."""
    model.__dict__.pop("_igc_layers", None)
    if "_igc_handles" in model.__dict__:
        return
    model.__dict__["_igc_handles"] = [first_layer.register_forward_pre_hook(_Capture(model), with_kwargs=True)]
    # The instance gets attributes that shadow the methods of its class: `generate` has no hooks, and a forward hook
    # does not run after a `KeyboardInterrupt` (torch 2.13), so the call would stay on its thread's stack.
    for name, wrapper in _WRAPPERS.items():
        if hasattr(type(model), name):
            model.__dict__[name] = wrapper(model, model.__dict__.get(name))


def capture(model: nn.Module, layers: nn.ModuleList, indices: Iterable[int]) -> None:
    """Makes decoder layers of a causal LM, on which the hooks are installed, give their outputs to the calls."""
    captured = model.__dict__.setdefault("_igc_captured", {})
    for index in indices:
        if index not in captured:
            captured[index] = layers[index].register_forward_hook(_CaptureOutput(model, index))


def release(model: nn.Module, needed: Iterable[int]) -> None:
    """Removes the hooks of `capture` but for those of the layers `needed`."""
    captured = model.__dict__.get("_igc_captured", {})
    for index in set(captured).difference(needed):
        captured.pop(index).remove()


def uninstall(model: nn.Module) -> None:
    """Removes the hooks and restores the model's own methods."""
    release(model, ())
    model.__dict__.pop("_igc_captured", None)
    model.__dict__.pop("_igc_layers", None)
    for handle in model.__dict__.pop("_igc_handles", []):
        handle.remove()
    for name, kind in _WRAPPERS.items():
        wrapper = model.__dict__.get(name)
        if isinstance(wrapper, kind):
            del model.__dict__[name]
            if wrapper.replaced is not None:
                model.__dict__[name] = wrapper.replaced


class _Wrapper:
    """Shadows one method of a causal LM. An object instead of a closure, because copies and pickles must include it.

    Args:
        model: the causal LM.
        replaced: the instance attribute of that name that was there before, or None.
    """

    name: str

    def __init__(self, model: nn.Module, replaced: Any) -> None:
        self.model: Any = model
        self.replaced = replaced

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the original: transformers (5.23) looks there for the arguments that a model takes."""
        return inspect.signature(self.replaced or getattr(self.model.__class__, self.name).__get__(self.model))

    def original(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the shadowed method. A stored bound method would be pickled by its name, and torch (2.11) cannot
        trace how one is made."""
        if self.replaced is not None:
            return self.replaced(*args, **kwargs)
        return getattr(type(self.model), self.name)(self.model, *args, **kwargs)


class _Call(_Wrapper):
    """What `model(...)` runs: removes the `igc_*` arguments, and adds the loss and metrics to the output.

    Not `forward`, which TRL (1.16) and accelerate (1.15) replace. `_call_impl` (torch 2.13) runs `forward` with all
    hooks; a class method `__call__` cannot be shadowed by an instance.
    """

    name = "_call_impl"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = Call(model=self.model)
        thread.calls.append(call)
        try:
            _take_arguments(call, args, kwargs)
            output = self.original(*args, **kwargs)
            if call.generation is not None and call.is_logged and call.state is not None:
                call.generation.log.add(call.state, call.steps, call.event)
            if call.ran is None and not torch.compiler.is_compiling():
                _tell_of_bypass(call)
            return _with_report(call, output)
        finally:
            thread.calls.pop()


class _Replicate(_Wrapper):
    """Refuses `nn.DataParallel`, which copies the model with its wrappers, and these lead to the original."""

    name = "_replicate_for_data_parallel"

    def __call__(self) -> Any:
        raise ValueError(
            "`nn.DataParallel` runs copies of the model, but the calculator's layers belong to the original. "
            "Use DistributedDataParallel (`accelerate launch`), or one device (`CUDA_VISIBLE_DEVICES=0`)."
        )


class _PrepareInputs(_Wrapper):
    """`prepare_inputs_for_generation`, which precedes each pass of `generate` and is never compiled."""

    name = "prepare_inputs_for_generation"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self.original(*args, **kwargs)
        generation = current_generation(self.model)
        if generation is not None and generation.log is not None:
            _log_compiled_pass(generation, after_reorder=generation.log.beams)
            generation.log.is_complete = False
        if torch.is_tensor(inputs.get("input_ids")):
            choose_graph(self.model, inputs["input_ids"], find_cache((), inputs))
        return inputs


def choose_graph(model: nn.Module, input_ids: torch.Tensor, past_key_values: Any) -> None:
    """Chooses, before a compiled decode step on a static KV cache, which of two graphs runs.

    One graph looks for anchors and runs their steps, the other does not. The choice needs the ids on the host, which
    costs one synchronization, so it cannot be made inside of either. `generate` makes it by itself. Without it a
    compiled pass takes the graph that looks for anchors, which is slower and never wrong.

    Args:
        model: the model, with or without PEFT around it.
        input_ids: [B, T] int64 ids of the next pass. On the CPU, for a loop that knows them there, the choice needs
            no synchronization until the next step.
        past_key_values: its KV cache.
    """
    cache = find_cache((), {"past_key_values": past_key_values})
    layer, name = active_layer(model)
    if layer is not None and cache is not None:
        layer.choose_graph(name, input_ids, cache)


def _take_arguments(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Removes the `igc_*` arguments from `kwargs`, and fills the call."""
    ids = kwargs.get("input_ids", args[0] if args and torch.is_tensor(args[0]) else None)
    mask = kwargs.get("attention_mask", args[1] if len(args) > 1 and torch.is_tensor(args[1]) else None)
    call.input_ids = ids
    call.attention_mask = mask if torch.is_tensor(mask) and mask.dim() == 2 else None
    call.labels, call.use_cache = kwargs.get("labels"), kwargs.get("use_cache")
    call.cache = find_cache(args, kwargs)
    call.anchors = kwargs.pop("igc_anchors", None)
    call.targets = _take_targets(kwargs, ids)
    call.add_to_loss = kwargs.pop("igc_add_loss", True)
    _check_arguments(call, kwargs)
    tokens = kwargs.get("inputs_embeds") if ids is None else ids
    if call.anchors is not None and torch.is_tensor(tokens):
        check_anchors(call.anchors, tokens.shape, call.attention_mask)
    generation = current_generation(call.model)
    if generation is not None and generation.owns(call):
        call.generation = generation


def _take_targets(kwargs: dict[str, Any], ids: torch.Tensor | None) -> Targets | None:
    """Removes the targets from `kwargs`; None if there are none.

    Raises:
        ValueError: if only some of them are given, or `igc_unrelated` has not the shape of the token `ids`.
    """
    unrelated = kwargs.pop(UNRELATED, None)
    if unrelated is not None and (ids is None or unrelated.shape != ids.shape):
        wanted = "there are no `input_ids`" if ids is None else f"`input_ids` has {tuple(ids.shape)}"
        raise ValueError(
            f"`{UNRELATED}` has the shape {tuple(unrelated.shape)}, but {wanted}. Pass one value per token."
        )
    given = {name: kwargs.pop(name) for name in TARGETS if kwargs.get(name) is not None}
    for name in TARGETS:
        kwargs.pop(name, None)
    if not given:
        return None
    if "igc_result_status" in given:  # without it all results are integers
        given.setdefault("igc_result_scale", torch.zeros_like(given["igc_result_status"]))
    missing = [name for name in TARGETS if name not in given]
    if missing:
        raise ValueError(
            f"`{'`, `'.join(missing)}` is missing beside `{'`, `'.join(given)}`: targets must be passed together. "
            "Use the collator of `IGCTrainer`, or `columns.encode_steps`."
        )
    return Targets(**{name.removeprefix("igc_"): given[name] for name in TARGETS}, unrelated=unrelated)


def _check_arguments(call: Call, kwargs: dict[str, Any]) -> None:
    """Refuses arguments with which the adapter would silently do the wrong thing.

    Raises:
        ValueError: for unknown `igc_*` arguments, targets with `return_dict=False`, `nn.DataParallel`, or several
            texts packed into one row.
    """
    unknown = [name for name in kwargs if name.startswith("igc_")]
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is not an argument of the calculator. Use `igc_anchors`, `igc_add_loss` or "
            f"`{'`, `'.join(TARGETS)}`."
        )
    if call.targets is not None and kwargs.get("return_dict") is False:
        raise ValueError(
            "`return_dict=False` leaves no place for the reading loss. Remove it, or pass no `igc_*` targets."
        )
    if kwargs.get("cu_seq_lens_q") is not None and active_config(call.model) is not None:
        raise ValueError(
            "`cu_seq_lens_q` packs several texts into one row (continuous batching, padding-free training), so a "
            "calculation would read across texts. Use `generate` with a padded batch, and `padding_free=False`."
        )
    positions = kwargs.get("position_ids")
    if kwargs.get("attention_mask") is None and isinstance(positions, torch.Tensor) and positions.dim() == 2:
        # Packing and padding-free training without `cu_seq_lens_q` show only in the positions.
        if positions.shape[1] > 1 and bool((positions[:, 1:] <= positions[:, :-1]).any()):
            raise ValueError(
                "`position_ids` restart within a row: several texts are packed into it, so a calculation would read "
                "across texts. Set `packing=False` and `padding_free=False`."
            )


def _tell_of_bypass(call: Call) -> None:
    """Warns once if an active calculator did not run in a call because hooks of a decoder layer were bypassed.

    Raises:
        ValueError: if the call has targets.
    """
    layer, _ = active_layer(call.model)
    model: Any = call.model
    config: Any = model.config.get_text_config(decoder=True)
    # Drafts of assisted decoding may leave early (transformers 5.23 changes this number), training may drop layers.
    if layer is None or layer.layer_index >= config.num_hidden_layers:
        return
    if model.training and getattr(config, "layerdrop", 0):
        return
    index = layer.layer_index if call.bypassed is None else call.bypassed
    said = (
        f"In a call of `{type(model).__name__}` the hooks of decoder layer {index} did not run, "
        "because something within it calls `layer.forward(...)`, so the calculator is off"
    )
    cure = "Call the layer itself, `layer(...)`, or remove the wrapper around it."
    if call.targets is not None:
        raise ValueError(f"{said}, and so the targets train nothing. {cure}")
    if not layer.is_told:
        layer.is_told = True
        warnings.warn(f"{said}. {cure}", stacklevel=4)


def _with_report(call: Call, output: Any) -> Any:
    """The model's output, with the loss and metrics if the call has targets."""
    if call.report is None or output is None:
        return output
    if not isinstance(output, ModelOutput):
        raise ValueError(
            f"The model returned a `{type(output).__name__}`, which has no place for the reading loss. "
            "Set `model.config.return_dict = True`, or pass no `igc_*` targets."
        )
    return with_fields(output, call.report, call.add_to_loss)


class _Capture:
    """Forward pre-hook of the first decoder layer: stores its input as the call's token embeddings.

    The layer's input contains everything that the architecture does to embeddings (Gemma's scaling, OPT's projection,
    NEFTune's noise). An object instead of a closure, so that copies and pickles of the model work.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = current_call(self.model)
        if call is not None:
            call.embedded = args[0] if args else kwargs["hidden_states"]


class _CaptureOutput:
    """Forward hook of a decoder layer: stores its output in the call, for calculators that read it at a later one.

    A pass for the reading alone ends here if this is the last layer that the calculator reads.
    """

    def __init__(self, model: nn.Module, index: int) -> None:
        self.model, self.index = model, index

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        call = current_call(self.model)
        if call is not None:
            call.outputs[self.index] = output[0] if isinstance(output, tuple) else output
            reader, name = active_layer(self.model) if thread.reading_alone else (None, "")
            if reader is not None and self.index == reader.igc_config[name].layers_read[-1]:
                reader.read_early(name, call)


class _Generate(_Wrapper):
    """`generate`, which first finds the anchors at the end of the prompt.

    Later forward passes of the generation see single tokens and cannot tell where the prompt ended.
    """

    name = "generate"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        anchors = kwargs.pop("igc_anchors", None)
        unused = [name for name in kwargs if name.startswith("igc_")]
        if unused:
            raise ValueError(f"`{unused[0]}` has no use in `generate`, which takes only `igc_anchors`. Remove it.")
        generate = self.original
        ids = kwargs.get("input_ids", kwargs.get("inputs", args[0] if args else None))
        embeddings = kwargs.get("inputs_embeds")
        prompt = embeddings if torch.is_tensor(embeddings) else ids
        if not torch.is_tensor(prompt) or not prompt.numel():
            return generate(*args, **kwargs)
        mask = self._mask(prompt, kwargs)
        ids = ids if prompt is ids else None
        if ids is None:
            _warn_of_embeddings(self.model)
        given = anchors is not None
        if anchors is not None:
            check_anchors(anchors, prompt.shape, mask)
            # With a KV cache the prompt may be the new tokens only, while the mask covers the whole text.
            anchors = torch.where(anchors >= 0, anchors + mask.shape[1] - prompt.shape[1], -1)
        elif ids is None or self._anchors_at_the_end():  # without ids no token sequence can be found
            outer = None if ids is None else anchors_for_assistant(self.model, ids)
            anchors = last_tokens(mask) if outer is None else outer
        returned = self._setting("return_dict_in_generate", kwargs)
        reused = bool(returned) or find_cache((), kwargs) is not None
        generation = Generation(self.model, ids, mask, anchors, given, reused)
        config = active_config(self.model)
        if returned and config is not None:
            generation.log = StepLog(config, mask.shape[1], beams=self._beams(kwargs) > 1)
        with generating(generation):
            output = generate(*args, **kwargs)
        if thread.observers:
            self._tell(generation, prompt.shape[1], output, kwargs)
        return self._with_steps(generation, prompt.shape[1], output, kwargs) if returned else output

    def _with_steps(self, generation: Generation, width: int, output: Any, kwargs: dict[str, Any]) -> Any:
        """The output with the steps of each returned sequence in `igc_steps`, None without an active adapter."""
        if generation.log is None:
            return extended(output, {"igc_steps": None})
        if not generation.log.beams:  # beam search has reordered the rows since, one cannot tell how
            _log_compiled_pass(generation)
        start = generation.log.length - self._prompt_columns(generation, width)
        beams = output.beam_indices if generation.log.beams else None
        steps = generation.log.of_sequences(output.sequences, start, self._ends(kwargs), beams)
        return extended(output, {"igc_steps": steps})

    def _beams(self, kwargs: dict[str, Any]) -> int:
        return self._setting("num_beams", kwargs) or 1

    def _ends(self, kwargs: dict[str, Any]) -> tuple[int, ...]:
        """The tokens that end an answer."""
        end = self._setting("eos_token_id", kwargs)
        return () if end is None else tuple(end) if isinstance(end, (list, tuple)) else (int(end),)

    def _prompt_columns(self, generation: Generation, width: int) -> int:
        """Columns of the prompt in the returned sequences, which lack a prompt of embeddings (transformers 5.23)."""
        return 0 if generation.prompt is None else width

    def _tell(self, generation: Generation, width: int, output: Any, kwargs: dict[str, Any]) -> None:
        """Gives the finished texts to observers that ask for them; `width`: tokens of the prompt that was passed."""
        sequences = output if torch.is_tensor(output) else output.sequences
        length, beams, ends = generation.mask.shape[1], self._beams(kwargs), self._ends(kwargs)
        prompt = self._prompt_columns(generation, width)
        for observer in thread.observers:
            if hasattr(observer, "finish"):  # most observers are functions, which see forward passes only
                observer.finish(Generated(generation, sequences, length - prompt, prompt, ends, beams))

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
        if prompt.dim() != 2 or pad is None or pad in ends:
            return ones
        ones[:, before:] = (prompt != pad).long()
        return ones

    def _setting(self, name: str, kwargs: dict[str, Any]) -> Any:
        """A setting of `generate`: from the argument, the `generation_config` passed, or the model's own."""
        configs = (kwargs.get("generation_config"), getattr(self.model, "generation_config", None))
        values = (kwargs.get(name), *(getattr(config, name, None) for config in configs))
        return next((value for value in values if value is not None), None)

    def _anchors_at_the_end(self) -> bool:
        """Whether the end of the prompt is an anchor; also if no adapter is active now."""
        config = active_config(self.model)
        return config is None or config.anchor == PROMPT_END


def _log_compiled_pass(generation: Generation, *, after_reorder: bool = False) -> None:
    """Logs the steps of the last forward pass from the KV cache, if that pass ran in a compiled graph."""
    layer, name = active_layer(generation.model)
    if generation.log.is_complete or layer is None or generation.cache is None:
        return
    state = states_of(generation.cache, layer.layer_index).get(name)
    if state is not None:
        generation.log.add(state, state.steps, after_reorder=after_reorder)


def _warn_of_embeddings(model: nn.Module) -> None:
    """Warns that a prompt of embeddings has no tokens, in which the token interface would find numbers."""
    config = active_config(model)
    if config is not None and config.interface == "tokens":
        warnings.warn(
            "`generate(inputs_embeds=...)` has no token ids, and the token interface reads numbers from them, so the "
            "calculator is off in this prompt. Pass `input_ids`.",
            stacklevel=3,
        )


class _ContinuousBatching(_Wrapper):
    """`init_continuous_batching`, which all ways of continuous batching call before their first pass.

    Its passes have several texts in one row, and transformers (5.23) reports an error in a pass as a failed request.
    """

    name = "init_continuous_batching"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active_config(self.model) is not None:
            raise ValueError(
                "Continuous batching (`generate_batch`) packs several texts into one row, so a calculation would read "
                "across texts. Use `generate` with a padded batch; with GRPO, leave out "
                "`use_transformers_continuous_batching`."
            )
        return self.original(*args, **kwargs)


class _Save(_Wrapper):
    """`save_pretrained` of transformers, which saves one of the adapters that it has loaded.

    It (5.23) takes the active one of the first adapted layer, and would lose a calculator next to a LoRA.
    """

    name = "save_pretrained"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        active = sorted(active_adapters(self.model).intersection(getattr(self.model, "peft_config", ())))
        if getattr(self.model, "_hf_peft_config_loaded", False) and len(active) > 1:
            raise ValueError(
                f"The adapters {', '.join(map(repr, active))} are active, and transformers saves one of them. Save "
                "each in its own folder, after `model.set_adapter(name)`, or use `PeftModel`, which saves all."
            )
        return self.original(*args, **kwargs)


class _LoadWeights(_Wrapper):
    """`_load_pretrained_model`, with which `load_adapter` of transformers loads the weights of an injected adapter.

    A calculator's are loaded as PEFT does it, which checks them. Transformers (5.23) leaves them random where the base
    has its own weights on the disk, and where the file has none.
    """

    name = "_load_pretrained_model"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name, config = list(self.model.peft_config.items())[-1]  # what is loaded was added last
        if not isinstance(config, IGCConfig):
            # Not `original`: this method of the class is static.
            return (self.replaced or type(self.model)._load_pretrained_model)(*args, **kwargs)
        weights = kwargs["state_dict"]
        if weights is None:
            config.loaded_from = os.path.dirname(kwargs["checkpoint_files"][0])
            weights = load_peft_weights(config.loaded_from, device="cpu")
        set_peft_model_state_dict(self.model, weights, name)
        if kwargs["state_dict"] is None:
            load_companions_of_base(self.model, config, kwargs["load_config"])
        nothing: dict[str, Any] = {"error_msgs": [], "conversion_errors": {}}
        return LoadStateDictInfo(**{f.name: nothing.get(f.name, set()) for f in fields(LoadStateDictInfo)}), {}


_WRAPPERS: dict[str, type[_Wrapper]] = {
    kind.name: kind
    for kind in (_Call, _Replicate, _PrepareInputs, _Generate, _ContinuousBatching, _Save, _LoadWeights)
}


def wrapped_model(model: nn.Module) -> nn.Module | None:
    """The causal LM in `model` on which the hooks are installed, the `model` of its calls; None if there is none."""
    return next((module for module in model.modules() if "_igc_handles" in module.__dict__), None)


def active_layer(model: nn.Module) -> tuple[Any, str]:
    """The `IGCLayer` in `model` with an active adapter that is not disabled, and its name; (None, "") for none."""
    layer: Any
    for layer in _layers_of(model):
        if not layer.disable_adapters:
            for name in layer.active_adapters:
                if name in layer.igc_config:
                    return layer, name
    return None, ""


def _layers_of(model: nn.Module) -> list[nn.Module]:
    """Every `IGCLayer` in `model`. Kept on the causal LM, because a walk over a large model takes as long as some
    kernels, and `generate` asks before each token."""
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    if "_igc_handles" not in base.__dict__:
        return [module for module in base.modules() if hasattr(module, "igc_config")]
    if "_igc_layers" not in base.__dict__:
        base.__dict__["_igc_layers"] = [module for module in base.modules() if hasattr(module, "igc_config")]
    return base.__dict__["_igc_layers"]


def active_config(model: nn.Module) -> IGCConfig | None:
    """The config of the IGC adapter that is active and not disabled in `model`, or None."""
    layer, name = active_layer(model)
    return None if layer is None else layer.igc_config[name]
