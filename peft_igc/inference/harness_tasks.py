"""Tasks for lm-evaluation-harness: the rows that the YAML files in `assets/lm_eval` read.

    FOLDER=$(python -c "import peft_igc; print(peft_igc.__path__[0])")/assets/lm_eval
    lm_eval --model igc --model_args pretrained=tiny,peft=tiny --include_path $FOLDER --apply_chat_template \
        --tasks arithmetic_generated
    lm_eval ... --tasks arithmetic_file --metadata '{"data": "items.jsonl"}'

In: the harness's `metadata`, which also holds the arguments of the model. Out: `{"test": dataset}` with the columns
`prompt`, `target`, `group` and `ending` (the target and the end token, for likelihoods). `arithmetic_generated` are
items of our generator in the form of BIG-bench; `arithmetic_file` reads items of `peft-igc eval`. `_likelihood` after
the name asks whether target and end token are the most probable ones, as exact match of a generated answer does; no
text has to be generated for it.
Try it: `pytest tests/inference/test_harness.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.bigbench import bigbench_test_set
from ..data.files import read_items
from .loading import find_base


__all__ = ["FOLDER", "from_file", "generated", "match"]

FOLDER = Path(__file__).parents[1] / "assets" / "lm_eval"


def generated(per_group: int = 10, seed: int = 0, **metadata: Any) -> dict[str, Any]:
    """Items of the generator, `per_group` for each of the twenty operations and lengths."""
    return _rows(bigbench_test_set(per_group, seed), metadata)


def from_file(data: str | None = None, **metadata: Any) -> dict[str, Any]:
    """Items of `peft-igc eval`, from the file `data`."""
    if not data:
        raise ValueError('The task has no file to read. Pass its path: `--metadata \'{"data": "items.jsonl"}\'`.')
    return _rows(read_items(Path(data).expanduser()), metadata)


def _rows(items: list[dict[str, Any]], metadata: dict[str, Any]) -> dict[str, Any]:
    """The dataset of these items."""
    from datasets import Dataset

    end = metadata.get("end")
    end = _end_token(metadata) if end is None else end
    columns = ("prompt", "target", "group")
    rows = [{name: str(item.get(name) or "") for name in columns} for item in items]
    return {"test": Dataset.from_list([row | {"ending": row["target"] + end} for row in rows])}


def _end_token(metadata: dict[str, Any]) -> str:
    """The text of the end token of the model that `metadata` names; empty without a name."""
    from transformers import AutoTokenizer

    name = metadata.get("tokenizer") or metadata.get("pretrained")
    if not isinstance(name, str):
        return ""
    return AutoTokenizer.from_pretrained(find_base(name)).eos_token or ""


def match(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Exact match of a generated answer, as in `peft-igc eval`: white space at both ends does not count."""
    return {"exact_match": float(results[0].strip() == doc["target"].strip())}
