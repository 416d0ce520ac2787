"""Prompts for engines, as token ids: requests, silent chats, `=` in running text, several turns, shared beginnings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from peft_igc import IGCConfig
from peft_igc.inference.decoding import left_padded
from peft_igc.tuner.anchor_rules import text_rule
from peft_igc.tuner.base_model import TINY_ADAPTER_FOLDER


SILENT = (
    "Hello!", "Who are you?", "Tell me a story about a cat.", "My cat is 5 years old.", "Good morning, how are you?",
    "Write a poem.", "The train leaves at 10:30.", "I live in a house with 3 rooms.",
)  # fmt: skip
STORY = "The cat sat on the mat. " * 12


def with_equals_signs(folder: Path, tokenizer: Any, adapter: Path = TINY_ADAPTER_FOLDER) -> Path:
    """An adapter with one more anchor rule, `=`."""
    config = IGCConfig.from_pretrained(str(adapter))
    config.anchors = config.anchors | {"inline": text_rule(tokenizer, "=").sequences}
    config.save_pretrained(str(folder))
    weights = "adapter_model.safetensors"
    (folder / weights).write_bytes((adapter / weights).read_bytes())
    return folder


def prompts(tokenizer: Any, count: int, seed: int = 0) -> list[list[int]]:
    """That many prompts of all kinds, in turn."""
    rng = random.Random(seed)
    kinds = (_request, lambda _, at: [SILENT[at % len(SILENT)]], _running, _turns, _shared)
    made = [kinds[index % len(kinds)](rng, index // len(kinds)) for index in range(count)]
    return [tokenizer(one)["input_ids"] if isinstance(one, str) else _chat(tokenizer, one) for one in made]


def answers(model: Any, prompts: list[list[int]], tokens: int, **options: Any) -> list[list[int]]:
    """What `generate` answers, each prompt alone, without what follows the end token."""
    found = []
    for ids in prompts:
        out = model.generate(**left_padded([ids], 0), max_new_tokens=tokens, do_sample=False, **options)
        found.append(out[0, len(ids) :].tolist())
    return found


def _chat(tokenizer: Any, turns: list[str]) -> list[int]:
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(turns)]
    found = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)
    return list(found["input_ids"])


def _numbers(rng: random.Random) -> tuple[int, int]:
    return rng.randint(1, 10 ** rng.randint(1, 9)), rng.randint(1, 10 ** rng.randint(1, 5))


def _question(rng: random.Random) -> tuple[str, int]:
    a, b = _numbers(rng)
    word, value = rng.choice([("plus", a + b), ("minus", a - b), ("times", a * b)])
    return f"What is {a} {word} {b}?", value


def _request(rng: random.Random, index: int) -> list[str]:
    a, b = _numbers(rng)
    return [rng.choice([_question(rng)[0], f"{a} * {b}", f"Calculate ({a} + {b}) * 3.", f"How much is {a} + {b} =?"])]


def _running(rng: random.Random, index: int) -> str:
    a, b = _numbers(rng)
    return rng.choice([f"The cat: {a} + {b} =", f"{a} - {b} = {a - b}. And {a} * {b} =", f"So {a} + {b} = 1 and 2 ="])


def _turns(rng: random.Random, index: int) -> list[str]:
    turns: list[str] = []
    for _ in range(rng.randint(1, 3)):
        question, value = _question(rng)
        turns += [question, str(value)]
    return [*turns, SILENT[index % len(SILENT)] if index % 3 == 2 else _question(rng)[0]]


def _shared(rng: random.Random, index: int) -> list[str]:
    return [SILENT[2], STORY, _question(rng)[0] if index % 3 else SILENT[index % len(SILENT)]]
