"""A row knows which result governs a text, and how far the text has come with each; it is a value."""

from peft_igc.text.spelling import Row
from tests.text.test_spelling import WORDS, progress


def row_of(text, *steps, **style):
    """The row of a text with the results of some anchors, and what continues them after each token."""
    row = Row().begun((anchor, number and progress(number, anchor, **style)) for anchor, number in steps)
    ids = WORDS.encode(text)
    row, found = row.continued(ids, 0, 0)
    return row, ids, [one and WORDS.texts[one.token] for one in found]


def test_each_token_is_governed_by_the_latest_anchor():
    row, _, found = row_of("=123 =4 =56", (0, "123456"), (3, None), (6, "567"))
    assert found == ["123", "456", "123", None, None, None, "567", "7"]
    assert row.needs() == 8


def test_only_tokens_after_the_last_ones_are_counted():
    row, _, _ = row_of("=12", (0, "123456"))
    more = WORDS.encode("3")
    later, found = row.continued(more, 2, 2)
    assert [WORDS.texts[one.token] for one in found] == ["456"]
    assert row.continued(more, 2, 2)[1] == found  # the row before is as it was
    assert later.continued(WORDS.encode("456"), 3, 3)[0].completed(0) == 3


def test_a_row_that_is_cut_goes_on_with_the_step_that_governs_then():
    row, ids, _ = row_of("=123456=7", (0, "123456"), (3, "78"))
    assert (row.completed(0), row.completed(3)) == (2, -1)
    cut = row.cropped(2)
    assert (cut.needs(), cut.completed(0)) == (0, -1)  # its tokens are read again
    cut, found = cut.continued(ids[:3], 0, 2)
    assert (len(found), cut.completed(0), cut.needs()) == (1, 2, 3)
    assert row.cropped(0) == Row()
    assert row.cropped(3).completed(0) == 2


def test_a_step_that_ends_as_the_next_one_begins_is_counted_to_its_end():
    row, ids, _ = row_of("=123456=", (0, "123456"))
    cut = row.cropped(2).begun([(3, progress("7", 3))])
    cut, found = cut.continued(ids, 0, 3)
    assert (len(found), cut.completed(0)) == (1, 2)


def test_a_row_without_a_result_that_can_be_written_needs_no_tokens():
    assert Row().needs() is None
    assert row_of("=", (0, None))[0].needs() is None
    assert row_of("=7 ", (0, "7"), once=True)[0].needs() is None
    assert row_of("=7 ", (0, "7"))[0].needs() == 3


def test_a_row_needs_the_tokens_of_every_step_that_governs_what_is_asked_for():
    row = Row().begun([(0, progress("7")), (3, None)])
    assert (row.needs(), row.needs(4), row.needs(3), row.needs(0)) == (None, None, 0, 0)
