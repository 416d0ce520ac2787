"""Requests in words: what stands around the two numbers that the network chose, and whether it suits the operation.

In: the text and the reading at each anchor. Out: the choice with the signs that the text has, and `Surroundings`:
further numbers, names of other operations, units and words that contradict the choice. Nothing here is learned.
Try it: `pytest tests/mappings/test_symbol_steps.py`

Shapes: B rows, n tokens at hand, A anchors per row, N steps (B * A), W places of a reading, K operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..expressions.literals import Literals, literals
from ..expressions.names import OPERATIONS, Name
from ..expressions.symbols import FIRST_MONEY
from ..expressions.words import hashes_of
from ..numbers.digits import PAD
from ..numbers.number_runs import shifted
from ..numbers.token_table import EMBEDDED, PADDING
from .certain_operations import Certain, certain_operation, is_polite, misread, subtracts_both, verb_before
from .readings import Choice, Pointing, two_places


__all__ = ["Context", "Surroundings", "Wording", "signed_by_rule", "wording"]

_FROM, _TO, _OFF, _LESS, _IN, _MINUS, _FOR = hashes_of("from to off less in minus for")
_NAMED = hashes_of("room bus flight page chapter gate highway apartment channel")
_FACTORIALS = 20  # people ask for no larger one's
_ROLE_PIECES, _ROLE_ENDS = 4, 2  # tokens of a role, and from it to the anchor: line ends
_BEING = hashes_of("are is there fit")
_RESULTS = hashes_of("comes came")
_OTHERS, _NUMBER, _OUT = hashes_of("others number out")
_OWNERS = hashes_of("the my your our his her their this that these those it a an")
_REMAIN = hashes_of("remain remains remaining")
_PLUS, _TIMES = hashes_of("plus times")
_BY, *_PARTICIPLES = hashes_of("by multiplied divided")
_INFIX = (_PLUS, _MINUS, _TIMES)
_ADDS = hashes_of("add adding")
_DIGITS, _ONLY, _JUST, _THE, _IT = hashes_of("digits only just the it")
_HOW, _MANY, *_MORE = hashes_of("how many more fewer less")
_PARTS = hashes_of(
    "dividend divisor minuend subtrahend addend addends summand summands numerator denominator multiplier multiplicand"
)
_BE, _WHICH = hashes_of("is are s"), hashes_of("what which")
# Bits of `Literals.names`.
_COMPARISON = [name.bit_length() - 1 for name in (Name.THAN, Name.LESS, Name.HOW)]
_SUBTRACTION = [name.bit_length() - 1 for name in (Name.SUBTRACTION, Name.MAYBE_SUBTRACTION)]
_CALLED = hashes_of("called named name identify find whats")


class Context(NamedTuple):
    """The text of B * A steps.

    Attributes:
        ids: [N, n] int64.
        valid: [N, n] bool, False for padding.
        anchor, since: [N] int64, indices of the last and the first token that each step reads.
        rows: [B, n] int64, the rows of `ids` each once, with `PADDING` where nothing is valid.
    """

    ids: torch.Tensor
    valid: torch.Tensor
    anchor: torch.Tensor
    since: torch.Tensor
    rows: torch.Tensor

    @classmethod
    def of(cls, ids: torch.Tensor, valid: torch.Tensor, anchors: torch.Tensor, since: torch.Tensor) -> Context:
        """From ids and valid [B, n], anchors and since [B, A]; an anchor of -1 reads nothing."""
        rows = ids.masked_fill(~valid, PADDING)
        ids, valid = (x.repeat_interleave(anchors.shape[1], 0) for x in (ids, valid))
        return cls(ids, valid, anchors.flatten(), since.flatten(), rows)

    @property
    def read(self) -> torch.Tensor:
        """[N, n] bool, tokens that the step reads."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        return self.valid & (place <= self.anchor[:, None]) & (place >= self.since[:, None])

    @property
    def known(self) -> torch.Tensor:
        """[N] bool, no token up to the anchor was given as an embedding, which may be a part of any number."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        return ~((self.ids == EMBEDDED) & (place <= self.anchor[:, None])).any(1)


class Surroundings(NamedTuple):
    """What stands around the chosen numbers of [B, A] steps.

    Attributes:
        further: [B, A] int64, index of the first further number of the turn that is not excused, or of a chosen one
            that is no literal; -1 for none.
        strange: [B, A] bool, that number is not understood.
        worded: [B, A] bool, letters stand between the two.
        apart: [B, A] bool, a space precedes the later one of the two.
        bare: [B, A] bool, the context has no letters.
        contradicted: [B, A] bool, the text names another operation than the network, its formula is no single one,
            the units of its numbers do not suit the operation, a word such as `remainder` changes what is meant, or no
            operation is named before an equals sign.
        unordered: [B, A] bool, the text asks for a difference, and no word says which number comes first, or its words
            say that it is not below zero.
        spelled: [B, A] bool, an operator in symbols and letters stand between the two, as in `2 * y + 3`, or a symbol
            that compares them.
        negated: [B, A] bool, a bracket or a name is negated by a word: `minus (3 plus 4)`, `minus the sum of 3 and 4`.
        alone: [B, A] bool, letters stand between the two and every further number.
        told: [B, A] bool, what refuses an expression is a verb of its own operation that begins the turn, as in
            `Subtract: 7 - 5`, and nothing stands behind it.
        applied: [B, A] bool, a verb before both numbers applies to an expression of them: `subtract 9 - 4 from it`.
        closed: [B, A] bool, a calculation that is stated in words ends with an equals sign: `88 times 4 =`.
    """

    further: torch.Tensor
    strange: torch.Tensor
    worded: torch.Tensor
    apart: torch.Tensor
    bare: torch.Tensor
    contradicted: torch.Tensor
    unordered: torch.Tensor
    spelled: torch.Tensor
    negated: torch.Tensor
    alone: torch.Tensor
    told: torch.Tensor
    applied: torch.Tensor
    closed: torch.Tensor


class Wording(NamedTuple):
    """The words of N texts.

    Attributes:
        stated: [N] bool, the text states a calculation in words, as in `Good day! 5280 divided by 12, please`: it has
            no numbers but the two that the network chose, and nothing but the name of an operation between these.
        certain: the operation that is stated beyond doubt.
        literals: the literals of the text.
        context: the text.
        chosen: [N, 2] int64, the tokens of the two most probable numbers.
        turn: [N, n] bool, the tokens of the turn in which these stand, and those behind it.
    """

    stated: torch.Tensor
    certain: Certain
    literals: Literals
    context: Context
    chosen: torch.Tensor
    turn: torch.Tensor


def wording(config: Any, reader: Any, context: Context, reading: Pointing) -> Wording:
    """What the words of the texts say.

    Args:
        config: the adapter's `IGCConfig`.
        reader: the input mapping.
        context: the text.
        reading: the distributions.
    """
    read = context.read
    found, chosen = literals(reader.symbols, context.ids, read, 1), _chosen(reading)
    place = torch.arange(read.shape[1], device=read.device)
    turn = place > _turn(found, chosen)
    others = (found.literal | found.strange) & ~_at(chosen, len(place)) & turn
    others &= ~_form_of_answer(found, place > chosen.amax(1, keepdim=True))
    inner = (place > chosen.amin(1, keepdim=True)) & (place < chosen.amax(1, keepdim=True))
    name = found.names[..., : 2 * len(OPERATIONS)].any(-1)
    only_names = (name & inner).any(1) & ~(found.word & ~name & ~found.link & inner).any(1)
    pair = found.literal.gather(1, chosen).all(1) & (chosen[:, 0] != chosen[:, 1])
    certain = certain_operation(config, found, chosen, turn)
    return Wording(pair & only_names & ~others.any(1), certain, found, context, chosen, turn)


def _chosen(reading: Pointing) -> torch.Tensor:
    """[N, 2] int64, the tokens of the two most probable numbers."""
    places = two_places(reading.scores)[0]  # [B, A, 2]
    return reading.positions.gather(2, places).flatten(0, 1).clamp(min=0)


def _turn(found: Literals, chosen: torch.Tensor) -> torch.Tensor:
    """[N, 1] int64, the last control token before the chosen numbers, -1 for none."""
    place = torch.arange(found.control.shape[1], device=chosen.device)
    before = found.control & (place < chosen.amin(1, keepdim=True))
    return torch.where(before, place, -1).amax(1, keepdim=True)


def signed_by_rule(
    config: Any, reader: Any, reading: Pointing, choice: Choice, said: Wording, broken: torch.Tensor
) -> tuple[Choice, Surroundings]:
    """The choice with the signs that the text has, and where a further number refuses it.

    Args:
        config: the adapter's `IGCConfig`.
        reader: the input mapping.
        reading: the distributions, with the numbers of `said`.
        choice: `reading.choose()`.
        said: the words of the text.
        broken: [N] int64, the token that refuses an expression in symbols, -1 for none.

    Returns:
        The choice, and what stands around it.
    """
    found, chosen, turn, operator = said.literals, said.chosen, said.turn, choice.operator.flatten()
    place = torch.arange(turn.shape[1], device=turn.device)
    behind = place > chosen.amax(1, keepdim=True)
    inner = (place > chosen.amin(1, keepdim=True)) & (place < chosen.amax(1, keepdim=True))
    sign = _signs(found, chosen, choice, turn)
    excused = _excused(config, reading, 1.0 if reader.training else config.temperature, len(place))
    culprit = _further(found, chosen, turn, excused | _form_of_answer(found, behind))
    strange = found.strange.gather(1, culprit[:, None].clamp(min=0)).squeeze(1)
    worded = (found.word & inner).any(1)
    apart = found.space | shifted(found.space, 1)
    apart = apart.gather(1, chosen.amax(1, keepdim=True)).squeeze(1)
    spoken = found.said & turn & ~_role(found, said.context.anchor, behind)
    goes_on = (spoken & behind & ~is_polite(found.code)).any(1)
    before = _words_before(found.code, 3)
    contradicted, unordered = _unlike(config, found, before, turn, operator)
    unfit, distance = _unfit(config, found, chosen, turn, operator)
    contradicted |= unfit | _only_signs(config, found, chosen, sign.flatten(0, 1), turn, operator)
    contradicted |= _before_equals(found, turn, behind) | (found.modified & turn).any(1)
    contradicted |= _goes_to(found, chosen, turn & behind) | _asks_for_part(found, before, turn)
    contradicted |= _further_operator(found, before, chosen, inner, turn & behind) | ~spoken.any(1)
    contradicted |= misread(config, said.certain, found, chosen, turn, operator, goes_on)
    contradicted |= _corrected(config, found, turn & behind, operator) | _factorial(found, chosen, choice)
    unordered |= distance | _named_behind(found, chosen, turn) | subtracts_both(found, chosen)
    told, applied = verb_before(config, found, chosen, turn, broken, operator, goes_on)
    spelled = (worded & (found.operator & inner).any(1)) | (found.relation & inner).any(1)
    closed = said.stated & (said.certain.operation >= 0) & ~goes_on & ~(found.operator & turn).any(1)
    stands = (
        *(culprit, strange, worded, apart, ~found.word.any(1), contradicted, unordered, spelled),
        *((found.negated & turn).any(1), _alone(found, chosen), told, applied, closed),
    )
    around = Surroundings(*(x.view(choice.operator.shape) for x in stands))
    return choice._replace(signs=sign), around


def _signs(found: Literals, chosen: torch.Tensor, choice: Choice, turn: torch.Tensor) -> torch.Tensor:
    """[B, A, 2] int64, the signs of the chosen numbers [N, 2] in the text of a turn [N, n]."""
    # A word such as `minus` is a sign or the operation, which the network tells apart.
    worded = found.may_negate.gather(1, chosen).view(choice.signs.shape)
    sign = found.sign.gather(1, chosen).view(choice.signs.shape)
    sign = sign | (choice.signs & worded.long())
    sign = torch.where((choice.digits[..., 0] == 0) & (choice.digits[..., 1] == PAD), 0, sign)  # zero has no sign
    return torch.where(_takes_off(found, chosen, turn).view(sign.shape), 0, sign)


def _further(found: Literals, chosen: torch.Tensor, turn: torch.Tensor, excused: torch.Tensor) -> torch.Tensor:
    """[N] int64, the token of the first further number that refuses, or of a chosen one that is no literal; -1 for
    none.

    A sentence's end excuses nothing (`My number is 8. Add 12 and 5 to it.`), but the header of the turn does, and so
    does the network where it is sure (`In 2024 I had 3 apples`).
    """
    length = turn.shape[1]
    refusing = (found.literal | found.strange) & ~_at(chosen, length) & turn
    refusing &= ~excused | found.joined | _parallel(found, chosen)
    first = torch.where(refusing, torch.arange(length, device=chosen.device), length).amin(1)
    first = torch.where(refusing.any(1), first, -1)
    unread = ~found.literal.gather(1, chosen)  # [N, 2]
    return torch.where(unread.any(1), torch.where(unread[:, 0], chosen[:, 0], chosen[:, 1]), first)


def _alone(found: Literals, chosen: torch.Tensor) -> torch.Tensor:
    """[N] bool, letters stand between both numbers and every further one."""
    words = found.word.cumsum(1)  # [N, n]
    left, right = (words.gather(1, at) for at in (chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)))
    numeric = (found.literal | found.strange) & ~_at(chosen, words.shape[1])
    return ~(numeric & (words >= left) & (words <= right)).any(1)


def _role(found: Literals, anchor: torch.Tensor, behind: torch.Tensor) -> torch.Tensor:
    """[N, n] bool, the name of a role, of the tokens `behind` [N, n]: a word directly behind a control token, and
    before another one or the anchor [N]. It says nothing of what is asked: `3 and 5`."""
    place = torch.arange(behind.shape[1], device=behind.device)
    piece = shifted(found.control, 1)
    word = piece
    for _ in range(_ROLE_PIECES - 1):  # `assistant` has two tokens in some vocabularies
        piece = shifted(piece, 1) & (found.code != 0) & (found.code == shifted(found.code, 1))
        word = word | piece
    ends = word & (shifted(found.control, -1) | (place >= anchor[:, None] - _ROLE_ENDS))
    for _ in range(_ROLE_PIECES - 1):
        ends = ends | (word & shifted(ends, -1))
    return behind & ends


def _excused(config: Any, reading: Pointing, temperature: float, length: int) -> torch.Tensor:
    """[N, length] bool, tokens of numbers that the network finds unrelated to the calculation that is asked.

    The temperature of `reading` is taken out: it calibrates `confidence`, and must not change what is excused.
    """
    asked = 1 - (reading.operator * temperature).softmax(-1)[..., -1:]  # [B, A, 1]
    unrelated = asked * reading.unrelated.sigmoid() >= (config.excuse_confidence or 2)
    unrelated, positions = unrelated.flatten(0, 1), reading.positions.flatten(0, 1)  # [N, W]
    at = torch.where(unrelated & (positions >= 0), positions, length)  # an additional column collects the others
    return torch.zeros(len(at), length + 1, dtype=torch.bool, device=at.device).scatter(1, at, True)[:, :length]


def _unlike(
    config: Any, found: Literals, before: list[torch.Tensor], turn: torch.Tensor, operator: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether the names of a text fit the operation of the network.

    Args:
        config: the adapter's `IGCConfig`.
        found: the text.
        before: its `_words_before`, three.
        turn: [N, n] bool, the tokens of the turn.
        operator: [N] int64, the network's.

    Returns:
        [N] bool twice: `contradicted` and `unordered` of `Surroundings`.
    """
    bits = (found.names & turn[..., None]).any(1)  # [N, 11]
    named, maybe = bits[:, :4], bits[:, 4:8]
    possible, named = named | maybe, named.any(1)
    # Of operations that users add no names are known, and of "no arithmetic", the last class, nothing is asked.
    of_each = [possible[:, OPERATIONS.index(sign)] if sign in OPERATIONS else named for sign in config.operations]
    allowed = torch.stack([*of_each, named], 1).gather(1, operator[:, None]).squeeze(1)
    # Variables ask for what a formula or a word says: one operation.
    operators = torch.where(turn, found.formula, 0).sum(1)
    assigned = (found.assigned & turn).any(1)
    vague = (operators > 1) | (assigned & ~possible.any(1)) | ((found.variable & turn).any(1) & ~assigned)
    subtracts = operator == (config.operations.index("-") if "-" in config.operations else -1)
    than, less, how = (bits[:, at] for at in _COMPARISON)
    unordered = found.difference.any(1) & ~found.link.any(1)
    unordered |= subtracts & (_how_many_more(found, before) & turn).any(1)
    # `By how much is 89 more than 45?` asks for the distance, and `How much is 89 more than 45?` for one or the other.
    adds = operator == (config.operations.index("+") if "+" in config.operations else -1)
    return (named & ~allowed) | vague | (adds & than & how), unordered | (subtracts & than & (how | ~less))


def _before_equals(found: Literals, turn: torch.Tensor, behind: torch.Tensor) -> torch.Tensor:
    """[N] bool, an equals sign stands `behind` [N, n] both numbers, and the turn [N, n] names no operation: `It takes
    300 minutes. 300 minutes =` is a conversion, `2 hours and 30 minutes = ?` a sum of minutes."""
    named = (found.names[..., : 2 * len(OPERATIONS)].any(-1) & turn).any(1)
    return (found.equals & turn & behind).any(1) & ~named


def _named_behind(found: Literals, chosen: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """[N] bool, the words for a subtraction stand behind both numbers: `17 and 29, subtract the old from the new`.

    Not where letters stand for the numbers: `x = 5, y = 12. What is x minus y?`
    """
    named = found.names[..., _SUBTRACTION].any(2) & turn
    first = torch.where(named, torch.arange(named.shape[1], device=named.device), named.shape[1]).amin(1)
    letters = ((found.assigned | found.variable | (found.formula > 0)) & turn).any(1)
    return (first > chosen.amax(1)) & named.any(1) & ~letters


def _takes_off(found: Literals, chosen: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """[N, 2] bool, `minus` before this number subtracts it from the other one: `minus 35 from 140`, `please minus 35
    from 140`. Not behind other words: `take minus 35 from 140`."""
    word, before = found.lead.gather(1, chosen[..., None].expand(-1, -1, 2)).unbind(2)
    verbs = (found.names[..., : len(OPERATIONS)].any(-1) & turn).any(1, keepdim=True)
    first = chosen == chosen.amin(1, keepdim=True)
    return (word == _MINUS) & ((before == 0) | is_polite(before)) & first & (word == _FROM).flip(1) & ~verbs


def _only_signs(
    config: Any,
    found: Literals,
    chosen: torch.Tensor,
    signs: torch.Tensor,
    turn: torch.Tensor,
    operator: torch.Tensor,
) -> torch.Tensor:
    """[N] bool, every word for the network's subtraction is the sign of a chosen number: `minus 35 from 140`.

    The word cannot be both, also where another one may name the operation, too: `minus 35 from 140, what's left`.
    Arguments as of `_unlike`, and the chosen numbers [N, 2] with their signs.
    """
    subtracts = operator == (config.operations.index("-") if "-" in config.operations else -1)
    named = found.names[..., _SUBTRACTION].any(2) & turn
    named = (named & ~shifted(named, 1)).sum(1)  # a word may have several tokens
    word, before = (found.lead[..., at].gather(1, chosen) == _MINUS for at in (0, 1))
    worded = word & (signs == 1)
    twice = (worded & before).any(1)  # `8 minus minus 5`
    is_sign = (named > 0) & (named <= worded.sum(1)) & ~twice
    taken = (worded & (found.lead[..., 0].gather(1, chosen) == _FROM).flip(1)).any(1)
    return subtracts & (is_sign | taken)


def _unfit(
    config: Any, found: Literals, chosen: torch.Tensor, turn: torch.Tensor, operator: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether the chosen numbers [N, 2] of a turn [N, n] cannot be operands of the network's operation [N], and
    whether they are a range as in `from 3 to 5`; both [N] bool.

    Money is not multiplied by money, nor apples by apples, and what has different units is not added. A number before
    a month is a date, one in the brackets of `max(3, 5)` has another meaning, and `Room 12` is a name. From one to
    another is a range, or a difference. What is taken off a number is not the number: what stands behind `less` is
    taken off, and what stands behind `off` and `from` is not. How often 5 are in 55 is no product. `Me and 4 others`
    are five, and so are `4 others and me`. What remains of a division is no quotient. `12 comes out` says a result,
    and `my number plus 12` and `it plus 5 minus 2` have an operand that is no number.
    """
    unit = found.unit.gather(1, chosen)
    differ = (unit > 0).all(1) & (unit[:, 0] != unit[:, 1])
    thing = found.thing.gather(1, chosen)
    alike = (unit >= FIRST_MONEY).all(1) | ((thing[:, 0] == thing[:, 1]) & (thing[:, 0] != 0))
    of = {sign: operator == at for at, sign in enumerate(config.operations)}
    none = torch.zeros_like(differ)
    product, quotient, difference = (of.get(sign, none) for sign in "*/-")
    total = of.get("+", none) | difference
    lead, before = (found.lead[..., at].gather(1, chosen) for at in (0, 1))
    later = torch.where(chosen[:, 0] < chosen[:, 1], lead[:, 1], lead[:, 0])
    to = later == _TO  # not `the answer to 3 times 5`
    distance = (lead == _FROM).any(1) & to
    words, first = found.word.cumsum(1), chosen.amin(1, keepdim=True)
    place = torch.arange(words.shape[1], device=words.device)
    call = (found.call & (place < first) & (words == words.gather(1, first))).any(1)
    off = (lead[:, 0] == _LESS) | (lead[:, 1] == _OFF) | ((lead[:, 1] == _FROM) & ~to)
    being = _are(before, _BEING)
    inside = ((lead == _IN) & being).any(1)
    off |= to & ~(lead == _FROM).any(1)  # `ad 45 to 712`, with a slip of the keyboard
    unfit = ((alike | to | inside) & product) | (differ & total) | (distance & ~difference) | (off & difference)
    verb = (found.names[..., : len(OPERATIONS)].any(-1) & (place < first)).any(1)
    unfit |= (later == _FROM) & verb & (product | quotient)  # `multiply 12 from 5`
    # `Multiply the recipe for 4 by 3`
    unfit |= verb & ((lead == _FOR) & (chosen == first)).any(1) & (product | quotient)
    unfit |= _are(lead, _NAMED).any(1)
    unfit |= (found.company.gather(1, chosen) | (thing == _OTHERS)).any(1) & (product | quotient)
    unfit |= (_are(found.code, _REMAIN) & turn).any(1) & quotient
    begins = (before == 0) | is_polite(before)  # `plus 12 and 5`
    unknown = (_are(lead, (_PLUS, _TIMES)) & ~begins) | ((lead == _MINUS) & (before == _NUMBER))
    # `What number times 5 is 60?` and `What number plus 5 is 12?` ask for the inverse, of the later number.
    inverse = ((lead == _TIMES) & quotient[:, None]) | ((lead == _PLUS) & difference[:, None])
    unknown &= (chosen == first) & ~(inverse & (chosen[:, :1] > chosen[:, 1:]))
    out = _are(thing, _RESULTS).any(1) & ((found.code == _OUT) & turn).any(1)
    out &= ~difference  # not `35 comes out of 140`
    unfit |= out | unknown.any(1)
    return unfit | found.dated.gather(1, chosen).any(1) | call, distance


def _are(codes: torch.Tensor, words: tuple[int, ...]) -> torch.Tensor:
    """Bool of the shape of `codes`, hashes of words that are one of these."""
    return torch.stack([codes == word for word in words]).any(0)


def _factorial(found: Literals, chosen: torch.Tensor, choice: Choice) -> torch.Tensor:
    """[N] bool, a chosen number [N, 2] of up to `_FACTORIALS` stands before `!`, which may mean its factorial."""
    digits = choice.digits.flatten(0, 1)  # [N, 2, D + 1], left-aligned
    first, second, more = digits[..., 0], digits[..., 1], digits[..., 2:].ne(PAD).any(-1)
    small = ~more & ((second == PAD) | (first * 10 + second <= _FACTORIALS))
    return (found.exclaimed.gather(1, chosen) & small).any(1)


def _goes_to(found: Literals, chosen: torch.Tensor, behind: torch.Tensor) -> torch.Tensor:
    """[N] bool, `behind` [N, n] both numbers [N, 2] stands where they go: `Add 5 and 12 to the shopping list`. Not
    where one goes to the other: `Take 740 and add 65 to it`."""
    goes = (_beside(found.code, found.code, 1) == _TO) & behind
    later_one = chosen.amax(1, keepdim=True)
    adds = _are(found.lead[..., 0].gather(1, later_one), _ADDS)  # a verb directly before the later number
    return (goes & _are(found.code, _OWNERS) & ~(adds & (found.code == _IT))).any(1)


def _further_operator(
    found: Literals, before: list[torch.Tensor], chosen: torch.Tensor, inner: torch.Tensor, behind: torch.Tensor
) -> torch.Tensor:
    """[N] bool, a calculation in words has an operand that is no number.

    An operator stands between both numbers [N, 2], `inner` [N, n], and another one directly `behind` [N, n] them, or
    anywhere there in symbols or as `divided by` (`3 plus 5 plus something`); or two are between them (`3 plus
    something plus 5`, but not `3 times minus 5`). Not `3 and 5 times`, `3 times 5 multiplied`.
    """
    infix = _are(found.code, (*_INFIX, *_PARTICIPLES)) & inner
    later = chosen.amax(1, keepdim=True)
    lead = found.lead.gather(1, later[..., None].expand(-1, -1, 2)).squeeze(1)
    signed = (lead[:, 0] == _MINUS) & (lead[:, 1] == _BY)  # `divided by minus 5`
    twice = (infix & ~shifted(infix, 1)).sum(1) - signed.long() > 1
    by = (found.code == _BY) & _are(before[0], tuple(_PARTICIPLES))
    after = _are(found.following.gather(1, later), _INFIX).any(1) | ((found.operator | by) & behind).any(1)
    return twice | (infix.any(1) & after)


def _words_before(code: torch.Tensor, count: int) -> list[torch.Tensor]:
    """The `count` words before that of each token, each [N, n] as `code` [N, n], nearest first; 0 for none."""
    begins = (code != 0) & (code != shifted(code, 1))  # a word may have several tokens
    rank = begins.cumsum(1) + count
    words = code.new_zeros(code.shape[0], code.shape[1] + count + 1)
    words = words.scatter_add(1, rank, torch.where(begins, code, 0))
    return [words.gather(1, rank - by) for by in range(1, count + 1)]


def _how_many_more(found: Literals, before: list[torch.Tensor]) -> torch.Tensor:
    """[N, n] bool, a word that asks how many more there are, which is not below zero: `How many more pennies does John
    have?`, `How many pennies less?`"""
    first, second, third = before
    asked = ((first == _MANY) & (second == _HOW)) | ((second == _MANY) & (third == _HOW))
    return asked & _are(found.code, tuple(_MORE))


def _asks_for_part(found: Literals, before: list[torch.Tensor], turn: torch.Tensor) -> torch.Tensor:
    """[N] bool, the turn [N, n] asks which number is a part of the calculation: `Which is the dividend when we divide
    78 by 6?`, `Name the divisor in 78 divided by 6`. Not `The dividend is 78`, `78 is the dividend`."""
    the, word, which = before
    asked = _are(word, _CALLED) | (_are(word, _BE) & _are(which, _WHICH))
    return (_are(found.code, _PARTS) & (the == _THE) & asked & turn).any(1)


def _form_of_answer(found: Literals, behind: torch.Tensor) -> torch.Tensor:
    """[N, n] bool, words `behind` [N, n] both numbers that only say how the answer is written: `digits only`, `just
    the digits`. Not `in digits`: `Count 23 plus 49 in digits.`"""
    code = found.code
    before, after = _beside(code, code, 1), _beside(code, code, -1)
    just = (before == _THE) & _are(_beside(code, before, 1), (_JUST, _ONLY))
    return behind & (code == _DIGITS) & ((after == _ONLY) | just)


def _beside(code: torch.Tensor, x: torch.Tensor, by: int) -> torch.Tensor:
    """[N, n], what `x` [N, n] says at the word before each token (`by=1`), or behind it (-1): one token away, or two
    where the first is none of a word, such as a space."""
    return torch.where(shifted(code, by) == 0, shifted(x, 2 * by), shifted(x, by))


def _corrected(config: Any, found: Literals, behind: torch.Tensor, operator: torch.Tensor) -> torch.Tensor:
    """[N] bool, what the turn names `behind` [N, n] both numbers is another operation than the network's: `12 plus 5,
    no wait, minus!`."""
    named = (found.names[..., : len(OPERATIONS)] & behind[..., None]).any(1)  # [N, 4]
    minus = ((found.code == _MINUS) & behind).any(1)
    named[:, OPERATIONS.index("-")] |= minus
    own = torch.zeros_like(minus)
    for at, sign in enumerate(config.operations):
        if sign in OPERATIONS:
            own |= (operator == at) & named[:, OPERATIONS.index(sign)]
    return named.any(1) & ~own


def _parallel(found: Literals, chosen: torch.Tensor) -> torch.Tensor:
    """[N, n] bool, numbers that stand as the chosen ones do.

    They stand behind the same two words as one of them (`I have 3 pens. I have 4 pears.`), or each begins a part
    of a sentence (`3 pens. 4 pears. 5 plums.`).
    """
    leads = found.lead.gather(1, chosen[..., None].expand(-1, -1, 2))  # [N, 2, 2]
    same = (found.lead[:, :, None] == leads[:, None]).all(3) & (leads[:, None, :, 0] != 0)  # [N, n, 2]
    behind = same.any(2)
    return behind | (found.first & found.first.gather(1, chosen).all(1, keepdim=True))


def _at(chosen: torch.Tensor, length: int) -> torch.Tensor:
    """[N, length] bool, True at the chosen [N, 2] tokens."""
    place = torch.arange(length, device=chosen.device)
    return (place == chosen[:, :1]) | (place == chosen[:, 1:])
