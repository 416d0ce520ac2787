"""The literals of a text, for requests in words: where they begin, their digits, signs and decimal places.

In: token ids [N, L]. Out: `Literals`, one entry per token. A literal is an integer or a decimal, with thousands
separators and currency as people write them. What is numeric in another way begins a strange thing; it counts as a
number, and its value is not known. Which literals are operands is not decided here.
Try it: `pytest tests/expressions/test_literals.py`

Shapes: N texts, L tokens of a text, S symbols that are read, D digits of a number.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..numbers.digits import PAD
from ..numbers.number_runs import shifted
from .alphabet import Symbol
from .names import Name, naming
from .rules.in_words import VERDICT, Mark, Verdict
from .stream import Stream, later, stream_of, symbols_in, with_list_marks
from .symbols import SymbolTokens
from .words import hashes_of


__all__ = ["Literals", "literals"]

_LETTERS = sum(1 << symbol for symbol in range(Symbol.LETTERS, Symbol.LINK + 1) if symbol != Symbol.MINUS_SIGN)
_LETTERS |= 1 << Symbol.SIGN_WORD | 1 << Symbol.MINUS_WORD | 1 << Symbol.DIFFERENCE
_OPERATORS = 1 << Symbol.PLUS | 1 << Symbol.TIMES | 1 << Symbol.CARET
_CLOSES = sum(1 << symbol for symbol in (Symbol.EDGE, Symbol.LINE, Symbol.CONTROL, Symbol.DOT, Symbol.QUESTION))
_CLOSES |= 1 << Symbol.COMMA | 1 << Symbol.SEMICOLON | 1 << Symbol.COLON  # may end a part of a sentence
_PERSONS = hashes_of("i me myself you yourself he him himself she her herself we us they them")
_OWN = hashes_of("my your his her our their")
_MAY, *_HALVES = hashes_of("may am pm")  # `May` beside a number is a month; the halves of the day stand behind one
_MEAN, _INTEGER, _CENT, _PER = hashes_of("mean integer cent per")
_PERCENT = hashes_of("percent percents")
_SPEAKERS = hashes_of("i you we")  # mean something
_CALCULATES = hashes_of("calculate compute evaluate solve")
_DO, _NOT, _DON, _T, _DONT = hashes_of("do not don t dont")
_VALUES = 1 << Symbol.ZERO | 1 << Symbol.DIGIT | 1 << Symbol.CLOSE | 1 << Symbol.PERCENT  # may end a number
SYMBOLS_PER_TOKEN = 4  # that are read where the text cannot be measured first


class Literals(NamedTuple):
    """What begins at each token. Digits beyond D are dropped: callers that allow D - 1 digits see longer numbers."""

    literal: Tensor  # [N, L] bool, a literal begins in this token
    strange: Tensor  # [N, L] bool, something numeric begins that is not understood
    inside: Tensor  # [N, L] bool, a number goes on in this token
    digits: Tensor  # [N, L, D] int64, of the literal, without the point, left-aligned; PAD elsewhere
    sign: Tensor  # [N, L] int64, 1 if a minus or `negative` negates the literal
    may_negate: Tensor  # [N, L] bool, a word stands directly before the literal that may be its sign, such as `minus`
    scale: Tensor  # [N, L] int64, digits after the point
    word: Tensor  # [N, L] bool, letters stand in this token
    said: Tensor  # [N, L] bool, letters of another word than `and`
    space: Tensor  # [N, L] bool, a space stands in this token
    difference: Tensor  # [N, L] bool, the word `difference`
    names: Tensor  # [N, L, 11] bool, what words and formulas in this token name, by the bits of `names.Name`
    assigned: Tensor  # [N, L] bool, an equals sign behind a variable, as in `x = 3`
    variable: Tensor  # [N, L] bool, a letter beside an operator in words, as in `times n`
    formula: Tensor  # [N, L] int64, operators between two variables, as in `x + y`
    joined: Tensor  # [N, L] bool, a number begins behind a word such as `plus`
    first: Tensor  # [N, L] bool, a number begins a line, a sentence or a part of one
    relation: Tensor  # [N, L] bool, a symbol that compares, such as `<`, or the equals sign of an equation: `3 = 5`
    call: Tensor  # [N, L] bool, a bracket at the end of a word that names no operation: `max(`
    unit: Tensor  # [N, L] int64, the unit behind the number that begins, see `symbols`; 0 for none
    dated: Tensor  # [N, L] bool, a month stands beside the number that begins, or a time of the day: `5 pm`
    thing: Tensor  # [N, L] int64, `words.letters_hash` of a word behind it that is in no list; 0 for none
    following: Tensor  # [N, L] int64, the same of the word directly behind it, in a list or not
    lead: Tensor  # [N, L, 2] int64, the same of the word before it and of the one before that, in a list or not
    exclaimed: Tensor  # [N, L] bool, `!` stands directly behind it
    gap: Tensor  # [N, L] int64, words between it and the number before it; 0 without one
    code: Tensor  # [N, L] int64, `words.letters_hash` of the word of which this token is a part; 0 for none
    company: Tensor  # [N, L] bool, a person and `and` stand before the number: `me and 4 others`, `I and my 4 dogs`
    operator: Tensor  # [N, L] bool, a symbol that can only join operands: `+`, `*` and the like, `^`, or assigns: `-=`
    negated: Tensor  # [N, L] bool, a word such as `minus` negates a bracket, or what is named: `minus the sum of`
    modified: Tensor  # [N, L] bool, what changes the meaning of a request, such as `remainder`, `binary` or `percent`
    link: Tensor  # [N, L] bool, a word that says in which order, such as `subtracted` or `than`
    control: Tensor  # [N, L] bool, a control token, such as the header of a turn
    equals: Tensor  # [N, L] bool, an equals sign


def literals(tokens: SymbolTokens, ids: Tensor, valid: Tensor, num_digits: int) -> Literals:
    """Finds the literals of texts.

    Args:
        tokens: The symbol table.
        ids: [N, L] int64, any values.
        valid: [N, L] bool, False for padding and hidden tokens.
        num_digits: D, digits per literal. Leading zeros count.
    """
    n, length = ids.shape
    width = symbols_in(tokens, ids, valid, SYMBOLS_PER_TOKEN * length + SYMBOLS_PER_TOKEN)
    stream = stream_of(tokens, ids, valid, width)
    edge = torch.where(stream.cut, int(Symbol.UNKNOWN), int(Symbol.EDGE))
    symbol = torch.cat([edge, with_list_marks(stream.symbol)], 1)  # [N, S + 1]
    marked = tokens.literal_rules.run(symbol.flip(1))[1].flip(1)
    mark, verdict = marked[:, 1:] % VERDICT, marked // VERDICT
    digit, point = mark == int(Mark.DIGIT), mark == int(Mark.POINT)
    number = (mark > int(Mark.NONE)) & (mark <= int(Mark.SEPARATOR))
    begins = number & ~later(number, 1)
    # The verdict on a number is the nearest one before it; column i of `verdict` stands before symbol i.
    place = torch.arange(symbol.shape[1], device=ids.device)
    nearest = torch.where(verdict > 0, place, 0).cummax(1).values[:, :-1]
    verdict = torch.where(begins, verdict.gather(1, nearest), int(Verdict.NONE))
    good = (verdict > int(Verdict.NONE)) & (verdict != int(Verdict.BROKEN))
    token = torch.where(stream.symbol == int(Symbol.EDGE), length, stream.token)  # nothing is written to column L

    def count(at: Tensor) -> Tensor:
        """How often a property holds of each token's symbols, [N, L]."""
        return ids.new_zeros(n, length + 1).scatter_add(1, token, at.long())[:, :length]

    started = count(begins)
    literal = (count(good) == 1) & (started == 1)
    unread = valid & (torch.arange(length, device=ids.device) < stream.token[:, :1]) & stream.cut
    odd = mark == int(Mark.STRANGE)  # the pieces of a word are one thing
    strange = ((started > 0) & ~literal) | (count(odd & ~later(odd, 1)) > 0) | unread
    rank, decimal = _places(digit, point, begins)
    named = naming(stream.symbol, stream.named)
    start = torch.where(begins, torch.arange(width, device=ids.device), 0).cummax(1).values
    owner = torch.where(number, token.gather(1, start), length)  # the token in which a symbol's number begins
    kept = torch.cat([literal, literal.new_zeros(n, 1)], 1).gather(1, owner)
    fits = digit & kept & (rank < num_digits)
    to = torch.where(fits, owner * num_digits + rank, length * num_digits)
    digits = ids.new_full((n, length * num_digits + 1), PAD).scatter(1, to, stream.value)
    scale = ids.new_zeros(n, length + 1).scatter_add(1, owner, (decimal & kept).long())[:, :length]
    return Literals(
        literal=literal,
        strange=strange,
        inside=(count(number & (owner != token)) > 0) & (started == 0),
        digits=digits[:, :-1].view(n, length, num_digits),
        sign=(literal & (count(verdict == int(Verdict.NEGATIVE)) > 0)).long(),
        may_negate=literal & (count(verdict == int(Verdict.AFTER_OPERATOR)) > 0),
        scale=scale,
        **{name: count(there) > 0 for name, there in _marks(stream.symbol, stream.named, begins).items()},
        **_beside(stream, number, owner, length),
        modified=count(_modifies(stream)) > 0,
        names=torch.stack([count(named.names & bit > 0) > 0 for bit in Name if bit != Name.TIMES], -1),
        assigned=count(named.assigned) > 0,
        variable=count(named.variable) > 0,
        formula=count(named.operator),
    )


def _places(digit: Tensor, point: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
    """The places of digits in their numbers.

    Args:
        digit, point: [N, S] bool, the symbols that are one.
        begins: [N, S] bool, the first symbols of numbers.

    Returns:
        Of each digit, how many stand before it in its number, [N, S] int64; whether it is one behind a decimal point,
        [N, S] bool. Elsewhere the first has no meaning.
    """
    order, points = digit.cumsum(1), point.cumsum(1)
    base = torch.where(begins, order - digit.long(), 0).cummax(1).values
    pointed = torch.where(begins, points - point.long(), 0).cummax(1).values
    return order - 1 - base, digit & (points > pointed)


def _joining(symbol: Tensor) -> Tensor:
    """[N, S] bool, symbols that can only join operands: not the star of a list, nor the two of `**bold**`."""
    edge = torch.full_like(symbol[:, :1], int(Symbol.LINE))
    before, after = torch.cat([edge, symbol[:, :-1]], 1), torch.cat([symbol[:, 1:], edge], 1)
    star = symbol == int(Symbol.STAR)
    alone = (before != int(Symbol.LINE)) & (before != int(Symbol.STAR)) & (after != int(Symbol.STAR))
    signs = (symbol == int(Symbol.MINUS)) | (symbol == int(Symbol.SLASH))
    return ((_OPERATORS >> symbol) & 1 > 0) | (star & alone) | (signs & (after == int(Symbol.EQUALS)))


def _before(symbol: Tensor, x: Tensor) -> Tensor:
    """[N, S], what [N, S] says one place earlier, or two where a space stands between."""
    return torch.where(later(symbol, 1) == int(Symbol.SPACE), later(x, 2), later(x, 1))


def _beside(stream: Stream, number: Tensor, owner: Tensor, length: int) -> dict[str, Tensor]:
    """Fields of `Literals` that say which words stand beside a number, at the token in which it begins; 0 for none.

    Args:
        stream: The text.
        number: [N, S] bool, symbols of numbers.
        owner: [N, S] int64, the token in which a symbol's number begins.
        length: L.
    """
    month = ((stream.symbol == int(Symbol.MONTH)) | (stream.code == _MAY)).long()
    date = torch.stack([stream.code == word for word in _HALVES]).any(0) | month
    space = shifted(stream.symbol, -1) == int(Symbol.SPACE)
    begins, ends = number & ~later(number, 1), number & ~shifted(number, -1)
    room = month.new_zeros(month.shape[0], length + 1)
    thing = torch.where((stream.symbol == int(Symbol.LETTERS)) & (stream.named == 0), stream.code, 0)
    behind = [torch.where(space, shifted(x, -2), shifted(x, -1)) for x in (stream.unit, date, thing, stream.code)]
    behind.append((shifted(stream.symbol, -1) == int(Symbol.BANG)).long())
    ahead = [_before(stream.symbol, x) for x in (month, stream.code, stream.before, _with_person(stream).long())]
    found = [torch.where(ends, x, 0) for x in behind] + [torch.where(begins, x, 0) for x in ahead]
    starts = (stream.code != 0) & (later(stream.code, 1) == 0)
    words = starts.cumsum(1)
    since = words - later(torch.where(ends, words, -1).cummax(1).values, 1)
    found.append(torch.where(begins & (later(ends.cumsum(1), 1) > 0), since, 0))
    found = [room.scatter_add(1, owner, x)[:, :length] for x in found]
    unit, date, thing, following, bang, month, *lead, company, gap = found
    code = room.scatter_add(1, stream.token, stream.code)[:, :length]
    beside = {"unit": unit, "dated": date + month > 0, "thing": thing, "lead": torch.stack(lead, -1), "gap": gap}
    return beside | {"following": following, "company": company > 0, "code": code, "exclaimed": bang > 0}


def _with_person(stream: Stream) -> Tensor:
    """[N, S] bool, `and` directly behind a person (`me and`), and a word such as `my` directly behind that."""

    def after(x: Tensor) -> Tensor:
        return later(stream.symbol == int(Symbol.SPACE), 1) & later(x, 2)

    person, own = (torch.isin(stream.code, stream.code.new_tensor(words)) for words in (_PERSONS, _OWN))
    both = (stream.symbol == int(Symbol.AND)) & after(person)
    return both | (own & after(both))


def _marks(symbol: Tensor, named: Tensor, begins: Tensor) -> dict[str, Tensor]:
    """[N, S] bool each, for fields of `Literals` that say whether a symbol stands in a token."""
    space = later(symbol == int(Symbol.SPACE), 1)
    after_operator = space & later(symbol == int(Symbol.OPERATOR_WORD), 2)
    value = (_VALUES >> symbol) & 1 > 0
    equation = (symbol == int(Symbol.EQUALS)) & (later(value, 1) | (space & later(value, 2)))
    word = (symbol == int(Symbol.LETTERS)) & (named == 0)
    return {
        "word": (_LETTERS >> symbol) & 1 > 0,
        "said": ((_LETTERS & ~(1 << Symbol.AND)) >> symbol) & 1 > 0,
        "space": symbol == int(Symbol.SPACE),
        "difference": symbol == int(Symbol.DIFFERENCE),
        "link": symbol == int(Symbol.LINK),
        "control": symbol == int(Symbol.CONTROL),
        "equals": symbol == int(Symbol.EQUALS),
        "relation": (symbol == int(Symbol.RELATION)) | equation,
        "call": (symbol == int(Symbol.OPEN)) & later(word, 1),
        "joined": begins & after_operator,
        "first": begins & ((_CLOSES >> _before(symbol, symbol)) & 1 > 0),
        "operator": _joining(symbol),
        "negated": _negated(symbol, named),
    }


def _modifies(stream: Stream) -> Tensor:
    """[N, S] bool, what changes the meaning of a request: not `I mean` and `as an integer`, but `don't calculate`."""

    def any_of(words: tuple[int, ...], code: Tensor) -> Tensor:
        return torch.stack([code == word for word in words]).any(0)

    other = (stream.code == _INTEGER) | ((stream.code == _MEAN) & any_of(_SPEAKERS, stream.before))
    percent = (stream.symbol == int(Symbol.PERCENT)) | any_of(_PERCENT, stream.code)
    percent |= (stream.code == _CENT) & (stream.before == _PER)
    earlier = later(stream.before, 2)  # of a word behind a space: the word before the one before it
    refused = ((stream.before == _NOT) & (earlier == _DO)) | ((stream.before == _T) & (earlier == _DON))
    refused |= stream.before == _DONT
    refused &= any_of(_CALCULATES, stream.code) & (later(stream.symbol, 1) == int(Symbol.SPACE))
    return ((stream.symbol == int(Symbol.MODIFIER)) & ~other) | percent | refused


def _negated(symbol: Tensor, named: Tensor) -> Tensor:
    """[N, S] bool, opening brackets that a minus or a word negates, and `of` and the names of operations that a word
    negates: `minus the sum of`."""
    word = (symbol == int(Symbol.MINUS_WORD)) | (symbol == int(Symbol.SIGN_WORD))
    space, glue = symbol == int(Symbol.SPACE), symbol == int(Symbol.GLUE)
    near = later(space, 1) & later(word, 2)
    far = later(space, 1) & later(glue, 2) & later(space, 3) & later(word, 4)
    minus = (symbol == int(Symbol.MINUS)) | (symbol == int(Symbol.MINUS_SIGN)) | (symbol == int(Symbol.DASH))
    negates = word | minus
    spaced = later(space, 1) & later(negates, 2)
    bracket = (symbol == int(Symbol.OPEN)) & (later(negates, 1) | spaced)
    return bracket | ((symbol == int(Symbol.OF)) & near) | ((named > 0) & ~word & (near | far))
