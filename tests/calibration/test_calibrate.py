"""`peft-igc calibrate` finds a temperature and a threshold, saves them, and they act when the adapter is loaded."""

import json

import pytest
import torch
from checks import telling, watching
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_training import tokenizer
from traced import batch_of, make

from peft_igc import IGCConfig, tiny_base, tiny_igc
from peft_igc.calibration import calibrate
from peft_igc.calibration.calibrate import (
    TEMPERATURES,
    THRESHOLDS,
    Calibration,
    OperatingPoint,
    PromptReading,
    check_items,
    choose_confidence,
    fit_temperature,
    operating_curve,
    read_prompts,
    read_results,
)
from peft_igc.cli import main
from peft_igc.inference.loading import load_adapter
from peft_igc.mappings.decisions import certainty
from peft_igc.mappings.readings import Pointing, two_places
from peft_igc.tuner.hooks.wrapper import active_layer


SMALL = {"reading_dim": 32, "num_heads": 2}
PROMPTS = [f"What is {a} {word} {b}?" for a, word, b in ((5, "plus", 7), (91, "minus", 8), (6, "and then", 3))]


def reading(chance, result="12", by_rule=False):
    """A reading whose odds of `chance` shrink as those of a binary classifier do at a temperature."""
    odds = torch.tensor(chance).logit()
    return PromptReading(result, by_rule, tuple(float((odds / t).sigmoid()) for t in TEMPERATURES))


def test_results_are_those_of_whole_passes():
    model, tokenizer = make(**SMALL)
    texts = [*PROMPTS, "What is 12 + 30?", "12 + 30 =", "1.25 + 3.5 =", "Hello!"]
    found = read_results(model, tokenizer, texts, batch_size=4)
    with watching() as seen, torch.no_grad():
        for text in texts:
            model(**batch_of(tokenizer, [text]))
    assert [int(one.result.status[0, -1]) == 0 for one in seen] == [result is not None for result in found]
    readings, at = read_prompts(model, tokenizer, texts, batch_size=4), TEMPERATURES.index(1.0)
    assert [one.result if one.by_rule or one.probabilities[at] >= one.least else None for one in readings] == found
    assert found[-2] == "4.75"


def test_what_a_temperature_and_no_confidence_let_through_is_what_is_counted():
    model, tokenizer = tiny_igc()
    config = model.peft_config["default"]
    asked = [
        "split {} by {} now",
        "Ann has {} pears and {} plums. How many fruits?",
        "{} from {}",
        "What is {} plus {}?",
    ]
    texts = [text.format(300 + 7 * at, 3 + at) for text in asked for at in range(6)]
    readings, config.confidence = read_prompts(model, tokenizer, texts), 0.0
    for temperature in (0.25, 1.0, 4.0):
        config.temperature = temperature
        found = read_results(model, tokenizer, texts)
        point = operating_curve(readings, found, temperature)[0]
        assert (point.right, point.wrong, point.silent) == (len(found) - found.count(None), 0, found.count(None))


def test_padding_does_not_move_the_tokens_of_a_base_that_learned_positions():
    spelled = tokenizer()
    base = tiny_model("gpt2", vocab_size=len(spelled))
    base.transformer.wpe.weight.data.mul_(20)
    model = telling(get_peft_model(base, IGCConfig.from_tokenizer(spelled, layer=1, **SMALL))).eval()
    texts = ["What is 12 plus 30?", f"{'Well. ' * 3}What is 12 plus 30?"]
    together, alone = (read_prompts(model, spelled, texts, batch_size=size)[0] for size in (2, 1))
    assert together.probabilities == pytest.approx(alone.probabilities, rel=1e-4)


def test_no_layer_after_the_calculators_runs():
    model, tokenizer = make(**SMALL)
    ran = []
    layers = model.get_base_model().model.layers
    handles = [layer.register_forward_hook(lambda *_, at=at: ran.append(at)) for at, layer in enumerate(layers)]
    read_results(model, tokenizer, PROMPTS)
    for handle in handles:
        handle.remove()
    assert ran == [0]  # the pass ends in the hook of the next one, before that of this test
    assert len(layers) > 2


def test_a_temperature_flattens_and_keeps_the_choice():
    torch.manual_seed(1)
    scores = torch.randn(2, 1, 2, 6, 2).flatten(-2).log_softmax(-1).unflatten(-1, (6, 2))
    numbers = torch.full((7, 5), 10)
    numbers[:6, 0] = torch.arange(6)
    at = torch.arange(6).expand(2, 1, 6)
    marks = torch.zeros(2, 1, 0, 3)
    pointing = Pointing(scores, torch.randn(2, 1, 5), marks, at, at, *two_places(scores), numbers, (2,) * 4)
    cooled = pointing.cooled(3.0)
    assert torch.allclose(cooled.scores.flatten(-2).exp().sum(-1), torch.ones(2, 1, 2))
    before, after = pointing.choose(), cooled.choose()
    assert torch.equal(before.digits, after.digits)
    assert torch.equal(before.operator, after.operator)
    assert (after.probability < before.probability).all()
    assert pointing.cooled(1.0) is pointing


def test_an_overconfident_reading_gets_a_temperature_above_one():
    sure = [reading(0.99)] * 10
    targets = ["12"] * 7 + ["13", None, None]
    temperature, fit = fit_temperature(sure, targets)
    assert temperature > 2
    assert fit["right"] == 7
    assert fit["nats_after"] < fit["nats_before"]
    index = TEMPERATURES.index(temperature)
    assert sure[0].probabilities[index] == pytest.approx(0.7, abs=0.06)


def test_the_curve_counts_and_rules_are_never_silenced():
    readings = [reading(0.999), reading(0.8), reading(0.3, by_rule=True), reading(0.9, result=None)]
    assert operating_curve([reading(0.4)._replace(least=0.5)], ["12"], 1.0)[0] == OperatingPoint(0.0, 0, 0, 1)
    curve = operating_curve(readings, ["12", None, "12", "12"], 1.0)
    assert [point.confidence for point in curve] == list(THRESHOLDS)
    assert curve[0] == OperatingPoint(0.0, 2, 1, 1)
    assert next(point for point in curve if point.confidence == 0.9)[1:] == (2, 0, 2)
    assert curve[-1][1:] == (1, 0, 3)
    assert choose_confidence(curve, 0.25).confidence == 0.0
    assert choose_confidence(curve, 0.0).confidence == 0.85
    assert choose_confidence(curve, 0.25, least=0.75).confidence == 0.75
    assert choose_confidence(curve, 0.0, least=0.75).confidence == 0.85
    with pytest.raises(ValueError, match="is above 0.9999, the last one"):
        choose_confidence(curve, 0.0, least=0.99999)
    always = [reading(0.9, result="13", by_rule=True)] * 3
    curve = operating_curve([*readings, *always], ["12", None, "12", "12", *["7"] * 3], 1.0)
    assert choose_confidence(curve, 0.0).confidence == 0.85


def test_each_kind_of_operations_is_fitted_to_the_texts_in_which_it_is_read(monkeypatch, tmp_path):
    sure, unsure = reading(0.97)._replace(kind="lists"), reading(0.7)._replace(kind="lists")
    read = [*[reading(0.6), sure, unsure] * 10, *[reading(0.2)._replace(kind="functions")] * 9]
    monkeypatch.setattr(calibrate, "read_prompts", lambda *_, **__: [one for one in read for _ in "ab"])
    items = [{"prompt": "", "target": None if one is unsure else "12"} for one in read for _ in "ab"]
    model, spelled = make(**SMALL)
    monkeypatch.setattr(model.peft_config["default"], "operations", ["+", "sum"])
    monkeypatch.setattr(model.peft_config["default"], "confidence", 0.8)
    monkeypatch.setattr(calibrate, "FEWEST", 10)
    assert calibrate.calibrate(model, spelled, items, least=0.9).confidence["functions"] == 0.9
    found = calibrate.calibrate(model, spelled, items, most_wrong=0.0)
    index = TEMPERATURES.index(found.temperature)
    assert found.confidence.pop("functions") == 0.8  # too few of the texts have one
    assert found.confidence.keys() == found.kinds.keys() == found.tested.keys()
    assert found.confidence["arithmetic"] == 0.0
    assert unsure.probabilities[index] < found.confidence["lists"] <= sure.probabilities[index]
    assert [curve[0][1:] for curve in found.tested.values()] == [(10, 0, 0), (10, 10, 0)]
    calibrate.draw_curves(found, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").is_file()


def test_items_that_cannot_calibrate_are_refused():
    for item, said in [
        ({"target": "1"}, "Item 1: `prompt` must be a string, got None"),
        ({"prompt": "a"}, "got 'no `target`'"),
        ({"prompt": "a", "target": 1.5}, "got 1.5"),
        ({"prompt": "a", "target": "1"}, "1 items are too few"),
    ]:
        with pytest.raises(ValueError, match=said):
            check_items([item])


def test_the_command_writes_the_config_and_the_adapter_obeys(tmp_path, capsys, monkeypatch):
    model, _ = make(**SMALL)
    model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    data = tmp_path / "texts.jsonl"
    lines = [{"prompt": f"What is {n} plus {n + 3}?", "target": None if n % 2 else "0"} for n in range(24)]
    data.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setenv("HOME", str(tmp_path))
    command = ["calibrate", "--base", "tiny", "--adapter", "~/adapter", "--data", str(data)]
    assert main([*command, "--wrong", "0.99", "--least", "0.9"]) == 0
    assert "temperature" in capsys.readouterr().out
    saved = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    record = json.loads((tmp_path / "adapter" / "calibration.json").read_text())
    assert saved["temperature"] == record["temperature"] in TEMPERATURES
    assert saved["confidence"] == record["confidence"] == 0.9
    assert (tmp_path / "adapter" / "operating_curve.png").read_bytes().startswith(b"\x89PNG")
    loaded = load_adapter(tiny_base()[0], tmp_path / "adapter")
    assert loaded.peft_config["default"].temperature == saved["temperature"]
    assert main(["calibrate", "--base", "tiny", "--adapter", "none", "--data", str(data), "--wrong", "2"]) == 2
    assert "is not a share" in capsys.readouterr().err
    assert main([*command, "--least", "1"]) == 2
    assert "`--least 1` is not a share" in capsys.readouterr().err
    assert main(["calibrate", "--base", "tiny", "--adapter", "tiny", "--data", str(data)]) == 2
    assert "`--adapter tiny` is part of the package" in capsys.readouterr().err
    curve = {"arithmetic": [OperatingPoint(least, 5, 2, 13) for least in THRESHOLDS]}
    monkeypatch.setattr(calibrate, "calibrate", lambda *_, **__: Calibration(1.0, 0.9, {}, curve, curve))
    for wrong, is_said in (("0.09", True), ("0.1", False)):
        assert main([*command, "--wrong", wrong]) == 0
        assert ("% wrong: give more texts" in capsys.readouterr().out) is is_said


def test_the_probability_at_a_temperature_is_that_of_an_adapter_with_it():
    model, tokenizer = tiny_igc()
    config, prompts = model.peft_config["default"], ["Well, 5280 divided by 12", "Well, divide 5280 by 12"]
    readings = read_prompts(model, tokenizer, prompts)
    chances = [one.probabilities for one in readings]
    config.confidence, config.temperature = 1.0, 4.0
    assert read_prompts(model, tokenizer, prompts) == readings
    assert (config.confidence, config.temperature) == (1.0, 4.0)
    for temperature in (0.5, 4.0):
        config.temperature, config.confidence = temperature, 0.0
        for prompt, known in zip(prompts, chances, strict=True):
            with watching() as seen:
                model(**batch_of(tokenizer, [prompt]))
            step = seen[0]
            *parts, _ = (x[0, -1].item() for x in step.reading.chances())
            found = certainty(parts, step.decision(0, 0).stated)
            assert found == pytest.approx(known[TEMPERATURES.index(temperature)], abs=1e-5)


def test_only_what_the_text_says_alone_is_by_rule():
    model, tokenizer = tiny_igc()
    layer, name = active_layer(model)
    layer.igc_input_mapping[name].operator_head.bias.data[-1:].sub_(1000)  # the network is certain that it is asked
    prompts = ["12 + 30 =", "12 + 30", "What is 12 + 30?", "What is 58 times 36?", "Hello"]
    found = read_prompts(model, tokenizer, prompts)
    assert [one.result for one in found] == ["42", "42", "42", "2088", None]
    assert [one.by_rule for one in found] == [True, True, False, False, False]
