"""Sites of worked solutions: cut behind one result, with its columns, and learned without the reading."""

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from tiny_models import RandomConfig
from tiny_training import NESTED, WARNINGS

from benchmarks.accuracy import gsm8k_sites
from benchmarks.accuracy.gsm8k_sites import _end, drawn_sites, exchanged, read_sites, sites_of_rows, train_sites
from peft_igc import IGCConfig, assistant_header, tiny_base
from peft_igc.annotation import convert
from peft_igc.data.worked_solutions import WorkedSolutions
from peft_igc.inference.loading import TINY_ADAPTER_FOLDER, load_adapter
from peft_igc.trainer.two_stage import after_prompts, training_only
from peft_igc.tuner.base_model import decoder_layers
from peft_igc.tuner.config_values import ANCHOR_FIELDS
from peft_igc.tuner.saving.companions import active_adapters


SOLVED = {
    "question": "Ann had 48 clips, sold half, and bought one for $1.50 and one for $0.25 more. What is left?",
    "answer": "She kept 48/2=<<48/2=24>>24.\nShe paid 1.50+.25=$<<1.50+.25=1.75>>1.75. Then she shared "
    "10 / 4 = <<10/4=2.5>>2.5 each. They have 7*1,000=<<7*1000=7000>>7,000 in all.\n#### 24",
}


@pytest.fixture(scope="module")
def tools():
    tokenizer = tiny_base()[1]
    config = IGCConfig.from_tokenizer(tokenizer, anchors=["=", assistant_header(tokenizer)])
    return tokenizer, config


def test_a_site_ends_in_its_result_and_a_point_or_comma(tools):
    tokenizer, config = tools
    rows = convert([SOLVED], tokenizer, config).rows
    found = sites_of_rows(rows, tokenizer, config)
    labelled = [tokenizer.decode([one for one in row["labels"] if one != -100]) for row in found]
    results = [row["igc_result"] for row in found]
    assert results == ["24", "1.75", "2.5", "7000"]
    for text, number in zip(labelled, ("24", "1.75", "2.5", "7000"), strict=True):
        assert text.lstrip(" $").replace(",", "") == number
    assert [tokenizer.decode(row["input_ids"][-1:]) for row in found] == [".", ".", ".", ","]
    assert [row["open_ends"] for row in found] == [[False, False], [True, False], [True, False], [False, False]]
    for row in found:
        assert len(row["input_ids"]) == len(row["labels"])
        last = max(place for place, label in enumerate(row["labels"][:-1]) if label == -100)
        assert tokenizer.decode(row["input_ids"][last]).rstrip().endswith("=")
        assert not isinstance(row["igc_operator"], list)
    assert sites_of_rows(rows, tokenizer, config, longest=20) == []


def test_sites_exchange_their_results_and_keep_what_stands_around_them(tools):
    tokenizer, config = tools
    found = sites_of_rows(convert([SOLVED], tokenizer, config).rows, *tools)
    made = exchanged(found, seed=1)
    texts = [[tokenizer.decode(row["input_ids"]) for row in rows] for rows in (found, made)]
    results = [[row["igc_result"] for row in rows] for rows in (found, made)]
    assert sorted(results[0]) == sorted(results[1])
    assert sum(a != b for a, b in zip(*results, strict=True)) >= 2
    for before, after, old, new in zip(*texts, *results, strict=True):
        at = before.replace(",", "").rindex(old)
        assert after.replace(",", "").rstrip(".") == before.replace(",", "")[:at] + new
    ends = {row["igc_result"]: row["open_ends"] for row in found}
    for row in made:
        labels = [label for label in row["labels"] if label != -100]
        assert row["input_ids"][-len(labels) - 1 : -1] == labels
        assert row["open_ends"] == ends[row["igc_result"]]
        begin, end = row["number"]
        assert tokenizer.decode(row["input_ids"][begin:end]).replace(",", "") == row["igc_result"]


@pytest.mark.slow
def test_the_writing_learns_at_sites_and_the_reading_stays(tools, tmp_path):
    rows = convert(WorkedSolutions(seed=2).take(12), *tools).rows
    record = train_sites("tiny", "tiny", rows, tmp_path, sites=8, steps=6, batch_size=4)
    assert record["sites"] == 8
    assert record["log"][-1]["step"] == 6
    before, after = (load_file(folder / "adapter_model.safetensors") for folder in (TINY_ADAPTER_FOLDER, tmp_path))
    moved = {name for name in before if not torch.equal(before[name].float(), after[name].float())}
    assert moved
    assert all("igc_output_mapping" in name for name in moved)
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert saved["inline_token_ids"] == tools[1].inline_token_ids
    assert saved["write_again"] is False


@pytest.mark.slow
def test_a_calculator_that_writes_to_another_layer_reads_as_before_and_learns_to_write_anew(tools, tmp_path):
    rows = convert(WorkedSolutions(seed=2).take(12), *tools).rows
    record = train_sites("tiny", "tiny", rows, tmp_path, layer=-1, sites=12, steps=40, batch_size=12)
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (saved["layer"], saved["read_from"]) == (len(decoder_layers(tiny_base()[0])[1]) - 1, [1])
    before, after = (load_file(folder / "adapter_model.safetensors") for folder in (TINY_ADAPTER_FOLDER, tmp_path))
    for name, weight in before.items():
        same = weight.float().equal(after[name.replace(".1.igc.", f".{saved['layer']}.igc.")].float())
        assert same or "igc_output_mapping" in name
    assert record["log"][-1]["loss"] < record["log"][0]["loss"] / 2
    again = load_adapter(tiny_base()[0], tmp_path)
    train_sites("tiny", tmp_path, rows, tmp_path / "again", sites=12, steps=1, batch_size=4)
    assert json.loads((tmp_path / "again" / "adapter_config.json").read_text())["layer"] == saved["layer"]
    assert active_adapters(again) == {"default"}


@pytest.mark.parametrize("layer", [-9, 9])
def test_a_layer_that_the_base_does_not_have_is_refused(tools, tmp_path, layer):
    rows = convert(WorkedSolutions(seed=2).take(4), *tools).rows
    with pytest.raises(ValueError, match=f"`layer={layer}` is out of range: the base has .* decoder layers"):
        train_sites("tiny", "tiny", rows, tmp_path, layer=layer, sites=4, steps=1)


def test_rows_exchange_their_results_if_they_are_to(tools, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(gsm8k_sites, "train_writing", lambda model, rows, *_, **__: seen.append(rows) or [])
    rows = convert(WorkedSolutions(seed=2).take(12), *tools).rows
    for exchange in (False, True):
        train_sites("tiny", "tiny", rows, tmp_path, sites=8, exchange=exchange)
    kept, exchanged_rows = ([row["igc_result"] for row in rows] for rows in seen)
    assert sorted(kept) == sorted(exchanged_rows)
    assert kept != exchanged_rows


@pytest.mark.slow
@pytest.mark.filterwarnings(*(f"ignore:{one.split(':')[1]}" for one in NESTED))
def test_a_lora_beside_the_calculator_stays_as_it_is_and_loads_with_it(tools, tmp_path):
    tokenizer, config = tools
    lora = get_peft_model(tiny_base()[0], LoraConfig(r=2, init_lora_weights=False), adapter_name="low_rank")
    fields = {name: getattr(config, name) for name in ANCHOR_FIELDS}
    joint = get_peft_model(lora, IGCConfig.from_tokenizer(tokenizer, **fields, reading_dim=32, num_heads=2))
    joint.save_pretrained(tmp_path)
    files = [tmp_path / "low_rank" / "adapter_model.safetensors", tmp_path / "adapter_model.safetensors"]
    before = [load_file(path) for path in files]
    rows = convert(WorkedSolutions(seed=2).take(12), *tools).rows
    train_sites("tiny", tmp_path, rows, tmp_path, sites=8, steps=3, batch_size=4)
    after = [load_file(path) for path in files]
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    moved = {name for name in before[1] if not torch.equal(before[1][name], after[1][name])}
    assert moved
    assert all("igc_output_mapping" in name for name in moved)
    again = load_adapter(tiny_base()[0], tmp_path)
    assert active_adapters(again) == {"default", "low_rank"}


@pytest.mark.slow
@pytest.mark.filterwarnings(*WARNINGS)
def test_the_reading_learns_on_whole_solutions_and_the_writing_stays(tools, tmp_path):
    rows = convert(WorkedSolutions(seed=2).take(12), *tools).rows
    train_sites("tiny", "tiny", rows, tmp_path, sites=4, steps=1, batch_size=4)
    before = load_file(tmp_path / "adapter_model.safetensors")
    record = read_sites("tiny", tmp_path, rows, steps=3, batch_size=4)
    assert record["steps"] == 3
    after = load_file(tmp_path / "adapter_model.safetensors")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all("igc_input_mapping" in name for name in moved)


@pytest.mark.parametrize(
    ("text", "result", "wanted"),
    [
        ("= 24 of", "24", "= 24 of"),
        ("=24. Then", "24", "=24."),
        ("=$1.75 each", "1.75", "=$1.75 each"),
        ("=24=24.", "24", None),  # the next anchor
        ("=24.5 of", "24", None),  # another number
        ("=about 24.", "24", None),
        ("=24", "24", None),  # nothing ends it
    ],
)
def test_a_site_is_left_out_where_something_else_stands_behind_its_anchor(tools, text, result, wanted):
    ids = tools[0](text, add_special_tokens=False)["input_ids"]
    end = _end(ids, 0, result, tools[0])
    assert (None if end is None else tools[0].decode(ids[:end])) == wanted


def test_what_stands_before_a_site_is_read_by_the_base_alone(tools):
    tokenizer, config = tools
    row = sites_of_rows(convert([SOLVED], tokenizer, config).rows, tokenizer, config)[-1]
    sizes = {"reading_dim": 32, "num_heads": 2, "write_again": False}
    fields = {name: getattr(config, name) for name in ANCHOR_FIELDS}
    model = get_peft_model(tiny_base()[0], RandomConfig.from_tokenizer(tokenizer, **fields, **sizes)).train()
    training_only(model, "igc_output_mapping")
    trainable = [p.requires_grad for p in model.parameters()]
    batch = after_prompts(model, [row], tokenizer.pad_token_id)
    assert [p.requires_grad for p in model.parameters()] == trainable
    ids = torch.tensor([row["input_ids"]])[:, : batch.cache.get_seq_length()]
    assert (ids == config.inline_token_ids[0][0]).sum() > 1  # earlier anchors, at which the calculator would write
    with torch.no_grad():
        alone = tiny_base()[0](ids, use_cache=True).past_key_values
        written = model(ids, use_cache=True).past_key_values
    for layer in range(len(alone.layers)):
        torch.testing.assert_close(batch.cache.layers[layer].keys, alone.layers[layer].keys)
    assert not torch.allclose(batch.cache.layers[-1].keys, written.layers[-1].keys)


def test_a_row_without_a_fitting_anchor_is_refused(tools):
    tokenizer, config = tools
    row = sites_of_rows(convert([SOLVED], tokenizer, config).rows, tokenizer, config)[0]
    ids, labels = row["input_ids"], row["labels"]
    fields = {name: getattr(config, name) for name in ANCHOR_FIELDS}
    model = get_peft_model(tiny_base()[0], IGCConfig.from_tokenizer(tokenizer, **fields, reading_dim=32, num_heads=2))
    for changed, message in (
        ({"input_ids": tokenizer(" of", add_special_tokens=False)["input_ids"] * len(ids)}, "A row has no anchor"),
        ({"labels": ids}, "A row has its last anchor at token [0-9]+, but one is needed"),
    ):
        with pytest.raises(ValueError, match=message):
            after_prompts(model, [{**row, "labels": labels, **changed}], tokenizer.pad_token_id)


def test_a_quarter_of_the_sites_has_results_below_zero_if_there_are_as_many():
    found = [{"igc_result": str(number)} for number in range(-10, 90)]
    for sites, least, most in ((20, 5, 7), (60, 10, 10), (200, 10, 10)):
        drawn = drawn_sites(found, sites, 0)
        assert len({row["igc_result"] for row in drawn}) == len(drawn) == min(sites, len(found))
        assert least <= sum(row["igc_result"].startswith("-") for row in drawn) <= most
    assert len(drawn_sites(found[:20], 20, 0)) == 20  # also if most of them are below zero
    assert drawn_sites(found, 20, 0) != drawn_sites(found, 20, 1)
