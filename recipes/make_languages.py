"""Proposes the words of a language for `peft_igc/text/languages/`, from Babel's CLDR and num2words.

It prints TOML: number words, scales, months, units and currencies. The files in the package are these proposals with
corrections by hand, and with words that no such source has (`[words]` but for the first three lines, `[functions]`,
`[operations]`), so nothing is overwritten. Both packages are needed here only.

    pip install babel num2words
    python recipes/make_languages.py de
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterable

from babel import Locale
from babel.numbers import get_currency_name
from num2words import num2words


QUANTITIES = (
    *("length", "mass", "volume", "area", "duration", "digital", "frequency", "energy", "power", "pressure"),
    *("temperature", "electric", "angle"),
)
# Units that are rare, that have two words, or that are also numbers (a decade, a quarter).
LEFT_OUT = re.compile(
    r"-(?:person|point|drop|pinch|dram|jigger|grain|quarter|decade|century|dessert|troy|imperial|metric|generic|foodcalorie"
    r"|megaliter|milliinch|rod|chain|slug|gray|siemens|henry|farad|coulomb|sievert|becquerel|dalton|rankine|parsec|light"
    r"|astronomical|steradian|arc|scandinavian|earth|solar|british|calorie-it|fluid|acre-foot)|ofhg"
)
WORDS = frozenset("in fur fth ch ac ma pm st tn rev rad sm fm al".split())  # abbreviations that are also words
CURRENCIES = ("USD", "EUR", "GBP", "JPY", "INR", "PLN", "BRL", "CHF", "CNY", "SEK", "MXN")
LETTERS = re.compile(r"[^\W\d_]{2,}")
JOINTS = {"and", "und", "et", "y", "e", "i", "en"}


def number_words(language: str) -> list[str]:
    """The words of the numbers up to a hundred, and of the hundreds."""
    found: dict[str, None] = {}
    for number in (0, *range(2, 100), *range(100, 1001, 100)):
        for word in LETTERS.findall(num2words(number, lang=language)):
            found[word.casefold()] = None
    return [word for word in found if word not in JOINTS and word != num2words(1, lang=language)]


def scales(language: str) -> list[str]:
    """Million and the like, one and several."""
    words = {word for power in (6, 9, 12) for count in (1, 2, 5) for word in
             LETTERS.findall(num2words(count * 10**power, lang=language))}  # fmt: skip
    small = {word for count in (1, 2, 5) for word in LETTERS.findall(num2words(count, lang=language))}
    return sorted(word.casefold() for word in words - small if word not in JOINTS and len(word) > 3)


def months(locale: Locale) -> list[str]:
    """The months' names; abbreviations that are English words are to be taken out by hand."""
    kinds = itertools.product(("format", "stand-alone"), ("wide", "abbreviated"))
    names = (locale.months[form][width].values() for form, width in kinds)
    return list(dict.fromkeys(word.casefold() for group in names for name in group for word in LETTERS.findall(name)))


def units(locale: Locale) -> dict[str, dict[str, list[str]]]:
    """The words of units by quantity, in all forms and widths; signs such as `m²` are no words."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, patterns in locale._data["unit_patterns"].items():  # Babel has no public list of them
        quantity, _, unit = name.partition("-")
        if quantity not in QUANTITIES or LEFT_OUT.search(name):
            continue
        forms = (pattern for width in patterns.values() for pattern in _texts(width))
        words = dict.fromkeys(form.replace("{0}", "").strip(" \xa0.").casefold() for form in forms if "{0}" in form)
        kept = [word for word in words if word.isalpha() and len(word) > 1 and word not in WORDS]
        if kept:
            found.setdefault(quantity, {})[unit] = kept
    return found


def _texts(width: object) -> Iterable[str]:
    """The patterns of one width, in all plurals and cases."""
    if isinstance(width, str):
        yield width
    elif hasattr(width, "values"):
        for value in width.values():
            yield from _texts(value)


def money(locale: Locale) -> dict[str, list[str]]:
    """Codes and names of currencies; a word that names a country, as in "US dollars", is to be taken out by hand."""
    found = {}
    for code in CURRENCIES:
        names = (get_currency_name(code, count=count, locale=locale) for count in (1, 2, 5))
        words = [code, *(word for name in names for word in LETTERS.findall(name))]
        found[code.casefold()] = list(dict.fromkeys(map(str.casefold, words)))
    return found


def main(language: str) -> None:
    """Prints the proposals for a language."""
    locale = Locale.parse(language)
    print("[words]")
    words = {"number_word": number_words(language), "scale": scales(language), "month": months(locale)}
    for name, listed in words.items():
        print(f"{name} = {json.dumps(listed, ensure_ascii=False)}")
    for quantity, names in {**units(locale), "money": money(locale)}.items():
        print(f"\n[units.{quantity}]")
        for unit, spelled in names.items():
            print(f"{unit} = {json.dumps(spelled, ensure_ascii=False)}")


if __name__ == "__main__":
    main(sys.argv[1])
