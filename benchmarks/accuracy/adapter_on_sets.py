"""What a saved adapter answers, of every kind of text that this project has: right, wrong, or silent.

Of some sets whole answers are generated, of the others (texts by authors of whom none is trained, texts that ask for
nothing, stories made to mislead, texts that mention a calculation, people's word problems if `PEFT_IGC_DATA` names
them, and the forms of `expression_items`) the reading is compared. `silent` is right wherever nothing is to be
calculated. A LoRA has no reading: it is measured on sets of whole answers, and its `silent` is another answer.

    python -m benchmarks.accuracy.adapter_on_sets --base tiny --adapters tiny --output benchmarks/results/tiny.json
    PEFT_IGC_DATA=FOLDER python -m benchmarks.accuracy.adapter_on_sets --base .cache/smollm2/base \
        --adapters demo-smollm2/adapter --sets bigbench plain_requests --output build/smollm2.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.accuracy.expression_items import like_math_401, look_alikes, spelled
from benchmarks.common.measuring import DATA, command, facts, write
from benchmarks.common.written_calculations import value_of
from peft_igc.data.files import read_rows
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.sft.demo import RECIPES
from peft_igc.sft.measure import Demonstration
from peft_igc.sft.sets import ANSWERED, answered, generated_sets, read, texts_of_authors
from peft_igc.text.rounding import places_of
from peft_igc.text.values import Limits, written
from peft_igc.trainer.precision import in_bf16
from peft_igc.tuner.base_model import TINY
from peft_igc.tuner.hooks.wrapper import active_config


# Of twelve authors, none of whom had seen the generator. Development: the requests of the first, second, fourth and
# fifth, and the stories, the sixth and seventh one's mentions. Test: the requests of the third, sixth, seventh and
# eighth, of which 28 that rules refused were read, and the others. The last six were hashed after first trainings.
SHA256: dict[str, str] = json.loads((DATA / "sha256.json").read_text(encoding="utf-8"))
# The sizes of the demonstration on a real model, and what its adapter supports.
SIZES = Demonstration(
    **yaml.safe_load((RECIPES / "smollm2_135m.yaml").read_text(encoding="utf-8"))["igc_demonstration"]
)
SUPPORTED = Limits(decimal_operands=True)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Of the folder that `PEFT_IGC_DATA` names: questions with annotated solutions, or with expressions, and prompts.
GSM8K, MAWPS, ASSISTANT = "gsm8k_train.jsonl", "word_problems/mawps.jsonl", "prompts/assistant_prompts.jsonl"
FIRST = 6001  # question of GSM8K from which on every second one is measured: adapters were trained on those before
LONGEST = 512  # characters of people's texts; longer ones are left out
AUTHOR_ITEMS = 1600  # each text of the authors that are measured once
THINGS = ("apples", "pears", "plums", "pens", "coins", "books")

Items = list[dict[str, Any]]


def plain_requests(name: str = "plain_requests", folder: Path = DATA) -> Items:
    """Texts of one author as items: requests with operand columns, so that their calculations are not trained, or
    stories, whose target is None where no whole number answers them.
    """
    path = folder / f"{name}.jsonl"
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != (fixed := SHA256[name]):
        raise ValueError(f"`{path}` has the sha256 {found}, but {fixed} was recorded. Restore the file.")
    rows = [json.loads(line) for line in content.decode().splitlines()]
    items = []
    for row in rows:
        columns = {"igc_operator": "operator", "igc_operands": "operands", "igc_result": "target"}
        known = {a: row[b] for a, b in columns.items()} if "operator" in row else {}
        items.append({"prompt": row["prompt"], "target": row["target"], **known})
    return items


def three_numbers(n: int, seed: int) -> Items:
    """Requests in words for the sum of three to five numbers, which only a part of the numbers must not answer."""
    rng = random.Random(f"three numbers/{seed}")
    made = []
    for _ in range(n):
        numbers = [rng.randrange(1, 10 ** rng.randint(1, 4)) for _ in range(rng.randint(3, 5))]
        first, second, *rest = numbers
        things = list(zip(numbers, rng.sample(THINGS, len(numbers)), strict=True))
        ask = rng.choice(("What is the sum?", "How much is that in total?", "Add them up.", "How many in all?"))
        lines = "\n".join(f"{rng.choice(('', '- ', '* '))}{number} {thing}" for number, thing in things)
        texts = (
            f"What is {first} plus {second}?" + "".join(f" Then add {number}." for number in rest),
            f"{lines}\n{ask}",
            " ".join(f"I have {number} {thing}." for number, thing in things) + f" {ask}",
            f"What is the sum of {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}?",
            " plus ".join(map(str, numbers)),
        )
        made.append({"prompt": rng.choice(texts), "target": str(sum(numbers))})
    return made


def peoples_texts() -> dict[str, Items]:
    """Word problems and prompts by name, whose target is None where silence is right; none without a folder."""
    if not (name := os.environ.get("PEFT_IGC_DATA")):
        return {}
    folder = Path(name).expanduser()
    problems, questions, prompts = (read_rows(folder / name) for name in (MAWPS, GSM8K, ASSISTANT))
    steps = {item["question"]: len(re.findall(r" [-+*/] ", item["expression"])) for item in problems}
    # Some answers were calculated in floating point: `0.16666666666666666` of `0.6666666666666666 - 0.5`.
    one = [(item["question"], value_of(item["expression"])) for item in problems if steps[item["question"]] < 2]
    sets: dict[str, list[tuple[str, str | None]]] = {
        "word_problems": [
            (text, None if value is None or places_of(value) is None else written(value)) for text, value in one
        ]
    }
    several = [one for one in questions[FIRST::2] if len(re.findall("<<.*?>>", one["answer"])) > 1]
    silent = {
        "several_steps_mawps": [one["question"] for one in problems if steps[one["question"]] > 1],
        "several_steps_gsm8k": [one["question"] for one in several],
        "assistant_prompts": [one["prompt"] for one in prompts if not one["asks_for_a_calculation"]],
    }
    sets |= {name: [(text, None) for text in texts] for name, texts in silent.items()}
    short = {name: [pair for pair in pairs if len(pair[0]) <= LONGEST] for name, pairs in sets.items()}
    return {name: [{"prompt": text, "target": due} for text, due in pairs] for name, pairs in short.items()}


def all_sets(n: int, seed: int) -> dict[str, Items]:
    """All sets by name whose texts are at hand, of generated ones `n` items."""
    sets = generated_sets(SIZES.per_group, SIZES.per_set, 0, SUPPORTED)
    sets["unread_authors"] = texts_of_authors("measured", AUTHOR_ITEMS, seed, SUPPORTED)
    sets |= {name: plain_requests(name) for name in SHA256}
    sets |= peoples_texts()
    forms = {"spellings": spelled(n, seed), "like_math_401": like_math_401(n, seed), "look_alikes": look_alikes(n)}
    for name, samples in forms.items():
        sets[name] = [{"prompt": one.text, "target": one.value} for one in samples]
    return sets | {"three_numbers": three_numbers(n, seed)}


def chosen_sets(arguments: argparse.Namespace) -> dict[str, Items]:
    """The sets that a command names, or all whose texts are at hand."""
    known = all_sets(arguments.n, arguments.seed)
    asked = arguments.sets or list(known)
    if unknown := [name for name in asked if name not in known]:
        raise ValueError(f"There are no sets {unknown}. The sets are {sorted(known)}; more with `PEFT_IGC_DATA`.")
    return {name: known[name] for name in asked}


def measured(base: Path, adapter: Path, sets: dict[str, Items], dtype: str, readings: bool = False) -> dict[str, Any]:
    """The reports of the sets, by name; of `readings` alone, or of whole answers where these are compared."""
    others = [name for name in sets if readings or not (name in ANSWERED or name.endswith("plain_requests"))]
    model, tokenizer = load_base(base, dtype)
    model = load_adapter(model, adapter).to(DEVICE)
    if others and active_config(model) is None:
        raise ValueError(f"`{adapter}` has no calculator, whose reading {others} need. Leave these sets out.")
    whole, found = partial(answered, max_new_tokens=SIZES.max_new_tokens), {}
    for name, items in sets.items():
        measure = read if name in others else whole
        found[name] = measure(model, tokenizer, items, batch_size=SIZES.batch_size)
        found[name]["due"] = sum(item["target"] is not None for item in items)
        print(adapter.name, name, {key: found[name][key] for key in ("n", "right", "wrong", "silent")}, flush=True)
    return found


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser of a base and the arguments of `chosen_sets`."""
    parser = command(str(description))
    parser.add_argument("--base", type=Path, required=True, metavar="DIR")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="(default: all whose texts are at hand)")
    parser.add_argument("-n", type=int, default=1000, help="items of a generated set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the generated sets (default: %(default)s)")
    return parser


def main() -> None:
    """Measures each adapter and writes the results, with the adapters in the order of the command line as runs."""
    parser = parser_of(__doc__)
    parser.add_argument("--adapters", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--readings", action="store_true", help="of all sets, in a fraction of the time")
    arguments = parser.parse_args()
    sets = chosen_sets(arguments)
    dtype = "bfloat16" if str(arguments.base) != TINY and in_bf16(DEVICE) else "float32"
    results: dict[str, Any] = {**facts(), "dtype": dtype, "n": arguments.n, "seed": arguments.seed}
    results |= {"adapters": [one.name for one in arguments.adapters], "sets": list(sets), "runs": {}}
    results["readings"] = arguments.readings
    for number, adapter in enumerate(arguments.adapters):
        found = measured(arguments.base, adapter, sets, dtype, arguments.readings)
        results["runs"][str(number)] = {"sets": found, "base": {}}
        write(arguments.output, results)


if __name__ == "__main__":
    main()
