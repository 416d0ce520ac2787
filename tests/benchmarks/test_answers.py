"""Forms of answers that are compared: scratchpads, calls of a tool, the loop that writes them, the parser, their rows.

Each gate is seen red where what it guards breaks. Nothing is measured.
"""

from __future__ import annotations

import random
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from benchmark_questions import QUESTIONS, item, row
from tiny_training import WARNINGS

from benchmarks.accuracy.ablations import best_rate
from benchmarks.common import answer_loop
from benchmarks.methods import fixed_parser, scratchpads
from benchmarks.methods import gates as method_gates
from benchmarks.methods import items as method_items
from benchmarks.methods import measures as method_measures
from benchmarks.methods import training as method_training
from benchmarks.methods.tool_use import RESTATED, SPLICED, Tool
from peft_igc.inference import loading
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.evaluation import generate_answers
from peft_igc.trainer.batches import tokenized


KINDS = method_training.KINDS
pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]


@pytest.fixture(scope="module")
def base():
    return loading.tiny_base()


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
    calls = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return Pushed(model, list(zip(prompts, calls, strict=True))), prompts


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["igc_tokens", "lora"])
def test_a_trained_method_computes_as_one_that_was_loaded(name, tmp_path):
    budget = method_training.Budget(steps=2, search_steps=1, batch_size=4, rows=8)
    rows = partial(method_training.training_set, [])

    def made():
        return method_training.trained(name, 0, budget, lambda seed: rows(seed, 8), lambda *_: 0.0, tmp_path)

    (trained, tokenizer, _), (loaded, *_) = made(), made()  # the second time from what was kept
    ids = torch.tensor([tokenizer("What is 58 times 36?")["input_ids"]])
    with torch.no_grad():
        assert torch.equal(trained(ids).logits, loaded(ids).logits)  # not autocast to bf16, as the trainer leaves it
