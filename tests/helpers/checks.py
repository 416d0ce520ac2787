"""What the tests of the core share: adapted tiny models, watching the steps, decoding by hand.

The adapters here are random but telling: they read other numbers from other texts, clearly (`MARGIN`), and what they
write moves the logits, so that a mix-up of rows, anchors or steps shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_models import VOCABULARY, small_config, tiny_model
from tiny_vocabulary import TABLE
from transformers import LogitsProcessor

from peft_igc.data.columns import check_columns, encode_steps
from peft_igc.mappings.readings import NEVER, Pointing
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from peft_igc.text.values import Limits
from peft_igc.text.vocabulary import UNSEEN
from peft_igc.tuner.call import observing
from peft_igc.tuner.saving.companions import NESTED
from peft_igc.tuner.state.cache import states_of
from peft_igc.tuner.state.text_state import TextState
from peft_igc.tuner.steps import Step


TOLERANCE = 1e-4
IDS = torch.tensor([[5, 6, 7, 8, 3, 9, 4]])
MARGIN = 1e-2  # between the best two classes of every slot: a hundred times what another order of sums may move


class Calculation(NamedTuple):
    """One step of one row, position counted in real tokens from the text's start."""

    position: int
    digits: tuple[int, ...]
    sign: int
    status: int


class Meanwhile(LogitsProcessor):
    """Runs a function of the tokens so far after every pass of a `generate`."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        self.function, self.results = function, []  # type: ignore[var-annotated]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.results.append(self.function(input_ids))
        return scores


class Saying(LogitsProcessor):
    """Makes each row of a `generate` go on with tokens of its own after prompts of that width."""

    def __init__(self, width: int, rows: list[list[int]]) -> None:
        self.width, self.rows = width, rows

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = torch.tensor([row[input_ids.shape[1] - self.width] for row in self.rows])
        return torch.full_like(scores, -1e4).scatter(1, chosen[:, None], 0.0)


def telling(model: PeftModel, name: str = "default", seed: int = 0) -> PeftModel:
    """Makes the random adapter's readings depend on the text, its updates on the result, and both strongly."""
    generator = torch.Generator().manual_seed(seed)
    for layer in igc_layers(model):
        if name not in layer.igc_config:
            continue
        reader, writer = layer.igc_input_mapping[name], layer.igc_output_mapping[name]
        points = layer.igc_config[name].interface == "tokens"
        with torch.no_grad():
            heads = (reader.pointer if points else reader.digit_head, reader.sign_head, reader.operator_head)
            attends = getattr(reader, "fixed", None) is None
            inner = (reader.anchor_query, reader.compression) if attends else (reader.compression,)
            inner += (reader.embedded_compression,) if points else ()
            for linear in (*heads, *inner, writer.write_down):
                linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator))
            for linear in heads:
                linear.weight.mul_(3)
            if attends:
                reader.slots.copy_(4 * torch.randn(reader.slots.shape, generator=generator))
            reader.operator_head.bias[:3] = 0  # +, - and *: a number comes out, whatever is read
            if points:
                for relative in reader.relative:  # without which two numbers look alike
                    relative.weight.copy_(3 * torch.randn(relative.weight.shape, generator=generator))
            else:
                writer.digit.weight.mul_(1.5)
    return model


def adapted(arch: str = "llama", seed: int = 0, overrides: dict[str, Any] | None = None, **fields: Any) -> PeftModel:
    """A tiny model with a telling random adapter, in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)
        model = get_peft_model(tiny_model(arch, **(overrides or {})), small_config(**fields))
    return telling(model, seed=seed).eval()


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    """Asserts that two tensors are equal but for another order of sums."""
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> None:
    """Asserts that two tensors are equal bit for bit."""
    assert torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


def layer_output(model: torch.nn.Module, ids: torch.Tensor, **more: Any) -> torch.Tensor:
    """[B, T, H] what leaves the calculator's decoder layer."""
    seen: list[torch.Tensor] = []
    with igc_layers(model)[0].get_base_layer().register_forward_hook(lambda m, a, output: seen.append(output)):
        model(input_ids=ids, use_cache=False, **more)
    return seen[0]


def logits(model: torch.nn.Module, ids: torch.Tensor = IDS) -> torch.Tensor:
    """[B, T, V] logits of a pass in eval mode."""
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


def lora(**fields: Any) -> LoraConfig:
    """A LoRA that changes outputs."""
    return LoraConfig(**{"r": 4, "target_modules": ["q_proj", "up_proj"], "init_lora_weights": False, **fields})


@contextmanager
def nesting() -> Iterator[None]:
    """Around what nests adapters by hand, of which PEFT warns. What is loaded together has to be silent."""
    with warnings.catch_warnings():
        for message in NESTED:
            warnings.filterwarnings("ignore", message)
        yield


def igc_layers(model: torch.nn.Module) -> list[Any]:
    """The `IGCLayer`s of a model."""
    return [module for module in model.modules() if hasattr(module, "igc_input_mapping")]


def traces(model: torch.nn.Module) -> dict[str, Any]:
    """All that attaching could leave behind, module by module."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
    return {
        path: (
            type(module),
            sorted(set(vars(module)) - {"training"}),
            list(module._modules),
            [len(getattr(module, name)) for name in hooks],
        )
        for path, module in model.named_modules()
    }


def texts(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    """[rows, length] random ids without special tokens."""
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def left_padded(rows: list[torch.Tensor], extra: int = 0) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask` of one-dimensional rows, padded on the left to the longest plus `extra`."""
    width = max(map(len, rows)) + extra
    ids = torch.stack([torch.nn.functional.pad(row, (width - len(row), 0)) for row in rows])
    mask = torch.stack([torch.arange(width) >= width - len(row) for row in rows]).long()
    return {"input_ids": ids, "attention_mask": mask}


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    """`position_ids` as `generate` makes them from a mask."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


@contextmanager
def watching(kind: Any = Step) -> Iterator[list[Any]]:
    """The list of the events of a kind, `Step` or `Writing`, that happen meanwhile in this thread, in order."""
    seen: list[Any] = []
    with observing(lambda event: seen.append(event) if isinstance(event, kind) else None):
        yield seen


def state_of(cache: Any, name: str = "default", layer: int = 1) -> TextState:
    """The state of an adapter's text on a cache."""
    state = states_of(cache, layer).get(name)
    assert state is not None
    return state


def all_ids(state: TextState) -> torch.Tensor:
    """The ids [B, L] of a text, with `PADDING` and `UNSEEN`."""
    return state.recent(state.length)


def calculations(state: TextState) -> list[list[Calculation]]:
    """The steps of each row of a text, in the order of their anchors."""
    real = (all_ids(state) > UNSEEN).cumsum(1) - 1
    found, rows = state.steps, []
    for row, anchors in enumerate(state.anchors):
        steps = []
        for a, (at, _) in enumerate(anchors):
            if at >= 0:
                digits = tuple(d for d in found.digits[row, a].tolist() if d != PAD)
                sign, status = int(found.sign[row, a]), int(found.status[row, a])
                steps.append(Calculation(int(real[row, at]), digits, sign, status))
        rows.append(sorted(steps))
    return rows


def telling_texts(model: torch.nn.Module, lengths: list[int], seed: int = 0) -> list[torch.Tensor]:
    """Random texts of these lengths which the model clearly reads as different calculations at their ends.

    None of them ends in a number: the token interface writes nothing into one.
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[torch.Tensor] = []
    results: set[Any] = set()
    for length in lengths:
        drawn = torch.randint(3, VOCABULARY, (300, length), generator=generator)
        step = steps_of(model, drawn, torch.full((300, 1), length - 1))
        ended = torch.tensor([token not in TABLE.numbers for token in drawn[:, -1].tolist()])
        clear = (margins(step) > 2 * MARGIN) & (step.result.status[:, 0] == Status.OK) & ended
        for row in clear.nonzero().flatten().tolist():
            result = tuple(step.result.digits[row, 0].tolist()), int(step.result.sign[row, 0])
            if result not in results:
                results.add(result)
                found.append(drawn[row])
                break
    assert len(found) == len(lengths), "the adapter reads the same from every text"
    return found


def steps_of(model: torch.nn.Module, ids: torch.Tensor, anchors: torch.Tensor, **more: Any) -> Step:
    """What one pass over whole texts reads and calculates."""
    with watching() as seen:
        scored(model, ids, anchors, **more)
    return seen[0]


def margins(step: Step) -> torch.Tensor:
    """[B], in each row the smallest distance between the best two of what could have been read in one place.

    That is the classes of a slot, or the numbers of the text with their signs; infinite without an anchor, and where a
    text has no two numbers.
    """
    reading = step.reading
    slots: list[torch.Tensor] = []
    if isinstance(reading, Pointing):
        # the second operand is another number than the first one
        first, second = reading.scores.unbind(2)  # [B, A, W, 2] each
        taken = first.amax(-1).argmax(-1, keepdim=True)[..., None]  # [B, A, 1, 1]
        second = second.scatter(2, taken.expand(-1, -1, -1, 2), NEVER)
        slots = [first.flatten(2), second.flatten(2), reading.operator]
    pairs = [logits.topk(2, -1).values for logits in slots or reading]
    least = torch.stack([(p[..., :1] - p[..., 1:]).flatten(2).amin(-1) for p in pairs]).amin(0)  # [B, A]
    nothing = step.anchors < 0
    if isinstance(reading, Pointing):
        nothing |= (reading.digits[..., 0] != PAD).sum(-1) < 2
    return least.masked_fill(nothing, float("inf")).amin(1)


def margin(step: Step) -> float:
    """The smallest of the `margins`."""
    return float(margins(step).min())


def scored(model: torch.nn.Module, ids: torch.Tensor, anchors: torch.Tensor | None, **more: Any) -> torch.Tensor:
    """[B, T, V] logits of one pass over whole texts, nothing cached."""
    if anchors is not None:
        more["igc_anchors"] = anchors
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False, **more).logits


def generated(model: torch.nn.Module, *, new: int = 5, **more: Any) -> Any:
    """`generate`, greedy unless told otherwise, with everything returned; `stacked` logits are [B, new, V]."""
    out = model.generate(
        **{"do_sample": False, "max_new_tokens": new, "pad_token_id": 0, **more},
        return_dict_in_generate=True,
        output_logits=True,
    )
    out.stacked = torch.stack(out.logits, 1)
    return out


def assert_as_scored(model: torch.nn.Module, out: Any, rows: list[torch.Tensor], anchors: list[list[int]]) -> None:
    """Each generated sequence has the logits that a pass over its own text alone gives, with anchors in its prompt."""
    for row, at, sequence, got in zip(rows, anchors, out.sequences, out.stacked, strict=True):
        text = torch.cat([row, sequence[-len(out.logits) :]])[None]
        close(got, scored(model, text, torch.tensor([at]))[0, len(row) - 1 : -1])


def targets(*rows: Any, num_digits: int = 4, result_digits: int = 4) -> dict[str, torch.Tensor]:
    """The `igc_*` targets of rows: `("+", "12", "30")`, `"none"`, None (not supervised), or a list of such."""
    steps = []
    for row in rows:
        row = row if isinstance(row, list) else [row]
        columns = [(r[0], list(r[1:]), None) if isinstance(r, tuple) else (r, None, None) for r in row]
        names = ("igc_operator", "igc_operands", "igc_result")
        lists = {name: list(column) for name, column in zip(names, zip(*columns, strict=True), strict=True)}
        steps.append(check_columns(lists, Limits(num_digits, result_digits)))
    return encode_steps(steps, Limits(num_digits, result_digits))
