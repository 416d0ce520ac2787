"""Promises of compiled decoding: on a static cache a step is one graph, silent or speaking, with equal logits."""

import copy
import random

import pytest
import torch
from checks import TOLERANCE, adapted, calculations, igc_layers, scored, state_of
from devices import no_synchronization
from tiny_vocabulary import NUMBERS, TEXTS, encode
from torch._dynamo.utils import counters
from transformers import StaticCache

import peft_igc
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.hooks.generation import choose_graph
from peft_igc.tuner.state.cache import states_of


RULES = {"anchors": {"inline": [encode("=").tolist(), encode(" is\n").tolist()]}}
WORDS = [" and", "the", " what", ";"]
PROMPT, NEW = 6, 8


def text(seed=3):
    """Two rows of two numbers among words; one has an anchor in its prompt, the other one gets it later."""
    draw = random.Random(seed)
    rows = [[draw.choice(WORDS) for _ in range(PROMPT + NEW)] for _ in range(2)]
    for row in rows:
        row[2:5] = draw.choice(NUMBERS), draw.choice([" +", " *"]), draw.choice(NUMBERS)
    rows[0][5], rows[1][8:10] = "=", [" is", "\n"]
    return torch.tensor([[TEXTS.index(token) for token in row] for row in rows])


def telling_text(model, **more):
    """A text whose steps all have a result, with its logits."""
    for seed in range(300):
        logits, cache = decoded(model, model.base_model.model, text(seed), **more)
        anchors, status = torch.tensor(state_of(cache).anchors)[..., 0], state_of(cache).steps.status
        if ((status == Status.OK) | (anchors < 0)).all() and (status == Status.OK).any(1).all():
            return text(seed), logits
    raise AssertionError("no such text")


def decoded(model, step, ids, chosen=True, **more):
    """Logits of a text whose prompt comes in one pass and whose other tokens come one by one through `step`."""
    cache = StaticCache(config=model.config, max_cache_len=32)
    with torch.no_grad():
        logits = [model.base_model.model(input_ids=ids[:, :PROMPT], past_key_values=cache, **more).logits]
        for place in range(PROMPT, ids.shape[1]):
            new = ids[:, place : place + 1]
            for _ in range(2 * chosen):  # a token that is named twice counts once
                choose_graph(model, new, cache)
            logits.append(step(input_ids=new, past_key_values=cache).logits)
    return torch.cat(logits, 1), cache


# Inductor compiles the largest graph only.
COMPILED = {
    "hidden, prompt_end": ("hidden", {}, "eager"),
    "hidden, anchors by tokens": ("hidden", RULES, "eager"),
    "tokens, prompt_end": ("tokens", {}, "eager"),
    "tokens, anchors by tokens": ("tokens", RULES, "inductor"),
}


@pytest.mark.parametrize("case", COMPILED)
def test_a_decode_step_is_one_graph_and_gives_equal_logits(case):
    interface, rules, backend = COMPILED[case]
    torch._dynamo.reset()
    counters.clear()
    model = adapted("llama", interface=interface, **rules)
    base = model.base_model.model
    more = {} if rules else {"igc_anchors": torch.full((2, 1), PROMPT - 1)}
    ids, wanted = telling_text(model, **more)  # one row may be at an anchor while the other one is told a result
    torch.testing.assert_close(wanted, scored(model, ids, None, **more), atol=TOLERANCE, rtol=0)
    compiled = torch.compile(base, fullgraph=True, backend=backend)
    found, _ = decoded(model, compiled, ids, **more)
    torch.testing.assert_close(found, wanted, atol=TOLERANCE, rtol=0)
    assert not counters["graph_break"]
    # with anchors by tokens one graph looks for them and another one does not
    assert counters["stats"]["unique_graphs"] == (2 if rules else 1)
    with torch.no_grad(), model.disable_adapter():
        silent = base(input_ids=ids).logits
    assert (wanted - silent).abs().max() > 100 * TOLERANCE  # something was written


def test_a_choice_is_not_followed_after_a_pass_of_the_base_model():
    model = adapted("llama", interface="tokens", **RULES)
    ids, _ = telling_text(model)
    given, last = [ids[:, PROMPT : PROMPT + 1], ids[:, PROMPT + 1 : PROMPT + 2]], []
    for chosen in (True, False):
        cache = StaticCache(config=model.config, max_cache_len=32)
        with torch.no_grad():
            model(input_ids=ids[:, :PROMPT], past_key_values=cache)
            if chosen:
                choose_graph(model, given[0], cache)
            with model.disable_adapter():
                model(input_ids=given[0], past_key_values=cache)
            last.append(model(input_ids=given[1], past_key_values=cache).logits)
        assert state_of(cache).length == PROMPT + 2
    torch.testing.assert_close(*last, atol=0, rtol=0)


def test_a_graph_that_was_not_chosen_is_never_wrong_and_a_copy_of_the_model_has_its_own(interface):
    torch._dynamo.reset()
    counters.clear()
    model = adapted("llama", interface=interface, **RULES)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        igc_layers(twin)[0].igc_output_mapping["default"].write_down.weight.mul_(-1)
    ids, _ = telling_text(model)
    for one in (model, twin):
        base = one.base_model.model
        found, cache = decoded(one, torch.compile(base, fullgraph=True, backend="eager"), ids, chosen=False)
        wanted, eager = decoded(one, base, ids)
        torch.testing.assert_close(found, wanted, atol=TOLERANCE, rtol=0)
        assert calculations(state_of(cache)) == calculations(state_of(eager))
    assert counters["stats"]["unique_graphs"] == 2


def test_choosing_costs_one_look_at_the_device_and_the_pass_after_it_none(monkeypatch):
    model, ids = adapted("llama", interface="tokens", **RULES), text()
    _, cache = decoded(model, model.base_model.model, ids)
    looks = []
    inner = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: looks.append(1) or inner(self))
    for name in ("item", "__bool__", "__int__", "cpu"):
        monkeypatch.setattr(torch.Tensor, name, lambda self, *args: pytest.fail("a value was read from the device"))
    for expected in (1, 2):
        peft_igc.choose_graph(model, ids[:, -1:], cache)
        assert len(looks) == expected
    with torch.no_grad():
        model.base_model.model(input_ids=ids[:, -1:], past_key_values=cache)
    assert len(looks) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.filterwarnings(r"ignore:\s*Online softmax is disabled")  # of Inductor, where it splits a reduction
def test_on_a_gpu_a_compiled_step_without_an_anchor_never_synchronises():
    """With CUDA graphs, whose capture is what `torch.compile` gives without them. Compiling takes about a minute."""
    model, ids = adapted("llama", interface="tokens", **RULES).cuda(), text().cuda()
    base = model.base_model.model
    wanted, _ = decoded(model, base, ids)
    compiled = torch.compile(base, fullgraph=True, mode="reduce-overhead")

    def guarded(**inputs):
        if states_of(inputs["past_key_values"], 1).plan is None:  # the host reads the text
            return compiled(**inputs)
        with no_synchronization():
            return compiled(**inputs)

    decoded(model, compiled, ids)  # compiles
    found, _ = decoded(model, guarded, ids)
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)
