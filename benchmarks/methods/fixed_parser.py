"""The fixed parser: regular expressions and Python's integers, what a programmer writes who knows the phrasings.

In: a question. Out: the result as text, "" where no calculation was recognised. It holds rules for the forms that
training rows have; which phrasings are held out from training was not looked at. No model, no learning: beside models
that read, it shows how much of the questions can be told by rules. Try it:
`pytest tests/benchmarks/test_answers.py -k parser`.
"""

from __future__ import annotations

import re

from peft_igc.numbers.calculator import evaluate_exactly


_NUMBER = re.compile(r"\(-(?P<bracketed>\d[\d,]*(?<=\d))\)|(?:(?<![\w) -])-|(?<= )-)?\d(?:[\d,]*\d)?")
_OPERATORS = {"+": "+", "-": "-", "−": "-", "*": "*", "×": "*", "·": "*", "x": "*", "/": "/", "÷": "/"}
_WORDS = {"plus": "+", "minus": "-", "times": "*", "divided by": "/"}
# Rules in the order in which they are tried: what to find (`N` is a number), the operator, and which number comes
# first: the text's first, its second, or the larger one.
_RULES = (
    (r"^(sub|minus|subtract)\w*\(", "-", "first"),
    (r"^(mul|times|product)\w*\(", "*", "first"),
    (r"^(div|quotient)\w*\(", "/", "first"),
    (r"^(sum|add|plus)\w*\(", "+", "first"),
    (r"N (with N|and) (subtract|take away|taken away|removed)", "-", "first"),
    (r"(subtract|deduct|take|remove|taking|took)\w*( the number)? N (away )?from", "-", "second"),
    (
        r"N (is )?(subtracted|taken|deducted|removed) (away )?from|take away N from|from N up to N|"
        r"subtract the first",
        "-",
        "second",
    ),
    (
        r"of N (if|when|after)|first number: .*second one from|from N, take|by how much is|than N is N|"
        r"(less|smaller|more|larger|greater|bigger|fewer) (is|are) N than|(exceed|go beyond) N",
        "-",
        "large",
    ),
    (r"N (less|smaller) than N|(more|fewer|less) .* than (does )?\w+( has| have)?\?|\bdiffer", "-", "large"),
    (r"added? to N to|N less\b|must .*added|(down|back|lower\w*|reduc\w*|decreas\w*) (it )?(by )?N", "-", "large"),
    (
        r"by a factor of|N groups of N|N (sets|lots) of N|multipl(y|ied|ying|ication) (?!to)|(taken|"
        r"counted|take N) .*times",
        "*",
        "first",
    ),
    (r"product|\bfactors\b|area of|its area|how large is its area|N times N", "*", "first"),
    (
        r"N (go|goes|fit|fits) into N|(groups|lots|sets) of N .*in N|(often|times) is N in N|"
        r"N contained in",
        "/",
        "second",
    ),
    (
        r"N be multiplied to|multiply N to|times N (is|gives) N|as N is N|second number by the first|"
        r"N be (taken|subtracted)|how many .*into",
        "/",
        "large",
    ),
    (r"divi(d|s)|quotient|ratio|\bover N|equal(ly)? (parts|shares|pieces)|has area|\bshares?\b|\bsplit", "/", "first"),
    (
        r"N .*(evenly|equally|fairly)|(each|every \w+|one of them|one \w+ \w+|\b(each|every|a|an) \w+|"
        r"in one \w+)( cost| get| have)?\?$",
        "/",
        "large",
    ),
    (
        r"(how many|what number of) (groups|boxes|bags|days|hours|rows|weeks|trips|\w+ (does|do) .*need)|"
        r"how long",
        "/",
        "large",
    ),
    (r"\b(each|every|per|apiece|such|these|an hour|a day)\b|a (bag|box) holds|\b(one|a) .*costs", "*", "first"),
    (r"multipl|\btimes\b", "*", "first"),
    (r"\b(sum|total|plus|add|adds|added|adding|addition|in all|together)\b", "+", "first"),
    (
        r"subtract|minus|\bless|\bleft\b|missing|\bneeds?\b|\bfree\b|ran out|dropped|stay|remain|"
        r"\bstill\b|\bothers\?|of them are not|lost|spent|used|gave|\bsold\b|ate|back by|drops|falls|"
        r"goes down|down by|take N away|smaller|away|already|broken|leave",
        "-",
        "large",
    ),
    (
        r"more|increas|enlarg|combin|join|grow|rise|up|brings?|earned|larger|altogether|got|gets?|"
        r"everything|and N|others get on|bought|both",
        "+",
        "first",
    ),
)


def parsed(question: str) -> tuple[str, str, str] | None:
    """Operator and operands of a question with two numbers; None where that cannot be told."""
    numbers = [("-" if m["bracketed"] else "") + (m["bracketed"] or m[0]) for m in _NUMBER.finditer(question)]
    if len(numbers) != 2:
        return None
    first, second = (number.replace(",", "") for number in numbers)
    text = "N".join(part.lower() for part in _NUMBER.split(question)[:: _NUMBER.groups + 1])
    if symbol := re.search(r"N ?([-−+*×·x/÷]) ?N", text):
        return _OPERATORS[symbol[1]], first, second
    if phrase := re.search(r"N (plus|minus|times|divided by) N", text):
        return _WORDS[phrase[1]], first, second
    if letters := _assigned(text):
        operator, swapped = letters
        return (operator, second, first) if swapped else (operator, first, second)
    for rule, operator, order in _RULES:
        if re.search(rule, text):
            larger_last = int(first) < int(second)
            swapped = order == "second" or (order == "large" and larger_last)
            return (operator, second, first) if swapped else (operator, first, second)
    return None


def _assigned(text: str) -> tuple[str, bool] | None:
    """`x = N and y = N ... x - y`: the operator, and whether the second number comes first."""
    names = re.findall(r"\b([a-z])(?: ?= ?| is )N", text)
    if len(names) != 2:
        return None
    either = "|".join(names)
    found = re.search(rf"\b({either}) ?([-+*/]|plus|minus|times|divided by) ?({either})\b", text)
    if found is None:
        return None
    return _WORDS.get(found[2], found[2]), found[1] == names[1]


def answer(question: str) -> str:
    """The result of what the question asks for; "" where none was recognised or there is none."""
    found = parsed(question)
    result = None if found is None else evaluate_exactly(*found)
    return result if isinstance(result, str) else ""
