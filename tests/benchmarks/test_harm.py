"""What `benchmarks/harm/harm.py` promises: texts of the right kinds that no training has, honest counts, red gates."""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_training import WARNINGS

from benchmarks.common.small_trainings import SETTINGS, demo_config, training_rows
from benchmarks.harm import harm
from benchmarks.harm import texts as harm_texts
from benchmarks.harm.prose import EVERYDAY
from benchmarks.harm.texts import ABOUT, KINDS, NUMBERS, PROSE, Text
from peft_igc import tiny_base
from peft_igc.numbers.calculator import Result, Status
from peft_igc.tuner.steps import Step


pytestmark = [
    *(pytest.mark.filterwarnings(warning) for warning in WARNINGS),
    # peft 0.21.2 looks for the embedded base's config where its name would be a hub id or a folder.
    pytest.mark.filterwarnings("ignore:Could not find a config file in:UserWarning"),
]

BESIDE = ["What is 12 plus 30?", "What is 7 times 8?"]


@pytest.fixture(scope="module")
def texts():
    return harm_texts.texts(250)


def random_igc(interface="tokens", **more):
    """The embedded base with an adapter that reads and writes at random."""
    base, tokenizer = tiny_base()
    torch.manual_seed(0)
    config = demo_config(tokenizer, SETTINGS[interface], **more)
    config.init_weights = False
    return get_peft_model(base, config).eval(), tokenizer


# --------------------------------------------------------------------------------------------- texts
def test_there_are_a_few_hundred_distinct_texts_of_each_kind_and_seeds_give_the_same(texts):
    assert tuple(texts) == KINDS
    for made in texts.values():
        assert len({text.prompt for text in made}) == len(made) == 250
    assert harm_texts.texts(250) == texts
    assert harm_texts.texts(250, seed=1)[NUMBERS] != texts[NUMBERS]


def test_texts_are_what_their_groups_say(texts):
    least = {"one number": (1, 1), "two numbers": (2, 2), "more numbers": (3, 4), "in words": (0, 0)}
    for text in texts[NUMBERS] + texts[ABOUT]:
        low, high = least.get(text.group, (2, 3))
        assert low <= text.numbers <= high, text
        assert text.continuation is None
    assert {text.group for text in texts[PROSE]} == {"documentation", "everyday"}
    assert not any(symbol in text.prompt for text in texts[NUMBERS] for symbol in "+*/=")


def test_prose_goes_on_as_its_text_does_for_long_enough(texts):
    tokenizer = tiny_base()[1]
    sources = [" ".join(source.split()) for source in (*EVERYDAY, *harm_texts.documentation())]
    for text in texts[PROSE]:
        assert any(f"{text.prompt} {text.continuation}" in source for source in sources)
    encoded = tokenizer([text.continuation for text in texts[PROSE]], add_special_tokens=False)["input_ids"]
    assert min(map(len, encoded)) >= harm.SCORED >= harm.LEAST


def sentences(prompt):
    """Sentences of four words and more, numbers masked."""
    parts = re.split(r"[.!?:]\s|\n", re.sub(r"\d+", "#", prompt.lower()))
    return {" ".join(re.findall(r"[a-z#]+", part)) for part in parts if len(part.split()) >= 4}


@pytest.mark.slow
def test_no_phrasing_is_one_of_the_adapters_training(texts):
    rows = training_rows([], 0, dataclasses.replace(SETTINGS["tokens"], distinct_rows=4000)).rows
    trained = set().union(*(sentences(message["content"]) for row in rows for message in row["prompt"]))
    assert len(trained) > 1000
    own = set().union(*(sentences(text.prompt) for made in texts.values() for text in made))
    assert len(own) > 300
    assert not own & trained


@pytest.mark.slow
def test_the_everyday_prose_is_not_in_the_bases_corpus():
    # that the documentation is not either is a test of `test_tiny_base.py`
    trained = " ".join(" ".join(text.split()) for text in harm_texts.corpus.training_texts())
    rng = random.Random(0)
    for source in EVERYDAY:
        words = source.split()
        for start in rng.sample(range(len(words) - 6), 5):
            assert " ".join(words[start : start + 6]) not in trained


# --------------------------------------------------------------------------------------------- counting
def test_likelihood_is_the_mean_over_the_last_tokens():
    logits, ids = torch.randn(2, 5, 7), torch.randint(7, (2, 5))
    probability = logits.double().softmax(-1)
    expected = [sum(probability[b, t - 1, ids[b, t]].log() for t in (2, 3, 4)) / 3 for b in range(2)]
    torch.testing.assert_close(harm.per_token(logits, ids, 3), torch.stack(expected))


def test_intervals_hold_the_mean_and_are_nothing_where_nothing_changed():
    assert harm.interval([0.0] * 20) == [0.0, 0.0]
    low, high = harm.interval([0.0] * 50 + [1.0] * 50)
    assert 0.3 < low < 0.5 < high < 0.7
    assert harm.interval([0.0] * 50 + [1.0] * 50) == [low, high]


def test_what_is_told_of_a_kind():
    def one(group, activated, identical, answer, change):
        return harm.Outcome(Text("1 or 2", group), activated, identical, "a", answer, {"own": change})

    found = [one("x", False, True, "a", 0.0), one("x", True, False, "b", -0.5), one("y", False, False, "a", 0.1)]
    told = harm.summary(found)
    counted = {"n": 3, "with_two_numbers": 3, "activated": 1, "bit_identical": 1, "texts_changed": 1}
    assert counted.items() <= told.items()
    assert told["changed_without_activation"] == 1
    change = told["log_likelihood"]["own"]
    assert change["mean"] == pytest.approx(-0.4 / 3)
    assert (change["mean_absolute"], change["largest_absolute"]) == (pytest.approx(0.2), 0.5)
    assert told["groups"]["y"]["n"] == 1
    assert [example["adapter"] for example in told["examples"]] == ["b", "a"]
    assert harm.counts([one("x", None, True, "a", 0.0)])["activated"] is None


def test_a_prompt_changes_where_a_step_is_ok_and_nowhere_else(monkeypatch):
    monkeypatch.setattr(harm, "CONTROL_LEAST", 0.0)
    model, tokenizer = random_igc()
    items = [Text("What about the road along the river?", "none"), Text("Why are 7 and 8 hard to remember?", "two")]
    quiet, asked = harm.outcomes("random", model, tokenizer, items, BESIDE)
    assert (quiet.activated, quiet.identical, quiet.change) == (False, True, {"own": 0.0})
    assert quiet.answer == quiet.base_answer
    assert asked.activated
    assert not asked.identical
    assert asked.change["own"] != 0


def test_a_lora_has_no_steps_and_its_changes_are_counted(texts):
    base, tokenizer = tiny_base()
    torch.manual_seed(0)
    model = get_peft_model(base, LoraConfig(target_modules="all-linear", init_lora_weights=False)).eval()
    found = harm.outcomes("lora", model, tokenizer, texts[PROSE][:2], BESIDE)
    assert [one.activated for one in found] == [None, None]
    assert not any(one.identical for one in found)
    assert all(set(one.change) == {"own", "text"} and one.change["text"] < 0 for one in found)


# --------------------------------------------------------------------------------------------- gates
def test_prompts_without_an_anchor_at_their_end_are_refused():
    model, tokenizer = random_igc(anchors=["="])
    with pytest.raises(SystemExit, match="1 of 1 prompts have no anchor at their end"):
        harm.outcomes("random", model, tokenizer, [Text("Why is 7 times 8 hard?", "two")], BESIDE)


def test_every_anchor_is_looked_for_in_its_own_row():
    def step(anchors):
        return Step(torch.tensor(anchors), None, None, Result(None, None, torch.tensor(int(Status.OK)), None))

    harm.check_anchors([step([[-1, 4], [4, 9]])], end=4, rows=2)
    with pytest.raises(SystemExit, match="1 of 2 prompts"):
        harm.check_anchors([step([[-1, 4], [3, 9]])], end=4, rows=2)
    harm.check_anchors([step([[-1, 4], [3, 9]])], end=4, rows=1)
    with pytest.raises(SystemExit, match="2 of 2 prompts"):
        harm.check_anchors([], end=4, rows=2)


def test_short_continuations_other_baselines_and_idle_adapters_are_refused():
    harm.check_scored(16)
    with pytest.raises(SystemExit, match="a continuation has 15 tokens, fewer than 16"):
        harm.check_scored(15)
    logits = torch.zeros(2)
    harm.check_baseline(logits, logits.clone())
    with pytest.raises(SystemExit, match="the logits are not the base model's"):
        harm.check_baseline(logits, logits + 1e-6)
    harm.check_control("a", "answers", 0.9)
    with pytest.raises(SystemExit, match=r"`a` answers 89.0% of plain calculations, less than 90%"):
        harm.check_control("a", "answers", 0.89)


def test_a_prose_that_ends_too_early_is_refused(texts):
    base, tokenizer = tiny_base()
    model = get_peft_model(base, LoraConfig(target_modules="all-linear")).eval()
    items = [texts[PROSE][0], Text("The road along the", "everyday", "river was quiet.")]
    with pytest.raises(SystemExit, match="a continuation has [0-9] tokens"):
        harm.outcomes("lora", model, tokenizer, items, BESIDE)


def test_an_adapter_that_cannot_calculate_is_refused_before_anything_is_told(tmp_path):
    model, _ = random_igc()
    model.save_pretrained(tmp_path / "random", save_embedding_layers=False)
    arguments = argparse.Namespace(base="tiny", n=2, seed=0, lora=[])
    with pytest.raises(SystemExit, match=r"`random` answers \d+\.\d% of plain calculations"):
        harm.measure("random", tmp_path / "random", arguments, keep=pytest.fail)


def test_adapters_are_called_by_their_folders():
    assert list(harm.named([Path("a/adapter"), Path("b")])) == ["a", "b"]
    with pytest.raises(SystemExit, match="Two adapters are called `a`"):
        harm.named([Path("a/adapter"), Path("other/a")])


# --------------------------------------------------------------------------------------------- all of it
@pytest.mark.slow
def test_a_short_run_tells_what_it_should(tmp_path, monkeypatch):
    monkeypatch.setattr(harm, "CONTROL_LEAST", 0.0)
    folders = {name: tmp_path / name / "adapter" for name in ("tokens", "hidden", "lora")}
    for name in ("tokens", "hidden"):
        random_igc(name)[0].save_pretrained(folders[name], save_embedding_layers=False)
    lora = get_peft_model(tiny_base()[0], LoraConfig(target_modules="all-linear", init_lora_weights=False))
    lora.save_pretrained(folders["lora"], save_embedding_layers=False)
    words = f"--adapter {folders['tokens']} {folders['hidden']} --lora {folders['lora']} --n 3"
    words += f" --output {tmp_path / 'harm.json'} --figure {tmp_path / 'harm.png'}"
    monkeypatch.setattr(sys, "argv", ["harm.py", *words.split()])
    harm.main()
    found = json.loads((tmp_path / "harm.json").read_text(encoding="utf-8"))
    assert {"commit", "versions", "threads", "hardware", "settings"} <= set(found)
    methods = [told["method"] for told in found["adapters"].values()]
    assert methods == ["IGC, tokens interface", "IGC, hidden interface", "LoRA"]
    for told in found["adapters"].values():
        assert [kind["n"] for kind in told["kinds"].values()] == [3, 3, 3]
        assert set(told["kinds"][PROSE]["log_likelihood"]) == {"own", "text"}
        assert set(told["kinds"][NUMBERS]["log_likelihood"]) == {"own"}
    tokens, lora = found["adapters"]["tokens"]["kinds"], found["adapters"]["lora"]["kinds"]
    assert all(kind["changed_without_activation"] == 0 for kind in tokens.values())
    assert lora[PROSE]["activated"] is None
    assert lora[PROSE]["bit_identical"] == 0
    assert (tmp_path / "harm.png").stat().st_size > 1000
