"""Promises of an answer's source: a number that the model made up is told from one that was calculated, everywhere."""

import pytest

from peft_igc import generate_answers, tiny_igc, trace
from peft_igc.inference.audit import audit
from peft_igc.inference.pages import trace_page
from peft_igc.inference.records import Answer, json_lines
from peft_igc.tuner.records import StepRecord


QUESTIONS = ["What is 58 times 36?", "What is 6 multiplied by 7 minus 2?", "What is 7 divided by 0?"]


@pytest.fixture(scope="module")
def answers(trained):
    return generate_answers(*trained, QUESTIONS, return_steps=True)


def test_an_answer_tells_its_text_whether_a_step_wrote_it_status_reason_and_expression(trained, answers):
    told = [(one.text, one.written, one.status, one.reason, one.expression) for one in answers]
    assert told == [
        ("2088", True, "ok", None, "58 * 36"),
        ("2", False, "none", "no_arithmetic", None),
        ("7", False, "undefined", "undefined", "7 / 0"),
    ]
    before = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]  # no answer has this 2
    chats = [[*before, {"role": "user", "content": one}] for one in QUESTIONS]
    again = generate_answers(*trained, chats, return_steps=True)
    assert [(one.written, one.status) for one in again] == [one[1:3] for one in told]
    assert generate_answers(*trained, QUESTIONS) == [one.text for one in answers]
    assert str(answers[0]) == "2088  (calculated: 58 * 36)"
    assert str(answers[1]) == "2  (by the model alone, calculator silent: no arithmetic is read)"
    assert answers[2].source.startswith("by the model alone, calculator silent on 7 / 0: a division by zero")


def test_a_rounded_result_is_marked_in_answers_and_traces(trained):
    prompts = ["What is 10 / 3 to 2 decimal places?", "12% + 5% ="]
    (rounded, exact) = generate_answers(*trained, prompts, return_steps=True)
    assert [(one.text, one.step.result, one.step.rounded) for one in (rounded, exact)] == [
        ("3.33", "3.33", True),
        ("17%", "17%", False),
    ]
    assert (rounded.source, exact.source) == ("calculated: 10 / 3, rounded", "calculated: 12% + 5%")
    assert rounded.step.calculation == "10 / 3 ≈ 3.33"
    found = trace(*trained, prompts[0])
    assert "result     3.33  rounded" in found.format()
    assert '"rounded": true' in json_lines([found.record])
    model, tokenizer = tiny_igc()
    model.peft_config["default"].rounding = "floor"  # of symbols, and of what the network reads
    asked = ["10 / 3", "What is 10 divided by 3?", "12 / 4", "What is 12 divided by 4?"]
    steps = [one.step for one in generate_answers(model, tokenizer, asked, return_steps=True)]
    assert [(one.result, one.rounded) for one in steps] == [("3", True), ("3", True), ("3", False), ("3", False)]
    assert generate_answers(model, tokenizer, ["12 / (3 - 5/2 - 1/2) ="], return_steps=True)[0].step.rounded
    assert "<dt>result</dt><dd>3.33  rounded</dd>" in trace_page([found.record])


def test_an_untrue_calculation_of_a_prompt_is_in_trace_and_audit_and_changes_no_answer(trained):
    prompt = "I was told that 3 * 4 = 13. What is 58 times 36?"
    answer, found = *generate_answers(*trained, [prompt]), trace(*trained, prompt)
    assert found.text == answer
    assert "untrue: the value is 12" in found.format()
    assert "<dt>untrue</dt>" in trace_page([found.record])
    assert '"record": "untrue"' in json_lines([found.record])
    (finding,) = audit(*trained, [{"prompt": prompt, "target": "never"}]).findings
    (untrue,) = finding.as_dict()["untrue"]
    assert untrue == "3 * 4 = 13 (untrue: the value is 12)"


def test_an_answer_that_is_cut_or_overrules_the_calculation_is_the_models_own(trained):
    (answer,) = generate_answers(*trained, ["What is 58 times 36?"], max_new_tokens=2, return_steps=True)
    assert (answer.text, answer.cut, answer.written) == ("2088", True, True)
    (part,) = generate_answers(*trained, ["What is 58 times 36?"], max_new_tokens=1, return_steps=True)
    assert (part.text, part.written) == ("208", False)
    assert part.source == "cut short, although 58 * 36 was calculated"
    overruled = Answer("99", False, (StepRecord(3, "ok", False, "2088", "58 * 36", None),))
    assert not overruled.written
    assert overruled.source == "by the model alone, although 58 * 36 was calculated"
    spelled = StepRecord(3, "ok", True, "2088", "58 * 36")
    silent = StepRecord(9, "none", False, reason="no_arithmetic")
    assert Answer("2088 ...", False, (spelled, silent)).step == spelled  # of several the last one that it spells
    nowhere = Answer("...", False, ())
    assert nowhere.source.endswith("calculator silent: the text has no anchor")


def test_without_the_adapter_an_answer_is_the_models_own(trained):
    model, tokenizer = trained
    with model.disable_adapter():
        (answer,) = generate_answers(model, tokenizer, QUESTIONS[:1], return_steps=True)
    assert (answer.status, answer.reason, answer.written, answer.steps) == ("no_adapter", "no_adapter", False, ())
    assert answer.source.endswith("calculator silent: no adapter is active")


def test_igc_steps_answers_traces_and_audits_have_the_same_record(trained, answers):
    items = [{"prompt": question, "target": "nothing of this"} for question in QUESTIONS]
    basic = ("status", "result", "expression", "reason", "written")
    for question, answer, finding in zip(QUESTIONS, answers, audit(*trained, items).findings, strict=True):
        seen, audited = trace(*trained, question), finding.answer
        assert f"source     {answer.source}" in seen.format()
        found = [[[getattr(step, name) for name in basic] for step in one.steps] for one in (answer, seen, audited)]
        assert found[0] == found[1] == found[2]
        places = [[(step.position, step.before, step.spans) for step in one.steps] for one in (seen, audited)]
        assert places[0] == places[1]
