"""`IGCLayer`: the tuner layer, a child of its decoder layer (`layers.1.igc`) that acts in a forward hook on it instead
of wrapping it. So module paths and classes of the base model stay the same, LoRA reaches every linear layer, recorded
hidden states contain the update, and gradient checkpointing of transformers (5.23), which replays `forward` without
hooks, runs the adapter once. What a forward pass does is in `passes`; no state of a call is kept on the layer.
Try it: `pytest tests/tuner/test_layer.py`
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable
from typing import Any

import torch
from accelerate.hooks import remove_hook_from_submodules
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers.cache_utils import Cache

from .adapter import Adapter, make_mappings
from .call import Call, current_call, recall_call, remember_call
from .config import IGCConfig
from .graphs import act_in_graph, act_with_plan, has_plan
from .hooks.notices import is_new, watch_training
from .passes import act, inputs_of
from .saving.companions import warn_of_absent
from .state.cache import find_cache, forget_plan, number_of, states_of


logger = logging.getLogger(__name__)

# Names every adapter that this process makes, so that a text is not continued by another one of the same name.
_PROCESS, _count = uuid.uuid4().hex, itertools.count()


class IGCLayer(nn.Module, BaseTunerLayer):
    """Reads operands from a decoder layer's output, calculates, and writes the result back (paper, Figure 2).

    The decoder layer `base_layer` belongs to the causal LM `base_model`, on which `hooks` are installed; `layer_index`
    is also the index of its layer in the KV cache.
    """

    # Provided by `BaseTunerLayer`.
    active_adapters: list[str]
    _move_adapter_to_device_of_base_layer: Callable[[str], None]
    # Trainable per-adapter submodules.
    adapter_layer_names = ("igc_input_mapping", "igc_output_mapping")
    # Other per-adapter state.
    other_param_names = ("igc_config",)

    def __init__(self, base_layer: nn.Module, base_model: nn.Module, hidden_size: int, layer_index: int) -> None:
        super().__init__()
        # In lists, because a module assigned to an attribute becomes a submodule: the module tree would have a cycle.
        self._base_layer = [base_layer]
        self._base_model: list[Any] = [base_model]
        self.hidden_size = hidden_size
        self.layer_index = layer_index
        self.igc_input_mapping = nn.ModuleDict()
        self.igc_output_mapping = nn.ModuleDict()
        self.igc_config: dict[str, IGCConfig] = {}
        self._keys: dict[str, str] = {}
        self.told: set[str] = set()  # what a user was told, of `notices`
        self._number = number_of(self)
        # `prepend`: hooks that record hidden states run after this one, so they record the updated states.
        self._handle = base_layer.register_forward_hook(self._hook, with_kwargs=True, prepend=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy is another layer in compiled graphs."""
        super().__setstate__(state)
        self._number = number_of(self)

    # ------------------------------------------------------------------------------------------ PEFT's contract
    def get_base_layer(self) -> nn.Module:
        """The decoder layer."""
        return self._base_layer[0]

    def update_layer(self, adapter_name: str, config: IGCConfig, inference_mode: bool = False) -> None:
        """Adds the adapter `adapter_name` with new weights on the decoder layer's device."""
        reader, writer = make_mappings(config, self.hidden_size, self._base_model[0].get_input_embeddings())
        config.begin(reader, writer)
        self.igc_config[adapter_name] = config
        self._keys[adapter_name] = f"{_PROCESS}:{next(_count)}"
        # New modules are in training mode, and the model may not be: `model.eval()`, then `add_adapter`.
        self.igc_input_mapping[adapter_name] = reader.train(self.training)
        self.igc_output_mapping[adapter_name] = writer.train(self.training)
        self._move_adapter_to_device_of_base_layer(adapter_name)
        BaseTunerLayer.set_adapter(self, self.active_adapters, inference_mode=inference_mode)

    def merge(self, safe_merge: bool = False, adapter_names: list[str] | None = None) -> None:
        """Does nothing: PEFT calls it when a LoRA in the same model is merged. `IGCModel` refuses to merge its own."""

    def unmerge(self) -> None:
        """Does nothing, because nothing can have been merged."""

    def unload_and_optionally_merge_module(self, **options: Any) -> IGCLayer:
        """Stays in place while PEFT (0.21) unloads the adapters of another method, whose configs are forgotten."""
        configs = self._base_model[0].peft_config
        for name in [name for name, config in configs.items() if not isinstance(config, IGCConfig)]:
            del configs[name]
        return self

    def _replicate_for_data_parallel(self) -> None:
        raise ValueError(
            "`nn.DataParallel` runs copies of the model, but the calculator's layers belong to the original. "
            "Use DistributedDataParallel (`accelerate launch`), or one device (`CUDA_VISIBLE_DEVICES=0`)."
        )

    def remove(self) -> None:
        """Removes the hook from the decoder layer."""
        self._handle.remove()

    def _get_base_layer_device_and_dtype(
        self, base_layer: nn.Module
    ) -> tuple[torch.device | None, torch.dtype | None]:
        """Device of the decoder layer's first parameter, and its first floating-point (or compute) dtype. PEFT's own
        (0.21) looks for `.weight`, which a decoder layer has not."""
        modules = list(base_layer.modules())
        parameters = [one for name, one in base_layer.named_parameters() if not name.startswith("igc.")]
        dtypes = [getattr(module, "compute_dtype", None) for module in modules]  # linear layers of bitsandbytes
        dtypes += [one.dtype for one in parameters if one.is_floating_point()]
        device = parameters[0].device if parameters else None
        if device is not None and device.type == "meta":
            # Offloaded by accelerate: the base weights are moved to this device for each pass, ours stay on it. While
            # PEFT loads an adapter, the base has no hooks.
            hooks = [getattr(getattr(module, "_hf_hook", None), "execution_device", None) for module in modules]
            device = torch.device(next((one for one in hooks if one is not None), "cpu"))
        return device, next((one for one in dtypes if one is not None), None)

    def bring_back(self, name: str) -> None:
        """Ends the off-loading of an adapter's weights by accelerate (1.15), which gives them back around a module's
        `forward`. Ours are also used outside of it, are small, and are in no index of a file on the disk."""
        for mapping in (self.igc_input_mapping[name], self.igc_output_mapping[name]):
            is_meta = next(mapping.parameters()).device.type == "meta"
            if is_meta and any(hasattr(module, "_hf_hook") for module in mapping.modules()):
                remove_hook_from_submodules(mapping)  # it restores the weights
                mapping.to(self._get_base_layer_device_and_dtype(self.get_base_layer())[0])

    # ------------------------------------------------------------------------------------------ the forward pass
    def _hook(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Forward hook of the decoder layer. Its output is h [B, T, H], or in GPT-J and Bloom a tuple with h first."""
        active = [] if self.disable_adapters else [n for n in self.active_adapters if n in self.igc_config]
        if not active:
            forget_plan(find_cache(args, kwargs))
            return None
        call = self._call_of(args[0] if args else kwargs["hidden_states"])
        if call is None:
            logger.warning(
                "`%s` was called outside of `%s`, so the calculator is off for this pass. Call the causal LM itself.",
                type(module).__name__,
                type(self._base_model[0]).__name__,
            )
            return None
        rivals = active if call.ran is None else [call.ran, *active]
        if len(rivals) > 1:
            raise ValueError(
                f"IGC adapters {rivals} are active at once, but a text can have only one calculator. "
                "Activate one of them with `set_adapter(name)`."
            )
        adapter = self.adapter(active[0])
        # An earlier decoder layer that is read and whose hooks did not run.
        missing = (max(at, 0) for at in adapter.config.layers_captured if at not in call.outputs)
        call.bypassed = next(missing, None)
        if call.bypassed is not None:
            return None  # `hooks` warns at the end of the call
        call.ran = adapter.name
        self.bring_back(adapter.name)
        h = output[0] if isinstance(output, tuple) else output
        if call.packed is None and call.input_ids is not None and call.input_ids.shape[-1] != h.shape[-2]:
            raise ValueError(
                f"Decoder layer {self.layer_index} got {h.shape[-2]} of {call.input_ids.shape[-1]} tokens: this model "
                "runs its last layers, which share keys and values, at the end of a prompt only. Train a calculator "
                "at a layer before them."
            )
        devices = {next(one.parameters()).device.type for one in (adapter.reader, adapter.writer)}
        if "meta" in devices - {h.device.type}:
            raise ValueError(
                f"The weights of the adapter `{adapter.name}` are on the meta device, as nothing was loaded into "
                "them. Load them with `load_adapter`, or attach the adapter without `low_cpu_mem_usage=True`."
            )
        if not torch.compiler.is_compiling() and is_new(self.told, f"used {adapter.name}"):
            warn_of_absent(self._base_model[0], adapter.name, adapter.config)
        if self.training and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            watch_training(self.told, adapter, call)
        # A checkpointed layer in training mode runs without the KV cache that it was passed (transformers 5.23).
        checkpointed = module.training and getattr(module, "gradient_checkpointing", False)
        cache = None if checkpointed else find_cache(args, kwargs)
        if h.dim() == 4:  # Gemma 3n: several streams [streams, B, T, H], one of which becomes the logits
            stream = adapter.stream
            written = torch.cat([h[:stream], self._act(adapter, h[stream], call, cache)[None], h[stream + 1 :]])
        else:
            written = self._act(adapter, h, call, cache)
        return (written, *output[1:]) if isinstance(output, tuple) else written

    def adapter(self, name: str) -> Adapter:
        """What a pass needs of an adapter."""
        reader, writer = self.igc_input_mapping[name], self.igc_output_mapping[name]
        return Adapter(name, self._keys[name], self.igc_config[name], reader, writer, self._base_model[0])

    def _call_of(self, layer_input: torch.Tensor) -> Call | None:
        """The call in progress, or the call that gradient checkpointing runs again in the backward pass."""
        call = current_call(self._base_model[0])
        if call is not None:
            if self.training:
                # A reentrant checkpoint around the layer runs it without gradients in the forward pass.
                call.without_grad = not torch.is_grad_enabled()
                remember_call(call, layer_input)
            return call
        call = recall_call(layer_input)
        if call is not None and call.without_grad:
            # The reading loss left the forward pass without a graph, and the report of this second run is discarded.
            raise ValueError(
                "With reentrant checkpointing around the decoder layer, the reading receives no gradient. "
                'Pass `gradient_checkpointing_kwargs={"use_reentrant": False}`, or wrap it without reentrance.'
            )
        return call

    def _act(self, adapter: Adapter, h: torch.Tensor, call: Call, cache: Cache | None) -> torch.Tensor:
        """`passes.act`, or what a compiled graph has of it: h [B, T, H] with updates."""
        if call.packed is not None:
            return call.packed.act(adapter, adapter.compressed(inputs_of(adapter, h, call)), h)
        states = None if cache is None else states_of(cache, self.layer_index)
        if states is not None and has_plan(adapter, call, states):
            return act_with_plan(adapter, h, call, states)
        in_graph = states is None or states.capacity
        if torch.compiler.is_compiling() and in_graph and not torch.is_grad_enabled() and call.targets is None:
            return act_in_graph(self._number, adapter, h, call, states)
        return _act_uncompiled(adapter, h, call, states)


# The state of a text grows with every token, so a graph of it would be compiled for each.
_act_uncompiled: Any = torch.compiler.disable(act)
