"""Promises of generation: whatever way a text is produced, the calculator reads and writes the same.

The yardstick is one uncached pass over each final text alone, without padding, in which the rules find the anchors:
logits within 1e-4 in float32, steps exactly equal. Texts follow a script that is the same in all modes: at some steps
the next token is a number, a sign or an anchor, which one depends on the row; at the others the model chooses.
Llama has every mode with every rule, each further architecture a random walk through them.
"""

import copy
import functools
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from checks import (
    Calculation,
    Meanwhile,
    adapted,
    calculations,
    close,
    generated,
    left_padded,
    margin,
    positions_of,
    state_of,
    telling,
    watching,
)
from peft import get_peft_model
from tiny_models import tiny_model
from tiny_vocabulary import TEXTS, encode
from transformers import Cache, CompileConfig, DynamicCache, LogitsProcessor, LogitsProcessorList, StaticCache
from transformers.cache_utils import QuantizedLayer

from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from tests.tuner.test_schedules import FURTHER, INLINE, TURN


WINDOW = {"sliding_window": 6}
TIE = 1e-3  # ten times what another order of sums may move
ANCHORS = {"tokens": {"turns": [TURN]}, "prompt_end": {"prompt_end": True}}

# Anchors in the prompts, too, of both kinds; rows of mixed lengths. One token alone is a row in its own test.
PROMPTS = [encode(text) for text in ("12 +45=[; 9 *34 is\n;77 plus 8A", "34 * 7A", "(90-19)=<A")]
NUMBERS = ["12", "34", "7", "90", "45", "19", "5", "8"]
SCRIPT = [None, "=", ";", NUMBERS, " *", NUMBERS, "=", None, None]
SCRIPT += ["=", ";", NUMBERS, " +", NUMBERS, " is", "\n", None, None]
LATER, NEW = 3, len(SCRIPT)


class Script(LogitsProcessor):
    """Makes a `generate` follow `SCRIPT` after prompts of that width; each row begins `LATER` steps after the last."""

    def __init__(self, width, rows=1):
        self.width, self.rows = width, rows

    def __call__(self, input_ids, scores):
        scores, copies = scores.clone(), len(input_ids) // self.rows  # copies: beams and samples of a prompt
        for row, ids in enumerate(input_ids):
            step = len(ids) - self.width - LATER * (row // copies)
            wanted = SCRIPT[step] if 0 <= step < len(SCRIPT) else None
            if wanted is not None:
                texts = wanted if isinstance(wanted, list) else [wanted]
                chosen = texts[int(ids.sum() * 7 + step) % len(texts)]  # padding has id 0
                scores[row, TEXTS.index(chosen)] += 1e4
        return scores


@functools.cache
def made(arch, interface, anchor="tokens"):
    """A telling model with a rule of each kind."""
    arch, _, variant = arch.partition("-")
    rules = {"anchors": ANCHORS[anchor] | {"inline": INLINE}, "result_digits": 8}
    rules |= {"read_from": [0, 1]} if variant == "read-from" else {}
    return adapted(arch, overrides=WINDOW if variant == "window" else None, interface=interface, **rules)


def written(model, rows=None, new=NEW, **options):
    """`generate` with the script, from one-dimensional prompts (left-padded) or from what else is given."""
    given = left_padded(rows) if rows is not None else {}
    count, width = {**given, **options}["input_ids"].shape
    processors = LogitsProcessorList([Script(width, count)])
    return generated(model, new=new, **{**given, "logits_processor": processors, **options})


def alone(model, text, stretches):
    """Logits [L, V] of a pass over one text [L] alone, nothing cached, and its step; stretches: what was generated."""
    labels = torch.full_like(text, -100)
    for start, stop in stretches:  # where the end of a prompt is an anchor, it is that before labels
        labels[start:stop] = text[start:stop]
    with watching() as seen, torch.no_grad():
        logits = model(input_ids=text[None], labels=labels[None], use_cache=False).logits[0]
    return logits, seen[0] if seen else None


def steps_alone(step):
    """The steps of a pass over one text, as `calculations` gives those of a record."""
    places, tensors = step.anchors[0].tolist(), (t[0].tolist() for t in step.result[:3])
    rows = zip(places, *tensors, strict=True)
    return sorted(Calculation(p, tuple(d for d in ds if d != PAD), s, status) for p, ds, s, status in rows if p >= 0)


def assert_steps_are_returned(found, wanted, shift, read_from):
    """The field `igc_steps` of one sequence has the steps of a pass over its text, `shift` columns further right.

    Expressions are known from the column `read_from` on, where the `generate` began to read.
    """
    results = [("-" * s.sign + "".join(map(str, s.digits)) if s.status == int(Status.OK) else None) for s in wanted]
    names = [Status(s.status).name.lower() for s in wanted]
    assert [one.position - shift for one in found] == [s.position for s in wanted]
    assert [one.status for one in found] == names
    assert [one.result for one in found] == results
    assert all((one.reason is None) == (one.status == "ok") for one in found)
    assert all(one.expression for one in found if one.status == "ok" and one.position >= read_from)


def assert_as_alone(model, out, rows, before=(), cached=0):
    """Each text has the logits and left the steps of one pass over it; the calculator ran after the prompt.

    Args:
        model: that generated.
        out: of `generated`; several sequences per row and left padding may be among it.
        rows: the prompts, one-dimensional; before: stretches in them that were generated earlier.
        cached: number of tokens of the prompts that were in the KV cache.
    """
    beams = getattr(out, "beam_indices", None)
    repeats, new = out.sequences.shape[0] // len(rows), len(out.logits)
    results = ties = 0
    for i, sequence in enumerate(out.sequences):
        row = rows[i // repeats]
        text = torch.cat([row, sequence[-new:]])[:-1]  # the last token has not been read
        logits, step = alone(model, text, [*before, (len(row), len(text))])
        if step is not None and margin(step) <= TIE:
            ties += 1
            continue
        got = out.stacked[i] if beams is None else out.stacked[beams[i, :new], torch.arange(new)]
        close(got, logits[len(row) - 1 :])
        wanted = steps_alone(step) if step is not None else []
        if out.past_key_values is not None and beams is None:
            assert calculations(state_of(out.past_key_values))[i] == wanted
        assert_steps_are_returned(out.igc_steps[i], wanted, len(sequence) - 1 - len(text), cached)
        results += sum(s.position >= len(row) and s.status == int(Status.OK) for s in wanted)
    assert results > 0
    assert 3 * ties <= out.sequences.shape[0]


def plain(rows=PROMPTS, **options):
    """A mode that is a matter of `generate`'s options alone."""
    return lambda model: assert_as_alone(model, written(model, rows, **options), rows)


def several(count, **options):
    """Several sequences per prompt, all of them different, on either kind of cache."""

    def check(model):
        for cache in ("dynamic", "static"):
            out = written(model, PROMPTS, num_return_sequences=count, cache_implementation=cache, **options)
            assert len({tuple(s) for s in out.sequences.tolist()}) == count * len(PROMPTS)
            assert_as_alone(model, out, PROMPTS)

    return check


def padded(model):
    assert_as_alone(model, written(model, **left_padded(PROMPTS, extra=3)), PROMPTS)


def assisted(model):
    config = copy.deepcopy(model.peft_config["default"])
    calculating = telling(get_peft_model(tiny_model("llama", seed=3), config), seed=3).eval()
    for assistant in (tiny_model("llama", seed=3), calculating):  # neither drafts as the model writes
        for row in PROMPTS[:2]:
            out = written(model, [row], assistant_model=assistant)
            assert torch.equal(out.sequences, written(model, [row]).sequences)
            assert_as_alone(model, out, [row])


def looked_up(model):
    # Whatever number the script begins with, a calculation with it is looked up, which the script then leaves.
    row = encode("".join(f";{number} *99=;{number} +99 is\n" for number in NUMBERS) + "A")
    out = written(model, [row], prompt_lookup_num_tokens=5)
    assert torch.equal(out.sequences, written(model, [row]).sequences)
    assert_as_alone(model, out, [row])
    assert (torch.tensor(state_of(out.past_key_values).anchors)[..., 0] == -1).any()  # of drafts that were rejected


def continued(model):
    """A returned cache goes on with a longer prompt."""
    row = PROMPTS[1]
    first = written(model, [row])
    longer = torch.cat([first.sequences[0], PROMPTS[0]])
    out = written(model, [longer], past_key_values=first.past_key_values)
    # The first answer was written with the first result, and the text keeps it.
    assert_as_alone(model, out, [longer], before=[(len(row), len(row) + NEW)], cached=len(row) + NEW - 1)


def prefilled(model):
    """A prefix cache that was filled by two forward passes serves a `generate`."""
    batch = left_padded(PROMPTS)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    middle = PROMPTS[0].tolist().index(INLINE[1][1])  # a pass ends within the sequence of two tokens
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        for start, stop in ((0, middle), (middle, ids.shape[1] - 1)):
            model(input_ids=ids[:, start:stop], attention_mask=mask[:, :stop], past_key_values=cache,
                  position_ids=positions_of(mask)[:, start:stop])  # fmt: skip
    assert_as_alone(model, written(model, **batch, past_key_values=cache), PROMPTS, cached=ids.shape[1] - 1)


def of_the_callers(model):
    """A static cache of the caller's is used again after a reset."""
    cache = StaticCache(config=model.config, max_cache_len=64)
    for rows in (PROMPTS, PROMPTS[::-1]):
        cache.reset()
        assert_as_alone(model, written(model, rows, past_key_values=cache), rows)


MODES = {
    "cached": plain(),
    "chunks of 3": plain(prefill_chunk_size=3),
    "chunks of 1": plain(prefill_chunk_size=1),
    "static": plain(cache_implementation="static"),
    "uncached": plain(use_cache=False),
    "padded": padded,
    "a row of one token": plain([PROMPTS[0], torch.tensor(TURN), PROMPTS[1]]),
    "beams": several(2, num_beams=3),
    "samples": several(3, do_sample=True),
    "assisted": assisted,
    "looked up": looked_up,
    "continued": continued,
    "prefilled": prefilled,
    "of the caller's": of_the_callers,
}


@pytest.mark.versions
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_equals_one_uncached_pass(mode, interface):
    for anchor in ANCHORS:
        MODES[mode](made("llama", interface, anchor))


@pytest.mark.parametrize("arch", [*FURTHER, "gptj", "bloom", "phi3", "llama-read-from"])
def test_a_random_walk_through_the_modes_equals_one_uncached_pass(arch):
    draw = random.Random(arch)
    for mode in draw.sample(sorted(MODES), 3):
        interface, anchor = draw.choice(["hidden", "tokens"]), draw.choice(sorted(ANCHORS))
        try:
            MODES[mode](made(arch, interface, anchor))
        except Exception as error:
            error.add_note(f"mode {mode!r} of {arch}, {interface}, anchors {anchor!r}")
            raise


@pytest.fixture
def llama(interface):
    return made("llama", interface)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_return_sequences": 2}])
def test_compiled_decoding_returns_the_steps_of_one_uncached_pass(options):
    model = made("llama", "tokens")
    settings = CompileConfig(fullgraph=True, backend="eager", mode=None)
    settings._compile_all_devices = True
    out = written(model, PROMPTS, new=NEW + 6, cache_implementation="static", compile_config=settings, **options)
    assert_as_alone(model, out, PROMPTS, cached=out.sequences.shape[1])  # a graph keeps no expressions
    eager = written(model, PROMPTS, new=NEW + 6, cache_implementation="static", **options)
    told = [[step.written for step in row] for row in eager.igc_steps]
    for row, right in zip(out.igc_steps, told, strict=True):
        assert all(one.written in ((flag, None) if options else (flag,)) for one, flag in zip(row, right, strict=True))


class Unrounded(QuantizedLayer):
    """Handles keys and values as a quantised cache does, without the loss: its rows can be compared exactly."""

    def _quantize(self, tensor, axis):
        return tensor.clone()

    def _dequantize(self, tensor):
        return tensor


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}])
def test_steps_follow_the_rows_of_a_quantised_cache(llama, options):
    cache = Cache(layers=[Unrounded(residual_length=4) for _ in range(llama.config.num_hidden_layers)])
    out = written(llama, PROMPTS, past_key_values=cache, **options)
    assert isinstance(out.past_key_values.layers[1], Unrounded)
    assert_as_alone(llama, out, PROMPTS)


def test_a_generate_inside_a_generate_is_on_its_own(llama):
    inner = Meanwhile(lambda ids: written(llama, PROMPTS[1:]).stacked)
    processors = LogitsProcessorList([inner, Script(len(PROMPTS[0]))])
    out = written(llama, PROMPTS[:1], logits_processor=processors)
    assert_as_alone(llama, out, PROMPTS[:1])
    wanted = written(llama, PROMPTS[1:]).stacked
    assert len(inner.results) == NEW
    for got in inner.results:
        close(got, wanted)


def test_four_threads_do_not_mix(llama):
    rows = [*PROMPTS, encode("77-12 is\n?A")]
    wanted = [written(llama, [row]) for row in rows]
    with ThreadPoolExecutor(len(rows)) as threads:
        got = [*threads.map(lambda row: written(llama, [row]), rows * 2)]
    for row, one, other in zip(rows * 2, wanted * 2, got, strict=True):
        close(other.stacked, one.stacked)
        assert_as_alone(llama, other, [row])
