"""Promises of the benchmark on a GPU: its cells, its checks, and what it says where there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.cost import gpu


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def small():
    base, tokenizer = gpu.made_base("tiny", 0, torch.device("cpu"))
    return gpu.made_methods(base, tokenizer, [gpu.BASE, gpu.AGAIN, gpu.IGC]), tokenizer


@pytest.mark.parametrize("state", gpu.STATES)
def test_a_step_with_a_result_writes_and_a_silent_one_does_not(small, state):
    methods, _ = small
    text = gpu.filled_cache(methods[0].model, 40, "dynamic", 4, rows=2)
    base, igc = (gpu.Decoding(m, gpu.shared_copy(text), state, gpu.EAGER, 40).first() for m in methods[::2])
    assert torch.equal(base, igc) == (state == gpu.SILENT)


def test_caches_that_share_their_memory_have_lengths_of_their_own(small):
    methods, _ = small
    text = gpu.filled_cache(methods[0].model, 40, "static", 8)
    first, second = (gpu.Decoding(methods[0], gpu.shared_copy(text), gpu.SILENT, "checked", 40) for _ in range(2))
    first._step()
    assert [int(one.cache.get_seq_length()) for one in (first, second)] == [41, 40]
    assert first.cache.layers[0].keys.data_ptr() == second.cache.layers[0].keys.data_ptr()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # of torch 2.11, at every profile
def test_a_prompt_without_two_numbers_runs_fewer_operators_than_a_calculation(small):
    methods, tokenizer = small
    cells = [gpu.prefill_cell(methods, tokenizer, end, 1, 3, 32) for end in ("", " and so on =", gpu.CALCULATION)]
    silent, plain, read = (cell["kernels"][gpu.IGC] - cell["kernels"][gpu.BASE] for cell in cells)
    assert silent < plain < read / 4


def test_logits_that_differ_end_the_run():
    logits = torch.ones(1, 5)
    assert gpu.check_logits(logits * 1.01, logits, "igc") == pytest.approx(0.01)
    for wrong in (logits * 1.1, logits * float("nan")):
        with pytest.raises(SystemExit, match="igc: the logits differ by"):
            gpu.check_logits(wrong, logits, "igc")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_the_largest_shape_is_refused_without_a_gpu(tmp_path):
    with pytest.raises(SystemExit, match="`--shape 8b` cannot be measured: no GPU"):
        gpu.main(["--output", str(tmp_path / "gpu.json")])


@pytest.mark.slow
def test_the_script_runs_all_parts_at_small_dimensions(tmp_path):
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "benchmarks" / "gpu.sh", "--small", tmp_path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert set(found) == {"gpu", "gpu_training", "gpu_calculator"}
    cells = found["gpu"]["cells"]
    assert {cell["part"] for cell in cells} == {"decode", "prefill"}
    assert all(set(cell["milliseconds"]) >= {gpu.BASE, gpu.IGC} for cell in cells)
    missing = {(one["mode"], one["reason"]) for one in found["gpu"]["left_out"]}
    if not torch.cuda.is_available():
        assert missing == {("graph", "needs a GPU"), ("compiled", "needs a GPU")}
    assert found["gpu"]["versions"]["torch"] == torch.__version__
