"""Promises of `check`: what is true, what is untrue with which value, and what is left alone."""

import gzip
import json
import random
import time
from fractions import Fraction

from peft_igc import cli
from peft_igc.data.files import check_file
from peft_igc.text import Reason, Verdict, check


def test_a_claim_has_its_place_and_says_whether_it_is_rounded():
    text = "Each pays 10 / 3 = $3.33 now."
    (claim,) = check(text)
    assert text[slice(*claim.span)] == "10 / 3 = $3.33"
    assert (claim.number, claim.value, claim.rounded, claim.reason) == ("$3.33", "3.333333", True, Reason.NONE)
    (other,) = check("200 + 10% = 220")
    assert (other.value, other.reason) == (None, Reason.PERCENT_SUM)


def test_what_states_a_result_and_is_not_read_is_counted():
    names = ("In a4 + 3 = 8", "item3 + 4 = 8")
    for text in ("4 * 3,50 = 14", "5 more toys + 8 old ones = 11", "5 percent * 9 = 2", "5 times -3 = -15", *names):
        (claim,) = check(text)
        assert (claim.verdict, claim.value) == (Verdict.NOT_UNDERSTOOD, None)
    assert [check(text) for text in ("3 + 4 != 8", "On 5 - 6 May. x = 5", "x = 5 m")] == [[], [], []]
    found = [check(f"assert 3 + 4 == {number}")[0] for number in (7, 8)]
    assert [(one.verdict, one.span) for one in found] == [(Verdict.TRUE, (7, 17)), (Verdict.NOT_UNDERSTOOD, (7, 17))]


def test_every_changed_digit_of_a_result_is_found():
    rng = random.Random(3)
    for _ in range(300):
        a, b, symbol = rng.randint(2, 9999), rng.randint(2, 9999), rng.choice("+-*")
        result = str(eval(f"{a} {symbol} {b}"))
        at = rng.choice([i for i, char in enumerate(result) if char.isdigit()])
        wrong = result[:at] + rng.choice([d for d in "123456789" if d != result[at]]) + result[at + 1 :]
        (claim,) = check(f"There are {a} {symbol} {b} = {result} of them")
        assert claim.verdict == Verdict.TRUE
        (claim,) = check(f"There are {a} {symbol} {b} = {wrong} of them")
        assert (claim.verdict, Fraction(claim.value)) == (Verdict.UNTRUE, Fraction(result))


def test_a_long_text_costs_time_in_proportion_to_its_length():
    text = "word 3 + 4 = 7. " * 3_000
    spent = time.process_time()
    check(text[: len(text) // 8])
    least = time.process_time() - spent
    assert len(check(text)) == 3_000
    assert time.process_time() - spent < 40 * least  # eight times as long, and once more


def test_files_of_every_kind_are_read_with_their_places(tmp_path):
    (tmp_path / "a.md").write_text("# Sum\n\nSo 3 * 4 = 13.\n")
    rows = [{"id": 1}, {"messages": [{"content": "hi\nSo 3 * 4 = 13."}]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.csv").write_text('id,note\n1,ok\n2,"So 3 * 4 = 13."\n')
    (tmp_path / "b.csv").write_text('"So 3 * 4 = 13.",\n"a\nb",c\n')  # without names
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("So 3 * 4 = 13.")
    expected = {
        "a.md": (3, ""),
        "a.jsonl": (2, "messages.0.content"),
        "a.csv": (3, "note"),
        "b.csv": (1, "1"),
        "a.txt.gz": (1, ""),
    }
    for name, place in expected.items():
        (found,) = check_file(tmp_path / name)
        assert ((found.line, found.field), found.claim.span) == (place, (3, 13))


def test_the_command_ends_with_1_where_a_calculation_is_untrue(tmp_path, capsys):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("3 * 4 = 12\nx = 5\n")
    bad.write_text("3 * 4 = 13\n5 + 200 + 10% = 220\n")
    assert cli.main(["check", str(good)]) == 0
    assert capsys.readouterr() == ("", "1 calculations: 1 true, 0 untrue, 0 not understood\n")
    assert cli.main(["check", str(good), str(bad)]) == 1
    shown = capsys.readouterr()
    assert shown.out == f"{bad}:1:1: untrue: 3 * 4 = 13 (the value is 12)\n"
    assert shown.err == "3 calculations: 1 true, 1 untrue, 1 not understood (shown with --all)\n"
    assert cli.main(["check", "--json", str(bad)]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["verdict"], first["value"], first["line"], first["column"]) == ("untrue", "12", 1, 1)
    assert (second["verdict"], second["reason"]) == ("not_understood", "percent_sum")


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path, capsys):
    cut = gzip.compress(b"3 + 4 = 8" * 1000, mtime=0)[:40]
    for name, content, message in (
        ("bad.jsonl", b'{"a": "3 + 4 = 8"}\n{"a": \n', "line 2: not valid JSON"),
        ("latin.txt", "3 + 4 = 8 für".encode("latin-1"), "not in UTF-8"),
        ("cut.txt.gz", cut, "not a complete gzip file"),
    ):
        (tmp_path / name).write_bytes(content)
        assert cli.main(["check", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "good.txt").write_text("3 * 4 = 13")
    missing = [str(tmp_path / "none.txt"), str(tmp_path)]
    assert cli.main(["check", str(tmp_path / "good.txt"), *missing]) == 2
    out, error = capsys.readouterr()
    assert f"`{missing[0]}`, `{missing[1]}`: no such file, or a folder, so nothing was checked. Pass" in error
    assert not out
