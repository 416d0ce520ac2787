"""Promises of the paper's ablations: the shortcut past the calculator, right-aligned numbers, inputs at fixed places.

The default is none of them, and is the adapter that it was before there were any.
"""

import hashlib
import random

import pytest
import torch
from checks import (
    TOLERANCE,
    adapted,
    assert_as_scored,
    generated,
    igc_layers,
    left_padded,
    positions_of,
    record_of,
    scored,
    steps_of,
    targets,
    telling_texts,
    texts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import PeftModel, get_peft_model
from tiny_models import HIDDEN, small_config, tiny_model
from tiny_training import WARNINGS, igc_model, rows, trainer
from transformers import DynamicCache

from peft_igc import IGCConfig
from peft_igc.calculator import Status
from peft_igc.columns import label
from peft_igc.digits import NUM_CLASSES, PAD, decode, encode, read_right_aligned, to_right_aligned
from peft_igc.input_mapping import HiddenInputMapping
from peft_igc.mappings import SHORTCUT_PLACES, make_mappings
from peft_igc.output_mapping import HiddenOutputMapping
from peft_igc.passes import read_alone
from peft_igc.reading import Reading, RightAlignedReading, Targets, reading_loss
from peft_igc.steps import calculate_step


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]

VARIANTS = [
    {"shortcut": "beside"},
    {"shortcut": "only"},
    {"alignment": "right"},
    {"fixed_inputs": 5},
    {"shortcut": "beside", "alignment": "right", "fixed_inputs": 5},
]
variants = pytest.mark.parametrize("fields", VARIANTS, ids=lambda f: "-".join(map(str, f.values())))
shortcuts = pytest.mark.parametrize("shortcut", ["beside", "only"])
properties = settings(max_examples=300, derandomize=True, deadline=None)


def close(a, b):
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


def mappings_of(model):
    layer = igc_layers(model)[0]
    return layer.igc_input_mapping["default"], layer.igc_output_mapping["default"]


def gradients(model, part=""):
    """Of the adapter's parameters whose names contain `part`; None counts as zero."""
    found = {name: p.grad for name, p in model.named_parameters() if ".igc_" in name and part in name}
    return {name: bool(grad is not None and grad.any()) for name, grad in found.items()}


# ------------------------------------------------------------------------------------------ the default
# Of the weights before there were variants: their names, and a sum in which each one and its place counts.
BEFORE = {
    "hidden": ("c6e88d4e222d6b8b", -12296.9646, 121.3103),
    "tokens": ("980d8ec66eefe24a", -14222.1625, 1885.6306),
}


@pytest.mark.parametrize("interface", ["hidden", "tokens"])
def test_the_default_has_the_weights_that_it_had_before_there_were_variants(interface):
    base = tiny_model("llama")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = get_peft_model(base, small_config(interface=interface))
    found = [(name, p) for name, p in model.named_parameters() if ".igc_" in name]
    names = hashlib.sha256("\n".join(name for name, _ in found).encode()).hexdigest()[:16]
    sums = [
        sum(i * float(p.detach().double().sum()) for i, (name, p) in enumerate(found, 1) if part in name)
        for part in ("input_mapping", "output_mapping")
    ]
    assert names == BEFORE[interface][0]
    assert sums == pytest.approx(BEFORE[interface][1:], abs=1e-2)


# ------------------------------------------------------------------------------------------ every variant
@variants
def test_a_saved_variant_comes_back_with_the_same_logits(fields, tmp_path):
    model, ids = adapted(**fields), texts(2, 9)
    model.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(tiny_model("llama"), tmp_path).eval()
    for name, value in fields.items():
        assert getattr(again.peft_config["default"], name) == value
    assert torch.equal(scored(again, ids, None), scored(model, ids, None))


@variants
def test_padding_left_or_right_and_other_rows_change_nothing(fields):
    model = adapted(**fields)
    row = texts(1, 8)[0]
    want = scored(model, row[None], torch.tensor([[6]]))
    ids, mask = left_padded([row], extra=3).values()
    got = scored(model, ids, torch.tensor([[9]]), attention_mask=mask, position_ids=positions_of(mask))
    close(got[:, 3:], want)
    right = torch.nn.functional.pad(row[None], (0, 3))
    both = torch.cat([right, texts(1, 11, seed=4)])
    mask = torch.ones_like(both)
    mask[0, 8:] = 0
    close(scored(model, both, torch.tensor([[6], [9]]), attention_mask=mask)[:1, :8], want)


@variants
def test_every_parameter_gets_a_gradient_whatever_the_anchors(fields):
    for anchors in (None, [[8], [-1]], [[-1], [-1]], [[3, 7], [5, -1]]):
        model = adapted(**fields).train()
        more = {} if anchors is None else {"igc_anchors": torch.tensor(anchors)}
        model(input_ids=texts(2, 9), **more)[0].sum().backward()
        assert [n for n, p in model.named_parameters() if ".igc_" in n and p.grad is None] == []


@variants
def test_two_steps_train_what_should_learn_and_nothing_else(fields, tmp_path):
    made = trainer(tmp_path, rows(8), igc_model(**fields), max_steps=2, weight_decay=0.0)
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    made.train()
    assert all(torch.isfinite(torch.tensor(log["loss"])) for log in made.state.log_history if "loss" in log)
    moved = {name for name, p in made.model.named_parameters() if not torch.equal(p, before[name])}
    assert all(".igc_" in name for name in moved)
    # without an update there is nothing to learn in the writing's first step but its last layer; then all of it
    still = {name.split("_mapping.default.")[1] for name in before if ".igc_" in name and name not in moved}
    heads = {f"{n}_head.{p}" for n in ("digit", "sign", "operator") for p in ("weight", "bias")} | {"digit_bias"}
    assert still == (heads if fields.get("shortcut") == "only" else set())
    read = [log for log in made.state.log_history if "igc/loss_read" in log]
    assert bool(read) == (fields.get("shortcut") != "only")


# ------------------------------------------------------------------------------------------ shortcut
@shortcuts
def test_a_cached_text_with_a_shortcut_equals_starting_over(shortcut):
    model = adapted(shortcut=shortcut)
    found = telling_texts(model, [7, 5]) if shortcut == "beside" else [texts(1, 7)[0], texts(1, 5, seed=1)[0]]
    out = generated(model, **left_padded(found))
    assert_as_scored(model, out, found, [[6], [4]])
    record = record_of(out.past_key_values)
    assert record.shortcut.shape == (2, 1, SHORTCUT_PLACES, 32)
    assert not record.shortcut.requires_grad


@shortcuts
def test_each_anchor_has_a_shortcut_of_its_own_that_a_crop_brings_back(shortcut):
    model, ids = adapted(shortcut=shortcut), texts(2, 12)
    both, first = torch.tensor([[3, 8], [4, 9]]), torch.tensor([[3], [4]])
    whole = scored(model, ids, both)
    assert (whole - scored(model, ids, first)).abs()[:, 9:].amax((1, 2)).min() > 0.01
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        parts = [model(input_ids=ids[:, :6], past_key_values=cache, igc_anchors=first).logits]
        parts.append(model(input_ids=ids[:, 6:10], past_key_values=cache, igc_anchors=both[:, 1:] - 6).logits)
        parts.append(model(input_ids=ids[:, 10:], past_key_values=cache).logits)
        close(torch.cat(parts, 1), whole)
        cache.crop(-5)  # behind the second anchors
        again = model(input_ids=ids[:, 7:], past_key_values=cache).logits
    close(again, scored(model, ids, first)[:, 7:])


@shortcuts
def test_each_position_is_given_the_shortcut_of_the_latest_anchor_alone(shortcut):
    model, ids, seen = adapted(shortcut=shortcut), texts(2, 12), []
    with torch.no_grad():
        mappings_of(model)[1].shortcut.weight.mul_(20)  # so that another step's would show
    layer = igc_layers(model)[0].get_base_layer()
    layer.register_forward_hook(lambda module, args, output: seen.append(output))
    for anchors in ([[3, 8], [9, 4]], [[3], [4]], [[8], [9]]):
        scored(model, ids, torch.tensor(anchors))
    both, early, late = seen
    for row, second in ((0, 8), (1, 9)):
        close(both[row, :second], early[row, :second])
        close(both[row, second:], late[row, second:])
        assert (early - late).abs()[row, second:].max() > 0.01


@shortcuts
def test_with_a_shortcut_text_behind_an_anchor_is_written_whatever_the_status(shortcut):
    model, ids = adapted(shortcut=shortcut), texts(2, 9)
    reader, _ = mappings_of(model)
    with torch.no_grad():
        reader.operator_head.bias[-1] += 1e4
    assert steps_of(model, ids, torch.tensor([[5], [-1]])).result.status.tolist() == [[Status.NONE]] * 2
    with model.disable_adapter():
        base = scored(model, ids, None)
    got = scored(model, ids, torch.tensor([[5], [-1]]))
    assert torch.equal(got[0, :5], base[0, :5])
    assert (got - base)[0, 5:].abs().amax(-1).min() > 0.01
    assert torch.equal(got[1], base[1])  # no anchor, nothing written


@shortcuts
def test_what_is_written_with_a_shortcut_depends_on_what_it_carries(shortcut):
    model, ids = adapted(shortcut=shortcut), texts(1, 9)
    reader, _ = mappings_of(model)
    want, step = scored(model, ids, None), steps_of(model, ids, torch.tensor([[8]]))
    with torch.no_grad():
        reader.slots[-SHORTCUT_PLACES:] *= -1
    same = steps_of(model, ids, torch.tensor([[8]]))
    close(same.reading.digits, step.reading.digits)  # the digits that are read have nothing to do with it
    assert (scored(model, ids, None) - want).abs()[:, -1].max() > 0.01


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("shortcut", [None, "beside", "only"])
def test_the_language_loss_reaches_the_reading_through_the_shortcut_alone(shortcut, detach):
    model, ids = adapted(shortcut=shortcut, detach_reading=detach).train(), texts(2, 9)
    labels = ids.clone()
    labels[:, :6] = -100
    out = model(input_ids=ids, labels=labels, igc_add_loss=False, **targets(("+", "12", "34"), ("-", "7", "8")))
    out.loss.backward()
    reached = gradients(model, "igc_input_mapping")
    heads = {name for name in reached if "_head" in name or "digit_bias" in name}
    assert not any(reached[name] for name in heads)
    others = {name for name in reached if name not in heads and "key_map.bias" not in name}
    assert {reached[name] for name in others} == {shortcut is not None}
    assert all(used for name, used in gradients(model, "igc_output_mapping").items() if "key_map.bias" not in name)


def test_a_shortcuts_gradient_stops_at_the_adapter_unless_told_otherwise():
    for detach in (True, False):
        model = adapted(shortcut="only", detach_reading=detach)
        layer, before, behind = igc_layers(model)[0].get_base_layer(), [], []

        def cut(module, args, output, before=before):
            before.append(output.detach().requires_grad_())
            return before[0]

        layer.register_forward_hook(cut, prepend=True)  # runs before the calculator's
        layer.register_forward_hook(lambda module, args, output, behind=behind: behind.append(output))
        model(input_ids=texts(1, 9))
        behind[0][:, -1].sum().backward()  # the anchor's state: no other token has a part in it but as it is read
        assert before[0].grad[:, -1].any()
        assert before[0].grad[:, :-1].any() == (not detach)


def test_only_a_shortcut_never_calculates_and_has_no_reading_loss():
    model, ids = adapted(shortcut="only"), texts(3, 9)
    given = targets(("+", "12", "34"), "none", None)
    step = steps_of(model, ids, torch.tensor([[8], [5], [-1]]))
    assert (step.result.status == Status.NONE).all()
    assert (step.result.digits == PAD).all()
    assert not step.result.sign.any()
    for training in (False, True):
        model.train(training)
        model.zero_grad()
        with_targets = model(input_ids=ids, **given)
        assert (with_targets.igc_loss, with_targets.igc_count, with_targets.igc_correct) == (0, 0, 0)
        assert torch.equal(with_targets.logits, model(input_ids=ids).logits)  # no right result is handed over either
        with_targets.igc_loss.backward()
        assert not any(gradients(model).values())
        assert mappings_of(model)[0].operator_head.weight.grad is not None


def test_only_a_shortcut_writes_the_same_whatever_the_classifiers_read():
    model, ids = adapted(shortcut="only"), texts(2, 9)
    want = scored(model, ids, None)
    reader, _ = mappings_of(model)
    with torch.no_grad():
        for head in (reader.digit_head, reader.sign_head, reader.operator_head):
            head.weight.mul_(-1)
    assert torch.equal(scored(model, ids, None), want)


def test_beside_a_shortcut_the_reading_is_supervised_and_forced_as_ever():
    model, ids = adapted(shortcut="beside"), texts(1, 9)
    given = targets(("+", "12", "34"))
    out = model(input_ids=ids, **given)
    assert out.igc_count == 1
    assert out.igc_loss > 0
    free = scored(model, ids, None)
    assert torch.equal(out.logits, free)
    forced = model.train()(input_ids=ids, **given).logits
    assert (forced - free)[0, -1].abs().max() > 1e-3


def test_the_reading_alone_is_not_trained_where_it_learns_from_the_shortcut_only(tmp_path):
    made = trainer(tmp_path, rows(8), igc_model(shortcut="only"), igc_writing_every=2)
    batch = next(iter(made.get_train_dataloader()))
    with pytest.raises(ValueError, match="`igc_writing_every` above 1 trains the reading alone.*Set it to 1"):
        read_alone(made.model.train(), batch)


# ------------------------------------------------------------------------------------------ alignment
D = 5


def one_hot(classes, count):
    return 10 * torch.nn.functional.one_hot(classes, count).float()


def read_as(*numbers, operator=0, num_operations=4):
    """A right-aligned reading, of one step, of two lists of D + 1 digit classes."""
    digits, signs = torch.tensor([[numbers]]), torch.zeros(1, 1, 2, dtype=torch.int64)
    classes = torch.tensor([[operator]])
    return RightAlignedReading(one_hot(digits, NUM_CLASSES), one_hot(signs, 2), one_hot(classes, num_operations + 1))


@properties
@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, 10**n - 1), st.just(n), st.integers(0, 3))))
def test_numbers_of_every_length_come_back_from_the_right_exactly(drawn):
    number, width, more = drawn
    left, signs = encode([str(number)], width + more)
    right = to_right_aligned(left)
    assert int("".join(map(str, right[0].tolist()))) == number
    assert torch.equal(read_right_aligned(right), left)
    assert decode(read_right_aligned(right), signs) == [str(number)]


@properties
@given(st.lists(st.integers(0, 9) | st.sampled_from([0, PAD, PAD]), min_size=1, max_size=7))
def test_a_placeholder_is_a_zero_in_front_of_all_digits_and_no_number_anywhere_else(classes):
    start = next((i for i, c in enumerate(classes) if c != PAD), len(classes))
    got = read_right_aligned(torch.tensor([classes]))
    if PAD in classes[start:] or start == len(classes):
        assert got.tolist() == [[PAD] * len(classes)]
    else:
        number = int("".join(map(str, classes[start:])))
        assert decode(got, torch.tensor([0])) == [str(number)]


places = st.lists(st.integers(0, 9) | st.just(PAD), min_size=D + 1, max_size=D + 1)


@properties
@given(places, places, st.integers(0, 3))
def test_whatever_is_read_from_the_right_the_result_is_that_of_python(a, b, operator):
    symbol = "+-*/"[operator]
    config = IGCConfig(num_digits=D, result_digits=2 * D, alignment="right")
    choice = read_as(a, b, operator=operator).choose()
    result = calculate_step(config, choice, torch.zeros(1, 1, dtype=torch.int64))
    numbers = []
    for classes in (a, b):
        text = "".join("p" if c == PAD else str(c) for c in classes).lstrip("p")
        numbers.append(None if not text or "p" in text else str(int(text)))
    if None in numbers:
        expected = Status.OVERFLOW if any(n and len(n) > D for n in numbers) else Status.UNDEFINED
    else:
        expected = label(symbol, *numbers, D, 2 * D)
    if isinstance(expected, Status):
        assert result.status.item() == expected
        assert (result.digits == PAD).all()
    else:
        assert result.status.item() == Status.OK
        assert decode(result.digits, result.sign) == [expected]


@pytest.mark.parametrize(
    ("number", "status"),
    [
        ([0, 9, 9, 9, 9, 9], Status.OK),
        ([PAD, 9, 9, 9, 9, 9], Status.OK),
        ([1, 0, 0, 0, 0, 0], Status.OVERFLOW),
        ([0, PAD, 1, 2, 3, 4], Status.UNDEFINED),
        ([0, 0, 0, 0, 7, PAD], Status.UNDEFINED),
        ([PAD] * 6, Status.UNDEFINED),
    ],
)
def test_a_digit_beyond_the_longest_operand_is_an_overflow_and_a_gap_no_number(number, status):
    config = IGCConfig(num_digits=D, result_digits=2 * D, alignment="right")
    choice = read_as(number, [0, 0, 0, 0, 0, 1]).choose()
    assert calculate_step(config, choice, torch.zeros(1, 1, dtype=torch.int64)).status.item() == status


def test_the_loss_of_right_aligned_places_is_that_of_zeros_in_front():
    torch.manual_seed(0)
    logits = torch.randn(1, 1, 2, D + 1, NUM_CLASSES), torch.randn(1, 1, 2, 2), torch.randn(1, 1, 5)
    operands, signs = encode(["12", "-345678"], D + 1)
    nothing = torch.zeros(1, 1, dtype=torch.int64)
    given = Targets(operands[None, None], signs[None, None], nothing, nothing[..., None], nothing, nothing)
    right = given._replace(operands=torch.tensor([[[[0, 0, 0, 0, 1, 2], [3, 4, 5, 6, 7, 8]]]]))
    loss = reading_loss(RightAlignedReading(*logits), given, nothing)[0]
    assert torch.equal(loss, reading_loss(Reading(*logits), right, nothing)[0])
    assert not torch.equal(loss, reading_loss(Reading(*logits), given, nothing)[0])


@pytest.mark.parametrize("padding", [0, PAD])
def test_a_right_aligned_reading_of_the_right_digits_counts_as_right(padding):
    operands, signs = encode(["12", "0"], D + 1)
    nothing = torch.zeros(1, 1, dtype=torch.int64)
    given = Targets(operands[None, None], signs[None, None], nothing, nothing[..., None], nothing, nothing)
    reading = read_as([padding] * 4 + [1, 2], [padding] * 5 + [0])
    assert reading_loss(reading, given, nothing)[2].item()
    assert not reading_loss(Reading(*reading), given, nothing)[2].item()


def writer(**more):
    torch.manual_seed(0)
    sizes = {"dim": 16, "num_heads": 4, "ffn": 32, "gate_dim": 8, "max_offset": 4, **more}
    return HiddenOutputMapping(HIDDEN, 5, **sizes)


def write(mapping, digits, *more):
    h = torch.randn(1, 3, HIDDEN, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(1, 3, dtype=torch.int64)
    with torch.no_grad():
        return mapping(h, torch.tensor([[digits]]), torch.zeros(1, 1, dtype=torch.int64), nothing, nothing, *more)[0]


def test_results_are_written_from_the_right_and_an_absent_one_is_no_zero():
    left, right = writer(), writer(right_aligned=True)
    close(write(right, [4, 2, PAD, PAD, PAD]), write(left, [0, 0, 0, 4, 2]))
    close(write(right, [0, PAD, PAD, PAD, PAD]), write(left, [0] * 5))
    close(write(right, [PAD] * 5), write(left, [PAD] * 5))
    assert (write(right, [PAD] * 5) - write(right, [0, PAD, PAD, PAD, PAD])).abs().max() > 1e-4


def test_a_whole_model_reads_and_writes_from_the_right():
    model = adapted(alignment="right")
    found = telling_texts(model, [7, 5])
    assert_as_scored(model, generated(model, **left_padded(found)), found, [[6], [4]])
    step = steps_of(model, found[0][None], torch.tensor([[6]]))
    places = step.reading.digits.argmax(-1)[0, 0]  # [2, D + 1]
    assert (places[:, -2:] < PAD).all()
    for operand in (0, 1):
        assert torch.equal(step.choice.digits[0, 0, operand], read_right_aligned(places[operand][None])[0])
    assert mappings_of(model)[1].right_aligned


# ------------------------------------------------------------------------------------------ fixed inputs
H, N = 24, 3


def fixed_reader(**more):
    torch.manual_seed(0)
    return HiddenInputMapping(
        H, 4, 4, dim=16, num_layers=1, num_heads=4, ffn=32, max_distance=8, fixed_inputs=N, **more
    )


def read(mapping, h, anchors, valid=None, since=None):
    valid = torch.ones(h.shape[:2], dtype=torch.bool) if valid is None else valid
    since = None if since is None else torch.tensor(since)
    with torch.no_grad():
        return mapping(mapping.compress(h), valid, torch.tensor(anchors), since=since)


def assert_same_reading(a, b):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=0)


def test_fixed_inputs_ignore_everything_but_the_last_tokens_up_to_the_anchor():
    mapping, h = fixed_reader(), torch.randn(1, 8, H)
    want = read(mapping, h, [[5]])
    for place in range(8):
        other = h.clone()
        other[:, place] += 1
        got = read(mapping, other, [[5]])
        if place in (3, 4, 5):
            assert (got.digits - want.digits).abs().max() > 1e-4, place
        else:
            assert_same_reading(got, want)


def test_fixed_inputs_have_places_and_zeros_where_there_is_no_token():
    mapping, h = fixed_reader(), torch.randn(1, 6, H)
    turned = h.clone()
    turned[:, [3, 4]] = h[:, [4, 3]]
    assert (read(mapping, turned, [[5]]).digits - read(mapping, h, [[5]]).digits).abs().max() > 1e-4
    # a text of two tokens, a context that begins with them, and zeros in the place of what was before
    short = read(mapping, h[:, 4:], [[1]])
    assert_same_reading(read(mapping, h, [[5]], since=[[4]]), short)
    kept = mapping.compress(h)
    kept[:, 3] = 0
    with torch.no_grad():
        assert_same_reading(mapping(kept, torch.ones(1, 6, dtype=torch.bool), torch.tensor([[5]])), short)


def test_fixed_inputs_skip_padding_and_read_each_anchor_apart():
    mapping, h = fixed_reader(), torch.randn(1, 5, H)
    tokens = [2, 4, 5, 7, 8]
    padded, valid = torch.randn(1, 10, H), torch.zeros(1, 10, dtype=torch.bool)
    padded[:, tokens], valid[:, tokens] = h, True
    both = read(mapping, padded, [[8, 5, -1]], valid)
    assert_same_reading([t[:, :2] for t in both], read(mapping, h, [[4, 2]]))
    assert all(t.isfinite().all() for t in both)
    for a, at in ((0, 4), (1, 2)):
        assert_same_reading([t[:, a : a + 1] for t in both], read(mapping, h, [[at]]))


def test_fixed_inputs_have_neither_encoder_nor_attention():
    names = {name.split(".")[0] for name, _ in fixed_reader().named_parameters()}
    assert names == {"norm", "compression", "fixed", "slot_norm", "digit_head", "digit_bias", "sign_head"} | {
        "operator_head"
    }


def test_fixed_inputs_of_a_cached_text_are_those_of_the_whole_text():
    model = adapted(fixed_inputs=5)
    found = telling_texts(model, [7, 4])
    assert_as_scored(model, generated(model, **left_padded(found)), found, [[6], [3]])


def test_fixed_inputs_have_a_default_adapters_size_on_llama_3_1_8b():
    with torch.device("meta"):
        parts = make_mappings(IGCConfig(fixed_inputs=32), 4096, torch.nn.Embedding(8, 4096))
    assert sum(p.numel() for part in parts for p in part.parameters()) == pytest.approx(18e6, rel=0.05)


def test_a_right_aligned_reading_learns_the_numbers_of_its_rows():
    torch.manual_seed(0)
    mapping = HiddenInputMapping(
        H, 4, 4, dim=16, num_layers=1, num_heads=4, ffn=32, max_distance=8, right_aligned=True
    )
    h, valid = torch.randn(4, 6, H), torch.ones(4, 6, dtype=torch.bool)
    anchors = torch.full((4, 1), 5)
    source = random.Random(0)
    operands, signs = encode([str(source.randrange(10**4)) for _ in range(8)], 5)
    nothing = torch.zeros(4, 1, dtype=torch.int64)
    given = Targets(operands.view(4, 1, 2, 5), signs.view(4, 1, 2), nothing, nothing[..., None], nothing, nothing)
    optimizer = torch.optim.Adam(mapping.parameters(), lr=1e-2)
    for _ in range(60):
        loss, _, correct = reading_loss(mapping(mapping.compress(h), valid, anchors), given, anchors)
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
    assert correct.all()
