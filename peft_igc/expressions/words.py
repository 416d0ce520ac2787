"""Words that matter beside numbers: number words, operators in words, functions; and how tokens are joined to them.

In: lists of words by language. Out: a `WordList`, which is saved with an adapter, and for a word the symbol of its
class. Words are found in a text by a hash over their letters, so that case, a leading space and the tokenizer's cuts
do not matter: the hash of a word is the sum of the hashes of its pieces, each moved by the letters before it
(`letters`). A word with a character that ends within a token is not found: tokenizers that spell `ö` in bytes do not
show `zwölf`. Try it: `pytest tests/expressions/test_words.py`

Users extend the list before the table of a tokenizer is made:
`WordList.of("en", "de").extended({"number_word": ["ett", "två"]})`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .alphabet import Symbol, numeric_characters, symbol_of


__all__ = ["LONGEST_WORD", "POWERS", "WordList", "hashes_of", "letters_hash"]

LONGEST_WORD = 32  # letters of a word, or bytes of a character

_MASK = (1 << 64) - 1
_BASE = 0x9E3779B97F4A7C15  # odd, so that its powers do not vanish in 64 bits


def _signed(value: int) -> int:
    """The integer of 64 bits with a sign that has the same bits."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


POWERS: list[int] = [_signed(pow(_BASE, place, 1 << 64)) for place in range(LONGEST_WORD + 1)]


def letters_hash(piece: str | bytes) -> int:
    """The hash of letters or of bytes of a character, as an integer of 64 bits with a sign."""
    codes = [0x110000 + byte for byte in piece] if isinstance(piece, bytes) else [ord(char) for char in piece]
    return _signed(sum(_mixed(code) * pow(_BASE, place, 1 << 64) for place, code in enumerate(codes)))


def _mixed(code: int) -> int:
    """Bits of a code point that have no relation to those of its neighbours."""
    code = (code + 0x632BE59BD9B4E019) & _MASK
    code = ((code ^ code >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    code = ((code ^ code >> 27) * 0x94D049BB133111EB) & _MASK
    return code ^ code >> 31


@dataclass(frozen=True)
class WordList:
    """The words that are known, by the name of their class in lower case: `{"number_word": ("two", "half"), ...}`.

    Raises:
        ValueError: A class is unknown, or a word is empty, longer than `LONGEST_WORD` or in two classes.
    """

    classes: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for name, words in self.classes.items():
            if name not in _CLASSES:
                raise ValueError(f"`{name}` is no class of words. The classes are {', '.join(_CLASSES)}.")
            for word in words:
                if not word or len(word) > LONGEST_WORD or any(symbol_of(char) is not Symbol.LETTERS for char in word):
                    raise ValueError(
                        f"{word!r} of `{name}` is no word: write 1 to {LONGEST_WORD} letters without spaces."
                    )
                other = seen.setdefault(word.casefold(), name)
                if other != name:
                    raise ValueError(f"{word!r} is in `{other}` and in `{name}`. Keep one of them.")

    @classmethod
    def of(cls, *languages: str) -> WordList:
        """The package's words of some languages; a word of two classes keeps that of the first language.

        Args:
            languages: Among `"en"`, `"de"`, `"fr"` and `"es"`; none means all of them.

        Raises:
            ValueError: A language is unknown.
        """
        classes: dict[str, tuple[str, ...]] = {}
        for language in languages or tuple(_WORDS):
            if language not in _WORDS:
                raise ValueError(f"There are no words for `{language}`. The languages are {', '.join(_WORDS)}.")
            classes = _joined(classes, {name: text.split() for name, text in _WORDS[language].items()})
        return cls(classes)

    def extended(self, more: Mapping[str, Iterable[str]]) -> WordList:
        """The list with more words; a word that is there keeps its class."""
        return WordList(_joined(self.classes, more))

    @property
    def symbols(self) -> dict[str | bytes, Symbol]:
        """The symbol of every word, case-folded, and of every numeric character's bytes."""
        found: dict[str | bytes, Symbol] = {char.encode(): symbol_of(char) for char in numeric_characters()}
        for name, words in self.classes.items():
            found |= dict.fromkeys((word.casefold() for word in words), _CLASSES[name])
        return found


def unit_of(word: str) -> str:
    """The singular of an English unit, as far as its letters tell, so that `hour` and `hours` are one."""
    return word[:-2] if word.endswith("hes") else word.removesuffix("s")


def _joined(classes: Mapping[str, tuple[str, ...]], more: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The words of both, without those of `more` that have a class already."""
    known = {word.casefold() for words in classes.values() for word in words}
    joined = dict(classes)
    for name, words in more.items():
        new = tuple(word for word in dict.fromkeys(words) if word.casefold() not in known)
        known |= {word.casefold() for word in new}
        joined[name] = joined.get(name, ()) + new
    return joined


_CLASSES: dict[str, Symbol] = {
    "lone_x": Symbol.LONE_X,
    "of": Symbol.OF,
    "per": Symbol.PER,
    "and": Symbol.AND,
    "one": Symbol.ONE,
    "number_word": Symbol.NUMBER_WORD,
    "scale_word": Symbol.SCALE_WORD,
    "operator_word": Symbol.OPERATOR_WORD,
    "link": Symbol.LINK,
    "function": Symbol.FUNCTION,
    "glue": Symbol.GLUE,
    "equal": Symbol.EQUAL_WORD,
    "request": Symbol.REQUEST,
    "ordinal": Symbol.ORDINAL,
    "month": Symbol.MONTH,
    "measure": Symbol.MEASURE,
    "money": Symbol.MEASURE,
    "modifier": Symbol.MODIFIER,
    "sign": Symbol.SIGN_WORD,
    "minus": Symbol.MINUS_WORD,
    "difference": Symbol.DIFFERENCE,
    "name": Symbol.LETTERS,  # names an operation, see `names`; elsewhere like a word that is in no list
    "noted": Symbol.LETTERS,  # like a word that is in no list, but that rules compare with: see `hashes_of`
}

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "lone_x": "x",
        "of": "of",
        "per": "per a an each every",
        "and": "and",
        "one": "one",
        "number_word": """zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
            sixteen seventeen eighteen nineteen twenty thirty forty fourty fifty sixty seventy eighty ninety hundred
            hundreds thousand thousands million millions billion billions trillion trillions dozen dozens half halve
            halves halved halving twice thrice double doubled triple tripled quadruple quadrupled third thirds fourth
            fourths quarter quarters fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth
            tenths hundredth hundredths thousandth thousandths squared cubed couple zeros zeroes fold""",
        "scale_word": """k m b bn mn mio tn lakh crore score gross bps cent pi π c d e f h j l n o p q r s t u v w y
            z""",
        "minus": "minus",
        "operator_word": """plus times multiply multiplied divide divided over power percent percents
            point""",
        "link": "by than more less fewer add added subtract subtracted",
        "function": "sqrt root log ln exp sin cos tan abs gcd lcm mod modulo digit digits bitwise xor",
        "equal": "is equal equals make makes",
        "glue": """are was were be been being am has have had having the this that these those it its he she
            they we you i his her their our your my so then thus hence therefore because since as if when while will
            would can could should must may might do does did to from for with without in on at into but or not no
            only also still just now there here which who whom whose where get gets got made
            give gives gave need needs needed want wants spend spends spent earn earns earned pay pays paid cost costs
            sold sell sells buy buys bought eat eats ate take takes took total""",
        "request": """what calculate compute evaluate solve simplify work find determine whats wats calc how""",
        "measure": """km kilometer kilometers kilometre kilometres meter meters metre metres cm centimeter centimeters
            centimetre centimetres mm millimeter millimeters millimetre millimetres mile miles yard yards feet foot ft
            inch inches kg kilogram kilograms kilo kilos g gram grams mg milligram milligrams lb lbs ounce ounces oz
            ton tons tonne tonnes liter liters litre litres ml milliliter milliliters gallon gallons quart quarts pint
            pints cup cups tablespoon tablespoons teaspoon teaspoons hour hours hr hrs minute minutes min mins second
            seconds sec secs day days week weeks month months year years decade decades fortnight fortnights byte
            bytes kb mb gb tb yd yds""",
        "money": """dollar dollars cents euro euros pound pounds penny pennies pence usd eur gbp yen rupee rupees
            nickel nickels dime dimes buck bucks quid""",
        "sign": "negative",
        "difference": "difference",
        "name": """sum addition adding subtraction subtracting product multiplication multiplying quotient division
            dividing increase increased decrease decreased away left share shared split smaller lower shorter younger
            lighter cheaper apart gap div mul sub substract substracted substracting subtrack devide devided deviding
            divid mutiply multipy multply mulitply pluss puls tims tiems""",
        "noted": """deduct reduce me myself yourself him himself herself us them off onto among between fit please pls
            plz room bus flight page chapter gate highway apartment channel pm
            comes came out others remain remains remaining number don dont called named name identify many
            dividend divisor minuend subtrahend addend addends summand summands numerator denominator multiplier
            multiplicand""",
        "modifier": """square cube average mean reciprocal inverse absolute integer remainder factorial
            opposite binary hexadecimal hex octal roman rounded remainders modulus magnitude negation complement
            concatenate unary ternary rephrase paraphrase reword proofread translate grammar summarise summarize
            punctuate capitalise capitalize verbatim pronounce haiku limerick sonnet regex regexp""",
        "ordinal": "st nd rd th",
        "month": """january february march april june july august september october november december jan feb mar
            apr jun jul aug sep sept oct nov dec""",
    },
    "de": {
        "of": "von",
        "and": "und",
        "one": "ein eins eine einen",
        "number_word": """null zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
            sechzehn siebzehn achtzehn neunzehn zwanzig dreißig dreissig vierzig fünfzig sechzig siebzig achtzig
            neunzig hundert tausend milliarde milliarden millionen halb halbe hälfte doppelt drittel viertel
            fünftel dutzend""",
        "scale_word": "tsd mrd",
        "operator_word": "mal geteilt weniger durch multipliziert addiert subtrahiert hoch prozent komma",
        "function": "wurzel",
        "equal": "ist ergibt",
        "glue": "sind hat haben war waren der die das den dem er sie es wir ihr also dann",
        "request": "berechne rechne wieviel wie was",
        "month": "januar februar märz mai juni juli oktober dezember",
    },
    "fr": {
        "and": "et",
        "one": "un une",
        "number_word": """zéro deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize
            vingt trente quarante cinquante soixante cent cents mille milliard milliards demi moitié tiers quart
            douzaine""",
        "minus": "moins",
        "operator_word": "fois divisé multiplié virgule",
        "function": "racine",
        "equal": "est",
        "glue": "sont a ont le la les il elle ils elles nous donc",
        "request": "calcule calculer calculez combien",
        "month": "janvier février mars avril juin juillet août septembre octobre novembre décembre",
    },
    "es": {
        "one": "uno una",
        "number_word": """cero dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince
            dieciséis diecisiete dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta setenta ochenta
            noventa cien ciento mil millón millones medio media mitad tercio cuarto docena doble""",
        "minus": "menos",
        "operator_word": "más por veces dividido multiplicado entre",
        "function": "raíz",
        "equal": "es",
        "glue": "son tiene tienen el los las ella ellos entonces",
        "request": "calcula calcular cuánto cuánta cuántos",
        "month": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    },
}


def hashes_of(words: str) -> tuple[int, ...]:
    """The hashes of English words, separated by spaces, for rules that compare with them.

    Raises:
        ValueError: A word is in no list. Tokens keep the letters of listed words only, so it would never be found.
    """
    listed = {word for text in _WORDS["en"].values() for word in text.split()}
    if unknown := set(words.split()) - listed:
        raise ValueError(f"{sorted(unknown)} are in no list of English words. Add them to `noted`.")
    return tuple(map(letters_hash, words.split()))
