"""A real language model: BIG-bench, plain requests by people, word problems, silence and harm, base beside IGC.

The demonstration of `peft-igc demo --base`, 1,500 plain requests of seven authors that were written, and hashed,
before their authors saw the generator's phrasings, 100 stories whose two numbers are no operands of what they ask, and
250 texts that name a calculation and ask for something else. The baseline is the model without the adapter, asked as
it is and for the number only.

    PEFT_IGC_DATA=FOLDER python -m benchmarks.accuracy.real_model --base .cache/smollm2/base --name smollm2 \
        --output build/smollm2 --results benchmarks/results/smollm2.json

Results of several seeds are joined by `benchmarks.join`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import facts
from peft_igc.demo.report import report_table
from peft_igc.sft.demo import run_demo


DATA = Path(__file__).parent.parent / "data"
# Of nine authors, none of whom had seen the generator. Development: the requests of the first, second, fourth and
# fifth author, the stories (the fourth one's), `mentioned_calculations` (the sixth one's) and
# `more_mentioned_calculations` (the seventh one's); rules and phrasings of the generator were written after mistakes
# in them. Test: the requests of the third, sixth, seventh and eighth author and `new_mentioned_calculations` (the
# ninth one's), which nobody has read.
# The texts of the authors from the sixth were hashed behind the training of adapters that are recorded.
SHA256 = {
    "plain_requests": "5923fa30dc487bb1459269c2839860bf5d57695e9116258098433ce2db02d99f",
    "new_plain_requests": "929ea0f2b47e1c8d83da7941a2e3a7dfce7d2d1d8fd20d672069089dbc9bd004",
    "third_plain_requests": "eed645e0c17e6c05c6ecb91eea9a503e8c48c1de8f6b4dfb389e92dfbe81495c",
    "fourth_plain_requests": "98081b0faf4802f4ca27fd6da7440a14c1bacef2ff2c00325c96b70e115cb2c4",
    "fifth_plain_requests": "8229daa6ceea28404c447eb28de07e29b80b7ab62e6322029f429376e1b591b6",
    "sixth_plain_requests": "db04a63c21195fa4c884d59fbb3153fb5524e26476c51d0e5c5b90470e244b98",
    "seventh_plain_requests": "792e7f6f6aaf88e88ddec6273214a663487b0a29bc4cc9d88589eb69b06e5499",
    "eighth_plain_requests": "9add0c394d4987a6f54b34985e1c1ed7126f329e33281666d46fb5248e0bc629",
    "misleading_stories": "e089e9ec94b76e3355ecac1549cc06e8dec6b35f857e3d9170efce4c393c03af",
    "mentioned_calculations": "b58dd10405c3ead62960e595dbaf6803f15cbb1fc8ebaa38d32107adac344482",
    "more_mentioned_calculations": "189812c405882ecb7842b1f68258b740830f4c0062d61b848949fe4e91de0e70",
    "new_mentioned_calculations": "a639ccb05b9285efe1d9b69524d09b1489dd99e86f2baa603ff8cf7041f4e792",
}


def plain_requests(name: str = "plain_requests", folder: Path = DATA) -> list[dict[str, Any]]:
    """Texts of one author as items: requests with operand columns, so that their calculations are not trained, or
    stories, whose target is None where no whole number answers them.

    Raises:
        ValueError: the file is not the one that was hashed before the training.
    """
    path = folder / f"{name}.jsonl"
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != (fixed := SHA256[name]):
        raise ValueError(f"`{path}` has the sha256 {found}, but {fixed} was fixed before training. Restore the file.")
    rows = [json.loads(line) for line in content.decode().splitlines()]
    items = []
    for row in rows:
        asked = "operator" in row
        columns = {"igc_operator": "operator", "igc_operands": "operands", "igc_result": "target"} if asked else {}
        items.append({**{name: row[name] for name in ("prompt", "target")}, **{a: row[b] for a, b in columns.items()}})
    return items


def main() -> None:
    """Runs the demonstration with the plain requests and writes its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, metavar="DIR")
    parser.add_argument("--name", required=True, help="of the model, in the results")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--results", type=Path, required=True, metavar="FILE")
    parser.add_argument("--interface", choices=("tokens", "hidden"), default="tokens", help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", metavar="NAME")
    parser.add_argument("--layer", type=int, metavar="N")
    arguments = parser.parse_args()
    about = facts()  # of the code that runs, whatever is committed meanwhile
    sets = {name: plain_requests(name) for name in SHA256}
    options = {name: getattr(arguments, name) for name in ("interface", "seed", "layer", "device")}
    run = run_demo(arguments.output, people=sets, base=str(arguments.base), **options)
    print(report_table(run))
    run["base_model"]["name"] = arguments.name
    alike = {name: run.pop(name) for name in ("base_model", "settings", "versions", "hardware")}
    results = {**about, **alike, "runs": {str(arguments.seed): run}}
    arguments.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
