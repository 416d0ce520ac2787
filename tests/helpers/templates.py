"""All templates of a line with alternatives, by a second reader of `texts/*.toml`."""

import itertools
import re


def templates(line):
    """The templates of `(Add|Sum up) {a}(.|, please.)`; some may occur twice."""
    match = re.search(r"\(([^()|]*\|[^()]*)\)", line)
    if match is None:
        return [line]
    made = (line[: match.start()] + one + line[match.end() :] for one in match[1].split("|"))
    return list(itertools.chain.from_iterable(map(templates, made)))
