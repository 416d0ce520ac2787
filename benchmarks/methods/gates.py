"""What has to hold before a comparison of methods may report anything; each gate gives sentences, none if it is green.

* the test is apart from training, and no prompt holds its target (`method_items.apart`)
* scratchpads, as they are trained, are true in every step and end in the right answer
* the tool loop with an oracle in place of a model, which writes the right call and then copies what it was fed, gives
  exact results: alone, in a batch, with and without a cache
* a trained method says the same with and without a KV cache (`cached_alike`)

Try it: `pytest tests/benchmarks/test_methods.py -k gate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.common.answer_loop import answered
from benchmarks.methods import scratchpads
from benchmarks.methods.items import apart
from benchmarks.methods.tool_use import RESTATED, Tool
from peft_igc.inference.decoding import prompt_tokens


LIMIT = 96  # tokens of an oracle's answer
SHOWN = 5  # sentences of one kind


class Oracle:
    """A model that writes scripted calls, then what it was fed behind them, then the end.

    Args:
        calls: By prompt, as token ids.
        close: The token behind what is fed.
        end: The token that ends an answer.
        size: Of the vocabulary.
    """

    def __init__(self, calls: Mapping[tuple[int, ...], list[int]], close: int, end: int, size: int) -> None:
        self.calls, self.close, self.end, self.size = calls, close, end, size
        self.generation_config = SimpleNamespace(eos_token_id=end)

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **cache: Any) -> SimpleNamespace:
        """Logits [B, 1, V] and, as a cache, the text so far."""
        before = cache["past_key_values"]
        ids = input_ids if before is None else torch.cat([before, input_ids], 1)
        logits = torch.zeros(len(ids), 1, self.size)
        for row, (text, mask) in enumerate(zip(ids.tolist(), attention_mask.bool().tolist(), strict=True)):
            logits[row, 0, self._next([token for token, real in zip(text, mask, strict=True) if real])] = 1.0
        return SimpleNamespace(logits=logits, past_key_values=ids if cache["use_cache"] else None)

    def _next(self, text: list[int]) -> int:
        """The next token of one text."""
        prompt, call = next((p, c) for p, c in self.calls.items() if tuple(text[: len(p)]) == p)
        behind = text[len(prompt) :]
        if len(behind) < len(call):
            return call[len(behind)]
        fed = behind[len(call) :]
        if self.close not in fed:
            return self.end
        result = fed[: fed.index(self.close)]
        copied = fed[len(result) + 1 :]
        return result[len(copied)] if len(copied) < len(result) else self.end


def loop_is_exact(tokenizer: Any, items: Sequence[Mapping[str, Any]], tool: Tool = RESTATED) -> list[str]:
    """Whether the tool loop gives an oracle's questions their targets, in one batch and one by one."""
    prompts = prompt_tokens(tokenizer, [item["prompt"] for item in items], raw=False)
    texts = [tool.written(item["igc_operator"], *item["igc_operands"]) for item in items]
    calls = dict(zip(map(tuple, prompts), tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True))
    close = tokenizer(tool.close, add_special_tokens=False)["input_ids"][0]
    oracle = Oracle(calls, close, tokenizer.eos_token_id, len(tokenizer))
    wrong = []
    for cached in (True, False):
        batch = answered(oracle, tokenizer, prompts, LIMIT, tool, cached)
        alone = [answered(oracle, tokenizer, [prompt], LIMIT, tool, cached)[0] for prompt in prompts]
        for item, *made in zip(items, batch, alone, strict=True):
            for answer in made:
                told = tool.visible(tokenizer.decode(answer.tokens))
                if told != item["target"]:
                    wrong.append(f"The tool loop (cache: {cached}) gives {item['prompt']!r} the answer {told!r}.")
    return wrong


def scratchpads_are_true(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether the steps of rows with operand columns are true and end in the result."""
    wrong = []
    for row in rows:
        if row["igc_operands"] is None or not (row["igc_result"] or "").lstrip("-").isdigit():
            continue
        text = scratchpads.steps(row["igc_operator"], *row["igc_operands"])
        sign = "-" if text.startswith("-") else ""
        last = text.removesuffix(scratchpads.MARK).rpartition(";")[2].replace(" ", "").lstrip("0") or "0"
        if false := scratchpads.false_steps(text):
            wrong.append(f"A scratchpad of {row['igc_operands']} holds the false step {false[0]!r}.")
        if sign + last != row["igc_result"]:
            wrong.append(f"A scratchpad of {row['igc_operands']} ends in {sign + last!r}, not {row['igc_result']!r}.")
    return wrong


def before_training(tokenizer: Any, rows: Sequence[Any], tested: Sequence[Any], few: Sequence[Any]) -> list[str]:
    """All gates that need no trained method; `few` items go through the tool loop."""
    kinds = (apart(rows, tested), scratchpads_are_true([*rows, *tested]), loop_is_exact(tokenizer, few))
    return [sentence for kind in kinds for sentence in kind[:SHOWN]]


def cached_alike(model: Any, tokenizer: Any, prompts: Sequence[str], limit: int, tool: Tool | None) -> list[str]:
    """Whether a method's answers are the same, token by token, when the whole text is read again for each."""
    tokens = prompt_tokens(tokenizer, prompts, raw=False)
    kept, again = (answered(model, tokenizer, tokens, limit, tool, cached) for cached in (True, False))
    return [
        f"With a cache the answer to {prompt!r} is {tokenizer.decode(a.tokens)!r}, without one "
        f"{tokenizer.decode(b.tokens)!r}."
        for prompt, a, b in zip(prompts, kept, again, strict=True)
        if a.tokens != b.tokens
    ]
