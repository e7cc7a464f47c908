"""MLIR's `expected-error` comments: which errors a piece of text should produce."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.dialects.diagnostics import Place
from penstock.tools.diagnostics import Diagnosis

_MENTION = re.compile(r"//.*\bexpected-error(?=@|\s*\{)")
_COMMENT = re.compile(
    r"//.*\bexpected-error(@(?P<where>[+-]\d+|above|below|unknown))?"
    r"\s*\{\{(?P<text>.*)\}\}\s*$"
)


@dataclass(frozen=True)
class Expectation:
    """An error whose message holds `text`, at `line` (None: without a place)."""

    written: Place
    line: int | None
    text: str

    def accepts(self, error: Diagnosis) -> bool:
        """Say whether `error` is what was expected."""
        if self.text not in error.message:
            return False
        if error.place is None or self.line is None:
            return error.place is None and self.line is None
        return error.place[:2] == (self.written.file, self.line)


def mentions_expectations(text: str) -> bool:
    """Say whether any comment of `text` asks for an error, even if malformed."""
    return any(_MENTION.search(line) for line in text.split("\n"))


def compare(
    text: str, file: str, line_offset: int, errors: Sequence[Diagnosis]
) -> list[Diagnosis]:
    """
    Match the errors that a piece of text produced with those its comments expect.

    Returns what is wrong: comments that cannot be read, errors that were not
    expected, expected errors that did not occur. Line numbers count from the file's
    start, `line_offset` lines before the text.
    """
    expectations, wrong = _read(text, file, line_offset)
    open_ = sorted(expectations, key=lambda e: len(e.text), reverse=True)
    for error in errors:
        match = next((e for e in open_ if e.accepts(error)), None)
        if match is None:
            wrong.append(
                Diagnosis(
                    error.place, f"unexpected error: {error.message}", error.notes
                )
            )
        else:
            open_.remove(match)
    wrong += [
        Diagnosis(e.written, f'expected error "{e.text}" was not produced')
        for e in open_
    ]
    return sorted(wrong, key=lambda d: d.place or ("", 0, 0))


def _read(
    text: str, file: str, line_offset: int
) -> tuple[list[Expectation], list[Diagnosis]]:
    lines = text.split("\n")
    expectations: list[Expectation] = []
    malformed: list[Diagnosis] = []
    for index, line in enumerate(lines):
        if (mention := _MENTION.search(line)) is None:
            continue
        column = mention.start() + 1
        written = Place(file, index + 1 + line_offset, column)
        comment = _COMMENT.search(line)
        if comment is None:
            malformed.append(
                Diagnosis(
                    written,
                    "malformed comment, write expected-error@+N {{part of the message}}"
                    " with one of +N, -N, above, below, unknown or no @",
                )
            )
            continue
        target = _line_meant(comment["where"], index, lines)
        number = None if target is None else target + 1 + line_offset
        expectations.append(Expectation(written, number, comment["text"]))
    return expectations, malformed


def _line_meant(where: str | None, index: int, lines: list[str]) -> int | None:
    """Return the index of the line that a comment at `index` is about."""
    match where:
        case None:
            return index
        case "unknown":
            return None
        case "above":
            return _next_plain_line(index, -1, lines)
        case "below":
            return _next_plain_line(index, 1, lines)
        case offset:
            return index + int(offset)


def _next_plain_line(index: int, step: int, lines: list[str]) -> int:
    index += step
    while 0 <= index < len(lines) and _MENTION.search(lines[index]):
        index += step
    return index
