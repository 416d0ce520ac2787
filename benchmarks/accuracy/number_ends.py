"""What the model should write where a number has ended: what the base would, if it were not a digit.

In: rows of a second stage with `open_ends`, a bool for each of their last tokens: no digit may follow it, or none but
zeros if it is True. Out: a trainer whose writing is trained there, too, by the base's own distribution without digits.
The text that happens to follow a number in a training row is a poor target: a writing that learns it by heart pushes
the model to its words elsewhere, and sometimes to another digit.

Shapes: B rows, T tokens from the anchor on, N places, V tokens of the vocabulary.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from peft_igc.inference.decoding import eval_mode
from peft_igc.text.token_table import TokenTable
from peft_igc.trainer import IGCTrainer
from peft_igc.trainer.two_stage import Batch, without_calculator
from peft_igc.tuner.hooks.wrapper import active_config


IMPOSSIBLE = -1e4  # a logit whose probability is zero, and finite, as a divergence multiplies it with that zero


def digit_tokens(table: TokenTable, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[V] bool each: which tokens would continue a number, and which of these would change its value after a point.

    Zeros change nothing there: 7 is 7.00. A point alone may end a sentence.
    """
    characters = {token: table.characters(token) for token in range(len(table.vocabulary.tokens))}
    texts = {token: text for token, text in characters.items() if text[:1] != " " and any(map(str.isdigit, text))}
    digits, changing = torch.zeros(2, size, dtype=torch.bool)
    digits[list(texts)] = True
    changing[[token for token, text in texts.items() if text.strip("0.")]] = True
    return digits, changing


def without_digits(
    logits: torch.Tensor, zeros: torch.Tensor, tokens: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """The base's log-probabilities [N, V] at each place, given that no digit follows, or none but zeros where `zeros`
    [N] is True, as after 7.5; from its logits [N, V], and the `tokens` of `digit_tokens`."""
    digits, changing = (one.to(logits.device) for one in tokens)
    forbidden = torch.where(zeros[:, None], changing, digits)  # [N, V]
    return logits.float().masked_fill(forbidden, IMPOSSIBLE).log_softmax(-1)


class Ends(NamedTuple):
    """Where the numbers of a batch have ended.

    Attributes:
        row, place: [N] int64, indices of each token after which no digit may follow that would change the number.
        target: [N, V] log-probabilities of what may, in the model's dtype.
    """

    row: torch.Tensor
    place: torch.Tensor
    target: torch.Tensor


def ends_of(model: Any, batch: Batch) -> Ends | None:
    """The ends of a batch, with what the base would write there; None if there are none.

    Raises:
        ValueError: There are `open_ends`, and the calculator has the hidden interface or writes again.
    """
    found = [
        (index, length - len(ends) + at, zeros)
        for index, (row, length) in enumerate(zip(batch.rows, batch.lengths, strict=True))
        for ends in [row.get("open_ends", ())]
        for at, zeros in enumerate(ends)
    ]
    if not found:
        return None
    config = active_config(model)
    if config is None or config.token_table is None or config.write_again:
        raise ValueError(
            "`open_ends` need a calculator with the token interface, which knows the digits, and `write_again=False`, "
            "which ends a result once. Leave them out of the rows."
        )
    inputs = {name: batch.inputs[name] for name in ("input_ids", "attention_mask", "position_ids")}
    row, place, zeros = torch.tensor(found, device=model.device).T
    with torch.no_grad(), eval_mode(model), without_calculator(model):
        logits = model(**inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True).logits[row, place]
    target = without_digits(logits, zeros.bool(), digit_tokens(config.token_table, logits.shape[-1]))
    return Ends(row, place, target.to(logits.dtype))


class OpenEndsTrainer(IGCTrainer):
    """`IGCTrainer` whose second stage also trains what follows the ends of numbers."""

    def writing_loss(self, batch: Batch, output: Any) -> torch.Tensor:
        """The mean over all labels [B, T] and ends."""
        if not hasattr(self, "_ends"):
            self._ends: dict[int, Ends | None] = {}
        if id(batch) not in self._ends:  # the same batches in every epoch
            self._ends[id(batch)] = ends_of(self.model, batch)
        ends, labels = self._ends[id(batch)], batch.inputs["labels"]
        if ends is None:
            return super().writing_loss(batch, output)
        count = int((labels[:, 1:] != -100).sum())
        written = output.logits[ends.row, ends.place].float().log_softmax(-1)
        there = F.kl_div(written, ends.target.float(), reduction="sum", log_target=True)
        return (output.loss * count + there) / (count + len(ends.row))
