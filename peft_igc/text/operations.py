"""Operations: one table of operators and one of named functions, on exact rationals.

In: fractions. Out: a fraction, or a `Refused`. Expressions call a function by its name here, and by those that
`languages/*.toml` have for it. `register_operation` adds a function of a user. Each of its calls runs in a thread, so
that one that does not end is left.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import operator
import re
import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from fractions import Fraction
from numbers import Rational
from typing import Any, NamedTuple

from .rounding import places_of
from .values import Limits, Reason, Refused, written


_MOST_FACTORIAL = 400  # it has fewer than `MOST_BITS` bits
_MOST_CALLS = 8
MOST_BITS = 4096  # of a numerator or denominator; some thirty times those of the longest operands


class Operator(NamedTuple):
    """An operator between two operands. A sign binds as `SIGN`, between a product and a power."""

    precedence: int
    apply: Callable[[Fraction, Fraction, Limits], Fraction]
    from_right: bool = False


def _within(slots: threading.Semaphore, seconds: float, call: Callable[[], Fraction | None]) -> Fraction | None:
    """The result of a call in a thread of its own, which is left if it takes too long.

    Raises:
        Refused: It takes too long, or has an error, or no slot becomes free.
    """
    answer: Future[Fraction | None] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # also `SystemExit`: nothing of a user's function ends a forward pass
            answer.set_exception(error)
        finally:
            slots.release()

    if not slots.acquire(timeout=seconds):
        raise Refused(Reason.TIMED_OUT)
    threading.Thread(target=run, daemon=True).start()  # an executor would wait for it when the process ends
    try:
        error = answer.exception(timeout=seconds)
    except TimeoutError:
        raise Refused(Reason.TIMED_OUT) from None
    if error is not None:
        raise error if isinstance(error, Refused) else Refused(Reason.FAILED) from error
    return answer.result()


@dataclasses.dataclass(frozen=True)
class Function:
    """A named function of `fewest` to `most` arguments."""

    apply: Callable[..., Fraction | None]  # of the arguments; None where they have no exact value
    fewest: int = 1
    most: int = 1
    symbols: str = ""  # operations that a request may name and mean this function, such as `/` of a remainder
    # requests with the slots `{a}`, `{b}` and so on in their order, or `{list}`, for training rows
    phrasings: tuple[str, ...] = ()
    # `slots`, `seconds`: of a user's function, whose calls run in threads: how many may go on at once, and the longest
    # time of one.
    slots: threading.Semaphore | None = None
    seconds: float = 0.0
    function: Callable[..., Any] | None = None  # what a user registered

    def value(self, arguments: Sequence[Fraction], guarded: bool = True) -> Fraction:
        """The value of the function; raises `Refused` if it takes another number of arguments, or has no value for
        these, or one of too many digits.

        Unless `guarded`, errors of a user's function are seen and its time is not limited, as where rows are made.
        """
        if not self.fewest <= len(arguments) <= self.most:
            raise Refused(Reason.OPERANDS)
        if self.slots is None or not guarded:
            value = self.apply(*arguments)
        else:
            value = _within(self.slots, self.seconds, lambda: self.apply(*arguments))
        if value is None:
            raise Refused(Reason.NO_VALUE)
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
            raise Refused(Reason.OVERFLOW)
        return value


def _over(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Refused(Reason.UNDEFINED)
    return a / b


def _divide(a: Fraction, b: Fraction, limits: Limits) -> Fraction:
    mode, quotient = limits.rounding.mode, _over(a, b)
    if mode in ("floor", "trunc"):
        return Fraction(math.floor(quotient) if mode == "floor" else math.trunc(quotient))
    return quotient


def _power(a: Fraction, b: Fraction, limits: Limits) -> Fraction:
    if b.denominator != 1 or b < 0:
        raise Refused(Reason.EXPONENT)
    if a == 0 and b == 0:
        raise Refused(Reason.UNDEFINED)
    if b * max(a.numerator.bit_length() - 1, a.denominator.bit_length() - 1) > MOST_BITS:
        raise Refused(Reason.OVERFLOW)
    return Fraction(a ** int(b))


def _root(degree: int) -> Callable[[Fraction], Fraction | None]:
    """The square or cube root, if it is rational."""

    def applied(value: Fraction) -> Fraction | None:
        size = abs(value)
        root = Fraction(_whole_root(size.numerator, degree), _whole_root(size.denominator, degree))
        if root**degree != size or (value < 0 and degree == 2):
            return None
        return root if value >= 0 else -root

    return applied


def _whole_root(value: int, degree: int) -> int:
    """The largest integer whose power is at most a value, by Newton's method."""
    root = 1 << -(-value.bit_length() // degree)
    while value and (smaller := ((degree - 1) * root + value // root ** (degree - 1)) // degree) < root:
        root = smaller
    return root if value else 0


def _factorial(value: int) -> int | None:
    if value > _MOST_FACTORIAL:
        raise Refused(Reason.OVERFLOW)
    return math.factorial(value) if value >= 0 else None


def _of_integers(function: Callable[..., int | None]) -> Callable[..., Fraction | None]:
    """A function of integers, which has no value for other numbers."""

    def applied(*arguments: Fraction) -> Fraction | None:
        found = None if any(one.denominator > 1 for one in arguments) else function(*map(int, arguments))
        return None if found is None else Fraction(found)

    return applied


SIGN = 3
OPERATORS: dict[str, Operator] = {
    "+": Operator(1, lambda a, b, _: a + b),
    "-": Operator(1, lambda a, b, _: a - b),
    "*": Operator(2, lambda a, b, _: a * b),
    "/": Operator(2, _divide),
    "of": Operator(2, lambda a, b, _: a * b),  # after a per cent sign only
    "^": Operator(4, _power, from_right=True),
}
MANY = 64
FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(_root(2)),
    "abs": Function(abs),
    "floor": Function(lambda a: Fraction(math.floor(a))),
    "ceil": Function(lambda a: Fraction(math.ceil(a))),
    "min": Function(min, 2, MANY),
    "max": Function(max, 2, MANY),
    "add": Function(operator.add, 2, 2),  # as spreadsheets have them
    "minus": Function(operator.sub, 2, 2),
    "multiply": Function(operator.mul, 2, 2),
    "divide": Function(_over, 2, 2),
    "sum": Function(lambda *all: sum(all, Fraction()), 2, MANY, "+"),
    "mean": Function(lambda *all: sum(all, Fraction()) / len(all), 2, MANY),
    "median": Function(lambda *all: Fraction(statistics.median(all)), 2, MANY),
    "gcd": Function(_of_integers(math.gcd), 2, MANY, "/"),
    "lcm": Function(_of_integers(math.lcm), 2, MANY, "*"),
    "mod": Function(lambda a, b: a - b * math.floor(_over(a, b)), 2, 2, "/"),
    "factorial": Function(_of_integers(_factorial)),
    "cbrt": Function(_root(3)),
    # By these names alone: no language has words for them. Two operands are in order, more in that of the text.
    "count": Function(lambda *all: Fraction(len(all)), 2, MANY),
    "range": Function(lambda *all: max(all) - min(all), 2, MANY, "-"),
    "product": Function(lambda a, b, c: a * b * c, 3, 3, "*"),
    "square": Function(lambda a: a * a, symbols="*"),
    "cube": Function(lambda a: a * a * a, symbols="*"),
    "power": Function(lambda a, b: _power(a, b, Limits()), 2, 2),
    "percent": Function(lambda a, b: a * b / 100, 2, 2, "*"),
    "increased": Function(lambda a, b: a * (100 + b) / 100, 2, 2, "+"),
    "reduced": Function(lambda a, b: a * (100 - b) / 100, 2, 2, "-"),
    "share": Function(lambda whole, part: _over(100 * part, whole), 2, 2, "/"),
    "growth": Function(lambda before, after: _over(100 * (after - before), before), 2, 2, "-"),
    "decline": Function(lambda before, after: _over(100 * (before - after), before), 2, 2, "-"),
    "perimeter": Function(lambda a, b: 2 * (a + b), 2, 2, "*"),
    "proportion": Function(lambda a, b, c: _over(b * c, a), 3, 3),
    "inversely": Function(lambda a, b, c: _over(a * b, c), 3, 3),
}
_NAME = re.compile("[a-z]+")
_DECIMAL = re.compile(r"[-+]?(?=\.?[0-9])[0-9]{0,1300}(?:\.[0-9]{0,1300})?(?:[eE][-+]?[0-9]{1,3})?")
_TAKEN = frozenset({*FUNCTIONS, "none", "expression", "of"})


def takes(operation: str) -> int:
    """How many numbers a network points at for an operation: 1 or 2 in the operation's order, or 0 for a set of them
    in the order of the text."""
    function = FUNCTIONS.get(operation)
    if function is None:
        return 2
    return function.most if function.fewest == function.most <= 2 else 0


def register_operation(
    *given: Any,
    name: str = "",
    operands: int | tuple[int, int | None] = 2,
    phrasings: Sequence[str] = (),
    strings: bool = False,
    seconds: float = 1.0,
    replace: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a Python function to the operations; a decorator.

    Expressions in symbols can call it by its name, `hypotenuse(3, 4) =`. Requests in words need an adapter that has
    the name in `IGCConfig(operations=...)` and was trained with rows of it. An error of the function, a result that is
    no finite rational number and a call that takes too long are refusals. None is one as well: no value.

    Args:
        given: nothing; a decorator without brackets is refused.
        name: letters a to z.
        operands: how many, or the fewest and the most of them; None for up to `MANY`.
        phrasings: requests for training rows, with a slot `{a}`, `{b}` or `{c}` for each operand, or `{list}` where
            their number is not fixed.
        strings: whether the function takes its operands as text, such as `"48213"`, instead of `Fraction`s.
        seconds: the longest time of a call. At most `_MOST_CALLS` of a function run at once, also of those that do
            not end.
        replace: whether another function of this name that was registered before is replaced.

    Raises:
        ValueError: The name is not free, there are no such numbers of operands, or the function or a phrasing does not
            have them.
    """
    if given:
        own = getattr(given[0], "__name__", "name")
        raise ValueError(
            f'The decorator of `{own}` has no brackets. Write `@peft_igc.register_operation(name="{own}")`, with '
            "`operands=` unless it takes two."
        )
    if not _NAME.fullmatch(name) or name in _TAKEN:
        why = "is not free" if name in _TAKEN else "has other characters than a to z"
        raise ValueError(f"`name={name!r}` {why}. Choose another name.")
    fewest, most = _numbers_of_operands(operands)
    _check_phrasings(name, phrasings, fewest, most)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _check_operands(name, function, {fewest, most})
        known = FUNCTIONS.get(name)
        if known is not None and not replace and _definition(known.function) != _definition(function):
            raise ValueError(
                f"`{name}` is the name of another function that was registered before. Choose another name, or "
                "`replace=True`."
            )
        apply, slots = _exact(function, strings), threading.Semaphore(_MOST_CALLS)
        FUNCTIONS[name] = Function(apply, fewest, most, "+-*/", tuple(phrasings), slots, seconds, function)
        return function

    return register


def _numbers_of_operands(operands: Any) -> tuple[int, int]:
    """The fewest and the most operands that `register_operation` is given."""
    both = tuple(operands) if isinstance(operands, tuple | list) else (operands, operands)
    if len(both) == 2 and both[1] is None:
        both = (both[0], MANY)
    if len(both) != 2 or {*map(type, both)} != {int} or not 1 <= both[0] <= both[1] <= MANY:
        raise ValueError(f"`operands={operands!r}` is not in 1..{MANY}. Give a number such as 2, or (2, None).")
    return both


def _check_phrasings(name: str, phrasings: Sequence[str], fewest: int, most: int) -> None:
    """Refuses phrasings whose slots are not those of the operands."""
    if isinstance(phrasings, str):
        raise ValueError(f"`phrasings={phrasings!r}` is one text. Pass a list of texts.")
    for text in phrasings:
        slots = set(re.findall(r"\{(.*?)\}", text))
        listed = fewest < most and slots == {"list"}
        if not listed and not (fewest <= len(slots) <= most and slots == set("abc"[: len(slots)])):
            wanted = "`{list}`, or " * (fewest < most) + ", ".join(f"`{{{slot}}}`" for slot in "abc"[:most])
            raise ValueError(f"The phrasing {text!r} of `{name}` lacks or has other slots. Write it with {wanted}.")


def _check_operands(name: str, function: Any, counts: set[int]) -> None:
    """Refuses a function that cannot be called with some numbers of operands."""
    if not callable(function):
        raise ValueError(f"`{name}` is {function!r}, which is no function. Decorate a function.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions of C, such as `max`
        return
    for count in sorted(counts):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            raise ValueError(
                f"The function of `{name}` has the parameters `{signature}`, so it cannot be called with {count} "
                f"operand{'s' if count > 1 else ''}. Change its parameters or `operands=`."
            ) from None


def _definition(function: Any) -> Any:
    """The same for two functions that a repeated definition makes; of one with variables from outside, itself."""
    code = getattr(function, "__code__", None)
    return function if code is None or function.__closure__ else (code, function.__defaults__)


def _exact(function: Callable[..., Any], strings: bool) -> Callable[..., Fraction | None]:
    """A user's function on fractions. Floats are taken as they are written, `0.1` as one tenth."""

    def apply(*arguments: Fraction) -> Fraction | None:
        if strings and any(places_of(one) is None for one in arguments):
            return None
        found = function(*(map(written, arguments) if strings else arguments))
        if found is None or isinstance(found, Rational):
            return None if found is None else Fraction(found)
        if not _DECIMAL.fullmatch(text := str(found).strip()):
            raise Refused(Reason.NOT_RATIONAL)
        return Fraction(text)

    return apply
