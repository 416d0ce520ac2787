"""The target behind a number is the base's own distribution without what would continue the number."""

import copy

import pytest
import torch
from peft import get_peft_model
from tiny_models import RandomConfig

from benchmarks.accuracy.number_ends import OpenEndsTrainer, digit_tokens, divergence, ends_of
from peft_igc import tiny_base
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import Mixture
from peft_igc.text import Vocabulary
from peft_igc.text.token_table import TokenTable
from peft_igc.trainer.batches import tokenized
from peft_igc.trainer.two_stage import after_prompts


def test_digits_without_a_space_continue_a_number_and_zeros_leave_a_decimal_as_it_is():
    tokens = [*(str(at).encode() for at in range(10)), b"00", b" 5", b".", b".5", b"0.", b"-"]
    digits, changing = digit_tokens(TokenTable(vocabulary=Vocabulary(tokens), group=1, minus=15, point=12), 16)
    assert digits.nonzero()[:, 0].tolist() == [*range(11), 13, 14]
    assert changing.nonzero()[:, 0].tolist() == [*range(1, 10), 13]


ONLY_RESULTS = Mixture(none=0, overflow=0, undefined=0, inexact=0, sentences=0)


def with_open_ends(rows, tokenizer):
    """Rows that end in a number and a point instead of the end of the turn; zeros may follow the point."""
    ends = {"input_ids": tokenizer(".", add_special_tokens=False)["input_ids"][-1], "labels": -100}
    changed = [{name: [*row[name][:-1], end] for name, end in ends.items()} for row in rows]
    return [{**row, **new, "open_ends": [False, True]} for row, new in zip(rows, changed, strict=True)]


@pytest.fixture
def writes_once():
    base, tokenizer = tiny_base()
    torch.manual_seed(0)
    sizes = {"reading_dim": 32, "num_heads": 2, "num_digits": 40}
    model = get_peft_model(base, RandomConfig.from_tokenizer(tokenizer, layer=1, write_again=False, **sizes))
    rows = tokenized(ArithmeticRows(seed=3, num_digits=40, mixture=ONLY_RESULTS).take(5), tokenizer)
    return model, tokenizer, with_open_ends(rows[:3], tokenizer) + rows[3:]


def test_an_open_end_is_trained_with_the_labels_and_its_target_is_the_base_without_digits(writes_once):
    model, tokenizer, rows = writes_once
    batch = after_prompts(model, rows, tokenizer.pad_token_id)
    assert ends_of(model, batch).row.tolist() == [0, 0, 1, 1, 2, 2]
    tokens = digit_tokens(model.peft_config["default"].token_table, model.config.vocab_size)
    ends = ends_of(model, batch)
    places = zip(ends.row.tolist(), ends.place.tolist(), strict=True)
    for index, (row, place) in enumerate(places):
        after_number, ids = index % 2 == 0, rows[row]["input_ids"]
        there = ids[: len(ids) - 1] if after_number else ids
        assert batch.inputs["input_ids"][row, place] == there[-1]
        with torch.no_grad(), model.disable_adapter():
            logits = model(torch.tensor([there])).logits[0, -1].masked_fill(tokens[not after_number], float("-inf"))
        torch.testing.assert_close(ends.target[index].exp(), logits.softmax(-1), atol=1e-4, rtol=1e-3)
    assert ends_of(model, after_prompts(model, rows[3:], tokenizer.pad_token_id)) is None
    # They are trained with the labels.
    with torch.no_grad():
        output = model(**batch.inputs, past_key_values=copy.deepcopy(batch.cache), use_cache=True)
    labels = batch.inputs["labels"][:, 1:]
    losses = torch.nn.functional.cross_entropy(output.logits[:, :-1].flatten(0, 1), labels.flatten(), reduction="sum")
    there = divergence(output.logits[ends.row, ends.place], ends.target)
    assert there > 0.01
    trainer = OpenEndsTrainer.__new__(OpenEndsTrainer)
    trainer.model = model
    found = trainer.writing_loss(batch, output)
    assert float(found) == pytest.approx(float((losses + there) / ((labels != -100).sum() + 6)), rel=1e-3)


def test_open_ends_need_a_calculator_that_knows_digits_and_writes_once(writes_once):
    model, tokenizer, rows = writes_once
    batch = after_prompts(model, rows, tokenizer.pad_token_id)
    model.peft_config["default"].write_again = True
    with pytest.raises(ValueError, match="`open_ends` need a calculator with the token interface"):
        ends_of(model, batch)
