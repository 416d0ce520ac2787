"""The report of a demonstration: the table, and the missed targets."""

from peft_igc.sft.measure import card_record, missed_targets


def test_missed_targets_are_said_over_all_and_in_each_subtask():
    report = {"exact_match": 0.5, "groups": {"a": {"exact_match": 0.25}, "b": {"exact_match": 0.75}}}
    over_all = "BIG-bench: 50.00% exact, the target is 98.0%"
    assert missed_targets(report, 0.98, 0.0) == [over_all]
    assert missed_targets(report, 0.98, 0.5) == [over_all, "a: 25.00% exact, the target is 50.0%"]
    assert missed_targets(report, 0.5, 0.25) == []


def test_the_card_bounds_the_wrong_answers_to_texts_of_authors_that_were_not_used():
    training = {"steps": 1, "distinct_rows": 1, "seed": 0}
    results = {"training": training, "summary": {"base": {}, "igc": {}}, "sets": {"bigbench": {"n": 1}}}
    assert "authors" not in card_record(results)
    results["sets"]["unread_authors"] = {"n": 1000, "right": 600, "wrong": 2, "silent": 398}
    promise = "2 wrongly: 2.0 per thousand, with a confidence of 95% between 0.5 and 7.3."
    assert promise in card_record(results)
    results["sets"]["unread_authors"] |= {"wrong": 0}
    assert "between 0.0 and 3.8." in card_record(results)
