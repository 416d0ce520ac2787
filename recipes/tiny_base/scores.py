"""What a base model can do: copying by length, its other tasks, arithmetic in BIG-bench's form, prose it has not seen.

In: a model and its tokenizer. Out: a dictionary of plain numbers, ready for JSON. Answers are generated greedily and
compared whole. It measures the base alone (adapters: `peft_igc.inference.evaluation`). The questions depend on a
fixed seed.
"""

import math
import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from peft_igc.data.bigbench import OPERATION_NAMES

from . import questions
from .questions import Pair


_COPIED_LENGTHS = range(1, 13)
_ARITHMETIC_LENGTHS = range(1, 6)
_SEED = 20_000_000  # far from the seeds of training


@torch.no_grad()
def generate(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    max_new_tokens: int,
    batch_size: int = 128,
) -> list[str]:
    """Greedy answers to `prompts` in the chat format, in their order. The tokenizer is left without padding."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    answers = [""] * len(prompts)
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        chats = [[{"role": "user", "content": prompts[i]}] for i in part]
        texts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
        rows = tokenizer(texts, add_special_tokens=False, return_tensors="pt", padding=True, padding_side="left")
        out = model.generate(
            input_ids=rows["input_ids"],
            attention_mask=rows["attention_mask"],
            max_new_tokens=max_new_tokens,
            do_sample=False,
        )
        new = out[:, rows["input_ids"].shape[1] :]
        for i, text in zip(part, tokenizer.batch_decode(new, skip_special_tokens=True), strict=True):
            answers[i] = text
    tokenizer.backend_tokenizer.no_padding()
    return answers


def exact_match(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair], max_new_tokens: int = 24
) -> float:
    """The share of `pairs` whose answer is generated exactly, nothing before or after it."""
    answers = generate(model, tokenizer, [question for question, _ in pairs], max_new_tokens)
    return sum(answer == wanted for answer, (_, wanted) in zip(answers, pairs, strict=True)) / len(pairs)


@torch.no_grad()
def bits_per_byte(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], window: int = 256
) -> float:
    """Cross-entropy of `texts` in bits per UTF-8 byte; each token is predicted once, in overlapping windows."""
    nats, size, stride = 0.0, 0, window - window // 4
    for text in texts:
        size += len(text.encode())
        ids = torch.tensor(tokenizer(text, verbose=False)["input_ids"])[None]  # [1, T], begins with the begin token
        known = 1
        for start in range(0, ids.shape[1], stride):
            part = ids[:, start : start + window]
            if start + part.shape[1] <= known:
                break
            logits = model(input_ids=part).logits[0].float()  # [T, V]
            first = known - start
            nats += F.cross_entropy(logits[first - 1 : -1], part[0, first:], reduction="sum").item()
            known = start + part.shape[1]
    return nats / size / math.log(2)


def bigbench_pairs(operator: str, count: int, n: int, rng: random.Random) -> list[Pair]:
    """At most `n` different questions of one BIG-bench subtask: operands of `count` digits, whole quotients."""
    operands: dict[tuple[int, int], None] = {}
    for _ in range(20 * n):
        operands[questions.draw_operands(rng, operator, count)] = None
        if len(operands) == n:
            break
    return [questions.bigbench_question(operator, a, b) for a, b in operands]


def arithmetic_scores(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n: int) -> dict[str, float]:
    """Exact match on each of BIG-bench's 20 arithmetic subtasks, and their mean as `overall`."""
    rng = random.Random(_SEED)
    scores = {
        f"{count}_digit_{name}": exact_match(model, tokenizer, bigbench_pairs(operator, count, n, rng), 12)
        for operator, name in OPERATION_NAMES.items()
        for count in _ARITHMETIC_LENGTHS
    }
    return {"overall": sum(scores.values()) / len(scores), **scores}


def copying_scores(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n: int) -> dict[str, float]:
    """Exact match of repeating numbers: positive by number of digits, negative, and all 1-12 digits together."""
    rng = random.Random(_SEED + 1)
    by_length = {}
    for count in (*_COPIED_LENGTHS, 14, 16):
        numbers = [questions.draw_number(rng, count, count, negative=0.0) for _ in range(n)]
        pairs = [(f"Repeat the number {x}.", x) for x in numbers[: n // 2]]
        pairs += [(f"Copy this: {x}", x) for x in numbers[n // 2 :]]
        by_length[f"{count}_digits"] = exact_match(model, tokenizer, pairs)
    negatives = [questions.draw_number(rng, negative=1.0) for _ in range(n)]
    return {
        "1_to_12_digits": sum(by_length[f"{count}_digits"] for count in _COPIED_LENGTHS) / len(_COPIED_LENGTHS),
        **by_length,
        "negative": exact_match(model, tokenizer, [(f"Repeat the number {x}.", x) for x in negatives]),
        "new_wording": exact_match(
            model, tokenizer, [(f"The word of the day is {x}, so say {x}.", x) for x in negatives]
        ),
    }


def task_scores(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, words: Sequence[str], n: int
) -> dict[str, float]:
    """Exact match on each task of the training mixture but arithmetic."""
    rng = random.Random(_SEED + 2)
    conversations = questions.Conversations(words, _SEED + 3)
    kinds = [kind for kind in conversations.mixture if kind is not questions.arithmetic]
    return {kind.__name__: exact_match(model, tokenizer, [kind(rng) for _ in range(n)], 48) for kind in kinds}


def all_scores(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *,
    words: Sequence[str],
    held_out: Sequence[str],
    n: int,
) -> dict[str, object]:
    """Everything above with `n` questions for each figure; the model is put into eval mode and left there."""
    model.eval()
    return {
        "items_per_figure": n,
        "bits_per_byte": bits_per_byte(model, tokenizer, held_out),
        "copying": copying_scores(model, tokenizer, n),
        "tasks": task_scores(model, tokenizer, words, n),
        "arithmetic": arithmetic_scores(model, tokenizer, n),
    }
