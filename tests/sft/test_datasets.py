"""Promises about the data of `peft-igc sft`: what is loaded, generated, joined, held out and refused."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from datasets import Dataset
from tiny_training import rows
from tiny_training import tokenizer as make_tokenizer
from trl import DatasetMixtureConfig, ScriptArguments
from trl.scripts.utils import DatasetConfig

from peft_igc.data.columns import ALL_COLUMNS, COLUMNS, ROW_COLUMN, check_columns
from peft_igc.data.dataset import to_dataset
from peft_igc.data.wording.wording import FEW
from peft_igc.sft import run as sft
from peft_igc.sft.arguments import IGCArguments, Parsed, igc_config
from peft_igc.sft.datasets import CHAT_PAIR, _hold_out, generated_rows, join, load_corpora
from peft_igc.text.values import Limits
from tests.sft.test_sft import CHATS, arguments, write


def load(script=None, mixture=None, igc=None, **training):
    """Training and test set, without the names of their rows (`test_named_rows.py`)."""
    options = {"eval_strategy": "no", "seed": 0, "assistant_only_loss": False, "dataset_text_field": "text"} | training
    options["writing_stage"] = None
    script, mixture = script or ScriptArguments(), mixture or DatasetMixtureConfig()
    igc = igc or IGCArguments(igc_held_out=0)
    *loaded, _ = load_corpora(Parsed(script, SimpleNamespace(**options), None, mixture, igc, []))
    named = [ROW_COLUMN in (getattr(one, "column_names", None) or ()) for one in loaded]
    return [one.remove_columns(ROW_COLUMN) if has else one for one, has in zip(loaded, named, strict=True)]


def test_data_of_a_folder_keep_their_rows_and_test_split(tmp_path):
    folder = write(tmp_path / "d", rows(6))
    write(tmp_path / "d", rows(2, seed=1), "test.jsonl")
    train, test = load(ScriptArguments(dataset_name=folder), eval_strategy="steps")
    assert train.to_list() == rows(6)
    assert test.to_list() == rows(2, seed=1)
    assert load(ScriptArguments(dataset_name=folder))[1] is None
    mixture = DatasetMixtureConfig([DatasetConfig(write(tmp_path / "whole", rows(10)))], test_split_size=0.2)
    (train, test), again = (load(mixture=mixture, eval_strategy="steps") for _ in range(2))
    assert (len(train), len(test)) == (8, 2)
    assert again[1].to_list() == test.to_list()  # split by the seed


def test_data_with_and_without_annotation_go_into_one_mixture(tmp_path):
    plain = [{"id": i, "prompt": "hi", "completion": "ho"} for i in range(3)]
    entries = [DatasetConfig(write(tmp_path / "a", plain)), DatasetConfig(write(tmp_path / "b", rows(4)))]
    entries[0].columns = ["prompt", "completion"]
    train, _ = load(mixture=DatasetMixtureConfig(entries))
    assert train.to_list() == [{"prompt": "hi", "completion": "ho", **dict.fromkeys(COLUMNS)}] * 3 + rows(4)


def test_data_with_one_annotation_join_those_with_one_per_anchor():
    several = [{**row, **{name: [row[name]] * 2 for name in COLUMNS}} for row in rows(2)]
    joined = join({"a": to_dataset(rows(3, unsupervised=(1,))), "b": to_dataset(several)})
    assert [row["igc_operator"] for row in joined] == [["+"], None, ["+"], ["+", "+"], ["+", "+"]]
    assert joined[0]["igc_operands"] == [rows(3)[0]["igc_operands"]]
    assert joined[1]["igc_operands"] is None


def test_data_that_contradict_themselves_are_not_made_unannotated_by_a_mixture():
    several = [{**row, **{name: [row[name]] * 2 for name in COLUMNS}} for row in rows(2)]
    without_operator = rows(2)
    without_operator[0]["igc_operator"] = None
    found = join({"a": to_dataset(without_operator), "b": to_dataset(several)})
    with pytest.raises(ValueError, match="`igc_operator` is None but `igc_operands` is"):
        check_columns(found[0], Limits(4, 4))


def test_generated_rows_join_chats_if_the_loss_stays_off_the_prompts(tmp_path):
    named = ScriptArguments(dataset_name=write(tmp_path / "d", CHATS))
    igc = IGCArguments(igc_generated_rows=2, igc_held_out=0)
    joined, _ = load(named, igc=igc, assistant_only_loss=True)
    assert set(joined.column_names) == {"messages", *ALL_COLUMNS}
    assert len(joined) == len(CHATS) + 2
    assert all(row["messages"][-1]["role"] == "assistant" for row in joined)
    with pytest.raises(ValueError, match="has `messages`: set `assistant_only_loss=True`, or write its rows"):
        load(named, igc=igc)


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_data_are_taken_from_a_file_and_nothing_beside_it(tmp_path, suffix):
    folder = Path(write(tmp_path / "d", rows(4)))
    file = folder / f"some.{suffix}"
    if suffix == "parquet":
        to_dataset(rows(3)).to_parquet(file)
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows(3)))
    train, _ = load(script=ScriptArguments(dataset_name=str(file)))
    assert train.to_list() == rows(3)
    train, _ = load(mixture=DatasetMixtureConfig([DatasetConfig(str(file)), DatasetConfig(str(file))]))
    assert train.to_list() == rows(3) * 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([{"text": "a"}], "`b` has `text`"),
        ([{"prompt": "a"}], "`b` has the columns prompt"),
        ([{"prompt": "a", "completion": "b", "igc_result": 5}], "`a`, `b` hold one column in different types"),
    ],
)
def test_data_of_other_forms_are_refused_by_name(other, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        join({"a": to_dataset(rows(2)), "b": Dataset.from_list(other)})


def test_data_are_mixed_in_fractions_without_repeats(tmp_path):
    folders = [write(tmp_path / name, rows(n)) for name, n in (("a", 30), ("b", 9))]
    entries = [DatasetConfig(folder, fraction=share) for folder, share in zip(folders, (1, 3), strict=True)]
    train, _ = load(mixture=DatasetMixtureConfig(entries))
    assert train.to_list() == rows(3) + rows(9)
    entries[0].fraction = None
    with pytest.raises(ValueError, match=r"`fraction` is \[None, 3\]"):
        load(mixture=DatasetMixtureConfig(entries))


def test_data_generated_alone_are_distinct_and_take_the_form_of_others(tmp_path):
    igc = IGCArguments(igc_generated_rows=20, igc_num_digits=4, igc_result_digits=4, igc_held_out=0)
    alone, _ = load(igc=igc)
    assert len({json.dumps(row["prompt"]) for row in alone}) == len(alone) == 20
    assert alone[0]["prompt"][-1]["role"] == "user"
    mixed, _ = load(ScriptArguments(dataset_name=write(tmp_path / "d", rows(3))), igc=igc)
    assert mixed.to_list()[:3] == [row | {"igc_expression": None} for row in rows(3)]
    assert isinstance(mixed[3]["prompt"], str)
    assert len(mixed) == 23


@pytest.mark.parametrize(
    "more", [[], ["--igc_interface", "hidden", "--igc_num_digits", "5", "--igc_result_digits", "10"]]
)
def test_data_generated_for_a_lora_are_those_of_the_calculator_that_it_is_compared_with(more, tmp_path):
    def made(adapter):
        line = arguments("tiny", tmp_path, *more, igc_adapter=adapter, igc_generated_rows=200)
        parsed = sft.parse(line).igc
        return parsed, generated_rows(parsed, 0, "`prompt` and `completion`")

    (parsed, wanted), (_, found) = made("igc"), made("lora")
    assert found.take(200) == wanted.take(200)
    other = IGCArguments(igc_interface="tokens" if more else "hidden")
    assert found.take(200) != generated_rows(other, 0, "`prompt` and `completion`").take(200)
    config = igc_config(parsed, make_tokenizer())
    assert wanted.limits == replace(Limits.of(config), operands=wanted.limits.operands)
    assert (wanted.wording is FEW) == (config.interface == "hidden")


def test_data_that_cannot_be_had_are_named(tmp_path):
    folder = write(tmp_path / "d", rows(2))
    named = ScriptArguments(dataset_name=folder)
    entries = DatasetMixtureConfig([DatasetConfig(folder)])
    igc = IGCArguments(igc_generated_rows=2)
    for error, message, options in (
        (ValueError, "No data is named", {}),
        (ValueError, "both name data", {"script": named, "mixture": entries}),
        (FileNotFoundError, "does not exist", {"script": ScriptArguments(dataset_name=str(tmp_path / "no"))}),
        (ValueError, "is a file. Pass one that ends in .jsonl", {"script": ScriptArguments(dataset_name=__file__)}),
        (ValueError, "without a configuration, `data_files`",
         {"mixture": DatasetMixtureConfig([DatasetConfig(f"{folder}/train.jsonl", data_files="x.jsonl")])}),
        (ValueError, "without a configuration, `data_files`",
         {"script": ScriptArguments(dataset_name=f"{folder}/train.jsonl", dataset_config="main")}),
        (ValueError, "no split `tain`", {"script": ScriptArguments(dataset_name=folder, dataset_train_split="tain")}),
        (ValueError, "needs test data, and there is none", {"script": named, "eval_strategy": "steps"}),
        (ValueError, "`igc_generated_rows` needs rows that can be counted",
         {"script": ScriptArguments(dataset_name=folder, dataset_streaming=True), "igc": igc}),
        (ValueError, "`test_split_size` needs rows that can be counted",
         {"mixture": DatasetMixtureConfig([DatasetConfig(folder)], streaming=True, test_split_size=0.5),
          "eval_strategy": "steps"}),
        (ValueError, "has `text`: write its rows",
         {"script": ScriptArguments(dataset_name=write(tmp_path / "x", [{"text": "a"}])), "igc": igc}),
    ):  # fmt: skip
        with pytest.raises(error, match=re.escape(message)):
            load(**options)


def test_data_without_a_text_to_train_on_are_refused_in_one_line(tmp_path):
    alpaca = [{"instruction": "Add 1 and 2.", "input": "", "output": "3"}]
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text("\n")
    (tmp_path / "broken.jsonl").write_text('{"text": "a"}\n{"text": "b"\n')
    for name, message in (
        (write(tmp_path / "a", alpaca), "has the columns input, instruction, output. Write each row as `"),
        (write(tmp_path / "q", [{"question": "a"}]), "has the columns question. Write each row as `messages`, as"),
        (write(tmp_path / "p", [{"promt": "a", "completion": "b"}]), "has the columns completion, promt. Write each"),
        (str(tmp_path / "empty.jsonl"), "empty.jsonl` has no rows"),
        (str(tmp_path / "blank.jsonl"), "blank.jsonl`"),
        (str(tmp_path / "broken.jsonl"), "broken.jsonl`, line 2: not valid JSON"),
        (write(tmp_path / "e", []), "The dataset `"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)) as refused:
            load(script=ScriptArguments(dataset_name=name))
        assert len(str(refused.value).splitlines()) == 1


def texts(dataset):
    return [str(row["prompt"]) for row in dataset]


def test_a_tenth_of_the_annotated_rows_at_most_and_no_other_row_is_taken_away():
    data = to_dataset(rows(60, digits=4, unsupervised=tuple(range(0, 60, 2))))
    train, _, taken = _hold_out(data, None, 100, 0)
    assert (len(train), len(taken)) == (57, 3)
    assert all(row["igc_operator"] == "+" for row in taken)
    assert [row for row in texts(data) if row not in texts(taken)] == texts(train)  # in their order
    assert texts(_hold_out(data, None, 100, 0)[2]) == texts(taken)  # by the seed
    assert len(_hold_out(data, None, 2, 0)[2]) == 2
    for source, count in (
        (data, 0), (data.select(range(9)), 100), (Dataset.from_list([{"text": "a"}] * 60), 100),
        (data.to_iterable_dataset(), 100),
    ):  # fmt: skip
        assert _hold_out(source, None, count, 0) == (source, None, None)
    test = to_dataset(rows(12, seed=1, digits=4, unsupervised=(0, 1)))
    train, same, taken = _hold_out(data, test, 100, 0)  # rows of a test set are preferred
    assert (train, same, texts(taken)) == (data, test, texts(test)[2:])


def test_generated_rows_are_trained_as_before_and_the_next_ones_are_held_out():
    igc = IGCArguments(igc_generated_rows=40, igc_held_out=3)
    training = SimpleNamespace(eval_strategy="no", seed=0, assistant_only_loss=False, dataset_text_field="text")
    given = Parsed(ScriptArguments(), training, None, DatasetMixtureConfig(), igc, [])
    train, _, taken = load_corpora(given)
    stream = to_dataset(generated_rows(igc, 0, CHAT_PAIR).take(43))
    assert (texts(train), texts(taken)) == (texts(stream)[:40], texts(stream)[40:])
