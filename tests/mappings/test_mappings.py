"""Promises of reading and writing: what they see, what they cannot see, how large they are, and the loss by hand."""

import pytest
import torch
from tiny_models import small_config

from peft_igc.mappings.attention import LayerMix
from peft_igc.mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from peft_igc.mappings.readings import Reading, Targets, reading_loss
from peft_igc.mappings.token_interface import TokenOutputMapping
from peft_igc.numbers.digits import PAD
from peft_igc.text.results.spelling import ENDS, Spelled


H, D, K, R = 24, 4, 4, 5


def config(**fields):
    sizes = {"num_digits": D, "result_digits": R, "reading_dim": 16, "reading_ffn": 32, "writing_ffn": 32}
    return small_config(**sizes, **{"reading_layers": 1, "gate_dim": 8, **fields})


def reader(layers=1):
    return HiddenInputMapping(H, config(reading_layers=layers))


def writer():
    return HiddenOutputMapping(H, config(writing_dim=16))


def read(mapping, h, valid=None, anchors=((-1,),), since=None):
    valid = torch.ones(h.shape[:2], dtype=torch.bool) if valid is None else valid
    with torch.no_grad():
        since = None if since is None else torch.tensor(since)
        return mapping(mapping.compress(h), valid, torch.tensor(anchors), since=since)


def close(a, b):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=0)


# ------------------------------------------------------------------------------------------ reading
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_reading_sees_the_text_up_to_the_anchor_and_nothing_behind_it(layers):
    mapping, h = reader(layers), torch.randn(1, 7, H)
    behind, before = h.clone(), h.clone()
    behind[:, 5:] += 1
    before[:, 1] += 1
    want = read(mapping, h, anchors=((4,),))
    close(read(mapping, behind, anchors=((4,),)), want)
    assert all((x - y).abs().max() > 1e-4 for x, y in zip(read(mapping, before, anchors=((4,),)), want, strict=True))


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


def test_a_missing_anchor_and_a_row_of_padding_read_something_finite():
    mapping, h, padding = reader(), torch.randn(2, 4, H), torch.zeros(2, 4, dtype=torch.bool)
    got = read(mapping, h, padding, ((-1,), (-1,)))
    assert all(t.isfinite().all() for t in got)
    # never attention over nothing, which some kernels answer with NaN: the first token stands in
    close(got, read(mapping, h, ~padding, ((0,), (0,))))


# ------------------------------------------------------------------------------------------ several layers
def test_states_of_unequal_size_count_alike():
    torch.manual_seed(0)
    first, second = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    mix = LayerMix(2)
    mix.weights.data = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(mix([first, 1000 * second]), mix([first, second]))
    share = torch.e / (torch.e + 1)
    unit = [h / h.pow(2).mean(-1, keepdim=True).sqrt() for h in (first, second)]
    torch.testing.assert_close(mix([first, second]), share * unit[0] + (1 - share) * unit[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_states_of_zeros_stay_finite_and_the_dtype_is_kept(dtype):
    states = [torch.zeros(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8).to(dtype)]
    found = LayerMix(2)(states)
    assert found.dtype is dtype
    assert found.isfinite().all()


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
    far, farther = (write(mapping, h, NUMBER, offset=torch.tensor([[n]]))[0] for n in (63, 99))
    assert torch.equal(far, farther)


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
    mapping = TokenOutputMapping(16, 8, config(interface="tokens"))
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
        mapping = TokenOutputMapping(H, 8, config(interface="tokens"))
        update, _ = mapping(h, torch.randn(1, 3, 8), torch.full((1, 3), int(Spelled.MIDDLE)))
    torch.where(torch.tensor([False, True, True])[:, None], h + update, h).sum().backward()
    assert h.grad.isfinite().all()
    assert h.grad[0, 0].tolist() == [1.0] * H
