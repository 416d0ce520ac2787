"""Promises for calculator annotations: what is taught at which anchor, what is left out, and what is counted.

Rows are hand-written in GSM8K's format, or `WorkedSolutions`.
"""

import copy
import functools
import itertools
import json
import re
from pathlib import Path

import pytest
import real_tokenizers
from numbers_as_digits import decode
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_training import trainer

from peft_igc import IGCConfig
from peft_igc.annotation.gsm8k import convert
from peft_igc.data.columns import ALL_COLUMNS, COLUMNS, check_columns
from peft_igc.numbers.calculator import Status
from peft_igc.text.values import Limits
from peft_igc.tuner.anchor_rules import assistant_header
from recipes.tiny_base.worked_solutions import WorkedSolutions


SMALL = {"reading_dim": 8, "reading_ffn": 8, "num_heads": 2, "gate_dim": 8, "writing_ffn": 8}
INTERFACES = pytest.mark.parametrize("interface", ["tokens", "hidden"])
NONE, UNKNOWN = ("none", None, None), (None, None, None)


def tokenizer(name="tiny"):
    return real_tokenizers.saved(name)


@functools.cache
def base_config(interface="tokens", name="tiny"):
    made = tokenizer(name)
    sizes = SMALL | ({"writing_dim": 8} if interface == "hidden" else {})
    return IGCConfig.from_tokenizer(made, anchors=["=", assistant_header(made)], interface=interface, **sizes)


def config(interface="tokens", name="tiny", **fields):
    """The rules `=` and assistant header; made once, because a tokenizer's profile takes its time."""
    made = copy.copy(base_config(interface, name))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def gsm(*answers, question="How many?"):
    return [{"question": question, "answer": answer} for answer in answers]


def entries(row):
    return list(zip(*(row[name] for name in COLUMNS), strict=True))


def test_a_row_becomes_a_chat_without_marks():
    answer = "Natalia sold 48/2 = <<48/2=24>>24 clips.\nIn all 48+24 = <<48+24=72>>72.\n#### 72"
    (row,), _ = convert([{"id": 7, "question": " How many? ", "answer": answer}], tokenizer(), config())
    assert row.pop("prompt") == [{"role": "user", "content": " How many? "}]
    (message,) = row.pop("completion")
    assert message == {"role": "assistant", "content": "Natalia sold 48/2 = 24 clips.\nIn all 48+24 = 72.\n#### 72"}
    assert row.pop("igc_expression") == [None, "48/2", "48+24"]
    assert entries(row) == [NONE, ("/", ["48", "2"], "24"), ("+", ["48", "24"], "72")]


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


LINES = [json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["answer"][:40])
def test_an_annotation_is_taught_refused_or_wrong_as_the_golden_file_says(line):
    """A line has the `columns` of the only annotation of a solution, and the reason where it is `refused`.

    Annotations that are `told` as unreadable or without an anchor are not supervised; a `wrong` one leaves no row.
    """
    used = config(line.get("interface", "tokens"), **line.get("settings", {}))
    if "wrong" in line:
        with pytest.raises(ValueError, match=re.escape(f">>: {line['wrong']}")):
            convert(gsm(line["answer"]), tokenizer(), used)
        return
    (row,), report = convert(gsm(line["answer"]), tokenizer(), used)
    columns = [row[name] for name in ALL_COLUMNS if name in row]
    assert [column[-1] for column in columns] == line["columns"]
    assert columns[0][0] == "none"
    assert report.refused == ({line["refused"]: 1} if "refused" in line else {})
    told = "refused" if "refused" in line else line.get("told", "supervised")
    for part in ("supervised", "without_anchor", "unreadable", "wrong"):
        assert getattr(report, part) == (part == told)
    check_columns(row, Limits.of(used))  # the trainer takes it


def test_results_in_the_text_are_canonical_where_decimals_are_written():
    rows = gsm("It costs 3*$1.20=$<<3*1.20=3.60>>3.60 and 4*2.50=<<4*2.50=10.00>>10.00, 3*.1=<<3*.1=.3>>.3")
    for interface, written in (
        ("hidden", "It costs 3*$1.20=$3.60 and 4*2.50=10.00, 3*.1=.3"),
        ("tokens", "It costs 3*$1.20=$3.6 and 4*2.50=10, 3*.1=0.3"),
    ):
        (row,), _ = convert(rows, tokenizer(), config(interface))
        assert row["completion"][0]["content"] == written


def test_every_annotation_is_counted_once_and_the_report_is_json():
    rows = gsm(
        "1+1 = <<1+1=2>>2, 7/2 = <<7/2=3.5>>3.5, 1+2+3 = <<1+2+3=6>>6",
        "1+1 = <<1+1=3>>3, 1+1 = <<1+1=2>>2, = <<?>>1",
        "so <<1+1=2>>2, <<!>>, x = 5",
    )
    _, report = convert(rows, tokenizer(), config())
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


def test_a_row_that_will_not_do_is_named():
    for row, error, message in (
        ({"question": "How many?"}, ValueError, r"row 1: the field `answer` .* got \{'question'.*`question` and"),
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


@INTERFACES
def test_operators_operands_and_results_arrive_at_their_anchors_in_training(interface, tmp_path):
    made, report = convert(WorkedSolutions(seed=9, max_digits=3).take(6), tokenizer(), config(interface))
    model = get_peft_model(tiny_model("llama", vocab_size=len(tokenizer())), config(interface))
    trained = trainer(tmp_path, made, model, per_device_train_batch_size=6, processing_class=tokenizer())
    batch, taught = next(iter(trained.get_train_dataloader())), 0
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


@INTERFACES
@pytest.mark.parametrize("name", ["tiny", real_tokenizers.LLAMA, real_tokenizers.QWEN])
def test_vocabularies_keep_the_promises(name, interface):
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
    assert name == "tiny" or len(tokenizer(name)("=$", add_special_tokens=False)["input_ids"]) == 1
    rows, _ = convert(gsm("5*$3=$<<5*3=15>>15"), tokenizer(name), made)
    assert entries(rows[0]) == [NONE, ("*", ["5", "3"], "15")]
