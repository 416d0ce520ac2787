"""What `benchmarks/accuracy/worked_solutions.py` counts in finished chats."""

from __future__ import annotations

import pytest
from peft import get_peft_model

from benchmarks.accuracy import worked_solutions
from peft_igc import assistant_header, tiny_base
from peft_igc.demo.run import demo_config
from peft_igc.demo.settings import SETTINGS


@pytest.fixture(scope="module")
def model_and_tokenizer():
    base, tokenizer = tiny_base()
    config = demo_config(tokenizer, SETTINGS["tokens"], anchors=["=", assistant_header(tokenizer)])
    return get_peft_model(base, config).eval(), tokenizer


def test_a_chat_in_which_nothing_is_calculated_is_counted_too(model_and_tokenizer):
    said = [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "I am a small model."}]
    found = worked_solutions.untouched(*model_and_tokenizer, [said * 2], [{"igc_operator": ["none", "none"]}])
    assert found == {
        "beginnings_compared": 1,
        "beginnings_changed": 0,
        "silent_turns": 2,
        "silent_turns_activated": 0,
        "silent_turns_written_to": 0,
        "questions_with_an_ok_step": 0,
    }
