"""Promises of reading and writing: on what an update depends, how large it is, and the loss by hand."""

import pytest
import torch
from tiny_models import small_config

from peft_igc import IGCConfig
from peft_igc.mappings.attention import LayerMix
from peft_igc.mappings.hidden_interface import HiddenInputMapping, HiddenOutputMapping
from peft_igc.mappings.readings import Reading, Targets, reading_loss
from peft_igc.mappings.token_interface import TokenOutputMapping
from peft_igc.numbers.digits import PAD
from peft_igc.text.spelling import ENDS, Spelled
from peft_igc.text.vocabulary import PADDING


H, D, K, R = 24, 4, 4, 5


def config(**fields):
    sizes = {"num_digits": D, "result_digits": R, "reading_dim": 16, "reading_ffn": 32, "writing_ffn": 32}
    return small_config(**sizes, **{"reading_layers": 1, "gate_dim": 8, **fields})


def writer():
    return HiddenOutputMapping(H, config(writing_dim=16))


def test_a_missing_anchor_in_a_row_of_padding_reads_the_first_token():
    """Never attention over nothing, which some kernels answer with NaN."""
    mapping, first, padding = HiddenInputMapping(H, config()), torch.tensor([[0]] * 2), torch.full((2, 4), PADDING)
    with torch.no_grad():
        kept = mapping.compress(torch.randn(2, 4, H))
        got, want = mapping(kept, padding, first - 1, first), mapping(kept, 0 * padding, first, first)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)


def test_states_of_unequal_size_count_alike_and_those_of_zeros_stay_finite():
    torch.manual_seed(0)
    first, second = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    mix = LayerMix(2)
    mix.weights.data = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(mix([first, 1000 * second]), mix([first, second]))
    share = torch.e / (torch.e + 1)
    unit = [h / h.pow(2).mean(-1, keepdim=True).sqrt() for h in (first, second)]
    torch.testing.assert_close(mix([first, second]), share * unit[0] + (1 - share) * unit[1])

    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found = mix([torch.zeros(2, 3, 8, dtype=dtype), second.to(dtype)])
        assert found.dtype is dtype
        assert found.isfinite().all()


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


# An operator, what of its reading is wrong, and whether the reading counts as right.
READ = [(1, None, True), (1, "digit", False), (1, "sign", False), (1, "operator", False)]
READ += [(K, None, True), (K, "digit", True), (K, "sign", True), (K, "operator", False)]  # operands mean nothing
READ += [(-100, None, False)]  # not supervised, so not counted


def test_a_reading_counts_as_right_only_if_all_of_it_is():
    for operator, spoil, right in READ:
        want = targets([[operator]])
        classes = {"digit": want.operands.clone(), "sign": want.signs.clone(), "operator": want.operator.clamp(min=0)}
        if spoil == "digit":
            classes["digit"][0, 0, 1, 4] = 3
        elif spoil is not None:
            classes[spoil].view(-1)[0] = 1 - classes[spoil].view(-1)[0].clamp(max=1)
        sizes = (("digit", 11), ("sign", 2), ("operator", K + 1))
        reading = Reading(*(10 * torch.nn.functional.one_hot(classes[name], n).float() for name, n in sizes))
        correct = reading_loss(reading, want, torch.zeros(1, 1, dtype=torch.int64), reading.choose())[2]
        assert correct.item() is right, (operator, spoil)


def write(mapping, h, digits, signs=None, offset=None):
    signs = torch.zeros(digits.shape[:2], dtype=torch.int64) if signs is None else signs
    first = torch.zeros(h.shape[:2], dtype=torch.int64)
    with torch.no_grad():
        return mapping(h, digits, signs, first, first if offset is None else offset)


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
    mapping, index = writer(), torch.zeros(1, 3, dtype=torch.int64)
    IGCConfig.begin(None, mapping)
    update, _ = mapping(torch.randn(1, 3, H), NUMBER, torch.zeros(1, 1, dtype=torch.int64), index, index)
    assert not update.any()
    (update * torch.randn_like(update)).sum().backward()
    assert mapping.write_down.weight.grad.abs().max() > 0


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
