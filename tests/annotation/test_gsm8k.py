"""Promises for calculator annotations: what is taught at which anchor, what is left out, and what is counted.

Rows are hand-written in GSM8K's format, or `WorkedSolutions`. Real tokenizers take part where `PEFT_IGC_TOKENIZERS`
names a folder that holds `llama3.1/` and `qwen2.5/`. Try it: `pytest tests/annotation/test_gsm8k.py`.
"""

import copy
import functools
import itertools
import json
import os
from pathlib import Path

import pytest
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_training import WARNINGS, arguments
from transformers import AutoTokenizer

import peft_igc
from peft_igc import IGCConfig
from peft_igc.annotation.gsm8k import convert
from peft_igc.data.columns import ALL_COLUMNS, COLUMNS, check_columns
from peft_igc.data.dataset import to_dataset
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import decode
from peft_igc.text.values import Limits
from peft_igc.trainer.trainer import IGCTrainer
from peft_igc.tuner.anchor_rules import assistant_header
from recipes.tiny_base.worked_solutions import WorkedSolutions


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]

REAL = os.environ.get("PEFT_IGC_TOKENIZERS")
needs_real = pytest.mark.skipif(not REAL, reason="set PEFT_IGC_TOKENIZERS to a folder of saved tokenizers")
SMALL = {"reading_dim": 8, "reading_ffn": 8, "num_heads": 2, "gate_dim": 8, "writing_ffn": 8}
INTERFACES = pytest.mark.parametrize("interface", ["tokens", "hidden"])
NONE, UNKNOWN = ("none", None, None), (None, None, None)


@functools.cache
def tokenizer(name="tiny_base"):
    folder = Path(peft_igc.__file__).parent / "assets" if name == "tiny_base" else Path(str(REAL))
    return AutoTokenizer.from_pretrained(folder / name)


@functools.cache
def base_config(interface="tokens", name="tiny_base"):
    made = tokenizer(name)
    sizes = SMALL | ({"writing_dim": 8} if interface == "hidden" else {})
    return IGCConfig.from_tokenizer(made, anchors=["=", assistant_header(made)], interface=interface, **sizes)


def config(interface="tokens", name="tiny_base", **fields):
    """The rules `=` and assistant header; made once, because a tokenizer's profile takes its time."""
    made = copy.copy(base_config(interface, name))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def gsm(*answers, question="How many?"):
    return [{"question": question, "answer": answer} for answer in answers]


def entries(row):
    return list(zip(*(row[name] for name in COLUMNS), strict=True))


def entry(answer, interface="tokens", **fields):
    """The entry of the only anchor in a solution, and the report."""
    converted = convert(gsm(answer), tokenizer(), config(interface, **fields))
    header, *found = entries(converted.rows[0])
    assert header == NONE
    assert len(found) == 1
    return found[0], converted.report


def told(report):
    """Annotations by what became of them."""
    parts = ("supervised", "wrong", "beside_wrong", "without_anchor", "unreadable")
    return sum(report.refused.values()) + sum(getattr(report, part) for part in parts)


# ------------------------------------------------------------------------------------------ rows
@INTERFACES
def test_every_annotation_of_worked_solutions_is_supervised_and_stands_up_to_the_check_of_the_columns(interface):
    source = WorkedSolutions(seed=5).take(60)
    made, report = convert(source, tokenizer(), config(interface))
    marks = sum(row["answer"].count("<<") for row in source)
    assert (report.rows_in, report.rows_out, report.annotations, report.supervised) == (60, 60, marks, marks)
    assert (report.wrong, report.refused, report.without_anchor, report.bare_anchors) == (0, {}, 0, 0)
    for row, given in zip(made, source, strict=True):
        steps = check_columns(row, Limits())
        assert [step.operator for step in steps[:1]] == ["none"]
        written = [f"{step.operands[0]}{step.operator}{step.operands[1]}={step.result}" for step in steps[1:]]
        assert written == [mark.split(">>")[0] for mark in given["answer"].split("<<")[1:]]


def test_a_row_becomes_a_chat_without_marks():
    answer = "Natalia sold 48/2 = <<48/2=24>>24 clips.\nIn all 48+24 = <<48+24=72>>72.\n#### 72"
    (row,), _ = convert([{"id": 7, "question": " How many? ", "answer": answer}], tokenizer(), config())
    assert row.pop("prompt") == [{"role": "user", "content": " How many? "}]
    (message,) = row.pop("completion")
    assert message == {"role": "assistant", "content": "Natalia sold 48/2 = 24 clips.\nIn all 48+24 = 72.\n#### 72"}
    assert row.pop("igc_expression") == [None, "48/2", "48+24"]
    assert entries(row) == [NONE, ("/", ["48", "2"], "24"), ("+", ["48", "24"], "72")]


# ------------------------------------------------------------------------------------------ anchors
@INTERFACES
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("He has 48/2 = <<48/2=24>>24 clips.", ("/", ["48", "2"], "24")),
        ("48/2 = << 48 / 2 = 24 >>24", ("/", ["48", "2"], "24")),
        ("5 * $3 = <<5*$3=$15>>$15.00", ("*", ["5", "3"], "15")),
        ("10-15=<<10-15=-5>>-5", ("-", ["10", "15"], "-5")),
        ("In 2020\n- 10-15=<<10-15=-5>>-5", ("-", ["10", "15"], "-5")),
        ("10-15 = <<10-15=-5>>-$5", ("-", ["10", "15"], "-5")),
        ("With -5 and 7: -5 + 7 = <<-5+7=2>>2", ("+", ["-5", "7"], "2")),
        ("7 times 6 make\n = <<7*6=42>>42", ("*", ["7", "6"], "42")),
        ("1,000 + 500 = <<1000+500=1500>>1,500", ("+", ["1000", "500"], "1500")),
        ("1000 + 500 = <<1,000+500=1,500>>1500", ("+", ["1000", "500"], "1500")),
        ("007 - 7 = <<007-7=0>>0", ("-", ["7", "7"], "0")),
        ("3×4 = <<3×4=12>>12", ("*", ["3", "4"], "12")),
        ("8 − 4 = <<8−4=4>>4", ("-", ["8", "4"], "4")),
    ],
)
def test_an_annotation_is_the_entry_of_the_anchor_before_it(answer, expected, interface):
    found, report = entry(answer, interface)
    assert found == expected
    assert report.supervised == 1


def test_an_annotation_without_an_anchor_before_it_is_counted_and_taught_nowhere():
    for answer in (
        "He has <<48/2=24>>24 clips.",  # no anchor but that of the turn
        "48/2 = so <<48/2=24>>24",
        "48/2 = $$<<48/2=24>>24",
        "48/2 =\n<<48/2=24>>24",  # a token ` =\n`, which is no anchor
    ):
        (row,), report = convert(gsm(answer), tokenizer(), config())
        assert (report.annotations, report.without_anchor, report.supervised) == (1, 1, 0)
        assert set(row["igc_operator"][1:]) <= {None}


def test_of_two_anchors_before_an_annotation_the_last_counts_because_it_governs_the_result():
    equals, dollar = (tokenizer()(text, add_special_tokens=False)["input_ids"] for text in ("=", "$"))
    rows = gsm("5*$3=$<<5*3=15>>15")
    header = tokenizer()("<|assistant|>", add_special_tokens=False)["input_ids"]
    both = {"anchors": {"turns": [header], "inline": [equals, equals + dollar]}}
    (row,), report = convert(rows, tokenizer(), config(**both, reading_context="row"))
    assert entries(row) == [NONE, UNKNOWN, ("*", ["5", "3"], "15")]
    assert report.bare_anchors == 1
    (row,), _ = convert(rows, tokenizer(), config(**both))  # where the second one does not read beyond the first
    assert entries(row) == [NONE, UNKNOWN, NONE]


def test_anchors_without_an_annotation_are_not_supervised_but_that_of_the_turn_is():
    rows = gsm("x = 5 and 1+1 = <<1+1=2>>2", question="If y = 3, what is x = ?")
    (row,), report = convert(rows, tokenizer(), config())
    assert entries(row) == [UNKNOWN, UNKNOWN, NONE, UNKNOWN, ("+", ["1", "1"], "2")]
    assert report.bare_anchors == 3


def test_the_end_of_the_prompt_is_taught_as_none_too():
    made = config(anchors={"prompt_end": True, "inline": config().anchors["inline"]})
    answers = gsm("1+1 = <<1+1=2>>2", "<<48/2=24>>24", question="What is 48/2?")
    first, second = convert(answers, tokenizer(), made).rows
    assert entries(first) == [NONE, ("+", ["1", "1"], "2")]
    assert entries(second) == [("/", ["48", "2"], "24")]
    # also where a rule within texts names the same place
    header = tokenizer()("<|assistant|>", add_special_tokens=False)["input_ids"]
    made = config(anchors={"prompt_end": True, "inline": [header]})
    (row,), _ = convert(gsm("It is 3."), tokenizer(), made)
    assert entries(row) == [NONE]


# ------------------------------------------------------------------------------------------ what is taught
def test_what_is_right_but_beyond_the_calculator_is_taught_as_none():
    for interface, answer, reason in [
        ("hidden", "1+2+3 = <<1+2+3=6>>6", "not two integers"),
        ("hidden", "1.5+2 = <<1.5+2=3.5>>3.5", "not two integers"),
        ("hidden", "200*5% = <<200*5%=10>>10", "not two integers"),
        ("hidden", "2*(3+4) = <<2*(3+4)=14>>14", "not two integers"),
        ("hidden", "3+4*12=<<4*12=48>>48", "part of a longer expression"),
        ("hidden", "(5-3)+4=<<3+4=7>>7", "part of a longer expression"),
        ("hidden", "half of 48 = <<48/2=24>>24", "operand not in the text"),
        ("hidden", "48.5 and 2 = <<48/2=24>>24", "operand not in the text"),
        ("hidden", "the 48th, 2 = <<48/2=24>>24", "operand not in the text"),
        ("hidden", "the square of 12 = <<12*12=144>>144", "operand not in the text"),
        ("hidden", "200/2 = <<200/2=10000%>>10000%", "another result"),
        ("tokens", "3+4*12=<<4*12=48>>48", "part of a longer expression"),
        ("tokens", "He has 3 * 5 = <<3*4+3=15>>15.", None),  # the same value, so the same is written
        ("tokens", "He has 3 * 6 = <<3*5=15>>15.", "the text says another expression"),
        ("tokens", "She has 12 = <<12=12>>12.", "not two integers"),
        ("tokens", "Add 1, 2 and 3 = <<1+2+3=6>>6.", "not two integers"),
        ("tokens", "2+(3+4 = <<2+(3+4)=9>>9", "not read: brackets that do not match"),
        ("tokens", "48.5 and 2 = <<48/2=24>>24", "operand not in the text"),
        ("tokens", "1+1+1+1+1+1+1+1+1 = <<1+1+1+1+1+1+1+1+1=9>>9", "not read: more operands than `max_operands`"),
    ]:
        found, report = entry(answer, interface)
        assert report.refused == ({} if reason is None else {reason: 1}), answer
        assert (found == NONE) == (reason is not None)


def test_an_annotation_of_any_form_becomes_an_expression_where_tokens_are_read():
    for answer, *expected in [
        ("She has 1+2+3 = <<1+2+3=6>>6.", "expression", None, "6", "1+2+3"),
        ("That is 2*(3+4) = <<2*(3+4)=14>>14.", "expression", None, "14", "2*(3+4)"),
        ("Half an hour is 10*.5 = <<10*.5=5>>5.", "expression", None, "5", "10*.5"),
        ("Tax is 200*5% = $<<200*5%=10>>10.", "expression", None, "10", "200*5%"),
        ("It costs $1.50 x 4 = $<<1.5*4=6>>6.", "expression", None, "6", "1.5*4"),
        ("The sum is 1.5+2 = <<1.5+2=3.5>>3.5.", "expression", None, "3.5", "1.5+2"),
        ("All of it is 2*(1/3)*3 = <<2*(1/3)*3=2>>2.", "expression", None, "2", "2*(1/3)*3"),
        ("A third of it is 2*(1/3) = <<2*(1/3)=0.67>>0.67.", "expression", None, "inexact", "2*(1/3)"),
        ("It is 3*4 = <<3*4=12>>12.", "*", ["3", "4"], "12", "3*4"),  # two integers keep their operands
        ("It is 3*4 = <<(3*4)=12>>12.", "*", ["3", "4"], "12", "(3*4)"),
        ("It is 3*4 = <<3*(4)=12>>12.", "*", ["3", "4"], "12", "3*(4)"),
    ]:
        (row,), report = convert(gsm(answer), tokenizer(), config())
        assert [row[name][-1] for name in ALL_COLUMNS] == expected
        assert report.supervised == (expected[2] != "inexact")


def test_results_in_the_text_are_canonical_where_decimals_are_written():
    rows = gsm("It costs 3*$1.20=$<<3*1.20=3.60>>3.60 and 4*2.50=<<4*2.50=10.00>>10.00.")
    for interface, written in (
        ("hidden", "It costs 3*$1.20=$3.60 and 4*2.50=10.00."),
        ("tokens", "It costs 3*$1.20=$3.6 and 4*2.50=10."),
    ):
        (row,), _ = convert(rows, tokenizer(), config(interface))
        assert row["completion"][0]["content"] == written


@INTERFACES
@pytest.mark.parametrize(
    ("answer", "fields", "expected"),
    [
        ("7/2 = <<7/2=3.5>>3.5", {}, ("/", ["7", "2"], "inexact")),
        ("10/3 = <<10/3=3.33>>3.33", {}, ("/", ["10", "3"], "inexact")),
        ("7/2 = <<7/2=3.5>>3.5", {"rounding": "floor"}, NONE),
        ("7/2 = <<7/2=3>>3", {"rounding": "floor"}, ("/", ["7", "2"], "3")),
        ("-7/2 = <<-7/2=-4>>-4", {"rounding": "floor"}, ("/", ["-7", "2"], "-4")),
        ("-7/2 = <<-7/2=-3>>-3", {"rounding": "trunc"}, ("/", ["-7", "2"], "-3")),
        ("123+4 = <<123+4=127>>127", {"num_digits": 2}, ("+", ["123", "4"], "overflow")),
        ("1234567+4 = <<1234567+4=1234571>>1234571", {"num_digits": 2}, ("+", ["1234567", "4"], "overflow")),
        ("99*99 = <<99*99=9801>>9801", {"num_digits": 2, "result_digits": 3}, ("*", ["99", "99"], "overflow")),
    ],
)
def test_the_calculators_own_answer_is_taught(answer, fields, expected, interface):
    if interface == "tokens" and answer.endswith("3.5>>3.5") and not fields:
        expected = ("/", ["7", "2"], "3.5")  # which has decimals
    found, report = entry(answer, interface, **fields)
    assert found == expected
    reason = "another result" if found == NONE else expected[2]
    assert report.refused == ({} if reason.lstrip("-").replace(".", "").isdigit() else {reason: 1})
    assert told(report) == 1
    row = dict(zip(COLUMNS, found, strict=True))
    if expected[2] != "3.5":  # such a row has `igc_expression`, too
        check_columns(row, Limits.of(config(interface, **fields)))  # the trainer takes it


# ------------------------------------------------------------------------------------------ right and wrong
def test_right_expressions_are_right():
    for mark in (
        "2+3*4=14", "24/(4/2)=12", "2*-3=-6", "(20+30)%*4=2", "2/3=0.667", "1/8=.13", "1/8=.12", "0.1+0.2=0.3",
        "1/3=33%", "$1,200 + $.50 = $1,200.50", "99999999999999999999*3=299999999999999999997",
    ):  # fmt: skip
        _, report = entry(f"so = <<{mark}>>{mark.split('=')[1].strip()}")
        assert (report.wrong, report.unreadable) == (0, 0)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("48/2 = <<48/2=25>>25", "it gives 24"),
        ("7/2 = <<7/2=4>>4", "it gives 3.5"),
        ("2/3 = <<2/3=.66>>.66", "it gives 0.666"),
        ("0.1+0.2 = <<0.1+0.2=0.30000000000000004>>0.30000000000000004", "it gives 0.3"),
        ("99999999999999999999+1 = <<99999999999999999999+1=10>>10", "it gives 100000000000000000000"),
        ("5/0 = <<5/(3-3)=0>>0", "it divides by zero"),
        ("48/2 = <<48/2=24>>245", "the text continues with '245'"),
        ("48/2 = <<48/2=24>>24,500", "the text continues with '24,500'"),
        ("48/2 = <<48/2=24>>-24", "the text continues with '-24'"),
        ("48/2 = <<48/2=24>>", "the text continues with ''"),
    ],
)
def test_a_row_with_a_wrong_annotation_is_left_out_and_named(answer, fault):
    good = "1+1 = <<1+1=2>>2"
    rows = gsm(good, f"{good} and {answer} and = <<?>>3")
    made, report = convert(rows, tokenizer(), config())
    assert len(made) == report.rows_out == 1
    assert (report.rows_in, report.annotations, report.supervised) == (2, 4, 1)
    assert (report.wrong, report.beside_wrong, report.unreadable) == (1, 1, 1)
    (example,) = report.examples
    assert example.startswith(f"row 1: <<{answer.split('<<')[1].split('>>')[0]}>>: {fault[:-1]}")


def test_a_division_is_right_as_the_calculator_rounds_it_and_in_no_other_way():
    assert entry("10/3 = <<10/3=3>>3", rounding="floor")[1].supervised == 1
    for rounding, stated in (("floor", 4), ("refuse", 3)):
        with pytest.raises(ValueError, match="it gives 3.33"):
            entry(f"10/3 = <<10/3={stated}>>{stated}", rounding=rounding)
    # also where it cannot be written
    found, _ = entry("1000/3 = <<1000/3=333>>333", rounding="floor", num_digits=3)
    assert found == ("/", ["1000", "3"], "overflow")


def test_the_anchor_of_an_unreadable_mark_is_not_supervised():
    marks = ["", "=", "48/2", "=24", "48/2=", "x=24", "48/2=24=24", "48//2=24", "5+=5", "(2+3=5", "2+3)=5", "1 2+3=15"]
    marks += [
        "48/2=a",
        "1.2.3=1",
        "1,00+1=101",
        "9" * 300 + "=9",
        "(" * 100 + "1" + ")" * 100 + "=1",
        "a" * 300 + "=1",
    ]
    for mark in marks:
        found, report = entry(f"48/2 = <<{mark}>>24")
        assert found == UNKNOWN
        assert (report.annotations, report.unreadable, report.wrong, report.without_anchor) == (1, 1, 0, 0)


# ------------------------------------------------------------------------------------------ report
def test_every_annotation_is_counted_once_and_the_report_is_json():
    rows = gsm(
        "1+1 = <<1+1=2>>2, 7/2 = <<7/2=3.5>>3.5, 1+2+3 = <<1+2+3=6>>6",
        "1+1 = <<1+1=3>>3, 1+1 = <<1+1=2>>2, = <<?>>1",
        "so <<1+1=2>>2, <<!>>, x = 5",
    )
    _, report = convert(rows, tokenizer(), config())
    assert told(report) == report.annotations == 8
    assert json.loads(json.dumps(report.as_dict())) == {
        "rows_in": 3,
        "rows_out": 2,
        "annotations": 8,
        "supervised": 1,
        "refused": {"inexact": 1, "not read: a further number that nothing excuses": 1},
        "wrong": 1,
        "beside_wrong": 1,
        "without_anchor": 1,
        "unreadable": 2,
        "bare_anchors": 1,
        "examples": ["row 1: <<1+1=3>>: it gives 2"],
    }


# ------------------------------------------------------------------------------------------ errors
def test_a_row_that_will_not_do_is_named():
    for row, error, message in (
        (
            {"question": "How many?"},
            ValueError,
            r"row 1: the field `answer` .* got \{'question'.*`question` and",
        ),
        ({"question": "How many?", "answer": 5}, TypeError, "row 1: the field `answer` must be a string .* got 5"),
        ({"question": " ", "answer": "5"}, ValueError, "row 1: the field `question` .* not empty, got ' '"),
        ({"question": None, "answer": "5"}, ValueError, "row 1: the field `question` .* None"),
        ("1+1=2", TypeError, r"row 1: the field `question` .* got '1\+1=2'"),
        ({"question": "How many?", "answer": "<<?>> "}, ValueError, r"row 1: `answer` is empty .* got '<<\?>> '"),
    ):
        with pytest.raises(error, match=message):
            convert([*gsm("1+1 = <<1+1=2>>2"), row], tokenizer(), config())


def test_no_row_left_is_an_error_that_shows_why():
    with pytest.raises(ValueError, match=r"Of 1 rows none is left \(row 0: <<1\+1=3>>: it gives 2\)"):
        convert(gsm("1+1 = <<1+1=3>>3"), tokenizer(), config())
    with pytest.raises(ValueError, match=r"Of 0 rows none is left\. Check the file"):
        convert([], tokenizer(), config())


def test_a_config_or_a_tokenizer_that_cannot_be_used_is_refused():
    other = copy.deepcopy(tokenizer())
    other.chat_template = tokenizer().chat_template.replace("message['content']", "message['content'] | upper")
    bare = copy.deepcopy(other)
    bare.chat_template = None
    changed = config(number_tokens=config().number_tokens | {"minus": 8})
    for used, settings, message in (
        (
            tokenizer(),
            config(anchors={"prompt_end": True}),
            r"no anchor rule within texts .* anchors=\[\.\.\., \"=\"\]",
        ),
        (bare, config(), r"has no chat template\. Set `tokenizer\.chat_template`"),
        (other, config(), "row 0: the chat template of .* changes the solution 'It is 3'"),
        (tokenizer(), changed, "differs from the tokenizer that the adapter was created with"),
    ):
        with pytest.raises(ValueError, match=message):
            convert(gsm("It is 3"), used, settings)


# ------------------------------------------------------------------------------------------ training
@INTERFACES
def test_operators_operands_and_results_arrive_at_their_anchors_in_training(interface, tmp_path):
    made, report = convert(WorkedSolutions(seed=9, max_digits=3).take(6), tokenizer(), config(interface))
    model = get_peft_model(tiny_model("llama", vocab_size=len(tokenizer())), config(interface))
    trainer = IGCTrainer(
        model=model,
        args=arguments(tmp_path, per_device_train_batch_size=6),
        train_dataset=to_dataset(made),
        processing_class=tokenizer(),
    )
    batch, taught = next(iter(trainer.get_train_dataloader())), 0
    for row, step in itertools.product(range(6), range(batch["igc_anchors"].shape[1])):
        anchor, operator = batch["igc_anchors"][row, step].item(), batch["igc_operator"][row, step].item()
        before, after = (tokenizer().decode(part) for part in batch["input_ids"][row].tensor_split([anchor + 1]))
        if operator < 0:
            assert anchor == -1
        elif operator == 4:
            assert before.endswith("<|assistant|>")
        else:
            taught += 1
            a, b = decode(batch["igc_operands"][row, step], batch["igc_signs"][row, step])
            (result,) = decode(batch["igc_result"][row, step], batch["igc_result_sign"][row, step])
            assert before.replace(" ", "").endswith(f"{a}{'+-*/'[operator]}{b}=")
            assert after.lstrip(" $").startswith(result)
            assert batch["igc_result_status"][row, step] == Status.OK
    assert taught == report.supervised > 15


@needs_real
@pytest.mark.parametrize("interface", ["tokens", "hidden"])
@pytest.mark.parametrize("name", ["llama3.1", "qwen2.5"])
def test_real_vocabularies_keep_the_promises(name, interface):
    made = config(interface, name)
    source = WorkedSolutions(seed=6).take(60)
    _, report = convert(source, tokenizer(name), made)
    assert report.supervised == report.annotations == sum(row["answer"].count("<<") for row in source)
    cases = {
        "10-15=<<10-15=-5>>-5": ("-", ["10", "15"], "-5"),  # a token `=-`
        "10-15 = <<10-15=-5>>-5": ("-", ["10", "15"], "-5"),
        "5 * $3 = $<<5*3=15>>15": ("*", ["5", "3"], "15"),
        "1,234 + 500 = <<1234+500=1734>>1,734": ("+", ["1234", "500"], "1734"),
        "7/2 = <<7/2=3.5>>3.5": ("/", ["7", "2"], "3.5" if made.decimals else "inexact"),
        "half of 48 = <<48/2=24>>24": NONE,
    }
    assert made.decimals == (interface == "tokens")
    rows, report = convert(gsm(*cases), tokenizer(name), made)
    assert [entries(row) for row in rows] == [[NONE, expected] for expected in cases.values()]
    assert rows[3]["completion"][0]["content"] == "1,234 + 500 = 1734"
    assert len(tokenizer(name)("=$", add_special_tokens=False)["input_ids"]) == 1
    rows, _ = convert(gsm("5*$3=$<<5*3=15>>15"), tokenizer(name), made)
    assert entries(rows[0]) == [NONE, ("*", ["5", "3"], "15")]
