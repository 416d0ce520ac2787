"""Promises of generating many solutions at once: 64 texts with `=` at different places equal one by one.

Each row follows a worked solution up to an `=`, and chooses by itself what it writes there; sampled rows and beams
choose differently. The yardstick is one uncached pass over each final text alone, without padding: logits within 2e-3
in float32 (those of the embedded base are large), steps exactly equal. `tests/tuner/test_inline_generation.py` has the
same for few rows of random models. Try it: `pytest tests/tuner/test_many_solutions.py`
"""

import re

import pytest
import torch
from checks import generated, igc_layers, left_padded, watching
from peft import get_peft_model
from tiny_models import RandomConfig
from transformers import LogitsProcessor, LogitsProcessorList

from peft_igc import tiny_base
from peft_igc.data.worked_solutions import WorkedSolutions
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from peft_igc.tuner.steps import Step


ROWS = 64
FEW = 12  # prompts where there are several texts of each
FREE = -1
MODES = {
    "greedy": {},
    "samples": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 2, "num_return_sequences": 2},
}


class Follow(LogitsProcessor):
    """Makes each row follow a text of its own where that is not `FREE`; copies of a row, beams too, follow the same.

    Args:
        width: of the padded prompts.
        texts: [rows, new] token ids or `FREE`.
    """

    def __init__(self, width, texts):
        self.width, self.texts = width, texts

    def __call__(self, input_ids, scores):
        step = input_ids.shape[1] - self.width
        chosen = self.texts[:, step].repeat_interleave(len(input_ids) // len(self.texts))
        forced = torch.full_like(scores, -1e4).scatter(1, chosen.clamp(min=0)[:, None], 0.0)
        return scores + torch.where(chosen[:, None] == FREE, 0.0, forced)


def written(model, prompts, texts, **options):
    """`generate` of all rows at once, left-padded; `texts` are lists of ids or `FREE`, cut to the shortest."""
    new = min(map(len, texts))
    batch = left_padded(prompts)
    follow = Follow(batch["input_ids"].shape[1], torch.tensor([text[:new] for text in texts]))
    torch.manual_seed(0)
    return generated(model, new=new, logits_processor=LogitsProcessorList([follow]), **batch, **options)


def steps_of(seen):
    """The steps of one text alone."""
    step = next((one for one in seen if isinstance(one, Step)), None)
    return [] if step is None else of_row(step, 0)


def of_row(step, index, padding=0):
    """Position, digits, sign, status and scale of each step of a row."""
    rows = zip(step.anchors[index].tolist(), *(x[index].tolist() for x in step.result), strict=True)
    return [(at - padding, [d for d in ds if d != PAD], *more) for at, ds, *more in rows if at >= 0]


def steps_in_generation(seen, width, prompts, repeats):
    """The same of each generated text, positions counted without padding."""
    found = [[] for _ in range(len(prompts) * repeats)]
    for step in (one for one in seen if isinstance(one, Step)):
        copies = len(step.anchors) // len(prompts)
        for row in range(len(found)):
            index = row if copies == repeats else row // repeats * copies  # the prompts' own, before they are copied
            found[row] += of_row(step, index, width - len(prompts[row // repeats]))
    return [sorted(one) for one in found]


def assert_one_by_one(model, prompts, texts, **options):
    """Each text has the logits and the steps of a pass over it alone. Returns the ok steps and their places."""
    with watching() as seen:
        out = written(model, prompts, texts, **options)
    repeats, new = len(out.sequences) // len(prompts), len(out.logits)
    beams = getattr(out, "beam_indices", None)
    at_once = steps_in_generation(seen, out.sequences.shape[1] - new, prompts, repeats)
    ok, places = 0, set()
    for i, sequence in enumerate(out.sequences):
        prompt = prompts[i // repeats]
        text = torch.cat([prompt, sequence[-new:]])[:-1]
        with watching() as seen, torch.no_grad():
            logits = model(input_ids=text[None], use_cache=False).logits[0]
        steps = steps_of(seen)
        got = out.stacked[i] if beams is None else out.stacked[beams[i, :new], torch.arange(new)]
        torch.testing.assert_close(got, logits[len(prompt) - 1 :], atol=2e-3, rtol=0)
        if beams is None:  # steps of beams that were given up are among those seen
            assert at_once[i] == steps
        good = [at for at, _, _, status, _ in steps if status == int(Status.OK) and at >= len(prompt)]
        ok, places = ok + len(good), places | {at - len(prompt) for at in good}
    return ok, places


@pytest.fixture(scope="module")
def embedded():
    """The embedded base with a calculator that visibly writes; the rules read, and all counts as asked."""
    torch.manual_seed(0)
    base, tokenizer = tiny_base()
    sizes = {"reading_dim": 64, "reading_ffn": 64, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16}
    config = RandomConfig.from_tokenizer(tokenizer, anchors=["="], **sizes)
    model = get_peft_model(base, config).eval()
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[0] += 100.0
    return model, tokenizer


def solutions(tokenizer, new):
    """Questions, and their solutions with freedom where the results are; long enough all of them."""
    prompts, texts = [], []
    for row in WorkedSolutions(seed=11):
        text = []
        for part in re.split(r"(?<==)(\d+|\s*<<.*?>>\s*\d+)", row["answer"]):
            result = re.fullmatch(r"\s*(?:<<.*?>>)?\s*(\d+)", part)
            said = result[1] if result else re.sub("<<.*?>>", "", part)
            ids = tokenizer(said, add_special_tokens=False)["input_ids"]
            text += [FREE] * len(ids) if result else ids
        if len(text) >= new:
            chat = [{"role": "user", "content": row["question"]}]
            asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
            prompts.append(torch.tensor(tokenizer(asked, add_special_tokens=False)["input_ids"]))
            texts.append(text)
        if len(prompts) == ROWS:
            return prompts, texts
    raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_64_worked_solutions_at_once_equal_one_by_one(embedded, mode):
    model, tokenizer = embedded
    prompts, texts = solutions(tokenizer, new=40)
    if mode != "greedy":
        prompts, texts = prompts[:FEW], texts[:FEW]
    assert len(set(map(len, prompts))) > FEW // 2
    ok, places = assert_one_by_one(model, prompts, texts, **MODES[mode])
    assert ok >= len(prompts)
    assert len(places) > FEW // 2
