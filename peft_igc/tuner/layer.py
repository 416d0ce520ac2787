"""`IGCLayer`: the tuner layer. `IGCLayer._act` is one forward pass of the method from beginning to end.

In: the output h of one decoder layer and the context of the call (`Call`). Out: h with updates added at the positions
after anchors. The layer is a child of the decoder layer (`layers.1.igc`) and acts in a forward hook on it instead of
wrapping it. Therefore

* module paths and classes of the base model stay the same, and LoRA reaches every linear layer, added before or after;
* recorded hidden states contain the update;
* gradient checkpointing of transformers (5.23), which replays `forward` but not its hooks, runs the adapter once.

The stages are in `steps` and `writing`. No per-call state is kept on the layer: it is in `call`, and the
state that travels with a KV cache is in `state`. The weights and equations are in `mappings`, the arithmetic is in
`numbers`.

Shapes: B rows, T positions of this call, L tokens of the text so far (with this call's T), H hidden size, A anchors
per row, R digits of a result, d mapping width.
Try it: `pytest tests/tuner/test_layer.py`
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable
from typing import Any, cast

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers.cache_utils import Cache

from ..numbers.calculator import Status
from ..text.results.row import Row
from ..text.results.spelling import Style
from .anchors import Position, Rules, anchors_of_call, kinds_of
from .build import make_mappings
from .call import Call, check_mask, current_call, recall_call, remember_call, text_ids
from .config import IGCConfig
from .saving.companions import warn_of_absent
from .saving.offloaded import bring_back
from .state.cache import State, States, find_cache, states_of
from .state.text_state import StaticText, Steps, TextState
from .state.told import as_tensor, begun, count, style_of, told_of_static
from .steps import read_and_calculate
from .untaught import Untaught
from .writing import Writer, first_to_write, write


logger = logging.getLogger(__name__)

# Names every adapter that this process makes, so that a text is not continued by another one of the same name.
_PROCESS, _count = uuid.uuid4().hex, itertools.count()


class IGCLayer(nn.Module, BaseTunerLayer):
    """Reads operands from a decoder layer's output, calculates, and writes the result back (paper, Figure 2).

    Args:
        base_layer: the decoder layer.
        base_model: the causal LM that it belongs to, on which `hooks` are installed.
        hidden_size: H.
        layer_index: index of the decoder layer, which is also the index of its layer in the KV cache.
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
        # Kept in plain lists, because a module assigned to an attribute becomes a submodule: the decoder layer already
        # owns this layer, so the module tree would have a cycle.
        self._base_layer = [base_layer]
        self._base_model: list[Any] = [base_model]
        self.hidden_size = hidden_size
        self.layer_index = layer_index
        self.igc_input_mapping = nn.ModuleDict()
        self.igc_output_mapping = nn.ModuleDict()
        self.igc_config: dict[str, IGCConfig] = {}
        self._readers: dict[str, str] = {}
        self._used: set[str] = set()  # adapters that have run
        self.is_told = False  # whether a user was told that this layer's hooks are bypassed
        self.told_of_absence: set[str] = set()  # adapters of which a user was told that texts have no anchor
        self._untaught = Untaught()
        self._disable_adapters = False
        self.merged_adapters: list[str] = []
        # `prepend`: hooks that record hidden states run after this one, so they record the updated states.
        self._handle = base_layer.register_forward_hook(self._hook, with_kwargs=True, prepend=True)

    # ------------------------------------------------------------------------------------------ PEFT's contract
    def get_base_layer(self) -> nn.Module:
        """The decoder layer."""
        return self._base_layer[0]

    def update_layer(self, adapter_name: str, config: IGCConfig, inference_mode: bool = False) -> None:
        """Adds the adapter `adapter_name` with new weights on the decoder layer's device."""
        reader, writer = make_mappings(config, self.hidden_size, self._base_model[0].get_input_embeddings())
        if config.init_weights:
            writer.close()
        else:
            reader.read_two_digits()
        self.igc_config[adapter_name] = config
        self._untaught.forget(adapter_name)
        self._readers[adapter_name] = f"{_PROCESS}:{next(_count)}"
        # New modules are in training mode, and the model may not be: `model.eval()`, then `add_adapter`.
        self.igc_input_mapping[adapter_name] = reader.train(self.training)
        self.igc_output_mapping[adapter_name] = writer.train(self.training)
        self._move_adapter_to_device_of_base_layer(adapter_name)
        self.set_adapter(self.active_adapters, inference_mode=inference_mode)

    def set_adapter(self, adapter_names: str | list[str], inference_mode: bool = False) -> None:
        """Activates one adapter. Names of adapters on other layers are allowed and deactivate this layer's.

        Raises:
            ValueError: if more than one of this layer's adapters is named.
        """
        names = [adapter_names] if isinstance(adapter_names, str) else list(adapter_names)
        own = [name for name in names if name in self.igc_config]
        if len(own) > 1:
            raise ValueError(several_active(own))
        super().set_adapter(names, inference_mode=inference_mode)

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
        """Device of the decoder layer's first parameter, and its first floating-point (or compute) dtype.

        Overrides PEFT's version (0.21), which looks for `.weight`; a decoder layer has none.
        """
        device, dtype = None, None
        executed_on = None
        for module in base_layer.modules():
            dtype = dtype or getattr(module, "compute_dtype", None)  # linear layers of bitsandbytes
            hook = getattr(module, "_hf_hook", None)
            executed_on = getattr(hook, "execution_device", None) if executed_on is None else executed_on
        for name, parameter in base_layer.named_parameters():
            if not name.startswith("igc."):
                device = device or parameter.device
                dtype = dtype or (parameter.dtype if parameter.is_floating_point() else None)
        if device is not None and device.type == "meta":
            # Offloaded by accelerate: the base weights are moved to this device for each pass, ours stay on it. While
            # PEFT loads an adapter, the base has no hooks (see `offloaded`).
            device = torch.device("cpu" if executed_on is None else executed_on)
        return device, dtype

    def follow_base_layer(self) -> None:
        """Moves the adapters to the device of the decoder layer."""
        device, _ = self._get_base_layer_device_and_dtype(self.get_base_layer())
        self.igc_input_mapping.to(device)
        self.igc_output_mapping.to(device)

    def bring_back(self, name: str) -> None:
        """Ends the off-loading of an adapter's weights by accelerate, if they are (see `offloaded`)."""
        mappings = (self.igc_input_mapping[name], self.igc_output_mapping[name])
        if any(next(mapping.parameters()).device.type == "meta" for mapping in mappings):
            device, _ = self._get_base_layer_device_and_dtype(self.get_base_layer())
            for mapping in mappings:
                bring_back(mapping, device)

    # ------------------------------------------------------------------------------------------ the forward pass
    def forward(self, *args: Any, **kwargs: Any) -> None:
        """Raises a RuntimeError: the layer acts in a forward hook."""
        raise RuntimeError("`IGCLayer` acts in a forward hook of its decoder layer. Call the model instead.")

    def _hook(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Forward hook of the decoder layer. Its output is h [B, T, H], or in GPT-J and Bloom a tuple with h first."""
        active = [] if self.disable_adapters else [n for n in self.active_adapters if n in self.igc_config]
        if not active:
            return None
        call = self._call_of(args[0] if args else kwargs["hidden_states"])
        if call is None:
            logger.warning(
                "`%s` was called outside of `%s`, so the calculator is off for this pass. Call the causal LM itself.",
                type(module).__name__,
                type(self._base_model[0]).__name__,
            )
            return None
        if call.ran is not None:
            raise ValueError(several_active([call.ran, active[0]]))
        call.bypassed = self._bypassed(self.igc_config[active[0]], call)
        if call.bypassed is not None:
            return None  # `hooks` warns at the end of the call
        call.ran = active[0]
        self.bring_back(active[0])
        if active[0] not in self._used and not torch.compiler.is_compiling():
            self._used.add(active[0])
            warn_of_absent(self._base_model[0], active[0], self.igc_config[active[0]])
        if self.training and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self._untaught.watch(active[0], call, self.igc_input_mapping[active[0]], self._base_model[0])
        # A checkpointed layer in training mode runs without the KV cache that it was passed (transformers 5.23).
        checkpointed = module.training and getattr(module, "gradient_checkpointing", False)
        cache = None if checkpointed else find_cache(args, kwargs)
        h = output[0] if isinstance(output, tuple) else output
        if h.dim() == 4:  # Gemma 3n: several streams [streams, B, T, H], one of which becomes the logits
            stream = self._stream
            written = torch.cat([h[:stream], self._act(active[0], h[stream], call, cache)[None], h[stream + 1 :]])
        else:
            written = self._act(active[0], h, call, cache)
        return (written, *output[1:]) if isinstance(output, tuple) else written

    def _bypassed(self, config: IGCConfig, call: Call) -> int | None:
        """Index of an earlier decoder layer that is read and whose hooks did not run; None if there is none."""
        if config.interface == "tokens" and call.embedded is None:
            return 0
        return next((index for index in config.layers_captured if index not in call.outputs), None)

    @property
    def _embeddings(self) -> nn.Module:
        """The token embeddings of the base model."""
        return self._base_model[0].get_input_embeddings()

    @property
    def _stream(self) -> int:
        """Index of the stream that becomes the logits, in models with several."""
        return int(self._base_model[0].config.get_text_config(decoder=True).altup_active_idx)

    def _call_of(self, layer_input: torch.Tensor) -> Call | None:
        """The call in progress, or the call that gradient checkpointing runs again in the backward pass.

        Raises:
            ValueError: if this is the second run of a reentrant checkpoint around the decoder layer.
        """
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
                "Use non-reentrant checkpointing there, or the model's own `gradient_checkpointing_enable`."
            )
        return call

    def read_early(self, name: str, call: Call) -> None:
        """Ends a pass inside of `reading_alone` as soon as all layers that the adapter reads have run.

        Raises:
            ReadingDone: if the call has targets.
        """
        if call.targets is not None:
            self.bring_back(name)
            last = self._output(self.igc_config[name].layers_read[-1], call)
            self._act(name, last.to(next(self.igc_input_mapping[name].parameters()).device), call, None)

    def _act(self, name: str, h: torch.Tensor, call: Call, cache: Cache | None) -> torch.Tensor:
        """One forward pass of the adapter: remember the text, find anchors, read, calculate, write.

        Args:
            name: the active adapter.
            h: [B, T, H] output of the decoder layer.
            call: context of the forward pass; receives the report if it has targets.
            cache: the KV cache, on which the state of the text is stored; None: this call is the whole text.

        Returns:
            [B, T, H], equal to h bit for bit where nothing is written.
        """
        if call.packed is not None:
            writer = Writer(self.igc_config[name], self.igc_output_mapping[name], self._embeddings)
            features = self._compress(name, h, call)
            return call.packed.act(self._readers[name], self.igc_input_mapping[name], writer, features, h)
        states = None if cache is None else states_of(cache, self.layer_index)
        state = self._text_before(name, h, call, states)
        # `torch.compile` must not trace the state of a dynamic cache, whose shape changes with every token.
        run = self._run if states is None or isinstance(state, StaticText) else self._run_uncompiled
        h, state = run(name, h, call, state)
        call.state = state
        if states is not None:
            if torch.is_grad_enabled() and isinstance(state, TextState):  # a stored graph would outlive its backward
                state = state.with_rows(torch.Tensor.detach)
            states.set(name, state)
        return h

    def _run(self, name: str, h: torch.Tensor, call: Call, state: State) -> tuple[torch.Tensor, State]:
        """`_act`, given the state of the text before this call; also returns the state after it."""
        config = self.igc_config[name]
        rules, style = Rules.of(config), self.style_of(name)
        new, kept = h.shape[1], _is_kept(call, rules)
        # 1 Remember: compress the new tokens and append them to the state of the text, which then has L tokens. Where
        # no later call reads them, only those are compressed that this call reads.
        start = state.positions(new)[0] if isinstance(state, StaticText) else state.length
        ids = text_ids(call, h, start)  # [B, T]
        features = self._compress(name, h, call) if kept else None  # [B, T, d]
        if call.input_ids is None:
            state = state.changed(embedded=True)
        if kept:
            state = state.appended(ids, features)
        # 2 Find the anchors among the new tokens: [B, A] positions, or None if there are none.
        anchors, kinds = self._anchors(call, rules, ids, start, state)
        if not kept and anchors is not None:
            features = self._compress(name, h, call)
            state = state.appended(ids, features)
        elif not kept:
            state = state.forgotten(new) if state.write_from is None else state.appended(ids, None)
        # 3 Read and calculate: one step per anchor. Later calls reuse the results on the state.
        reading = None
        if anchors is not None and kinds is not None and features is not None:
            reader = self.igc_input_mapping[name]
            reading, steps, speaks = read_and_calculate(config, reader, state, features, anchors, kinds, call)
            state = state.with_steps(steps)
            if style is not None and isinstance(state, TextState):
                state = state.changed(rows=begun(state.rows or (Row(),) * len(ids), style, steps))
            write_from = first_to_write(config, call, steps) if speaks else None
            if write_from is not None:
                earlier = state.write_from
                state = state.changed(write_from=write_from if earlier is None else min(earlier, write_from))
        # 4 Write: each position is governed by the latest anchor at or before it.
        if state.write_from is not None:
            skipped = max(state.write_from - start, 0) if isinstance(start, int) else 0
            if skipped < new:
                told = None
                if style is not None:
                    state, told = self._told(style, state, new - skipped, h, call)
                if style is None or told is not None:
                    writer = Writer(config, self.igc_output_mapping[name], self._embeddings)
                    h, state = write(writer, h, state, skipped, reading, call, told)
        # 5 Keep what later calls need.
        if not kept:
            state = state.forgotten(0) if state.write_from is None else state.without_features()
        call.steps = state.steps
        return h, state.stored()

    _run_uncompiled: Any = torch.compiler.disable(_run)

    def style_of(self, name: str) -> Style | None:
        """How an adapter writes results; None for the hidden interface, which needs no host for it."""
        config, reader = self.igc_config[name], cast(Any, self.igc_input_mapping[name])
        return style_of(config, reader.tokens) if config.interface == "tokens" else None

    def _told(
        self, style: Style, state: State, new: int, h: torch.Tensor, call: Call
    ) -> tuple[State, torch.Tensor | None]:
        """The state after the last `new` tokens, and `told.as_tensor` of them; None if nothing is written.

        A result that is written once, or whose turn has ended, costs nothing: the host knows it.
        """
        if isinstance(state, StaticText):
            return state, told_of_static(style, state, new)
        state, found = state.continued(state.length - new)
        if call.is_lean and not any(one is not None for row in found for one in row):
            return state, None
        return state, as_tensor(found, h.device)

    def _text_before(self, name: str, h: torch.Tensor, call: Call, states: States | None) -> State:
        """The state of the text before this call's tokens h [B, T, H].

        Raises:
            ValueError: if the KV cache holds other rows, or the text of an adapter that this one has replaced.
        """
        rows, new = h.shape[:2]
        config = self.igc_config[name]
        state = None if states is None else states.get(name)
        if state is None:
            none = Steps.empty(rows, config.result_digits or 0, h.device)
            state = (TextState if states is None else states).empty(none).changed(reader=self._readers[name])
        if states is None:
            return state
        _check_state(name, state, self._readers[name], rows)
        before = states.length(new)
        if isinstance(state, StaticText):
            state.length = torch.as_tensor(before + new, device=h.device)
            return state
        check_mask(call, before, new)
        if before < state.length:
            logger.warning(
                "The KV cache has %d tokens, but the calculator's state of the text has %d, because the cache was not "
                "shortened by its own methods. The text in it is not read.",
                before,
                state.length,
            )
            state = TextState.empty(state.steps.cropped(0)).changed(reader=self._readers[name])
        # The cache may hold tokens from before the adapter was active, or from while it was off.
        state = state.passed_by(before - state.length)
        if torch.is_grad_enabled():
            # Autograd cannot save the inference tensors that an earlier pass in inference mode has stored.
            state = state.with_rows(lambda x: x.clone() if x.is_inference() else x)
        return state

    def _compress(self, name: str, h: torch.Tensor, call: Call) -> torch.Tensor:
        """[B, T, d] features of this call's tokens, from h [B, T, H] and the token embeddings.

        In h's dtype in training mode. Otherwise in two bytes per number, as they are stored with a KV cache, so that
        a pass with a cache and one without it read the same.
        """
        config = self.igc_config[name]
        states = [h if at == self.layer_index else self._output(at, call).to(h.device) for at in config.layers_read]
        embedded = [] if call.embedded is None else [call.embedded.to(h.device)]
        if config.detach_reading:
            states, embedded = ([x.detach() for x in inputs] for inputs in (states, embedded))
        reader: Any = self.igc_input_mapping[name]
        features = reader.compress(states[0] if reader.mix is None else reader.mix(states), *embedded)
        return features if self.training or features.dtype.itemsize <= 2 else features.to(torch.bfloat16)

    def _output(self, index: int, call: Call) -> torch.Tensor:
        """[B, T, H], the output of an earlier decoder layer in this call."""
        output = call.outputs[index]
        assert output is not None, "only a stored copy of a call lacks an output, and `recall_call` puts it back"
        return output[self._stream] if output.dim() == 4 else output

    def _anchors(
        self, call: Call, rules: Rules, ids: torch.Tensor, start: Position, state: State
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Anchors [B, A] of this call and their kinds [B, A]; None for a batch without any, if none is needed.

        Args:
            call: the forward pass.
            rules: the config's rules.
            ids: [B, T] int64 ids of this call.
            start: position of its first token.
            state: the state of the text; it holds this call's tokens if there are rules for token sequences.
        """
        new = ids.shape[1]
        chosen = state.speaks if isinstance(state, StaticText) else None  # by `choose_graph`, for this pass
        if chosen is False and call.anchors is None:
            return None, None
        window, first = ids, start
        longest = max([len(sequence) for sequence in rules.sequences], default=1)
        if longest > 1:
            window, first = state.recent(new + longest - 1)
        ask = chosen is None and not torch.compiler.is_compiling()
        anchors = anchors_of_call(call, rules, window, start, new, ask)
        if anchors is None:
            anchors = self._absent_anchors(ids, call)
        named = call.anchors is None and not rules.prompt_end and call.generation is None
        return anchors, None if anchors is None else kinds_of(rules, window, anchors, first, named)

    def choose_graph(self, name: str, input_ids: torch.Tensor, cache: Cache) -> None:
        """See `hooks.choose_graph`; `name` is the active adapter."""
        if not any(getattr(type(one), "_igc_following", False) for one in cache.layers):
            return
        states, style = states_of(cache, self.layer_index), self.style_of(name)
        state, rules = states.get(name), Rules.of(self.igc_config[name])
        if not isinstance(state, StaticText) or input_ids.shape[1] > 1:
            return
        ids = input_ids.tolist()  # no synchronization if they are on the CPU
        if rules.sequences:
            last = {sequence[-1] for sequence in rules.sequences}
            state.speaks = any(token in last for row in ids for token in row)
        if style is not None:
            state.write_from = 0 if count(style, state, ids, states.length(0)) else None
            return
        if state.writes is None:
            writes = (state.latest.anchors >= 0) & (state.latest.status == int(Status.OK))
            state.writes = bool(writes.any().tolist())  # one, once after a step
        state.write_from = 0 if state.writes else None

    def _absent_anchors(self, ids: torch.Tensor, call: Call) -> torch.Tensor | None:
        """Anchors for a batch without any: None, or [B, A] of -1 where a loss or gradients are expected nevertheless.

        With targets the report must have a loss. In training every weight must receive a gradient, if only zero.
        """
        if call.targets is not None:
            return torch.full_like(call.targets.operator, -1, device=ids.device)
        if torch.is_grad_enabled() and self.training:
            return ids.new_full((ids.shape[0], 1), -1)
        return None


CANNOT_MERGE = (
    "IGC cannot be merged into the base model, because the calculator is not a linear map of its weights. "
    "Keep the adapter and the base model apart, or remove it with `unload()`."
)


def several_active(names: list[str]) -> str:
    """The error message for several active IGC adapters."""
    return (
        f"IGC adapters {names} are active at once, but a text can have only one calculator. "
        "Activate one of them with `set_adapter(name)`."
    )


def _is_kept(call: Call, rules: Rules) -> bool:
    """Whether a later call may read this call's tokens.

    No later call does in a `generate` whose KV cache nobody else uses, after the end of the prompt, if that is the
    only anchor.
    """
    generation = call.generation
    if rules.sequences or generation is None or generation.reused or generation.anchors is None:
        return True
    is_whole_prompt = call.input_ids is not None and call.input_ids.shape[1] >= generation.mask.shape[1]
    return not generation.passed and not is_whole_prompt


def _check_state(name: str, state: State, reader: str, rows: int) -> None:
    """Refuses a state that is not the adapter's or not the batch's."""
    process = reader.partition(":")[0]
    if state.reader != reader and state.reader.partition(":")[0] == process:
        raise ValueError(
            f"The text in this KV cache was begun by another adapter with the name {name!r}, which has been replaced. "
            "Start the text again with an empty cache."
        )
    if len(state.steps.anchors) != rows:
        raise ValueError(
            f"The KV cache holds texts of {len(state.steps.anchors)} rows, but this call has {rows}. Use a cache per "
            "batch, or change the rows of the cache with its own methods."
        )
