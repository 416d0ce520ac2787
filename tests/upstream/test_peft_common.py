"""PEFT's own common tests, unchanged, on a calculator of either interface in eleven architectures.

`PeftCommonTester` is what PEFT holds every one of its methods to. It is not in the wheel: `make unit` fetches it, and
without it this file is skipped. Each check of it is in `checks.jsonl`, either with its arguments beyond the config's,
where `dtype` is a name in torch, or not applied, with the reason. Each applied one runs with a fresh and with a random
adapter, unless it is in `ONLY_RANDOM`. Llama and GPT-2 are in `make test`, the other architectures in
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
from peft_igc.data.files import read_rows


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

LINES = read_rows(Path(__file__).with_name("checks.jsonl"))
APPLIED = [(line["check"], line["arguments"]) for line in LINES if "arguments" in line]
ONLY_RANDOM = {"unload_adapter", "disable_adapter"}  # these want the adapter to change the outputs
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
    options = {name: getattr(torch, value) if name == "dtype" else value for name, value in arguments.items()}
    for kind in (RandomConfig,) if check in ONLY_RANDOM else (IGCConfig, RandomConfig):
        torch.manual_seed(0)
        config = small_igc(interface=interface, task_type="CAUSAL_LM")
        getattr(Tester(), f"_test_{check}")(*first, model_folders[arch], kind, config, **options)


def test_every_check_is_applied_or_has_a_reason() -> None:
    checks = {name.removeprefix("_test_") for name in dir(PeftCommonTester) if name.startswith("_test_")}
    applied, not_applied = ({line["check"] for line in LINES if kind in line} for kind in ("arguments", "reason"))
    assert applied | not_applied == checks
    assert not applied & not_applied
    assert all(line.get("reason", True) for line in LINES)
    assert not [name for name in vars(Tester) if name.startswith("_test_")]  # PEFT's own, unchanged
