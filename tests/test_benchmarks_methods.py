"""The comparison of methods: steps, calls, cells and counts are right; each gate is red where what it guards breaks.

Nothing is measured here; the last test runs the command once, on next to nothing.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_training import WARNINGS


FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))  # benchmarks are scripts, and import each other as such

import answer_loop  # noqa: E402
import fixed_parser  # noqa: E402
import method_gates  # noqa: E402
import method_items  # noqa: E402
import method_measures  # noqa: E402
import method_probes  # noqa: E402
import method_training  # noqa: E402
import method_traits  # noqa: E402
import scratchpads  # noqa: E402
from ablations import best_rate  # noqa: E402
from methods import refuse, totals  # noqa: E402
from tool_use import RESTATED, SPLICED, Tool  # noqa: E402

from peft_igc import loading  # noqa: E402
from peft_igc.calculator import evaluate_exactly  # noqa: E402
from peft_igc.decoding import prompt_tokens  # noqa: E402
from peft_igc.demo import demo_config  # noqa: E402
from peft_igc.evaluation import generate_answers  # noqa: E402
from peft_igc.streaming import tokenized  # noqa: E402


KINDS = method_training.KINDS
pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]


@pytest.fixture(scope="module")
def base():
    return loading.tiny_base()


def item(prompt, operator, a, b, target=None):
    result = evaluate_exactly(operator, a, b) if target is None else target
    columns = {"igc_operator": operator, "igc_operands": [a, b], "igc_result": result}
    return {"prompt": prompt, "target": result, **columns}


def row(prompt, completion, operator="none", operands=None, result=None):
    return {
        "prompt": [{"role": "user", "content": prompt}],
        "completion": [{"role": "assistant", "content": completion}],
        "igc_operator": operator,
        "igc_operands": operands,
        "igc_result": result,
    }


QUESTIONS = [
    item("What is 58213 times 907?", "*", "58213", "907"),
    item("What is 3 plus 4?", "+", "3", "4"),
    item("What is 12 minus 407?", "-", "12", "407"),
    item("What is -58 times -36?", "*", "-58", "-36"),
    item("What is 7 divided by 2?", "/", "7", "2", target="?"),
    item("What is 999999999999 plus 1?", "+", "999999999999", "1"),
]


# ------------------------------------------------------------------------------------------ scratchpads
@pytest.mark.parametrize(
    ("operator", "a", "b", "text"),
    [
        ("+", "58", "907", "0 5 8+9 0 7;8+7+0=15 5+0+1=6 0+9+0=9;9 6 5#"),
        ("-", "58", "907", "-9 0 7-0 5 8;17-8-0=9 10-5-1=4 9-0-1=8;8 4 9#"),
        ("+", "-58", "36", "-5 8-3 6;8-6-0=2 5-3-0=2;2 2#"),
        ("*", "58", "-36", "-5 8*3 6;8*6+0=48 5*6+4=34>3 4 8;8*3+0=24 5*3+2=17>1 7 4;8+0=8 4+4+0=8 3+7+0=10 1+1=2;"
         "2 0 8 8#"),
        ("/", "5824", "7", "5 8 2 4/7;5=0*7+5 58=8*7+2 22=3*7+1 14=2*7+0;0 8 3 2#"),
        ("/", "5", "0", ""),
    ],
)  # fmt: skip
def test_a_scratchpad_shows_every_digit_of_a_calculation(operator, a, b, text):
    assert scratchpads.steps(operator, a, b) == text


def test_scratchpads_are_true_in_every_step_and_end_in_the_result():
    rng, rows = random.Random(0), []
    for _ in range(400):
        operator = rng.choice("+-*/")
        a, b = (rng.randrange(-(10 ** rng.randint(1, 12)), 10 ** rng.randint(1, 12)) for _ in range(2))
        a, b = (a * b, b or 1) if operator == "/" else (a, b)
        rows.append(item("", operator, str(a), str(b)))
    rows += [item("", "+", "-5", "5"), item("", "*", "-5", "0"), item("", "/", "0", "-5"), item("", "-", "-5", "-5")]
    assert method_gates.scratchpads_are_true(rows) == []


def test_the_gate_of_scratchpads_sees_a_false_step_and_a_wrong_end(monkeypatch):
    rows = [item("", "+", "58", "36")]
    monkeypatch.setattr(scratchpads, "total", lambda a, b: "5 8+3 6;8+6+0=13 5+3+1=9;9 4")
    assert "false step '8+6+0=13'" in method_gates.scratchpads_are_true(rows)[0]
    monkeypatch.setattr(scratchpads, "total", lambda a, b: "5 8+3 6;8+6+0=14 5+3+1=9;9 3")
    assert "ends in '93', not '94'" in method_gates.scratchpads_are_true(rows)[0]


def test_the_answer_of_a_scratchpad_stands_behind_its_mark():
    assert scratchpads.behind_mark("3+4;3+4+0=7;7#7") == "7"
    assert scratchpads.behind_mark("I cannot compute that.") == "I cannot compute that."
    assert scratchpads.head("-5 8-3 6;8-6-0=2") == "-5 8-3 6"


# ------------------------------------------------------------------------------------------ tool use
def test_a_tool_reads_its_calls_and_nothing_else():
    assert RESTATED.call("The sum is call(-58+36)=") == (True, ("+", "-58", "36"))
    assert RESTATED.call("call(5/0)=") == (True, ("/", "5", "0"))
    assert RESTATED.call("call(5+)=") == (True, None)
    assert RESTATED.call("x = 5, so x =") == (False, None)
    assert RESTATED.reply(("*", "12", "34")) == "408;"
    assert RESTATED.reply(("/", "5", "0")) == RESTATED.reply(None) == "?;"
    assert SPLICED.reply(("*", "12", "34")) == "408"


def test_what_is_visible_of_a_text_with_calls():
    assert RESTATED.visible("call(12*34)=408;The answer is 408.") == "The answer is 408."
    assert SPLICED.visible("The answer is call(12*34)=408.") == "The answer is 408."
    assert RESTATED.visible("No call.") == SPLICED.visible("No call.") == "No call."


def test_the_gate_of_the_tool_loop_is_green_with_the_right_tool_only(base):
    _, tokenizer = base
    assert method_gates.loop_is_exact(tokenizer, QUESTIONS) == []
    wrong = Tool(calculate=lambda operator, a, b: str(int(a) + 1))
    assert "the answer '58214'" in method_gates.loop_is_exact(tokenizer, QUESTIONS, wrong)[0]


def test_the_gate_of_the_tool_loop_sees_tokens_in_the_wrong_order(base, monkeypatch):
    feed = answer_loop.Answer.feed
    monkeypatch.setattr(answer_loop.Answer, "feed", lambda self, count, padding: feed(self, count, padding)[::-1])
    assert method_gates.loop_is_exact(base[1], QUESTIONS) != []


class Pushed:
    """The embedded base, pushed to begin with a call; what it says behind the reply is its own."""

    def __init__(self, model, calls):
        self.model, self.calls, self.generation_config = model, calls, model.generation_config

    def __call__(self, input_ids, attention_mask, past_key_values, **more):
        ids = input_ids if past_key_values is None else torch.cat([past_key_values[0], input_ids], 1)
        cache = None if past_key_values is None else past_key_values[1]
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, **more)
        for logits, text, mask in zip(output.logits, ids, attention_mask.bool(), strict=True):
            text = text[mask].tolist()
            prompt, call = next((p, c) for p, c in self.calls if text[: len(p)] == p)
            if len(text) - len(prompt) < len(call):
                logits[0, call[len(text) - len(prompt)]] += 1e4
        return SimpleNamespace(logits=output.logits, past_key_values=(ids, output.past_key_values))


@pytest.fixture
def pushed(base):
    model, tokenizer = base
    prompts = prompt_tokens(tokenizer, [question["prompt"] for question in QUESTIONS], raw=False)
    texts = [RESTATED.written(q["igc_operator"], *q["igc_operands"]) for q in QUESTIONS[:-1]] + ["Not call(5+)="]
    return Pushed(
        model, list(zip(prompts, tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True))
    ), prompts


def test_the_loop_says_the_same_alone_in_a_batch_and_without_a_cache(base, pushed):
    tokenizer = base[1]
    model, prompts = pushed
    batch = answer_loop.answered(model, tokenizer, prompts, 48, RESTATED)
    for answer in batch:
        answer.waiting = []  # the last token of a text that was cut is not fed any more
    for cached in (True, False):
        for prompt, answer in zip(prompts, batch, strict=True):
            (alone,) = answer_loop.answered(model, tokenizer, [prompt], 48, RESTATED, cached)
            alone.waiting = []
            assert alone == answer
    assert [answer.calls[0] for answer in batch][-2:] == [("/", "7", "2"), None]
    assert tokenizer.decode(batch[-1].tokens).startswith("Not call(5+)=?;")


def test_a_reply_takes_no_pass_of_its_own(base, pushed):
    model, prompts = pushed
    with answer_loop.counted_passes(model.model) as passes:
        (answer,) = answer_loop.answered(model, base[1], prompts[:1], 48, RESTATED)
    assert len(passes) == answer.generated
    assert max(passes[1:]) > 1  # the reply, behind the call's last token
    assert sum(passes) == len(prompts[0]) + len(answer.tokens)


def test_without_a_tool_the_loop_is_greedy_generation(base):
    model, tokenizer = base
    prompts = [question["prompt"] for question in QUESTIONS]
    made = method_measures.Method("base", model, tokenizer).ask(prompts, 12)
    assert [text for text, _ in made] == [text.strip() for text in generate_answers(model, tokenizer, prompts)]


def test_the_gate_of_the_cache_names_answers_that_differ(base, monkeypatch):
    model, tokenizer = base
    prompts = [question["prompt"] for question in QUESTIONS[:2]]
    assert method_gates.cached_alike(model, tokenizer, prompts, 8, None) == []
    honest = method_gates.answered

    def forgetful(model, tokenizer, tokens, limit, tool, cached):
        return honest(model, tokenizer, tokens if cached else [row[2:] for row in tokens], limit, tool, cached)

    monkeypatch.setattr(method_gates, "answered", forgetful)
    assert "With a cache the answer to 'What is" in method_gates.cached_alike(model, tokenizer, prompts, 8, None)[0]


# ------------------------------------------------------------------------------------------ items
def test_cells_hold_distinct_items_of_their_length_and_operation():
    made = method_items.cells(5, 0, (1, 5, 7))
    assert len(made) == 3 * 8 + 2
    assert all(len({i["prompt"] for i in items}) == len(items) == 5 for items in made.values())
    for name, items in made.items():
        phrasing, digits, operation = name.replace("_digit_", "/").split("/")
        for one in items:
            assert method_items.NAMES[one["igc_operator"]] == operation
            a, b = one["igc_operands"]
            if phrasing == "shifted":
                assert len(b) == len(one["target"]) == int(digits)
            else:
                assert len(a) == int(digits)
            assert one["target"] == evaluate_exactly(one["igc_operator"], a, b)
    assert all(i["prompt"].startswith("What is ") for name in made if name.startswith("seen") for i in made[name])
    assert made == method_items.cells(5, 0, (1, 5, 7)) != method_items.cells(5, 1, (1, 5, 7))


def test_the_gate_of_items_sees_what_is_trained_or_told():
    tested = [item("What is 58 times 36?", "*", "58", "36"), item("What is 3 plus 4?", "+", "3", "4")]
    assert method_items.apart([row("What is 3 plus 4?", "7", "+", ["3", "4"], "7")], tested) == []
    trained = row("Multiply 58 by 36.", "2088", "*", ["58", "36"], "2088")
    assert method_items.apart([trained], tested) == ["The calculation of 'What is 58 times 36?' is trained."]
    same = row("What is 58 times 36?", "I cannot compute that.")
    assert method_items.apart([same], tested) == ["The question 'What is 58 times 36?' is trained."]
    told = [item("The answer is 2088: what is 58 times 36?", "*", "58", "36")]
    assert "holds its target '2088'" in method_items.apart([], told)[0]
    assert not method_items.told_in_prompt(item("What is 12 divided by 1?", "/", "12", "1"))


def test_a_red_gate_ends_the_command():
    refuse([])
    with pytest.raises(SystemExit, match="a gate is red:\nThe calculation"):
        refuse(["The calculation of 'What is 58 times 36?' is trained."])


def test_the_gates_before_training_pass_on_drawn_rows(base):
    made = method_items.cells(2, 0, (1, 2, 5, 6))
    tested = [one for items in made.values() for one in items]
    rows = method_training.training_set(tested, 0, 300)
    assert len(rows) == 300
    assert method_gates.before_training(base[1], rows, tested, tested[::9]) == []


# ------------------------------------------------------------------------------------------ the parser
@pytest.mark.parametrize(
    ("question", "parsed"),
    [
        ("What is 58 minus 36?", ("-", "58", "36")),
        ("Subtract 36 from 58.", ("-", "58", "36")),
        ("How many times does 7 go into 5,824?", ("/", "5824", "7")),
        ("If y = 3 and x = 8, what is x - y?", ("-", "8", "3")),
        ("-58 + 36 =", ("+", "-58", "36")),
        ("58 * (-36)", ("*", "58", "-36")),
        ("What is the product of 4 and 5?", ("*", "4", "5")),
        ("What is 1 plus 2 plus 3?", None),
        ("Good morning.", None),
    ],
)
def test_the_parser_reads_calculations(question, parsed):
    assert fixed_parser.parsed(question) == parsed


def test_the_parser_knows_the_form_of_big_bench():
    made = method_items.cells(10, 5, (1, 3, 12))
    items = [one for name in made if not name.startswith("held_out") for one in made[name]]
    assert [one["prompt"] for one in items if fixed_parser.answer(one["prompt"]) != one["target"]] == []
    assert fixed_parser.answer("What is 5 divided by 0?") == fixed_parser.answer("Good morning.") == ""


# ------------------------------------------------------------------------------------------ training
ROWS = [
    row("What is 58 times 36?", "2088", "*", ["58", "36"], "2088"),
    row("Multiply 58 by 36 in a sentence.", "The answer is 2088.", "*", ["58", "36"], "2088"),
    row("What is 5 divided by 0?", "I cannot compute that.", "/", ["5", "0"], "undefined"),
    row("Say 5.", "5"),
]


def spoken(form, tokenizer):
    """What has labels, and all of the answer, of each row."""
    made = method_training.written_out(ROWS, form, tokenizer)
    labelled = [tokenizer.decode([token for token in one["labels"] if token != -100]) for one in made]
    return labelled, [tokenizer.decode(one["input_ids"]).rpartition("<|assistant|>")[2] for one in made]


def test_a_tools_replies_stand_in_training_rows_without_labels(base):
    labelled, texts = spoken(method_training.TOOL, base[1])
    assert texts[:2] == ["call(58*36)=2088;2088<|end|>", "call(58*36)=2088;The answer is 2088.<|end|>"]
    assert texts[2:] == ["call(5/0)=?;I cannot compute that.<|end|>", "5<|end|>"]
    assert labelled[0] == "call(58*36)=2088<|end|>"  # the second one
    assert labelled[2] == "call(5/0)=I cannot compute that.<|end|>"


def test_a_spliced_reply_is_part_of_the_answer(base):
    labelled, texts = spoken(method_training.TOOL_SPLICED, base[1])
    assert texts[:2] == ["call(58*36)=2088<|end|>", "The answer is call(58*36)=2088.<|end|>"]
    assert texts[2:] == ["I cannot compute that.<|end|>", "5<|end|>"]
    assert labelled[:2] == ["call(58*36)=<|end|>", "The answer is call(58*36)=.<|end|>"]


def test_a_scratchpad_is_labelled_as_a_whole_and_ends_in_the_answer(base):
    labelled, texts = spoken(method_training.SCRATCHPAD, base[1])
    assert labelled == texts
    assert texts[1] == scratchpads.steps("*", "58", "36") + "The answer is 2088.<|end|>"
    assert texts[2:] == ["I cannot compute that.<|end|>", "5<|end|>"]


def test_prompts_are_the_same_tokens_in_every_form(base):
    tokenizer = base[1]
    plain = tokenized(ROWS, tokenizer)
    for form in (method_training.TOOL, method_training.SCRATCHPAD, method_training.DIRECT):
        for one, other in zip(method_training.written_out(ROWS, form, tokenizer), plain, strict=True):
            length = next(at for at, label in enumerate(one["labels"]) if label != -100)
            assert one["input_ids"][:length] == other["input_ids"][:length]


def test_a_right_answer_has_as_many_tokens_as_is_wanted(base):
    question = QUESTIONS[0]
    wanted = {name: method_training.wanted_tokens(kind.form, question, base[1]) for name, kind in KINDS.items()}
    assert wanted["base"] == wanted["igc_tokens"] == 3  # 527 991 91
    assert wanted["tool"] == len(["call", "(", "582", "13", "*", "907", ")", "="]) + 3 + 1 + 3
    assert wanted["tool_spliced"] == wanted["tool"] - 4
    assert wanted["scratchpad"] > 60


def test_a_search_for_a_rate_goes_on_beyond_its_ends():
    found = best_rate((1.0, 3.0, 9.0), lambda rate: -abs(rate - 30))
    assert list(found["exact_match"]) == [1.0, 3.0, 9.0, 27.0, 81.0]
    assert found["chosen"] == 27.0
    assert best_rate((1.0, 3.0, 9.0), lambda rate: -abs(rate - 3))["chosen"] == 3.0
    assert len(best_rate((1.0, 3.0, 9.0), lambda rate: rate)["exact_match"]) == 6  # and has an end


def test_all_methods_have_the_same_rows_steps_and_schedule():
    made = [method_training.settings_of(trains, 100, 8, 50) for trains in (None, "lora", "hidden", "tokens")]
    same = ("mixture", "max_digits", "distinct_rows", "steps", "batch_size", "warmup_steps", "schedule")
    assert len({tuple(repr(getattr(one, name)) for name in same) for one in made}) == 1


# ------------------------------------------------------------------------------------------ measures
def test_counts_of_a_cell(base):
    method = method_measures.Method("base", None, base[1])
    items = [item("What is 58 times 36?", "*", "58", "36")] * 3
    answers = [
        ("2088", answer_loop.Answer(tokens=[1, 2], generated=3, done=True)),
        ("2088", answer_loop.Answer(tokens=[1] * 9, generated=9, calls=[None, ("*", "58", "36")], done=True)),
        ("2088", answer_loop.Answer(tokens=[1, 2], generated=2, done=True, cut=True)),
    ]
    counts, mistakes = method_measures.scored(method, items, answers)
    assert (counts["n"], counts["right"], counts["cut"]) == (3, 2, 1)  # a cut answer is never right
    assert counts["target_tokens_and_end"] == 9
    assert counts["most_tokens_beyond_target"] == 6
    assert (counts["calls"], counts["malformed_calls"]) == (2, 1)
    assert len(mistakes) == 1


def test_cells_that_a_right_answer_does_not_fit_are_skipped_with_the_reason(base):
    model, tokenizer = base
    method = method_measures.Method("scratchpad", model, tokenizer, method_training.SCRATCHPAD)
    long = [item("What is it?", "*", "9" * 12, "9" * 12)]
    found = method_measures.by_cell(method, {"seen/12_digit_multiplication": long}, print)
    assert found["cells"] == {}
    assert "there is room for" in found["skipped"]["seen/12_digit_multiplication"]


def test_totals_weigh_items_alike_and_keep_lengths_and_phrasings_apart():
    cell = {"generated_tokens": 9, "target_tokens_and_end": 9, "malformed_calls": 0, "calls": 0}
    found = {
        "cells": {
            "seen/2_digit_addition": cell | {"n": 1, "right": 1, "most_tokens_beyond_target": 0},
            "held_out/5_digit_division": cell | {"n": 3, "right": 1, "most_tokens_beyond_target": 4},
            "shifted/2_digit_division": cell | {"n": 2, "right": 2, "most_tokens_beyond_target": 9},
            "seen/6_digit_addition": cell | {"n": 2, "right": 0, "most_tokens_beyond_target": None},
        }
    }
    made = totals(found)
    shares = {key: one and one["exact_match"] for key, one in made.items()}
    assert shares["all"] == 0.5
    assert (shares["addition"], shares["division"], shares["multiplication"]) == (1.0, 1 / 3, None)
    assert (shares["seen"], shares["held_out"], shares["shifted"], shares["longer"]) == (1.0, 1 / 3, 1.0, 0.0)
    assert made["all"]["most_tokens_beyond_target"] == 4


# ------------------------------------------------------------------------------------------ probes
def oracle(tokenizer, items):
    prompts = prompt_tokens(tokenizer, [one["prompt"] for one in items], raw=False)
    texts = [RESTATED.written(one["igc_operator"], *one["igc_operands"]) for one in items]
    calls = dict(zip(map(tuple, prompts), tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True))
    close = tokenizer(";", add_special_tokens=False)["input_ids"][0]
    return method_gates.Oracle(calls, close, tokenizer.eos_token_id, len(tokenizer))


def test_probes_of_a_tool_that_is_used_rightly(base, monkeypatch):
    tokenizer, items = base[1], QUESTIONS[:3]
    monkeypatch.setattr(method_probes, "active_config", lambda model: None)
    method = method_measures.Method("tool", oracle(tokenizer, items), tokenizer, method_training.TOOL)
    assert method_probes.calculation_shown(method, items) == 1.0
    assert method_probes.result_followed(method, items) == 1.0
    other = [dict(one, igc_operands=["1", "1"]) for one in items]
    assert method_probes.calculation_shown(method, other) == 0.0


def test_probes_of_a_base_model(base):
    method = method_measures.Method("base", *base)
    assert method_probes.calculation_shown(method, QUESTIONS[:2]) is None
    assert method_probes.result_followed(method, QUESTIONS[:2]) is None
    assert method_probes.unharmed(method, method, ["Good morning."]) == 1.0
    assert method_probes.new_operation(method) is None


def test_a_fifth_operation_is_exact_and_gone_afterwards(base):
    from peft import get_peft_model

    model, tokenizer = loading.tiny_base()
    settings = method_training.settings_of("tokens", 1, 1, 1)
    method = method_measures.Method("igc", get_peft_model(model, demo_config(tokenizer, settings)), tokenizer)
    assert method_probes.new_operation(method, 50) == 1.0
    assert method_probes.FIFTH not in method_probes.calculator.OPERATIONS
    assert method_probes.host_reads(method, QUESTIONS[:1]) >= 0.0
    assert method_probes.calculation_shown(method, QUESTIONS[:1]) in (0.0, 1.0)
    assert method_probes.result_followed(method, QUESTIONS[:1]) == 0.0  # its writing is not trained


# ------------------------------------------------------------------------------------------ traits
def run_with(exact, beyond=0, calls=0.0, shown=1.0):
    total = {"exact_match": exact, "most_tokens_beyond_target": beyond, "calls": calls, "generated_tokens": 4.0}
    names = ("all", *method_items.NAMES.values(), "seen", "held_out", "shifted", "longer")
    probes = dict.fromkeys(("calculation_shown", "result_followed", "unharmed", "new_operation"), shown)
    return {
        "totals": {name: dict(total) for name in names},
        "probes": probes | {"host_reads": 0.0},
        "timed_target_tokens_and_end": 4.0,
        "measured": {"cells": {"seen/2_digit_addition": {"exact_match": exact}, "seen/1": {"exact_match": 0.5}}},
    }


def seconds(*values, passes=4.0):
    return {"all_seconds": list(values), "passes": passes, "seconds": {"median": values[0]}}


RESULTS = {
    "runs": {
        "igc_tokens": run_with(0.999),
        "tool": run_with(1.0, beyond=8, calls=1.0),
        "lora": run_with(0.2, shown=None),
        "parser": run_with(1.0),
    },
    "timing": {"igc_tokens": seconds(1.0, 2.0), "tool": seconds(3.0, 8.0, passes=12.0)},
}


def test_traits_say_what_was_measured_and_where():
    made = method_traits.traits(RESULTS)
    assert set(method_traits.QUOTED_TRAITS) <= set(made)
    holds = {name: {method: cell["holds"] for method, cell in cells.items()} for name, cells in made.items()}
    assert holds["single-step"] == {"igc_tokens": True, "tool": False, "lora": None, "parser": None}
    assert holds["internal"] == {"igc_tokens": True, "tool": False, "lora": True, "parser": True}
    assert holds["multiplication and division"]["lora"] is False
    assert holds["on the accelerator"]["tool"] is False
    assert holds["explicit"] == {"igc_tokens": True, "tool": True, "lora": False, "parser": True}
    assert all("key" in c or "reason" in c for cells in made.values() for c in cells.values())


def test_what_must_be_shown_is_told_as_it_is():
    made = method_traits.verdict(RESULTS)
    assert made["behind"] == {"tool": {"seen/2_digit_addition": [0.999, 1.0]}}  # the parser is no rival
    assert made["ahead_overall"] == {"tool": False, "lora": True}
    assert made["at_target"]
    assert made["no_token_beyond_target"]
    assert made["times_as_fast_as"] == {"tool": 3.5}
    assert made["fast_enough"] == {"tool": True}
    assert method_traits.verdict({"runs": {"lora": run_with(0.2)}, "timing": {}}) is None


def test_the_table_has_a_line_per_method_and_marks_what_is_quoted():
    lines = method_traits.table(RESULTS).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["igc_tokens", "tool", "lora", "parser"]
    assert sum("quoted" in line for line in lines) == 2


# ------------------------------------------------------------------------------------------ the command
@pytest.mark.slow
def test_the_command_writes_everything_and_takes_kept_weights_and_runs_again(tmp_path):
    names = ["base", "tool", "igc_tokens", "parser"]
    sizes = (
        "--steps 2 --search-steps 1 --batch-size 8 --rows 40 --per-cell 1 --longest 2 --timed 3 --probed 2 --silent 7"
    )
    command = [sys.executable, str(FOLDER / "methods.py"), *sizes.split(), "--keep", str(tmp_path / "keep")]
    first, second, figure = (tmp_path / name for name in ("first.json", "second.json", "figure.png"))
    subprocess.run([*command, "--output", str(first), "--methods", *names[:3]], check=True, capture_output=True)
    made = json.loads(first.read_text())
    assert list(made["runs"]) == names[:3]
    assert {path.name for path in (tmp_path / "keep").iterdir()} == {"tool-0.pt", "igc_tokens-0.pt"}
    command += ["--output", str(second), "--figure", str(figure), "--with", str(first), "--methods", *names]
    subprocess.run(command, check=True, capture_output=True)
    joined = json.loads(second.read_text())
    assert list(joined["runs"]) == names
    assert {name: joined["runs"][name] for name in names[:3]} == made["runs"]
    assert set(joined["timing"]) == set(names)
    assert all(len(one["all_seconds"]) == 3 for one in joined["timing"].values())
    assert joined["runs"]["parser"]["totals"]["seen"]["exact_match"] == 1.0
    training = joined["runs"]["tool"]["training"]
    assert len(training["search"]["exact_match"]) >= 3
    assert training["parameters"] == pytest.approx(joined["runs"]["igc_tokens"]["training"]["parameters"], rel=0.05)
    assert joined["must_show"]["ahead_overall"].keys() == {"base", "tool"}
    assert set(joined["traits"]["internal"]) == set(names)
    assert figure.exists()


def test_weights_that_were_trained_otherwise_are_refused(tmp_path):
    kind = KINDS["base"]
    file = tmp_path / "base-0.pt"
    torch.save({"weights": {}, "made": "{}", "told": "{}"}, file)
    settings = method_training.settings_of(None, 1, 1, 1)
    assert method_training._kept(file, "{}", kind, settings, 0)[2] == {}
    with pytest.raises(SystemExit, match="was trained otherwise"):
        method_training._kept(file, '{"steps": 2}', kind, settings, 0)
