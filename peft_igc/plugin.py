"""Makes PEFT find the method by its name `IGC`, without loading anything before it is asked for.

PEFT 0.21 has no entry point for plugins, and looks a saved adapter's method up in a table of its own. Two things call
`activate`: `import peft_igc`, and torch, which calls the entry points of the group `torch.backends` at the end of its
own import. In an environment where this package is installed, `PeftModel.from_pretrained` therefore loads an adapter
without an import of ours. `TORCH_DEVICE_BACKEND_AUTOLOAD=0` turns that off, and then `import peft_igc` is needed.

torch and PEFT may be half imported at that time, so nothing of them is imported here: `peft.mapping` is watched for,
and its table of configs gets a `__missing__` that registers IGC when it is looked up. An exception here would make
`import torch` fail.

lm-evaluation-harness (lm_eval 0.4.13) has no entry point for models either. Its table of models is watched for in the
same way, so that `lm_eval --model igc` finds `inference.harness`: torch is imported before a model is asked for.
Try it: `pytest tests/test_plugin.py`
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


__all__ = ["ENTRY_POINT", "activate"]

ENTRY_POINT = "torch.backends"  # the group of entry points that torch (2.5 and later) calls
METHOD = "IGC"
_TABLES = "peft.mapping"  # the module of PEFT 0.21 that makes the tables; it is imported before anything fills them
_HARNESS = "lm_eval.models"  # the module of lm_eval 0.4.13 that fills its table of models
HARNESS_NAME, HARNESS_CLASS = "igc", "peft_igc.inference.harness:IGCLM"


def activate() -> None:
    """Makes PEFT and lm_eval know the method, now or when they are imported. Calling it again changes nothing."""
    for name, prepare in _PREPARED.items():
        if name in sys.modules:
            prepare(sys.modules[name])
        elif not any(isinstance(finder, _Watch) and finder.name == name for finder in sys.meta_path):
            sys.meta_path.insert(0, _Watch(name, prepare))


class _ConfigTable(dict[Any, Any]):
    """PEFT's table of config classes, which registers IGC when that name is looked up for the first time."""

    def __missing__(self, key: Any) -> Any:
        if key != METHOD:
            raise KeyError(key)
        from .tuner.register import register

        register()
        return dict.__getitem__(self, key)


def _lay_table(module: ModuleType) -> None:
    """Registers the method if PEFT is imported already, or prepares the table of `peft.mapping` for it."""
    table = module.PEFT_TYPE_TO_CONFIG_MAPPING
    if METHOD in table or isinstance(table, _ConfigTable):
        return
    if table:  # PEFT has filled it, and other modules hold it
        from .tuner.register import register

        register()
    else:
        module.PEFT_TYPE_TO_CONFIG_MAPPING = _ConfigTable()  # type: ignore[attr-defined]


def _offer_model(module: ModuleType) -> None:
    """Adds our class to lm_eval's table of models, as a name that is imported when it is looked up."""
    try:
        from lm_eval.api.registry import model_registry
    except ImportError:  # before 0.4.10 there is no such table; `--model igc` is then unknown
        return
    if HARNESS_NAME not in model_registry:
        model_registry.register(HARNESS_NAME, target=HARNESS_CLASS)


_PREPARED: dict[str, Callable[[ModuleType], None]] = {_TABLES: _lay_table, _HARNESS: _offer_model}


class _Watch(MetaPathFinder):
    """Finds no module itself, but prepares the module `name` right after it was executed."""

    def __init__(self, name: str, prepare: Callable[[ModuleType], None]) -> None:
        self.name, self.prepare = name, prepare

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's spec as the other finders give it, with a loader that calls us afterwards."""
        if fullname != self.name:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((found for one in others if (found := one.find_spec(fullname, path, target))), None)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def execute_and_prepare(module: ModuleType) -> None:
            del loader.exec_module  # the instance's attribute: the class's method is back for a reload
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.prepare(module)

        loader.exec_module = execute_and_prepare  # type: ignore[method-assign]
        return spec
