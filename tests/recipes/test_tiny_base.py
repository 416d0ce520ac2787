"""The embedded base model: its size, its tokenizer, what it can and cannot do, and that its recipe runs."""

import functools
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from peft_igc import generate_answers
from peft_igc.inference.loading import tiny_base


ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "recipes"
FOLDER = ROOT / "peft_igc" / "assets" / "tiny_base"
RESULTS = RECIPES / "tiny_base" / "results.json"
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 12 plus 7?"},
    {"role": "assistant", "content": "19"},
    {"role": "user", "content": "Thanks!"},
    {"role": "assistant", "content": "You are welcome."},
]


@pytest.fixture(scope="module")
def base():
    return tiny_base()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture
def recipe(monkeypatch):
    """The recipe's own modules, importable as they are when it runs."""
    monkeypatch.syspath_prepend(str(RECIPES))
    from tiny_base import corpus, record

    return SimpleNamespace(corpus=corpus, record=record)


def test_the_chat_template_writes_the_agreed_format(tokenizer):
    assert tokenizer.apply_chat_template(CHAT, tokenize=False) == (
        "<|begin|><|system|>Be brief.<|end|><|user|>What is 12 plus 7?<|end|><|assistant|>19<|end|>"
        "<|user|>Thanks!<|end|><|assistant|>You are welcome.<|end|>"
    )
    prompt = tokenizer.apply_chat_template(CHAT[:2], tokenize=False, add_generation_prompt=True)
    assert prompt == "<|begin|><|system|>Be brief.<|end|><|user|>What is 12 plus 7?<|end|><|assistant|>"


def test_the_generation_marks_cover_the_answers_and_their_ends_only(tokenizer):
    marked = tokenizer.apply_chat_template(CHAT, return_dict=True, return_assistant_tokens_mask=True)
    pairs = zip(marked["input_ids"], marked["assistant_masks"], strict=True)
    assert tokenizer.decode([index for index, mark in pairs if mark]) == "19<|end|>You are welcome.<|end|>"


def test_it_copies_numbers_and_is_poor_at_arithmetic(base):
    draw = random.Random(3)
    numbers = [str(draw.randrange(10 ** (n - 1), 10**n)) for n in range(1, 13)]
    pairs = [(draw.randrange(100, 1000), draw.randrange(100, 1000)) for _ in range(6)]
    answers = functools.partial(generate_answers, *base, max_new_tokens=12)
    copied = answers([f"Copy this: {number}" for number in numbers])
    assert sum(map(str.__eq__, copied, numbers)) >= 11
    questions = [f"What is {a} {name} {b}?" for a, b in pairs for name in ("plus", "times")]
    results = [str(result) for a, b in pairs for result in (a + b, a * b)]
    assert sum(map(str.__eq__, answers(questions), results)) <= 3


def test_the_record_meets_the_promises_and_belongs_to_the_files_and_the_page(recipe):
    record = json.loads(RESULTS.read_text())
    assert record["scores"]["copying"]["1_to_12_digits"] >= 0.99
    assert record["scores"]["arithmetic"]["overall"] < 0.35
    assert record["bytes"] == {path.name: path.stat().st_size for path in sorted(FOLDER.iterdir())}
    page = RESULTS.with_name("README.md").read_text(encoding="utf-8")
    assert recipe.record.update_readme(page, record) == page


@pytest.mark.slow
def test_no_paragraph_is_both_trained_and_held_out(recipe):
    held = {p.strip() for text in recipe.corpus.held_out_texts() for p in recipe.corpus.split_paragraphs(text)}
    train = {p.strip() for text in recipe.corpus.training_texts() for p in recipe.corpus.split_paragraphs(text)}
    assert len(held) > 100
    assert len(train) > 5000
    assert held.isdisjoint(train)


@pytest.mark.slow
def test_the_recipe_runs_from_nothing_to_a_model_with_scores_and_twice_the_same(tmp_path):
    command = [sys.executable, str(RECIPES / "pretrain_tiny_base.py"), "--no-compile", "--threads", "1"]
    command += ["--steps", "4", "--snapshot-every", "2", "--items", "2", "--log-every", "2", "--chat-rows", "8"]
    for name in ("one", "two"):
        run = subprocess.run([*command, "--output", str(tmp_path / name)], capture_output=True, text=True, check=True)
        assert re.search(r"step 4/4 .* tokens/s .* s left", run.stdout)
    record = json.loads((tmp_path / "one.json").read_text())
    assert record["settings"]["steps"] == 4
    assert record["scores"]["items_per_figure"] == 2
    assert {path.name for path in (tmp_path / "one").iterdir()} == {path.name for path in FOLDER.iterdir()}
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
