"""LaTeX and Markdown become plain characters in their places; `golden.jsonl` has what they mean."""

import random
import time

from peft_igc.text import check
from peft_igc.text.markup import plain


PARTS = [*r"\( \) \[ \] \\ \times \div \frac{1}{2} \frac{ \text{ }{ } {,} \, \quad & \$ $$ \% ^{2} \sqrt{".split(" ")]
PARTS += ["**", "\n- ", "\n* ", "| ", " |", "→", "12", "3,000", "cats", " ", "\n", "=", "+", "-"]


def test_every_text_keeps_its_length_and_long_ones_cost_little():
    rng = random.Random(0)
    for _ in range(3000):
        text = "".join(rng.choices(PARTS, k=12))
        assert len(plain(text)) == len(text), text
    hostile = (r"\frac{1}{5 " + "a" * 40 + "_1}", "\n" * 20_000, "\n- a" * 20_000, "**a" * 10_000, r"\text{" * 10_000)
    for text in hostile:
        start = time.process_time()
        assert len(plain(text)) == len(text)
        assert time.process_time() - start < 1, text[:20]


def test_claims_in_latex_are_compared_and_parts_of_other_numbers_are_not_understood():
    (claim,) = check(r"So \[ 6 \text{ boxes} \times \$2{,}000 = \$13{,}000 \]")
    assert (claim.verdict, claim.number, claim.value) == ("untrue", "$13{,}000", "12000")
    true = (
        r"\frac{3}{4} = 75\,\%",
        r"200 \times 3 = 6{,}00",
        "- 20 + 8 = 28",
        "7 ÷ 2 = **3**, remainder **1**",
    )
    for text in (*true, r"1 \div 3 = 0.\overline{3}", r"2 \times 5 = 1{,}5", r"7 + 8 = 3 \pmod{12}", "7 / 2 = 3½"):
        assert [one.verdict for one in check(text)] != ["untrue"], text
