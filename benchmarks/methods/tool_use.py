"""Tool use in the Toolformer's form: the model writes a call, Python calculates, the model goes on with the result.

    call(58213*907)=52799191;52799191
    |_______________||_______||______|
      the model       the tool  the model

`answered` generates up to `=`, feeds the tool's reply into the same KV cache, and goes on. The name of the call is one
token of the embedded base, so that this baseline is as fast as it can be; in `SPLICED` the reply is part of the answer
and is not written again. The tool says `?` where there is no result, and to a call that cannot be read. As in the
Toolformer's training, the loss is on the replies, too.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from transformers import DynamicCache, StoppingCriteriaList

from peft_igc.data.columns import has_number, label
from peft_igc.inference.decoding import end_tokens, greedy
from peft_igc.inference.evaluation import decode_answer
from peft_igc.text import Limits


LONGEST = 96  # tokens of an answer, calls and replies included
_READABLE = re.compile(r"call\((-?\d+)([-+*/])(-?\d+)\)=$")
_CALL = re.compile(r"call\([^()]*\)=$")

Row = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A calculator outside of the model; `close` follows its reply, "" if the reply is part of the answer."""

    close: str = ";"

    def reply(self, text: str) -> str:
        """What is fed after a text; nothing unless it ends in a call."""
        if not _CALL.search(text):
            return ""
        found = _READABLE.search(text)
        result = "" if found is None else label(found[2], (found[1], found[3]), Limits())
        return (result if has_number(result) else "?") + self.close

    def used_in(self, row: Row) -> Row:
        """A training row whose answer has a call, if it is a calculation, without operand columns."""
        (said,) = row["completion"]
        answer, result = said["content"], row["igc_result"]
        if row["igc_operands"] is not None:
            call = f"call({row['igc_operator'].join(row['igc_operands'])})="
            if self.close:
                answer = call + self.reply(call) + answer
            elif self.reply(call) == result:
                answer = answer.replace(result, call + result, 1)
        return {"prompt": row["prompt"], "completion": [said | {"content": answer}]}

    def visible(self, text: str) -> str:
        """The text without its calls, and without replies that are not part of the answer."""
        reply = rf"[^{self.close}]*{self.close}" if self.close else ""
        return re.sub(rf"call\([^()]*\)={reply}", "", text)


RESTATED, SPLICED = Tool(), Tool(close="")


@dataclass
class Answer:
    """A greedy answer: what a reader sees, whether it was cut, tokens that the model chose, calls, and seconds."""

    text: str
    cut: bool
    generated_tokens: int
    calls: int
    seconds: float


@torch.no_grad()
def answered(model: Any, tokenizer: Any, prompt: list[int], tool: Tool | None = None) -> Answer:
    """The answer to one prompt; a model in eval mode, perhaps with an adapter, and perhaps a tool."""
    begin, ids = time.perf_counter(), torch.tensor([prompt])
    options: dict[str, Any] = {"past_key_values": DynamicCache(config=model.config)}
    if tool is not None:  # only such tokens can end a call
        closing = tokens_ending_in("=", tokenizer)
        options["stopping_criteria"] = StoppingCriteriaList(
            [lambda ids, scores, **_: torch.tensor([ids[0, -1].item() in closing])]  # type: ignore[list-item]
        )
    ends, generated, calls = end_tokens(model, tokenizer), 0, 0
    while True:
        left, before = LONGEST - (ids.shape[1] - len(prompt)), ids.shape[1]
        settings = greedy(model, tokenizer, left)
        ids = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings, **options)
        generated += ids.shape[1] - before
        text, cut = decode_answer(tokenizer, ids[0, len(prompt) :].tolist(), ends)
        if tool is None or not cut or ids.shape[1] - len(prompt) >= LONGEST:
            break
        if reply := tool.reply(text):
            calls += 1
            told = tokenizer(reply, add_special_tokens=False)["input_ids"]
            ids = torch.cat([ids, torch.tensor([told])], 1)[:, : len(prompt) + LONGEST - 1]
    shown = text if tool is None else tool.visible(text)
    return Answer(shown.strip(), cut, generated, calls, time.perf_counter() - begin)


@cache
def tokens_ending_in(character: str, tokenizer: Any) -> frozenset[int]:
    """The tokens whose text ends in a character."""
    return frozenset(token for token in range(len(tokenizer)) if tokenizer.decode([token]).endswith(character))
