"""Texts that people wrote, from the folder that `PEFT_IGC_DATA` names: rows to train on and sets to measure.

In: `gsm8k_train.jsonl` (questions and annotated solutions), `word_problems/mawps.jsonl` (questions and expressions),
`prompts/roleplay_prompts.jsonl` and `prompts/assistant_prompts.jsonl`. Out: conversational rows with operand columns,
and items `{"prompt", "target", "group"}`; a target of None asks for silence. Trained on are role-play prompts and
GSM8K's first questions, nearly all of them refusals: several steps, or no question. Held out by collection are MAWPS
and the assistant prompts; of GSM8K the last questions, of which one half is for calibration. Nothing is downloaded.
Try it: `pytest tests/demo/test_real_text.py`
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..data.columns import label
from ..data.files import read_rows
from ..numbers.calculator import NO_ARITHMETIC
from ..text.values import Limits


__all__ = [
    "MAWPS",
    "NUMBER",
    "VARIABLE",
    "calibration_items",
    "data_folder",
    "has_several_steps",
    "measured_items",
    "refusal",
    "single_step",
    "training_refusals",
]

VARIABLE = "PEFT_IGC_DATA"
TRAINED_QUESTIONS = 6000  # the first ones of GSM8K; half of the others calibrate, and half are measured
REFUSED = "I will work that out step by step."  # trains nothing: nothing is written in these rows

GSM8K, MAWPS = "gsm8k_train.jsonl", "word_problems/mawps.jsonl"
ROLEPLAY, ASSISTANT = "prompts/roleplay_prompts.jsonl", "prompts/assistant_prompts.jsonl"

NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_ANNOTATION = re.compile(r"<<([^<>=]*)=[^<>]*>>")
_STEP = re.compile(r"([0-9]+) ?([-+*/]) ?([0-9]+)")
_OPERATOR = re.compile(r" [-+*/] ")


def data_folder() -> Path | None:
    """The folder that `PEFT_IGC_DATA` names, or None.

    Raises:
        FileNotFoundError: it does not exist.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"`{VARIABLE}={name}` is not a folder. Name the folder of the texts, or unset it.")
    return folder


def training_refusals(folder: Path | None) -> list[dict[str, Any]]:
    """Rows of people's texts, nearly all of which must not be answered by the calculator.

    GSM8K's trained questions: those of several steps, of which two numbers are the hardest and come twice; the same
    stories without their question; and those of a single step on the two numbers of the text, which are calculations.

    Args:
        folder: of the texts; None: no rows.
    """
    if folder is None:
        return []
    rows = []
    for at, item in enumerate(_of(folder, GSM8K)[:TRAINED_QUESTIONS]):
        steps, numbers = _ANNOTATION.findall(item["answer"]), NUMBER.findall(item["question"])
        if len(steps) == 1:
            rows += single_step(item["question"], steps[0], numbers)
        elif len(steps) > 1 and (len(numbers) == 2 or at % 3 == 0):
            rows += [refusal(item["question"])] * (1 + (len(numbers) == 2))
        if at % 12 == 1:
            rows += [refusal(text) for text in _without_question(item["question"])]
    rows += [refusal(item["prompt"]) for item in _of(folder, ROLEPLAY)[::4]]
    return rows


def calibration_items(folder: Path | None) -> list[dict[str, Any]]:
    """GSM8K's questions of several steps that calibrate: never trained, and not measured."""
    return [] if folder is None else _several_steps(folder, TRAINED_QUESTIONS, 0)


def measured_items(folder: Path | None) -> dict[str, list[dict[str, Any]] | None]:
    """The sets that are measured, by name; None for each without the folder.

    Returns:
        word_problems: MAWPS questions with one step, whose target is an integer, or None if a number has decimals.
        several_steps_mawps, several_steps_gsm8k: questions with two steps and more.
        assistant_prompts: prompts without a calculation.
    """
    names = ("word_problems", "several_steps_mawps", "several_steps_gsm8k", "assistant_prompts")
    if folder is None:
        return dict.fromkeys(names)
    one, several = [], []
    for item in _of(folder, MAWPS):
        if has_several_steps(item):
            several.append({"prompt": item["question"], "target": None})
        else:
            value = Fraction(item["answer"])
            one.append({"prompt": item["question"], "target": str(value) if value.denominator == 1 else None})
    prompts = [item["prompt"] for item in _of(folder, ASSISTANT) if not item["asks_for_a_calculation"]]
    silent = [{"prompt": prompt, "target": None} for prompt in prompts]
    return dict(zip(names, (one, several, _several_steps(folder, TRAINED_QUESTIONS, 1), silent), strict=True))


def has_several_steps(item: Mapping[str, Any]) -> bool:
    """Whether the expression of a MAWPS question has two operations or more."""
    return len(_OPERATOR.findall(item["expression"])) > 1


def _of(folder: Path, name: str) -> list[dict[str, Any]]:
    """The objects of one file of the folder."""
    return read_rows(folder / name, wanted="with a text")


def _several_steps(folder: Path, start: int, half: int) -> list[dict[str, Any]]:
    """Every second held-out question of GSM8K, if its solution has two annotations or more."""
    items = _of(folder, GSM8K)[start + half :: 2]
    return [
        {"prompt": item["question"], "target": None} for item in items if len(_ANNOTATION.findall(item["answer"])) > 1
    ]


def single_step(question: str, annotation: str, numbers: Iterable[str]) -> list[dict[str, Any]]:
    """A row for a question whose two numbers are the operands of its only annotation; else none."""
    found = _STEP.fullmatch(annotation.strip())
    operands = [] if found is None else [found[1], found[3]]
    if found is None or sorted(operands) != sorted(number.replace(",", "") for number in numbers):
        return []
    result = label(found[2], operands, Limits())
    if not isinstance(result, str):
        return []
    columns = {"igc_operator": found[2], "igc_operands": operands, "igc_result": result}
    return [{**_chat(question, result), **columns}]


def _without_question(question: str) -> list[str]:
    """The story without its last sentence, if there are others."""
    sentences = re.split(r"(?<=[.!?]) ", question)
    return [" ".join(sentences[:-1])] if len(sentences) > 1 else []


def refusal(prompt: str) -> dict[str, Any]:
    """A row that asks for no calculation."""
    columns = {"igc_operator": NO_ARITHMETIC, "igc_operands": None, "igc_result": None}
    return {**_chat(prompt, REFUSED), **columns}


def _chat(prompt: str, answer: str) -> dict[str, Any]:
    """Prompt and completion as messages."""
    return {"prompt": [{"role": "user", "content": prompt}], "completion": [{"role": "assistant", "content": answer}]}
