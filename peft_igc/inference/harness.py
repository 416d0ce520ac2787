"""`IGCLM`: a model class for lm-evaluation-harness (lm_eval 0.4.13) that knows where a question ends, and its tasks.

    FOLDER=$(python -c "import peft_igc; print(peft_igc.__path__[0])")/assets/lm_eval
    lm_eval --model igc --model_args pretrained=tiny,peft=tiny --include_path $FOLDER --apply_chat_template \
        --tasks arithmetic_generated
    lm_eval ... --tasks arithmetic_file --metadata '{"data": "items.jsonl"}'

A likelihood request is one text with its answer in it, so the anchors are those that `generate` would find: the end of
the *context*, and token sequences. Greedy decoding takes no penalties from the checkpoint. All else, batches and
padding included, is the parent's, so that a task without arithmetic is scored as by `hf`, to the digit.

The tasks are YAML files that name `generated` (items of our generator in the form of BIG-bench) or `from_file` (items
of `peft-igc eval`).

Shapes: B rows of a batch, T tokens of its longest text, A anchors per row.
"""

from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from peft import PeftModel

from ..data.bigbench import bigbench_test_set
from ..data.files import read_items
from ..tuner.anchors import Rules, anchors_of_row, even, positions
from ..tuner.base_model import TINY
from ..tuner.hooks.wrapper import active_config
from .loading import find_base, load_adapter


Request = tuple[Any, list[int], list[int]]  # the strings; tokens of the context and of the answer
Ends = dict[tuple[int, ...], int]  # index of the context's last token, by `key_of` the text
_FILL = 0  # the token with which the harness fills short rows, on the right and without a mask


def key_of(tokens: Sequence[int]) -> tuple[int, ...]:
    """A text, backwards and without the fill tokens at its end, by which a row of a batch is found again."""
    return tuple(dropwhile(lambda token: token == _FILL, reversed(tokens)))


def waves(requests: Sequence[Request], longest: int) -> list[tuple[list[int], Ends]]:
    """Splits requests so that within each part a text has one end of its context: one part in nearly all cases.

    Each part has the indices of its requests and the ends of their contexts. The harness cuts texts that are longer
    than `longest` on the left.
    """
    parts: list[tuple[list[int], Ends]] = []
    for index, (_, context, answer) in enumerate(requests):
        text = [*context, *answer][-(longest + 1) :][:-1]
        key, end = key_of(text), len(text) - len(answer)
        part = next((part for part in parts if part[1].setdefault(key, end) == end), None)
        if part is None:
            parts.append(part := ([], {key: end}))
        part[0].append(index)
    return parts


def anchors_of_batch(ids: torch.Tensor, ends: Ends, rules: Rules) -> torch.Tensor | None:
    """Anchors [B, A] of likelihood requests, -1 for none, where `generate` would have them after the same context.

    `ids` [B, T] int64 are texts that are filled on the right. None if none of them is a request: the harness is trying
    batch sizes. If only some are, the harness makes its batches in a new way, which is a RuntimeError.
    """
    found = [ends.get(key_of(row)) for row in ids.tolist()]
    known = [end for end in found if end is not None]
    if not known:
        return None
    if len(known) < len(found):
        raise RuntimeError(
            f"{len(found) - len(known)} of {len(found)} rows of a batch are no likelihood requests, so their anchors "
            "are unknown. This version of `lm_eval` makes its batches in another way: install 0.4.13."
        )
    # The fill may end a token sequence, too: what is written after a text changes nothing in it.
    both = zip(ids.tolist(), known, strict=True)
    anchors = [anchors_of_row(rules, row, 0, len(row), [end] if rules.prompt_end else []) for row, end in both]
    return positions(even(anchors), ids.device)


@register_model("igc")
class IGCLM(HFLM):
    """A causal LM with or without an IGC adapter, for lm-evaluation-harness.

    Args:
        pretrained: as in `HFLM`, or `"tiny"` for the embedded base.
        peft: folder or hub id of an adapter, or `"tiny"` for the embedded base's; None: the base alone.
        kwargs: all other arguments of `HFLM`.
    """

    _model: Any

    def __init__(self, pretrained: Any, peft: str | None = None, **kwargs: Any) -> None:
        self._ends: Ends = {}
        if pretrained == TINY and kwargs.get("dtype", "auto") in ("auto", None):
            kwargs["dtype"] = "float32"  # as in `load_base`: it is stored in bfloat16 only to be small
        found = str(find_base(pretrained)) if isinstance(pretrained, str) else pretrained
        super().__init__(found, peft=peft, **kwargs)

    def _create_model(self, *args: Any, peft: str | None = None, **kwargs: Any) -> None:
        """Loads the base with the parent's method, and the adapter with ours."""
        super()._create_model(*args, peft=None, **kwargs)
        if peft and (peft == TINY or Path(peft).expanduser().is_dir()):
            self._model = load_adapter(self._model, peft)
        elif peft:
            self._model = PeftModel.from_pretrained(self._model, peft, revision=kwargs.get("revision")).eval()

    def _loglikelihood_tokens(self, requests: Sequence[Request], *args: Any, **kwargs: Any) -> list[Any]:
        """The parent's method, which finds the ends of the contexts in `_ends`."""
        if active_config(self.model) is None:
            return super()._loglikelihood_tokens(requests, *args, **kwargs)
        answers: dict[int, Any] = {}
        for indices, ends in waves(requests, self.max_length):
            self._ends = ends
            try:
                found = super()._loglikelihood_tokens([requests[index] for index in indices], *args, **kwargs)
            finally:
                self._ends = {}
            answers.update(zip(indices, found, strict=True))
        return [answers[index] for index in range(len(requests))]

    def _model_call(self, inps: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """[B, T, vocabulary] logits of texts [B, T], with the anchors of likelihood requests."""
        config = active_config(self.model)
        anchors = None if config is None else anchors_of_batch(inps, self._ends, Rules.of(config))
        if anchors is None:
            return super()._model_call(inps, *args, **kwargs)
        mixed = self.mixed_precision_dtype
        with torch.no_grad(), torch.autocast(self.device.type, dtype=mixed, enabled=mixed is not None):
            return self.model(inps, igc_anchors=anchors).logits

    def _model_generate(self, context: torch.Tensor, max_length: int, stop: list[str], **kwargs: Any) -> torch.Tensor:
        """The parent's method without the checkpoint's own penalties, which make repeated digits wrong."""
        neutral = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
        return super()._model_generate(context, max_length, stop, **{**neutral, **kwargs})


# ------------------------------------------------------------------------------------------ tasks
def generated(per_group: int = 10, seed: int = 0, **metadata: Any) -> dict[str, Any]:
    """Items of the generator, `per_group` for each of the twenty operations and lengths."""
    return _rows(bigbench_test_set(per_group, seed))


def from_file(data: str | None = None, **metadata: Any) -> dict[str, Any]:
    """Items of `peft-igc eval`, from the file `data`."""
    if not data:
        raise ValueError('The task has no file to read. Pass its path: `--metadata \'{"data": "items.jsonl"}\'`.')
    return _rows(read_items(Path(data).expanduser()))


def _rows(items: list[dict[str, Any]]) -> dict[str, Any]:
    columns = ("prompt", "target", "group")
    return {"test": Dataset.from_list([{name: str(item.get(name) or "") for name in columns} for item in items])}


def match(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Exact match of a generated answer, as in `peft-igc eval`: white space at both ends does not count."""
    return {"exact_match": float(results[0].strip() == doc["target"].strip())}
