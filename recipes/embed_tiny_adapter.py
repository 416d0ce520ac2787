"""Put a trained adapter of the embedded base into the package (`peft_igc/assets/tiny_adapter/`), as small as possible.

The weights are rounded to bfloat16, or else to float16, if every answer to the test items stays the same, step by
step; otherwise they are kept as they are. The items are the generated ones of the demonstration, those without a right
answer included.

    python recipes/embed_tiny_adapter.py --adapter demo-output/adapter

Run it from the root of a checkout after `make demo`; it takes about a minute. It prints the size, and how many answers
differ in each format. `tests/inference/test_loading.py` tests what it wrote.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.evaluation import Answer, answer_tokens
from peft_igc.inference.loading import load_adapter, tiny_base
from peft_igc.sft.sets import generated_sets
from peft_igc.text import Limits
from peft_igc.tuner.base_model import TINY, TINY_ADAPTER_FOLDER


FORMATS = (torch.bfloat16, torch.float16)
LONGEST_ANSWER = 40


def rounded(model: Any, dtype: torch.dtype) -> Any:
    """Rounds the adapter's weights to `dtype`; they stay in float32."""
    for name, parameter in model.named_parameters():
        if ".igc." in name:
            parameter.data = parameter.data.to(dtype).float()
    return model


def save(model: Any, folder: Path, dtype: torch.dtype) -> int:
    """Writes the adapter in `dtype` with the name of the embedded base, and returns the bytes of its weights."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = TINY
    for name, parameter in model.named_parameters():
        if ".igc." in name:
            parameter.data = parameter.data.to(dtype)
    model.save_pretrained(folder, save_embedding_layers=False)  # or PEFT (0.21) looks the base up on the hub
    return (folder / "adapter_model.safetensors").stat().st_size


def prompts(per_set: int) -> list[str]:
    """The prompts of all items."""
    sets = generated_sets(max(per_set // 10, 1), per_set, 0, Limits(decimal_operands=True)).values()
    return [item["prompt"] for items in sets for item in items]


def main(argv: Sequence[str] | None = None) -> None:
    """Chooses the format, and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", required=True, metavar="DIR", help="saved adapter of the embedded base")
    parser.add_argument("--output", default=str(TINY_ADAPTER_FOLDER), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--per-set", type=int, default=300, metavar="N", help="items of a set (default: %(default)s)")
    arguments = parser.parse_args(argv)
    tokenizer = tiny_base()[1]
    tokens = prompt_tokens(tokenizer, prompts(arguments.per_set), raw=False)

    def answers(model: Any) -> list[Answer]:
        return answer_tokens(model, tokenizer, tokens, 64, LONGEST_ANSWER)

    def loaded() -> Any:
        return load_adapter(tiny_base()[0], arguments.adapter)

    wanted, chosen = answers(loaded()), torch.float32
    for dtype in FORMATS:
        found = answers(rounded(loaded(), dtype))
        differ = sum(one != other for one, other in zip(wanted, found, strict=True))
        print(f"{dtype}: {differ} of {len(tokens):,} answers differ", flush=True)
        if not differ:
            chosen = dtype
            break
    with tempfile.TemporaryDirectory() as trial:  # what is loaded again must answer like that, too
        size = save(loaded(), Path(trial), chosen)
        assert answers(load_adapter(tiny_base()[0], trial)) == wanted
    save(loaded(), Path(arguments.output), chosen)
    print(f"Written: `{arguments.output}`, {size:,} bytes of weights in {chosen}")


if __name__ == "__main__":
    main()
