"""Settings of every test: one thread, one seed, and the warnings that are not ours; shared bases and adapters."""

import gc

import pytest
import torch


torch.set_num_threads(1)  # the tests' tensors are too small for more, and two test processes share the machine

# Warnings are errors (pyproject.toml), except these.
IGNORED = [
    # peft 0.21.2, peft/peft_model.py:184 reads what transformers 5.23 has renamed.
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning",
    # transformers 5.23: `TrainingArguments` sets a field that it calls deprecated itself, and TRL (1.16) sets it too.
    "ignore:.*gradient_checkpointing(_kwargs)?. is deprecated and will be removed in v6:FutureWarning",
]


def pytest_configure(config):
    for line in IGNORED:
        config.addinivalue_line("filterwarnings", line)


def pytest_collection_finish():
    gc.freeze()  # modules and collected tests stay alive to the end: the garbage collector need not look at them


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """The folder of a tiny random base with a tokenizer of characters."""
    from tiny_training import save_base  # needs TRL, which the environment of vLLM has not

    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def adapter(tmp_path):
    """The folder of a random adapter for it, as PEFT saves it."""
    from peft import get_peft_model
    from tiny_models import small_config, tiny_model

    get_peft_model(tiny_model("llama"), small_config()).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


@pytest.fixture
def tokenizer():
    """A new tokenizer of characters."""
    from tiny_training import tokenizer

    return tokenizer()


@pytest.fixture(scope="module")
def trained():
    """The embedded base with its trained adapter, and their tokenizer."""
    from peft_igc import tiny_igc

    return tiny_igc()
