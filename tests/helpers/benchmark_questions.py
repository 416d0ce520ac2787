"""Questions with operand columns, and training rows, for tests of the comparison of methods."""

from __future__ import annotations

from peft_igc.numbers.calculator import evaluate_exactly


def item(prompt, operator, a, b, target=None):
    result = evaluate_exactly(operator, a, b) if target is None else target
    columns = {"igc_operator": operator, "igc_operands": [a, b], "igc_result": result}
    return {"prompt": prompt, "target": result, **columns}


def row(prompt, completion, operator="none", operands=None, result=None):
    return {
        "prompt": [{"role": "user", "content": prompt}],
        "completion": [{"role": "assistant", "content": completion}],
        "igc_operator": operator,
        "igc_operands": operands,
        "igc_result": result,
    }


QUESTIONS = [
    item("What is 58213 times 907?", "*", "58213", "907"),
    item("What is 3 plus 4?", "+", "3", "4"),
    item("What is 12 minus 407?", "-", "12", "407"),
    item("What is -58 times -36?", "*", "-58", "-36"),
    item("What is 7 divided by 2?", "/", "7", "2", target="?"),
    item("What is 999999999999 plus 1?", "+", "999999999999", "1"),
]
