"""Promises of `batches`: tokens and labels are those that TRL would make, no row is lost, lengths are alike."""

import pytest

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import COLUMNS
from peft_igc.data.mixture import Mixture
from peft_igc.trainer.batches import BATCHES_AT_ONCE, in_lots, tokenized


def key(row):
    return (*row["input_ids"], row["igc_operator"], *(row["igc_operands"] or ()), row["igc_result"])


def test_rows_are_rendered_as_the_chat_template_does_and_only_the_answer_is_labelled(tokenizer):
    made = {key(row): row for row in tokenized(ArithmeticRows(seed=3).take(32), tokenizer)}
    for row in ArithmeticRows(seed=3).take(32):
        chat = row["prompt"] + row["completion"]
        ids = tokenizer.apply_chat_template(chat, return_dict=True)["input_ids"]
        prompt = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
        found = made[key({"input_ids": ids, **{name: row[name] for name in COLUMNS}})]
        assert found["input_ids"] == ids
        assert found["labels"] == [-100] * len(prompt) + ids[len(prompt) :]
        assert found["labels"][-1] == tokenizer.eos_token_id


def test_how_an_answer_in_words_begins_is_not_taught(tokenizer):
    row = ArithmeticRows(seed=3, mixture=Mixture(none=0, overflow=0, undefined=0, inexact=0)).take(1)[0]
    result = row["igc_result"]
    labels = {}
    for text in (result, f"It is {result}.", "I cannot compute that."):
        rows = [{**row, "completion": [{"role": "assistant", "content": text}]}]
        (made,) = tokenized(rows, tokenizer)
        begins = made["input_ids"].index(next(label for label in made["labels"] if label >= 0))
        ids = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        labels[text] = begins - len(ids)
    assert list(labels.values()) == [0, 1, 0]


LENGTHS = [10 + (7 * n) % 23 for n in range(8 * BATCHES_AT_ONCE)]


def test_batches_hold_rows_of_similar_length_in_changing_order():
    order = in_lots(LENGTHS, 8, 2 * BATCHES_AT_ONCE, 0)
    batches = [[LENGTHS[at] for at in order[start : start + 8]] for start in range(0, len(order), 8)]
    assert max(max(batch) - min(batch) for batch in batches) <= 3
    longest = [max(batch) for batch in batches]
    assert longest != sorted(longest)
    assert order[: len(LENGTHS)] != order[len(LENGTHS) :]
    assert order == in_lots(LENGTHS, 8, 2 * BATCHES_AT_ONCE, 0) != in_lots(LENGTHS, 8, 2 * BATCHES_AT_ONCE, 1)


def test_a_template_that_rewrites_the_prompt_is_refused(tokenizer):
    tokenizer.chat_template = "{{ messages | length }}" + tokenizer.chat_template
    with pytest.raises(ValueError, match="renders the prompt .* differently when an answer follows"):
        tokenized(ArithmeticRows(seed=3).take(1), tokenizer)
