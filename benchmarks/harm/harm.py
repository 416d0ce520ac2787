"""What a calculator does to prompts that ask for no calculation: logits and greedy answers, compared with the base.

Prose; requests with numbers and nothing to calculate; requests that talk about a calculation. Each is a chat prompt
with an anchor at its end. The base's own greedy continuation of 24 tokens is scored with the adapter and without it:

* activated: prompts at which a step of the calculator was ok;
* bit_identical: prompts in whose passes no logit differs from the base model's by a single bit;
* texts_changed: prompts that get another greedy answer.

Every batch also has arithmetic, so that the calculator writes in the same passes; an adapter has to calculate there.

    python -m benchmarks.harm.harm --adapter tiny --output benchmarks/results/harm.json
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import DATA, command, facts, write
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.inference.decoding import greedy, left_padded, padding_token, prompt_tokens
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.base_model import TINY
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Step


SCORED = 24  # tokens of a continuation
ROWS, BESIDE = 48, 16  # of a batch: prompts, and arithmetic
CALCULATED = 0.9  # least share of the arithmetic at which the calculator has to be ok
PROMPT_WORDS, STRIDE = 20, 11
WORDS: dict[str, Any] = json.loads((DATA / "harm_texts.json").read_text(encoding="utf-8"))


def texts(n: int, seed: int = 0) -> dict[str, list[str]]:
    """Up to `n` distinct texts of each kind; equal for equal arguments."""
    windows = []
    for paragraph in WORDS["everyday"]:
        words = paragraph.split()
        starts = range(0, len(words) - PROMPT_WORDS + 1, STRIDE)
        windows += [" ".join(words[start : start + PROMPT_WORDS]) for start in starts]
    order = random.Random(f"harm/prose/{seed}")
    return {
        "prose": order.sample(windows, min(n, len(windows))),
        "numbers": _distinct(n, random.Random(f"harm/numbers/{seed}"), _with_numbers),
        "about arithmetic": _distinct(n, random.Random(f"harm/about/{seed}"), _about_arithmetic),
    }


def _distinct(n: int, rng: random.Random, draw: Callable[[random.Random], str]) -> list[str]:
    """Different texts."""
    made: dict[str, None] = {}
    while len(made) < n:
        made[draw(rng)] = None
    return list(made)


def _number(rng: random.Random) -> int:
    """Of one to four digits."""
    digits = rng.randint(1, 4)
    return rng.randrange(10 ** (digits - 1), 10**digits)


def _with_numbers(rng: random.Random) -> str:
    """Groups come as often as they have phrasings."""
    phrasing = rng.choice([phrasing for phrasings in WORDS["numbers"].values() for phrasing in phrasings])
    years = dict(zip("yzw", sorted(rng.sample(range(1650, 2020), 3)), strict=True))
    return str(phrasing.format(**{name: _number(rng) for name in "abcd"}, **years))


def _about_arithmetic(rng: random.Random) -> str:
    """A calculation within a question that does not ask for it, a fifth of them in words."""
    phrasing = rng.choice(WORDS["about"])
    if rng.random() < 0.2:
        a, b, c = rng.sample(WORDS["words"], 3)
        return str(phrasing.format(x=rng.choice(WORDS["spelled"]).format(a=a, b=b), c=c))
    x = rng.choice(WORDS["expressions"]).format(a=_number(rng), b=_number(rng))
    return str(phrasing.format(x=x, c=_number(rng)))


@torch.no_grad()
def measure(model: Any, tokenizer: Any, items: list[str], prompts: list[str]) -> dict[str, Any]:
    """Counts of one kind of texts, in batches shared with arithmetic."""
    asked, others = (prompt_tokens(tokenizer, some, raw=False) for some in (items, prompts))
    counts, examples = Counter[str](), []
    for start in range(0, len(items), ROWS):
        chosen = items[start : start + ROWS]
        batch = left_padded(asked[start : start + ROWS] + others, padding_token(model, tokenizer))
        width, settings = batch["input_ids"].shape[1], greedy(model, tokenizer, SCORED)
        made = model.generate(**batch, generation_config=settings)[:, width:]
        with model.disable_adapter():
            plain = model.generate(**batch, generation_config=settings)
            mask = torch.cat([batch["attention_mask"], torch.ones(len(plain), plain.shape[1] - width).long()], 1)
            base = model(input_ids=plain, attention_mask=mask).logits
        seen: list[Any] = []
        with observing(seen.append):
            logits = model(input_ids=plain, attention_mask=mask).logits
        silent = torch.zeros(len(plain), dtype=torch.bool)
        ok = sum(((one.result.status == Status.OK).any(1) for one in seen if isinstance(one, Step)), silent)
        if (share := float(ok[len(chosen) :].float().mean())) < CALCULATED:
            raise SystemExit(f"The adapter calculates in {share:.0%} of plain calculations. Use a trained one.")
        same = ~((logits != base) & mask[..., None].bool()).flatten(1).any(1)
        answers, expected = (tokenizer.batch_decode(one, skip_special_tokens=True) for one in (made, plain[:, width:]))
        for at, text in enumerate(chosen):
            counts += Counter(n=1, with_two_numbers=len(re.findall(r"\d+", text)) > 1, activated=bool(ok[at]))
            counts += Counter(bit_identical=bool(same[at]), texts_changed=answers[at] != expected[at])
            if answers[at] != expected[at]:
                examples.append({"prompt": text, "base": expected[at], "adapter": answers[at]})
    names = ("n", "with_two_numbers", "activated", "bit_identical", "texts_changed")
    return {name: counts[name] for name in names} | {"examples": examples[:20]}


def main() -> None:
    """Measures adapters and writes the results after each kind."""
    parser = command(__doc__)
    parser.add_argument("--adapter", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--base", default=TINY, metavar="DIR", help="(default: %(default)s)")
    parser.add_argument("-n", type=int, default=300, help="texts of each kind (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    control = bigbench_test_set(5, 4)
    others = [item["prompt"] for item in control[:: max(1, len(control) // BESIDE)]][:BESIDE]
    results: dict[str, Any] = {**facts(), "n": arguments.n, "seed": arguments.seed, "adapters": {}}
    for folder in arguments.adapter:
        base, tokenizer = load_base(arguments.base, "float32")
        model = load_adapter(base, folder)
        for kind, items in texts(arguments.n, arguments.seed).items():
            found = results["adapters"].setdefault(str(folder.name), {})
            found[kind] = measure(model, tokenizer, items, others)
            print(folder.name, kind, {k: v for k, v in found[kind].items() if k != "examples"}, flush=True)
            write(arguments.output, results)


if __name__ == "__main__":
    main()
