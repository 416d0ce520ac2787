"""A look-up inside the forward pass: what articles cost, from a database that the adapter has never seen a copy of.

In: nothing. Out: `--output DIR` with a SQLite database of 10,000 articles, training rows that name 3,000 of them, the
adapter of `recipes/lookup.yaml`, and `results.json`: 1,000 articles that no row names, and numbers of no article. The
network learns which number is meant as an article; the host looks it up, and the calculator writes the price.

    python recipes/lookup.py --output build/lookup            # 5 minutes on one CPU core
    python recipes/lookup.py --output build/lookup --measure  # the adapter that is there
"""

import argparse
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path

import peft_igc
from peft_igc.data.files import write_rows
from peft_igc.data.functions import row_of
from peft_igc.inference.loading import load_adapter, tiny_base
from peft_igc.operations import sqlite_lookup


ARTICLES, KNOWN, HELD_OUT, MISSING = 10_000, 3_000, 1_000, 300
PRICE = (
    "What does article {a} cost?", "price of article {a}", "How much is article {a}?", "article {a}, price?",
    "What is the price of item {a}?", "how much for no. {a}", "Please look up the price of {a}.", "cost of {a}",
    "I'd like to know what number {a} costs.", "{a}: what is the price", "what do i pay for {a}", "Price for {a}?",
    "Can you tell me the price of article number {a}, please?", "Hello, how much does the {a} cost?", "price {a}",
)  # fmt: skip
COST = (
    "{a} of article {b} =", "What do {a} pieces of article {b} cost?", "{a} times article {b}, total price?",
    "I want {a} of {b}. How much is that?", "How much are {a} of number {b}?", "total for {a} x article {b}",
    "We order {a} of item {b}. What do we pay?", "price of {a} units of {b}", "{a} pcs of no. {b}, what does it cost",
)  # fmt: skip
NONE = (
    "Is article {a} in stock?", "I bought article {a} yesterday.", "Who makes number {a}?", "thanks for the {a}",
    "Which colour does {a} have?", "Send {a} of article {b} to Berlin.", "article {a} is broken",
    "Order {a} of {b}, please.", "What is article {a}?", "{a} and {b} are the same article.",
    "Delete item {a}.", "When will {a} arrive?",
)  # fmt: skip
TEST = ("What does article {a} cost?", "Could you look up the price of article {a}?", "the price of {a}, please")


def make_database(path: Path) -> list[str]:
    """The database of articles; returns their numbers in random order."""
    rng = random.Random("articles")
    numbers = [str(number) for number in rng.sample(range(10_000, 100_000), ARTICLES)]
    if "48213" not in numbers:
        numbers[-1] = "48213"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("create table articles (number text primary key, price text)")
        prices = ((number, f"{rng.randint(1, 999)}.{rng.randint(0, 99):02}") for number in numbers)
        connection.executemany("insert into articles values (?, ?)", prices)
    connection.close()
    return numbers


def register(path: Path) -> None:
    """Adds both operations."""
    look_up = sqlite_lookup(path, "select price from articles where number = ?")
    peft_igc.register_operation(name="price", operands=1, phrasings=PRICE, strings=True)(look_up)

    @peft_igc.register_operation(name="cost", operands=2, phrasings=COST, strings=True)
    def cost(count, article):
        price = look_up(article)
        return None if price is None else Fraction(count) * Fraction(price)


def rows(known: list[str], numbers: set[str]) -> Iterator[dict]:
    """Training rows: known articles, numbers of none, whose result is `undefined`, and texts that ask for nothing."""
    rng = random.Random("rows")
    while True:
        article = rng.choice(known) if rng.random() < 0.9 else absent(numbers, rng)
        count, draw = str(rng.randint(1, 999)), rng.random()
        if draw < 0.45:
            yield row_of(rng.choice(PRICE).format(a=article), "price", [article])
        elif draw < 0.75:
            yield row_of(rng.choice(COST).format(a=count, b=article), "cost", [count, article])
        else:
            yield row_of(rng.choice(NONE).format(a=article, b=count), "none")


def absent(numbers: set[str], rng: random.Random) -> str:
    """A number of no article."""
    while (number := str(rng.randint(1_000, 999_999))) in numbers:
        pass
    return number


def measure(model, tokenizer, database: Path, articles: list[str], numbers: set[str]) -> dict:
    """Answers to requests for articles of no row and for numbers of no article, in words of the rows and in others."""
    rng = random.Random("measure")
    with sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True) as connection:
        prices = {key: str(Fraction(price)) for key, price in connection.execute("select number, price from articles")}
    connection.close()
    asked = [*articles, *(absent(numbers, rng) for _ in range(MISSING))]
    found: dict[str, Counter[str]] = {"words of the rows": Counter(), "other words": Counter()}
    for counts, wording in zip(found.values(), (PRICE, TEST), strict=True):
        prompts = [rng.choice(wording).format(a=article) for article in asked]
        answers = peft_igc.generate_answers(model, tokenizer, prompts, return_steps=True)
        for article, answer in zip(asked, answers, strict=True):
            (step,) = answer.steps
            kind, ok = "known" if article in prices else "missing", step.status == "ok"
            right = ok and str(Fraction(step.result)) == prices.get(article) == written_price(answer.text)
            counts[f"{kind}: {'right' if right else 'wrong with ok' if ok else step.reason}"] += 1
    return dict(found)


def written_price(text: str) -> str | None:
    """The number that an answer is, None if it is something else."""
    try:
        return str(Fraction(text.strip()))
    except ValueError:
        return None


def main() -> None:
    """Makes everything, trains and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/lookup"))
    parser.add_argument("--measure", action="store_true", help="only measure the adapter that is there")
    arguments = parser.parse_args()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    numbers = make_database(output / "articles.sqlite")
    register(output / "articles.sqlite")
    if not arguments.measure:
        from peft_igc.sft.run import run

        write_rows(output / "rows.jsonl", list(islice(rows(numbers[:KNOWN], set(numbers)), 2000)))
        line = ["--config", str(Path(__file__).with_suffix(".yaml")), "--dataset_name", str(output / "rows.jsonl")]
        run([*line, "--output_dir", str(output / "adapter")])
    base, tokenizer = tiny_base()
    model = load_adapter(base, output / "adapter").eval()
    found = measure(model, tokenizer, output / "articles.sqlite", numbers[KNOWN : KNOWN + HELD_OUT], set(numbers))
    (output / "results.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for prompt in ("What does article 48213 cost?", "3 of article 48213 =", "What is 12 plus 30?"):
        print(prompt, *peft_igc.generate_answers(model, tokenizer, [prompt]))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
