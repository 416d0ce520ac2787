"""How many operators a pass dispatches beyond those of its base, by what it has to do. The count has no noise.

The adapter of the package on the embedded base, one row, without gradients. A prompt is one pass; a decoding step is a
pass of one token with a cache. The baseline is the same pass with the adapter off.

    python -m benchmarks.cost.operators --output build/operators.json
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache

from benchmarks.common.measuring import command, facts, write
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.loading import tiny_igc
from peft_igc.tuner.passes import TOGETHER


PROMPTS = {
    "no numbers": "What is the name of it?",
    "two numbers, nothing asked": "I have 58 cats and 36 dogs at home.",
    "request in words": "What is 58 times 36?",
    "request in symbols": "58*36=",
    "symbols among words": "What is 58 * 36?",
}
STEPS = {"token after a result": "What is 58 times 36?", "silent token": "What is the name of it?"}
# The tokens of the steps: the begin of the result, or any other text, of which two passes compress all before them.
FED = {"token after a result": "20", "silent token": "2" * (1 + 2 * (TOGETHER + 1))}


class Counted(TorchDispatchMode):
    """Counts the operators that reach the backend, and among them launches, which compute or copy."""

    count = launches = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in args if torch.is_tensor(x)}
        made = [x for x in (found if isinstance(found, (tuple, list)) else [found]) if torch.is_tensor(x)]
        is_view = all(x.untyped_storage().data_ptr() in given for x in made) or "empty" in str(function)
        self.count += 1
        self.launches += not is_view or function._schema.is_mutable
        return found


@torch.no_grad()
def operators(model: Any, ids: torch.Tensor, fed: torch.Tensor | None) -> int:
    """Operators of a pass over a prompt, or the mean, rounded up, of those of all but the first of the tokens `fed`
    [1, n] after it."""
    cache = DynamicCache(config=model.config)
    mask = torch.ones_like(ids)
    counted = Counted()
    with counted:
        model(input_ids=ids, attention_mask=mask, past_key_values=cache, logits_to_keep=1)
    if fed is None:
        return counted.count
    for at, token in enumerate(fed.split(1, 1)):
        if at == 1:  # the first one may make what is kept
            counted.count = 0
        mask = torch.cat([mask, torch.ones_like(token)], 1)
        with counted:
            model(input_ids=token, attention_mask=mask, past_key_values=cache, logits_to_keep=1)
    return math.ceil(counted.count / (fed.shape[1] - 1))


def measure() -> dict[str, dict[str, int]]:
    """Counts by what a pass has to do."""
    model, tokenizer = tiny_igc()
    digits = {d: tokenizer(d, add_special_tokens=False)["input_ids"][-1] for d in "20"}
    found = {}
    for name, question in (PROMPTS | STEPS).items():
        ids = torch.tensor(prompt_tokens(tokenizer, [question], raw=False))
        step = torch.tensor([[digits[d] for d in FED[name]]]) if name in STEPS else None
        operators(model, ids, step)  # tables are made once
        with model.disable_adapter():
            base = operators(model, ids, step)
        found[name] = {"base": base, "beyond": operators(model, ids, step) - base}
        print(f"{name}: {found[name]['beyond']} beyond {base}", flush=True)
    return found


def main() -> None:
    """Counts and writes the results."""
    output = command(__doc__).parse_args().output
    write(output, {**facts(), "operators": measure()})


if __name__ == "__main__":
    main()
