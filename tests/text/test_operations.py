"""Functions of a user: what expressions and requests make of them, and how their faults refuse."""

import re
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

import peft_igc
from peft_igc.data.columns import label
from peft_igc.operations import sqlite_lookup
from peft_igc.text import Limits, Value, read
from peft_igc.text.operations import FUNCTIONS, register_operation, takes
from peft_igc.text.values import Reason


@pytest.fixture(autouse=True)
def restored():
    """Functions that a test registers are gone after it."""
    functions = dict(FUNCTIONS)
    yield
    FUNCTIONS.clear()
    FUNCTIONS.update(functions)


def outcome(text):
    """The value of an expression, or the reason of its refusal."""
    found = read(text)
    return found.text if isinstance(found, Value) else found.reason


def test_an_expression_calls_a_function_of_a_user():
    @peft_igc.register_operation(name="hypotenuse", operands=2)
    def hypotenuse(a, b):
        root = FUNCTIONS["sqrt"].apply(a * a + b * b)
        return root

    assert outcome("hypotenuse(3, 4) + 1 =") == "6"
    assert outcome("hypotenuse(3, 5) =") is Reason.NO_VALUE
    assert outcome("hypotenuse(3) =") is Reason.OPERANDS
    assert str(read("hypotenuse(3, 4) =").reductions[0]) == "hypotenuse(3, 4) = 5"


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (0.1, "0.1"),
        ("12.50", "12.5"),
        (Fraction(1, 4), "0.25"),
        (None, Reason.NO_VALUE),
        (float("nan"), Reason.NOT_RATIONAL),
        (float("-inf"), Reason.NOT_RATIONAL),
        ("cheap", Reason.NOT_RATIONAL),
        ("1e999999999", Reason.NOT_RATIONAL),
        (1j, Reason.NOT_RATIONAL),
        (10**2000, Reason.OVERFLOW),
    ],
)
def test_a_result_is_a_number_that_can_be_written_or_a_refusal(result, shown):
    register_operation(name="found", operands=1)(lambda a: result)
    assert outcome("found(3) =") == shown


@pytest.mark.parametrize("error", [KeyError("a"), SystemExit, KeyboardInterrupt, RecursionError])
def test_an_error_of_a_function_is_a_refusal(error):
    @register_operation(name="faulty", operands=1)
    def faulty(a):
        raise error

    assert outcome("1 + faulty(3) =") is Reason.FAILED


def test_an_error_of_a_function_is_seen_where_rows_are_made():
    @register_operation(name="faulty", operands=1)
    def faulty(a):
        raise KeyError(a)

    with pytest.raises(KeyError):
        label("faulty", ["3"], Limits())
    register_operation(name="faulty", operands=1, replace=True)(lambda a: None)
    assert label("faulty", ["3"], Limits()) == "undefined"


def test_a_call_that_does_not_end_is_left_and_others_go_on():
    going, stop = [], threading.Event()

    @register_operation(name="slow", operands=1, seconds=0.05)
    def slow(a):
        going.append(threading.current_thread())
        if a == 1:
            stop.wait()
        return a

    began = time.monotonic()
    assert outcome("slow(1) =") is Reason.TIMED_OUT
    assert outcome("slow(2) =") == "2"
    assert time.monotonic() - began < 5
    for _ in range(10):  # no more threads than are allowed wait for an end
        outcome("slow(1) =")
    assert sum(thread.is_alive() for thread in set(going)) <= 8
    stop.set()


def test_a_function_is_called_from_many_threads_at_once():
    register_operation(name="twice", operands=1)(lambda a: 2 * a)
    with ThreadPoolExecutor(12) as threads:
        found = [*threads.map(lambda n: outcome(f"twice({n}) ="), range(600))]
    assert found == [str(2 * n) for n in range(600)]


def test_what_cannot_be_registered_is_refused_with_the_cure():
    for names, why in ((("none", "sqrt"), "is not free"), (("Two", "a_b", ""), "has other characters than a to z")):
        for name in names:
            with pytest.raises(ValueError, match=f"`name={name!r}` {why}"):
                register_operation(name=name)
    for operands in ((3, 2), 0, "2", (1, 2, 3), True):
        with pytest.raises(ValueError, match=f"`operands={re.escape(repr(operands))}` is not in 1..64"):
            register_operation(name="odd", operands=operands)
    for function, operands, count in (
        (lambda a: a, 2, 2),
        (lambda a, b: a, 1, 1),
        (lambda a, b: a, (2, None), 64),
        (lambda a, b, *more: a, (1, 3), 1),
        (lambda a, *, b: a, 1, 1),
    ):
        with pytest.raises(ValueError, match=rf"`wrong` .* cannot be called with {count} operands?\. Change"):
            register_operation(name="wrong", operands=operands)(function)
    with pytest.raises(ValueError, match=r"`wrong` is 3, which is no function"):
        register_operation(name="wrong", operands=1)(3)
    assert "wrong" not in FUNCTIONS
    without_brackets = r"`<lambda>` has no brackets.*`@peft_igc.register_operation\(name=\"<lambda>\"\)`"
    with pytest.raises(ValueError, match=without_brackets):
        peft_igc.register_operation(lambda a: a / 2)
    register_operation(name="any", operands=(2, None))(max)
    assert (takes("any"), takes("+"), takes("sqrt"), takes("percent"), takes("product")) == (0, 2, 1, 2, 0)


def test_phrasings_have_a_slot_for_each_operand():
    good = [(1, "half of {a}"), (2, "{b} from {a}"), (2, "{a}, {b} and {a}"), ((2, None), "all of {list}, {things}")]
    for operands, text in [*good[:3], ((2, None), "all of {list}"), ((1, 3), "{a} and {b}")]:
        register_operation(name="phrased", operands=operands, phrasings=[text])
    bad = [(2, "twice {a}"), (1, "{a} and {b}"), (2, "{a} and {c}"), (2, "all of {list}"), (2, "both"), good[3]]
    for operands, text in bad:
        with pytest.raises(ValueError, match=rf"phrasing {re.escape(repr(text))} of `phrased` .*Write it with"):
            register_operation(name="phrased", operands=operands, phrasings=[text])
    with pytest.raises(ValueError, match="`phrasings='of {a}'` is one text. Pass a list of texts"):
        register_operation(name="phrased", operands=1, phrasings="of {a}")


def test_a_name_is_taken_by_its_function_until_it_is_replaced():
    def made():
        return lambda a: 2 * a

    register_operation(name="twice", operands=1)(made())
    register_operation(name="twice", operands=1, seconds=2)(made())  # the same function, as a notebook registers it
    with pytest.raises(ValueError, match="`twice` is the name of another function.*or `replace=True`"):
        register_operation(name="twice", operands=1)(lambda a: a + a)
    assert FUNCTIONS["twice"].seconds == 2
    register_operation(name="twice", operands=1, replace=True)(lambda a: 3 * a)
    assert outcome("twice(2) =") == "6"

    def times(factor):
        return lambda a: factor * a

    register_operation(name="times", operands=1)(times(2))
    with pytest.raises(ValueError, match="`times` is the name of another function"):
        register_operation(name="times", operands=1)(times(3))


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table articles (number text primary key, price text)")
        connection.executemany("insert into articles values (?, ?)", [("48213", "12.50"), ("7", "0.99")])
    connection.close()
    return path


def test_a_look_up_reads_a_database_and_refuses_a_key_that_is_not_there(prices):
    look_up = sqlite_lookup(prices, "select price from articles where number = ?")
    register_operation(name="price", operands=1, strings=True)(look_up)
    assert outcome("price(48213) =") == "12.5"
    assert outcome("3 * price(48213) + price(7) =") == "38.49"
    assert outcome("price(48214) =") is Reason.NO_VALUE
    assert outcome("price(1/3) =") is Reason.NO_VALUE
    assert look_up("1' or '1'='1") is None


def test_a_look_up_cannot_change_the_database(prices):
    writing = sqlite_lookup(prices, "delete from articles where number = ?")
    register_operation(name="gone", operands=1, strings=True)(writing)
    assert outcome("gone(7) =") is Reason.FAILED
    look_up = sqlite_lookup(prices, "select price from articles where number = ?")
    assert look_up("7") == "0.99"


def test_a_look_up_that_cannot_work_is_refused_at_once(prices, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"does not exist. Pass the path of a SQLite database"):
        sqlite_lookup(tmp_path / "none.sqlite", "select 1")
    with pytest.raises(ValueError, match=r"'select price from goods where number = \?' cannot be run on"):
        sqlite_lookup(prices, "select price from goods where number = ?")
