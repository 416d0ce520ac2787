"""How the tokens of a table spell numbers, for `text.spelling`.

In: a `TokenTable`. Out: a `Speller`. Try it: `pytest tests/text/test_spelling.py`
"""

from __future__ import annotations

from ..text.spelling import Piece, Speller
from .token_table import Edge, TokenTable


__all__ = ["speller_of"]


_MARKS = (Edge.DOT, Edge.COMMA)


def speller_of(table: TokenTable) -> Speller:
    """The speller of a token table."""
    edges = [(byte & 7, byte >> 4 & 7) for byte in range(256)]
    joins = [first in (*_MARKS, Edge.COLON) for first, _ in edges]
    near = bytes(byte for byte in range(256) if joins[byte] or edges[byte][1] in (Edge.DOT, Edge.MINUS))
    pieces: dict[int, Piece] = {}
    for token in [token for token, byte in enumerate(table.edges) if byte in near] + list(table.points):
        byte = table.edges[token]
        first, last = edges[byte]
        before, point, after = table.points.get(token, "").partition(".")
        pieces[token] = Piece(
            digits=before.strip() + after,
            spaced=before[:1] == " ",
            point=len(before.strip()) if point else -1,
            mark=first in _MARKS,
            joins=joins[byte],
            minus=last == Edge.MINUS,
            dot=last == Edge.DOT,
        )
    pieces |= {token: Piece(text, token in table.spaced) for token, text in table.digits.items()}
    tokens = {text: token for token, text in table.digits.items() if token not in table.spaced}
    return Speller(pieces, len(table.edges), tokens, table.group, table.minus, table.point)
