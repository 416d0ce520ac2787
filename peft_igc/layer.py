"""`IGCLayer`: the calculator of one decoder layer, as PEFT knows it.

It is a child of the decoder layer (`layers.1.igc`) and acts in a forward hook on it: paths and classes of the base
stay as they are, LoRA reaches every linear layer in either order, recorded hidden states contain the update, and
gradient checkpointing of the layer's forward does not touch it. `_act` is the method's table of contents.

Shapes: B rows, T positions of this call, L tokens of the text so far, H hidden size, A steps, D digits of an operand,
R digits of a result. Try it: `pytest tests/test_layer.py`
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers.cache_utils import Cache

from . import state
from .anchors import Rules, anchors_of_call, context_starts
from .calculator import Result, Status
from .config import IGCConfig
from .mappings import make_mappings, shortcut_places
from .reading import Pointing, Reading
from .record import Record
from .spelling import continue_result
from .state import Call
from .steps import Step, Writing, calculate_step, supervise


logger = logging.getLogger(__name__)


class IGCLayer(nn.Module, BaseTunerLayer):
    """Reads operands from a decoder layer's output, calculates, and writes the result back (paper, Figure 2).

    Args:
        base_layer: the decoder layer.
        base_model: the causal LM that it belongs to, whose hooks provide what a call knows.
        hidden_size: H.
        layer_index: index of the decoder layer, also of its layer in the KV cache.
    """

    # Of PEFT's base class.
    active_adapters: list[str]
    _move_adapter_to_device_of_base_layer: Callable[[str], None]
    # Modules with trainable weights, each a dict by adapter name.
    adapter_layer_names = ("igc_input_mapping", "igc_output_mapping")
    # Everything else that is kept per adapter.
    other_param_names = ("igc_config",)

    def __init__(self, base_layer: nn.Module, base_model: nn.Module, hidden_size: int, layer_index: int) -> None:
        super().__init__()
        # Lists, because an attribute that is a module would become a submodule: the decoder layer owns us.
        self._base_layer = [base_layer]
        self._base_model: list[Any] = [base_model]
        self.hidden_size = hidden_size
        self.layer_index = layer_index
        self.igc_input_mapping = nn.ModuleDict()
        self.igc_output_mapping = nn.ModuleDict()
        self.igc_config: dict[str, IGCConfig] = {}
        self._disable_adapters = False
        self.merged_adapters: list[str] = []
        # `prepend`: hooks that record hidden states run behind ours and see the updated stream.
        self._handle = base_layer.register_forward_hook(self._hook, with_kwargs=True, prepend=True)

    # ------------------------------------------------------------------------------------------ PEFT's contract
    def get_base_layer(self) -> nn.Module:
        """The decoder layer."""
        return self._base_layer[0]

    def update_layer(self, adapter_name: str, config: IGCConfig, inference_mode: bool = False) -> None:
        """Adds the adapter `adapter_name`."""
        reader, writer = make_mappings(config, self.hidden_size, self._base_model[0].get_input_embeddings())
        if config.init_weights:
            writer.close()
        else:
            reader.read_two_digits()
        self.igc_config[adapter_name] = config
        self.igc_input_mapping[adapter_name] = reader
        self.igc_output_mapping[adapter_name] = writer
        self._move_adapter_to_device_of_base_layer(adapter_name)
        self.set_adapter(self.active_adapters, inference_mode=inference_mode)

    def set_adapter(self, adapter_names: str | list[str], inference_mode: bool = False) -> None:
        """Activates one adapter.

        Raises:
            ValueError: if more than one of this layer's adapters is named.
        """
        names = [adapter_names] if isinstance(adapter_names, str) else list(adapter_names)
        own = [name for name in names if name in self.igc_config]
        if len(own) > 1:
            raise ValueError(_more_than_one(own))
        super().set_adapter(names, inference_mode=inference_mode)

    def merge(self, safe_merge: bool = False, adapter_names: list[str] | None = None) -> None:
        """Refuses: there is nothing to merge into."""
        raise ValueError(CANNOT_MERGE)

    def unmerge(self) -> None:
        """Does nothing: nothing was merged."""

    def remove(self) -> None:
        """Detaches from the decoder layer, which is as it was before."""
        self._handle.remove()

    def _get_base_layer_device_and_dtype(
        self, base_layer: nn.Module
    ) -> tuple[torch.device | None, torch.dtype | None]:
        """A decoder layer has no `.weight`: the first parameter's device, the first floating (or compute) dtype."""
        device, dtype = None, None
        executed_on = None
        for module in base_layer.modules():
            dtype = dtype or getattr(module, "compute_dtype", None)  # quantised linear layers
            hook = getattr(module, "_hf_hook", None)
            executed_on = getattr(hook, "execution_device", None) if executed_on is None else executed_on
        for name, parameter in base_layer.named_parameters():
            if not name.startswith("igc."):
                device = device or parameter.device
                dtype = dtype or (parameter.dtype if parameter.is_floating_point() else None)
        if device is not None and device.type == "meta" and executed_on is not None:
            # off-loaded by accelerate: the layer's weights visit this device, ours stay there
            device = torch.device(executed_on)
        return device, dtype

    # ------------------------------------------------------------------------------------------ the forward pass
    def forward(self, *args: Any, **kwargs: Any) -> None:
        """Refuses: the layer acts through a hook of its decoder layer."""
        raise RuntimeError("`IGCLayer` acts in a forward hook of its decoder layer. Call the model instead.")

    def _hook(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Forward hook of the decoder layer. The output is a tensor or (GPT-J, Bloom) a tuple that begins with one."""
        active = [] if self.disable_adapters else [n for n in self.active_adapters if n in self.igc_config]
        call = self._call_of(args[0] if args else kwargs["hidden_states"]) if active else None
        # A checkpointed layer in training mode is handed the cache but leaves it alone (transformers 5.23).
        checkpointed = module.training and getattr(module, "gradient_checkpointing", False)
        cache = None if checkpointed else state.find_cache(args, kwargs)
        h = output[0] if isinstance(output, tuple) else output
        state.pass_by(cache, self.layer_index, h.shape[1], reader=None if call is None else active[0])
        if active and call is None:
            logger.warning(
                "`%s` was run outside of `%s`: the calculator is off for this pass. Call the causal LM itself.",
                type(module).__name__,
                type(self._base_model[0]).__name__,
            )
        if call is None:
            return None
        if call.ran is not None:
            raise ValueError(_more_than_one([call.ran, active[0]]))
        call.ran = active[0]
        act = self._act if cache is None else self._act_beside_cache
        written = act(active[0], h, call, cache)
        return (written, *output[1:]) if isinstance(output, tuple) else written

    def _call_of(self, layer_input: torch.Tensor) -> Call | None:
        """The forward pass in progress, or the one that is being recomputed in the backward pass."""
        call = state.current_call(self._base_model[0])
        if call is not None:
            if self.training:
                # A reentrant checkpoint around the layer switches gradients off for the layer alone.
                call.without_grad = not torch.is_grad_enabled()
                state.remember_call(call, layer_input)
            return call
        call = state.recall_call(layer_input)
        if call is not None and call.without_grad:
            raise ValueError(
                "Reentrant checkpointing around the decoder layer would train nothing of the reading. "
                "Use non-reentrant checkpointing there, or the model's own `gradient_checkpointing_enable`."
            )
        return call

    def _act(self, name: str, h: torch.Tensor, call: Call, cache: Cache | None) -> torch.Tensor:
        """The method: remember the text, read at its anchors, calculate, write after them. h and result: [B, T, H]."""
        reader: Any = self.igc_input_mapping[name]
        config = self.igc_config[name]
        # 1 what reading keeps of the text
        seen = (h, call.embedded.to(h.device)) if call.embedded is not None else (h,)
        kept = reader.compress(*(x.detach() if config.detach_reading else x for x in seen))  # [B, T, d]
        record = self._text_before(name, kept, cache)
        start = record.length
        record = record.extended(kept=kept, valid=_valid(call, h, start), ids=_ids(call, h))
        # 2 anchors, 3 reading and calculation: one step each
        reading = None
        rules = Rules.of(config)
        anchors = anchors_of_call(call, rules, record.ids, record.valid, h.shape[1])
        if anchors is None:
            anchors = self._no_anchors(h, call)
        records = state.Records() if cache is None else state.records_of(cache, self.layer_index)
        first = records.first.get(name, state.NEVER)
        if anchors is not None:
            text = record.ids, record.valid, anchors, record.anchors
            since = context_starts(config.reading_context, rules, *text)
            read = reader(record.kept, record.valid, anchors, record.ids, since)
            reading, shortcut = read if config.shortcut else (read, None)
            choice = reading.choose()
            result = calculate_step(config, choice, anchors)
            for observer in state.thread.observers:
                observer(Step(anchors, reading, choice, result))
            if call.targets is not None:
                right, call.report = supervise(config, call.targets, reading, choice, result, anchors)
                if state.thread.reading_alone:
                    raise state.ReadingDone(call.report)
                # In eval mode the truth serves the loss and the metrics, never the result.
                result = right if self.training and config.teacher_forcing else result
            steps = {"digits": result.digits, "signs": result.sign, "status": result.status}
            if shortcut is not None:
                steps["shortcut"] = shortcut.to(kept.dtype)
            record = record.extended(anchors=anchors, told=torch.full_like(anchors, -1), **steps)
            first = min(first, _first_to_write(config, rules, call, anchors, result))
        # 4 writing
        if record.anchors.shape[1] and first < record.length:
            h, told = self._write(name, h, record, max(start, first), reading, call)
            record = replace(record, told=told)
        if cache is not None:
            if torch.is_grad_enabled():  # a cache holds no graph
                record = record.with_rows(torch.Tensor.detach)
            records.by_adapter[name], records.first[name] = record, first
        return h

    # What rides on a cache changes its shape and outlives a compiled graph's buffers: `torch.compile` leaves it alone.
    _act_beside_cache: Any = torch.compiler.disable(_act)

    def _no_anchors(self, h: torch.Tensor, call: Call) -> torch.Tensor | None:
        """Anchors for a batch without any: none, or [B, A] of -1 where someone waits for a loss or a gradient."""
        if call.targets is not None:
            return torch.full_like(call.targets.operator, -1, device=h.device)
        if torch.is_grad_enabled() and self.training:
            return torch.full((h.shape[0], 1), -1, device=h.device)
        return None

    def _text_before(self, name: str, kept: torch.Tensor, cache: Cache | None) -> Record:
        """The record of the text before this call's tokens [B, T, d]."""
        rows, new, width = kept.shape
        config = self.igc_config[name]
        empty = Record.empty(rows, width, config.result_digits or 0, kept, shortcut_places(config))
        if cache is None:
            return empty
        record = state.records_of(cache, self.layer_index).by_adapter.get(name)
        if record is not None:
            if torch.is_grad_enabled():  # what a pass in inference mode has left can be saved for no backward pass
                record = record.with_rows(lambda x: x.clone() if x.is_inference() else x)
            return record
        # A static cache holds its length on the device: it is asked once, when the text's first record is made.
        before = int(cache.layers[self.layer_index].get_seq_length()) - new
        # Tokens that passed while this adapter was off: their place counts, their content is unknown to it.
        return empty.skipped(before)

    def _write(
        self,
        name: str,
        h: torch.Tensor,
        record: Record,
        start: int,
        reading: Reading | Pointing | None,
        call: Call,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """h [B, T, H] with the update added behind every anchor whose step is ok (with a shortcut: behind every one),
        bit for bit h elsewhere; and where results have been told by now [B, A].

        Before the position `start` nothing is to be written, and nothing is computed.
        """
        silent = h.shape[1] - (record.length - start)
        before, h = h[:, :silent], h[:, silent:]
        place = torch.arange(start, record.length, device=h.device)[:, None]  # [T, 1]
        at = record.anchors[:, None]  # [B, 1, A]
        governing = at.masked_fill(at > place, -1)  # [B, T, A]: anchors at or before each position
        anchor, step = governing.max(-1)  # the latest one governs
        ok = record.status.gather(1, step) == int(Status.OK)  # not the enum, which `torch.compile` finds unequal
        active = (anchor >= 0) if self.igc_config[name].shortcut else (anchor >= 0) & ok
        update, gate, possible, complete = self._update(name, h, record, anchor, step)
        active = active & possible
        complete = (complete & ok)[..., None] & (step[..., None] == torch.arange(at.shape[2], device=h.device))
        first = torch.where(complete, place, record.length).amin(1)  # [B, A]
        told = torch.where((record.told < 0) & (first < record.length), first, record.told)
        if reading is not None and torch.is_grad_enabled():
            # PEFT and DDP expect a gradient, if only zero, for weights that the auxiliary loss alone trains. Each row
            # gets its own zero: from a row of NaN it is NaN.
            zero = 0.0 * torch.stack([x.flatten(1).sum(1) for x in reading.logits()]).sum(0)  # [B]
            update = update + zero[:, None, None]
        for observer in state.thread.observers:
            observer(Writing(start - silent, *(F.pad(x, (silent, 0)) for x in (active, gate))))
        if call.report is not None:
            mean = (gate.detach().float() * active).sum() / active.sum().clamp(min=1)
            call.report = call.report._replace(gate=mean)
        # Not `h + active * update`: that would turn -0.0 into 0.0 and spread a NaN.
        written = torch.where(active[..., None], h + update.to(h.dtype), h)
        return torch.cat([before, written], 1) if silent else written, told

    def _update(
        self, name: str, h: torch.Tensor, record: Record, anchor: torch.Tensor, step: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """What each position would gain [B, T, H], its gate [B, T], where there is anything to write [B, T], and where
        the result stands complete [B, T].

        `anchor` and `step` [B, T] are those that govern a position.
        """
        writer = self.igc_output_mapping[name]
        if self.igc_config[name].interface == "hidden":
            rank = record.valid.cumsum(1)
            offset = rank[:, -h.shape[1] :] - rank.gather(1, anchor.clamp(min=0))
            everywhere = torch.ones_like(anchor, dtype=torch.bool)
            return *writer(h, record.digits, record.signs, step, offset, record.shortcut), everywhere, ~everywhere
        digits = record.digits.gather(1, step[..., None].expand(-1, -1, record.digits.shape[-1]))  # [B, T, R]
        tokens: Any = self.igc_input_mapping[name].tokens
        signs, told = record.signs.gather(1, step), record.told.gather(1, step)
        more = continue_result(tokens, record.ids, record.valid, anchor, digits, signs, told)
        return *writer(h, self._embed(more.token).to(h.device), more.state), more.active, more.complete

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        """The base model's own embeddings of ids [B, T], of any token where an id is -1; no gradient."""
        table = self._base_model[0].get_input_embeddings()
        device = next(table.parameters()).device  # on several devices it may be another than ours
        with torch.no_grad():
            return table(ids.clamp(min=0).to(ids.device if device.type == "meta" else device)).detach()


CANNOT_MERGE = (
    "IGC cannot be merged into the base model: the calculator is no linear map of its weights. "
    "Keep the adapter beside the base, or remove it with `unload()`."
)


def _more_than_one(names: list[str]) -> str:
    """The error for several active adapters."""
    return (
        f"IGC adapters {names} are active at once, but a text has one calculator. "
        "Activate one of them with `set_adapter(name)`."
    )


def _first_to_write(config: IGCConfig, rules: Rules, call: Call, anchors: torch.Tensor, result: Result) -> int:
    """The first position that the steps of a call may write to, `state.NEVER` for none, as far as the host knows.

    The device is asked where it is asked for anchors anyway. It is not in training, where weights without any effect
    still get a gradient of zero, nor in evaluation with operand columns, where a process that left the writing out
    would leave others waiting that gather its sharded weights.

    Args:
        config, rules: the adapter's.
        call: the forward pass.
        anchors: [B, A] int64 of its steps, -1 for none.
        result: of its steps.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or call.targets is not None:
        return 0
    if rules.sequences and anchors.numel():
        writes = (anchors >= 0) if config.shortcut else (anchors >= 0) & (result.status == int(Status.OK))
        return int(torch.where(writes, anchors, state.NEVER).min())
    generation = call.generation
    if call.anchors is not None or generation is None or generation.anchors is None:
        return 0
    return generation.span[0]


def _valid(call: Call, h: torch.Tensor, start: int) -> torch.Tensor:
    """Which of this call's tokens are real, [B, T] bool."""
    rows, new = h.shape[:2]
    mask = call.attention_mask
    if mask is None and call.generation is not None:
        # Static caches: the model gets a mask of four dimensions, so the prompt's own is used.
        mask = state.repeat_rows(call.generation.mask, rows)
        mask = torch.nn.functional.pad(mask, (0, max(start + new - mask.shape[1], 0)), value=1)
    if mask is None:
        return torch.ones(rows, new, dtype=torch.bool, device=h.device)
    mask = mask.to(h.device).bool()
    # The mask covers the whole text, as transformers wants it beside a cache, or this call's tokens alone.
    return mask[:, start : start + new] if mask.shape[1] >= start + new else mask[:, -new:]


def _ids(call: Call, h: torch.Tensor) -> torch.Tensor:
    """Token ids of this call, [B, T] int64; -1 where embeddings were given."""
    if call.input_ids is None:
        return torch.full(h.shape[:2], -1, dtype=torch.int64, device=h.device)
    return call.input_ids.to(h.device)
