"""Promises of `batches`: tokens and labels are those that TRL would make, no row is lost, lengths are alike."""

from collections import Counter
from itertools import islice

import pytest
from tiny_training import tokenizer as make_tokenizer

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.chats import Conversations
from peft_igc.data.columns import COLUMNS
from peft_igc.data.mixture import Mixture
from peft_igc.demo.batches import tokenized, tokenized_rows


@pytest.fixture
def tokenizer():
    return make_tokenizer()


def stream(tokenizer, n, **changes):
    """`n` rows of batches of 8, four of them sorted at once."""
    fields = {"batch_size": 8, "batches_at_once": 4, "seed": 0} | changes
    return list(islice(tokenized_rows(ArithmeticRows(seed=3), tokenizer, **fields), n))


def key(row):
    return (*row["input_ids"], row["igc_operator"], *(row["igc_operands"] or ()), row["igc_result"])


def test_rows_are_rendered_as_the_chat_template_does_and_only_the_answer_is_labelled(tokenizer):
    made = {key(row): row for row in stream(tokenizer, 32)}
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
        (made,) = tokenized_rows(rows, tokenizer, 1, 1, 0)
        begins = made["input_ids"].index(next(label for label in made["labels"] if label >= 0))
        ids = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        labels[text] = begins - len(ids)
    assert list(labels.values()) == [0, 1, 0]


def test_every_row_comes_once(tokenizer):
    sorted_at_once = Counter(key(row) for row in stream(tokenizer, 64))
    one_by_one = Counter(key(row) for row in stream(tokenizer, 64, batch_size=1, batches_at_once=1))
    assert sorted_at_once == one_by_one


def test_batches_hold_rows_of_similar_length_in_changing_order(tokenizer):
    def padding(rows):
        batches = [[len(row["input_ids"]) for row in rows[i : i + 8]] for i in range(0, 256, 8)]
        return sum(8 * max(lengths) - sum(lengths) for lengths in batches), [max(lengths) for lengths in batches]

    mixed, _ = padding(stream(tokenizer, 256, batches_at_once=1))
    alike, longest = padding(stream(tokenizer, 256, batches_at_once=32))
    assert alike < mixed / 4
    assert longest != sorted(longest)


def test_equal_seeds_give_equal_streams_and_others_do_not(tokenizer):
    assert stream(tokenizer, 64) == stream(tokenizer, 64)
    assert stream(tokenizer, 64) != stream(tokenizer, 64, seed=1)


def test_a_stream_that_ends_keeps_its_last_smaller_batch_last(tokenizer):
    rows = ArithmeticRows(seed=3).take(21)
    made = list(tokenized_rows(rows, tokenizer, 8, 4, 0))
    assert len(made) == 21
    assert min(len(row["input_ids"]) for row in made[16:]) >= max(len(row["input_ids"]) for row in made[:16])


def test_a_template_that_rewrites_the_prompt_is_refused(tokenizer):
    tokenizer.chat_template = "{{ messages | length }}" + tokenizer.chat_template
    with pytest.raises(ValueError, match="renders the prompt .* differently when an answer follows"):
        stream(tokenizer, 1)


def test_the_batches_that_teach_the_writing_hold_rows_with_results(tokenizer):
    mixture = Mixture(none=0.3, overflow=0.1, undefined=0.05, inexact=0.05)
    source = ArithmeticRows(seed=3, mixture=mixture).take(8 * 24)
    made = list(tokenized_rows(source, tokenizer, 8, 12, 0, writing_every=3))
    assert Counter(map(key, made)) == Counter(map(key, tokenized_rows(source, tokenizer, 8, 12, 0)))
    for at in range(0, 24, 3):
        assert all(row["igc_result"].lstrip("-").isdigit() for row in made[8 * at : 8 * at + 8])
    others = [row for at, row in enumerate(made) if at // 8 % 3]
    assert sum((row["igc_result"] or "x").lstrip("-").isdigit() for row in others) > 16  # the reading sees both kinds


def test_where_results_are_few_the_first_batches_of_their_kind_are_whole_and_no_row_is_lost(tokenizer):
    source = ArithmeticRows(seed=3, mixture=Mixture(none=0.75)).take(8 * 12)
    made = list(tokenized_rows(source, tokenizer, 8, 12, 0, writing_every=2))
    assert Counter(map(key, made)) == Counter(map(key, tokenized_rows(source, tokenizer, 8, 12, 0)))
    batches = [made[8 * at : 8 * at + 8] for at in range(12)]
    whole = [all((row["igc_result"] or "x").lstrip("-").isdigit() for row in batch) for batch in batches]
    assert whole[:2] == [True, False]
    assert 1 <= sum(whole) < 6


def test_lots_that_would_leave_the_trainer_out_of_step_are_refused(tokenizer):
    with pytest.raises(ValueError, match="`batches_at_once=16` is no multiple of `writing_every=3`"):
        next(tokenized_rows([], tokenizer, 8, 16, 0, writing_every=3))


def test_of_a_chat_every_answer_is_labelled_and_nothing_else(tokenizer):
    chats = Conversations(ArithmeticRows(seed=3), 0).take(20)
    for chat, made in zip(chats, tokenized(chats, tokenizer), strict=True):
        assert made["input_ids"] == tokenizer.apply_chat_template(chat["messages"], return_dict=True)["input_ids"]
        labelled, expected = "", ""
        for token, label in zip(made["input_ids"], made["labels"], strict=True):
            assert label in (-100, token)
            labelled += tokenizer.decode([token]) if label >= 0 else "|"
        for message in chat["messages"]:
            expected += message["content"] + tokenizer.eos_token if message["role"] == "assistant" else "|"
        squeezed = "".join(c for i, c in enumerate(labelled) if c != "|" or labelled[i - 1 : i] != "|")
        assert squeezed.replace(" ", "") == expected.replace(" ", "")
        assert {name: made[name] for name in COLUMNS} == {name: chat[name] for name in COLUMNS}


def test_of_a_prompt_with_earlier_answers_only_the_last_one_is_labelled(tokenizer):
    chat = Conversations(ArithmeticRows(seed=3), 0, turns=(3, 3)).take(1)[0]
    row = {**chat, "prompt": chat["messages"][:-1], "completion": chat["messages"][-1:]}
    del row["messages"]
    whole = tokenized([chat], tokenizer)[0]
    (made,) = tokenized([row], tokenizer)
    assert made["input_ids"] == whole["input_ids"]
    count = sum(label >= 0 for label in made["labels"])
    assert 0 < count < sum(label >= 0 for label in whole["labels"])
    assert made["labels"][-count:] == whole["labels"][-count:]
