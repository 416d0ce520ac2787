"""What is read of texts: the expression, or the reason for a refusal."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from peft_igc import tiny_base
from peft_igc.expressions.reading import read_expressions
from peft_igc.expressions.reasons import Reason
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.numbers.digits import PAD
from peft_igc.numbers.token_table import EMBEDDED, UNSEEN
from tests.helpers.symbol_texts import encode, read, spelled


@pytest.fixture(scope="module")
def embedded():
    tokenizer = tiny_base()[1]
    return tokenizer, SymbolTokens.from_tokenizer(tokenizer)


READ = {
    "12 + 5 =": "12 + 5",
    "1+1=": "1 + 1",
    "796 -229": "796 - 229",
    "479*-74": "479 * - 74",
    "- 900 + 284": "- 900 + 284",
    "What is 3-5?": "3 - 5",
    "5×3÷2−4=": "5 * 3 / 2 - 4",
    "2**3=": "2 ^ 3",
    "-2^2=": "- 2 ^ 2",
    "[(1+2)*3] =": "( ( 1 + 2 ) * 3 )",
    "1,234*2=": "1234 * 2",
    "1,234.50*2=": "1234.50 * 2",
    ".5 * 20 =": ".5 * 20",
    "50% of 80 =": "50 % of 80",
    "$5 + $3 =": "5 + 3",
    "3 = 3 + 4 =": "3 + 4",
    "30 snakes * 3 birds/snake =": "30 * 3",
    "$12/hour x 5 hours =": "12 * 5",
    "The 3 boxes then hold 4*12=": "4 * 12",
    "There were 3. She bought 4*12=": "4 * 12",
    "11 tables have 4 chairs each for a total of 11*4 =": "11 * 4",
    "She has (in total) 5+3=": "5 + 3",
    "1) What is 5 + 3?": "5 + 3",
    "The sum is -5 + 3 =": "- 5 + 3",
    "It was Monday – 15 - 3 =": "15 - 3",
    "50 gallons/hour + 70 gallons/hour =": "50 + 70",
    "5 boxes * $2 each =": "5 * 2",
    "5km + 3km =": "5 + 3",
    "7 red and blue balls * 3 =": "7 * 3",
    "4 hours a day x 5 days =": "4 * 5",
    "Please tell me what -652 - 25 is.": "- 652 - 25",
    "What does 12-5 equal?": "12 - 5",
    "3 x -5 =": "3 * - 5",
    "Example: 1 + 1 = 2\n\nWhat is 5 + 3?": "5 + 3",
}
REFUSED = {
    "½ of 8 + 3 =": Reason.NOT_UNDERSTOOD,
    "5 + 3 plus one": Reason.NOT_UNDERSTOOD,
    "sqrt(16) + 9 =": Reason.NOT_UNDERSTOOD,
    "2⁴ * 3 =": Reason.NOT_UNDERSTOOD,
    "3,5+1=": Reason.NOT_UNDERSTOOD,
    "1.234,5 + 1=": Reason.NOT_UNDERSTOOD,
    "1 234 + 1 =": Reason.MALFORMED,
    "5 % 3 =": Reason.MALFORMED,
    "2(3) =": Reason.MALFORMED,
    "3:5 =": Reason.NOT_UNDERSTOOD,
    "$5 + €3 =": Reason.CURRENCIES,
    "1e3 + 5 =": Reason.NOT_UNDERSTOOD,
    "0x1F + 5 =": Reason.NOT_UNDERSTOOD,
    "0x10 + 5 =": Reason.NOT_UNDERSTOOD,
    "x + 3 =": Reason.NOT_UNDERSTOOD,
    "We are open 24/7.": Reason.LOOK_ALIKE,
    "(1+2]*3 =": Reason.UNBALANCED,
    "2*(3+4 =": Reason.UNBALANCED,
    "She has (5+3=": Reason.UNBALANCED,
    "3+4)*2 =": Reason.UNBALANCED,
    "5 plus 4*12=": Reason.NOT_UNDERSTOOD,
    "5 boxes 4*12=": Reason.OTHER_NUMBER,
    "What is 5 + 3? Then add 7.": Reason.NO_EXPRESSION,
    "Add 7. What is 5 + 3?": Reason.OTHER_NUMBER,
    "५ + 3 =": Reason.NOT_UNDERSTOOD,
    "five * 3 =": Reason.NOT_UNDERSTOOD,
    "1.2.3 + 1 =": Reason.NOT_UNDERSTOOD,
    "– 5 + 3 =": Reason.MALFORMED,
    "15 – 3 =": Reason.MALFORMED,
    "2024-05-17 =": Reason.LOOK_ALIKE,
    "2024-05-17-98 =": Reason.LOOK_ALIKE,
    "555-123-4567": Reason.LOOK_ALIKE,
    "5 km + 300 cm =": Reason.UNITS,
    "$3 + 5 cents =": Reason.UNITS,
    "5 kg^2 + 1 =": Reason.NOT_UNDERSTOOD,
    "negative 5 + 3 =": Reason.NOT_UNDERSTOOD,
    "price + total 3 * 4 =": Reason.NOT_UNDERSTOOD,
    "price + the total 3 * 4 =": Reason.NOT_UNDERSTOOD,
    "What is x of 3 / 8?": Reason.NOT_UNDERSTOOD,
    "373xfive - 7 =": Reason.NOT_UNDERSTOOD,
    "plus 3 * 4 =": Reason.NOT_UNDERSTOOD,
    "Is it 5? 3 + 4 =": Reason.OTHER_NUMBER,
    "What does this mean: 9/12 was a Tuesday.": Reason.LOOK_ALIKE,
    "What is 3 + 4 in binary?": Reason.NOT_UNDERSTOOD,
    "Add one: 3 + 4": Reason.NOT_UNDERSTOOD,
    "Multiply by itself: 3 + 4": Reason.NOT_UNDERSTOOD,
    "\n- 5 + 3 =": Reason.MALFORMED,
}


@pytest.mark.parametrize("text", READ)
def test_an_expression_is_read_as_its_items(embedded, text):
    reading = read(*embedded, [text])
    assert Reason(int(reading.reason[0])) is Reason.NONE
    assert bool(reading.found[0])
    assert spelled(reading.items, 0) == READ[text]
    assert bool(reading.reaches[0]) == text.endswith("=")


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_has_its_reason(embedded, text):
    assert Reason(int(read(*embedded, [text]).reason[0])) is REFUSED[text]


def test_rows_of_a_batch_do_not_change_each_other(embedded):
    texts = [*READ, *REFUSED]
    together = read(*embedded, texts)
    for row, text in enumerate(texts):
        alone = read(*embedded, [text])
        assert int(alone.reason[0]) == int(together.reason[row]), text
        assert spelled(alone.items, 0) == spelled(together.items, row), text


def test_the_culprit_is_the_token_that_caused_the_refusal(embedded):
    tokenizer, tokens = embedded
    ids, _ = encode(tokenizer, ["5 boxes 4*12="])
    culprit = int(read(tokenizer, tokens, ["5 boxes 4*12="]).culprit[0])
    assert tokenizer.decode(ids[0, culprit]) == "5"


def test_only_the_text_from_since_to_the_anchor_is_read(embedded):
    tokenizer, tokens = embedded
    ids, valid = encode(tokenizer, ["7 plus 4*2= and 9"])
    texts = [tokenizer.decode(token) for token in ids[0]]
    anchor, since = ids.new_tensor([texts.index("=")]), ids.new_tensor([texts.index("4") - 1])
    reading = read_expressions(tokens, ids, valid, anchor, since, num_digits=40)
    assert spelled(reading.items, 0) == "4 * 2"
    assert int(reading.reason[0]) == Reason.NONE


@pytest.mark.slow
def test_it_runs_as_one_graph_and_on_fake_tensors(embedded):
    tokenizer, tokens = embedded
    ids, valid = encode(tokenizer, ["12 + 5 =", "What is 5 * 3?", "x + 3 =", "The 3 boxes then hold 4*12="])
    anchors, since = torch.full((4,), ids.shape[1] - 1), torch.zeros(4, dtype=torch.int64)

    def reading(*text):
        return tree_leaves(read_expressions(tokens, *text, num_digits=40))

    graph = torch.compile(reading, fullgraph=True, backend="eager")
    eager = reading(ids, valid, anchors, since)
    for one, other in zip(graph(ids, valid, anchors, since), eager, strict=True):
        assert torch.equal(one, other)
    with FakeTensorMode():
        text = [torch.empty(given.shape, dtype=given.dtype) for given in (ids, valid, anchors, since)]
        assert [fake.shape for fake in reading(*text)] == [given.shape for given in eager]


@pytest.mark.parametrize(
    "text", ["1" + "+1" * 10_000 + "=", "(" * 3000 + "1+1" + ")" * 3000 + "=", "-" * 5000 + "1+1=", "9" * 9000 + "+1="]
)
def test_endless_texts_are_refused_and_never_read_in_part(embedded, text):
    reading = read(*embedded, [text])
    refused = int(reading.reason[0]) != Reason.NONE or bool(reading.items.too_long[0])
    assert refused


def test_a_refused_text_has_no_items(embedded):
    items = read(*embedded, ["(3 * 4 =", "5 + 3 ="]).items
    assert not items.kind[0].any()
    assert items.kind[1].any()
    assert (items.digits[0] == PAD).all()


def test_unknown_tokens_refuse_beside_an_expression_and_are_excused_before_it(embedded):
    tokenizer, tokens = embedded
    ids, valid = encode(tokenizer, ["12 + 5 ="])
    anchors, since = torch.tensor([ids.shape[1]]), torch.tensor([0])
    for sentinel in (UNSEEN, EMBEDDED, 10**9):
        for lead, expected in ((ids[:, :0], Reason.NOT_UNDERSTOOD), (encode(tokenizer, [" one. "])[0], Reason.NONE)):
            text = torch.cat([torch.tensor([[sentinel]]), lead, ids], 1)
            valid = torch.ones_like(text, dtype=torch.bool)
            anchors = torch.tensor([text.shape[1] - 1])
            reading = read_expressions(tokens, text, valid, anchors, since, num_digits=40)
            assert int(reading.reason[0]) == expected
