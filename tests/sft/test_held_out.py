"""Promises of held-out rows: annotated, not trained, few, and the same for the same seed."""

from types import SimpleNamespace

import pytest
from datasets import Dataset
from tiny_training import rows

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.dataset import to_dataset, to_iterable_dataset
from peft_igc.sft.arguments import IGCArguments, Parsed
from peft_igc.sft.closing import hold_out
from peft_igc.sft.datasets import CHAT_PAIR, generated_rows


def arguments(**igc):
    return Parsed(None, SimpleNamespace(seed=0), None, None, IGCArguments(**igc), [])


def held(train, test=None, count=100, alone=False):
    return hold_out(train, test, arguments(igc_held_out=count), alone, True)


def texts(dataset):
    return [str(row["prompt"]) for row in dataset]


def test_a_tenth_of_the_annotated_rows_at_most_and_no_other_row_is_taken_away():
    data = to_dataset(rows(60, digits=4, unsupervised=tuple(range(0, 60, 2))))
    train, taken = held(data)
    assert (len(train), len(taken)) == (57, 3)
    assert not set(texts(train)) & set(texts(taken))
    assert all(row["igc_operator"] == "+" for row in taken)
    assert [row for row in texts(data) if row not in texts(taken)] == texts(train)  # in their order


def test_no_more_are_held_out_than_asked_for_and_none_if_none_or_few():
    data = to_dataset(rows(60, digits=4))
    assert len(held(data, count=4)[1]) == 4
    for train, taken in (held(data, count=0), held(data.select(range(9)))):
        assert taken is None
        assert len(train) in (60, 9)
    assert held(Dataset.from_list([{"text": "a"}] * 60))[1] is None


def test_equal_seeds_hold_out_equal_rows():
    data = to_dataset(rows(60, digits=4))
    assert texts(held(data)[1]) == texts(held(data)[1])


def test_generated_rows_are_trained_as_before_and_the_next_ones_are_held_out():
    parsed = arguments(igc_generated_rows=40, igc_held_out=3)
    stream = generated_rows(parsed.igc, 0, CHAT_PAIR).take(43)
    data = to_dataset(stream[:40])
    train, taken = hold_out(data, None, parsed, True, True)
    assert train is data
    assert texts(taken) == texts(to_dataset(stream[40:]))


def test_rows_of_a_test_set_are_preferred_and_the_training_set_stays_whole():
    data, test = to_dataset(rows(40, digits=4)), to_dataset(rows(12, seed=1, digits=4, unsupervised=(0, 1)))
    train, taken = held(data, test, count=100)
    assert train is data
    assert texts(taken) == texts(test)[2:]


@pytest.mark.parametrize("stream", [to_iterable_dataset(ArithmeticRows(), 40), {"a": None}])
def test_nothing_is_held_out_of_a_stream_or_of_several_test_sets(stream):
    train = to_dataset(rows(40))
    assert hold_out(train, stream, arguments(), False, True) == (train, None)
