"""How long an answer takes through IGC and through a tool, beside bases of several sizes.

`methods` times trained methods on the embedded base, where a forward pass takes a millisecond. Here the same loop
(`answer_loop`) answers the same kind of questions on the shapes of `overhead`, whose weights are random, so each token
that a model would choose is told to it (`Told`) and every method writes the right answer in its form. All else is
done as ever: every pass runs whole, its arg max is taken, the calculator reads, calculates and writes, and the tool is
called (its call is found in the text, Python calculates, the reply becomes tokens in the same KV cache). Who calls the
tool is the base alone, as if all that had been trained were merged into it: no tool use is cheaper. An answer that is
not the target's text, whose tool was not called once, or whose calculator did not read once with the status ok, ends
the run. A random reading is forced to the operation of the question. Says nothing about accuracy.

    python -m benchmarks.methods.answer_times --output benchmarks/results/answer_times.json
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.answer_loop import answered, counted_passes
from benchmarks.common.formatting import lines
from benchmarks.common.measuring import Progress, facts, summary
from benchmarks.common.shapes import LORA, SHAPES, Subject, made_base, missing, subjects
from benchmarks.cost.overhead_checks import statuses
from benchmarks.methods.items import LONGER, TRAINED, Item, cells
from benchmarks.methods.training import DIRECT, TOOL, TOOL_SPLICED, Form
from peft_igc.data.columns import COLUMNS
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.numbers.calculator import Status


TOOLS = {"tool": TOOL, "tool_spliced": TOOL_SPLICED}
LENGTHS = {f"{digits[0]} to {digits[-1]} digits": digits for digits in (TRAINED, LONGER)}


class Told:
    """A model, on whichever device, that runs as it is and prefers the token that comes next in a script.

    Args:
        model: any causal LM.
        script: all tokens of the answer, a tool's replies included.
        begin: tokens of the prompt.
    """

    def __init__(self, model: Any, script: list[int], begin: int) -> None:
        self.model, self.script, self.begin = model, script, begin
        self.generation_config = model.generation_config

    def __call__(self, **inputs: Any) -> Any:
        device = self.model.device
        here = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}
        output = self.model(**here)
        output.logits[:, -1, self.script[inputs["attention_mask"].shape[1] - self.begin]] = torch.inf
        return output


@dataclass
class Contender:
    """A way to answer."""

    name: str
    model: Any
    tokenizer: Any
    form: Form = DIRECT
    subject: Subject | None = None  # with a calculator

    def answer(self, item: Item) -> tuple[str, int]:
        """The visible answer to a question, from text to text, and how often the tool was called."""
        (prompt,) = prompt_tokens(self.tokenizer, [item["prompt"]], raw=False)
        script = self.script(item)
        told = Told(self.model, script, len(prompt))
        (made,) = answered(told, self.tokenizer, [prompt], len(script), self.form.tool)
        text = self.tokenizer.decode(made.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return self.form.visible(text), len(made.calls)

    def reading(self, item: Item) -> AbstractContextManager[None]:
        """Within, the calculator finds the operation of a question."""
        return nullcontext() if self.subject is None else self.subject.told(item[COLUMNS[0]])

    def script(self, item: Item) -> list[int]:
        """The tokens of the right answer in this form, and the end."""
        pieces = self.form.pieces(item["target"], *(item[name] for name in COLUMNS))
        texts = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text, _ in pieces]
        return [*(token for tokens in texts for token in tokens), self.tokenizer.eos_token_id]

    def checked(self, item: Item) -> int:
        """Passes of an answer; `SystemExit` if it is not what is to be timed."""
        with self.reading(item), counted_passes(self.model) as passes, statuses() as seen:
            text, calls = self.answer(item)
        if text != item["target"]:
            raise SystemExit(f"{self.name}: the answer is {text!r} where {item['target']!r} was told.")
        if calls != (self.form.tool is not None):
            raise SystemExit(f"{self.name}: {item['prompt']!r} was answered with {calls} calls of a tool.")
        read = torch.cat(seen).tolist() if seen else []
        if self.subject is not None and read != [Status.OK]:
            raise SystemExit(f"{self.name}: {item['prompt']!r} was read with the statuses {read}, not once and ok.")
        return len(passes)


def contenders(shape: str, seed: int) -> list[Contender]:
    """The base, IGC in all its sizes, and the base with a tool."""
    base, tokenizer = made_base(shape, seed, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    made = [
        Contender(subject.method, subject.model, tokenizer, subject=subject if subject.calculators else None)
        for subject in subjects(base, tokenizer, seed)
        if subject.method != LORA
    ]
    return [*made, *(Contender(name, base, tokenizer, form) for name, form in TOOLS.items())]


def questions(digits: range, count: int, seed: int) -> list[Item]:
    """Questions of all operations and these lengths, in BIG-bench's form and in others."""
    drawn = [item for cell, items in cells(count, seed, digits).items() if "shifted" not in cell for item in items]
    return random.Random(f"answer times/{seed}").sample(drawn, count)


def timed(made: list[Contender], items: list[Item], progress: Progress, what: str) -> dict[str, Any]:
    """Seconds and passes per answer, contenders in turn and in another order each time, and the tools' beside them.

    `times_as_fast` has medians and quartiles over questions of a tool's seconds by the contender's for the same one.
    """
    rng = random.Random("answer times")
    taken: dict[str, list[float]] = {one.name: [] for one in made}
    passes: dict[str, list[int]] = {one.name: [] for one in made}
    for item in items:
        for one in rng.sample(made, len(made)):
            passes[one.name].append(one.checked(item))  # also what is made once is made here
            with one.reading(item):
                begin = time.perf_counter()
                one.answer(item)
                if one.model.device.type == "cuda":
                    torch.cuda.synchronize()
                taken[one.name].append(time.perf_counter() - begin)
        progress.step(what)
    return {
        one.name: {
            "seconds": summary(taken[one.name]),
            "passes": statistics.mean(passes[one.name]),
            "times_as_fast": {
                tool: summary([a / b for a, b in zip(taken[tool], taken[one.name], strict=True)]) for tool in TOOLS
            },
        }
        for one in made
    }


def table(found: dict[str, Any]) -> str:
    """Milliseconds of right answers, and how much faster they come than through a tool."""
    rows = []
    for shape, groups in found["shapes"].items():
        for lengths, by_method in groups.items():
            for method, told in by_method.items():
                cells = [f"{told['passes']:.1f}", f"{1e3 * told['seconds']['median']:.1f}"]
                cells += [
                    f"{cost['median']:.2f} ({cost['low']:.2f} to {cost['high']:.2f})"
                    for cost in told["times_as_fast"].values()
                ]
                rows.append([shape, lengths, method.replace("_", " "), *cells])
    return lines(["shape", "numbers", "", "passes", "ms", "times as fast as tool use", "as spliced"], rows)


def main() -> None:
    """Measures all shapes, and writes results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument(
        "--items", type=int, default=60, help="questions of short numbers, and of long ones (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random weights and of questions")
    arguments = parser.parse_args()
    items = {lengths: questions(digits, arguments.items, arguments.seed) for lengths, digits in LENGTHS.items()}
    settings = {"items": arguments.items, "seed": arguments.seed, "config_of_shapes": SHAPES}
    results: dict[str, Any] = {**facts(), "settings": settings, "shapes": {}, "left_out": []}
    for shape in arguments.shapes:
        if (reason := missing(shape)) is not None:
            results["left_out"].append({"shape": shape, "reason": reason})
            print(f"{shape} is left out: {reason}", flush=True)
        else:
            made, progress = contenders(shape, arguments.seed), Progress(sum(map(len, items.values())))
            results["shapes"][shape] = {name: timed(made, asked, progress, shape) for name, asked in items.items()}
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
