"""Evaluation by generation: greedy answers are compared with their targets as whole strings.

In: a model (plain or with adapters), its tokenizer, items `{"prompt", "target"}` with an optional `group`.
Out: answers (`generate_answers`), or a report of exact match overall and per group (`evaluate`). The model's own
`generate` runs in left-padded batches and receives only an item's prompt, so operand columns cannot leak into an
answer. There is no likelihood scoring and no sampling.

Shapes: B rows of a batch, P tokens of its longest prompt.
Try it: `pytest tests/inference/test_evaluation.py`
"""

import importlib
import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.call import observing
from ..tuner.hooks import active_config
from ..tuner.steps import Step, Writing
from .decoding import end_tokens, eval_mode, greedy, padding_token, prompt_tokens


__all__ = [
    "ProgressCallback",
    "answer_tokens",
    "decode_answer",
    "evaluate",
    "generate_answers",
    "longest_text",
    "versions",
]

ProgressCallback = Callable[[int, int], None]  # (prompts done, prompts in total)


def generate_answers(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: ProgressCallback | None = None,
) -> list[str]:
    """Greedy answers in the order of the prompts.

    Args:
        model: a `PreTrainedModel` or a `PeftModel`. It runs in eval mode and gets its earlier mode back.
        tokenizer: the model's tokenizer. Its padding settings are neither used nor changed.
        prompts: user messages, or plain texts with `raw`.
        batch_size: prompts per call of `generate`, at least 1. Prompts of similar length share a batch.
        max_new_tokens: maximum length of an answer, at least 1. Longer answers are cut (`evaluate` counts them).
        raw: tokenize prompts without the chat template, but with the special tokens that the tokenizer adds.
        progress: called after each batch with the number of prompts done and the total.

    Raises:
        ValueError: if there is no chat template, if it fails on a single user message, if a prompt has no tokens or
            does not fit the model's positions, or if `batch_size` or `max_new_tokens` is below 1.
        TypeError: if `prompts` is a single string.
    """
    return [answer for answer, *_ in _answer(model, tokenizer, prompts, batch_size, max_new_tokens, raw, progress)]


def evaluate(
    model: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Exact match of generated answers, ignoring white space at both ends. A cut answer counts as wrong.

    Args:
        model, tokenizer, batch_size, max_new_tokens, raw, progress: as in `generate_answers`.
        items: each with the strings `prompt` and `target`, and optionally `group`.

    Returns:
        A dictionary that can be written as JSON:

        * `n`, `exact_match` (0..1): number of items, and the fraction answered correctly;
        * `groups`: the same by group; items without a group count only in the total;
        * `truncated`: number of answers cut at `max_new_tokens`;
        * `without_anchor`: number of prompts without an anchor, in whose answers the calculator had no part; None
          without an active adapter;
        * `mistakes`: prompt, target and answer of the first 20 wrong answers;
        * `seconds`, `settings`, `versions`.

    Raises:
        ValueError: if there are no items, if an item lacks one of the two strings, and as in `generate_answers`.
    """
    _check_items(items)
    start = time.perf_counter()
    prompts = [item["prompt"] for item in items]
    answers = _answer(model, tokenizer, prompts, batch_size, max_new_tokens, raw, progress)
    seconds = time.perf_counter() - start
    right = [  # a cut answer may match by chance: `5791` cut to `579`
        not cut and answer.strip() == item["target"].strip()
        for item, (answer, cut, _) in zip(items, answers, strict=True)
    ]
    groups: dict[str, list[bool]] = {}
    for item, hit in zip(items, right, strict=True):
        if item.get("group") is not None:
            groups.setdefault(item["group"], []).append(hit)
    mistakes = [
        {"prompt": item["prompt"], "target": item["target"], "answer": answer}
        for item, (answer, *_), hit in zip(items, answers, right, strict=True)
        if not hit
    ]
    return {
        **_score(right),
        "groups": {group: _score(hits) for group, hits in groups.items()},
        "truncated": sum(cut for _, cut, _ in answers),
        "without_anchor": sum(not anchored for *_, anchored in answers) if active_config(model) is not None else None,
        "mistakes": mistakes[:20],
        "seconds": round(seconds, 3),
        "settings": {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "raw": raw},
        "versions": versions(),
    }


def _check_items(items: Sequence[Mapping[str, Any]]) -> None:
    """Validates the items before any answer is generated."""
    if not items:
        raise ValueError("There are no items to evaluate. Check the data file or the generator of the items.")
    for index, item in enumerate(items):
        for name in ("prompt", "target"):
            if not isinstance(item.get(name), str):
                raise ValueError(f"Item {index}: `{name}` must be a string, got {item.get(name)!r}.")


def _score(right: Sequence[bool]) -> dict[str, Any]:
    """Number of items and the fraction of them answered correctly."""
    return {"n": len(right), "exact_match": sum(right) / len(right)}


def versions() -> dict[str, str]:
    """Versions of the packages that an evaluation depends on, and of Python."""
    found = {name: importlib.metadata.version(name) for name in ("transformers", "peft")}
    found["torch"] = str(torch.__version__)  # names the build, too: `+cu130`
    # Imported here: `peft_igc/__init__.py` imports this module.
    return found | {"peft_igc": importlib.import_module("peft_igc").__version__, "python": platform.python_version()}


def _answer(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    batch_size: int,
    max_new_tokens: int,
    raw: bool,
    progress: ProgressCallback | None,
) -> list[tuple[str, bool, bool]]:
    """Checks the arguments and answers the prompts; returns as `answer_tokens`."""
    for name, value in (("batch_size", batch_size), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise ValueError(f"`{name}={value}` must be at least 1.")
    tokens = prompt_tokens(tokenizer, prompts, raw)
    limit = longest_text(model)
    for index, row in enumerate(tokens):
        if limit is not None and len(row) + max_new_tokens > limit:
            raise ValueError(
                f"Prompt {index} has {len(row)} tokens; with `max_new_tokens={max_new_tokens}` that is more than the "
                f"model's {limit} positions. Shorten the prompt or lower `max_new_tokens`."
            )
    return answer_tokens(model, tokenizer, tokens, batch_size, max_new_tokens, progress)


def longest_text(model: Any) -> int | None:
    """Number of positions of the model, or None without a limit.

    Beyond it, learned position embeddings raise an error and rotary ones become inaccurate.
    """
    limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return limit


def answer_tokens(
    model: Any,
    tokenizer: Any,
    tokens: Sequence[Sequence[int]],
    batch_size: int,
    max_new_tokens: int,
    progress: ProgressCallback | None = None,
) -> list[tuple[str, bool, bool]]:
    """Greedy answers to tokenized prompts, which must fit the model.

    Args:
        tokens: token ids of each prompt.
        model, tokenizer, batch_size, max_new_tokens, progress: as in `generate_answers`.

    Returns:
        For each prompt: the answer, whether it was cut at `max_new_tokens`, and whether the text had an anchor.

    Raises:
        ValueError: if the adapter was made for another tokenizer.
    """
    config = active_config(model)
    if config is not None:
        check_tokenizer(config.token_table, tokenizer)
    # Similar lengths share a batch, which saves padding. Longest first: if memory runs out, it does so at once.
    order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
    answers: dict[int, tuple[str, bool, bool]] = {}
    with eval_mode(model):
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = _answer_batch(model, tokenizer, [tokens[index] for index in chosen], max_new_tokens)
            answers.update(zip(chosen, batch, strict=True))
            if progress is not None:
                progress(len(answers), len(tokens))
    return [answers[index] for index in range(len(tokens))]


def _answer_batch(
    model: Any, tokenizer: Any, rows: Sequence[Sequence[int]], max_new_tokens: int
) -> list[tuple[str, bool, bool]]:
    """Generates the answers of one batch; returns as `answer_tokens`."""
    padding = padding_token(model, tokenizer)
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), padding)  # [B, P]
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, longest - len(row) :] = torch.tensor(row)
        mask[index, longest - len(row) :] = 1
    anchored = torch.zeros(len(rows), dtype=torch.bool)

    def watch(seen: Step | Writing) -> None:
        if isinstance(seen, Step):
            anchored.logical_or_((seen.anchors >= 0).any(1).cpu())

    with observing(watch):
        output = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            generation_config=greedy(model, tokenizer, max_new_tokens),
        )
    ends = end_tokens(model, tokenizer)
    made = [decode_answer(tokenizer, row.tolist(), ends) for row in output[:, longest:].cpu()]
    return [(text, cut, found) for (text, cut), found in zip(made, anchored.tolist(), strict=True)]


def decode_answer(tokenizer: Any, tokens: Sequence[int], ends: Sequence[int]) -> tuple[str, bool]:
    """The text of an answer's tokens up to the first end token, and whether there is no end token."""
    length = next((index for index, token in enumerate(tokens) if token in ends), None)
    text = tokenizer.decode(tokens[:length], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text, length is None
