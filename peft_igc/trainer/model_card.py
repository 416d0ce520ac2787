"""Two sections of a model card: how to load an IGC adapter, and a record of its training and evaluation.

In: the path of a `README.md` written by TRL or PEFT. Out: the same file with our quick start, followed by a training
record. The quick start imports `peft_igc` first, because loading the adapter otherwise raises `KeyError: 'IGC'`. The
metadata and all other sections of the card are kept.
Try it: `pytest tests/trainer/test_trainer.py -k card`
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..data.columns import COLUMNS


HEADING = "## Quick start"
RECORD = "## Training record"

# Ends of the names of logged values that describe the machine and the run instead of the adapter.
_NOT_METRICS = ("_runtime", "_per_second", "_num_tokens", "_preparation_time", "_jit_compilation_time")

_QUICK_START = (
    HEADING
    + """

The adapter is an Integrated Gated Calculator: `pip install peft-igc`, and `import peft_igc` before it is loaded. That
package is licensed under Apache-2.0; the licence of these weights is chosen by those who trained them.

```python
import peft_igc  # registers the method with PEFT; without it loading raises `KeyError: 'IGC'`
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


def write_sections(card: Path, base: str | None, adapter: str | None, record: str) -> None:
    """Writes our quick start and a training record after it into a card, in place of existing ones.

    Args:
        card: The path of the `README.md`.
        base: Name of the base model. The path of a local folder is not written.
        adapter: Hub id or path of the adapter. None: a quick start of ours is kept, with its name of the adapter.
        record: The section returned by `training_record`.
    """
    text = card.read_text(encoding="utf-8")
    if adapter is not None or "import peft_igc" not in text:
        name = "BASE_MODEL" if not base or os.path.isdir(base) else base
        ours = _QUICK_START.format(base=name, adapter=adapter or "PATH_OF_THIS_FOLDER")
        text = _put(text, HEADING, ours)
    if RECORD not in text:  # an empty section, which is then replaced
        start, heading, rest = text.partition(HEADING)
        body, next_heading, after = rest.partition("\n## ")
        text = f"{start}{heading}{body.rstrip()}\n\n{RECORD}\n" + (f"\n## {after}" if next_heading else "")
    card.write_text(_put(text, RECORD, record), encoding="utf-8")


def _put(text: str, heading: str, section: str) -> str:
    """Replaces the section of `text` with this heading, or adds it at the end.

    `section` includes the heading and a blank line at the end.
    """
    before, found, after = text.partition(heading)
    _, next_heading, rest = after.partition("\n## ")
    return before + section + "## " + rest if found and next_heading else before.rstrip() + "\n\n" + section


def training_record(
    history: Iterable[Mapping[str, Any]], steps: int, kept_step: int | None, sets: Mapping[str, Any]
) -> str:
    """The section with the training data, the number of steps and the metrics of the evaluation.

    Args:
        history: The trainer's log.
        steps: Number of training steps done.
        kept_step: The step whose weights were loaded at the end as the best ones. None: those of the last step.
        sets: Datasets by purpose, `training` first. A dataset without a length is a stream.
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
    """The number of rows with at least one supervised step, or None for a stream.

    Args:
        dataset: A dataset with a length and `column_names`, or any other source of rows.
    """
    names = getattr(dataset, "column_names", None)
    if names is None or not hasattr(dataset, "__len__"):
        return None
    if COLUMNS[0] not in names:
        return 0
    entries = (entry if isinstance(entry, list) else [entry] for entry in dataset[COLUMNS[0]])
    return sum(any(operator is not None for operator in entry) for entry in entries)


def _size(dataset: Any) -> str:
    """The number of rows, as far as it is known, and of those with operands."""
    if (annotated := annotated_rows(dataset)) is not None:
        return f"{len(dataset):,} rows, {annotated:,} annotated"
    names = getattr(dataset, "column_names", None)
    columns = "" if names is None else f" with{'' if set(names) & set(COLUMNS) else 'out'} operand columns"
    return (f"{len(dataset):,} rows" if hasattr(dataset, "__len__") else "a stream of rows") + columns


def _last_evaluation(history: Iterable[Mapping[str, Any]], kept_step: int | None) -> tuple[int, dict[str, float]]:
    """The step of the evaluation of the kept weights, and its metrics on all eval sets."""
    found: dict[int, dict[str, float]] = {}
    for entry in history:
        for name, value in entry.items():
            if name.startswith("eval_") and not name.endswith(_NOT_METRICS) and isinstance(value, (int, float)):
                found.setdefault(int(entry["step"]), {})[name] = value
    # The card describes the weights that are saved: the best ones if they were loaded, else the last ones.
    step = max(found, default=0) if kept_step is None else kept_step
    return step, found.get(step, {})
