"""Evaluation by generation: greedy answers, compared whole with their targets.

In: a model (plain or with adapters), its tokenizer, items `{"prompt", "target"}` with an optional `group`.
Out: answers (`generate_answers`), a report of exact match overall and per group (`evaluate`), and a table of reports
side by side (`accuracy_table`). The model's own `generate` does the work, in left-padded batches; the model sees an
item's prompt and nothing else, so no operand column can leak. No likelihood scoring, no sampling.
Try it: `pytest tests/test_evaluation.py`.

Shapes: B rows, T positions of the longest prompt of a batch, N new tokens.
"""

import importlib
import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import state
from .adapters import check_tokenizer
from .decoding import end_tokens, eval_mode, greedy, padding_token, prompt_tokens
from .hooks import active_config
from .steps import Step, Writing


__all__ = [
    "Progress",
    "accuracy_table",
    "answer_tokens",
    "decode_answer",
    "evaluate",
    "generate_answers",
    "longest_text",
    "versions",
]

Progress = Callable[[int, int], None]  # (prompts done, prompts in all)


def generate_answers(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    batch_size: int = 64,
    max_new_tokens: int = 24,
    raw: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Greedy answers in the order of the prompts.

    Args:
        model: A `PreTrainedModel` or a `PeftModel`. It is put into eval mode and back into the mode it was in.
        tokenizer: Its tokenizer. Left padding is done here, so the tokenizer's own settings stay as they are.
        prompts: User messages, or with `raw` texts.
        batch_size: Prompts per call of `generate`; prompts of similar length share a batch.
        max_new_tokens: The longest answer; longer ones are cut (`evaluate` counts them).
        raw: Tokenize the prompt as it stands (with the special tokens that the tokenizer adds) instead of putting it
            through the chat template.
        progress: Called after each batch with the numbers of prompts done and in all.

    Raises:
        ValueError: No chat template, or one that fails on a single user message; a prompt without tokens, or one
            too long for the model's positions; `batch_size` or `max_new_tokens` below 1.
        TypeError: A single string as `prompts`.
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
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Exact match of generated answers, after stripping white space at both ends; one that is cut is never right.

    Args:
        items: Each with the strings `prompt` and `target`, and optionally `group`.
        model, tokenizer, batch_size, max_new_tokens, raw, progress: As in `generate_answers`.

    Returns:
        `n`, `exact_match` (0..1), `groups` (`{group: {"n", "exact_match"}}`, items without a group count only in the
        total), `truncated` (answers cut at `max_new_tokens`), `without_anchor` (prompts at which an active calculator
        found no anchor, so that it had no part in the answer; None without one), `mistakes` (the first 20),
        `seconds`, `settings`, `versions`. All of it can be written as JSON.

    Raises:
        ValueError: No items, an item without the two strings; and as in `generate_answers`.
    """
    _check_items(items)
    start = time.perf_counter()
    prompts = [item["prompt"] for item in items]
    answers = _answer(model, tokenizer, prompts, batch_size, max_new_tokens, raw, progress)
    seconds = time.perf_counter() - start
    right = [  # `579` cut from `5791` is no match for `579`
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
    """Refuses items that cannot be compared, before any answer is generated."""
    if not items:
        raise ValueError("There are no items to evaluate. Check the data file or the generator they come from.")
    for index, item in enumerate(items):
        for name in ("prompt", "target"):
            if not isinstance(item.get(name), str):
                raise ValueError(f"Item {index}: `{name}` must be a string, got {item.get(name)!r}.")


def _score(right: Sequence[bool]) -> dict[str, Any]:
    """Number of items and the part of them that is right."""
    return {"n": len(right), "exact_match": sum(right) / len(right)}


def versions() -> dict[str, str]:
    """Versions of what an evaluation depends on."""
    found = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "peft")}
    return found | {"peft_igc": importlib.import_module("peft_igc").__version__, "python": platform.python_version()}


def _answer(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    batch_size: int,
    max_new_tokens: int,
    raw: bool,
    progress: Progress | None,
) -> list[tuple[str, bool, bool]]:
    """(answer, whether it was cut at `max_new_tokens`, whether a calculator found an anchor) for each prompt."""
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
    """The number of the model's positions, if it has a limit: past it, learned ones crash and rotary ones drift."""
    limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return limit


def answer_tokens(
    model: Any,
    tokenizer: Any,
    tokens: Sequence[Sequence[int]],
    batch_size: int,
    max_new_tokens: int,
    progress: Progress | None = None,
) -> list[tuple[str, bool, bool]]:
    """As `generate_answers`, for prompts that are tokens already and fit the model.

    Returns:
        For each prompt the answer, whether it was cut at `max_new_tokens`, and whether a calculator found an anchor.

    Raises:
        ValueError: The tokenizer is not the adapter's.
    """
    config = active_config(model)
    if config is not None:
        check_tokenizer(config, tokenizer)
    # The longest first: if the memory does not suffice, that shows at once.
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
    """Generates one batch."""
    padding = padding_token(model, tokenizer)
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), padding)  # [B, T]
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, longest - len(row) :] = torch.tensor(row)
        mask[index, longest - len(row) :] = 1
    anchored = torch.zeros(len(rows), dtype=torch.bool)

    def watch(seen: Step | Writing) -> None:
        if isinstance(seen, Step):
            anchored.logical_or_((seen.anchors >= 0).any(1).cpu())

    state.thread.observers.append(watch)
    try:
        output = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            generation_config=greedy(model, tokenizer, max_new_tokens),
        )
    finally:
        state.thread.observers.remove(watch)
    ends = end_tokens(model, tokenizer)
    made = [decode_answer(tokenizer, row.tolist(), ends) for row in output[:, longest:].cpu()]  # [B, N]
    return [(text, cut, found) for (text, cut), found in zip(made, anchored.tolist(), strict=True)]


def decode_answer(tokenizer: Any, tokens: Sequence[int], ends: Sequence[int]) -> tuple[str, bool]:
    """The text of an answer's N tokens up to the first end token, and whether there was none."""
    length = next((index for index, token in enumerate(tokens) if token in ends), None)
    text = tokenizer.decode(tokens[:length], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text, length is None


_OPERATIONS = ("addition", "subtraction", "multiplication", "division")


def accuracy_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Reports of `evaluate` side by side: operations down, number of digits across, per cent right.

    Args:
        results: For each column block a title and a report with BIG-bench groups, for instance
            `{"base": report, "igc": report}`. Other groups count in no cell.

    Returns:
        Lines of text. `all` weighs groups by their number of items; `-` stands where there are none. Figures are
        rounded down, so that 100.0 means that every answer was right.
    """
    cells = {title: _cells(report["groups"]) for title, report in results.items()}
    digits = sorted({d for counts in cells.values() for _, d in counts if d is not None}, key=int)
    names = [name for name in _OPERATIONS if any((name, None) in counts for counts in cells.values())]
    width, first = 7, max(map(len, _OPERATIONS))
    block = width * (len(digits) + 1)
    lines = [" " * first + "".join(f"   {title:^{block}}" for title in cells)]
    header = "".join(f"{title:>{width}}" for title in (*digits, "all"))
    lines.append(f"{'digits':<{first}}" + f"   {header}" * len(cells))
    for name in (*names, None):
        row = f"{name or 'all':<{first}}"
        for counts in cells.values():
            row += "   " + "".join(f"{_percent(counts.get((name, d))):>{width}}" for d in (*digits, None))
        lines.append(row)
    return "\n".join(line.rstrip() for line in lines)


def _cells(groups: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str | None, str | None], tuple[int, int]]:
    """(right, n) by (operation, digits), where None means all."""
    counts: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    for group, score in groups.items():
        digits, _, name = group.partition("_digit_")
        if name not in _OPERATIONS or not digits.isdecimal():
            continue
        for key in ((name, digits), (name, None), (None, digits), (None, None)):
            right, n = counts.get(key, (0, 0))
            counts[key] = (right + round(score["exact_match"] * score["n"]), n + score["n"])
    return counts


def _percent(count: tuple[int, int] | None) -> str:
    """Per cent right, with one decimal, rounded down."""
    return "-" if count is None else f"{count[0] * 1000 // count[1] / 10:.1f}"
