"""The shipped adapter as engines serve it."""

import pytest

from benchmarks.common.engine_texts import with_equals_signs
from peft_igc.inference.loading import load_base
from peft_igc.tuner.base_model import TINY


@pytest.fixture(scope="session")
def tokenizer():
    return load_base(TINY)[1]


@pytest.fixture(scope="session")
def adapter(tmp_path_factory, tokenizer):
    """The adapter, which calculates after `=` too."""
    return with_equals_signs(tmp_path_factory.mktemp("adapter"), tokenizer)
