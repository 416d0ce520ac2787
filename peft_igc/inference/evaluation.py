"""Evaluation by generation: greedy answers are compared with their targets as whole strings.

In: a model (plain or with adapters), its tokenizer, items `{"prompt", "target"}` with an optional `group`.
Out: answers (`generate_answers`), or a report of exact match overall and per group (`evaluate`). The model's own
`generate` runs in left-padded batches and receives only an item's prompt, so operand columns cannot leak into an
answer. There is no likelihood scoring and no sampling.
"""

import dataclasses
import importlib
import importlib.metadata
import math
import platform
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ..data.files import write_rows
from ..numbers.calculator import Status
from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.hooks.wrapper import active_config
from ..tuner.records import StepRecord
from .decoding import Prompt, batches_of, eval_mode, greedy, left_padded, longest_text, prompt_tokens
from .records import Answer, TextRecord
from .tracing import igc_trace


def generate_answers(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: bool = False,
    return_steps: bool = False,
) -> list[Any]:
    """Greedy answers in the order of the prompts.

    Args:
        model: a `PreTrainedModel` or a `PeftModel`. It runs in eval mode and gets its earlier mode back.
        tokenizer: the model's tokenizer. Its padding settings are neither used nor changed.
        prompts: user messages or conversations (lists of messages), or plain texts with `raw`.
        batch_size: prompts per call of `generate`, at least 1. Prompts of similar length share a batch.
        max_new_tokens: maximum length of an answer, at least 1. Longer answers are cut (`evaluate` counts them).
        raw: tokenize prompts without the chat template, but with the special tokens that the tokenizer adds.
        progress: show a bar of the prompts done on stderr.
        return_steps: return an `Answer` for each prompt, which tells whether the calculator wrote it, from which
            expression, and if not, why it was silent. Otherwise a string.

    Raises:
        ValueError: if there is no chat template, if it fails on a conversation, if a prompt has no tokens or does not
            fit the model's positions, or if `batch_size` or `max_new_tokens` is below 1.
        TypeError: if `prompts` is a single string, or one of them is no prompt.
    """
    found = _checked_answers(model, tokenizer, prompts, batch_size, max_new_tokens, raw, progress=progress)
    return found if return_steps else [answer.text for answer in found]


def trace(
    model: Any, tokenizer: Any, prompt: Prompt, *, raw: bool = False, max_new_tokens: int = 24, base: bool = False
) -> Answer:
    """Answers one prompt greedily and records the calculator's part in it.

    Args:
        model: a causal LM with an active IGC adapter.
        tokenizer, raw, max_new_tokens: as in `generate_answers`.
        prompt: a user message or a conversation, or with `raw` a text to continue.
        base: also record what the model would have said without the calculator, in one more forward pass.

    Returns:
        The answer, with its `record`. `print(trace(...).format())` shows it.

    Raises:
        ValueError: if no IGC adapter is active, and as in `generate_answers`.
    """
    (answer,) = _checked_answers(model, tokenizer, [prompt], 1, max_new_tokens, raw, record=True, base=base)
    return answer


def evaluate(
    model: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: bool = False,
    predictions: str | Path | None = None,
) -> dict[str, Any]:
    """Exact match of generated answers, ignoring white space at both ends. A cut answer counts as wrong.

    Args:
        model, tokenizer, batch_size, max_new_tokens, raw, progress: as in `generate_answers`.
        items: each with the strings `prompt` and `target`, and optionally `group`.
        predictions: file to write, with one JSON object per item in their order: the item, and `answer`, `right`,
            `cut`, `source` (`Answer.source`) and `steps` (the status of each step). None: no file.

    Returns:
        A dictionary that can be written as JSON:

        * `n`, `exact_match` (0..1): number of items, and the fraction answered correctly;
        * `groups`: the same by group; items without a group count only in the total;
        * `truncated`: number of answers cut at `max_new_tokens`;
        * `steps`: number of steps by status, such as `{"ok": 190, "none": 10}`; a text may have several;
        * `without_anchor`: number of prompts without an anchor, in whose answers the calculator had no part; None
          without an active adapter;
        * `mistakes`: prompt, target and answer of the first 20 wrong answers;
        * `seconds`, `settings`, `versions`.

    Raises:
        ValueError: if there are no items, if an item lacks one of the two strings, and as in `generate_answers`.
    """
    start = time.perf_counter()
    decoding = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": raw}
    answers, report = answer_items(model, tokenizer, items, decoding, progress=progress)
    if predictions is not None:
        rows = []
        for item, answer in zip(items, answers, strict=True):
            found: dict[str, Any] = {"answer": answer.text, "right": is_right(answer, item), "cut": answer.cut}
            rows.append({**item, **found, "source": answer.source, "steps": [step.status for step in answer.steps]})
        write_rows(predictions, rows)
    return {**report, "seconds": round(time.perf_counter() - start, 3)}


def answer_items(
    model: Any, tokenizer: Any, items: Sequence[Mapping[str, Any]], decoding: Mapping[str, Any], **more: Any
) -> tuple[list[Answer], dict[str, Any]]:
    """The answers to items, and the report of `evaluate` on them but for `seconds`.

    Args:
        model, tokenizer, items: as in `evaluate`.
        decoding: `batch_size`, `max_new_tokens` and `raw`, as in `evaluate`.
        more: `progress` and `record`, as in `answer_tokens`.
    """
    if not items:
        raise ValueError("There are no items to evaluate. Check the data file or the generator of the items.")
    for index, item in enumerate(items):
        for name in ("prompt", "target"):
            if not isinstance(item.get(name), str):
                raise ValueError(
                    f"Item {index}: `{name}` must be a string, got {item.get(name)!r}. Write it as a string, or leave "
                    "the item out."
                )
    prompts = [item["prompt"] for item in items]
    answers = _checked_answers(model, tokenizer, prompts, **decoding, **more)
    right = [is_right(answer, item) for item, answer in zip(items, answers, strict=True)]
    groups: dict[str, list[bool]] = {}
    for item, hit in zip(items, right, strict=True):
        if item.get("group") is not None:
            groups.setdefault(item["group"], []).append(hit)
    mistakes = [
        {"prompt": item["prompt"], "target": item["target"], "answer": answer.text}
        for item, answer, hit in zip(items, answers, right, strict=True)
        if not hit
    ]
    counts = Counter(step.status for answer in answers for step in answer.steps)
    return answers, {
        **_score(right),
        "groups": {group: _score(hits) for group, hits in groups.items()},
        "truncated": sum(answer.cut for answer in answers),
        "steps": {name: counts[name] for name in (status.name.lower() for status in Status) if counts[name]},
        "mistakes": mistakes[:20],
        "without_anchor": None if active_config(model) is None else sum(not answer.steps for answer in answers),
        "settings": dict(decoding),
        "versions": versions(),
    }


def _score(hits: Sequence[bool]) -> dict[str, Any]:
    return {"n": len(hits), "exact_match": sum(hits) / len(hits)}


def is_right(answer: Answer, item: Mapping[str, Any]) -> bool:
    """Whether an answer is the item's target. A cut answer may match by chance: `5791` cut to `579`."""
    return not answer.cut and answer.text.strip() == item["target"].strip()


def versions() -> dict[str, str]:
    """Versions of the packages that an evaluation depends on, and of Python."""
    found = {name: importlib.metadata.version(name) for name in ("transformers", "peft")}
    found["torch"] = str(torch.__version__)  # names the build, too: `+cu130`
    # Imported here: `peft_igc/__init__.py` imports this module.
    return found | {"peft_igc": importlib.import_module("peft_igc").__version__, "python": platform.python_version()}


def _checked_answers(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], batch_size: int, max_new_tokens: int, raw: bool, **more: Any
) -> list[Answer]:
    """`answer_tokens` of prompts, with `more` of its options; arguments and errors as in `generate_answers`."""
    for name, value in (("batch_size", batch_size), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise ValueError(f"`{name}={value}` must be at least 1.")
    if not hasattr(model, "generate"):
        raise TypeError(f"`model` is a `{type(model).__name__}`. Pass the model first, then its tokenizer.")
    tokens = prompt_tokens(tokenizer, prompts, raw)
    limit = longest_text(model)
    for index, row in enumerate(tokens):
        if len(row) + max_new_tokens > limit:
            raise ValueError(
                f"Prompt {index} has {len(row)} tokens; with `max_new_tokens={max_new_tokens}` that is more than the "
                f"model's {limit} positions. Shorten the prompt or lower `max_new_tokens`."
            )
    return answer_tokens(model, tokenizer, tokens, batch_size, max_new_tokens, **more)


def answer_tokens(
    model: Any,
    tokenizer: Any,
    tokens: Sequence[Sequence[int]],
    batch_size: int,
    max_new_tokens: int,
    progress: bool = False,
    *,
    record: bool = False,
    base: bool = False,
) -> list[Answer]:
    """Greedy answers to prompts as token ids, which must fit the model.

    With `record` they have their record; the other arguments are those of `generate_answers` and `trace`.

    Raises:
        ValueError: if the adapter was made for another tokenizer; with `record`, if no adapter is active.
    """
    config = active_config(model)
    if config is not None:
        check_tokenizer(config.token_table, tokenizer)
    settings = greedy(model, tokenizer, max_new_tokens, with_steps=True)
    ends = settings.eos_token_id or []
    answers: dict[int, Answer] = {}
    with eval_mode(model):
        for chosen in batches_of(tokens, batch_size, progress):
            batch = left_padded([tokens[index] for index in chosen], settings.pad_token_id, model.device)
            with igc_trace(model, tokenizer, base=base) if record else nullcontext() as recording:
                output = model.generate(**batch, generation_config=settings)
            steps = getattr(output, "igc_steps", None) or [()] * len(chosen)
            texts = [None] * len(chosen) if recording is None else recording.texts
            prompt = batch["input_ids"].shape[1]
            new = output.sequences[:, prompt:].tolist()
            for index, row, found, text in zip(chosen, new, steps, texts, strict=True):
                answers[index] = _answer(*decode_answer(tokenizer, row, ends), found, text, config is not None, prompt)
    return [answers[index] for index in range(len(tokens))]


def _answer(
    text: str, cut: bool, steps: Sequence[StepRecord], record: TextRecord | None, active: bool, prompt: int
) -> Answer:
    """An answer whose steps are those of its record, which know more, but not whether their results are spelled.

    The first one that it may spell is the last one of the `prompt`, which has this many columns; a result of an
    earlier turn is in the text, but not in the answer.
    """
    first = max((at for at, step in enumerate(steps) if step.position < prompt), default=0)
    text_of_numbers, made = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text), []
    for at, (step, told) in enumerate(zip(steps if record is None else record.steps, steps, strict=False)):
        written = told.written
        if written is None and step.result is not None:  # of the hidden interface
            number = rf"(?<![\w.-]){re.escape(step.result)}(?!\w|[.,]\d|%)"
            written = re.search(number, text_of_numbers) is not None
        made.append(dataclasses.replace(step, written=at >= first and bool(written)))
    return Answer(text, cut, tuple(made), record and dataclasses.replace(record, steps=tuple(made)), active)


def decode_answer(tokenizer: Any, tokens: Sequence[int], ends: Sequence[int]) -> tuple[str, bool]:
    """The text of an answer's tokens up to the first end token, and whether there is no end token."""
    length = next((index for index, token in enumerate(tokens) if token in ends), None)
    text = tokenizer.decode(tokens[:length], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text, length is None


def interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's interval of 95% for a share, of which `count` of `of` were observed."""
    share, weight = count / of, 1.96**2 / of
    middle, half = share + weight / 2, 1.96 * math.sqrt(share * (1 - share) / of + weight / (4 * of))
    low, high = ((middle + sign * half) / (1 + weight) for sign in (-1, 1))
    return (low if count else 0.0), (high if count < of else 1.0)


def duration(seconds: float) -> str:
    """Formats seconds for humans: `75` gives `1 min 15 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
