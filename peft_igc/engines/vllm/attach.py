"""Adds the calculator to a model that vLLM has made, whatever its architecture.

vLLM (0.32) makes every model in `BaseModelLoader.create_model`, in the worker's process, before it loads weights and
before it compiles. There some decoder layers get a subclass of their own class whose `forward` calls an operator, so
that compilers see it. The calculator is no child of the model, which would want its weights in the checkpoint.
Try it: `make test-vllm`
"""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoTokenizer
from vllm.logger import init_logger
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.worker.worker_base import WorkerBase

from ...tuner.adapter import Adapter
from ...tuner.saving.companions import companions_in
from . import ops
from .adapter import added, load, load_config, updates_of
from .calculator import Calculator
from .checks import Setting, cannot_attach, check_adapter, check_engine, check_tokenizer
from .records import NAME, RecordLayer, join_full_attention


logger = init_logger(f"vllm.{__name__}")  # vLLM shows its own loggers only

REQUIRED = "peft_igc.engines.vllm.required.Calculator"  # with this `--worker-extension-cls` no engine runs without one


def install() -> None:
    """Makes every model of this process that is configured with an adapter a calculating one."""
    original = BaseModelLoader.create_model
    if hasattr(original, "_igc"):
        return

    def create_model(self: Any, vllm_config: Any, model_config: Any, prefix: str = "") -> nn.Module:
        if model_config is not vllm_config.model_config:  # a draft model
            return original(self, vllm_config, model_config, prefix)
        setting = Setting.of(vllm_config)
        if setting is None:
            if vllm_config.parallel_config.worker_extension_cls == REQUIRED:
                raise ValueError('`additional_config` names no adapter. Pass `{"igc": {"adapter": DIR_OR_HUB_ID}}`.')
            return original(self, vllm_config, model_config, prefix)
        adapter = _checked(setting, vllm_config)
        lora = updates_of(companions_in(Path(adapter.key)))
        model = original(self, vllm_config, model_config, prefix)
        _attach(model, adapter, setting, vllm_config)
        if lora:
            load_weights = model.load_weights
            model.load_weights = lambda weights: load_weights(added(lora, weights))
            logger.info("IGC: a LoRA is merged into %d weights.", len(lora))
        return model

    create_model._igc = True  # type: ignore[attr-defined]
    BaseModelLoader.create_model = create_model
    join_full_attention()
    WorkerBase.igc_report = _report  # for `collective_rpc`


def _report(worker: Any, last: int, of: str = "") -> dict[str, Any]:
    """The steps of a worker, `Calculator.report`; empty without a calculator, which else learns where ids are from."""
    layers = worker.vllm_config.compilation_config.static_forward_context.values()
    found = next((layer for layer in layers if isinstance(layer, RecordLayer)), None)
    if found is None:
        return {}
    found.calculator.requests = lambda: worker.model_runner.input_batch.req_ids
    return found.calculator.report(last, of)


def _checked(setting: Setting, vllm_config: Any) -> Adapter:
    """The adapter, if it suits the engine; no weights of the base are loaded yet."""
    model_config = vllm_config.model_config
    check_engine(vllm_config)
    config, text = load_config(setting.adapter), model_config.hf_text_config
    check_adapter(config, text.num_hidden_layers)
    if not model_config.skip_tokenizer_init:
        check_tokenizer(config, AutoTokenizer.from_pretrained(model_config.tokenizer))
    with set_default_torch_dtype(torch.float32):
        return load(config, text.hidden_size)


def _attach(model: Any, adapter: Adapter, setting: Setting, vllm_config: Any) -> None:
    """Puts the operator into a model, and the records into its KV cache."""
    config, compilation = adapter.config, vllm_config.compilation_config
    layers = _decoder_layers(model, vllm_config.model_config.hf_text_config.num_hidden_layers)
    parameters = [*inspect.signature(type(layers[0]).forward).parameters]
    if "hidden_states" not in parameters:
        raise cannot_attach(f"The decoder layers (`{type(layers[0]).__name__}`) have no argument `hidden_states`")
    dtype = vllm_config.model_config.dtype
    records = RecordLayer(config.reading_dim * setting.reading, dtype if dtype.itemsize == 2 else torch.bfloat16)
    name = f"{NAME}{len(layers)}"  # an index that no other layer has
    records.calculator = Calculator(adapter, records, name, model, vllm_config)
    compilation.static_forward_context[name] = records
    if compilation.splitting_ops and ops.NAME not in compilation.splitting_ops:
        compilation.splitting_ops.append(ops.NAME)  # CUDA graphs are captured between the operators
    if setting.reading:
        _call_with_input(layers[0], parameters.index("hidden_states") - 1, name)
    for index in sorted({*config.layers_read, config.layer} if setting.reading else {config.layer}):
        _call_with_output(layers[index], index, name)
    model.requires_raw_input_tokens = True  # ids, also where the model is given embeddings
    model.register_forward_pre_hook(records.calculator.begin, with_kwargs=True)
    logger.info(
        "IGC: adapter %s reads after decoder layer %s and writes after %d; %d bytes per token in the KV cache.",
        config.loaded_from,
        ", ".join(map(str, config.layers_read)) if setting.reading else "none",
        config.layer,
        records.size,
    )


def _decoder_layers(model: nn.Module, count: int) -> nn.ModuleList:
    """The decoder layers of a language model, which may be a part of the model."""
    for owner in model.modules():
        for child in owner.children():
            if isinstance(child, nn.ModuleList) and len(child) == count and hasattr(owner, "embed_input_ids"):
                return child
    raise cannot_attach(f"`{type(model).__name__}` has no list of {count} decoder layers")


def _call_with_input(layer: nn.Module, place: int, name: str) -> None:
    """Has a layer call the operator first; its hidden states are the argument number `place`."""
    cls: Any = type(layer)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        hidden = args[place] if place < len(args) else kwargs["hidden_states"]
        torch.ops.vllm.igc_layer(hidden, None, ops.INPUT, name)
        return cls.forward(self, *args, **kwargs)

    layer.__class__ = type(cls.__name__, (cls,), {"forward": forward})


def _call_with_output(layer: nn.Module, index: int, name: str) -> None:
    """Has a layer call the operator last; the layer returns h, or a tuple whose sum is h (None counts as 0)."""
    cls: Any = type(layer)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = cls.forward(self, *args, **kwargs)
        parts = output if isinstance(output, tuple) else (output, None)
        if len(parts) != 2:
            raise cannot_attach(
                f"The decoder layers (`{cls.__name__}`) return neither hidden states nor these with a residual"
            )
        torch.ops.vllm.igc_layer(parts[0], parts[1], index, name)
        return output

    layer.__class__ = type(cls.__name__, (cls,), {"forward": forward})
