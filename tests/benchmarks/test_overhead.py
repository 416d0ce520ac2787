"""What the benchmark of inference overhead rests on: shared weights, counted memory, texts, turns, and its gates.

Each gate is seen red by breaking what it guards. Times are not tested.
Try it: `pytest tests/benchmarks/test_overhead.py`
"""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.common import measuring, shapes
from benchmarks.cost import overhead
from benchmarks.cost import overhead_checks as checks


ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def base_and_tokenizer():
    return shapes.made_base(shapes.TINY, 0, CPU)


@pytest.fixture(scope="module")
def base(base_and_tokenizer):
    return base_and_tokenizer[0]


@pytest.fixture(scope="module")
def tokenizer(base_and_tokenizer):
    return base_and_tokenizer[1]


@pytest.fixture
def made(base, tokenizer):
    return {subject.method: subject for subject in shapes.subjects(base, tokenizer, 0)}


@pytest.fixture(params=["igc_hidden", "igc_tokens"])
def subject(made, request):
    return made[request.param]


def head_of(subject):
    """The output head of a method's own copy of the base."""
    return subject.model.get_base_model().lm_head


# ------------------------------------------------------------------------------------------ models
def test_all_methods_share_the_bases_tensors_and_none_has_a_gradient(base, made):
    assert list(made) == list(shapes.METHODS)
    own = {x.data_ptr() for x in base.parameters()}
    for subject in made.values():
        assert own <= {x.data_ptr() for x in subject.model.parameters()}
        assert not any(x.requires_grad for x in subject.model.parameters())
        assert not subject.model.training


def test_memory_is_what_is_not_the_bases(base, made):
    assert shapes.adapter_memory(base, base) == {"parameters": 0, "bytes": 0, "table_bytes": 0, "largest": 0}
    for method, prefix in (("lora", "lora_"), ("igc_hidden", "igc_"), ("igc_tokens", "igc_")):
        named = [x for name, x in made[method].model.named_parameters() if prefix in name]
        held = shapes.adapter_memory(made[method].model, base)
        assert held["parameters"] == sum(x.numel() for x in named)
        tables = sum(x.nbytes for name, x in made[method].model.named_buffers() if prefix in name)  # the vocabulary
        assert held["bytes"] == 4 * held["parameters"] + tables
        assert (tables > 0) == (method == "igc_tokens")
        assert held["largest"] == max(x.numel() for x in named)
        assert (held["table_bytes"] > 0) == (method == "igc_tokens")


def test_what_rides_on_the_cache_is_counted_per_token(base, made, tokenizer):
    width = base.config.hidden_size
    kept = 2 * width + 8  # what reading keeps in two bytes each, and an id
    assert checks.record_bytes(made["igc_tokens"], tokenizer)["record_bytes_per_token"] == kept
    config, found = base.config, checks.record_bytes(made["base"], tokenizer)
    per_layer = 2 * 4 * config.num_key_value_heads * config.head_dim
    assert found == {
        "cache_bytes_per_token": config.num_hidden_layers * per_layer,
        "record_bytes_per_token": 0,
    }


def test_lora_has_about_as_many_parameters(base, made):
    lora, igc = (shapes.adapter_memory(made[m].model, base)["parameters"] for m in ("lora", "igc_hidden"))
    assert abs(lora / igc - 1) < 0.02


def test_a_copy_of_the_embeddings_is_refused(base, subject):
    assert checks.checked_memory(subject, base)["parameters"] > 0
    copied = base.get_input_embeddings().weight.detach().clone()
    subject.calculators[0].extra = nn.Parameter(copied, requires_grad=False)
    with pytest.raises(SystemExit, match="the embeddings have .* may have been copied"):
        checks.checked_memory(subject, base)


def test_the_largest_shape_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [shapes.missing(shape) for shape in shapes.SHAPES] == [None, None, "no GPU"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**33, 2**34))
    assert shapes.missing(shapes.LARGEST) == "8 GiB of free GPU memory, 24 are needed"
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**36, 2**36))
    assert shapes.missing(shapes.LARGEST) is None


def test_the_middle_shape_has_about_a_hundred_million_parameters():
    with torch.device("meta"):
        model = shapes.LlamaForCausalLM(shapes.LlamaConfig(**shapes.SHAPES["100m"]))
    assert 90e6 < model.num_parameters() < 120e6


# ------------------------------------------------------------------------------------------ texts
@pytest.mark.parametrize("kind", checks.TEXTS)
@pytest.mark.parametrize("length", [16, 17, 200])
def test_texts_have_their_length_and_end_where_the_answer_begins(tokenizer, kind, length):
    ids = checks.text_of(tokenizer, kind, 3, length)
    assert ids.shape == (3, length)
    text = tokenizer.decode(ids[0])
    assert text.endswith(tokenizer.decode(shapes.assistant_header(tokenizer)))
    assert checks.TEXTS[kind] in text
    assert any(character.isdigit() for character in text) == (kind == checks.CALCULATION)


def test_a_length_without_room_for_the_question_is_refused(tokenizer):
    with pytest.raises(ValueError, match="`length=5` is too short"):
        checks.text_of(tokenizer, checks.PLAIN, 1, 5)


# ------------------------------------------------------------------------------------------ gates
def test_what_is_right_passes(subject, base, tokenizer):
    found = checks.checked(subject, base, tokenizer)
    assert {kind: (one["steps"], one["ok"]) for kind, one in found.items()} == {"calculation": (2, 2), "plain": (2, 0)}


def test_a_reading_that_finds_no_calculation_is_refused(subject, base, tokenizer):
    subject.told = lambda operation: shapes.Subject.told(subject, None)
    with torch.no_grad():  # the token interface reads what the text has, so it is made deaf
        subject.calculators[0].igc_input_mapping["default"].operator_head.bias[-1] += 2 * shapes.FORCED
    with pytest.raises(SystemExit, match="calculation text was read 2 times with the status ok 0 times"):
        checks.checked(subject, base, tokenizer)


def test_a_reading_that_finds_a_calculation_in_plain_text_is_refused(made, base, tokenizer):
    made["igc_hidden"].told = lambda calculation: nullcontext()
    with pytest.raises(SystemExit, match="plain text was read 2 times with the status ok 2 times"):
        checks.checked(made["igc_hidden"], base, tokenizer)


def test_a_change_of_plain_text_is_refused(subject, base, tokenizer):
    head_of(subject).register_forward_hook(lambda module, args, output: output + 1e-3)
    with pytest.raises(SystemExit, match="text without arithmetic has other logits than the base's"):
        checks.checked(subject, base, tokenizer)


def test_an_adapter_that_writes_nothing_is_refused(subject, base, tokenizer):
    subject.calculators[0].igc_output_mapping["default"].close()
    with pytest.raises(SystemExit, match="nothing was written behind the calculation"):
        checks.checked(subject, base, tokenizer)


def test_a_cache_that_changes_the_logits_is_refused(subject, base, tokenizer):
    head_of(subject).register_forward_hook(lambda module, args, output: output + (output.shape[1] == 1))
    with pytest.raises(SystemExit, match="with a cache the logits of the calculation text differ"):
        checks.checked(subject, base, tokenizer)


def test_a_graph_that_changes_the_logits_is_refused(made):
    eager = torch.ones(1, 2, 3)
    checks.check_compiled(made["lora"], eager + 1e-4, eager)
    for wrong in (eager + 1e-2, eager * torch.nan):
        with pytest.raises(SystemExit, match="lora: compiled, the logits differ by"):
            checks.check_compiled(made["lora"], wrong, eager)


def test_a_wide_base_also_has_an_adapter_of_the_demonstrations_sizes(tokenizer):
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=576, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    )
    base = LlamaForCausalLM(config).eval().requires_grad_(False)
    made = {subject.method: subject for subject in shapes.subjects(base, tokenizer, 0)}
    assert list(made) == [*shapes.METHODS, shapes.SMALL]
    held = {name: shapes.adapter_memory(subject.model, base)["parameters"] for name, subject in made.items()}
    assert 0 < held[shapes.SMALL] < held["igc_tokens"] / 2
    checks.checked(made[shapes.SMALL], base, tokenizer)


def cell_of(subjects, tokenizer, kind, length=128, batch=2):
    arguments = overhead.parsed(["--output", "x", "--steps", "2", "--repetitions", "1"])
    return overhead.measured(subjects, tokenizer, kind, overhead.EAGER, length, batch, arguments)


@pytest.mark.parametrize("kind", checks.TEXTS)
def test_each_cell_tells_how_the_timed_text_was_read(made, tokenizer, kind):
    read = cell_of(list(made.values()), tokenizer, kind)["read"]
    steps = overhead.PROMPTS_READ * 2
    told = {"steps": steps, "ok": steps if kind == checks.CALCULATION else 0, "in_generated_text": 0}
    nothing = dict.fromkeys(told, 0)
    assert read == {"base": nothing, "lora": nothing, "igc_hidden": told, "igc_tokens": told}


class DeafTo:
    """A hook: no arithmetic is found in texts of this length or longer."""

    def __init__(self, subject, length):
        self.heads = [m.igc_input_mapping["default"].operator_head.bias for m in subject.calculators]
        self.length, self.deaf = length, False

    def __call__(self, module, args, kwargs):
        long = kwargs["input_ids"].shape[1] >= self.length
        if long != self.deaf:
            for bias in self.heads:
                bias[-1] += 2 * shapes.FORCED if long else -2 * shapes.FORCED
            self.deaf = long


def test_a_calculation_that_is_not_found_at_the_timed_length_ends_the_run(subject, made, base, tokenizer):
    subject.model.get_base_model().register_forward_pre_hook(DeafTo(subject, 100), with_kwargs=True)
    checks.checked(subject, base, tokenizer)  # at its own length all is well
    with pytest.raises(SystemExit, match="calculation text of 128 tokens was read 6 times with the status ok 0 times"):
        cell_of([made["base"], subject], tokenizer, checks.CALCULATION)
    cell_of([made["base"], subject], tokenizer, checks.CALCULATION, length=64)


def test_a_calculation_that_is_found_in_timed_plain_text_ends_the_run(made, tokenizer):
    made["igc_hidden"].told = lambda calculation: nullcontext()
    with pytest.raises(SystemExit, match="plain text of 128 tokens was read 6 times with the status ok 6 times"):
        cell_of([made["base"], made["igc_hidden"]], tokenizer, checks.PLAIN)


def test_one_row_that_is_read_otherwise_is_enough(made):
    ok, none = int(checks.Status.OK), int(checks.Status.NONE)
    igc = made["igc_tokens"]
    for seen in ([], [[ok]], [[ok, none]], [[none, none]], [[none, ok], [ok, ok]]):
        with pytest.raises(SystemExit, match="igc_tokens: where it is timed, the calculation text of 16 tokens"):
            checks.check_read(igc, checks.CALCULATION, [torch.tensor(steps) for steps in seen], 2, 16, 1)
    for seen in ([], [[none]], [[none, ok]], [[none, none], [ok]]):
        with pytest.raises(SystemExit, match="the plain text of 16 tokens"):
            checks.check_read(igc, checks.PLAIN, [torch.tensor(steps) for steps in seen], 2, 16, 1)
    later = [torch.tensor([ok, ok]), torch.tensor([none])]  # what is generated may hold an anchor of its own
    found = checks.check_read(igc, checks.CALCULATION, later, 2, 16, 1)
    assert found == {"steps": 3, "ok": 2, "in_generated_text": 1}


def test_what_generate_writes_holds_no_header(made, tokenizer, monkeypatch):
    ids = checks.text_of(tokenizer, checks.PLAIN, 2, 64)
    header = int(ids[0, -1])
    wants = made["igc_tokens"].model.get_output_embeddings()
    wants.register_forward_hook(lambda module, args, logits: logits.index_fill(-1, torch.tensor(header), 1e9))
    fed = checks.fed_tokens(tokenizer, 2, 3, CPU)
    _, read = overhead.not_counted(made["igc_tokens"], checks.PLAIN, ids, fed, None)
    assert read == {"steps": 2 * overhead.PROMPTS_READ, "ok": 0, "in_generated_text": 0}


def test_the_table_names_steps_in_generated_text(made, tokenizer):
    cell = cell_of([made["base"], made["igc_tokens"]], tokenizer, checks.PLAIN)
    results = {"shapes": {"tiny": {"cells": [cell]}}}
    assert "in generated text" not in overhead.table(results)
    cell["read"]["igc_tokens"]["in_generated_text"] = 7
    marked = [line for line in overhead.table(results).splitlines() if line.endswith("with 7 steps in generated text")]
    assert len(marked) == 2  # `generate`, and what it took behind the first token


@pytest.mark.slow
def test_what_is_decoded_by_a_graph_is_read_too(subject, tokenizer):
    fed = checks.fed_tokens(tokenizer, 2, 2, CPU)
    ids = checks.text_of(tokenizer, checks.CALCULATION, 2, 64)
    graph = overhead.CompiledDecoding(subject, ids, fed, backend="eager")
    with subject.told("*"):
        parts, read = overhead.not_counted(subject, checks.CALCULATION, ids, fed, graph)
    assert list(parts) == [overhead.DECODE]
    assert read == {"steps": 2, "ok": 2, "in_generated_text": 0}


# ------------------------------------------------------------------------------------------ turns and cells
def test_methods_take_turns_and_the_first_round_does_not_count():
    order, told = [], []

    def runs(name):
        order.append(name)
        return {"part": float(len(order))}

    found = measuring.alternating({n: lambda n=n: runs(n) for n in "ab"}, 2, lambda: told.append(len(order)))
    assert order == list("ababab")
    assert found == {"part": {"a": [3.0, 5.0], "b": [4.0, 6.0]}}
    assert told == [1, 2, 3, 4, 5, 6]


def test_rounds_end_with_the_time_but_not_before_enough_of_them():
    for most, rounds in ((0.0, measuring.FEWEST), (60.0, 9)):
        found = measuring.alternating({"a": lambda: {"part": 1.0}}, 9, most_seconds=most)
        assert found == {"part": {"a": [1.0] * rounds}}


def test_an_overhead_is_the_median_of_the_ratios_within_rounds():
    found = measuring.overhead([1.1, 2.2, 9.0], [1.0, 2.0, 4.0])
    assert found["median"] == pytest.approx(0.1)
    assert found["high"] == pytest.approx((0.1 + 1.25) / 2)
    assert measuring.summary([3.0]) == {"median": 3.0, "low": 3.0, "high": 3.0, "n": 1}


def test_cells_that_cannot_run_say_why(base, monkeypatch):
    arguments = overhead.parsed(["--output", "x", "--most-tokens", "100"])
    assert overhead.left_out(base, "eager", 16, 2, arguments) is None
    assert overhead.left_out(base, "eager", 64, 2, arguments) == "batch times prompt is over --most-tokens 100"
    assert overhead.left_out(base, "compiled", 16, 2, arguments) == "CUDA graphs need a GPU"
    assert "the model takes" in overhead.left_out(base, "eager", 10**5, 1, arguments)
    monkeypatch.setattr(overhead, "_free_memory", lambda: 1000)
    assert "GiB are needed, 0.0 are free" in overhead.left_out(base, "eager", 16, 2, arguments)


@pytest.mark.slow
def test_a_decoding_step_without_a_result_runs_no_writing(made, tokenizer):
    found = overhead.steps_of(list(made.values()), tokenizer)
    for method in ("igc_hidden", "igc_tokens"):
        assert (
            found["plain"]["base"]["calls"] < found["plain"][method]["calls"] < found["calculation"][method]["calls"]
        )
    assert found["plain"]["base"]["calls"] == found["calculation"]["base"]["calls"]


@pytest.mark.slow
def test_the_command_writes_every_cell_and_what_it_left_out(tmp_path):
    output, figure = tmp_path / "overhead.json", tmp_path / "overhead.png"
    sizes = ["--batches", "1", "--prompts", "16", "4096", "--steps", "2", "--repetitions", "2"]
    command = [sys.executable, "-m", "benchmarks.cost.overhead", "--shapes", "tiny", *sizes]
    command += ["--output", str(output), "--figure", str(figure)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    results = json.loads(output.read_text())
    assert len(results["commit"]) == 40
    assert {(cell["text"], cell["prompt"]) for cell in results["shapes"]["tiny"]["cells"]} == {
        ("calculation", 16),
        ("plain", 16),
    }
    for cell in results["shapes"]["tiny"]["cells"]:
        assert list(cell["parts"]) == list(overhead.PARTS)
        for methods in cell["parts"].values():
            assert list(methods) == list(shapes.METHODS)
            assert "overhead" not in methods["base"]
            assert all(found["seconds"]["n"] == 2 for found in methods.values())
            assert all("overhead" in found for name, found in methods.items() if name != "base")
    assert {(one["mode"], one["prompt"]) for one in results["left_out"]} >= {("eager", 4096), ("compiled", 16)}
    assert figure.stat().st_size > 1000
