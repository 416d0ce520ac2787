"""Makes PEFT find the method by its name `IGC`, without loading anything before it is asked for.

PEFT 0.21 has no entry point for plugins, and looks a saved adapter's method up in a table of its own. Two things call
`activate`: `import peft_igc`, and torch, which calls the entry points of the group `torch.backends` at the end of its
own import. In an environment where this package is installed, `PeftModel.from_pretrained` therefore loads an adapter
without an import of ours. `TORCH_DEVICE_BACKEND_AUTOLOAD=0` turns that off, and then `import peft_igc` is needed.

torch and PEFT may be half imported at that time, so nothing of them is imported here: `peft.mapping` is watched for,
and its table of configs gets a `__missing__` that registers IGC when it is looked up. An exception here would make
`import torch` fail.
Try it: `pytest tests/test_plugin.py`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


__all__ = ["ENTRY_POINT", "activate"]

ENTRY_POINT = "torch.backends"  # the group of entry points that torch (2.5 and later) calls
METHOD = "IGC"
_TABLES = "peft.mapping"  # the module of PEFT 0.21 that makes the tables; it is imported before anything fills them


def activate() -> None:
    """Makes PEFT know the method, now or as soon as it is imported. Calling it again changes nothing."""
    if _TABLES in sys.modules:
        if METHOD not in sys.modules[_TABLES].PEFT_TYPE_TO_CONFIG_MAPPING:
            _lay_table(sys.modules[_TABLES])
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


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
    if table:  # PEFT has filled it, and other modules hold it
        from .tuner.register import register

        register()
    else:
        module.PEFT_TYPE_TO_CONFIG_MAPPING = _ConfigTable()  # type: ignore[attr-defined]


class _Watch(MetaPathFinder):
    """Finds no module itself, but prepares `peft.mapping` right after it was executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of `peft.mapping` as the other finders give it, with a loader that calls us afterwards."""
        if fullname != _TABLES:
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
            _lay_table(module)

        loader.exec_module = execute_and_prepare  # type: ignore[method-assign]
        return spec
