"""What `benchmarks/accuracy/gsm8k_solutions.py` counts, and the reader of written calculations that it counts with."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from fractions import Fraction

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_training import NESTED, WARNINGS

from benchmarks.accuracy import gsm8k_solutions
from benchmarks.common.written_calculations import calculations, final_answer, first_number, interval, replayed
from peft_igc import IGCConfig, assistant_header, tiny_base
from peft_igc.data.worked_solutions import WorkedSolutions
from peft_igc.trainer import precision


TRUE = [
    "48/2 = 24 clips",
    "48 / 2 =24",
    "She sold 30 snakes * 3 birds/snake = 90 birds",
    "$5 per hour x 8 hours = $40",
    "(2 + 3) * $4 = $20.00",
    "1,200 - 200 = 1,000",
    "10/3 = 3.33",
    "20% * 50 = 10",
    "She gets 10% of $5000/4 = $125",
    "90% of 80*90 = 6480",
    "100 - 95 = 5%",
    "5/100 = 5%",
    "(2+4)*2 = 6*2 = 12",
    "3 - 5 = -2",
    ".5 x 4 = 2",
    "12 – 4 = 8",
]
UNTRUE = ["48/2 = 25", "10% of 80*2 = 160", "7/2 = 3", "2+3 = 5.5", "10/3 = 3.35", "3 - 5 = 2", "(2+4)*2 = 6*3 = 18"]
UNREADABLE = ["x = 5", "So the sum = 12", "1 1/2 * 4 = 6", "at 12:30 + 18 = 48", "66(1/3) = 22", "M + 4 + 2 = 8"]


def test_true_calculations_are_told_from_untrue_and_unreadable_ones_as_written():
    for text in TRUE:
        assert calculations(text)[0].is_true is True, text
    for text in UNTRUE:
        assert calculations(text)[0].is_true is False, text
    for text in UNREADABLE:
        assert calculations(text)[0].is_true is None, text


def test_every_equals_sign_is_found_at_its_place_as_written():
    text = "Ann has 2+3 = 5.\nThen 5*4=20=x"
    found = calculations(text)
    assert [text[one.place] for one in found] == ["=", "=", "="]
    assert [one.value for one in found] == [5, 20, None]
    assert [one.is_true for one in found] == [True, True, None]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("2+3 = 5.\n5*4 = 20.\n#### 20", 20),
        ("2+3 = 6.\n6*4 = 24.\n#### 24", 20),  # the error goes on
        ("2+3 = 6.\n6*4 = 25.\n#### 25", 20),
        ("2+3 = 6.\n6*4 = 24.\n#### 7", 7),  # another plan
        ("2+3 = 6.\nShe has 6 + 1 = 7 of them.\n4+2 = 6.\n6*2 = 12\n#### 12", 12),  # a right 6 takes over
        ("2+3 = 5", None),
        ("10/4 = 2.\n2*8 = 16\n#### $16.00", 20),
    ],
)
def test_a_plan_is_replayed_with_exact_arithmetic_as_written(text, answer):
    assert replayed(text) == answer


def test_numbers_at_the_beginning_and_the_end():
    assert first_number(" $1,200.50 left") == Fraction("1200.5")
    assert first_number("-3") == -3
    assert first_number("50% of") == 50
    assert first_number(" apples 3") is None
    assert final_answer("#### 1\n#### 1,234") == 1234
    assert final_answer("It is 7.") is None
    low, high = interval(90, 100)
    assert 0.82 < low < 0.83
    assert 0.94 < high < 0.95


def test_questions_are_split_so_that_none_is_on_both_sides():
    lines = [json.dumps({"question": f"Question {i}?", "answer": str(i)}) for i in range(60)]
    train, held = gsm8k_solutions.split([*lines, *lines[:20]], 20, 30)
    assert (len(train), len(held)) == (30, 20)
    assert not {row["question"] for row in train} & {row["question"] for row in held}
    more, _ = gsm8k_solutions.split(lines, 10, 30)
    assert more == train  # whatever is held out
    _, later = gsm8k_solutions.split(lines, 10, 30, seen=10)
    assert later == held[10:]
    with pytest.raises(ValueError, match="0 \\+ 20 \\+ 50 questions are asked for, but there are 60"):
        gsm8k_solutions.split(lines, 20, 50)


def test_shares_count_what_can_be_told():
    counts = Counter({"ok, true": 90, "ok, untrue": 10, "ok, unreadable": 5, "none, true": 20, "no step, untrue": 30})
    counts |= Counter({"equals": 155, "right": 10, "replayed_right": 40, "cut": 1})
    found = gsm8k_solutions._own_report(counts, 50)
    assert (found["true"], found["true_n"]) == (110 / 150, 150)
    assert (found["true_though_ok"], found["true_though_ok_n"]) == (0.9, 100)
    assert (found["answers_right"], found["plans_right"], found["equals_per_solution"]) == (0.2, 0.8, 3.1)


@pytest.mark.parametrize(
    ("text", "cut", "counted"),
    [("73 + 73 = 1", True, 0), ("73 + 73 =", True, 0), ("73 + 73 = 1", False, 1), ("73 + 73 = 146 and", True, 1),
     ("5 + 5 = 10\n73 + 73 = $1", True, 1)],
)  # fmt: skip
def test_a_number_that_the_limit_of_tokens_cut_is_not_counted(monkeypatch, text, cut, counted):
    solution = gsm8k_solutions.Solution(text, cut, {})
    monkeypatch.setattr(gsm8k_solutions, "written", lambda *_: [solution])
    monkeypatch.setattr(gsm8k_solutions, "asked", lambda *_: "")
    found = gsm8k_solutions.own_solutions(None, None, [{"question": "", "answer": "#### 146"}], 1, 9)
    assert found["equals_per_solution"] == counted


@pytest.mark.filterwarnings(f"ignore:{NESTED[0].split(':')[1]}", f"ignore:{NESTED[1].split(':')[1]}")
def test_a_lora_alone_gets_as_many_weights(tmp_path):
    base, tokenizer = tiny_base()
    lora = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"), adapter_name="low_rank")
    config = IGCConfig.from_tokenizer(tokenizer, anchors=["=", assistant_header(tokenizer)], reading_dim=64)
    joint = get_peft_model(lora, config)
    wanted = sum(p.numel() for p in joint.parameters() if p.requires_grad)
    joint.save_pretrained(tmp_path)
    rank = gsm8k_solutions.equal_rank(tmp_path, 4)
    alone = get_peft_model(tiny_base()[0], LoraConfig(r=rank, target_modules="all-linear"))
    per_rank = sum(p.numel() for p in alone.parameters() if p.requires_grad) / rank
    assert abs(per_rank * rank - wanted) <= per_rank / 2


def test_steps_are_found_at_the_equals_signs_of_what_was_written(monkeypatch):
    base, tokenizer = tiny_base()
    config = IGCConfig.from_tokenizer(tokenizer, anchors=["="], reading_dim=64, num_heads=4)
    model = get_peft_model(base, config).eval()
    written = tokenizer("So 7/2 = 3 and 48+24 = 72.", add_special_tokens=False)["input_ids"]
    prompts = ["Ann sold 5+6 =", "Bob had 12 and gave"]
    generate = model.generate

    def follow(input_ids, attention_mask, generation_config):
        """What is written is given, so that the steps in it are known."""
        ids = torch.cat([input_ids, torch.tensor([written] * len(input_ids))], 1)
        mask = torch.cat([attention_mask, torch.ones(len(ids), len(written), dtype=torch.int64)], 1)
        generation_config.max_new_tokens = 1
        return generate(input_ids=ids, attention_mask=mask, generation_config=generation_config)[:, :-1]

    monkeypatch.setattr(model, "generate", follow)
    for prompt, made in zip(prompts, gsm8k_solutions.written(model, tokenizer, prompts, 1, 2), strict=True):
        places = [index for index, letter in enumerate(made.text) if letter == "="]
        assert sorted(made.statuses) == [-1] * (prompt[-1] == "=") + places
        assert made.statuses[places[0]] in ("ok", "none")
        assert len(places) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings(*WARNINGS)
def test_both_kinds_are_trained_and_measured_from_the_command_line(tmp_path, monkeypatch):
    rows = WorkedSolutions(seed=5).take(24)
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({k: row[k] for k in ("question", "answer")}) + "\n" for row in rows))
    changed = ["max_steps=2", "per_device_train_batch_size=4", "bf16=false", "warmup_steps=0"]
    changed += ["dataloader_pin_memory=false"]
    line = ["measure", "--base", "tiny", "--data", str(data), "--output", str(tmp_path / "out.json"), "--rows", "16"]
    line += ["--held-out", "4", "--longest", "24", "--dtype", "float32", "--keep", str(tmp_path / "kept")]
    line += ["--calculator", "tiny", "--sites", "8", "--site-steps", "2", "--reading-steps", "2"]
    line += ["--set", *changed]
    monkeypatch.setattr(sys, "argv", ["gsm8k_solutions", *line])
    monkeypatch.setattr(gsm8k_solutions, "TIMED_BATCHES", (1, 3))
    monkeypatch.setattr(gsm8k_solutions, "TIMED_TOKENS", 8)
    monkeypatch.setattr(gsm8k_solutions, "TIMED_ROUNDS", 2)
    gsm8k_solutions.main()
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(found["runs"]) == {"igc+lora, seed 0", "lora, seed 0", "token times, seed 0"}
    times = found["runs"]["token times, seed 0"]
    assert set(times) == {"batch 1", "batch 3"}
    assert all(times["batch 3"][kind]["median"] > 0 for kind in ("igc+lora", "lora"))
    # the overhead is that of the first over the second, round by round
    assert times["batch 1"]["overhead"]["n"] == 2
    joint, alone = found["runs"]["igc+lora, seed 0"], found["runs"]["lora, seed 0"]
    assert joint["training"]["steps"] == alone["training"]["steps"] == 2
    assert abs(joint["training"]["parameters"] / alone["training"]["parameters"] - 1) < 0.02
    marks = (tmp_path / "kept" / "data" / "held_out.jsonl").read_text().count("<<")
    assert joint["given"]["n"] == alone["given"]["n"] == marks
    assert set(alone["given"]["counts"]) <= {"no step, right", "no step, wrong"}
    assert not any(name.startswith("no step") for name in joint["given"]["counts"])
    assert {"versions", "hardware", "commit", "settings", "conversion"} <= found.keys()
    assert str(tmp_path) not in (tmp_path / "out.json").read_text()


@pytest.mark.parametrize("faster", [False, True])
def test_the_recipe_follows_the_device_and_a_lora_alone_may_get_its_rank(tmp_path, monkeypatch, faster):
    monkeypatch.setattr(precision, "computes_bf16", lambda: faster)

    def settings(kind, *line):
        arguments = gsm8k_solutions.build_parser().parse_args(
            ["measure", "--base", "base", "--data", "x.jsonl", "--output", "y.json", *line]
        )
        return gsm8k_solutions.settings_of(kind, arguments, tmp_path, tmp_path / "lora-0", 0)

    joint = settings("igc+lora", "--device", "cpu")
    assert (joint["use_cpu"], joint["bf16"]) == (True, faster)
    joint = settings("igc+lora", "--device", "cuda", "--set", "num_train_epochs=7")
    assert (joint["use_cpu"], joint["bf16"], joint["num_train_epochs"]) == (False, True, 7)
    alone = settings("lora", "--device", "cpu", "--lora-rank", "5")
    assert (alone["lora_r"], alone["lora_alpha"]) == (5, 10)
    assert not [name for name in alone if name.startswith("igc_") and name != "igc_adapter"]


def test_the_rows_for_the_writing_are_those_of_the_file_whatever_their_letters(tmp_path, monkeypatch):
    rows = [{"question": "Ann sold\u2028two clips.", "answer": "1+1 = 2\x85"}, {"question": "So?", "answer": "2"}]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    given = {}
    monkeypatch.setattr(gsm8k_solutions, "train_sites", lambda **arguments: given.update(arguments) or {"steps": 5})
    arguments = argparse.Namespace(base="tiny", sites=3, again_steps=5, exchange=True, device="cpu")
    assert gsm8k_solutions._write_again(arguments, path, tmp_path / "adapter", 1) == {"steps": 5}
    assert given["rows"] == rows
    assert given["exchange"] is True
    assert (given["calculator"], given["output"]) == (tmp_path / "adapter",) * 2


def test_a_final_answer_is_copied_if_the_first_number_written_is_it(monkeypatch):
    asked = []

    def written(model, tokenizer, prompts, *sizes):
        asked.extend(prompts)
        return [gsm8k_solutions.Solution(text, False, {}) for text in (" 24\n", " 2", "")]

    monkeypatch.setattr(gsm8k_solutions, "written", written)
    monkeypatch.setattr(gsm8k_solutions, "asked", lambda tokenizer, question: question)
    rows = [{"question": "How many?", "answer": "48/2 = <<48/2=24>>24.\n#### 24"}] * 3
    found = gsm8k_solutions.copied_answers(None, None, rows, 8)
    assert asked == ["How many?48/2 = 24.\n####"] * 3
    assert (found["n"], round(3 * found["right"])) == (3, 1)
    assert [one["written"] for one in found["examples"]["wrong"]] == [" 2", ""]
