"""The report of a demonstration: the table, and the missed targets."""

from peft_igc.demo.report import card_record, missed_targets, report_table


def test_missed_targets_are_said_over_all_and_in_each_subtask():
    report = {"exact_match": 0.5, "groups": {"a": {"exact_match": 0.25}, "b": {"exact_match": 0.75}}}
    over_all = "BIG-bench: 50.00% exact, the target is 98.0%"
    assert missed_targets(report, 0.98, 0.0) == [over_all]
    assert missed_targets(report, 0.98, 0.5) == [over_all, "a: 25.00% exact, the target is 50.0%"]
    assert missed_targets(report, 0.5, 0.25) == []


def test_the_table_says_what_was_not_measured_and_which_weights():
    groups = {"1_digit_addition": {"n": 4, "exact_match": 0.75}}
    found = {"n": 4, "right": 3, "wrong": 0, "silent": 1}
    results = {
        "sets": {
            "bigbench": {**found, "groups": groups},
            "word_problems": None,
        },
        "base": {"bigbench": {"groups": groups, "whole_answer": 0.1, "number_only": 0.25}},
        "base_model": {"weights": "Q4_1 weights"},
        "summary": {"base": {"addition": 0.1}, "igc": {"addition": 0.75}},
    }  # fmt: skip
    table = report_table(results)
    assert "| addition | 10.00% | 75.00% |" in table
    assert "10.0 / 25.0    75.0     0.0    25.0" in table
    assert "not measured" in next(line for line in table.splitlines() if line.startswith("MAWPS with one step"))
    assert "Q4_1 weights" in table


def test_the_card_bounds_the_wrong_answers_to_texts_of_authors_that_were_not_used():
    training = {"steps": 1, "distinct_rows": 1, "seed": 0}
    results = {"training": training, "summary": {"base": {}, "igc": {}}, "sets": {"bigbench": {"n": 1}}}
    assert "authors" not in card_record(results)
    results["sets"]["unread_authors"] = {"n": 1000, "right": 600, "wrong": 2, "silent": 398}
    promise = "2 wrongly: 2.0 per thousand, with a confidence of 95% between 0.5 and 7.3."
    assert promise in card_record(results)
    results["sets"]["unread_authors"] |= {"wrong": 0}
    assert "between 0.0 and 3.8." in card_record(results)
