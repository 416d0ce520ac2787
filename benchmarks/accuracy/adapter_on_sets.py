"""What a saved adapter answers of the real model's sets: a LoRA of equal size, or a calculator on texts written since.

The sets are those of `benchmarks.accuracy.real_model`: BIG-bench's form, plain requests, held-out phrasings, stories
made to mislead, and what people wrote, if `PEFT_IGC_DATA` names the texts. A LoRA has no reading: it is measured on
sets of whole answers, and what is `silent` there is another answer. It is the baseline of a calculator if it is that
of `recipes/smollm2_135m_lora.yaml`, with as many weights, rows of the same generator and as many whole steps.

    peft-igc sft --config recipes/smollm2_135m_lora.yaml
    python -m benchmarks.accuracy.adapter_on_sets --base .cache/smollm2/base --adapters build/smollm2-lora \
        --sets bigbench plain_requests --output benchmarks/results/smollm2_lora.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from peft.utils import CONFIG_NAME

from benchmarks.accuracy.real_model import SHA256, plain_requests
from benchmarks.common.measuring import facts
from peft_igc.demo.real_text import data_folder, measured_items
from peft_igc.demo.settings import LANGUAGE_MODEL
from peft_igc.demo.text_sets import ANSWERED, answered, generated_sets, read
from peft_igc.inference.loading import TINY, load_adapter, load_base
from peft_igc.trainer.precision import in_bf16


def is_calculator(adapter: Path) -> bool:
    """Whether an adapter's folder is one of IGC."""
    if str(adapter) == TINY:
        return True
    return bool(json.loads((adapter / CONFIG_NAME).read_text(encoding="utf-8"))["peft_type"] == "IGC")


def all_sets() -> dict[str, Any]:
    """The sets by name; None for those that need a folder of texts that is not named."""
    settings = LANGUAGE_MODEL
    sets: dict[str, Any] = {**generated_sets(settings.per_group, settings.per_set, 0, settings.reading)}
    sets |= {name: plain_requests(name) for name in SHA256}
    for name, items in measured_items(data_folder()).items():
        sets[name] = items and [one for one in items if len(one["prompt"]) <= settings.most_of_text]
    return sets


def measured(base: Path, adapter: Path, names: list[str]) -> dict[str, Any]:
    """The reports of the sets of these names, by name.

    Args:
        base: folder of the base model.
        adapter: folder of the adapter.
        names: of sets.

    Raises:
        ValueError: there is no set of a name.
    """
    settings = LANGUAGE_MODEL
    sets = all_sets()
    if unknown := [name for name in names if sets.get(name) is None]:
        known = sorted(name for name, items in sets.items() if items is not None)
        raise ValueError(f"There are no sets {unknown}. The sets are {known}; more with `PEFT_IGC_DATA`.")
    beside = [name for name in names if name not in ANSWERED]
    if beside and not is_calculator(adapter):
        raise ValueError(f"`{adapter}` has no calculator, whose reading {beside} need. Leave these sets out.")
    model, tokenizer = load_base(base, "bfloat16" if in_bf16("cpu") else "float32")
    model = load_adapter(model, adapter)
    sizes = {"batch_size": settings.batch_size_of_test}
    found = {}
    for name in names:
        if name in ANSWERED:
            found[name] = answered(model, tokenizer, sets[name], max_new_tokens=settings.max_new_tokens, **sizes)
        else:
            found[name] = read(model, tokenizer, sets[name], **sizes)
        print(adapter.name, name, {key: found[name][key] for key in ("n", "right", "wrong", "silent")}, flush=True)
    return found


def main() -> None:
    """Measures each adapter and writes the results, with the adapters in the order of the command line as runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, metavar="DIR")
    parser.add_argument("--adapters", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--sets", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {**facts(), "dtype": "bfloat16" if in_bf16("cpu") else "float32"}
    results |= {"adapters": [one.name for one in arguments.adapters], "sets": arguments.sets, "runs": {}}
    for number, adapter in enumerate(arguments.adapters):
        found = measured(arguments.base, adapter, arguments.sets)
        results["runs"][str(number)] = {"sets": found, "base": {}}
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
