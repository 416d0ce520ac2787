"""What the benchmark of inference overhead rests on: shared weights, counted memory, texts, turns, and its gates.

Each gate is seen red by breaking what it guards. Times are not tested.
Try it: `pytest tests/test_benchmarks_overhead.py`
"""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import measuring
import overhead
import overhead_checks as checks
import pytest
import shapes
import torch
from torch import nn


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
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
        assert held["bytes"] == 4 * held["parameters"]
        assert held["largest"] == max(x.numel() for x in named)
        assert (held["table_bytes"] > 0) == (method == "igc_tokens")


def test_what_rides_on_the_cache_is_counted_per_token(base, made, tokenizer):
    width = base.config.hidden_size
    kept = 4 * width + 1 + 8  # what reading keeps, a flag, an id
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
    subject.told = lambda calculation: shapes.Subject.told(subject, False)
    with torch.no_grad():  # the token interface reads what the text has, so it is made deaf
        subject.calculators[0].igc_input_mapping["default"].operator_head.bias[-1] += shapes.FORCED
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
    command = [sys.executable, str(BENCHMARKS / "overhead.py"), "--shapes", "tiny", *sizes]
    subprocess.run([*command, "--output", str(output), "--figure", str(figure)], check=True, capture_output=True)
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
