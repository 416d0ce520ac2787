"""Two sections of a model card: how to load an IGC adapter, and what it was trained on and measured to do.

In: the path of a `README.md` that TRL or PEFT has written. Out: the same file, whose quick start imports `peft_igc`
first (without that, loading the adapter ends in `KeyError: 'IGC'`) and is followed by a training record. Metadata and
the rest of the card stay.
Try it: `pytest tests/test_trainer.py -k card`
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .columns import COLUMNS


HEADING = "## Quick start"
RECORD = "## Training record"
LICENSE = "Apache-2.0"  # of the package, as `pyproject.toml` has it

# Ends of names that tell of the machine and the run, not of the adapter.
_NOT_METRICS = ("_runtime", "_per_second", "_num_tokens", "_preparation_time", "_jit_compilation_time")

_QUICK_START = (
    HEADING
    + """

The adapter is an Integrated Gated Calculator: `pip install peft-igc`, and `import peft_igc` before it is loaded. That
package is licensed under {license}; the licence of these weights is for those who trained them to name.

```python
import peft_igc  # makes the method known to PEFT; without it loading ends in `KeyError: 'IGC'`
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{base}")
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("{base}"), "{adapter}")
chat = [{{"role": "user", "content": "What is 58 times 36?"}}]
inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
answer = model.generate(**inputs, max_new_tokens=24)[0, inputs["input_ids"].shape[1] :]
print(tokenizer.decode(answer, skip_special_tokens=True))
```

"""
)


def write_quick_start(card: Path, base: str | None, adapter: str) -> None:
    """Puts our quick start into a card: in the place of the one that is there, or at the end.

    Args:
        card: path of the `README.md`.
        base: name of the base model; a local folder is not named.
        adapter: hub id or path of the adapter.
    """
    name = "BASE_MODEL" if not base or os.path.isdir(base) else base
    ours = _QUICK_START.format(base=name, adapter=adapter, license=LICENSE)
    text = card.read_text(encoding="utf-8")
    card.write_text(_put(text, HEADING, ours), encoding="utf-8")


def write_record(card: Path, record: str) -> None:
    """Puts a record of `training_record` into a card that has a quick start, behind it or in an older one's place."""
    text = card.read_text(encoding="utf-8")
    if RECORD not in text:
        start, heading, rest = text.partition(HEADING)
        body, next_heading, after = rest.partition("\n## ")
        text = f"{start}{heading}{body.rstrip()}\n\n{RECORD}\n" + (f"\n## {after}" if next_heading else "")
    card.write_text(_put(text, RECORD, record), encoding="utf-8")


def _put(text: str, heading: str, section: str) -> str:
    """`text` with `section` (heading and blank line at the end included) in the place of the one it has, or added."""
    before, found, after = text.partition(heading)
    _, next_heading, rest = after.partition("\n## ")
    return before + section + "## " + rest if found and next_heading else before.rstrip() + "\n\n" + section


def training_record(
    history: Iterable[Mapping[str, Any]], steps: int, kept_step: int | None, sets: Mapping[str, Any]
) -> str:
    """The section that says what the adapter was trained on, and what its last evaluation found.

    Args:
        history: The trainer's log.
        steps: The number of training steps done.
        kept_step: The step whose weights were loaded at the end as the best; None: the last one's.
        sets: Datasets by purpose, `training` first. One without a length is a stream.
    """
    lines = [f"Trained for {steps:,} steps."]
    if kept_step is not None and kept_step != steps:
        lines[0] += f" The weights are those of step {kept_step:,}, the best evaluated."
    for purpose, dataset in sets.items():
        lines.append(f"Data for {purpose}: {_size(dataset)}.")
    step, metrics = _last_evaluation(history, kept_step)
    if metrics:
        rows = [f"| `{name}` | {value:.6g} |" for name, value in metrics.items()]
        table = "\n".join(["| metric | value |", "|---|---|", *rows])
        lines.append(f"Evaluated after step {step:,}:\n\n{table}")
    else:
        lines.append("It has not been evaluated.")
    return f"{RECORD}\n\n" + "\n\n".join(lines) + "\n\n"


def annotated_rows(dataset: Any) -> int | None:
    """Number of rows of which at least one calculation, or that there is none, is known; None: that cannot be told.

    Args:
        dataset: A dataset with a length and `column_names`, or anything else, such as a stream.
    """
    names = getattr(dataset, "column_names", None)
    if names is None or not hasattr(dataset, "__len__"):
        return None
    if COLUMNS[0] not in names:
        return 0
    entries = (entry if isinstance(entry, list) else [entry] for entry in dataset[COLUMNS[0]])
    return sum(any(operator is not None for operator in entry) for entry in entries)


def _size(dataset: Any) -> str:
    """What is known of the number of rows and of their operands."""
    if (annotated := annotated_rows(dataset)) is not None:
        return f"{len(dataset):,} rows, {annotated:,} annotated"
    names = getattr(dataset, "column_names", None)
    columns = "" if names is None else f" with{'' if set(names) & set(COLUMNS) else 'out'} operand columns"
    return (f"{len(dataset):,} rows" if hasattr(dataset, "__len__") else "a stream of rows") + columns


def _last_evaluation(history: Iterable[Mapping[str, Any]], kept_step: int | None) -> tuple[int, dict[str, float]]:
    """The step of the evaluation that counts and its metrics, of all eval sets."""
    found: dict[int, dict[str, float]] = {}
    for entry in history:
        for name, value in entry.items():
            if name.startswith("eval_") and not name.endswith(_NOT_METRICS) and isinstance(value, (int, float)):
                found.setdefault(int(entry["step"]), {})[name] = value
    step = max(found, default=0) if kept_step is None else kept_step
    return step, found.get(step, {})
