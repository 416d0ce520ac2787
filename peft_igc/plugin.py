"""Registers the method with PEFT, and the model class with lm_eval, whichever of them is imported first.

TRL learns that a calculator does not reach an engine of vLLM by merged weights.

PEFT 0.21 has no entry point for plugins, and lm-evaluation-harness (lm_eval 0.4.13) has none for models. `import
peft_igc` calls `activate`: what is imported already is told at once, and the rest right after its own import, because
importing PEFT takes seconds that `peft-igc --help` should not take. This can go when both have entry points.

A process that does not import `peft_igc` runs none of this, and PEFT ends in `KeyError: 'IGC'`. `peft-igc autoload on`
changes that for an environment, with a file in its site-packages; see `AUTOLOAD`.
"""

import functools
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


# Python runs the `import` lines of such files when it starts, before any program. An error would be printed by every
# process of the environment, so an uninstalled package is not one.
AUTOLOAD = """\
# Written by `peft-igc autoload on`, removed by `peft-igc autoload off`. Every Python process of this environment
# imports `peft_igc` when it starts (but neither torch nor PEFT), so that PEFT and lm_eval find the method by its name.
import importlib.util; importlib.util.find_spec("peft_igc") and __import__("peft_igc")
"""


def activate() -> None:
    """Makes PEFT and lm_eval know the method, now or when they are imported. Calling it again changes nothing."""
    for name, prepare in _PREPARED.items():
        if name in sys.modules:
            if not getattr(sys.modules[name].__spec__, "_initializing", False):  # else half imported
                prepare()
        elif not any(isinstance(finder, _Watch) and finder.name == name for finder in sys.meta_path):
            sys.meta_path.insert(0, _Watch(name, prepare))


def autoload_file() -> Path:
    """The file that makes every process of the running environment import this package, if it exists."""
    return Path(sysconfig.get_path("purelib")) / "peft_igc_autoload.pth"


def _register() -> None:
    """Registers the method. Where the tuner is being imported, which imports PEFT first, it does so at its end."""
    if f"{__package__}.tuner" not in sys.modules:
        from .tuner.register import register

        register()


def _offer_model() -> None:
    """Adds our class to lm_eval's table of models, as a name that is imported when it is looked up."""
    from lm_eval.api.registry import model_registry

    if "igc" not in model_registry:
        model_registry.register("igc", target="peft_igc.inference.harness:IGCLM")


def _refuse_vllm() -> None:
    """Makes TRL (1.16) refuse, before it starts an engine, to sample by vLLM from a model with a calculator."""
    from trl.generation.vllm_generation import VLLMGeneration

    init = VLLMGeneration.__init__
    if getattr(init, "_igc", False):
        return

    @functools.wraps(init)
    def __init__(self: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        if any(hasattr(module, "igc_config") for module in model.modules()):
            raise ValueError(
                "`use_vllm` sends the merged weights of the model to the engine, and a calculator cannot be merged. "
                "Sample with `use_transformers_continuous_batching=True` instead."
            )
        init(self, model, *args, **kwargs)

    __init__._igc = True  # type: ignore[attr-defined]
    VLLMGeneration.__init__ = __init__


_PREPARED: dict[str, Callable[[], None]] = {
    "peft": _register,
    "lm_eval.models": _offer_model,
    "trl.generation.vllm_generation": _refuse_vllm,
}


class _Watch(MetaPathFinder):
    """Finds no module itself, but calls `prepare` right after the module `name` was executed."""

    def __init__(self, name: str, prepare: Callable[[], None]) -> None:
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
            self.prepare()

        loader.exec_module = execute_and_prepare  # type: ignore[method-assign]
        return spec
