"""
Comments with expected diagnostics, in MLIR's grammar, and the check that a piece of
text produces them and no others:

    // expected-error@+1 {{part of the message}}
    // expected-warning-re @below 2 {{a {{[0-9]+}} in it}} expected-note@above {{here}}

The kind is `error`, `warning`, `note` or `remark`. With `-re`, what stands between
braces in the message is a regular expression. The line is that of the comment, `@+N` or
`@-N` lines from it, the next one `@below` or `@above` without such a comment itself, or
that of a diagnostic without a place (`@unknown`). A number says how often. A line may
hold several. A word that looks as if it began one of them, and does not, is an error.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from penstock.dialects.utils.diagnostics import Place
from penstock.tools.driver.errors import Diagnosis

KINDS = ("error", "warning", "note", "remark")
_DESIGNATORS = [f"expected-{kind}{end}" for kind in KINDS for end in ("", "-re")]

_START = rf"expected-(?:{'|'.join(KINDS)})"
_EXPECTATION = re.compile(
    rf"\bexpected-(?P<kind>{'|'.join(KINDS)})(?P<regex>-re)?"
    r"[ \t]*(?:@(?P<where>[+-]\d+|above|below|unknown))?"
    r"[ \t]*(?P<count>[1-9]\d*)?"
    r"[ \t]*\{\{(?P<text>.*?)\}\}"
    # The text may hold braces, and so end in them.
    rf"(?=\s*$|\s+(?://+\s*)?{_START})"
)
_COMMENT = re.compile(r"//.*")
_WORD_WITH_TEXT = re.compile(r"([A-Za-z][\w-]*)(?=.*(?:@|\{))")
_WORDS_WITH_TEXT = re.compile(r"([A-Za-z]+[ _][A-Za-z]+)(?=[ \t]*(?:@|\{))")
_LEAST_LIKENESS = 0.8
"""From 0 to 1; "expected" alone is 0.76 like "expected-note"."""


@dataclass(frozen=True)
class Expectation:
    """
    An expected diagnostic: its message holds `text`, and it is at `line` (None: no
    place).
    """

    written: Place
    kind: str
    line: int | None
    text: str
    pattern: re.Pattern[str]

    def accepts(self, found: Diagnosis) -> bool:
        """Whether a diagnostic is the expected one."""
        if self.kind != found.severity or not self.pattern.search(found.message):
            return False
        if found.place is None or self.line is None:
            return found.place is None and self.line is None
        return found.place[:2] == (self.written.file, self.line)


def mentions_expectations(text: str) -> bool:
    """Whether a comment of `text` expects a diagnostic, even if it is malformed."""
    return any(_is_mention(line) for line in text.split("\n"))


def compare(
    text: str, file: str, line_offset: int, found: Sequence[Diagnosis]
) -> list[Diagnosis]:
    """
    The differences between the diagnostics of a piece of text and those that its
    comments expect: malformed comments, diagnostics that were not expected, and
    expected ones that did not occur.

    Line numbers count from the file's start, `line_offset` lines before the text.
    """
    expectations, wrong = _read(text, file, line_offset)
    open_ = sorted(expectations, key=lambda e: len(e.text), reverse=True)
    for each in _with_notes(found):
        match = next((e for e in open_ if e.accepts(each)), None)
        if match is None:
            message = f"unexpected {each.severity}: {each.message}"
            wrong.append(Diagnosis(each.place, message, each.notes))
        else:
            open_.remove(match)
    wrong += [
        Diagnosis(e.written, f'expected {e.kind} "{e.text}" was not produced')
        for e in open_
    ]
    return sorted(wrong, key=lambda d: d.place or ("", 0, 0))


def _with_notes(found: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    for each in found:
        yield each
        yield from each.related


def _is_mention(line: str) -> bool:
    comment = _COMMENT.search(line)
    if comment is None:
        return False
    return bool(_EXPECTATION.search(comment[0])) or _typo(comment[0]) is not None


def _typo(comment: str) -> re.Match[str] | None:
    """The first word that looks as if it began an expectation, if there is any."""
    for pattern in (_WORD_WITH_TEXT, _WORDS_WITH_TEXT):
        for match in pattern.finditer(comment):
            name = re.sub(r"[ _]", "-", match[1].lower())
            if get_close_matches(name, _DESIGNATORS, n=1, cutoff=_LEAST_LIKENESS):
                return match
    return None


def _read(
    text: str, file: str, line_offset: int
) -> tuple[list[Expectation], list[Diagnosis]]:
    lines = text.split("\n")
    expectations: list[Expectation] = []
    malformed: list[Diagnosis] = []
    for index, line in enumerate(lines):
        if (comment := _COMMENT.search(line)) is None:
            continue
        number = index + 1 + line_offset
        for match in _EXPECTATION.finditer(line, comment.start()):
            place = Place(file, number, match.start() + 1)
            target = _line_meant(match["where"], index, lines)
            meant = None if target is None else target + 1 + line_offset
            try:
                expectations += _expectations(match, place, meant)
            except re.error as error:
                message = f"bad regular expression in a comment: {error}"
                malformed.append(Diagnosis(place, message))
        rest = _EXPECTATION.sub(lambda match: " " * len(match[0]), comment[0])
        if (typo := _typo(rest)) is not None:
            place = Place(file, number, comment.start() + typo.start() + 1)
            malformed.append(Diagnosis(place, _malformed(typo[1])))
    return expectations, malformed


def _malformed(word: str) -> str:
    kinds = "|".join(KINDS)
    return (
        f"'{word}' looks like an expectation and is none, write "
        f"expected-({kinds})[-re] [@+N|@-N|@above|@below|@unknown] [count] "
        "{{part of the message}}"
    )


def _expectations(
    match: re.Match[str], place: Place, line: int | None
) -> list[Expectation]:
    """
    The expectations of a comment, as many as it counts.

    Raises `re.error` for a bad regular expression.
    """
    text = match["text"]
    pattern = re.compile(_regex(text) if match["regex"] else re.escape(text))
    one = Expectation(place, match["kind"], line, text, pattern)
    return [one] * int(match["count"] or 1)


def _regex(text: str) -> str:
    """
    The regular expression of a message: parts between braces as they are, the rest
    escaped.
    """
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(
        f"(?:{part})" if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )


def _line_meant(where: str | None, index: int, lines: list[str]) -> int | None:
    """The index of the line that a comment at `index` is about."""
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
    while 0 <= index < len(lines) and _is_mention(lines[index]):
        index += step
    return index
