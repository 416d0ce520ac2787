"""The engine answers as `generate` does, token for token, however it runs the texts. `make test-vllm` runs this."""

import math

import pytest


def metric(llm, name):
    return sum(one.value for one in llm.get_metrics() if one.name == name)


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
        assert metric(llm, "vllm:prefix_cache_hits") > 1000
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
        assert metric(llm, "vllm:num_preemptions") > 10
        alone = [ask(llm, [text], **long)[0] for text in chosen[::4]]
        assert together[::4] == alone


def test_drafts_that_are_rejected_leave_no_trace(engine, ask, adapter, texts, expected):
    drafts = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    with engine(adapter, speculative_config=drafts) as llm:
        assert first(ask(llm, texts)) == expected
        drafted, accepted = (metric(llm, f"vllm:spec_decode_num_{kind}_tokens") for kind in ("draft", "accepted"))
        assert drafted > accepted > 0


def test_beams_find_the_answer(engine, adapter, texts, tokenizer, expected):
    from vllm.sampling_params import BeamSearchParams

    with engine(adapter) as llm:
        chosen = texts[::5]  # requests
        params = BeamSearchParams(beam_width=3, max_tokens=20)
        found = llm.beam_search([{"prompt_token_ids": ids} for ids in chosen], params)
        for output, prompt, answer in zip(found, chosen, expected[::5], strict=True):
            best = output.sequences[0].tokens[len(prompt) :]
            assert best[: len(answer) - 1] == answer[:-1]


def log_probabilities(engine, adapter, prompts):
    """Of the three best tokens at each place."""
    from vllm import SamplingParams

    sampling = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True, logprobs=3)
    with engine(adapter, max_num_batched_tokens=64) as llm:
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
    places = [place for output in outputs for place in output.outputs[0].logprobs]
    return [{token: value.logprob for token, value in place.items()} for place in places]


def test_silent_texts_have_the_same_log_probabilities_with_the_plugin(engine, adapter, texts):
    silent = [{"prompt_token_ids": ids} for ids in texts[1::5]]
    found = log_probabilities(engine, adapter, silent * 2)
    assert len(found) > 1000
    assert all(math.isfinite(value) for place in found for value in place.values())
    assert found == log_probabilities(engine, None, silent * 2)


@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_compiled_graphs_call_the_calculator(engine, ask, adapter, texts, expected, backend, monkeypatch, tmp_path):
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
        assert first(ask(llm, texts)) == expected
