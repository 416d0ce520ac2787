"""What a language model is measured on, and the verdicts."""

import re

from peft_igc.data.wording.handwritten import texts_by
from peft_igc.sft.sets import generated_sets, texts_of_authors
from peft_igc.text.values import Limits


def test_sets_have_their_sizes_and_their_targets():
    sets = generated_sets(2, 5, 0, Limits())
    assert [len(items) for items in sets.values()] == [40, 5, 10, 5]
    assert all(item["target"] is None for item in sets["held_out_silent"])
    for item in sets["six_to_twenty_digits"]:
        lengths = [len(number.lstrip("-")) for number in item["igc_operands"]]
        assert min(lengths) >= 6
        assert 6 < max(lengths) <= 20
    assert generated_sets(2, 5, 0, Limits()) == sets


def test_an_adapter_of_few_digits_is_measured_on_numbers_that_it_has():
    sets = generated_sets(2, 40, 0, Limits(5, 10))
    assert "six_to_twenty_digits" not in sets
    longest = max(len(n.lstrip("-")) for item in sets["held_out_phrasings"] for n in item["igc_operands"])
    assert longest == 5
    asked = sets["held_out_phrasings"]
    assert all(re.fullmatch("-?[0-9]+", item["target"]) for item in asked)
    assert max(len(item["target"].lstrip("-")) for item in asked) > 5


def test_texts_that_ask_for_a_function_of_the_adapter_are_left_out():
    marked = [one for one in texts_by("calibrated") if one.function != "none"]
    pieces = [[re.escape(one) for one in re.split(r"\{[abcd]\}", line.text) if len(one) > 12] for line in marked]
    texts = [".*".join(found) for found in pieces if found]
    assert texts
    adapter = Limits(operations=(*"+-*/", *(one.function for one in marked)))
    for limits, there in ((Limits(), True), (adapter, False)):
        prompts = "\n".join(item["prompt"] for item in texts_of_authors("calibrated", 5000, 0, limits))
        assert [bool(re.search(text, prompts)) for text in texts] == [there] * len(texts)
