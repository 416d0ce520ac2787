"""The engine answers as `generate` does, token for token, however it runs the texts. `make test-vllm` runs this."""

import math

import pytest

from benchmarks.common.vllm_engines import log_probabilities, metric


def first(found):
    return [answers[0] for answers in found]


def test_requests_chats_and_running_texts_are_answered_as_by_generate(engine, ask, adapter, texts, expected):
    with engine(adapter) as llm:
        assert first(ask(llm, texts)) == expected
        report = llm.collective_rpc("igc_report", args=(5,))[0]
        assert report["steps_by_status"]["ok"] > len(texts) / 2
        assert len(report["steps"]) == 5
        # Again, now that the prompts are in the prefix cache, and with several samples per text.
        assert first(ask(llm, texts)) == expected
        assert metric(llm, "prefix_cache_hits") > 1000
        several = ask(llm, texts[:20], n=4, temperature=0.001, top_k=1)
        assert several == [[one] * 4 for one in expected[:20]]


def test_chunks_of_sixteen_tokens_change_nothing(engine, ask, adapter, texts, expected):
    with engine(adapter, max_num_batched_tokens=16, max_num_seqs=16) as llm:
        assert first(ask(llm, texts)) == expected


def test_preempted_texts_are_continued_as_if_they_had_not_been(engine, ask, adapter, texts, expected):
    with engine(adapter, num_gpu_blocks_override=18, max_model_len=256, max_num_batched_tokens=256) as llm:
        long = {"max_tokens": 60, "ignore_eos": True}
        chosen = [text for text in texts if len(text) < 60]
        together = ask(llm, chosen, **long)
        assert metric(llm, "num_preemptions") > 10
        alone = [ask(llm, [text], **long)[0] for text in chosen[::4]]
        assert together[::4] == alone


def test_beams_find_the_answer(engine, adapter, texts, tokenizer, expected):
    from vllm.sampling_params import BeamSearchParams

    with engine(adapter) as llm:
        chosen = texts[::5]  # requests
        params = BeamSearchParams(beam_width=3, max_tokens=20)
        found = llm.beam_search([{"prompt_token_ids": ids} for ids in chosen], params)
        for output, prompt, answer in zip(found, chosen, expected[::5], strict=True):
            best = output.sequences[0].tokens[len(prompt) :]
            assert best[: len(answer) - 1] == answer[:-1]


def test_silent_texts_have_the_same_log_probabilities_with_the_plugin(engine, adapter, texts):
    found = []
    for served in (adapter, None):
        with engine(served, max_num_batched_tokens=64) as llm:
            found.append(log_probabilities(llm, texts[1::5] * 2, 48))
    assert len(found[0]) > 1000
    assert all(math.isfinite(value) for place in found[0] for value in place.values())
    assert found[0] == found[1]


def assert_same_but_for_ties(llm, texts, expected):
    """Compiled kernels and sums over ranks round otherwise: where two tokens are equally probable, either may come."""
    from vllm import SamplingParams

    sampling = SamplingParams(temperature=0, max_tokens=24, logprobs=2)
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in texts], sampling, use_tqdm=False)
    ties = 0
    for output, wanted in zip(outputs, expected, strict=True):
        found = output.outputs[0]
        at = next((at for at, (a, b) in enumerate(zip(found.token_ids, wanted, strict=False)) if a != b), None)
        if at is not None:
            best = {token: value.logprob for token, value in found.logprobs[at].items()}
            assert wanted[at] in best
            assert max(best.values()) - best[wanted[at]] < 1e-3
            ties += 1
        else:
            assert len(found.token_ids) == len(wanted)
    assert ties <= 2


@pytest.mark.parametrize("backend", [pytest.param("inductor", marks=pytest.mark.slow), "eager"])
def test_compiled_graphs_call_the_calculator(engine, adapter, texts, expected, backend, monkeypatch, tmp_path):
    """With inductor as vLLM compiles on a CPU; with `eager` split at the operators, as on a GPU."""
    from vllm.config import CompilationMode
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config.__func__

    def split(cls, vllm_config):
        original(cls, vllm_config)
        vllm_config.compilation_config.mode = CompilationMode.VLLM_COMPILE
        vllm_config.compilation_config.backend = "eager"
        vllm_config.compilation_config.compile_sizes = []

    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    if backend == "eager":
        monkeypatch.setattr(CpuPlatform, "check_and_update_config", classmethod(split))
    with engine(adapter, enforce_eager=False, max_num_batched_tokens=256) as llm:
        assert_same_but_for_ties(llm, texts, expected)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # two processes start
def test_the_ranks_of_tensor_parallelism_calculate_the_same(engine, adapter, texts, expected):
    with engine(adapter, tensor_parallel_size=2, distributed_executor_backend="mp") as llm:
        assert_same_but_for_ties(llm, texts, expected)
        first_rank, second_rank = (one["steps_by_status"] for one in llm.collective_rpc("igc_report", args=(0,)))
        assert first_rank == second_rank
        assert first_rank["ok"] > len(texts) / 2


# The last one: vLLM (0.32) repeats tokens, with and without the plugin, where a compiled engine follows an engine with
# drafts in the same process.
def test_drafts_that_are_rejected_leave_no_trace(engine, ask, adapter, texts, expected):
    drafts = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    with engine(adapter, speculative_config=drafts) as llm:
        assert first(ask(llm, texts)) == expected
        drafted, accepted = (metric(llm, f"spec_decode_num_{kind}_tokens") for kind in ("draft", "accepted"))
        assert drafted > accepted > 0
