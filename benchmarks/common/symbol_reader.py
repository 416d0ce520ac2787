"""The tokenizers that benchmarks and tests use: the embedded one, and those of a folder.

`PEFT_IGC_TOKENIZERS` names a folder of saved tokenizers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from peft_igc.inference.loading import tiny_base


EMBEDDED = "embedded"
FOLDER = "PEFT_IGC_TOKENIZERS"


def tokenizer_names() -> list[str]:
    """The embedded tokenizer, and those of the folder."""
    folder = os.environ.get(FOLDER)
    return [EMBEDDED, *sorted(path.name for path in Path(folder).iterdir() if path.is_dir())] if folder else [EMBEDDED]


def load_tokenizer(name: str) -> Any:
    """A tokenizer of `tokenizer_names`."""
    if name == EMBEDDED:
        return tiny_base()[1]
    return AutoTokenizer.from_pretrained(Path(os.environ[FOLDER]) / name)
