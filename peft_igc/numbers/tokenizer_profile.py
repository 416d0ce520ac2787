"""How a tokenizer splits numbers, and which interface and number format follow from it.

In: any Hugging Face tokenizer, fast or slow (byte-level BPE, sentencepiece, byte fallback). Out: a `TokenizerProfile`
with the `TokenTable` of an adapter, the recommended interface and a report. The texts of tokens come from
`text.vocabulary`; how runs of digits are split is measured on a fixed sample of numbers. `check_tokenizer` compares a
tokenizer with an adapter's table. No model and no tensors here, and no anchor rules, see `tuner.anchor_rules`.

Try it: `peft-igc profile TOKENIZER`; tests: `pytest tests/numbers/test_token_table.py`
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ..text.token_table import TokenTable, numbers_of
from ..text.vocabulary import Vocabulary, token_ids


LONGEST_RUN = 20  # digits of the longest sampled run
SAMPLES = 100  # sampled runs of each length
SHOWN = (4, 7, 10)  # lengths of runs whose splits are reported
MOST_GAPS = 0.05  # a tokenizer with a larger share of missing groups counts as irregular


@dataclass(frozen=True)
class TokenizerProfile:
    """How a tokenizer splits numbers, and how an adapter reads and writes them with it."""

    name: str  # name or path of the tokenizer, else its class
    vocabulary: Vocabulary = field(repr=False)
    numbers: dict[int, str] = field(repr=False)  # the numeric tokens, as in `TokenTable`
    facts: dict[str, Any]  # what `TokenTable.of` needs besides the vocabulary, as JSON values
    family: str  # `"groups of k from the left"`, `"single digits"` or `"irregular"`
    splits: dict[int, str]  # how runs of some lengths are split, with shares, most common first: `{4: "3+1 100%"}`
    space: str  # tokenization of a space before a number: `"a token of its own"` or `"merges with the digits"`
    gaps: tuple[str, ...]  # groups of digits without a token, where most groups of their length have one
    obstacles: tuple[str, ...]  # why the token interface does not support the tokenizer, in sentences

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> TokenizerProfile:
        """Profiles a Hugging Face tokenizer: its vocabulary is read, and some thousand short texts are tokenized."""
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        unused = _unused_digits(tokenizer, numbers_of(vocabulary))
        numbers = numbers_of(vocabulary, unused)
        runs = _sample_runs()
        splits = _splits(tokenizer, runs, numbers)
        group, gaps = _grouping(tokenizer, runs, splits, numbers)
        minus = _mark(tokenizer, vocabulary, "-5", "-", " -")
        obstacles = _obstacles(runs, splits, numbers, minus)
        if "".join(_splits(tokenizer, ["5²"], numbers)[0]) == "52":
            obstacles.append("The tokenizer turns superscripts into digits: `5²` reads as 52.")
        # With gaps, groups would split results in another way than the tokenizer, so results get single digits.
        facts = {
            "group": 1 if gaps else group or 1,
            "minus": minus or 0,
            "point": _mark(tokenizer, vocabulary, "1.5", "."),
            "unused": unused,
        }
        after_space = [numbers.get(token, "") for ids in token_ids(tokenizer, ["is 7", "is 64"]) for token in ids]
        return cls(
            name=str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__),
            vocabulary=vocabulary,
            numbers=numbers,
            facts=facts,
            family="single digits" if group == 1 else f"groups of {group} from the left" if group else "irregular",
            splits={length: _shares(length, runs, splits) for length in SHOWN},
            space="merges with the digits" if any(text[:1] == " " for text in after_space) else "a token of its own",
            gaps=gaps,
            obstacles=tuple(obstacles),
        )

    @property
    def interface(self) -> str:
        """The recommended interface: `"tokens"`, or `"hidden"` if there are obstacles."""
        return "hidden" if self.obstacles else "tokens"

    @property
    def number_format(self) -> str:
        """How the adapter writes results: `"groups of k"`, `"single digits"`, or `"as learned"` (hidden interface)."""
        if self.obstacles:
            return "as learned"
        return f"groups of {self.facts['group']}" if self.facts["group"] > 1 else "single digits"

    @property
    def table(self) -> TokenTable:
        """How the tokens spell numbers, of an adapter.

        Raises:
            ValueError: The token interface does not support this tokenizer; the message gives the reason.
        """
        if self.obstacles:
            raise ValueError(
                f"The token interface does not support the tokenizer `{self.name}`. {' '.join(self.obstacles)} "
                'Set `interface="hidden"`.'
            )
        return TokenTable.of(self.vocabulary, self.facts)

    def difference(self, numbers: Mapping[int, str], facts: Mapping[str, Any]) -> str | None:
        """An error message that names the first difference from the tokenizer that an adapter was created with, except
        for added tokens; None if there is none. `numbers` and `facts` are the adapter's, as in `TokenTable`."""
        other = min((token for token, _ in numbers.items() ^ self.numbers.items()), default=None)
        names = {"minus": "the minus sign was token", "point": "the decimal point was token"}
        names["group"] = "the number of digits in a group was"
        changed = [name for name in names if facts.get(name) not in (None, self.facts[name])]
        if other is not None:
            known = (numbers.get(other), self.numbers.get(other))
            then, now = ("no digits" if text is None else repr(text) for text in known)
            how = f"token {other} spelled {then} and now spells {now}"
        elif self.obstacles:
            how = " ".join(self.obstacles)[:-1]
        elif changed:
            how = f"{names[changed[0]]} {facts[changed[0]]} and now is {self.facts[changed[0]]}"
        else:
            return None
        return (
            f"The tokenizer `{self.name}` differs from the tokenizer that the adapter was created with: {how}. "
            "Use the adapter with its own tokenizer, or train a new adapter."
        )

    def as_dict(self) -> dict[str, Any]:
        """The profile as JSON values."""
        lengths = Counter(len(text.strip()) for text in self.numbers.values())
        return {
            "tokenizer": self.name,
            "vocabulary": len(self.vocabulary),
            "numeric_tokens": {str(length): count for length, count in sorted(lengths.items())},
            "numeric_tokens_with_space": sum(text[0] == " " for text in self.numbers.values()),
            "family": self.family,
            "splits": {} if self.family != "irregular" else {str(one): ways for one, ways in self.splits.items()},
            "gaps": list(self.gaps),
            "space": self.space,
            "minus": None if self.obstacles else self.facts["minus"],
            "point": None if self.obstacles else self.facts["point"],
            "interface": self.interface,
            "number_format": self.number_format,
            "notes": list(self.obstacles),
        }

    def report(self) -> str:
        """The profile as text, one property per line."""
        rows = []
        for name, value in self.as_dict().items():
            if isinstance(value, dict):
                value = "; ".join(f"{key}: {one}" for key, one in value.items())
            elif isinstance(value, list):
                value = ", ".join(value)
            rows.append(f"{name.replace('_', ' '):<25} {'none' if value in (None, '') else value}")
        return "\n".join(rows)


# Profiles of the tokenizers that were checked, while these exist: creating one takes a second or two.
_profiles: WeakKeyDictionary[Any, TokenizerProfile] = WeakKeyDictionary()


def check_tokenizer(table: TokenTable | None, tokenizer: Any) -> None:
    """Refuses a Hugging Face tokenizer whose numeric tokens differ from those that an adapter was created with (a
    ValueError, which names the first difference); it may have added tokens, such as padding.

    `table` is the adapter's `IGCConfig.token_table`. None (hidden interface) allows any tokenizer.
    """
    if table is None:
        return
    profile = _profiles.get(tokenizer)
    if profile is None or len(profile.vocabulary) != len(tokenizer):
        profile = _profiles[tokenizer] = TokenizerProfile.from_tokenizer(tokenizer)
    facts = {"group": table.group, "minus": table.minus, "point": table.point}
    if (difference := profile.difference(table.numbers, facts)) is not None:
        raise ValueError(difference)


def _unused_digits(tokenizer: Any, numbers: Mapping[int, str]) -> list[int]:
    """Tokens that spell the digits of another token, which the tokenizer uses: a digit may have a single byte, too."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for token, text in numbers.items():
        alike[text].append(token)
    unused: list[int] = []
    for text, tokens in alike.items():
        used = token_ids(tokenizer, [text.strip()])[0] if len(tokens) > 1 else tokens
        kept = next((token for token in tokens if token in used), tokens[0])
        unused += [token for token in tokens if token != kept]
    return unused


def _mark(tokenizer: Any, vocabulary: Vocabulary, example: str, *marks: str) -> int | None:
    """The token of a minus sign or a point as a number has it, else any token of the first form; None if neither."""
    found = [token for token in token_ids(tokenizer, [example])[0] if vocabulary.texts[token] in marks]
    found += [token for token, text in enumerate(vocabulary.texts) if text == marks[0]]
    return next((token for token in found if token not in vocabulary.control), None)


def _sample_runs() -> list[str]:
    """A fixed sample of runs of 1 to 20 digits, complete for one and two digits without leading zeros."""
    draw = random.Random(0)
    runs = [str(number) for number in range(100)]
    for length in range(3, LONGEST_RUN + 1):
        runs += [str(draw.randrange(10 ** (length - 1), 10**length)) for _ in range(SAMPLES)]
    return runs


def _splits(tokenizer: Any, texts: Sequence[str], numbers: Mapping[int, str]) -> list[list[str]]:
    """The digits of each numeric token of each text."""
    split = token_ids(tokenizer, texts)
    return [[numbers[token].strip() for token in ids if token in numbers] for ids in split]


def _shares(length: int, runs: Sequence[str], pieces: Sequence[Sequence[str]]) -> str:
    """The most common splits of the runs of a length."""
    split = (parts for run, parts in zip(runs, pieces, strict=True) if len(run) == length)
    ways = Counter("+".join(str(len(part)) for part in parts) for parts in split)
    return ", ".join(f"{way} {count / ways.total():.0%}" for way, count in ways.most_common(4))


def _grouping(
    tokenizer: Any, runs: Sequence[str], bare: Sequence[Sequence[str]], numbers: Mapping[int, str]
) -> tuple[int | None, tuple[str, ...]]:
    """The k of a split in groups of k from the left, and the groups without a token; `(None, ())` if irregular.

    Every sampled run must be split this way, alone and after a word, unless one of its groups has no token.
    """
    # Only the first token of a long run has the size of a full group with certainty.
    sizes = Counter(len(parts[0]) for run, parts in zip(runs, bare, strict=True) if len(run) > 9 and parts)
    group = sizes.most_common(1)[0][0] if sizes else 0
    if not 1 <= group <= 4:
        return None, ()
    wanted = [f"{number:0{length}}" for length in range(1, group + 1) for number in range(10**length)]
    gaps = [text for text, parts in zip(wanted, _splits(tokenizer, wanted, numbers), strict=True) if parts != [text]]
    if len(gaps) > MOST_GAPS * len(wanted):
        return None, ()
    after_word = _splits(tokenizer, [f"is {run}" for run in runs], numbers)
    for run, *ways in zip(runs, bare, after_word, strict=True):
        expected = [run[start : start + group] for start in range(0, len(run), group)]
        if not set(gaps) & set(expected) and any(way != expected for way in ways):
            return None, ()
    return group, tuple(gaps)


def _obstacles(
    runs: Sequence[str], pieces: Sequence[Sequence[str]], numbers: Mapping[int, str], minus: int | None
) -> list[str]:
    """The reasons why the token interface does not support the tokenizer, in sentences; none if it does."""
    found = []
    misspelled = [run for run, parts in zip(runs, pieces, strict=True) if "".join(parts) != run]
    if missing := sorted(set("0123456789") - set(numbers.values())):
        found.append(f"No token spells the digit {', '.join(missing)} alone.")
    elif misspelled:
        found.append(f"The numeric tokens of {misspelled[0]!r} do not spell it.")
    if minus is None:
        found.append("No token spells a minus sign alone.")
    return found
