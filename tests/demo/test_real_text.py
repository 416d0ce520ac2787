"""Rows and sets from a folder of people's texts: what is trained is not measured."""

import json

import pytest

from peft_igc.data.columns import check_columns
from peft_igc.demo import sets as real_text
from peft_igc.demo.sets import data_folder, gsm8k_questions, measured_items, training_refusals
from peft_igc.text.values import Limits


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(real_text, "TRAINED_QUESTIONS", 4)
    questions = [
        {"question": "Ann has 3 pens and 4 cups. How many?", "answer": "She has 3+4=<<3+4=7>>7.\n#### 7"},
        {"question": "Ben has 5 pens. He buys 6. Half are red. How many?", "answer": "<<5+6=11>>11 <<11/2=5>>5"},
        {"question": "Cy has 8 and half of it, twice 3. How many?", "answer": "<<8/2=4>>4 <<4*3=12>>12"},
        {"question": "Dan has 9 pens. How many is half of 10?", "answer": "<<10/2=5>>5"},
        *({"question": f"Late {n} and {n + 1}. How many?", "answer": "<<1+2=3>> <<3+4=7>>"} for n in range(4)),
        {"question": "Late 50 and 60. How many?", "answer": "<<50+60=110>>"},
    ]
    write(tmp_path / real_text.GSM8K, questions)
    mawps = [("one 2 and 3?", "2 + 3", "5"), ("two", "1 + 2 - 3", "0"), ("decimals", "0.5 + 2", "2.5")]
    write(tmp_path / real_text.MAWPS, [dict(zip(("question", "expression", "answer"), x, strict=True)) for x in mawps])
    write(tmp_path / real_text.ROLEPLAY, [{"prompt": f"Be {n}."} for n in range(5)])
    asked = [{"prompt": "Who?", "asks_for_a_calculation": False}, {"prompt": "Sum?", "asks_for_a_calculation": True}]
    write(tmp_path / real_text.ASSISTANT, asked)
    return tmp_path


def test_training_rows_are_refusals_but_for_single_steps_on_the_texts_numbers(folder):
    rows = training_refusals(folder)
    asked = [row for row in rows if row["igc_operator"] != "none"]
    assert [(row["igc_operator"], row["igc_operands"], row["igc_result"]) for row in asked] == [("+", ["3", "4"], "7")]
    texts = [row["prompt"][0]["content"] for row in rows]
    assert texts.count("Ben has 5 pens. He buys 6. Half are red. How many?") == 2
    assert "Ben has 5 pens. He buys 6. Half are red." in texts
    assert {"Be 0.", "Be 4."} <= set(texts)
    assert not any(text.startswith("Late") for text in texts)
    for row in rows:
        check_columns(row, Limits())


def test_what_is_trained_calibrates_or_is_measured_and_word_problems_with_decimals_ask_for_silence(folder):
    trained = {row["prompt"][0]["content"] for row in training_refusals(folder)}
    calibrated = {item["prompt"] for item in gsm8k_questions(folder, 0)}
    sets = measured_items(folder)
    measured = {item["prompt"] for items in sets.values() for item in items}
    assert calibrated
    assert not trained & calibrated
    assert not (trained | calibrated) & measured
    assert [item["target"] for item in sets["word_problems"]] == ["5", None]
    assert [item["prompt"] for item in sets["several_steps_mawps"]] == ["two"]
    assert [item["prompt"] for item in sets["assistant_prompts"]] == ["Who?"]


def test_without_a_folder_nothing_is_measured_and_one_that_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.delenv("PEFT_IGC_DATA", raising=False)
    assert data_folder() is None
    assert set(measured_items(None).values()) == {None}
    monkeypatch.setenv("PEFT_IGC_DATA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        data_folder()
