"""What has to be right before the inference cost of a method is timed, and the texts that it is timed on.

In: a `Subject` (see `shapes`), its base and the embedded tokenizer. Out: what was found, for JSON. A method that is
wrong (it does not calculate, writes where nothing is asked, differs with a cache, holds a copy of the embeddings) ends
the run with a sentence; so does one that reads a text of the timed length otherwise. Nothing is timed here.
Try it: `pytest tests/benchmarks/test_overhead.py`

Shapes: B rows, T tokens of a prompt, N tokens behind it, A steps per row, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.common.shapes import Subject, adapter_memory
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Step


CALCULATION, PLAIN = "calculation", "plain"
TEXTS = {CALCULATION: "What is 58 times 36?", PLAIN: "What is the name of it?"}
OPERATIONS = {CALCULATION: "*", PLAIN: None}
FILLER = "The house was old and it stood in a green garden near the river. "
STEPS = 3  # decoding steps that are compared
COMPILED_MOVES = {torch.float32: 1e-3, torch.bfloat16: 0.1}  # what another order of sums may move, of the largest


def text_of(tokenizer: Any, kind: str, rows: int, length: int) -> torch.Tensor:
    """Ids [rows, length] of a chat that ends in an assistant header; words fill it up in front of the question.

    Raises:
        ValueError: if the question alone is longer.
    """
    asked, other = (_chat(tokenizer, question) for question in (TEXTS[kind], FILLER))
    opening = next(at for at, (one, two) in enumerate(zip(asked, other, strict=False)) if one != two)
    if length < len(asked):
        raise ValueError(f"`length={length}` is too short for the question, which has {len(asked)} tokens.")
    words = tokenizer(FILLER, add_special_tokens=False)["input_ids"]
    filled = (words * (length // len(words) + 1))[: length - len(asked)]
    return torch.tensor([*asked[:opening], *filled, *asked[opening:]]).repeat(rows, 1)


def _chat(tokenizer: Any, question: str) -> list[int]:
    """Ids of a chat of one question."""
    chat = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]


def fed_tokens(tokenizer: Any, rows: int, steps: int, device: torch.device) -> torch.Tensor:
    """Ids [rows, steps] that decoding is fed, whatever it says, so that all methods see the same text."""
    words = tokenizer(FILLER, add_special_tokens=False)["input_ids"]
    return torch.tensor((words * (steps // len(words) + 1))[:steps], device=device).repeat(rows, 1)


@contextmanager
def statuses() -> Iterator[list[torch.Tensor]]:
    """The statuses [B, A] of all steps that run meanwhile."""
    seen: list[torch.Tensor] = []

    def watch(step: Any) -> None:
        if isinstance(step, Step):
            seen.append(step.result.status[step.anchors >= 0])

    with observing(watch):
        yield seen


def logits_of(model: Any, ids: torch.Tensor, fed: torch.Tensor, cached: bool) -> torch.Tensor:
    """Logits [B, 1 + N, V] behind a prompt and each of N tokens, with a cache or in one pass."""
    if not cached:
        whole = torch.cat([ids, fed], 1)
        return model(input_ids=whole, use_cache=False, logits_to_keep=fed.shape[1] + 1).logits
    out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    found = [out.logits]
    for at in range(fed.shape[1]):
        out = model(input_ids=fed[:, at : at + 1], past_key_values=out.past_key_values, logits_to_keep=1)
        found.append(out.logits)
    return torch.cat(found, 1)


@torch.inference_mode()
def checked(subject: Subject, base: Any, tokenizer: Any, length: int = 48) -> dict[str, Any]:
    """Sees that a method with a calculator is right where it is going to be timed; `SystemExit` says what is wrong."""
    device = next(base.parameters()).device
    fed = fed_tokens(tokenizer, 2, STEPS, device)
    found: dict[str, Any] = {}
    for kind in TEXTS:
        ids = text_of(tokenizer, kind, 2, length).to(device)
        reference, whole = (logits_of(base, ids, fed, cached) for cached in (True, False))
        with subject.told(OPERATIONS[kind]), statuses() as seen:
            cached = logits_of(subject.model, ids, fed, True)
            steps = torch.cat(seen) if seen else torch.empty(0)
            uncached = logits_of(subject.model, ids, fed, False)
        ok = int((steps == int(Status.OK)).sum())
        if len(steps) != 2 or ok != 2 * (kind == CALCULATION):
            raise SystemExit(
                f"{subject.method}: the {kind} text was read {len(steps)} times with the status ok {ok} times in two "
                "rows: not what is to be timed."
            )
        if kind == PLAIN and not torch.equal(cached, reference):
            raise SystemExit(f"{subject.method}: text without arithmetic has other logits than the base's.")
        if kind == CALCULATION and torch.equal(cached[:, 1:], reference[:, 1:]):
            raise SystemExit(f"{subject.method}: nothing was written behind the calculation.")
        difference, own = (float((a - b).abs().max()) for a, b in ((cached, uncached), (reference, whole)))
        if not difference <= max(1e-4 * float(uncached.abs().max()), 4 * own):
            raise SystemExit(
                f"{subject.method}: with a cache the logits of the {kind} text differ by {difference:.1e} from those "
                f"of one pass; the base's own by {own:.1e}."
            )
        found[kind] = {"steps": len(steps), "ok": ok, "cached_against_uncached": difference, "of_the_base": own}
    return found


def check_read(
    subject: Subject, kind: str, seen: list[torch.Tensor], rows: int, length: int, prompts: int
) -> dict[str, int]:
    """Sees that a text of the length that is timed is read as it should be; `SystemExit` says what is wrong.

    Args:
        subject: the method; one without a calculator has nothing to read.
        kind: of the text: in each row of a calculation the step is ok, in plain text none is.
        seen: of `statuses`, the prompts before anything else.
        rows, length: of the prompt.
        prompts: how often it was read.

    Returns:
        How many `steps` there were, how many of them `ok`, and how many `in_generated_text`, which has anchors of its
        own only where a model writes a header (`overhead.greedy_tokens` does not let it).
    """
    ok = [int((steps == int(Status.OK)).sum()) for steps in seen]
    found = {"steps": sum(map(len, seen)), "ok": sum(ok), "in_generated_text": sum(map(len, seen[prompts:]))}
    if not subject.calculators:
        return found
    all_read = [len(steps) for steps in seen[:prompts]] == [rows] * prompts
    as_it_should = ok[:prompts] == [rows] * prompts if kind == CALCULATION else not any(ok)
    if not (all_read and as_it_should):
        raise SystemExit(
            f"{subject.method}: where it is timed, the {kind} text of {length} tokens was read {found['steps']} times "
            f"with the status ok {found['ok']} times; it has {rows} rows and came {prompts} times."
        )
    return found


def check_compiled(subject: Subject, compiled: torch.Tensor, eager: torch.Tensor) -> None:
    """Sees that a compiled graph gives the logits [B, N, V] of the model as it is; `SystemExit` if not."""
    difference, scale = float((compiled - eager).abs().max()), float(eager.abs().max())
    if not difference <= COMPILED_MOVES[eager.dtype] * scale:
        raise SystemExit(f"{subject.method}: compiled, the logits differ by {difference:.1e} of at most {scale:.1e}.")


def checked_memory(subject: Subject, base: Any) -> dict[str, Any]:
    """What a method holds in memory; `SystemExit` if it has a tensor of its own as large as the embeddings."""
    held = adapter_memory(subject.model, base)
    embeddings = base.get_input_embeddings().weight
    if held["largest"] >= embeddings.numel():
        raise SystemExit(
            f"{subject.method}: a tensor of {held['largest']} elements is its own; the embeddings have "
            f"{embeddings.numel()}, so they may have been copied."
        )
    return held


@torch.inference_mode()
def record_bytes(subject: Subject, tokenizer: Any, length: int = 48) -> dict[str, float]:
    """Bytes per token of the state that follows the KV cache, beside the cache's own."""
    ids = text_of(tokenizer, CALCULATION, 1, length).to(subject.model.device)
    cache = subject.model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
    states = [state for layer in cache.layers for state in getattr(layer, "_igc", {}).values()]
    own = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers) / length
    beside = sum(state.nbytes for state in states) / length
    return {"cache_bytes_per_token": own, "record_bytes_per_token": beside}
