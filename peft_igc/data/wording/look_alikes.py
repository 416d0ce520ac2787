"""Texts with signs between numbers that ask for no calculation: dates, scores, ranges, versions, code and so on.

`LOOK_ALIKES` has lines by kind, which `grammar` splits like all others; `fill` puts numbers into a line, as the kind
of thing has them: a month is 1 to 12. Only what looks like arithmetic is here; other texts without a request are in
`plain_texts`. Try it: `pytest tests/data/test_symbol_rows.py -k look`.
"""

import random
import re


__all__ = ["LOOK_ALIKES", "fill"]

# {i} one digit, {n} up to two digits, {p} three, {q} four; {y} a year, {yy} two digits of one, {mo} a month, {da} a
# day, {h} an hour, {mi} minutes.
# fmt: off
LOOK_ALIKES: dict[str, tuple[str, ...]] = {
    "dates": (
        "(The exam|My flight|The concert|Our trip) is (on|planned for) {da}/{mo}/{y}.",
        "(Written|Signed|Printed|Updated) on {y}-{mo}-{da}.", "I (was born|moved here|retired) on {da}-{mo}-{y}.",
        "(Deadline|Delivery|Start): {y}/{mo}/{da}", "(the school year|the winter of|the budget for) {y}/{yy}",
        "(Open|Closed|Valid) from {da}/{mo} (to|until) {da}/{mo}.", "She (worked|studied|taught) there {y}-{y}.",
        "Which day of the week (is|was) {mo}/{da}/{y}?", "{da}.{mo}.{y} (was rainy|is a holiday|suits me).",
    ),
    "times": (
        "(Dinner|The lesson|The bus|The show) is at {h}:{mi}.", "(Office hours|Visits|Lunch): {h}:{mi} - {h}:{mi}",
        "The (shop|desk|line) is (open|staffed) 24/7.", "(Sleep|Work|Rest) from {h}-{h}.",
        "He ran it in {n}:{mi}.{n}.", "(Log|Backup|Alarm) at {y}-{mo}-{da} {h}:{mi}:{mi}",
    ),
    "scores": (
        "(We|Our team|The guests|The girls) (lost|won|led) {n}-{n}.", "(Half-time|Result|Score): {i}-{i}",
        "I got {n}/{n} (in the quiz|on the test|right).", "The (film|book|cake) (is|was) a {i}/10.",
        "The (vote|count|tally) was {n}-{p}.", "They drew {i}:{i} (at home|again|yesterday).",
        "She won the sets 6-{i}, 7-{i}.", "Is {n}-{n} a (good|fair|usual) score?",
    ),
    "ranges": (
        "(It lasts|Wait|Bake it for|Allow) {i}-{n} (minutes|days|hours|weeks).", "(Scan|Copy|Print) pages {n}-{p}.",
        "(Children|Players|Pupils) aged {i}-{n} (may come|are free).",
        "(Questions|Lines|Rows|Seats) {n}-{n} are (missing|new).",
        "A {i}-{i} (year|week|day) (plan|guarantee|course)", "(Tickets|Shoes|Lamps) are ${n}-${n}.",
        "(About|Some|Roughly) {n}%-{n}% agreed.",
        "(Sizes|Grades|Floors) {i} - {n} are (full|on sale).", "(Beat|Take|Use) {i}-{i} (eggs|spoons|drops).",
    ),
    "numbers of things": (
        "(Ring|Dial|Phone) {p}-{q}.", "(Call|Text|Fax) ({p}) {p}-{q} (today|for details).",
        "(Flat|Room|Locker|Unit) {n}/{n} is (empty|mine).", "(Invoice|Order|Case|Ticket) {q}-{n} is (paid|late|open).",
        "(Bus|Line|Road|Train) {n}/{p} (stops|ends) here.", "(Flight|Model|Form|Type) {p}-{i} is (full|old|ready).",
        "(My card|The key|The code) is {q}-{q}-{q}.", "(Verse|Chapter|Act) {i}:{n}-{n}", "The postcode is {q}-{p}.",
    ),
    "versions": (
        "(Update|Downgrade|Switch) to version {i}.{n}.{i}.", "(Works|Tested|Built) with {i}.{n} - {i}.{n}",
        "(Release|Build|Patch) {i}.{i}-{n} is out.", "requires (foo|lib|core)>={i}.{n},<{i}.{n}",
        "The (server|printer|router) is at 10.{n}.{i}.{n}/{n}.", "Does {i}.{n}.{n} (fix|contain) it?",
    ),
    "measures": (
        "(Use|Add|Stir in) {i}/{i} (cup|spoon|litre) of (milk|flour|oil).",
        "A {n} x {n} (cm|inch) (frame|tile|board|poster)",
        "The (screen|image|video) is {q} x {p}.", "(Buy|Bring|Cut) a {i}/{i} inch (pipe|bolt|drill).",
        "Her blood pressure is {p}/{n}.", "(Tyres|Wheels|Frames) {p}/{n} (fit|are sold out).",
        "(It has|There is) a 50/50 chance.", "A {i}/{i} (beat|share|majority) is (usual|needed).",
    ),
    "code": (
        "(y|total|k) = b[{n}-{i}]", "for k in range({i}, {n}): (pass|run(k))", "while (k < {n}) k += {i};",
        "(if|while) (n == {n}-{i}) (return|break);", "m[{i}][{i}] = m[{i}-1][{n}]",
        "(head|tail) -{n} (notes|data).txt",
        "chmod {p} run-{i}.sh", "UPDATE t SET a = a - {i} WHERE id = {n};", "(padding|margin): {n}px -{i}px;",
        "rgb({p}, {p}, {n})", "lr = {i}e-{i}, steps = {q}", "let (z|w) = v({n}) * {i};", "git show HEAD~{i} -{n}",
    ),
    "formulas": (
        "(Plot|Draw|Sketch) y = {i}x + {n}.", "(the range|the pair) [{i}, {n}]", "(a corner|the vector) ({i}, -{n})",
        "f(x) = x^{i} - {n}", "{i}x - {n} > {i}", "H{i}SO{i} + {i}NaOH", "P(B) = {i}/{n}",
        "a^2 + b^2 = c^2 for {i} and {n}",
        "$x^{i} - {n}$ is (even|odd).", "\\frac{i}{n} (of it|is left)", "v = {n} m/s, t = {i} s",
    ),
}
# fmt: on

_FIELD = re.compile(r"\{(i|n|p|q|y|yy|mo|da|h|mi)\}")


def fill(line: str, rng: random.Random) -> str:
    """A line with numbers in its fields."""
    return _FIELD.sub(lambda match: _value(match[1], rng), line)


def _value(name: str, rng: random.Random) -> str:
    """A number for a field; days, months and hours sometimes have a leading zero."""
    low, high = {
        "i": (1, 9), "n": (1, 99), "p": (100, 999), "q": (1000, 9999), "y": (1900, 2099), "yy": (10, 99),
        "mo": (1, 12), "da": (1, 28), "h": (0, 23), "mi": (0, 59),
    }[name]  # fmt: skip
    number = rng.randint(low, high)
    return f"{number:02}" if name in ("mi", "yy") or (name in ("mo", "da") and rng.random() < 0.5) else str(number)
