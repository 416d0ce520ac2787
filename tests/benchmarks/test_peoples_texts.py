"""Sets of texts that people wrote: silence is right but in word problems of one step whose answer ends."""

import json

from benchmarks.accuracy import adapter_on_sets as people


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_sets_of_peoples_texts_have_their_targets_and_none_is_measured_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(people, "FIRST", 1)
    answers = ["<<5+6=11>>11 <<11/2=5>>5"] * 4 + ["<<50+60=110>>"]
    write(tmp_path / people.GSM8K, [{"question": f"question {n}", "answer": one} for n, one in enumerate(answers)])
    mawps = [("one 2 and 3?", "2 + 3", "5"), ("two", "1 + 2 - 3", "0"), ("decimals", "0.5 + 2", "2.5")]
    mawps += [("no end", "10 / 3", "10/3"), ("long " * 200, "2 + 3", "5")]
    write(tmp_path / people.MAWPS, [dict(zip(("question", "expression", "answer"), x, strict=True)) for x in mawps])
    asked = [{"prompt": "Who?", "asks_for_a_calculation": False}, {"prompt": "Sum?", "asks_for_a_calculation": True}]
    write(tmp_path / people.ASSISTANT, asked)
    monkeypatch.setenv("PEFT_IGC_DATA", str(tmp_path))
    found = {name: [(one["prompt"], one["target"]) for one in items] for name, items in people.peoples_texts().items()}
    assert found == {
        "word_problems": [("one 2 and 3?", "5"), ("decimals", "2.5"), ("no end", None)],
        "several_steps_mawps": [("two", None)],
        "several_steps_gsm8k": [("question 1", None), ("question 3", None)],
        "assistant_prompts": [("Who?", None)],
    }
    monkeypatch.delenv("PEFT_IGC_DATA")
    assert people.peoples_texts() == {}
