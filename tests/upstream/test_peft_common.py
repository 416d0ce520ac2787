"""PEFT's own common tests, unchanged, on a calculator of either interface in eleven architectures.

`PeftCommonTester` is what PEFT holds every one of its methods to. It is not in the wheel: `make unit` fetches it, and
without it this file is skipped. Each check of it is in exactly one of the two tables below: applied, with its
arguments, or not applied, with the reason. Llama and GPT-2 are in `make test`, the other architectures in
`make test-all`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_models import ARCHITECTURES, RandomConfig, small_igc, tiny_model
from tiny_vocabulary import encode
from transformers import AutoModelForCausalLM

from peft_igc import IGCConfig


pytestmark = [
    # transformers 5.23 deprecates what PEFT 0.21 calls.
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning"),
    # PEFT tells what the checks of deletion bring about.
    pytest.mark.filterwarnings("ignore:Adapter delete_me was active which is now deleted:UserWarning"),
]

PACKAGE = "peft_common_tests"
FOLDER = Path(__file__).parents[2] / ".cache" / "peft-tests" / importlib.metadata.version("peft")


def common_tester() -> type:
    """PEFT's `PeftCommonTester`; skips this file if it has not been fetched."""
    if not FOLDER.is_dir():
        pytest.skip("PEFT's common tests are not there; `make unit` fetches them.", allow_module_level=True)
    if importlib.util.find_spec("diffusers") is None:
        # The tester only asks whether a model is one of diffusers' pipelines; none is.
        diffusers = types.ModuleType("diffusers")
        diffusers.StableDiffusionPipeline = type("StableDiffusionPipeline", (), {})  # type: ignore[attr-defined]
        sys.modules["diffusers"] = diffusers
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(FOLDER)]
    sys.modules[PACKAGE] = package
    try:
        return importlib.import_module(f"{PACKAGE}.testing_common").PeftCommonTester
    finally:
        if "diffusers" in sys.modules and not hasattr(sys.modules["diffusers"], "__version__"):
            del sys.modules["diffusers"]  # or else other packages would think that it is installed


PeftCommonTester = common_tester()

# Check, arguments beyond the config's. Each runs with a fresh and with a random adapter, unless it is in ONLY_RANDOM.
APPLIED: list[tuple[str, dict[str, Any]]] = [
    ("model_attr", {}),
    ("adapter_name", {}),
    ("prepare_for_training", {}),
    ("load_model_low_cpu_mem_usage", {}),
    ("save_pretrained", {}),
    ("save_pretrained", {"safe_serialization": False}),
    ("save_pretrained_selected_adapters", {}),
    ("save_pretrained_selected_adapters", {"safe_serialization": False}),
    ("save_pretrained_adapter_name_substring", {}),
    ("from_pretrained_config_construction", {}),
    ("load_multiple_adapters", {}),
    ("add_adapter_no_autocast_adapter_dtype", {"dtype": torch.float16}),
    ("add_adapter_no_autocast_adapter_dtype", {"dtype": torch.bfloat16}),
    ("generate", {}),
    ("generate_pos_args", {"raises_err": False}),
    ("generate_half_prec", {}),
    ("training", {}),
    ("training_gradient_checkpointing", {"use_reentrant": True}),
    ("training_gradient_checkpointing", {"use_reentrant": False}),
    ("inference_safetensors", {}),
    ("peft_model_device_map", {}),
    ("delete_adapter", {}),
    ("delete_inactive_adapter", {}),
    ("delete_unknown_adapter_raises", {}),
    ("unload_adapter", {}),
    ("disable_adapter", {}),
    ("passing_input_embeds_works", {}),
    ("get_base_model_state_dict", {}),
]
# These want the adapter to change the outputs.
ONLY_RANDOM = {"unload_adapter", "disable_adapter"}

_MERGING = "a calculator cannot be merged; the refusals are tested in test_model_refusals.py"
_WEIGHTED = "calculators cannot be combined with weights; the refusal is tested in test_model_refusals.py"
_MIXED = "rows of a batch cannot have different calculators; the refusal is tested in test_model_refusals.py"
NOT_APPLIED: dict[str, str] = {
    "merge_layers": _MERGING,
    "merge_layers_fp16": _MERGING,
    "merge_layers_nan": _MERGING,
    "merge_layers_multi": _MERGING,
    "merge_layers_is_idempotent": _MERGING,
    "safe_merge": _MERGING,
    "mixed_adapter_batches": _MIXED,
    "generate_with_mixed_adapter_batches_and_beam_search": _MIXED,
    "weighted_combination_of_adapters": _WEIGHTED,
    "weighted_combination_of_adapters_lora": "for LoRA",
    "weighted_combination_of_adapters_ia3": "for IA3",
    "adding_multiple_adapters_with_bias_raises": "skips itself: the config has no `bias`",
    "training_layer_indexing": "skips itself: the config has no `layers_to_transform`",
    "training_prompt_learning_tasks": "for prompt learning",
    "lora_conversion": "returns at once: a calculator has no equivalent LoRA",
}

ARCHS = [pytest.param(a, marks=[] if a in ("llama", "gpt2") else [pytest.mark.slow]) for a in ARCHITECTURES]
CHECKS = [pytest.param(*one, id="-".join(map(str, (one[0], *one[1].values())))) for one in APPLIED]


class Tester(PeftCommonTester):  # type: ignore[misc, valid-type]
    """The tester on the CPU, with a text that is a calculation in the vocabulary of `tiny_vocabulary`."""

    __test__ = False
    torch_device = "cpu"
    transformers_class = AutoModelForCausalLM

    def check_modelcard(self, tmp_dirname: str, model: Any) -> None:
        """PEFT's check, but that a base in a folder of this machine must not be named, where PEFT wants its path."""
        card = (Path(tmp_dirname) / "README.md").read_text(encoding="utf-8")
        metadata = yaml.safe_load(card.split("---\n")[1])
        assert metadata["library_name"] == "peft"
        assert "base_model" not in metadata
        assert model.config._name_or_path not in card

    def prepare_inputs_for_testing(self) -> dict[str, torch.Tensor]:
        """Two rows of six tokens, one of them masked."""
        ids = encode("(12 + 5 =")
        mask = torch.ones(2, len(ids), dtype=torch.int64)
        mask[1, 0] = 0
        return {"input_ids": torch.stack([ids, ids]), "attention_mask": mask}


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders with a saved tiny model each, made on first use."""

    class Folders(dict[str, str]):
        def __missing__(self, arch: str) -> str:
            # PEFT's tests skip what they know not to work with GPT-2 by the model's name: it must not be in the path.
            folder = tmp_path_factory.mktemp("model") / arch.replace("gpt2", "gpt_2")
            model = tiny_model(arch)
            model.generation_config.max_new_tokens = 6  # the tester sets no length
            model.save_pretrained(folder)
            # as if it had been fetched before: the tester then stays offline
            sys.modules[f"{PACKAGE}.testing_utils"]._HUB_MODEL_ACCESSES[str(folder)] = 1  # type: ignore[attr-defined]
            self[arch] = str(folder)
            return self[arch]

    return Folders()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("interface", ["hidden", "tokens"])
@pytest.mark.parametrize(("check", "arguments"), CHECKS)
def test_peft_holds_it_to_what_it_holds_its_own_methods_to(
    arch: str, interface: str, check: str, arguments: dict[str, Any], model_folders: dict[str, str]
) -> None:
    first = ("",) if check == "passing_input_embeds_works" else ()  # its unused `test_name`
    for kind in (RandomConfig,) if check in ONLY_RANDOM else (IGCConfig, RandomConfig):
        torch.manual_seed(0)
        config = small_igc(interface=interface, task_type="CAUSAL_LM")
        getattr(Tester(), f"_test_{check}")(*first, model_folders[arch], kind, config, **arguments)


def test_every_check_is_applied_or_has_a_reason() -> None:
    checks = {name.removeprefix("_test_") for name in dir(PeftCommonTester) if name.startswith("_test_")}
    applied = {check for check, _ in APPLIED}
    assert applied | set(NOT_APPLIED) == checks
    assert not applied & set(NOT_APPLIED)
    assert all(NOT_APPLIED.values())
    assert not [name for name in vars(Tester) if name.startswith("_test_")]  # PEFT's own, unchanged
