"""The operation that a request in words states beyond doubt: `45 minus 16`, `divide 45 by 5`, `product of 3 and 4`.

In: the literals of a text and the two numbers that the network chose. Out: the operation, and which number comes
first. Where the network reads another one, or another order, nothing is written. Nothing here is learned.
Try it: `pytest tests/mappings/test_certain_operations.py`

Shapes: N steps, n tokens at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..expressions.literals import Literals
from ..expressions.names import OPERATIONS, Name
from ..expressions.words import hashes_of


__all__ = ["Certain", "certain_operation", "is_polite", "misread", "subtracts_both", "verb_before"]

NONE = -1

# Between the numbers: the last word before the second one, and the last but one.
_INFIX = {hashes_of("plus pluss puls"): "+", hashes_of("minus"): "-", hashes_of("times tims tiems"): "*"}
_BY, _WITH = hashes_of("by"), hashes_of("by with w")
_INFIX_OF_TWO = {hashes_of("multiplied"): ("*", _WITH), hashes_of("divided devided"): ("/", _BY)}
_VERBS = {
    "+": hashes_of("add adding"),
    "-": hashes_of("subtract subtracting substract substracting subtrack deduct"),
    "*": hashes_of("multiply multiplying mutiply multipy multply mulitply"),
    "/": hashes_of("divide dividing devide deviding divid"),
}
# Before the first number, and the word between the numbers.
_PREFIX = {
    _VERBS["+"]: ("+", hashes_of("and to plus with")),
    _VERBS["*"]: ("*", hashes_of("and by times with w")),
    _VERBS["/"]: ("/", _BY),
    _VERBS["-"]: ("-", hashes_of("from")),
    hashes_of("increase"): ("+", _BY),
    hashes_of("decrease reduce"): ("-", _BY),
    hashes_of("minus"): ("-", hashes_of("from")),
}
_PREFIX_OF_TWO = {hashes_of("sum"): "+", hashes_of("product"): "*"}  # of 3 and 4
_OF, _AND = hashes_of("of"), hashes_of("and")
_TAKE = hashes_of("take takes took")  # between two numbers: the later one is taken away
_REVERSED = hashes_of("from")  # the second number is the first operand
(_TIMES,) = hashes_of("times")  # behind both numbers it leaves a doubt: `increase 12 by 5 times`
# Names of other operations leave a doubt; a verb names its inverse, too.
_FAMILIES = {"+": Name.ADDITION | Name.SUBTRACTION, "*": Name.MULTIPLICATION | Name.DIVISION}
_FAMILIES |= {"-": _FAMILIES["+"], "/": _FAMILIES["*"]}
_POLITE = hashes_of("please pls plz can could you u")
_LINKS = hashes_of("to from by with into")  # behind an expression: it is an operand itself
_PREPOSITIONS = hashes_of("off onto among between")  # between two numbers, of verbs that are in no list


class Certain(NamedTuple):
    """What is certain of N steps.

    Attributes:
        operation: [N] int64, index in `IGCConfig.operations`, -1 where none is certain.
        swapped: [N] bool, the later number of the text is the first operand.
        ordered: [N] bool, the order of the operands counts.
    """

    operation: torch.Tensor
    swapped: torch.Tensor
    ordered: torch.Tensor


def certain_operation(config: Any, found: Literals, chosen: torch.Tensor, turn: torch.Tensor) -> Certain:
    """The operation that stands between or before two numbers, with nothing else between them but what is counted.

    Args:
        config: the adapter's `IGCConfig`.
        found: the literals of the text.
        chosen: [N, 2] int64, the tokens of the two numbers.
        turn: [N, n] bool, the tokens of the turn.
    """
    first, second = chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)
    (before, earlier), (link, verb) = (found.lead.gather(1, _both(at)).squeeze(1).unbind(1) for at in (first, second))
    counted = (found.unit.gather(1, first) > 0) | (found.thing.gather(1, first) != 0)  # `5 apples plus 3 pears`
    words = (found.gap.gather(1, second) - counted.long()).squeeze(1)
    place = torch.arange(turn.shape[1], device=turn.device)
    inner = (place > first) & (place < second)
    doubtful = (found.literal | found.strange | found.operator | found.relation) & inner
    doubtful |= (found.code == _TIMES) & turn & (place > second)
    plain = found.literal.gather(1, chosen).all(1) & (first != second).squeeze(1) & ~doubtful.any(1)
    named = _named(found, turn)
    sign = torch.full_like(words, NONE)  # index in `OPERATIONS`
    for name, there in _patterns(before, earlier, link, verb, words, found.may_negate.gather(1, second).squeeze(1)):
        others = sum(1 << at for at in range(len(OPERATIONS)) if not _FAMILIES[name] >> at & 1)
        sign = torch.where(there & plain & (named & others == 0), OPERATIONS.index(name), sign)
    operation = torch.full_like(sign, NONE)
    for at, one in enumerate(OPERATIONS):
        known = config.operations.index(one) if one in config.operations else NONE
        operation = torch.where(sign == at, known, operation)
    ordered = (sign == OPERATIONS.index("-")) | (sign == OPERATIONS.index("/"))
    return Certain(operation, _is(link, _REVERSED), ordered)


def misread(
    config: Any,
    certain: Certain,
    found: Literals,
    chosen: torch.Tensor,
    turn: torch.Tensor,
    operator: torch.Tensor,
    goes_on: torch.Tensor,
) -> torch.Tensor:
    """[N] bool, the network reads another operation, or the operands in another order, than the text states. Or the
    text states two, as in `add 15 minus 3`. Or it does not take away what is taken: `63 take 21`. Or it guesses what
    an unknown word between the numbers means, as in `what is 99 tims 99`, where no other word may say it.

    Args:
        config: the adapter's `IGCConfig`.
        certain: what the text states.
        found: the text.
        chosen: [N, 2] int64, the chosen numbers.
        turn: [N, n] bool, the tokens of the turn.
        operator: [N] int64, the network's.
        goes_on: [N] bool, words that are not only polite stand behind both numbers.
    """
    first, second = chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)
    swapped = chosen[:, 0] > chosen[:, 1]
    word = found.thing.gather(1, first)
    lone = (word != 0) & (found.gap.gather(1, second) == 1) & (found.lead[..., 0].gather(1, second) == word)
    lone &= torch.stack([word != one for one in _PREPOSITIONS]).all(0)
    lone &= found.thing.gather(1, second) == 0  # what is counted may stand in between: `5 pens 12 pears`
    lone = lone.squeeze(1) & ~goes_on
    verb = found.names[..., : 2 * len(OPERATIONS)].any(-1)
    other = (certain.operation >= 0) & (certain.operation != operator)
    # Of operations that users add no names are known.
    for at, one in enumerate(config.operations):
        other &= (operator != at) | (one in OPERATIONS)
    unordered = certain.ordered & (swapped != certain.swapped)
    _, link, one = _around(found, chosen)
    minus = config.operations.index("-") if "-" in config.operations else NONE
    takes = one & _is(link, _TAKE) & ((operator != minus) | swapped)
    return other | unordered | takes | _states_two(config, found, chosen) | (lone & ~(verb & turn).any(1))


def verb_before(
    config: Any,
    found: Literals,
    chosen: torch.Tensor,
    turn: torch.Tensor,
    broken: torch.Tensor,
    operator: torch.Tensor,
    goes_on: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`told` and `applied` of `Surroundings`, [N] bool.

    Args:
        config: the adapter's `IGCConfig`.
        found: the text.
        chosen: [N, 2] int64, the chosen numbers.
        turn: [N, n] bool, the tokens of the turn.
        broken: [N] int64, the token that refuses an expression in symbols, -1 for none.
        operator: [N] int64, the network's.
        goes_on: [N] bool, words that are not only polite stand behind both numbers.
    """
    place = torch.arange(turn.shape[1], device=turn.device)
    word = found.word & turn
    before, behind = place < chosen.amin(1, keepdim=True), place > chosen.amax(1, keepdim=True)
    at = torch.where(word & before, place, -1).amax(1, keepdim=True)
    after = torch.where(word & behind, place, turn.shape[1]).amin(1, keepdim=True)
    verb = found.code.gather(1, at.clamp(min=0)).masked_fill(at < 0, 0)
    link = found.code.gather(1, after.clamp(max=turn.shape[1] - 1)).masked_fill(after == turn.shape[1], 0)
    # The verb is the first word of its turn, but for polite ones: what stands before it may change what is meant.
    begins = ~(word & before & ~is_polite(found.code) & (found.code != verb)).any(1)
    verb, link = verb.squeeze(1), link.squeeze(1)
    told = _names_operation(config, verb, operator) & (at.squeeze(1) == broken) & begins & ~goes_on
    linked = torch.stack([link == one for one in _LINKS]).any(0)
    return told, _names_operation(config, verb) & linked


def _states_two(config: Any, found: Literals, chosen: torch.Tensor) -> torch.Tensor:
    """[N] bool, a verb before both numbers and a word between them name different operations."""
    before, link, one = _around(found, chosen)
    unlike = torch.zeros_like(one)
    for words, sign in _INFIX.items():
        unlike = unlike | (_is(link, words) & ~_is(before, _VERBS[sign]))
    return one & unlike & _names_operation(config, before)


def _around(found: Literals, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The hashes of the words directly before the earlier and the later number, [N] int64 both, and whether the latter
    stands alone between them, [N] bool."""
    first, second = chosen.amin(1, keepdim=True), chosen.amax(1, keepdim=True)
    before, link = (found.lead[..., 0].gather(1, at).squeeze(1) for at in (first, second))
    return before, link, found.gap.gather(1, second).squeeze(1) == 1


def subtracts_both(found: Literals, chosen: torch.Tensor) -> torch.Tensor:
    """[N] bool, a verb of subtraction before both numbers, joined by `and`, which does not say which one comes first:
    `subtract 5 and 12`."""
    before, link, one = _around(found, chosen)
    return _is(before, _VERBS["-"]) & _is(link, _AND) & one


def is_polite(code: torch.Tensor) -> torch.Tensor:
    """Bool of the shape of `code`, hashes of words such as `please`."""
    return torch.stack([code == one for one in _POLITE]).any(0)


def _names_operation(config: Any, code: torch.Tensor, operation: torch.Tensor | None = None) -> torch.Tensor:
    """[N] bool, whether words are verbs of an operation, such as `subtract`.

    Args:
        config: the adapter's `IGCConfig`.
        code: [N] int64, the hashes of the words.
        operation: [N] int64, the only operation that counts; None: any.
    """
    found = torch.zeros_like(code, dtype=torch.bool)
    for at, sign in enumerate(config.operations):
        if sign in _VERBS:
            counts = True if operation is None else operation == at
            found = found | (_is(code, _VERBS[sign]) & counts)
    return found


def _patterns(
    before: torch.Tensor,
    earlier: torch.Tensor,
    link: torch.Tensor,
    verb: torch.Tensor,
    words: torch.Tensor,
    negates: torch.Tensor,
) -> list[tuple[str, torch.Tensor]]:
    """Each operation with the steps [N] that state it: by the two words before the first number, the two before the
    second one, how many stand between, and whether the last of them may be a sign (`8, minus 5`)."""
    one, two = words == 1, words == 2
    found = [(sign, one & ~negates & _is(link, word)) for word, sign in _INFIX.items()]
    found += [(sign, two & _is(verb, word) & _is(link, links)) for word, (sign, links) in _INFIX_OF_TWO.items()]
    found += [(sign, one & _is(before, verbs) & _is(link, links)) for verbs, (sign, links) in _PREFIX.items()]
    joined = one & _is(before, _OF) & _is(link, _AND)
    return found + [(sign, joined & _is(earlier, word)) for word, sign in _PREFIX_OF_TWO.items()]


def _named(found: Literals, turn: torch.Tensor) -> torch.Tensor:
    """[N] int64, the operations that the turn names, one bit each."""
    bits = (found.names[..., : len(OPERATIONS)] & turn[..., None]).any(1)
    return (bits.long() << torch.arange(len(OPERATIONS), device=bits.device)).sum(1)


def _both(at: torch.Tensor) -> torch.Tensor:
    """[N, 1, 2] index of both leads of a token [N, 1]."""
    return at[..., None].expand(-1, -1, 2)


def _is(code: torch.Tensor, words: tuple[int, ...]) -> torch.Tensor:
    """[N] bool, whether a hash is that of one of the words."""
    return torch.stack([code == word for word in words]).any(0)  # numbers of the host wait for no device
