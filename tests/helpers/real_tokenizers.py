"""Tokenizers of known models, whose tests are skipped unless `PEFT_IGC_TOKENIZERS` names a folder that has them."""

import functools
import os
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from peft_igc.inference.loading import load_base


FOLDER = os.environ.get("PEFT_IGC_TOKENIZERS")
needs_real = pytest.mark.skipif(
    not FOLDER, reason="set PEFT_IGC_TOKENIZERS to a folder of saved tokenizers (gpt2, llama3.1, qwen2.5)"
)
LLAMA, QWEN, GPT2 = (pytest.param(name, marks=needs_real) for name in ("llama3.1", "qwen2.5", "gpt2"))


@functools.cache
def saved(name: str) -> Any:
    """The tokenizer of that name; `tiny` is the embedded base's."""
    return load_base("tiny")[1] if name == "tiny" else AutoTokenizer.from_pretrained(Path(str(FOLDER)) / name)
