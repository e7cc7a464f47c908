"""Docstrings of dialects and of most of the tools name their subjects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = (
    *("dialects", "tools/cli", "tools/driver", "tools/frontend/onnx"),
    "tools/reports",
)

_SUBJECT = re.compile(r"(?:^|(?<=[.:;] ))(?:What|Who|Whoever|How many)\b(?!.*\?)")


def docstrings_of(source: str) -> Iterator[str]:
    """All texts that stand by themselves in a module: those of it, and of its names."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
            case _:
                pass


def without_subject(source: str) -> list[str]:
    """Sentences of docstrings with a pronoun where their subject should be."""
    found: list[str] = []
    for text in docstrings_of(source):
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        paragraphs = (" ".join(part.split()) for part in prose.split("\n\n"))
        found += [part[:60] for part in paragraphs if _SUBJECT.search(part)]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_sentences_have_a_noun_for_their_subject(room: str) -> None:
    found = {
        str(path.relative_to(ROOT)): sentences
        for path in sorted((ROOT / room).rglob("*.py"))
        if (sentences := without_subject(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_a_pronoun_for_a_subject_is_found() -> None:
    source = '''
"""Rows of a log. What is left goes."""


def what() -> None:
    """The rows: what is left, and who reads them."""


class Log:
    """
    A log.

    Who reads it
    waits.
    """

    rows: int
    """How many there are."""
'''
    assert sorted(without_subject(source)) == [
        "How many there are.",
        "Rows of a log. What is left goes.",
        "Who reads it waits.",
    ]
