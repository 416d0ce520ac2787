"""What a method shows and does beside its answers: small experiments behind the table of traits.

Each takes a `Method` and gives a share of 0..1, or None where the method has nothing that could be looked at.

* `calculation_shown`: operator and operands can be told from its text (a call, the head of a scratchpad) or from its
  calculator (`tracing`), and are those that the question asks for
* `result_followed`: another result in the place of the right one changes the answer into that one
* `unharmed`: questions without arithmetic get the base model's answer, token by token
* `host_reads`: values that a forward pass brings to the host, per pass, beyond the base model's
* `new_operation`: the calculator takes a fifth operation, registered as a user would, and is exact

Nothing is trained. Try it: `pytest tests/benchmarks/test_methods.py -k probes`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common.answer_loop import answered
from benchmarks.methods import fixed_parser, scratchpads
from benchmarks.methods.measures import Method
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.tracing import trace
from peft_igc.numbers import calculator
from peft_igc.numbers.calculator import Operand, Operation, Outcome, Status, calculate, evaluate_exactly
from peft_igc.numbers.digits import PAD, encode
from peft_igc.tuner.hooks import active_config
from peft_igc.tuner.steps import calculate_step


SILENT_TOKENS = 16  # of a text that is compared with the base model's
FIFTH = "max"

Items = Sequence[Mapping[str, Any]]


def calculation_shown(method: Method, items: Items) -> float | None:
    """How often the calculation that was done can be told, and is the right one."""
    if method.model is None:
        return _share(fixed_parser.parsed(item["prompt"]) == _asked(item) for item in items)
    if active_config(method.model) is not None:
        return _share(_traced(method, item) == _asked(item) for item in items)
    made = [method.ask([item["prompt"]], method.limit([item]))[0][1] for item in items]
    if method.form.tool is not None:
        return _share(_asked(item) in answer.calls for item, answer in zip(items, made, strict=True))
    if method.form.scratchpad:
        texts = [method.tokenizer.decode(answer.tokens) for answer in made]
        heads = [scratchpads.head(scratchpads.steps(item["igc_operator"], *item["igc_operands"])) for item in items]
        return _share(scratchpads.head(text) == head for text, head in zip(texts, heads, strict=True))
    return None


def _asked(item: Mapping[str, Any]) -> tuple[str, str, str]:
    """Operator and operands of an item."""
    return item["igc_operator"], *item["igc_operands"]


def _traced(method: Method, item: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Operator and operands of the first step that a calculator did."""
    steps = trace(method.model, method.tokenizer, item["prompt"]).steps
    step = next((step for step in steps if step.status == "ok"), None)
    return None if step is None else (step.operator, *(number.text for number in step.operands))


def result_followed(method: Method, items: Items) -> float | None:
    """How often the answer is another number than the right one where that number is put in the result's place."""
    return _share_or_none([_follows(method, item, _other(item["target"])) for item in items])


def _follows(method: Method, item: Mapping[str, Any], other: str) -> bool | None:
    """Whether one answer follows; None where there is no place for a result."""
    limit = method.limit([item]) + 4  # the other number may be longer
    if method.model is None:
        with patch.object(fixed_parser, "evaluate_exactly", lambda *call: other):
            return fixed_parser.answer(item["prompt"]) == other
    config = active_config(method.model)
    if config is not None:
        with patch("peft_igc.tuner.steps.calculate_step", _forced(other)):
            return method.ask([item["prompt"]], limit)[0][0] == other
    if method.form.tool is not None:
        told = replace(method.form.tool, calculate=lambda *call: other)
        return method.ask([item["prompt"]], limit, told)[0][0] == other
    if not method.form.scratchpad:
        return None
    steps = scratchpads.steps(item["igc_operator"], *item["igc_operands"])
    before, _, _ = steps.rpartition(";")
    given = f"{before};{scratchpads.spelled(int(other.lstrip('-')))}{scratchpads.MARK}"
    prompt = prompt_tokens(method.tokenizer, [item["prompt"]], raw=False)[0]
    prompt = prompt + method.tokenizer(given, add_special_tokens=False)["input_ids"]
    made = answered(method.model, method.tokenizer, [prompt], limit)[0]
    return method.shown(made).lstrip("-") == other.lstrip("-")  # a sign stands elsewhere in the steps


def _other(target: str) -> str:
    """A number near the target."""
    return str(int(target) + 1)


def _forced(other: str) -> Callable[..., Any]:
    """A calculator that has one result for everything it would answer."""

    def step(config: Any, choice: Any, anchors: torch.Tensor) -> Any:
        result = calculate_step(config, choice, anchors)
        ok = result.status == int(Status.OK)
        digits, sign = encode([other], result.digits.shape[-1], result.digits.device)
        digits = torch.where(ok[..., None], digits[0], PAD)
        return result._replace(digits=digits, sign=torch.where(ok, sign[0], 0))

    return step


def unharmed(method: Method, base: Method, prompts: Sequence[str]) -> float | None:
    """How often a text without arithmetic gets the base model's answer."""
    if method.model is None:
        return _share(text == "" for text, _ in method.ask(prompts, SILENT_TOKENS))  # a parser has to stay silent
    both = (one.ask(prompts, SILENT_TOKENS) for one in (method, base))
    return _share(one.tokens == other.tokens for (_, one), (_, other) in zip(*both, strict=True))


class _Reads(TorchDispatchMode):
    """Counts values that are brought to the host while `within` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.within, self.passes = 0, False, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += self.within and func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@contextmanager
def _passes_only(model: Any, reads: _Reads) -> Iterator[None]:
    """Lets `reads` count within forward passes of a model alone."""

    def enter(*_: Any) -> None:
        reads.within, reads.passes = True, reads.passes + 1

    def leave(*_: Any) -> None:
        reads.within = False

    handles = model.register_forward_pre_hook(enter), model.register_forward_hook(leave)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def host_reads(method: Method, items: Items) -> float | None:
    """Values per forward pass that the pass brings to the host."""
    if method.model is None:
        return None
    with _Reads() as reads, _passes_only(method.model, reads):
        for item in items:
            method.ask([item["prompt"]], method.limit([item]))
    return reads.count / reads.passes


def new_operation(method: Method, n: int = 200) -> float | None:
    """How often a fifth operation, the larger of two numbers, is calculated exactly; its reading is not trained."""
    config = None if method.model is None else active_config(method.model)
    if config is None:
        return None
    rng = random.Random(FIFTH)
    pairs = [[str(rng.randrange(-(10**4), 10**4)) for _ in range(2)] for _ in range(n)]
    with _registered(Operation("larger", FIFTH, _larger, lambda a, b, division: max(a, b))):
        operations = [*config.operations, FIFTH]
        encoded = [encode(pair, config.num_digits) for pair in pairs]
        digits, signs = (torch.stack(parts) for parts in zip(*encoded, strict=True))
        which = torch.full((n,), len(operations) - 1)
        made = calculate(digits, signs, which, operations=operations, result_digits=config.result_digits)
        wanted = [str(evaluate_exactly(FIFTH, *pair)) for pair in pairs]
    expected, expected_signs = encode(wanted, config.result_digits)
    right = (made.digits == expected).all(-1) & (made.sign == expected_signs) & (made.status == int(Status.OK))
    return right.float().mean().item()


@contextmanager
def _registered(operation: Operation) -> Iterator[None]:
    """An operation for a while."""
    calculator.register_operation(operation)
    try:
        yield
    finally:
        del calculator.OPERATIONS[operation.symbol]


def _larger(a: Operand, b: Operand, division: str) -> Outcome:
    """The larger of two numbers, from the sign of their difference."""
    difference = calculator.OPERATIONS["-"].function(a, b, "exact")
    is_second = (difference.sign == 1) & (difference.digits != 0).any(-1)
    digits = torch.where(is_second[..., None], b.digits, a.digits)
    return Outcome(digits, torch.where(is_second, b.sign, a.sign), torch.zeros_like(a.sign))


def _share(hits: Any) -> float:
    """The part of hits."""
    hits = list(hits)
    return sum(hits) / len(hits)


def _share_or_none(hits: Sequence[bool | None]) -> float | None:
    """The part of hits; None where there was nothing to hit."""
    return None if any(hit is None for hit in hits) else _share(hits)
