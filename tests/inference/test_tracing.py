"""Promises of `igc_trace`: it records what happens, per row and thread, changes nothing, costs nothing when off.

And of its records: tokens have the text that they add, and untrue calculations are found.
"""

import io
import json
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import tokenizer as make_tokenizer
from traced import PROMPTS, batch_of, generate, make
from transformers import DynamicCache

from peft_igc import igc_trace
from peft_igc.inference.decoding import greedy, prompt_tokens
from peft_igc.inference.records import TextRecord, token_texts
from peft_igc.tuner import steps, writing
from peft_igc.tuner.call import thread
from peft_igc.tuner.records import NumberRecord, StepRecord


@pytest.fixture(scope="module")
def made():
    return make()


def test_outputs_are_the_same_bit_for_bit(made):
    settings = {"return_dict_in_generate": True, "output_logits": True}
    plain = generate(*made, **settings)
    with igc_trace(*made, base=True):
        traced = generate(*made, **settings)
    assert torch.equal(plain.sequences, traced.sequences)
    assert all(torch.equal(a, b) for a, b in zip(plain.logits, traced.logits, strict=True))
    batch = batch_of(made[1], PROMPTS)
    with torch.no_grad():
        plain = made[0](**batch).logits
        with igc_trace(*made) as trace:
            assert torch.equal(made[0](**batch).logits, plain)
    assert [len(text.steps) for text in trace.texts] == [1] * len(PROMPTS)


def test_a_row_has_its_own_steps_and_tokens_wherever_it_stands(made):
    model, tokenizer = made
    with igc_trace(*made) as together:
        output = generate(*made)
    assert [text.row for text in together.texts] == [0, 1, 2, 3]
    width = batch_of(tokenizer, PROMPTS)["input_ids"].shape[1]
    for row, (prompt, text) in enumerate(zip(PROMPTS, together.texts, strict=True)):
        ids = prompt_tokens(tokenizer, [prompt], False)[0]
        new = output[row, width:].tolist()
        new = new[: new.index(tokenizer.eos_token_id) + 1] if tokenizer.eos_token_id in new else new
        assert [token.id for token in text.tokens] == ids + new
        assert [token.position for token in text.tokens] == list(range(len(ids + new)))
        assert "".join(token.text for token in text.tokens) == tokenizer.decode(ids + new)
        assert [token.generated for token in text.tokens] == [False] * len(ids) + [True] * len(new)
        with igc_trace(*made) as alone:
            generate(*made, prompts=[prompt])
        (one,) = alone.texts
        assert [step.position for step in text.steps] == [len(ids) - 1] == [step.position for step in one.steps]
        for step, same in zip(text.steps, one.steps, strict=True):
            assert (step.calculation, step.status, step.spans) == (same.calculation, same.status, same.spans)
            assert (step.culprit_position, step.expression_span) == (same.culprit_position, same.expression_span)
        gates = [(a.gate, b.gate) for a, b in zip(text.generated, one.generated, strict=False)]
        assert all(a == pytest.approx(b, abs=1e-4) for a, b in gates)


def test_gate_and_size_are_those_of_the_update(made):
    model, _ = made
    batch = batch_of(made[1], PROMPTS[1:2])
    with igc_trace(*made) as trace, torch.no_grad():
        written = model(**batch, output_hidden_states=True).hidden_states[2]
        plain = model(**batch, output_hidden_states=True, igc_anchors=torch.tensor([[-1]])).hidden_states[2]
        generate(*made, prompts=PROMPTS[1:2])
    size = ((written - plain).norm(dim=-1) / plain.norm(dim=-1))[0, -1]
    first = trace.texts[-1].generated[0]
    assert size > 0.01
    assert first.size == pytest.approx(float(size), rel=1e-3)
    assert 0 < first.gate < 1


def test_the_base_is_asked_in_place_of_each_new_token(made):
    model, tokenizer = made
    with igc_trace(*made, base=True) as trace:
        generate(*made)
    for text in trace.texts:
        ids = torch.tensor([[token.id for token in text.tokens]])
        with torch.no_grad(), model.disable_adapter():
            chances = model(ids).logits[0].softmax(-1)
        for token in text.generated:
            best = chances[token.position - 1].max(-1)
            assert token.base == tokenizer.decode([int(best.indices)])
            assert token.base_probability == pytest.approx(float(best.values), rel=1e-3)
        assert all(token.base is None for token in text.tokens if not token.generated)
    with igc_trace(*made) as trace:
        generate(*made)
    assert all(token.base is None for text in trace.texts for token in text.tokens)


def test_nothing_is_computed_while_it_is_off(made, monkeypatch):
    def fail(*args):
        raise AssertionError("computed")

    monkeypatch.setattr(writing, "relative_size", fail)
    monkeypatch.setattr(steps._Context, "read", fail)  # the network is asked only where the text does not decide
    generate(*made)
    with pytest.raises(AssertionError, match="computed"), igc_trace(*made):
        generate(*made)
    assert thread.observers == []
    generate(*made)


@pytest.mark.parametrize("shared", [True, False])
def test_each_thread_sees_its_own_records(made, shared):
    """Both are inside of their blocks and generate at the same time."""
    tokenizer = made[1]
    models = [made[0], made[0] if shared else make(seed=1)[0]]
    prompts = [[PROMPTS[0], PROMPTS[2]], [PROMPTS[1]]]
    alone = []
    for model, own in zip(models, prompts, strict=True):
        with igc_trace(model, tokenizer) as trace:
            generate(model, tokenizer, own)
        alone.append(trace.texts)
    traces, barrier = [None, None], threading.Barrier(2, timeout=60)

    def work(index):
        with igc_trace(models[index], tokenizer) as traces[index]:
            barrier.wait()
            generate(models[index], tokenizer, prompts[index])
            barrier.wait()

    with ThreadPoolExecutor(2) as workers:
        list(workers.map(work, range(2)))
    assert [trace.texts for trace in traces] == alone


def test_another_model_in_the_block_is_not_recorded(made):
    other, tokenizer = make(seed=1)
    with igc_trace(*made) as trace:
        generate(other, tokenizer)
        with igc_trace(other, tokenizer) as inner:
            generate(*made, prompts=PROMPTS[:1])
            generate(other, tokenizer, prompts=PROMPTS[1:2])
    assert len(trace.texts) == len(inner.texts) == 1
    assert not trace.texts[0].steps[0].by_rule
    assert inner.texts[0].steps[0].by_rule


def test_a_loop_of_its_own_is_one_text(made):
    model, tokenizer = made
    ids = torch.tensor(prompt_tokens(tokenizer, PROMPTS[1:2], False))
    with igc_trace(*made) as whole:
        output = generate(*made, prompts=PROMPTS[1:2], new=4)
    cache, fed = DynamicCache(config=model.config), ids
    with igc_trace(*made) as trace, torch.no_grad():
        for token in output[0, ids.shape[1] :]:
            model(fed, past_key_values=cache)
            fed = token.view(1, 1)
        model(fed, past_key_values=cache)
    (text,), (same,) = trace.texts, whole.texts
    assert text.steps == same.steps
    assert [token.id for token in text.tokens] == [token.id for token in same.tokens]
    assert [t.gate for t in text.tokens] == pytest.approx([t.gate for t in same.tokens], abs=1e-5)


def test_every_text_of_a_conversation_on_one_cache_is_placed_in_it(made):
    model, tokenizer = made
    cache = DynamicCache(config=model.config)
    first = batch_of(tokenizer, PROMPTS[:1])["input_ids"]
    settings = greedy(model, tokenizer, 3)
    with torch.no_grad(), igc_trace(*made) as trace:
        output = model.generate(first, past_key_values=cache, generation_config=settings)
        more = torch.cat([output, batch_of(tokenizer, PROMPTS[1:2])["input_ids"]], 1)
        model.generate(more, past_key_values=cache, generation_config=settings)
    one, two = trace.texts
    assert [token.id for token in two.tokens][: len(more[0])] == more[0].tolist()
    assert two.steps[-1].position == more.shape[1] - 1
    assert two.steps[-1].expression == "3 + 4 * (12 - 5)"
    assert len(one.generated) == len(two.generated) == 3


def test_beams_have_steps_but_no_gates(made):
    with igc_trace(*made) as trace, pytest.warns(UserWarning, match="Beam search reorders"):
        generate(*made, num_beams=3, num_return_sequences=2)
    with igc_trace(*made) as plain:
        generate(*made)
    assert len(trace.texts) == 2 * len(PROMPTS)
    for number, text in enumerate(trace.texts):
        (step,), (same,) = text.steps, plain.texts[number // 2].steps
        assert (step.calculation, step.row) == (same.calculation, number)
        assert all(token.gate is None for token in text.tokens)
    model, tokenizer = make(anchors=("=",))
    always = [[tokenizer("=", add_special_tokens=False)["input_ids"], 100.0]]  # each new token is an anchor
    after = []  # whether there are steps after the prompt, without and with beams
    for beams in (1, 2):
        with warnings.catch_warnings(), igc_trace(model, tokenizer) as trace:
            warnings.simplefilter("ignore")
            generate(model, tokenizer, ["5 + 7 ="], raw=True, num_beams=beams, sequence_bias=always)
        (text,) = trace.texts
        after.append(any(text.tokens[step.position].generated for step in text.steps))
    assert after == [True, False]


def test_a_text_without_an_anchor_is_recorded_too():
    model, tokenizer = make(anchors=("=",))
    with igc_trace(model, tokenizer) as trace:
        generate(model, tokenizer, ["Hello"], raw=True, new=2)
    (text,) = trace.texts
    assert text.steps == ()
    assert len(text.generated) == 2


def test_anchors_within_a_text_are_steps_of_their_own_and_are_told_at_once():
    model, tokenizer = make(anchors=("=",))
    told = []
    with igc_trace(model, tokenizer, on_step=told.append) as trace:
        generate(model, tokenizer, ["3 + 4 = and 5 * 6 ="], raw=True, new=2)
    (text,) = trace.texts
    assert [step.calculation for step in text.steps] == ["3 + 4 = 7", "5 * 6 = 30"]
    assert told == list(text.steps)
    for step in text.steps:
        before = "".join(token.text for token in text.tokens[: step.position + 1])
        assert before.endswith(step.before)
        assert step.before.endswith("=")
        assert f"at token {step.position}, after {step.before!r}, status ok" in text.format()
    assert any(token.gate is not None for token in text.tokens if not token.generated)


def test_a_prompt_of_embeddings_has_its_new_tokens():
    torch.manual_seed(0)
    model = get_peft_model(tiny_model("llama"), small_config()).eval()
    with igc_trace(model, make_tokenizer()) as trace, torch.no_grad():
        embedded = model.get_input_embeddings()(torch.tensor([[5, 6, 7]]))
        output = model.generate(inputs_embeds=embedded, attention_mask=torch.ones(1, 3), max_new_tokens=2)
    (text,) = trace.texts
    assert [token.id for token in text.tokens] == [None] * 3 + output[0].tolist()
    assert [token.generated for token in text.tokens] == [False] * 3 + [True] * 2


def test_what_cannot_be_traced_is_refused(made):
    with pytest.raises(ValueError, match="no active IGC adapter"), igc_trace(tiny_model("llama"), made[1]):
        pass
    with made[0].disable_adapter(), pytest.raises(ValueError, match="no active IGC adapter"), igc_trace(*made):
        pass
    with pytest.raises(ValueError, match="tokenizer"), igc_trace(made[0], make_tokenizer()):
        pass
    with pytest.raises(KeyError), igc_trace(*made):
        raise KeyError
    assert thread.observers == []


def test_lines_of_json_hold_prompts_only_if_asked(made):
    with igc_trace(*made) as trace:
        generate(*made, prompts=["The secret word is plum. What is 58 times 36?"], new=3)
    lines = [json.loads(line) for line in trace.to_json().splitlines()]
    assert [line["record"] for line in lines] == ["text", "step", "token", "token", "token"]
    assert "secret" not in trace.to_json()
    assert "times" not in trace.to_json()
    whole = [json.loads(line) for line in trace.to_json(prompts=True).splitlines()]
    tokens = [line["token"] for line in whole if line["record"] == "token"]
    assert "".join(tokens).startswith("<|begin|><|user|>The secret word is plum.")
    assert len(whole) == len(lines) + whole[0]["prompt_tokens"]


def test_the_page_of_documentation_has_every_field(made):
    with igc_trace(*made) as trace:
        generate(*made, prompts=PROMPTS[:1], new=1)
    rows = re.findall(r"^\| (.*) \| (.*) \|$", Path("docs/tracing.md").read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name.strip("`"): set(re.findall(r"`(\w+)`", fields)) for name, fields in rows}
    for line in map(json.loads, trace.to_json(prompts=True).splitlines()):
        assert line.keys() - {"record"} == documented[line["record"]]
        for operand in line.get("operands", ()):
            assert operand.keys() == documented["an operand"]


def test_tokens_have_the_text_that_they_add():
    """Bytes of a character, and spaces that are lost at the beginning of a decoded text."""
    pieces = [b" a", "é".encode()[:1], "é".encode()[1:], b"b", "\U0001f600".encode()[:3]]

    def spell(ids):
        return b"".join(pieces[token] for token in ids).decode(errors="replace").removeprefix(" ")

    assert token_texts(spell, [0, 1, 2, 3]) == ["a", "", "é", "b"]
    assert token_texts(spell, [3, 0, 0]) == ["b", " a", " a"]
    assert token_texts(spell, [3, 4]) == ["b", "\ufffd"]
    assert token_texts(spell, [3, 4, -1]) == ["b", "\ufffd", "\u2026"]
    assert token_texts(spell, []) == []


def test_a_probability_is_shown_rounded_down():
    number = NumberRecord("58", 0.99999, 0.999995)
    read = {"operands": (number, number), "operator": "*", "operator_probability": 1.0}
    shown = TextRecord(0, (), (StepRecord(11, "ok", True, "3364", "58 * 58", **read),)).format()
    assert "58  99.99%; least certain place 99.99%" in shown
    assert "*   100.00%" in shown


def test_the_text_has_every_token_with_its_gate_and_nothing_that_steers_a_terminal():
    with igc_trace(*make()) as trace:
        generate(*make(), prompts=[*PROMPTS[1:3], "[bold]\x1b[31m 5 + 6 ="], new=2)
    out = io.StringIO()
    trace.print(out)
    shown = " ".join(out.getvalue().split())
    for part in ("3 + 4 * (12 - 5)", "31", "[bold]", "not understood"):
        assert part in shown
    assert "\x1b" not in out.getvalue()
    for token in (token for text in trace.texts for token in text.generated):
        assert f"{'-' if token.gate is None else f'{token.gate:5.3f}'} {token.text!r}" in shown
