"""What an adapter does to texts that are none of its business: likelihood, logits and greedy answers, beside the base.

Prose, requests with numbers and without arithmetic, and requests that talk about arithmetic (`harm_texts.py`), each as
a chat prompt at whose end IGC has an anchor, so that it has its chance to do harm. Two fixed continuations of at least
16 tokens are scored with the adapter and with it switched off: the base model's own greedy one (`own`; its end is put
off), and for prose the real one (`text`). Told are

* activated: prompts at which a step of the calculator was ok in the passes that are scored;
* bit_identical: prompts in whose passes no logit differs from the base model's by a single bit;
* texts_changed: prompts that get another greedy answer;
* log_likelihood: change in nats per token, adapter minus base; mean with a bootstrap interval of 95% over prompts (of
  overlapping windows, where it is prose), mean and largest absolute change.

Every batch also holds arithmetic, so that writing does go on beside these prompts. An adapter that does not answer at
least 90% of some plain calculations is refused: it would do no harm because it does nothing. LoRA (`--lora`, a folder
of PEFT's) passes through the same, without anchors and without that demand.

    peft-igc demo --output build/tokens --seed 0
    peft-igc demo --output build/hidden --seed 0 --interface hidden
    python -m benchmarks.harm.harm --adapter build/tokens/adapter build/hidden/adapter \\
        --output benchmarks/results/harm.json --figure benchmarks/results/harm.png
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict

from benchmarks.accuracy.token_interface import left_padded
from benchmarks.common.measuring import facts
from benchmarks.harm.texts import KINDS, NUMBERS, Text, texts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.inference import loading
from peft_igc.inference.decoding import greedy, padding_token, prompt_tokens
from peft_igc.inference.evaluation import duration, evaluate
from peft_igc.inference.loading import load_adapter
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.call import observing
from peft_igc.tuner.hooks import active_config
from peft_igc.tuner.steps import Step


SCORED, LEAST = 24, 16  # tokens of a continuation; how many there have to be
ROWS, BESIDE = 48, 16  # of a batch: prompts, and arithmetic between them
CONTROL_SEED, CONTROL_PER_GROUP, CONTROL_LEAST = 4, 5, 0.9
RESAMPLES, EXAMPLES = 2000, 20
OWN, REAL = "own", "text"  # continuations


@dataclass
class Outcome:
    """What an adapter did at one prompt; `change` has nats per token by continuation."""

    text: Text
    activated: bool | None
    identical: bool
    base_answer: str
    answer: str
    change: dict[str, float]


def passes(model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, list[Step]]:
    """Logits with the adapter and without, and the calculator's steps."""
    seen: list[Any] = []
    with observing(seen.append):
        logits = model(**batch).logits
    with model.disable_adapter():
        base = model(**batch).logits
    return logits, base, [one for one in seen if isinstance(one, Step)]


def per_token(logits: torch.Tensor, ids: torch.Tensor, n: int) -> torch.Tensor:
    """Mean log-likelihood of the last `n` tokens, [B] float64 from logits [B, T, V] and ids [B, T]."""
    likelihood = logits[:, -n - 1 : -1].double().log_softmax(-1)
    return likelihood.gather(-1, ids[:, -n:, None]).squeeze(-1).mean(-1)


def continued(model: Any, tokenizer: Any, batch: dict[str, torch.Tensor], least: int = 0) -> torch.Tensor:
    """The next tokens by greedy generation, [B, N]; before `least` of them no answer ends."""
    width = batch["input_ids"].shape[1]
    config = greedy(model, tokenizer, SCORED)
    config.min_length = width + least if least else 0
    return model.generate(**batch, generation_config=config)[:, width:]


def check_anchors(steps: list[Step], end: int, rows: int) -> None:
    """Refuses a pass in which a prompt has no anchor at its end.

    Args:
        steps: The calculator's.
        end: Place of every prompt's last token.
        rows: How many rows there are from the first on.

    Raises:
        SystemExit: So it is.
    """
    found = torch.zeros(rows, dtype=torch.bool)
    for step in steps:
        found |= (step.anchors[:rows] == end).any(1)
    if not found.all():
        raise SystemExit(
            f"Gate: {int((~found).sum())} of {rows} prompts have no anchor at their end, so the calculator had no "
            "chance to do harm there. Nothing is reported."
        )


def check_scored(n: int) -> None:
    """Refuses continuations that are too short.

    Raises:
        SystemExit: So they are.
    """
    if n < LEAST:
        raise SystemExit(f"Gate: a continuation has {n} tokens, fewer than {LEAST}. Nothing is reported.")


def check_baseline(expected: torch.Tensor, found: torch.Tensor) -> None:
    """Refuses a comparison with something else than the base model.

    Raises:
        SystemExit: The logits differ.
    """
    if not torch.equal(expected, found):
        raise SystemExit(
            "Gate: with the adapter switched off the logits are not the base model's. Nothing is reported."
        )


def check_control(name: str, what: str, share: float) -> None:
    """Refuses an adapter that does not calculate.

    Args:
        name: The adapter's.
        what: What was counted.
        share: The part of some plain calculations of which it is so.

    Raises:
        SystemExit: It is too small.
    """
    if share < CONTROL_LEAST:
        raise SystemExit(
            f"Gate: `{name}` {what} {share:.1%} of plain calculations, less than {CONTROL_LEAST:.0%}. What does "
            "nothing does no harm. Nothing is reported."
        )


@torch.no_grad()
def outcomes(name: str, model: Any, tokenizer: Any, items: list[Text], beside: list[str]) -> list[Outcome]:
    """What the adapter does at each prompt, in batches shared with arithmetic."""
    padding = padding_token(model, tokenizer)
    asked, others = ([t.prompt for t in items], beside[:BESIDE])
    prompts, between = (prompt_tokens(tokenizer, some, raw=False) for some in (asked, others))
    has_anchors = active_config(model) is not None
    made: list[Outcome] = []
    for start in range(0, len(items), ROWS):
        chosen = items[start : start + ROWS]
        rows = prompts[start : start + ROWS] + between
        batch = left_padded(rows, padding)
        answers = tokenizer.batch_decode(continued(model, tokenizer, batch), skip_special_tokens=True)
        with model.disable_adapter():
            plain = tokenizer.batch_decode(continued(model, tokenizer, batch), skip_special_tokens=True)
            own = continued(model, tokenizer, batch, least=SCORED).tolist()
        continuations = {OWN: own}
        if all(text.continuation for text in chosen):
            real = tokenizer([text.continuation for text in chosen], add_special_tokens=False)["input_ids"]
            continuations[REAL] = real + own[len(chosen) :]
        ok, same = torch.zeros(len(rows), dtype=torch.bool), torch.ones(len(rows), dtype=torch.bool)
        changes: dict[str, list[float]] = {}
        for kind, tokens in continuations.items():
            n = min(SCORED, *map(len, tokens))
            check_scored(n)
            whole = left_padded([row + more[:n] for row, more in zip(rows, tokens, strict=True)], padding)
            ids, mask = whole["input_ids"], whole["attention_mask"]
            logits, base, steps = passes(model, whole)
            if has_anchors:
                check_anchors(steps, ids.shape[1] - n - 1, len(chosen))
            for step in steps:
                ok |= (step.result.status == Status.OK).any(1)
            same &= ~((logits != base) & mask[..., None].bool()).flatten(1).any(1)
            changes[kind] = (per_token(logits, ids, n) - per_token(base, ids, n)).tolist()
        if has_anchors:
            check_control(name, "is seen to calculate", float(ok[len(chosen) :].float().mean()))
        for at, text in enumerate(chosen):
            change = {kind: values[at] for kind, values in changes.items()}
            activated = bool(ok[at]) if has_anchors else None
            made.append(Outcome(text, activated, bool(same[at]), plain[at], answers[at], change))
    return made


def interval(values: list[float]) -> list[float]:
    """95% of the means of samples drawn from `values` with replacement."""
    generator = torch.Generator().manual_seed(0)
    at = torch.randint(len(values), (RESAMPLES, len(values)), generator=generator)
    means = torch.tensor(values, dtype=torch.float64)[at].mean(1)
    return means.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()


def counts(found: list[Outcome]) -> dict[str, Any]:
    """How many prompts were touched, in whatever way."""
    activated = [one.activated for one in found]
    return {
        "n": len(found),
        "with_two_numbers": sum(one.text.numbers > 1 for one in found),
        "activated": None if None in activated else sum(map(bool, activated)),
        "bit_identical": sum(one.identical for one in found),
        "texts_changed": sum(one.answer != one.base_answer for one in found),
    }


def summary(found: list[Outcome]) -> dict[str, Any]:
    """A kind of texts: counts, changes of log-likelihood, and the same counts by group."""
    changes = {name: [one.change[name] for one in found] for name in found[0].change}
    touched = [one for one in found if not one.identical or one.answer != one.base_answer]
    groups: dict[str, list[Outcome]] = {}
    for one in found:
        groups.setdefault(one.text.group, []).append(one)
    return {
        **counts(found),
        "changed_without_activation": sum(not one.identical and one.activated is False for one in found),
        "log_likelihood": {
            name: {
                "mean": sum(values) / len(values),
                "interval": interval(values),
                "mean_absolute": sum(map(abs, values)) / len(values),
                "largest_absolute": max(map(abs, values)),
            }
            for name, values in changes.items()
        },
        "groups": {group: counts(some) for group, some in sorted(groups.items())},
        "examples": [
            {"prompt": one.text.prompt, "base": one.base_answer, "adapter": one.answer, "change": one.change}
            for one in touched[:EXAMPLES]
        ],
    }


def measure(name: str, folder: Path, arguments: argparse.Namespace, keep: Callable[[dict[str, Any]], str]) -> None:
    """One adapter: the gates that need no prompt of these, then all kinds.

    Args:
        name: What it is called.
        folder: Where it is.
        arguments: Of the command line.
        keep: Takes what is known after each kind, and tells how much time is left.
    """
    base, tokenizer = loading.load_base(arguments.base, "float32")
    items = texts(arguments.n, arguments.seed)
    control = bigbench_test_set(CONTROL_PER_GROUP, CONTROL_SEED)
    beside = [item["prompt"] for item in control[:: max(1, len(control) // BESIDE)]]
    first = [text.prompt for text in items[NUMBERS][:ROWS]]
    batch = left_padded(prompt_tokens(tokenizer, first, raw=False), padding_token(base, tokenizer))
    with torch.no_grad():
        alone = base(**batch).logits
        model = load_adapter(base, folder)
        with model.disable_adapter():
            check_baseline(alone, model(**batch).logits)
    config = active_config(model)
    if config is None and folder not in [one.resolve() for one in arguments.lora]:
        raise SystemExit(f"`{name}` has no calculator. Pass it with `--lora`.")
    right = evaluate(model, tokenizer, control)["exact_match"]
    if config is not None:
        check_control(name, "answers", right)
    told: dict[str, Any] = {
        "method": "LoRA" if config is None else f"IGC, {config.interface} interface",
        "parameters": sum(weight.numel() for weight in get_peft_model_state_dict(model).values()),
        "sha256": hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest(),
        "control": {"n": len(control), "exact_match": right},
        "kinds": {},
    }
    for kind in KINDS:
        told["kinds"][kind] = summary(outcomes(name, model, tokenizer, items[kind], beside))
        print(f"{line(name, kind, told['kinds'][kind])}  {keep(told)} left", flush=True)


def line(name: str, kind: str, told: dict[str, Any]) -> str:
    """A kind of texts in a line."""
    active = "-" if told["activated"] is None else told["activated"]
    change = told["log_likelihood"][OWN]
    return (
        f"{name:12s} {kind:18s} n {told['n']:4d}  activated {active:>4}  bit-identical {told['bit_identical']:4d}  "
        f"texts changed {told['texts_changed']:4d}  nats per token {change['mean']:+.4f} "
        f"[{change['interval'][0]:+.4f}, {change['interval'][1]:+.4f}]"
    )


def draw(adapters: dict[str, Any], path: Path) -> None:
    """Per cent of the prompts with any changed logit, and with another answer, by kind and adapter."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    width = 0.8 / len(adapters)
    for axes, key, title in zip(
        panels, ("bit_identical", "texts_changed"), ("any logit changed", "another greedy answer"), strict=True
    ):
        for at, (name, told) in enumerate(adapters.items()):
            kinds = [told["kinds"][kind] for kind in KINDS]
            hit = [(one["n"] - one[key] if key == "bit_identical" else one[key]) / one["n"] for one in kinds]
            places = [place + (at - (len(adapters) - 1) / 2) * width for place in range(len(KINDS))]
            bars = axes.bar(places, [100 * part for part in hit], width, label=f"{name} ({told['method']})")
            axes.bar_label(bars, fmt="%.1f", fontsize=8)
        axes.set_xticks(range(len(KINDS)), [kind.replace("_", " ") for kind in KINDS])
        axes.set_title(title)
    panels[0].set_ylabel("prompts (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(adapters))
    figure.suptitle("What adapters do to prompts that ask for no calculation")
    figure.savefig(path, dpi=120)


def named(folders: list[Path]) -> dict[str, Path]:
    """Adapters by the names of their folders, or of those around them where a folder is called `adapter`.

    Raises:
        SystemExit: Two of one name.
    """
    found: dict[str, Path] = {}
    for folder in (one.resolve() for one in folders):
        name = folder.parent.name if folder.name == "adapter" else folder.name
        if name in found:
            raise SystemExit(f"Two adapters are called `{name}`. Rename the folder of one of them.")
        found[name] = folder
    return found


def main() -> None:
    """Measures all adapters, and writes results after each kind of texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", type=Path, nargs="+", required=True, metavar="DIR", help="of IGC")
    parser.add_argument("--lora", type=Path, nargs="+", default=[], metavar="DIR", help="of LoRA, for comparison")
    parser.add_argument("--base", default=loading.TINY, help="of all adapters (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    parser.add_argument("--n", type=int, default=300, help="prompts of a kind, at most (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the prompts (default: %(default)s)")
    arguments = parser.parse_args()
    folders = named([*arguments.adapter, *arguments.lora])
    adapters: dict[str, Any] = {}
    settings = {"n": arguments.n, "seed": arguments.seed, "scored": SCORED, "control_seed": CONTROL_SEED}
    results = facts() | {"settings": settings, "adapters": adapters}
    begin = time.perf_counter()

    def write() -> None:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    for name, folder in folders.items():

        def keep(told: dict[str, Any], name: str = name) -> str:
            adapters[name] = told
            write()
            done = sum(len(one["kinds"]) for one in adapters.values())
            return duration((time.perf_counter() - begin) / done * (len(folders) * len(KINDS) - done))

        try:
            measure(name, folder, arguments, keep)
        except SystemExit:  # a gate is red: nothing of this adapter is reported
            if adapters.pop(name, None) is not None:
                write()
            raise
    if arguments.figure is not None:
        draw(adapters, arguments.figure)


if __name__ == "__main__":
    main()
