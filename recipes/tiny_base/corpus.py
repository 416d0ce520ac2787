"""English prose that is on every machine with CPython: the language reference and the standard library's docstrings.

In: nothing but the running interpreter (its version decides the text; the released model was made with CPython 3.11).
Out: lists of texts for training and, from other topics of the reference, for the measurement of bits per byte.
No network, no files of our own. To see the sizes: `python -m tiny_base.corpus` in the folder `recipes`.
"""

import ast
import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from pydoc_data.topics import topics


# Prose rather than grammar, and about different things, so that the score speaks for the language as a whole.
HELD_OUT_TOPICS = (
    "assert",
    "context-managers",
    "conversions",
    "exprlists",
    "import",
    "integers",
    "numbers",
    "raise",
    "strings",
)
# Not prose (tests, grammars), not the standard library, or the reference itself once more.
_SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idlelib", "lib2to3", "pydoc_data", "site-packages", "dist-packages", "__pycache__"}
)
_MIN_DOCSTRING = 400


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of `text` without empty ones and without blanks at the ends of lines."""
    blocks = re.split(r"\n[ \t]*\n", text)
    return ["\n".join(line.rstrip() for line in block.strip("\n").split("\n")) for block in blocks if block.strip()]


def held_out_texts() -> list[str]:
    """Topics of the language reference that no training text shares a paragraph with."""
    return ["\n\n".join(split_paragraphs(topics[name])) for name in HELD_OUT_TOPICS]


def training_texts() -> list[str]:
    """The other topics of the reference, then the long docstrings of the standard library; each paragraph once.

    Topics quote each other, so paragraphs are compared, not texts: one that is held out or came before is left out.
    """
    seen = {paragraph.strip() for text in held_out_texts() for paragraph in split_paragraphs(text)}
    topic_texts = (topics[name] for name in sorted(topics) if name not in HELD_OUT_TOPICS)
    return _unseen(topic_texts, seen) + _unseen(_docstrings(), seen)


def _unseen(texts: Iterable[str], seen: set[str]) -> list[str]:
    """`texts` reduced to the paragraphs that are not in `seen`, which grows by them; empty texts are left out."""
    kept = []
    for text in texts:
        fresh = [paragraph for paragraph in split_paragraphs(text) if paragraph.strip() not in seen]
        seen.update(paragraph.strip() for paragraph in fresh)
        if fresh:
            kept.append("\n\n".join(fresh))
    return kept


def _docstrings() -> Iterable[str]:
    """Docstrings of at least `_MIN_DOCSTRING` characters from the standard library, in the order of files."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.glob("*.py")) + sorted(root.glob("[a-z]*/*.py")):
        if _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):  # deliberately broken sources are part of the library
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text and len(text) >= _MIN_DOCSTRING:
                    yield text


if __name__ == "__main__":
    for title, texts in (("training", training_texts()), ("held out", held_out_texts())):
        print(f"{title}: {len(texts)} texts, {sum(len(text.encode()) for text in texts):,} bytes")
