"""Promises of `audit`: it counts what `evaluate` counts and names the part that is damaged."""

import json
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from tiny_models import small_config, tiny_model

from peft_igc import tiny_base, tiny_igc
from peft_igc.cli import main
from peft_igc.data.bigbench import bigbench_items, bigbench_test_set
from peft_igc.inference.audit import CAUSES, audit, cause_of, open_gates
from peft_igc.inference.evaluation import evaluate, generate_answers
from peft_igc.inference.records import Answer, TextRecord, TokenRecord
from peft_igc.tuner.hooks.wrapper import active_layer
from peft_igc.tuner.records import NumberRecord, StepRecord


GROUPS = ("3_digit_subtraction", "4_digit_subtraction", "3_digit_division", "4_digit_multiplication")


def questions(n):
    """Items whose operands, signs and operations all matter."""
    return [item for group in GROUPS for item in bigbench_items(group, n, seed=5)]


def shuffled(parameter, size=1.0):
    """Replaces weights with random ones of the same spread."""
    source = torch.Generator().manual_seed(0)
    parameter.data = torch.randn(parameter.shape, generator=source) * parameter.data.std() * size


def matrices(module, size=1):
    """Replaces all matrices of a module."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            shuffled(parameter, size)


# Each part of the interface, how it is damaged, and the causes whose part it is.
# Not `sign_head`: rules take signs from the text, so damaging it causes almost no errors.
READING = {"operand", "operator", "sign", "unsure"}
DAMAGES = {
    "pointer": (lambda r, w: r.pointer.weight.data.neg_(), {"operand"}),
    "slots": (lambda r, w: r.slots.data[:2].copy_(r.slots.data[:2].flip(0)), {"operand"}),
    "operator_head": (lambda r, w: r.operator_head.weight.data.copy_(r.operator_head.weight.roll(1, 0)), {"operator"}),
    "operator_head, none": (lambda r, w: r.operator_head.bias.data[-1:].add_(100), {"operator"}),
    "gate_down, closed": (lambda r, w: w.gate_down.bias.data.sub_(100), {"gate"}),
    "write_down": (lambda r, w: shuffled(w.write_down.weight), {"overruled"}),
    "write_down, nothing": (lambda r, w: w.write_down.weight.data.zero_(), {"overruled"}),
    "write_up": (lambda r, w: shuffled(w.write_up.weight), {"overruled"}),
    "context": (lambda r, w: shuffled(w.context.weight, 3), {"overruled"}),
    "end": (lambda r, w: shuffled(w.end, 3), {"overruled"}),
    # What several classifiers use: the cause is one of theirs, and not one of writing.
    "compression": (lambda r, w: shuffled(r.embedded_compression.weight), READING),
    "first half of the encoder": (lambda r, w: matrices(r.encoder[:2]), READING),
    "second half of the encoder": (lambda r, w: matrices(r.encoder[2:]), READING - {"sign"}),
    # With a size of 1 nothing is wrong: an operation that a text states needs no network.
    "reader": (lambda r, w: matrices(r.reader, 3), READING),
}


def named(part, items):
    """Wrong answers of a damaged adapter, and how many of them have a cause whose part that is."""
    model, tokenizer = tiny_igc()
    layer, name = active_layer(model)
    with torch.no_grad():
        DAMAGES[part][0](layer.igc_input_mapping[name], layer.igc_output_mapping[name])
    causes = audit(model, tokenizer, items, max_new_tokens=16).report["causes"]
    return sum(causes.values()), sum(n for cause, n in causes.items() if cause in DAMAGES[part][1]), causes


def test_the_damaged_part_is_named():
    for part in ("pointer", "gate_down, closed", "write_down"):
        wrong, hits, causes = named(part, questions(1))
        assert hits == wrong >= 2, causes


@pytest.mark.slow
@pytest.mark.parametrize("part", DAMAGES)
def test_every_damaged_part_is_named_in_nearly_all_errors(part):
    wrong, hits, causes = named(part, questions(6))
    assert hits >= 0.95 * wrong > 4, causes


def test_a_calculator_that_is_not_silent_is_named():
    model, tokenizer = tiny_igc()
    prompts = ["Can you spell out 12 times 8?", "Which chapter has 58 times 36?"]
    with model.disable_adapter():
        base = generate_answers(model, tokenizer, prompts)
    items = [{"prompt": p, "target": t, "igc_operator": "none"} for p, t in zip(prompts, base, strict=True)]
    layer, name = active_layer(model)
    layer.igc_input_mapping[name].operator_head.bias.data[-1:].sub_(1000)
    model.peft_config[name].confidence = 0.0
    found = audit(model, tokenizer, items)
    assert found.report["causes"] == {"silent": 2} == {"silent": found.report["wrong"]}


def test_what_confidence_refuses_names_the_least_probable_part():
    for part, said in [("pointer", "operand"), ("operator_head", "operator")]:
        model, tokenizer = tiny_igc()
        layer, name = active_layer(model)
        getattr(layer.igc_input_mapping[name], part).weight.data.mul_(0.02)
        found = audit(model, tokenizer, [{"prompt": "What is 58 taken from 936?", "target": "878"}])
        assert found.report["causes"] == {"unsure": 1}
        told = f"least probable: the {said}; `confidence` {model.peft_config[name].confidence}"
        assert found.report["details"] == {"unsure": {told: 1}}


def test_its_numbers_are_those_of_eval():
    model, tokenizer = tiny_igc()
    active_layer(model)[0].igc_input_mapping["default"].pointer.weight.data.neg_()
    items = bigbench_test_set(1, 2) + [{"prompt": "Hello!", "target": "12"}, {"prompt": "2 + 2 =", "target": "5"}]
    options = {"batch_size": 5, "max_new_tokens": 12}
    report = evaluate(model, tokenizer, items, **options)
    found = audit(model, tokenizer, items, **options)
    for key in ("n", "exact_match", "groups", "truncated", "steps", "without_anchor", "settings", "versions"):
        assert found.report[key] == report[key], key
    assert sum(found.report["causes"].values()) == found.report["wrong"] == len(found.findings)
    assert found.report["wrong"] == round((1 - report["exact_match"]) * report["n"]) > 0
    kept = [{key: one.as_dict()[key] for key in ("prompt", "target", "answer")} for one in found.findings]
    assert kept[:20] == report["mistakes"]
    item = {"prompt": "20 / 4 =", "target": "6", "igc_operator": "/", "igc_operands": ["20", "4"]}
    assert audit(model, tokenizer, [item]).report["causes"] == {"target": 1}  # it was read as it was asked


def test_open_gates_are_closed_again():
    model = get_peft_model(tiny_model("llama"), small_config(anchors="prompt_end")).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    before = model(input_ids=ids).logits
    with open_gates(model):
        opened = model(input_ids=ids).logits
    assert not torch.equal(opened, before)
    assert torch.equal(model(input_ids=ids).logits, before)


def test_the_hidden_interface_is_audited_too():
    tokenizer = tiny_base()[1]
    base = tiny_model("llama", vocab_size=len(tokenizer))
    model = get_peft_model(base, small_config(anchors="prompt_end")).eval()
    found = audit(model, tokenizer, [{"prompt": "What is 12 plus 7?", "target": "19"}], max_new_tokens=3)
    assert sum(found.report["causes"].values()) == 1


def test_the_command_writes_counts_and_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    items = [{"prompt": "What is 58 times 36?", "target": "2088"}, {"prompt": "Add 5 and 7.", "target": "13"}]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    files = ["--output", "out.json", "--html", "out.html"]
    names = ["--base", "tiny", "--adapter", "tiny", "--device", "cpu", "--data", "items.jsonl"]
    assert main(["audit", *names, *files]) == 0
    printed = capsys.readouterr().out
    assert "50.00% of 2 answers are exactly right; 1 not." in printed
    report = json.loads((tmp_path / "out.json").read_text())
    (cause,) = report["causes"]
    assert CAUSES[cause]["title"] in printed
    assert [one["prompt"] for one in report["examples"][cause]] == ["Add 5 and 7."]
    assert "Add 5 and 7." in (tmp_path / "out.html").read_text()


LINES = [json.loads(line) for line in Path(__file__).with_name("causes.jsonl").read_text("utf-8").splitlines()]
ITEM = {"prompt": "What is 58 minus 36?", "target": "22"}


def read(a="58", operator="-", b="36", result="22", **fields):
    """A step in the prompt; one with an `expression` was read by rules."""
    silent = {"status": "none", "reason": "no_arithmetic" if operator == "none" else "unsure"}
    known = {"position": 5, "status": "ok", "expression": None if operator == "none" else f"{a} {operator} {b}"}
    known |= {} if result else silent
    known |= {"expression_span": (0, 4)} if "expression" in fields else {}
    operands = tuple(NumberRecord(text, 0.9, 0.9) for text in (a, b))
    return StepRecord(result=result, operands=operands, operator=operator, **(known | fields))


def caused(line, cut=False):
    """The cause of a line's `answer` to its `item`, and the detail.

    A line says what differs from a calculation that is read right and written: the `item`, what the `steps` have read,
    the `gates` of the new tokens, and whether open gates mend the answer.
    """
    prompt = [TokenRecord("", None, generated=False) for _ in range(10)]
    new = [TokenRecord("", gate) for gate in line.get("gates", (0.99, 0.98))]
    text = TextRecord(0, (*prompt, *new), tuple(read(**step) for step in line.get("steps", [{}])))
    return cause_of(ITEM | line.get("item", {}), Answer(line["answer"], cut, text.steps, text), line.get("opened"))


def test_the_cause_is_the_first_thing_that_went_wrong():
    for line in LINES:
        assert caused(line)[0] == line["cause"], line["case"]
    assert caused({"answer": "22"}, cut=True)[0] == "cut"
    assert {line["cause"] for line in LINES} | {"cut"} == set(CAUSES)
    assert caused({"answer": "17", "steps": [{"a": "53", "result": "17"}]})[1] == "53 - 36 instead of 58 - 36"
