"""Promises of `dataset`, `arithmetic`, `bigbench`, `templates`: true, reproducible rows, none of them a test item."""

import collections
import itertools
import json
import pickle
import random
import re
import subprocess
import sys

import pytest

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import (
    GROUPS,
    bigbench_items,
    bigbench_size,
    bigbench_test_set,
    load_bigbench,
    parse_question,
    random_divisor,
)
from peft_igc.data.columns import check_columns
from peft_igc.data.dataset import igc_features, to_dataset, to_iterable_dataset
from peft_igc.data.files import read_jsonl
from peft_igc.data.mixture import Mixture
from peft_igc.data.wording.requests import BIGBENCH
from peft_igc.data.wording.templates import PLAIN, TEMPLATES, Templates
from peft_igc.data.wording.words import UNABLE


ORDINARY = Mixture(none=0, overflow=0, undefined=0, inexact=0)
WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication", "/": "division"}


def triple(row):
    (a, b) = row["igc_operands"]
    return int(a), row["igc_operator"], int(b)


def exact(a, operator, b):
    """Python's own arithmetic, without the package."""
    if operator == "/":
        quotient, remainder = divmod(a, b)
        assert remainder == 0
        return quotient
    return {"+": a + b, "-": a - b, "*": a * b}[operator]


def by_result(rows):
    """Rows by status name; "ok" for a number, "none" for no arithmetic."""
    found = collections.defaultdict(list)
    for row in rows:
        result = row["igc_result"]
        found["none" if result is None else result if result.isalpha() else "ok"].append(row)
    return found


def digits(number):
    return len(str(abs(int(number))))


# ---- the BIG-bench task ----


@pytest.mark.parametrize("group", GROUPS)
def test_bigbench_items_have_the_task_s_form_and_are_right(group):
    n = min(300, bigbench_size(group))
    items = bigbench_items(group, n, seed=3)
    assert len({triple(item) for item in items}) == n
    size, name = int(group[0]), group.split("_")[2]
    for item in items:
        a, operator, b = triple(item)
        assert NAMES[operator] == name
        assert item["prompt"] == f"What is {a} {WORDS[operator]} {b}?"
        assert item["target"] == item["igc_result"] == str(exact(a, operator, b))
        assert item["group"] == group
        assert digits(a) == size
        assert operator == "/" or digits(b) == size
    if name == "subtraction":
        assert {item["target"].startswith("-") for item in items} == {True, False}


def test_bigbench_has_twenty_groups():
    assert len(set(GROUPS)) == 20
    assert set(GROUPS) == {f"{d}_digit_{name}" for d in range(1, 6) for name in NAMES.values()}


def test_bigbench_one_digit_groups_are_complete():
    pairs = set(itertools.product(range(10), repeat=2))
    for operator in "+-*":
        items = bigbench_items(f"1_digit_{NAMES[operator]}", 100)
        assert {(a, b) for a, _, b in map(triple, items)} == pairs
    divisions = {(a, b) for a, _, b in map(triple, bigbench_items("1_digit_division", 23))}
    assert divisions == {(a, b) for a, b in pairs if b and a and a % b == 0}


def test_bigbench_sizes_are_counted_right():
    for size in (1, 2, 3):
        numbers = range(10 ** (size - 1), 10**size)
        divisions = sum(a % b == 0 for a in numbers for b in range(1, a + 1))
        assert bigbench_size(f"{size}_digit_division") == divisions
    assert bigbench_size("2_digit_addition") == 90 * 90


def test_bigbench_test_set_takes_what_there_is_and_repeats_nothing():
    items = bigbench_test_set()
    counts = collections.Counter(item["group"] for item in items)
    assert counts == {g: 23 if g == "1_digit_division" else 100 if g.startswith("1_digit") else 200 for g in GROUPS}
    assert len({triple(item) for item in items}) == len(items) == 3523


def test_bigbench_items_depend_on_the_seed_only():
    assert bigbench_test_set(20, seed=1) == bigbench_test_set(20, seed=1)
    assert bigbench_test_set(20, seed=1) != bigbench_test_set(20, seed=2)
    # On every machine: these numbers are the same everywhere, or results cannot be compared.
    prompts = [item["prompt"] for item in bigbench_items("5_digit_division", 2, seed=0)]
    assert prompts == ["What is 66743 divided by 31?", "What is 48313 divided by 48313?"]


def test_bigbench_refuses_unknown_groups_and_more_items_than_there_are():
    for group in ("6_digit_addition", "0_digit_addition", "addition", "2_digit_addition_"):
        with pytest.raises(ValueError, match=f"The group '{group}' is unknown: groups are `1_digit_addition` to"):
            bigbench_items(group, 1)
    with pytest.raises(ValueError, match="`n=24` is too many: the group `1_digit_division` has 23 different items"):
        bigbench_items("1_digit_division", 24)


def test_a_random_divisor_is_any_divisor_with_the_same_chance():
    rng = random.Random(0)
    counts = collections.Counter(random_divisor(360, rng) for _ in range(24_000))
    assert set(counts) == {d for d in range(1, 361) if 360 % d == 0}
    assert 800 < min(counts.values()) <= max(counts.values()) < 1200
    assert {random_divisor(99991, rng) for _ in range(50)} == {1, 99991}  # a prime
    assert {random_divisor(1, rng) for _ in range(5)} == {1}
    for number in (999_983 * 2, 997**2 * 1009, 10**39 + 7, 2**100):
        assert all(number % random_divisor(number, rng) == 0 for _ in range(50))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("What is 0 plus 1?", ("0", "+", "1")),
        ("\nQ: What is 12 divided by 4?\nA: ", ("12", "/", "4")),
        ("What is -3 minus -5?", ("-3", "-", "-5")),
        ("What is 1 plus 1?\n2\nWhat is 2 plus 2?", None),
        ("What is 1 plus one?", None),
        ("What is 1.5 plus 1?", None),
    ],
)
def test_a_bigbench_question_is_found_in_a_text(text, question):
    assert parse_question(text) == question


# ---- phrasings ----


@pytest.mark.parametrize("operator", TEMPLATES)
def test_there_are_thirty_phrasings_of_each_operation_and_each_names_both_operands_once(operator):
    phrasings = TEMPLATES[operator]
    assert len(phrasings) == len(set(phrasings)) >= 30
    assert BIGBENCH[operator] in phrasings
    for phrasing in phrasings:
        text = phrasing.format(a=90017, b=2663, name="Ida", thing="pens")
        assert re.findall("[0-9]+", text) in (["90017", "2663"], ["2663", "90017"])


def test_phrasings_that_name_the_second_operand_first_are_known_ones():
    """Operands stand in the calculator's order, so each of these was read by a person: a new one must be, too."""
    reversed_ones = {
        operator: {t for t in TEMPLATES[operator] if t.index("{b}") < t.index("{a}")}
        for operator in "-/"
    }
    assert reversed_ones == {
        "-": {
            "Subtract {b} from {a}.",
            "Subtract the number {b} from {a}.",
            "Take {b} away from {a}.",
            "Take {b} from {a}.",
            "Deduct {b} from {a}.",
            "Please subtract {b} from {a}.",
            "Can you subtract {b} from {a}?",
            "What do you get if you subtract {b} from {a}?",
            "What is left if you take {b} away from {a}?",
            "Which number is {b} less than {a}?",
        },
        "/": {
            "How many times does {b} go into {a}?",
            "How often does {b} fit into {a}?",
            "With {b} {thing} in every bag, how many bags does {name} need for {a} {thing}?",
            "{b} tables get {a} {thing} in equal parts. How many {thing} does {name} put on each?",
        },
    }


def test_no_text_without_arithmetic_reads_like_a_phrasing_of_arithmetic():
    fields = {"a": "[0-9]+", "b": "[0-9]+", "name": "[A-Z][a-z]+", "thing": "[a-z]+"}
    parts = re.compile(r"\\\{(\w+)\\\}")
    patterns = [
        parts.sub(lambda match: fields[match[1]], re.escape(phrasing))
        for phrasings in TEMPLATES.values()
        for phrasing in phrasings
    ]
    prompts = [
        row["prompt"]
        for row in ArithmeticRows(
            mixture=Mixture(none=1, overflow=0, undefined=0, inexact=0), conversational=False
        ).take(2000)
    ]
    assert re.fullmatch(patterns[0], "What is 12 plus 3?")
    assert not [prompt for prompt in prompts for pattern in patterns if re.fullmatch(pattern, prompt)]


# ---- training rows ----


def test_rows_are_reproducible_endless_and_depend_on_the_seed():
    rows = ArithmeticRows(seed=5)
    assert rows.take(200) == list(itertools.islice(rows, 200)) == ArithmeticRows(seed=5).take(300)[:200]
    assert rows.take(200) != ArithmeticRows(seed=6).take(200)
    assert pickle.loads(pickle.dumps(rows)).take(200) == rows.take(200)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_digits": 1, "num_digits": 1},
        {"max_digits": 12, "num_digits": 12, "result_digits": 20},
        {"max_digits": 5, "num_digits": 5, "result_digits": 6},
        {"max_digits": 40, "num_digits": 40, "result_digits": 80},
        {"division": "floor", "mixture": Mixture(negative=0.5)},
        {"division": "trunc", "mixture": Mixture(negative=0.5)},
        {
            "operations": ("*", "+"),
            "mixture": Mixture(none=0, overflow=1, undefined=0, inexact=0),
            "result_digits": 10,
        },
        {"operations": ("/",), "mixture": Mixture(undefined=0.4, inexact=0.4)},
        {"operations": ("-",), "mixture": Mixture(undefined=0.4, inexact=0.4)},
    ],
)
def test_every_row_passes_the_check_of_its_columns(settings):
    rows = ArithmeticRows(seed=1, **settings)
    for index, row in enumerate(rows.take(3000)):
        (step,) = check_columns(
            row, rows.num_digits, rows.result_digits, rows.operations, rows.division, where=f"row {index}"
        )
        completion = row["completion"][0]["content"]
        if step.result is not None:
            assert completion == step.result
        elif step.operator != "none":
            assert completion == UNABLE
        if step.operands is not None:
            numbers = re.findall("[0-9]+", row["prompt"][-1]["content"])
            assert sorted(numbers) == sorted(number.lstrip("-") for number in row["igc_operands"])


def test_results_are_those_of_python_s_own_arithmetic():
    for row in ArithmeticRows(mixture=Mixture(none=0, overflow=0, undefined=0, inexact=0, negative=0.3)).take(5000):
        assert row["igc_result"] == str(exact(*triple(row)))


def test_the_mixture_is_kept():
    n = 20_000
    mixture = Mixture(none=0.2, overflow=0.1, undefined=0.05, inexact=0.03, negative=0.25, bigbench=0.5, system=0.4)
    rows = ArithmeticRows(mixture=mixture).take(n)
    found = by_result(rows)
    for name in ("none", "overflow", "undefined", "inexact"):
        assert len(found[name]) / n == pytest.approx(getattr(mixture, name), abs=0.01)
    ordinary = found["ok"]
    negative = sum(any(number.startswith("-") for number in row["igc_operands"]) for row in ordinary)
    assert negative / len(ordinary) == pytest.approx(0.25, abs=0.015)
    asked = sum(
        re.fullmatch(r"What is -?\d+ [a-z ]+ -?\d+\?", row["prompt"][-1]["content"]) is not None for row in ordinary
    )
    assert asked / len(ordinary) == pytest.approx(0.5 + 0.5 / 40, abs=0.02)
    assert sum(row["prompt"][0]["role"] == "system" for row in rows) / n == pytest.approx(0.4, abs=0.015)
    operators = collections.Counter(row["igc_operator"] for row in ordinary)
    assert max(operators.values()) < 1.1 * min(operators.values())


def test_fractions_of_zero_give_no_such_row():
    assert set(by_result(ArithmeticRows(mixture=ORDINARY).take(5000))) == {"ok"}
    rows = ArithmeticRows(mixture=Mixture(negative=0)).take(5000)
    assert not [row for row in by_result(rows)["ok"] if any(n.startswith("-") for n in row["igc_operands"])]


def test_lengths_are_equal_and_mixed_and_zeros_and_negative_results_occur():
    rows = [row for row in ArithmeticRows(mixture=ORDINARY).take(10_000) if row["igc_operator"] != "/"]
    lengths = collections.Counter(tuple(map(digits, row["igc_operands"])) for row in rows)
    assert set(lengths) == set(itertools.product(range(1, 6), repeat=2))
    equal = sum(count for (a, b), count in lengths.items() if a == b)
    assert equal / len(rows) == pytest.approx(0.6, abs=0.03)  # half, and a fifth of the others
    for operator in "+-*":
        operands = [row["igc_operands"] for row in rows if row["igc_operator"] == operator]
        assert {0, 1} <= {
            side for pair in operands for side in (0, 1) if pair[side] == "0" and digits(pair[1 - side]) > 1
        }
    assert any(row["igc_result"].startswith("-") for row in rows)


def test_divisions_come_from_two_distributions():
    rows = ArithmeticRows(operations=("/",), mixture=ORDINARY).take(10_000)
    pairs = [(a, b) for a, _, b in map(triple, rows)]
    assert {digits(a) for a, _ in pairs} == {1, 2, 3, 4, 5}
    # Divisors of large dividends are small or large; quotient times divisor has all lengths of divisors alike.
    five = [(a, b) for a, b in pairs if digits(a) == 5]
    lengths = collections.Counter(digits(b) for _, b in five)
    assert min(lengths.values()) > len(five) / 10
    assert any(a == 0 for a, _ in pairs)
    assert sum(b == 1 for _, b in five) > len(five) / 50  # a prime has no other divisor but itself


def test_over_long_operands_are_labelled_overflow_and_ordinary_ones_fit():
    rows = by_result(ArithmeticRows(max_digits=4, num_digits=8, mixture=Mixture(overflow=0.3)).take(5000))
    for row in rows["overflow"]:
        lengths = sorted(map(digits, row["igc_operands"]))
        assert 9 <= lengths[1] <= 11
        assert lengths[0] <= 4 or 9 <= lengths[0]
    first, second = ({digits(row["igc_operands"][side]) for row in rows["overflow"]} for side in (0, 1))
    assert first == second == {1, 2, 3, 4, 9, 10, 11}
    assert max(digits(n) for row in rows["ok"] for n in row["igc_operands"]) == 4


def test_results_overflow_where_result_digits_is_given():
    settings = {"max_digits": 3, "num_digits": 6, "mixture": Mixture(overflow=0.3)}
    found = by_result(ArithmeticRows(result_digits=6, **settings).take(5000))["overflow"]
    readable = [row for row in found if max(map(digits, row["igc_operands"])) <= 6]
    assert len(readable) / len(found) == pytest.approx(0.5, abs=0.05)
    assert {row["igc_operator"] for row in readable} == {"+", "*"}
    assert all(digits(exact(*triple(row))) > 6 for row in readable)
    found = by_result(ArithmeticRows(**settings).take(5000))["overflow"]
    assert not [row for row in found if max(map(digits, row["igc_operands"])) <= 6]


def test_undefined_divides_by_zero_and_inexact_leaves_a_remainder():
    found = by_result(ArithmeticRows(mixture=Mixture(undefined=0.3, inexact=0.3)).take(3000))
    assert all(row["igc_operator"] == "/" and row["igc_operands"][1] == "0" for row in found["undefined"])
    for row in found["inexact"]:
        a, operator, b = triple(row)
        assert operator == "/"
        assert a % b


def test_rounding_divisions_have_a_result_and_are_never_inexact():
    found = by_result(ArithmeticRows(operations=("/",), division="floor", mixture=Mixture(inexact=0.3)).take(3000))
    assert not found["inexact"]
    remainders = [row for row in found["ok"] if triple(row)[0] % triple(row)[2]]
    assert 0.1 < len(remainders) / len(found["ok"]) < 0.3
    assert all(row["igc_result"] == str(triple(row)[0] // triple(row)[2]) for row in remainders)


def test_stories_are_told_about_numbers_of_things_only():
    for row in ArithmeticRows(mixture=Mixture(negative=0.5)).take(5000):
        if row["igc_operator"] == "-" and "How many" in row["prompt"][0]["content"]:
            a, _, b = triple(row)
            assert a >= b >= 0


def test_texts_without_arithmetic_carry_no_numbers_in_their_columns():
    rows = by_result(ArithmeticRows(mixture=Mixture(none=0.9)).take(3000))["none"]
    assert all(row["igc_operator"] == "none" and row["igc_operands"] is None for row in rows)
    prompts = {row["prompt"][0]["content"] for row in rows}
    assert any(re.fullmatch(r"Repeat [0-9]+\.?", prompt) for prompt in prompts)
    assert len(PLAIN) == len(set(PLAIN)) > 50


def test_plain_rows_are_strings_whose_completion_starts_with_a_space():
    chats = ArithmeticRows(seed=2).take(100)
    for row, chat in zip(ArithmeticRows(seed=2, conversational=False).take(100), chats, strict=True):
        assert isinstance(row["prompt"], str)
        assert row["completion"][0] == " "
        assert row["completion"][1] != " "
        assert set(row) == set(chat)
    assert chats[0]["prompt"][-1]["role"] == "user"
    assert chats[0]["completion"][0]["role"] == "assistant"


def test_no_calculation_of_the_test_occurs_in_training_but_one_digit_ones_do():
    items = bigbench_test_set(per_group=400, seed=0)
    assert len([item for item in items if item["group"] == "2_digit_division"]) == 400  # of 450: hard to avoid
    held_out = {triple(item) for item in items if not item["group"].startswith("1_digit")}
    one_digit = {triple(item) for item in items} - held_out
    settings = {"max_digits": 2, "mixture": Mixture(none=0)}
    careless = {triple(row) for row in ArithmeticRows(**settings).take(30_000)}
    assert len(careless & held_out) > 500
    careful = {triple(row) for row in ArithmeticRows(exclude=items, **settings).take(30_000)}
    assert not careful & held_out
    assert len(careful & one_digit) > 300


def test_items_to_exclude_may_be_questions_without_columns():
    items = bigbench_items("2_digit_addition", 50)
    bare = [{"prompt": item["prompt"], "target": item["target"]} for item in items]
    mixed = [*bare, {"prompt": "Hello", "igc_operator": "none"}, {"prompt": "What is 2 plus 2?"}]
    assert ArithmeticRows(exclude=mixed).excluded == ArithmeticRows(exclude=items).excluded
    assert len(ArithmeticRows(exclude=items).excluded) == 50


def test_an_item_that_cannot_be_excluded_is_refused():
    with pytest.raises(ValueError, match="`exclude`, item 1: no calculation found in 'Add 3 to 4'"):
        ArithmeticRows(exclude=[{"prompt": "What is 1 plus 1?"}, {"prompt": "Add 3 to 4"}])


def test_own_operations_need_phrasings():
    with pytest.raises(ValueError, match=r"no phrasings for \['\^'\]: pass `wording=Templates\(\{'\^': "):
        ArithmeticRows(operations=("+", "^"))
    wording = Templates({"+": ["{a} und {b}"], "^": []})
    only = ArithmeticRows(operations=("+",), wording=wording, mixture=Mixture(none=0, bigbench=0))
    assert all(" und " in row["prompt"][0]["content"] for row in only.take(100))


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="`max_digits=6` must be in 1..`num_digits=5`"):
        ArithmeticRows(max_digits=6, num_digits=5)
    with pytest.raises(ValueError, match="`operations` is empty"):
        ArithmeticRows(operations=())
    with pytest.raises(ValueError, match="`none=1.5` is no fraction"):
        Mixture(none=1.5)
    with pytest.raises(ValueError, match="add up to 1.4, which leaves no room"):
        Mixture(none=0.7, overflow=0.7, undefined=0, inexact=0)


# ---- datasets ----


def test_a_first_row_without_supervision_does_not_drop_the_columns_of_the_others():
    rows = [{"prompt": "Hello", "completion": "Hi"}, *ArithmeticRows(conversational=False, mixture=ORDINARY).take(3)]
    dataset = to_dataset(rows)
    assert dataset[0]["igc_operator"] is None
    assert dataset[0]["igc_operands"] is None
    assert [dataset[i] for i in (1, 2, 3)] == rows[1:]


def test_datasets_keep_rows_exactly_whatever_the_length_of_their_numbers():
    rows = ArithmeticRows(max_digits=40, num_digits=40, result_digits=80, mixture=Mixture(system=0.5)).take(500)
    assert list(to_dataset(rows)) == rows
    assert to_dataset(rows).features == igc_features()
    items = bigbench_test_set(2)
    assert list(to_dataset(items)) == items


def test_datasets_take_rows_with_several_anchors():
    rows = [
        {
            "text": "1+2=3 and 4*5=20",
            "igc_operator": ["+", "*"],
            "igc_operands": [["1", "2"], ["4", "5"]],
            "igc_result": ["3", "20"],
        },
        {"text": "none here", "igc_operator": [None], "igc_operands": [None], "igc_result": [None]},
        {"text": "no columns", "igc_operator": None, "igc_operands": None, "igc_result": None},
    ]
    dataset = to_dataset(rows)
    assert list(dataset) == rows
    assert dataset.features == igc_features(["text"], several_anchors=True)
    assert [len(check_columns(row, 5, 5)) for row in dataset] == [2, 1, 1]


def test_rows_of_different_formats_are_refused():
    plain, chat = (ArithmeticRows(conversational=c, mixture=ORDINARY).take(1)[0] for c in (False, True))
    with pytest.raises(ValueError, match=r"must all hold messages or strings: row 1 has `prompt` = .*, but row 0 has"):
        to_dataset([plain, chat])
    several = {**plain, "igc_operator": ["+"], "igc_operands": [["1", "2"]], "igc_result": ["3"]}
    with pytest.raises(
        ValueError, match=r"lists with one entry per anchor or single entries: row 1 has `igc_operator`"
    ):
        to_dataset([plain, several])
    with pytest.raises(ValueError, match="no rows to make a dataset of"):
        to_dataset([])
    with pytest.raises(ValueError, match="The type of the column `weight` is not known: known are prompt, completion"):
        to_dataset([{**plain, "weight": 1.0}])


def test_a_streaming_dataset_gives_the_rows_of_the_stream():
    rows = ArithmeticRows(exclude=bigbench_test_set(5))
    assert list(to_iterable_dataset(rows, 50)) == rows.take(50)
    assert list(itertools.islice(to_iterable_dataset(rows), 60)) == rows.take(60)


@pytest.mark.slow
def test_the_data_modules_do_not_import_datasets():
    code = "import sys, peft_igc.data, peft_igc.data.columns; sys.exit('datasets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- the real task's files ----

EXAMPLES = [
    {"input": "What is 0 plus 1?", "target": "1", "target_scores": {"1": 1, "banana": 0}},
    {"input": "What is 7 plus 5?", "target_scores": {"5": 0.0, "12": 1.0, "house": 0.0}},
]
HUB_ROWS = [
    {
        "idx": 0,
        "inputs": "What is 0 plus 1?",
        "targets": ["1"],
        "multiple_choice_targets": ["2", "1"],
        "multiple_choice_scores": [0, 1],
    },
    {
        "idx": 1,
        "inputs": "Q: What is 12 divided by 4?\nA:",
        "targets": ["3"],
        "multiple_choice_targets": [],
        "multiple_choice_scores": [],
    },
    {
        "idx": 2,
        "inputs": "What is 12 minus 40?",
        "targets": [],
        "multiple_choice_targets": ["-28", "-27"],
        "multiple_choice_scores": [1, 0],
    },
]


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    """`datasets` writes its cache elsewhere and never asks a hub."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def write_task(folder, examples=EXAMPLES, **more):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.json").write_text(json.dumps({"name": "my task", "examples": examples, **more}))
    return folder / "task.json"


def test_load_bigbench_reads_a_task_file_and_its_folder(tmp_path):
    file = write_task(tmp_path / "1_digit_addition")
    items = load_bigbench(file)
    assert items == load_bigbench(str(file.parent))
    assert items[1] == {
        "prompt": "What is 7 plus 5?",
        "target": "12",
        "group": "1_digit_addition",
        "igc_operator": "+",
        "igc_operands": ["7", "5"],
        "igc_result": "12",
    }


def test_load_bigbench_reads_a_folder_of_subtasks(tmp_path):
    write_task(tmp_path / "arithmetic" / "2_digit_subtraction", [{"input": "What is 12 minus 40?", "target": "-28"}])
    write_task(tmp_path / "arithmetic" / "1_digit_addition")
    items = load_bigbench(tmp_path / "arithmetic")
    assert [item["group"] for item in items] == ["1_digit_addition"] * 2 + ["2_digit_subtraction"]
    assert items[2]["target"] == "-28"
    assert ArithmeticRows(exclude=items).excluded == {(12, "-", 40)}


def test_load_bigbench_reads_other_tasks_without_operand_columns(tmp_path):
    write_task(tmp_path / "talk", [{"input": "Say hi.", "target": ["hi"]}])
    assert load_bigbench(tmp_path / "talk") == [{"prompt": "Say hi.", "target": "hi", "group": "my task"}]


@pytest.mark.parametrize("form", ["jsonl", "parquet", "folder"])
def test_load_bigbench_reads_the_hub_forms(no_cache, form):
    import datasets

    dataset = datasets.Dataset.from_list(HUB_ROWS)
    path = no_cache / f"data.{form}" if form != "folder" else no_cache / "hub"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in HUB_ROWS))
    elif form == "parquet":
        dataset.to_parquet(path)
    else:
        path.mkdir()
        dataset.select([0, 1]).to_parquet(path / "train-00000-of-00001.parquet")
        dataset.select([2]).to_parquet(path / "validation-00000-of-00001.parquet")
    items = load_bigbench(path)
    assert [(item["prompt"], item["target"], item["group"]) for item in items] == [
        ("What is 0 plus 1?", "1", "1_digit_addition"),
        ("Q: What is 12 divided by 4?\nA:", "3", "2_digit_division"),
        ("What is 12 minus 40?", "-28", "2_digit_subtraction"),
    ]
    assert items[1]["igc_operands"] == ["12", "4"]


@pytest.mark.parametrize(
    ("name", "config", "asked"),
    [
        ("hails/bigbench", None, "arithmetic_zero_shot"),
        ("tasksource/bigbench", None, "arithmetic"),
        ("tasksource/bigbench", "other", "other"),
    ],
)
def test_load_bigbench_asks_the_hub_for_the_right_configuration_and_takes_each_item_once(
    monkeypatch, name, config, asked
):
    import datasets

    calls = []
    splits = {"train": HUB_ROWS[:2], "validation": HUB_ROWS[2:]}
    if name == "hails/bigbench":
        splits["default"] = HUB_ROWS  # all of them once more

    def load_dataset(*args):
        calls.append(args)
        return splits

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert len(load_bigbench(name, config=config)) == 3
    assert calls == [(name, asked)]


def test_load_bigbench_refuses_what_it_cannot_read(no_cache):
    folder = no_cache / "broken"
    cases = [
        (write_task(folder / "a", [{"target": "1"}]), r"example 0: expected an object with a string \"input\""),
        (write_task(folder / "b", [{"input": "x"}]), 'example 0: expected a "target" or a "target_scores"'),
        (
            write_task(folder / "c", [*EXAMPLES, {"input": "x", "target": ["1", "2"]}]),
            "example 2: .*exactly one target",
        ),
        (write_task(folder / "d", [{"input": "x", "target_scores": {"1": 1, "2": 1}}]), "2 choices share the highest"),
        (write_task(folder / "e", []), "holds no items"),
        (write_task(folder / "f", "none"), 'has no list "examples"'),
    ]
    for file, message in cases:
        with pytest.raises(ValueError, match=message):
            load_bigbench(file)
    with pytest.raises(ValueError, match=r"a.task.json`, example 0"):
        load_bigbench(folder)
    (no_cache / "bad.json").write_text("{")
    with pytest.raises(ValueError, match=r"bad.json` is not valid JSON: .*Download it again"):
        load_bigbench(no_cache / "bad.json")
    (no_cache / "data.csv").write_text("a,b")
    with pytest.raises(ValueError, match=r"data.csv` has an unknown suffix: expected one of .json, .jsonl, .parquet"):
        load_bigbench(no_cache / "data.csv")
    (no_cache / "rows.jsonl").write_text('{"question": "What is 0 plus 1?"}\n')
    with pytest.raises(
        ValueError, match=r"row 0: expected the columns \"inputs\" and \"targets\", got \['question'\]"
    ):
        load_bigbench(no_cache / "rows.jsonl")
    for missing in (no_cache / "missing", "missing.json", "./missing", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="missing|a/b/c` does not exist. Pass a task.json, its folder, or"):
            load_bigbench(missing)


# ---- evaluation files ----


def test_read_jsonl_keeps_every_line_and_every_field(tmp_path):
    file = tmp_path / "data.jsonl"
    items = [{"prompt": "What is 1 plus 1?", "target": "2", "group": "g"}, {"prompt": "ü ", "target": "", "id": 7}]
    text = "\r\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    for content in (text, text + "\n", "\ufeff" + text + "\r\n"):
        file.write_bytes(content.encode())
        assert read_jsonl(file) == read_jsonl(str(file)) == items


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"prompt": "a", "target": ', "line 2: not valid JSON: .*Write one object per line"),
        (b'{"prompt": "\xff", "target": "b"}', "line 2: not valid JSON: "),
        (b"", "line 2: the line is empty"),
        (b"  ", "line 2: the line is empty"),
        (b'["a", "b"]', 'line 2: expected an object with "prompt" and "target", got'),
        (b'{"prompt": "a"}', r'line 2: the field "target" is missing; there are \[\'prompt\'\]'),
        (b'{"target": "a"}', 'line 2: the field "prompt" is missing'),
        (b'{"prompt": "a", "target": 2.5}', 'line 2: "target" must be a string, got 2.5. Put it in quotation marks'),
        (b'{"prompt": ["a"], "target": "2"}', 'line 2: "prompt" must be a string'),
        (b'{"prompt": "a", "target": "2", "group": null}', 'line 2: "group" must be a string, got None'),
        (b'{"prompt": " ", "target": "2"}', 'line 2: "prompt" is empty'),
    ],
)
def test_read_jsonl_names_file_and_line_of_a_malformed_line(tmp_path, line, message):
    good = b'{"prompt": "a", "target": "b"}'
    (tmp_path / "data.jsonl").write_bytes(b"\n".join([good, line, good]))
    with pytest.raises(ValueError, match=f"data.jsonl`, {message}"):
        read_jsonl(tmp_path / "data.jsonl")


def test_read_jsonl_refuses_an_empty_and_a_missing_file(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="empty.jsonl` is empty"):
        read_jsonl(tmp_path / "empty.jsonl")
    with pytest.raises(FileNotFoundError, match="The data file `.*none.jsonl` does not exist"):
        read_jsonl(tmp_path / "none.jsonl")
