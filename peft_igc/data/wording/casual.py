"""Casual writing: how people type when they are in a hurry, as a change of any text with a request or without one.

In: a text of the other pools. Out: the same text with some of a lead, a tail, a clause of common words without sense,
small letters, no full stop, short spellings (`whats`, `pls`) and slips of the keyboard. What stands from the first
number to the last one is left as it is, but for capitals and two letters that change places in the name of an
operation (`mnius`): what is asked stays the same. Leads, tails and clauses have no numbers; they are split into
trained and held-out ones as all other texts (`grammar`).
Try it: `pytest tests/data/test_wording.py -k casual`
"""

import random
import re
from collections.abc import Callable

from .draw_context import OPEN
from .grammar import Draft, Parts, choose, drawn, line_of
from .words import COMMON


__all__ = ["casual"]

# fmt: off
LEADS = (
    "(hey|hi|hello|yo|heya|hiya|morning|evening)(,|!| there,| friend,|) ",
    "(ok|okay|alright|right|well|um|uh|hmm|er|oh)(,| so| now|...|) ",
    "(so|and|but|now|then|also|and this|next up|the last)(,|:|) ",
    "(quick|simple|easy|dumb|silly|basic|random|small) (question|maths question|math problem|thing)(:|,) ",
    "(sorry|excuse me|pardon|please|pls|help|help please|urgent)(,|:|!) ",
    "(can|could) (you|someone|anybody|anyone) (help|help me|do this|check this)(?|:|,) ",
    "(i forgot|i can't remember|i never know|i don't know|no idea|i wonder|just wondering|i was wondering)(,|:|) ",
    "(math|maths|arithmetic|homework|calculator|calc|question|exercise)(:| time:| help:| please:) ",
    "(my|our) (kid|son|daughter|mum|mom|dad|boss|teacher|neighbour|friend) (asks|wants to know|needs|asked me)(:|,|) ",
    "(let's see|let me see|lemme see|for fun|just for fun|for a bet|for work|for school)(,|:) ",
    "(i need|i want|we need|give me|gimme|get me|show me|tell me) (a number|the answer|this)(:|,) ",
    "(do you know|any idea|anyone know|who knows|would you know)(,|:|) ",
    "(mentally|exactly|in your head|without a calculator|by hand|on paper|off the top of your head)(,|:) ",
    "(dear|good|smart|clever) (bot|assistant|computer|machine|ai|robot)(,|:) ",
    "(good day|greetings|howdy|welcome back|long time no see)(,|!|.) (i would like|i'd like|please tell me|let me "
    "have) ",
    "(here is|here's|i have|got|now) (something|a thing|a problem|a task|a sum|another) (easy|simple|for you|new)(:|,"
    ") ",
    "(my|our) (head|brain|mind|memory) (is tired|is gone|hurts|fails me|is empty)( today| again| lol|)(,|:|...) ",
    "(seems|looks like|turns out|apparently|honestly) (i can't|i cannot|nobody can|we can't) (do|work out) "
    "this( in my head| alone|)(,|:|...) ",
    "(answer|reply|respond|write|return|output) (only|just|nothing but) (the|a) (number|result|value)(:|.|,) ",
    "(keep it|be) (short|brief|quick|exact|precise)(:|.|,) ", "(where|since|as|because) (is my|i lost my|i can't find "
    "my|i have no|there is no) (calculator|phone|pen|paper)(,|:|?) ",
    "(come on|hurry up|listen|look|hey|oi) you (useless|silly|lazy|lovely|clever|old) (thing|machine|bot|box)(,|:|!) ",
    "(stop|no more|enough of|quit) (essays|talking|explaining|stories|jokes|excuses)(.|:|,) ",
    "(ok google|hey siri|alexa|computer|ok computer|ok assistant)(, i mean you|)(,|:|.) ",
    "(me again|back again|still here|hi again|thanks for earlier|thanks for that|that was great)(,|:|.|!) "
    "(now|next|this time|also|then|and) ",
    "(idk|dunno|don't know|no clue|not sure) (how to do this|how this works|what i did wrong|where to "
    "start)(,|:|...) ",
    "(don't laugh|no judgement|be nice|promise not to laugh|this is embarrassing)(,|:) (but |) ",
    "(i'm|i am|im) (not good with numbers|bad at maths|hopeless at this|too tired|half blind|so slow today)( "
    "lol|)(,|:|...| so) ",
    "(for|in) (the|my|our) (quote|budget|seating plan|party|trip|diary|spreadsheet|bakery|garden|rent)(,|:) ",
)
# Before a request only.
ASKING_LEADS = (
    "(i'm|i am|we are|my boss is) (filling in|doing|checking|working on|looking at|stuck with) (a|the|my) (tax "
    "form|inventory|till|budget|spreadsheet|invoice|worksheet|quote|garden plan|report|recipe)(,|:|;| and|.) (it "
    "says|i need|now i need|so|it wants|what is|the next line is|there is|) ",
    "(never mind|forget it|forget that|scrap that|not that|hold on|wait)(,|:|...) (just|i only need|give "
    "me|what's|so) ",
    "(is it|would it be|i always forget, is it) (obvious|clear|known|silly to ask) (what is|how much is) ",
    "(i know|i guess|i think) (it's|its|this is|that is) (easy|silly|simple|basic) but (what is|whats|how much is|) ",
)
# Behind any text.
TAILS = (
    " (please|pls|plz|thanks|thx|ty|thank you|cheers|ta|please and thank you)(!|!!|.|)",
    "(,|) (no|skip the|without) (explanation|explanations|words|steps|working|fuss|text)( please| needed|)(.|)",
    " (quick|quickly|fast|asap|right now|real quick|in a hurry)(!|.|)",
    "(,|?|) (anyone|anybody|someone|help|go|ready|right|ok|you know)(?|!|)",
    "(,|) i (forgot|forget|can't do it|can't remember|am stuck|keep getting it wrong|always mess it up|have no "
    "clue)(.|)", "(,|) (my|the) (calculator|phone|battery) (is|died|broke|is dead|is broken)(.|)",
    " (for me|for us|for my kid|for my class|for my homework|for the shop|for today)( please|)(.|)",
    "(,|) (i think|i guess|i hope|i suppose|maybe) (it is easy|i know it|you know it|you can)(.|)",
    "(,|) (hurry|quick|come on|let's go|i'm waiting|don't be shy|show me)(.|!|)",
    "(,|) (without|and no) (rounding|commas|units|spaces|decimals|comment)( please|)(.|)",
    " for (a|my|the) (time|unit|money|currency) (conversion|sheet|table)(.|)",
    "(,|) (and nothing else|nothing more)(.|)",
    " for my (taxes|budget|recipe|essay|kids|report|shopping|trip|notes)( please|)(.|)",
    ". (I|i) (am|was) (too tired|in a hurry|late|hopeless at maths|fast asleep|on the train|no good at this)(.|)",
    ". (Yours|Regards|Love|Bye|Best wishes|See you)(, Margaret|, Tom|, your friend|)(.|)",
    "(,|...) (innit|im blanking|my head hurts|im lost|i always mix this up|kinda urgent|last for today)(.|)",
    "(,| or) (i'm leaving|i'm uninstalling|i quit|i give up|i go home)(.|)",
    " (lol|haha|hehe|ok|okay|bro|man|mate|dude|buddy)(.|!|)",
)
# What is to be done with an answer, behind a request only.
FORMS = (
    " (in|as) (bold|italics|plain text|digits|figures|numerals|raw text|a plain number|a bare number)(.|!|)( please|)",
    "(,|) (no|without|skip the|avoid) (markdown|latex|formatting|code|units|symbols|preamble|introduction)( "
    "please|)(.|)",
    " (on|in) (its own line|a separate line|a new line|a line of its own|the next line|a single line)(.|)",
    "(,| and) (don't|do not|never|please don't) (show|add|give|include|write|explain) (the steps|any steps|any "
    "text|any explanation|your reasoning|the working|anything else)(.|)",
    "(,| and) (give|write|show|put|return|print|say|format) (it|the answer|the result|your answer|the number) (in "
    "bold|as text|on its own line|as digits|between brackets|in quotes|at the end|first)(.|)",
    "(,| and) (nothing more|nothing else|no more words|that's it|that is all|leave it at that)(.|!|)",
    "(,| and) (check|double check|make sure of|be careful with|verify) (it|the digits|the result)(.|)",
    "(,|) if (you can|you know|possible|that's ok|it's not too much|you don't mind|you have time)(.|)",
    "(,|?) (can|could) (you|somebody) (confirm|check|tell me|say)( it|)(?|)",
    "(,|) (i|he|she|we|they) (got|get|think it is|believe it's|said) (something else|wrong|too much|less)(.|)",
    ". (Don't|Do not|Never|No need to|Please don't) (show|give|write|explain|add) (the|any) "
    "(steps|working|explanation|words|text|reasoning)(.|!|)",
    ". (Result|Answer|Number|Figures|The result|Only the number|Just the result) (only|please|pls|is all i need)(.|)",
    ". (Write|Say|Give|Return|Print|Show) (nothing but|only|just) the (answer|result|number)(.|!|)",
    "(,|.) (keep the sign|mind the sign|a negative result is fine|below zero is fine)(.|)",
    ". (What|Which number) (do|should|must) (i|we) (write|put|enter|fill in|tell them)(?|)",
)
# Behind a request only: behind `Ann has 5 pens and 3 pears` these would ask for a sum.
ASKING_TAILS = (
    "(,|) (just|only) the (number|answer|result|value|final number)( please| pls|)(.|)",
    "(?|,) (what is it|what's that|what does that make|how much is that|what do i get|what do you get|do you "
    "know)(?|)", "(,|) (exact|exactly|the exact number|precisely)( please|)(.|)",
    "(,|) (in total|all in all|all told|overall|total)(?|.|)", " (answer|result|number|value) (only|please|is)(.|:|)",
    " (in|as) (figures|a whole number)( please|)(.|)",
)
# fmt: on
ENDS = ("", "", "", "??", " ?", "...", "!", "?!")
BEHIND_NUMBERS = ENDS[:5]  # a sign of exclamation would be a factorial, and a point that of a decimal
JOINTS = (", ", ", ", ": ", "... ", " so ", " but ", ". ", "; ", " and ")  # of a clause and what stands behind it
_SHORT = {
    "what is": ("whats", "what's", "wats", "wat is"), "please": ("pls", "plz"), "you": ("ya", "yu"),
    "calculate": ("calc", "calculate"), "tell me": ("tell me", "tellme"), "how much is": ("how much's", "hows much"),
    "i am": ("im", "i'm"), "i would": ("id", "i'd"), "do not": ("dont", "don't"), "going to": ("gonna",),
    "give me": ("gimme",), "want to": ("wanna",), "have to": ("gotta",), "let me": ("lemme",), "because": ("cuz",),
    "could you": ("cud you", "cd you"), "would like": ("wud like",), "thanks": ("thx",), "answer": ("ans", "anser"),
    "number": ("num", "nr"), "question": ("qn",), "together": ("togther",), "minutes": ("mins",),
}  # fmt: skip
_SHORTENED = re.compile(rf"\b({'|'.join(sorted(_SHORT, key=len, reverse=True))})\b", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w.'])[a-z]{5,}(?![\w.'])")
_NUMBERS = re.compile(r"[-+(\[$€£]?[0-9].*[0-9][)\]%!²³]*|[0-9]", re.DOTALL)  # from the first one to the last one
_LONG_NUMBER = re.compile(r"[A-Za-z] ([3-9][0-9]|[0-9][0-9,]*[0-9]{2})$")  # nobody asks in words for its factorial
_KEPT = frozenset(  # words of operations are spelled as they are
    (
        "sum addition plus subtraction difference subtract subtracted subtracting product multiplication mul "
        "quotient division div add added adding increase increased decrease decreased multiply multiplied "
        "multiplying divide divided dividing substract substracted substracting subtrack devide devided "
        "deviding divid mutiply multipy multply mulitply pluss puls tims tiems times minus take away left sub "
        "over share shared split apart gap than how less fewer smaller lower shorter younger lighter cheaper "
        "divided multiplied point percent squared cubed power negative equals "
    ).split()
)
_SWAPPED = re.compile(r"(?<= )(plus|minus|times|divided|multiplied|subtract)(?= )", re.IGNORECASE)
_PLAIN = [word for word in COMMON if word not in _KEPT | {"all", "any", "each", "every", "both", "much", "many"}]
_WHOLE = re.compile(r"[\n\"]|print\(|\w\(")  # code, quotations and forms stay as they are


def casual(text: str, parts: Parts, rng: random.Random, asks: bool = True) -> str:
    """The text, typed casually.

    Args:
        text: A text with a request, or without one.
        parts: The parts whose leads and tails may be used.
        rng: The row's generator.
        asks: Whether it asks for a calculation, so that a tail may ask for it again.
    """
    if OPEN.search(text) or _WHOLE.search(text):
        return text
    if rng.random() < 0.5:
        text = _around_numbers(text, lambda part: _SHORTENED.sub(lambda match: _shortened(match[0], rng), part))
    if rng.random() < 0.25:
        text = _around_numbers(text, lambda part: _slipped(part, rng))
    if asks and rng.random() < 0.06:
        text = _SWAPPED.sub(lambda match: _swapped(match[0], rng), text, count=1)
    if rng.random() < 0.6 and re.search(r"[^0-9)]!$|[.?]$", text):
        text = text[:-1].rstrip()
        text += rng.choice(BEHIND_NUMBERS if text[-1:].isdigit() or text[-1:] in ")]" else ENDS)
    if rng.random() < 0.35:
        tails = TAILS + FORMS + ASKING_TAILS * 2 if asks else TAILS
        tail = choose(drawn(lambda: line_of(tails, rng), parts).template, rng)
        text = text.rstrip(" ?." if tail[0] in "?,." else "") + tail
    elif rng.random() < 0.12:
        text = text.rstrip(" .") + rng.choice(JOINTS[:-1]) + _clause(parts, rng)
    if rng.random() < 0.35:
        leads = LEADS + ASKING_LEADS if asks else LEADS
        lead = choose(drawn(lambda: line_of(leads, rng), parts).template, rng)
        text = lead + (text[0].lower() + text[1:])
    elif rng.random() < 0.18:
        text = _clause(parts, rng) + rng.choice(JOINTS) + (text[0].lower() + text[1:])
    if _LONG_NUMBER.search(text) and rng.random() < 0.15:
        text += rng.choice(("!", "!!"))
    draw = rng.random()
    if draw < 0.6:
        return text.lower()
    return text.upper() if draw < 0.63 else text


def _clause(parts: Parts, rng: random.Random) -> str:
    """Two to seven common words without sense, none of which names an operation."""
    return drawn(lambda: Draft(" ".join(rng.choices(_PLAIN, k=rng.randint(2, 7)))), parts).template


def _swapped(name: str, rng: random.Random) -> str:
    """The name of an operation, in which two letters have changed places."""
    at = rng.randrange(1, len(name) - 2)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def _around_numbers(text: str, change: Callable[[str], str]) -> str:
    """The text with a change of what stands before its first number, and of what stands behind its last one."""
    found = _NUMBERS.search(text)
    if found is None:
        return change(text)
    return change(text[: found.start()]) + found[0] + change(text[found.end() :])


def _shortened(words: str, rng: random.Random) -> str:
    """A short spelling of words of `_SHORT`, or the words."""
    return rng.choice(_SHORT[words.lower()]) if rng.random() < 0.6 else words


def _slipped(text: str, rng: random.Random) -> str:
    """The text with a slip of the keyboard in a word that names no operation."""
    words = [match for match in _WORD.finditer(text) if match[0] not in _KEPT]
    if not words:
        return text
    word = rng.choice(words)
    at = word.start() + rng.randrange(1, len(word[0]) - 2)
    pair = text[at : at + 2]
    return text[:at] + rng.choice((pair[::-1], pair[0], pair[0] + pair)) + text[at + 2 :]
