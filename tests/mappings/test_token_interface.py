"""Promises of the token interface: exact numbers, silence without them, writing only where the result goes on.

What both interfaces promise (caches, beams, gradients, ground truth) is in `test_generation.py` and `test_layer.py`.
"""

import pytest
import torch
from checks import adapted, close, generated, igc_layers, layer_output, left_padded, same_bits, scored, steps_of
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import NESTED
from tiny_vocabulary import TABLE, encode

from peft_igc.mappings.places import StepTexts, place_tensors
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import PAD
from peft_igc.text.spelling import Progress, Spelled, Style
from peft_igc.tuner.writing import embed


OPERATIONS = {"+": 0, "-": 1, "*": 2, "/": 3, "none": 4}


# PEFT speaks up where a model is adapted twice.
pytestmark = pytest.mark.filterwarnings(*NESTED)


def pointing(operator=None, minus=None, **fields):
    """A tiny Llama that points; with one operator and one sign, if told which."""
    model = adapted("llama", interface="tokens", **{"num_digits": 12, **fields})
    reader = reader_of(model)
    with torch.no_grad():
        if operator is not None:
            reader.operator_head.bias.copy_(1e4 * (torch.arange(5) == OPERATIONS[operator]))
        if minus is not None:
            reader.sign_head.bias.copy_(1e4 * torch.tensor([1.0 - minus, minus]))
    return model


def reader_of(model):
    return igc_layers(model)[0].igc_input_mapping["default"]


def batch_of(*rows):
    """Texts as a batch, padded on the left."""
    return left_padded([encode(text) for text in rows])


def step_of(model, *rows):
    """What is read at the ends of texts."""
    batch = batch_of(*rows)
    ends = torch.full((len(rows), 1), batch["input_ids"].shape[1] - 1)
    return steps_of(model, batch["input_ids"], ends, attention_mask=batch["attention_mask"])


def results(step):
    """The results as integers, None for no number."""
    rows = zip(step.result.digits.flatten(0, -2).tolist(), step.result.sign.flatten().tolist(), strict=True)
    found = [("".join(str(d) for d in row if d != PAD), sign) for row, sign in rows]
    return [(-1) ** sign * int(text) if text else None for text, sign in found]


def test_equal_operands_are_two_numbers_of_the_text_and_one_number_is_never_both():
    step = step_of(pointing("+", 0), "5 + 5 =", "007 + 0 =", "5 =", "5 + 5% =", "1 =")
    assert results(step) == [10, 7, None, None, None]
    assert [s for (s,) in step.result.status.tolist()] == [Status.OK] * 2 + [Status.NONE] * 3


def test_neither_the_value_nor_the_length_of_a_number_changes_what_is_pointed_at():
    model = pointing()
    with torch.no_grad():
        reader_of(model).compression.weight.zero_()  # hidden states know the values: with embeddings alone
    short, long = (step_of(model, text).reading for text in ("12 + -5 = ", "1,234,567 + -90123 = "))
    places = [reading.digits[0, 0, :, 0] != PAD for reading in (short, long)]
    close(*(reading.scores[:, :, :, place] for reading, place in zip((short, long), places, strict=True)))
    close(short.operator, long.operator)


@pytest.mark.parametrize("more", [".5", "%", "th", "0", ",000", " + 7", "-x", " = 17", ":30"])
def test_a_step_does_not_depend_on_what_follows_its_anchor(more):
    model, prompt = pointing("+", 0), encode("12 + 5")
    text = torch.cat([prompt, encode(more)])[None]
    at = torch.tensor([[len(prompt) - 1]])
    alone, whole = (steps_of(model, ids, at) for ids in (prompt[None], text))
    assert results(alone) == results(whole) == [17]
    width = len(prompt)
    close(whole.reading.scores[:, :, :, -width:].exp(), alone.reading.scores.exp())
    close(whole.reading.operator, alone.reading.operator)
    # and so it is in generation, where what follows is not yet there
    logits = by_pieces(model, text, [width] + [1] * (text.shape[1] - width), at)
    close(logits, scored(model, text, at))


def by_pieces(model, ids, sizes, anchors):
    """Logits of a text [1, L] that arrives in pieces, the anchors in the first one."""
    cache, logits, start = None, [], 0
    for size in sizes:
        more = {} if start else {"igc_anchors": anchors}
        with torch.no_grad():
            out = model(input_ids=ids[:, start : start + size], past_key_values=cache, use_cache=True, **more)
        cache, start = out.past_key_values, start + size
        logits.append(out.logits)
    return torch.cat(logits, 1)


SILENT = {
    "+": [" what is plus =", " what is 12 plus =", *(f"12{more} + 3 =" for more in ("%", "th", ":30", ",34"))],
    "*": ["123456789012 * 123 ="],  # too long a result
    "/": ["0 / 0 =", "7 / 3 ="],
}


@pytest.mark.parametrize("operator", SILENT)
def test_rows_without_an_answer_are_bit_for_bit_the_base_models_beside_rows_with_one(operator):
    model, texts = pointing(operator, 0), ["12 / 12 =", *SILENT[operator], "8 and 8 ="]
    batch, silent = batch_of(*texts), torch.tensor([text in SILENT[operator] for text in texts])
    with torch.no_grad():
        got = model(**batch).logits
        with model.disable_adapter():
            base = model(**batch).logits
    same_bits(got[silent], base[silent])
    assert (got[~silent] - base[~silent]).abs().amax((1, 2)).min() > 0.01
    same_bits(got[:, :-1], base[:, :-1])  # nothing is written before the anchor
    out = generated(model, **batch)
    with model.disable_adapter():
        same_bits(out.stacked[silent], generated(model, **batch).stacked[silent])


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("34 * 12 =408. = 40 -408 4080", set(Spelled) - {Spelled.SIGNED, Spelled.WAITING}),
        ("34 * 12 = ( 408. 17", {Spelled.START, Spelled.WAITING, Spelled.MIDDLE, Spelled.TOLD, Spelled.AGAIN}),
    ],
)
def test_only_positions_that_continue_the_result_are_written(text, states):
    model = pointing("*", 0)
    ids, at = encode(text)[None], len(encode("34 * 12 =")) - 1
    with torch.no_grad():
        got = layer_output(model, ids, igc_anchors=torch.tensor([[at]]))
        with model.disable_adapter():
            base = layer_output(model, ids)
    changed = (got != base).any(-1)
    told = Progress(Style(TABLE), "408", at).after(ids[0, at:].tolist())[1]
    assert changed[0].tolist() == [False] * at + [one is not None for one in told]
    assert {one.state for one in told if one is not None} == states
    same_bits(got[~changed], base[~changed])
    assert None in told


@pytest.mark.parametrize("tied", [False, True])
def test_embeddings_of_another_adapter_are_what_is_written_and_learn_nothing_from_it(tied):
    base = tiny_model("llama", tie_word_embeddings=tied)
    model = get_peft_model(base, small_config(interface="tokens"), adapter_name="math")
    lora = LoraConfig(target_modules=["embed_tokens"], init_lora_weights=False, ensure_weight_tying=tied)
    model = get_peft_model(model, lora, adapter_name="style")
    ids, table = encode("408"), model.get_input_embeddings()
    written = embed(table, ids[None])
    close(written, base.get_input_embeddings()(ids[None]))
    assert (written - tiny_model("llama").get_input_embeddings()(ids[None])).abs().max() > 1e-3
    assert not written.requires_grad
    assert embed(table, torch.tensor([[-1]])).shape == (1, 1, 32)  # nothing to look up: anything finite


def test_embeddings_narrower_than_the_hidden_states_are_written_too():
    model = adapted("opt", interface="tokens", overrides={"word_embed_proj_dim": 16})
    text, at = encode("(12 + 5) =")[None], torch.tensor([[5]])
    assert igc_layers(model)[0].igc_output_mapping["default"].end.shape == (2, 16)
    got = by_pieces(model, text, [text.shape[1]], at)
    with model.disable_adapter():
        assert (got - scored(model, text, None)).abs().max() > 0.01
    batch = batch_of("(12 + 5) =", "? 7 and 1 =")
    cached, uncached = (generated(model, **batch, use_cache=use).stacked for use in (True, False))
    close(cached, uncached)


def test_the_reading_knows_which_number_is_greater_or_a_multiple_and_nothing_else_of_them():
    reader = reader_of(pointing(compares_numbers=True))
    torch.nn.init.normal_(reader.comparisons)

    def operator(text, reads=reader):
        ids = [int(one) for one in encode(text)]
        texts = StepTexts.of_lists(TABLE, [ids], [len(ids) - 1], [0])
        (places,) = place_tensors(texts, 13, steps=[0], with_columns=False, device="cpu")
        with torch.no_grad():
            return reads._point(torch.ones(1, len(ids), reads.number.shape[0]), places).operator

    assert torch.equal(operator("7 and 3"), operator("9 and 5"))
    for other in ("3 and 7", "6 and 3", "3 and 3"):
        assert not torch.equal(operator("7 and 3"), operator(other)), other
    plain = reader_of(pointing())
    assert plain.comparisons is None
    assert torch.equal(operator("7 and 3", plain), operator("3 and 6", plain))
