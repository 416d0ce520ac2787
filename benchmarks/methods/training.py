"""What the compared methods are, and how those that are trained are trained: same rows, steps, batches and schedule.

A `Kind` says what is attached to the embedded base (LoRA, or IGC with one of its interfaces) and in
which form an answer is written (`Form`: at once, or through a tool). `training_set` draws the fixed
rows once; `trained` gives the model, merged where that is possible, and how it went. The learning rate of everything
but IGC is the best of three or more on validation items (`ablations.best_rate`); IGC has that of the demonstrations,
which was chosen before.
Nothing is tested here. Try it: `pytest tests/benchmarks/test_commands.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import set_seed

from benchmarks.accuracy import ablations
from benchmarks.accuracy.ablations import LORA, SEARCH_SEED, attached, best_rate, fitted, with_rate
from benchmarks.common.small_trainings import SETTINGS, DemoSettings, training_rows
from benchmarks.methods.tool_use import RESTATED, SPLICED, Tool
from peft_igc.data.columns import COLUMNS
from peft_igc.inference import loading
from peft_igc.numbers.calculator import NO_ARITHMETIC


RATES = {LORA: ablations.RATES[LORA]}  # where a search begins
WARM = 0.14  # part of the steps in which the learning rate rises, as in the demonstrations
LONGEST = 5  # digits of a trained operand, as in BIG-bench; a test asks for longer ones

Pieces = list[tuple[str, bool]]  # texts, and whether the model is to write them


@dataclass(frozen=True)
class Form:
    """How an answer is written: at once, or through a tool."""

    tool: Tool | None = None

    def pieces(self, completion: str, operator: str | None, operands: list[str] | None, result: str | None) -> Pieces:
        """A row's answer, given how it reads and what is calculated."""
        if operator in (None, NO_ARITHMETIC) or operands is None:
            return [(completion, True)]
        if self.tool is None:
            return [(completion, True)]
        call = (operator, operands[0], operands[1])
        before, after = "", completion
        if not self.tool.close:  # the reply is part of the answer
            before, found, after = completion.partition(result or "")
            if not found or self.tool.reply(call) != result:
                return [(completion, True)]
        return [(before + self.tool.written(*call), True), (self.tool.reply(call), False), (after, True)]

    def visible(self, text: str) -> str:
        """The answer within what was written."""
        return self.tool.visible(text) if self.tool else text


@dataclass(frozen=True)
class Kind:
    """A method: what is trained (None: nothing), and the form of its answers."""

    trains: str | None
    form: Form = Form()


DIRECT, TOOL, TOOL_SPLICED = Form(), Form(tool=RESTATED), Form(tool=SPLICED)
KINDS = {
    "base": Kind(None),
    "lora": Kind(LORA),
    "tool": Kind(LORA, TOOL),
    "tool_spliced": Kind(LORA, TOOL_SPLICED),
    "igc_hidden": Kind("hidden"),
    "igc_tokens": Kind("tokens"),
}


def settings_of(trains: str | None, steps: int, batch_size: int, rows: int) -> DemoSettings:
    """The demonstration's settings of an interface, with the rows of the token interface for all."""
    tokens, own = SETTINGS["tokens"], SETTINGS["hidden" if trains == "hidden" else "tokens"]
    shared = {"mixture": tokens.mixture, "many_phrasings": tokens.many_phrasings, "max_digits": LONGEST, "checks": 1}
    return dataclasses.replace(
        own, steps=steps, batch_size=batch_size, distinct_rows=rows, warmup_steps=max(round(WARM * steps), 1), **shared
    )


def training_set(excluded: list[Any], seed: int, rows: int) -> list[dict[str, Any]]:
    """The rows of all methods."""
    return training_rows(excluded, dataclasses.replace(settings_of("tokens", 1, 1, rows), seed=seed))


def written_out(rows: list[dict[str, Any]], form: Form, tokenizer: Any) -> list[dict[str, Any]]:
    """Rows as tokens with the answers of a form; the tool's replies have no labels, and no row is supervised.

    Pieces are tokenized apart, as they come about when an answer is generated.
    """
    prompts = tokenizer.apply_chat_template(
        [row["prompt"] for row in rows], tokenize=False, add_generation_prompt=True
    )
    made = []
    for row, prompt in zip(rows, tokenizer(prompts, add_special_tokens=False)["input_ids"], strict=True):
        ids, labels = list(prompt), [-100] * len(prompt)
        pieces = form.pieces(row["completion"][0]["content"], *(row[name] for name in COLUMNS))
        for text, is_written in pieces:
            more = tokenizer(text, add_special_tokens=False)["input_ids"]
            ids += more
            labels += more if is_written else [-100] * len(more)
        ids.append(tokenizer.eos_token_id)
        labels.append(tokenizer.eos_token_id)
        made.append({"input_ids": ids, "labels": labels, **dict.fromkeys(COLUMNS)})
    return made


def wanted_tokens(form: Form, item: dict[str, Any], tokenizer: Any) -> int:
    """How many tokens a right answer in this form has, without its end."""
    pieces = form.pieces(item["target"], *(item[name] for name in COLUMNS))
    return sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text, _ in pieces)


def fresh(kind: Kind, settings: DemoSettings) -> tuple[Any, Any]:
    """The embedded base with what a method trains."""
    base, tokenizer = loading.tiny_base()
    base.requires_grad_(False)
    set_seed(settings.seed)
    if kind.trains is None:
        return base, tokenizer
    return attached(LORA if kind.trains == LORA else "igc", base, tokenizer, settings), tokenizer


@dataclass(frozen=True)
class Budget:
    """What every training gets: steps, those of a run that tries a learning rate, rows per step, rows in all."""

    steps: int
    search_steps: int
    batch_size: int
    rows: int


def trained(
    name: str,
    seed: int,
    budget: Budget,
    rows: Callable[[int], list[dict[str, Any]]],
    check: Callable[[str, Any, Any], float],
) -> tuple[Any, Any, dict[str, Any]]:
    """A trained method: its model in eval mode, the tokenizer, and how it went.

    Args:
        name: One of `KINDS`.
        seed: Of the adapter's first weights, the rows and their order.
        budget: The same for all.
        rows: From a seed to the training set.
        check: Exact match on validation items, of a method by name, its model and tokenizer.
    """
    kind = KINDS[name]
    settings = settings_of(kind.trains, budget.steps, budget.batch_size, budget.rows)
    rate, search = None, None
    if kind.trains in RATES:
        short = settings_of(kind.trains, budget.search_steps, budget.batch_size, budget.rows)

        def exact_match(rate: float) -> float:
            searching = dataclasses.replace(short, seed=SEARCH_SEED)
            return one_training(name, rate, searching, rows, check)[2]["checks"][-1]["exact_match"]

        search = {"steps": budget.search_steps, **best_rate(RATES[kind.trains], exact_match)}
        rate = search["chosen"]
    model, tokenizer, told = one_training(name, rate, dataclasses.replace(settings, seed=seed), rows, check)
    told |= {"learning_rate": rate or settings.learning_rate, "search": search}
    return _ready(model, kind), tokenizer, told


def one_training(
    name: str,
    rate: float | None,
    settings: DemoSettings,
    rows: Callable[[int], list[dict[str, Any]]],
    check: Callable[[str, Any, Any], float],
) -> tuple[Any, Any, dict[str, Any]]:
    """One run; without a rate with the settings' own, as a calculator trains."""
    kind = KINDS[name]
    if rate is not None:
        settings = dataclasses.replace(with_rate(LORA, settings, rate), writing_every=1)
    model, tokenizer, made = *fresh(kind, settings), rows(settings.seed)
    if kind.form != DIRECT:
        made = written_out(made, kind.form, tokenizer)
    title = f"{name}, seed {settings.seed}" + ("" if rate is None else f", rate {rate:g}")
    told = fitted(title, model, tokenizer, made, settings, lambda: check(name, model, tokenizer))
    return model, tokenizer, told


def _ready(model: Any, kind: Kind) -> Any:
    """In eval mode; a LoRA is merged, so that it costs nothing when it is used."""
    return (model.merge_and_unload() if kind.trains == LORA else model).eval()
