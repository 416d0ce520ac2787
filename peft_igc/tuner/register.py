"""Registration: makes `IGCConfig` and `IGCModel` known to PEFT. It runs on `import peft_igc`; nothing else is needed.

PEFT 0.21 has three public tables and no entry point for plugins: `register_peft_method` accepts only members of its
own enum `PeftType`. So the tables get a one-member string enum of ours, which hashes and compares like the string
"IGC". Three functions of PEFT are replaced as well; `hooks/patches.toml` lists all such.
"""

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftConfig, PeftModel
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.tuners_utils import BaseTuner
from torch import nn

from .base_model import without_peft
from .config import IGC_PEFT_TYPE, IGCConfig
from .layer import IGCLayer
from .model import IGCModel
from .saving.adapter_files import check_beside, check_names
from .saving.companions import NESTED


def register() -> None:
    """Puts IGC into PEFT's tables. Calling it again changes nothing."""
    PEFT_TYPE_TO_CONFIG_MAPPING[IGC_PEFT_TYPE] = IGCConfig
    PEFT_TYPE_TO_TUNER_MAPPING[IGC_PEFT_TYPE] = IGCModel
    PEFT_TYPE_TO_PREFIX_MAPPING[IGC_PEFT_TYPE] = IGCModel.prefix
    if not hasattr(BaseTuner.__init__, "_igc"):
        _attach_to_the_causal_lm()
        _load_onto_off_loaded_bases()


def _attach_to_the_causal_lm() -> None:
    """Makes tuners attach to the causal LM within a PEFT model, if they or that model have a calculator.

    A tuner of PEFT 0.21 takes that PEFT model for the base: it adds its prefix to all keys once more, counts the
    output head among "all linear" layers, and cannot be unloaded.
    """
    init = BaseTuner.__init__

    @functools.wraps(init)
    def __init__(
        self: BaseTuner, model: nn.Module, peft_config: Any, adapter_name: str, *args: Any, **kwargs: Any
    ) -> None:
        layers = (module for module in model.modules() if isinstance(module, IGCLayer))
        # A mixed model of PEFT has no such attribute.
        if getattr(type(self), "tuner_layer_cls", None) is not IGCLayer and next(layers, None) is None:
            init(self, model, peft_config, adapter_name, *args, **kwargs)
            return
        base: Any = without_peft(model)
        new = peft_config if isinstance(peft_config, dict) else {adapter_name: peft_config}
        for name, config in new.items():
            check_beside(name, config, getattr(base, "peft_config", {}))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", NESTED[1])
            init(self, base, peft_config, adapter_name, *args, **kwargs)
        check_names(base, base.peft_config)

    __init__._igc = True  # type: ignore[attr-defined]
    BaseTuner.__init__ = __init__


def _load_onto_off_loaded_bases() -> None:
    """Makes PEFT load a calculator onto an off-loaded base, which it (0.21) would dispatch again without it."""
    load, attach = PeftModel.load_adapter, PeftModel.__dict__["from_pretrained"].__func__

    @functools.wraps(load)
    def load_adapter(self: PeftModel, model_id: Any, adapter_name: str, *args: Any, **kwargs: Any) -> Any:
        with _left_in_place(self, model_id, kwargs):
            return load(self, model_id, adapter_name, *args, **kwargs)

    @functools.wraps(attach)
    def from_pretrained(cls: Any, model: nn.Module, model_id: Any, *args: Any, **kwargs: Any) -> Any:
        config, subfolder = kwargs.get("config"), kwargs.get("subfolder") or ""
        if isinstance(config, IGCConfig) and config.loaded_from is None:  # a changed copy
            config.loaded_from, config.source = str(Path(model_id, subfolder)), (str(model_id), subfolder, {})
        with _left_in_place(model, model_id, kwargs):
            return attach(cls, model, model_id, *args, **kwargs)

    load_adapter._igc = from_pretrained._igc = True  # type: ignore[attr-defined]
    PeftModel.load_adapter, PeftModel.from_pretrained = load_adapter, classmethod(from_pretrained)


@contextmanager
def _left_in_place(model: nn.Module, source: Any, options: dict[str, Any]) -> Iterator[None]:
    """Hides from PEFT that weights of a base are off-loaded, while it loads a calculator from a folder or hub id. PEFT
    (0.21) would end the off-loading, and begin another one that includes adapters around modules of the base."""
    placed = [module for module in model.modules() if "hf_device_map" in vars(module)]
    hub, *_ = PeftConfig._split_kwargs(options)
    if not placed or PeftConfig._get_peft_type(source, **hub) != IGC_PEFT_TYPE:
        yield
        return
    maps = [vars(module).pop("hf_device_map") for module in placed]
    try:
        yield
    finally:
        for module, places in zip(placed, maps, strict=True):
            module.hf_device_map = places


register()
