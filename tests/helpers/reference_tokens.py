"""The naive twins of `runs` and `spelling`: characters, strings and regular expressions, one row at a time.

They know nothing of tokens but what text each one stands for, so that they cannot share a slip with the tensors. The
vocabulary of the property tests is here too, with the edges of each token written down by hand.
"""

import re
from typing import NamedTuple


PAD = 10
START, WAITING, SIGNED, MIDDLE, AGAIN, RESUMED, END, TOLD = range(8)
BOUNDARY, DIGIT, BREAK, DOT, COMMA, COLON, MINUS, LETTER = range(8)

NOTHING = "\0"  # how an invalid position reads
UNKNOWN = "§"  # how an id that is not in the vocabulary reads: a character that belongs to no known writing of numbers
DIGITS = "0123456789"

# Text, first edge, last edge.
MARKS = [
    (" ", BOUNDARY, BOUNDARY),
    ("\n", BOUNDARY, BOUNDARY),
    ("<s>", BOUNDARY, BOUNDARY),
    ("(", BOUNDARY, BOUNDARY),
    (")", BOUNDARY, BOUNDARY),
    ("=", BOUNDARY, BOUNDARY),
    ("+", BOUNDARY, BOUNDARY),
    (".", DOT, DOT),
    (").", BOUNDARY, DOT),
    (",", COMMA, COMMA),
    ("),", BOUNDARY, COMMA),
    (":", COLON, COLON),
    ("'", COLON, COLON),
    ("):", BOUNDARY, COLON),
    ("-", MINUS, MINUS),
    ("−", MINUS, MINUS),
    (" -", BOUNDARY, MINUS),
    ("=-", BOUNDARY, MINUS),
    ("%", BREAK, BREAK),
    ("x", BREAK, BREAK),  # times
    (" the", BOUNDARY, LETTER),
    ("x‐", LETTER, BREAK),  # a hyphen that cannot be a minus
    ("**", BREAK, BOUNDARY),
    ("U.S.", LETTER, DOT),
]
BREAKS_BEFORE = set("%xe‐" + UNKNOWN)  # characters that break a number behind them
BREAKS_BEHIND = set("%x*U" + UNKNOWN)  # and one before them


class Vocabulary(NamedTuple):
    """A small vocabulary: everything a `TokenTable` is made of, and the texts."""

    texts: list[str]
    digits: dict[int, str]
    spaced: frozenset[int]
    edges: bytes
    group: int
    minus: int
    point: int
    points: dict[int, str]

    def text(self, token: int) -> str:
        """What a token stands for."""
        return self.texts[token] if 0 <= token < len(self.texts) else UNKNOWN

    def encode(self, text: str) -> list[int]:
        """A text's ids: always the longest token that fits."""
        ids = []
        while text:
            piece = max((t for t in self.texts if text.startswith(t)), key=len)
            ids.append(self.texts.index(piece))
            text = text[len(piece) :]
        return ids


def vocabulary(numbers: list[str], group: int, fused: tuple[tuple[str, int, int], ...] = ()) -> Vocabulary:
    """The marks, further ones that hold a point, and some numeric tokens.

    Numeric tokens that begin with a space start a new number.
    """
    marks = [*MARKS, *fused]
    texts = [text for text, _, _ in marks] + numbers
    edges = [first | last << 4 for _, first, last in marks]
    edges += [(BOUNDARY if text[0] == " " else DIGIT) | DIGIT << 4 for text in numbers]
    ids = range(len(marks), len(texts))
    spaced = frozenset(token for token in ids if texts[token][0] == " ")
    digits = {token: texts[token].strip() for token in ids}
    points = {texts.index(text): text for text in [".", *(text for text, _, _ in fused)]}
    return Vocabulary(texts, digits, spaced, bytes(edges), group, texts.index("-"), texts.index("."), points)


SINGLE = [str(digit) for digit in range(10)]
GROUPS = SINGLE + [f"{n:02}" for n in range(100)] + [f"{n:03}" for n in range(1000)]
VOCABULARIES = {
    "groups of three": vocabulary(GROUPS, 3),
    "single digits": vocabulary(SINGLE, 1),
    "irregular": vocabulary([*SINGLE, "12", "000", "2024", "10000", " 5", " 12", " 000", " 1999"], 1),
    "groups with gaps": vocabulary([*SINGLE, "00", "12", "45", "007", "123", "456", " 7"], 3),
}
# Tokens with a point and digits, which no tokenizer that splits at signs has.
POINTS = (
    (" .", BOUNDARY, DOT),
    (".5", BREAK, BREAK),
    (" .1", BOUNDARY, BREAK),
    ("0.", BREAK, DOT),
    (" 0.", BOUNDARY, DOT),
    ("12.", BREAK, DOT),
    ("2.1", BREAK, BREAK),
)
FUSED = vocabulary([*SINGLE, "12", "00", "050", " 5", " 12"], 1, POINTS)


class TextRuns(NamedTuple):
    """As `runs.Runs`, for one row: lists."""

    number: list[bool]
    broken: list[bool]
    inside: list[bool]
    digits: list[list[int]]


def find_runs(texts: list[str], width: int) -> TextRuns:
    """The numbers of a row of tokens, given as texts."""
    text = "".join(texts)
    owner = [i for i, piece in enumerate(texts) for _ in piece]  # the token of each character
    found = TextRuns(*([False] * len(texts) for _ in range(3)), [[PAD] * width for _ in texts])
    for match in re.finditer(r"[0-9]+(?:,[0-9]+)*", text):
        tokens = sorted(set(owner[match.start() : match.end()]))
        for token in tokens[1:]:
            found.inside[token] = True
        if is_operand(text[: match.start()], match[0], text[match.end() :]):
            found.number[tokens[0]] = True
            digits = [int(digit) for digit in match[0].replace(",", "").lstrip("0") or "0"]
            found.digits[tokens[0]] = (digits + [PAD] * width)[:width]
        else:
            found.broken[tokens[0]] = True
    return found


def is_operand(before: str, number: str, behind: str) -> bool:
    """Whether a number, thousands separators included, is one for itself between what stands on both sides."""
    first, *others = number.split(",")
    if others and (len(first) > 3 or first[0] == "0" or any(len(group) != 3 for group in others)):
        return False
    if re.search(r"([.]|[0-9][:']|[0-9][*][*])\Z", before) or re.match("[.:'][0-9]", behind):
        return False
    if before[-1:] in BREAKS_BEFORE or behind[:1] in BREAKS_BEHIND:
        return False
    if before[-1:] in ("-", "−") and before[-2:-1] in BREAKS_BEFORE:
        return False
    return not (behind[:1] in (".", "-", "−") and behind[1:2] in BREAKS_BEHIND)


def group_of(words: Vocabulary, digits: str, spelled: int) -> int:
    """The token that follows the first `spelled` digits of a number."""
    rest = digits[spelled : spelled - spelled % words.group + words.group]
    ids = {text: token for token, text in words.digits.items() if token not in words.spaced}
    while rest not in ids:
        rest = rest[:-1]
    return ids[rest]


def spell(words: Vocabulary, digits: str, negative: bool) -> list[int]:
    """The tokens of a number."""
    ids = [words.minus] if negative and digits else []
    spelled = 0
    while spelled < len(digits):
        ids.append(group_of(words, digits, spelled))
        spelled += len(words.digits[ids[-1]])
    return ids


class Continued(NamedTuple):
    """As `spelling.Continuation`, for one position."""

    token: int
    state: int
    active: bool
    complete: bool
    again: bool


def continue_text(
    words: Vocabulary, ids: list[int], valid: list[bool], anchors: list[int], numbers: list[str]
) -> list[Continued]:
    """What continues the result at each position of a text.

    A result counts as told from the position on at which its last digit stood, as seen there: nobody knows yet whether
    the number goes on.

    Args:
        words: the vocabulary.
        ids: the text.
        valid: False for padding.
        anchors: for each position, the anchor that governs it; -1: none.
        numbers: for each position, that anchor's result, with a point if it is a decimal.
    """
    texts = [words.text(token) if there else NOTHING for token, there in zip(ids, valid, strict=True)]
    found: list[Continued] = []
    for t, (anchor, number) in enumerate(zip(anchors, numbers, strict=True)):
        text_so_far = (words, ids[: t + 1], valid[: t + 1], anchor, number.strip("-"), number[0] == "-")
        token, state, active = (continue_decimal if "." in number else continue_result)(*text_so_far)
        complete = active and state in (END, TOLD)
        begins = t  # where the number that stands here begins
        while begins > 0 and texts[begins][0] in DIGITS and texts[begins - 1][-1] in DIGITS:
            begins -= 1
        if "." in number and active and state in (MIDDLE, END, TOLD):
            begins = first_token(texts, number_at_end("".join(texts[anchor + 1 : t + 1])), t)
        again = active and any(found[p].complete and anchors[p] == anchor for p in range(begins))
        if again:
            state = {WAITING: AGAIN, MIDDLE: RESUMED, END: TOLD}.get(state, state)
        found.append(Continued(token, state, active, complete, again))
    return found


def continue_result(
    words: Vocabulary, ids: list[int], valid: list[bool], anchor: int, digits: str, negative: bool
) -> tuple[int, int, bool]:
    """Token, state and activity at the last of `ids`, whose anchor stands at position `anchor` (-1: none).

    The state is that of a result which does not stand in the text before.
    """
    nothing = (-1, START, False)
    if not 0 <= anchor < len(ids) or not digits or not valid[-1]:
        return nothing
    texts = [words.text(token) if there else NOTHING for token, there in zip(ids, valid, strict=True)]
    fused = {token for token, text in words.points.items() if text.strip() != "."}
    texts = ["¶" if token in fused else text for token, text in zip(ids, texts, strict=True)]
    answer = "".join(texts[anchor + 1 :])
    anchor_text = texts[anchor]
    if (anchor_text + answer)[-1] not in DIGITS:
        minus = (anchor_text + answer)[-1] in "-−"
        if minus and not negative:
            return nothing
        silent = START if anchor == len(ids) - 1 else WAITING
        if minus or not negative:
            return group_of(words, digits, 0), SIGNED if minus else silent, True
        return words.minus, silent, True
    spelled = re.search(r"[0-9]*\Z", answer)[0]
    before = answer[: len(answer) - len(spelled)]
    if not spelled or (not before and anchor_text[-1] in DIGITS):
        return nothing  # the number began with the anchor or before it
    minus = (anchor_text + before)[-1] in "-−"
    if re.search(r"[0-9][.,:']\Z", before) or minus != negative or not digits.startswith(spelled):
        return nothing
    if spelled == digits:
        start, left = len(texts), len(spelled)
        while left:
            start -= 1
            left -= sum(character in DIGITS for character in texts[start])
        return -1, END if start - anchor - 1 <= (before != "" and minus) else TOLD, True
    return group_of(words, digits, len(spelled)), MIDDLE, True


def number_at_end(text: str) -> str:
    """The digits and points that a text ends in."""
    return re.search(r"[0-9.]*\Z", text)[0]


def first_token(texts: list[str], number: str, last: int) -> int:
    """The first of the tokens up to `last` that a number ends in."""
    start, left = last + 1, len(number)
    while left:
        start -= 1
        left -= sum(character in DIGITS + "." for character in texts[start])
    return start


def continue_decimal(
    words: Vocabulary, ids: list[int], valid: list[bool], anchor: int, number: str, negative: bool
) -> tuple[int, int, bool]:
    """As `continue_result`, for a result with a point, without its sign."""
    nothing = (-1, START, False)
    if not 0 <= anchor < len(ids) or not valid[-1]:
        return nothing
    texts = [words.text(token) if there else NOTHING for token, there in zip(ids, valid, strict=True)]
    # A point within another token, such as `U.S.`, is none that a number may have.
    texts = [text if id in words.points else text.replace(".", "¶") for id, text in zip(ids, texts, strict=True)]
    anchor_text, answer = texts[anchor], "".join(texts[anchor + 1 :])
    shown = number_at_end(answer)
    before = answer[: len(answer) - len(shown)]
    minus = (anchor_text + before)[-1] in "-−"
    going = shown != "" and ("0" + shown if shown[0] == "." else shown) == number[: len(shown) + (shown[0] == ".")]
    going = going and minus == negative and (before != "" or ids[anchor] not in words.digits)
    going = going and not re.search(r"([0-9.][,:']|¶)\Z", before)
    tokens_before = first_token(texts, shown, len(texts) - 1) - anchor - 1
    going = going and not (before.endswith(UNKNOWN) and tokens_before > 1)  # a longer number may have begun unseen
    whole, _, places = number.partition(".")
    silent = START if anchor == len(ids) - 1 else WAITING
    if ids[-1] in words.digits or (answer and any(character in DIGITS for character in texts[-1])):
        if not going:
            return nothing
    elif not going:
        minus = (anchor_text + answer)[-1] in "-−"
        if minus and not negative:
            return nothing
        if negative and not minus:
            return words.minus, silent, True
        return group_of(words, whole, 0), SIGNED if minus else silent, True
    elif shown == ".":
        return group_of(words, places, 0), SIGNED if minus else silent, True
    so_far, point, decimals = shown.partition(".")
    if point and decimals == places:
        return -1, END if tokens_before <= (before != "" and minus) else TOLD, True
    if point:
        return group_of(words, places, len(decimals)), MIDDLE, True
    return (words.point if so_far == whole else group_of(words, whole, len(so_far))), MIDDLE, True
