"""Promises of reading and writing: what they see, what they cannot see, how large they are, and the loss by hand."""

import math
import re
from pathlib import Path

import pytest
import torch

from peft_igc import IGCConfig
from peft_igc.mappings.attention import Attention, Block
from peft_igc.mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from peft_igc.mappings.readings import Reading, Targets, reading_loss
from peft_igc.mappings.token_interface import TokenOutputMapping
from peft_igc.numbers.digits import PAD
from peft_igc.text.spelling import ENDS, Spelled
from peft_igc.tuner.config_values import MAX_DISTANCE, MAX_OFFSET


H, D, K, R = 24, 4, 4, 5


def reader(**more):
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 4, "ffn": 32, "max_distance": 8, **more}
    return HiddenInputMapping(H, D, K, **sizes)


def writer():
    return HiddenOutputMapping(H, R, dim=16, num_heads=4, ffn=32, gate_dim=8, max_offset=4)


def read(mapping, h, valid=None, anchors=((-1,),), since=None):
    valid = torch.ones(h.shape[:2], dtype=torch.bool) if valid is None else valid
    with torch.no_grad():
        since = None if since is None else torch.tensor(since)
        return mapping(mapping.compress(h), valid, torch.tensor(anchors), since=since)


def close(a, b):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=0)


def test_every_equation_of_the_documentation_is_tagged_in_the_code_and_no_other():
    root = Path(__file__).parents[2]
    documented = re.findall(r"^\((\d+)\)", (root / "docs" / "how_it_works.md").read_text(encoding="utf-8"), re.M)
    assert documented == [str(n) for n in range(1, 16)]
    sources = [*(root / "peft_igc" / "mappings").glob("*.py"), root / "peft_igc" / "numbers" / "calculator.py"]
    tags = {n for path in sources for n in re.findall(r"# .*Eq\. (\d+)$", path.read_text(encoding="utf-8"), re.M)}
    assert tags == set(documented) - {"15"}  # which the layer computes


# ------------------------------------------------------------------------------------------ attention
@torch.no_grad()
def test_attention_is_the_weighted_mean_of_what_is_visible():
    attention = Attention(8, 2)
    query, memory = torch.randn(1, 1, 8), torch.randn(1, 5, 8)
    visible = torch.tensor([[[True, False, True, True, False]]])
    q, k, v = attention.query_map(query)[0, 0], attention.key_map(memory)[0], attention.value_map(memory)[0]
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        scores = [math.exp(float(q[head] @ k[i, head]) / 2) if visible[0, 0, i] else 0.0 for i in range(5)]
        heads.append(sum(s / sum(scores) * v[i, head] for i, s in enumerate(scores)))
    torch.testing.assert_close(attention(query, memory, visible)[0, 0], attention.output_map(torch.cat(heads)))


def test_a_block_without_a_memory_attends_to_itself():
    block, x = Block(8, 2, 16), torch.randn(2, 3, 8)
    torch.testing.assert_close(block(x), block(x, block.attention_norm(x)))


# ------------------------------------------------------------------------------------------ reading
def test_reading_gives_a_distribution_for_every_slot():
    got = read(reader(), torch.randn(2, 7, H), anchors=((6, 3, -1), (2, -1, 0)))
    assert [t.shape for t in got] == [(2, 3, 2, D + 1, 11), (2, 3, 2, 2), (2, 3, K + 1)]
    assert all(t.dtype is torch.float32 and t.isfinite().all() for t in got)


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_reading_sees_the_text_up_to_the_anchor_and_nothing_behind_it(layers):
    mapping, h = reader(num_layers=layers), torch.randn(1, 7, H)
    behind, before = h.clone(), h.clone()
    behind[:, 5:] += 1
    before[:, 1] += 1
    want = read(mapping, h, anchors=((4,),))
    close(read(mapping, behind, anchors=((4,),)), want)
    assert all((x - y).abs().max() > 1e-4 for x, y in zip(read(mapping, before, anchors=((4,),)), want, strict=True))


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_each_anchor_is_read_from_its_own_first_token_on(layers):
    mapping, h = reader(num_layers=layers), torch.randn(1, 9, H)
    both = read(mapping, h, anchors=((8, 5),), since=((3, 0),))
    for a, (start, at) in enumerate(((3, 8), (0, 5))):
        alone = read(mapping, h[:, start:], anchors=((at - start,),))
        close([t[0, a] for t in both], [t[0, 0] for t in alone])
    close(read(mapping, h, anchors=((8, 5),), since=((0, 0),)), read(mapping, h, anchors=((8, 5),)))


def test_a_context_that_begins_behind_its_anchor_is_the_anchor_alone():
    mapping, h = reader(), torch.randn(1, 6, H)
    close(read(mapping, h, anchors=((2,),), since=((4,),)), read(mapping, h[:, 2:], anchors=((0,),)))
    got = read(mapping, h, anchors=((-1,),), since=((4,),))
    assert all(t.isfinite().all() for t in got)


def test_padding_anywhere_changes_no_reading():
    mapping, h = reader(), torch.randn(1, 5, H)
    places = [2, 4, 5, 7, 8]  # padding on the left, within, and on the right
    padded, valid = torch.randn(1, 10, H), torch.zeros(1, 10, dtype=torch.bool)
    padded[:, places], valid[:, places] = h, True
    close(read(mapping, padded, valid, ((8, 5),)), read(mapping, h, anchors=((4, 2),)))


def test_rows_and_anchors_are_read_apart_from_each_other():
    mapping, h = reader(), torch.randn(2, 6, H)
    both = read(mapping, h, anchors=((5, 2), (3, -1)))
    for row, a, at in ((0, 0, 5), (0, 1, 2), (1, 0, 3)):
        alone = read(mapping, h[row : row + 1], anchors=((at,),))
        close([t[row, a] for t in both], [t[0, 0] for t in alone])


def test_rows_without_an_anchor_cost_no_attention_and_change_nothing(monkeypatch):
    """Of 16 rows that generate, one may be at an anchor: the 15 others were read at full length."""
    mapping, h = reader(), torch.randn(16, 200, H)
    anchors = tuple((199,) if row == 5 else (-1,) for row in range(16))
    tokens, attend = [], mapping._attend

    def counted(*arguments):
        tokens.append(len(arguments[3]) * arguments[-1])  # steps, and the longest context
        return attend(*arguments)

    monkeypatch.setattr(mapping, "_attend", counted)
    with torch.no_grad():
        together = read(mapping, h, anchors=anchors)
        assert sum(tokens) < 1.1 * 200
        close([t[5, 0] for t in together], [t[0, 0] for t in read(mapping, h[5:6], anchors=((199,),))])


def test_distances_beyond_the_largest_are_read_alike():
    mapping, h = reader(num_layers=0), torch.randn(1, 30, H)
    h[:, 1:20] = 0  # nothing between
    moved = h.clone()
    moved[:, [0, 9]] = h[:, [9, 0]]
    close(read(mapping, h, anchors=((29,),)), read(mapping, moved, anchors=((29,),)))
    near = h.clone()
    near[:, [0, 25]] = h[:, [25, 0]]
    apart = read(mapping, near, anchors=((29,),)).digits - read(mapping, h, anchors=((29,),)).digits
    assert apart.abs().max() > 1e-4


def test_a_missing_anchor_and_a_row_of_padding_read_something_finite():
    mapping, h, padding = reader(), torch.randn(2, 4, H), torch.zeros(2, 4, dtype=torch.bool)
    got = read(mapping, h, padding, ((-1,), (-1,)))
    assert all(t.isfinite().all() for t in got)
    # never attention over nothing, which some kernels answer with NaN: the first token stands in
    close(got, read(mapping, h, ~padding, ((0,), (0,))))


def test_what_is_kept_has_the_texts_type_and_choices_are_made_in_float32():
    mapping, h = reader(), torch.randn(1, 5, H, dtype=torch.bfloat16)
    assert mapping.compress(h).dtype is torch.bfloat16
    valid, anchors = torch.ones(1, 5, dtype=torch.bool), torch.tensor([[4]])
    with torch.autocast("cpu", torch.bfloat16):
        got = mapping(mapping.compress(h), valid, anchors)
    assert {t.dtype for t in got} == {torch.float32}
    half = mapping.to(torch.bfloat16)
    assert {t.dtype for t in half(half.compress(h), valid, anchors)} == {torch.float32}


def test_random_weights_can_be_made_to_read_two_digits():
    mapping = reader()
    mapping.read_two_digits()
    got = read(mapping, torch.randn(3, 5, H), anchors=((4,), (3,), (0,)))
    classes = got.digits.argmax(-1)
    assert (classes[..., :2] < PAD).all()
    assert (classes[..., 2:] == PAD).all()
    assert (got.operator.argmax(-1) == 0).all()


# ------------------------------------------------------------------------------------------ the loss
def targets(operator):
    operator = torch.tensor(operator)
    b, a = operator.shape
    operands = torch.full((b, a, 2, D + 1), PAD)
    operands[..., 0, :2], operands[..., 1, :1] = torch.tensor([1, 2]), 7
    signs = torch.zeros(b, a, 2, dtype=torch.int64)
    signs[..., 1] = 1
    nothing = torch.zeros(b, a, dtype=torch.int64)
    return Targets(operands, signs, operator, torch.full((b, a, R), PAD), nothing, nothing, nothing)


def uniform(b, a):
    return Reading(torch.zeros(b, a, 2, D + 1, 11), torch.zeros(b, a, 2, 2), torch.zeros(b, a, K + 1))


def test_the_loss_of_knowing_nothing_is_that_of_uniform_guesses():
    anchors = torch.zeros(1, 5, dtype=torch.int64)
    anchors[0, 4] = -1
    reading = uniform(1, 5)
    loss, supervised, correct = reading_loss(reading, targets([[0, 3, K, -100, 0]]), anchors, reading.choose())
    arithmetic = math.log(K + 1) + 2 * math.log(11) + 2 * math.log(2)  # operator, mean digit and sign per operand
    torch.testing.assert_close(loss, torch.tensor([[arithmetic, arithmetic, math.log(K + 1), 0.0, 0.0]]))
    assert supervised.tolist() == [[True, True, True, False, False]]
    assert not correct.any()


def test_the_loss_equals_a_computation_by_hand():
    torch.manual_seed(1)
    reading = Reading(torch.randn(1, 1, 2, D + 1, 11), torch.randn(1, 1, 2, 2), torch.randn(1, 1, K + 1))
    want = targets([[2]])

    def nll(logits, target):
        return -float(torch.log_softmax(logits, -1)[target])

    by_hand = nll(reading.operator[0, 0], 2)
    for operand in (0, 1):
        slots = [nll(reading.digits[0, 0, operand, i], want.operands[0, 0, operand, i]) for i in range(D + 1)]
        by_hand += sum(slots) / (D + 1) + nll(reading.signs[0, 0, operand], want.signs[0, 0, operand])
    loss, _, _ = reading_loss(reading, want, torch.zeros(1, 1, dtype=torch.int64), reading.choose())
    assert float(loss) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(
    ("operator", "spoil", "right"),
    [
        (1, None, True),
        (1, "digit", False),
        (1, "sign", False),
        (1, "operator", False),
        (K, None, True),
        (K, "digit", True),  # no arithmetic: the operands mean nothing
        (K, "sign", True),
        (K, "operator", False),
        (-100, None, False),  # not supervised, so not counted
    ],
)
def test_a_reading_counts_as_right_only_if_all_of_it_is(operator, spoil, right):
    want = targets([[operator]])
    classes = {"digit": want.operands.clone(), "sign": want.signs.clone(), "operator": want.operator.clamp(min=0)}
    if spoil == "digit":
        classes["digit"][0, 0, 1, 4] = 3
    elif spoil is not None:
        classes[spoil].view(-1)[0] = 1 - classes[spoil].view(-1)[0].clamp(max=1)
    reading = Reading(
        *(10 * torch.nn.functional.one_hot(classes[k], n).float() for k, n in (("digit", 11), ("sign", 2)))
        , 10 * torch.nn.functional.one_hot(classes["operator"], K + 1).float()
    )  # fmt: skip
    correct = reading_loss(reading, want, torch.zeros(1, 1, dtype=torch.int64), reading.choose())[2]
    assert correct.item() is right


# ------------------------------------------------------------------------------------------ writing
def write(mapping, h, digits, signs=None, step=None, offset=None):
    t = h.shape[1]
    signs = torch.zeros(digits.shape[:2], dtype=torch.int64) if signs is None else signs
    step = torch.zeros(h.shape[0], t, dtype=torch.int64) if step is None else step
    offset = torch.zeros(h.shape[0], t, dtype=torch.int64) if offset is None else offset
    with torch.no_grad():
        return mapping(h, digits, signs, step, offset)


NUMBER = torch.tensor([[[4, 2, PAD, PAD, PAD]]])


def test_the_update_is_scaled_by_the_size_of_the_state_it_is_added_to():
    mapping, h = writer(), torch.randn(1, 3, H)
    update, gate = write(mapping, h, NUMBER)
    scaled, same = write(mapping, h * torch.tensor([1.0, 100.0, 1e4])[:, None], NUMBER)
    torch.testing.assert_close(scaled, update * torch.tensor([1.0, 100.0, 1e4])[:, None], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(gate, same, rtol=1e-3, atol=1e-5)
    assert ((gate > 0) & (gate < 1)).all()
    assert gate.shape == (1, 3)


def test_the_update_depends_on_digits_places_sign_and_offset():
    mapping, h = writer(), torch.randn(1, 1, H)
    update = write(mapping, h, NUMBER)[0]
    others = [
        write(mapping, h, torch.tensor([[[4, 3, PAD, PAD, PAD]]])),
        write(mapping, h, torch.tensor([[[2, 4, PAD, PAD, PAD]]])),
        write(mapping, h, NUMBER, signs=torch.ones(1, 1, dtype=torch.int64)),
        write(mapping, h, NUMBER, offset=torch.tensor([[2]])),
    ]
    assert all((other - update).abs().max() > 1e-4 for other, _ in others)
    far, farther = (write(mapping, h, NUMBER, offset=torch.tensor([[n]]))[0] for n in (3, 99))
    assert torch.equal(far, farther)


def test_each_position_sees_the_digits_of_its_own_step_alone():
    mapping, h = writer(), torch.randn(1, 4, H)
    numbers = torch.cat([NUMBER, torch.tensor([[[9, PAD, PAD, PAD, PAD]]])], 1)
    step = torch.tensor([[0, 0, 1, 1]])
    update, gate = write(mapping, h, numbers, step=step)
    for a in (0, 1):
        alone = write(mapping, h, numbers[:, a : a + 1])
        close((update[step == a], gate[step == a]), (alone[0][step == a], alone[1][step == a]))


@pytest.mark.parametrize("heads", [1, 4])
def test_a_fresh_mapping_looks_at_the_digit_with_the_number_of_the_offset(heads):
    torch.manual_seed(0)
    places = 6
    mapping = HiddenOutputMapping(H, places, dim=48 * heads, num_heads=heads, ffn=32, gate_dim=8, max_offset=8)
    found = []
    mapping.attention.register_forward_hook(lambda module, inputs, output: found.append(output[0]))
    offsets, h = torch.arange(places)[None], torch.randn(1, places, H)
    number = torch.randint(0, 10, (1, 1, places))
    for changed in range(-1, places):  # none, then each digit
        digits = number.clone()
        digits[0, 0, changed] = (digits[0, 0, changed] + 5) % 10 if changed >= 0 else digits[0, 0, changed]
        write(mapping, h, digits, offset=offsets)
    moved = torch.stack([(one - found[0]).norm(dim=1) for one in found[1:]])  # [digit, offset]
    later = moved[torch.ones_like(moved).tril(-1) > 0].mean()
    assert moved.diagonal().mean() > 2 * later
    before = moved.diagonal(1).mean()  # the digit before, which is due behind a minus
    assert bool(before > 1.5 * moved[torch.ones_like(moved).triu(2) > 0].mean()) == (heads == 4)
    write(mapping, torch.randn(1, places, H), number, offset=offsets)
    torch.testing.assert_close(found[-1], found[0])  # whatever the hidden state is
    write(mapping, h, number, signs=torch.ones(1, 1, dtype=torch.int64), offset=offsets)
    of_sign = (found[-1] - found[0]).norm(dim=1).mean()
    assert bool(of_sign > 1.3 * later) == (heads == 4)
    assert found[0].norm(dim=1).mean() > 0.3 * mapping.digit.weight.norm(dim=1).mean()  # handed on at full size


def test_a_closed_mapping_writes_nothing_and_still_learns():
    mapping, h = writer(), torch.randn(1, 3, H)
    mapping.close()
    index = torch.zeros(1, 3, dtype=torch.int64)
    update, _ = mapping(h, NUMBER, torch.zeros(1, 1, dtype=torch.int64), index, index)
    assert not update.any()
    (update * torch.randn_like(update)).sum().backward()
    assert mapping.write_down.weight.grad.abs().max() > 0


# ------------------------------------------------------------------------------------------ size
def test_the_same_token_is_written_differently_in_another_place_and_another_state():
    torch.manual_seed(0)
    mapping = TokenOutputMapping(16, 8, ffn=32, gate_dim=8)
    h, token = torch.randn(1, 1, 16), torch.randn(1, 1, 8)

    def direction(h, state):
        update, gate = mapping(h, token, torch.tensor([[int(state)]]))
        return update / gate[..., None] / h.pow(2).mean().sqrt()

    here = direction(h, Spelled.WAITING)
    torch.testing.assert_close(direction(2 * h, Spelled.WAITING), here, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(direction(h, Spelled.MIDDLE), here, rtol=1e-2)
    assert not torch.allclose(direction(h.flip(2), Spelled.WAITING), here, rtol=1e-2)
    torch.nn.init.zeros_(mapping.context.weight)  # so that only the vectors of the ends are left to differ
    ends = [direction(h, state) for state in ENDS]
    assert not torch.allclose(*ends, rtol=1e-2)
    token = torch.randn(1, 1, 8)  # which has no part in an end
    assert all(torch.equal(direction(h, state), end) for state, end in zip(ENDS, ends, strict=True))


@pytest.mark.parametrize("interface", ["hidden", "tokens"])
def test_a_state_of_zeros_leaves_every_gradient_finite(interface):
    # as that of a padding token whose embedding is zero, where a trained base begins as the identity
    h = torch.randn(1, 3, H)
    h[0, 0] = 0
    h.requires_grad_()
    if interface == "hidden":
        nothing = torch.zeros(1, 3, dtype=torch.int64)
        update, _ = writer()(h, torch.ones(1, 1, R).long(), nothing[:, :1], nothing, nothing)
    else:
        mapping = TokenOutputMapping(H, 8, ffn=32, gate_dim=8)
        update, _ = mapping(h, torch.randn(1, 3, 8), torch.full((1, 3), int(Spelled.MIDDLE)))
    torch.where(torch.tensor([False, True, True])[:, None], h + update, h).sum().backward()
    assert h.grad.isfinite().all()
    assert h.grad[0, 0].tolist() == [1.0] * H


def test_the_default_adapter_has_17_million_parameters_on_llama_3_1_8b():
    config = IGCConfig()
    with torch.device("meta"):
        mappings = [
            HiddenInputMapping(
                4096, config.num_digits, len(config.operations), dim=config.reading_dim,
                num_layers=config.reading_layers, num_heads=config.num_heads, ffn=config.reading_ffn,
                max_distance=MAX_DISTANCE["hidden"],
            ),
            HiddenOutputMapping(
                4096, config.result_digits, dim=config.writing_dim, num_heads=config.num_heads,
                ffn=config.writing_ffn, gate_dim=config.gate_dim, max_offset=MAX_OFFSET,
            ),
        ]  # fmt: skip
    total = sum(p.numel() for mapping in mappings for p in mapping.parameters())
    assert total == pytest.approx(17e6, rel=0.05)
