"""Writes the generated parts of `docs/`: the refusals of `statuses.md` and the settings of `config.md`.

In: `EXPLANATIONS` of the records, and the docstrings of `IGCConfig` and `IGCSFTConfig`. Out: the tables between
`<!-- NAME -->` and `<!-- /NAME -->` of these pages. `--check` changes nothing and fails where a table is not current.

    python docs/generate.py
"""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

from peft_igc import IGCConfig
from peft_igc.text.values import Reason
from peft_igc.trainer import IGCSFTConfig
from peft_igc.tuner.records import EXPLANATIONS


FOLDER = Path(__file__).resolve().parent
_SETTING = re.compile(r"^ *(\w+) \((.*)\):\n((?:^ {12,}.*\n|^\n)+)", re.MULTILINE)


def refusals() -> str:
    """A row per reason."""
    reasons = EXPLANATIONS | {reason.name.lower(): reason.text for reason in Reason}  # what rules mean by it
    del reasons[Reason.NONE.name.lower()]
    rows = [f"| `{name}` | {text} |" for name, text in reasons.items()]
    return "\n".join(["| reason | meaning |", "| --- | --- |", *rows])


def settings(config: type) -> str:
    """A row per documented setting: its default and what its docstring begins with."""
    rows = []
    for name, kind, text in _SETTING.findall(f"{inspect.getdoc(config)}\n".replace("\n", "\n    ") + "\n"):
        default = re.search(r"defaults to (.*)$", " ".join(kind.split()))
        first = re.split(r"[.;](?= |$)| \(", " ".join(text.split()))[0]
        clauses = first.split(", ")
        sentence = (clauses[0] if len(clauses[0].split()) > 3 else first).replace("|", "\\|")
        rows.append(f"| `{name}`{f' = {default[1]}' if default else ''} | {sentence} |")
    return "\n".join(["| setting and default | meaning |", "| --- | --- |", *rows])


PARTS = {
    "refusals": refusals,
    "igc_config": lambda: settings(IGCConfig),
    "igc_sft_config": lambda: settings(IGCSFTConfig),
}


def filled(page: str) -> str:
    """A page with its generated parts."""
    for name, make in PARTS.items():
        pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL)
        page = pattern.sub(lambda _, n=name, m=make: f"<!-- {n} -->\n{m()}\n<!-- /{n} -->", page)
    return page


def main() -> None:
    """Writes or checks the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, fail where something would change")
    check = parser.parse_args().check
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if filled(text) == text:
            continue
        if check:
            raise SystemExit(f"`docs/{page.name}` is not current. Run `python docs/generate.py`.")
        page.write_text(filled(text), encoding="utf-8")


if __name__ == "__main__":
    main()
