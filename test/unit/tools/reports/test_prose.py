"""Sentences of docstrings in all rooms, which have nouns for their subjects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
ROOMS = (
    *("dialects", "lowering", "runtime", "tools", "benchmarks", "examples"),
    *("test/unit", "test/plugin"),
)

PRONOUNS = ("How", "What", "Whatever", "Which", "Who", "Whoever", "Whose")
_PRONOUN = re.compile(rf"(?:That )?(?:{'|'.join(PRONOUNS)})\b", re.IGNORECASE)
_PART = re.compile(r"\n\s*\n|\n\s*[*-] ")
_END = re.compile(r"(?<=[.:!?]) (?=[^a-z])")


def docstrings_of(source: str) -> Iterator[tuple[int, str]]:
    """The texts that stand by themselves, those of fields too, each with its line."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        match node := pending.pop():
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
            case ast.Expr() | ast.Assign() | ast.Return():
                pass
            case ast.Module() | ast.stmt() | ast.ExceptHandler() | ast.match_case():
                pending += ast.iter_child_nodes(node)
            case _:
                pass


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a docstring, without code and examples."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    prose = re.sub(r"`[^`]*`", "`code`", prose)
    for part in _PART.split(prose.strip()):
        yield from _END.split(" ".join(part.split()))


def without_subject(source: str) -> list[str]:
    """The sentences that begin with a pronoun, except questions, by their lines."""
    return [
        f"{line}: {sentence[:60]}"
        for line, text in sorted(docstrings_of(source))
        for sentence in sentences_of(text)
        if _PRONOUN.match(sentence) and not sentence.endswith("?")
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_sentences_have_a_noun_for_their_subject(room: str) -> None:
    found = {
        str(path.relative_to(ROOT)): sentences
        for path in sorted((ROOT / room).rglob("*.py"))
        if (sentences := without_subject(path.read_text(encoding="utf-8")))
    }
    assert found == {}


PLANTED = '''
"""How rows are read."""


def readers(rows: int) -> int:
    """The rows: what is left, and who reads them. Who waits is last."""


class Log:
    """
    A log, whatever it holds. Whatever is left goes.

    Which rows stay, is
    written in `rows`:

    * `rows` lie in a file;
    * what has no row is lost.

    What is a row? A line: see `Which of them`.

    ```
    What is here is code.
    ```
    """

    rows: int
    """Whose rows there are."""

    size: int
    """The number of rows. That which is lost does not count."""
'''


def test_a_pronoun_for_a_subject_is_found() -> None:
    assert without_subject(PLANTED) == [
        "2: How rows are read.",
        "6: Who waits is last.",
        "10: Whatever is left goes.",
        "10: Which rows stay, is written in `code`:",
        "10: what has no row is lost.",
        "27: Whose rows there are.",
        "30: That which is lost does not count.",
    ]


def test_nouns_for_subjects_are_no_mistakes() -> None:
    clean = '"""The rows of a log.\n\nWhy not? Whether they fit is checked."""\n'
    assert without_subject(clean) == []
