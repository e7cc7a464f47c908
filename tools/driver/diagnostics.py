"""
Diagnostics of the tools: their texts, and the exceptions that carry them.

Commands, sessions and front ends refuse input by `reject`; commands print the
exception, a line for each diagnostic.
"""

from collections.abc import Iterable
from typing import NoReturn

from xdsl.utils.exceptions import MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Span

from penstock.dialects.utils.diagnostics import Finding, Place, place_of
from penstock.tools.driver.errors import Diagnosis as Diagnosis
from penstock.tools.driver.errors import FileError as FileError
from penstock.tools.driver.errors import InternalError as InternalError
from penstock.tools.driver.errors import Rejected as Rejected
from penstock.tools.driver.errors import UsageError as UsageError
from penstock.tools.driver.errors import printable as printable

_LONGEST_QUOTED_LINE = 200
"""In characters; binary garbage has lines of megabytes."""


def reject_if_any(findings: Iterable[Finding], prefix: str) -> None:
    """
    Raise `Rejected` with all diagnostics in the order of the source, if there are any.
    """
    found = [Diagnosis(place_of(op), prefix + text) for op, text in findings]
    if found:
        raise Rejected(sorted(found, key=_source_order))


def _source_order(diagnosis: Diagnosis) -> tuple[str, int, int]:
    return diagnosis.place or ("", 0, 0)


def reject(message: str, place: Place | None = None) -> NoReturn:
    """Raise `Rejected` for a single reason."""
    raise Rejected([Diagnosis(place, message)])


def diagnose_parse_error(error: ParseError, line_offset: int) -> Diagnosis:
    """
    The diagnostic of a parse error: its place, its message, and the line of the source.
    """
    place = _place_of_span(error.span, line_offset)
    related: list[Diagnosis] = []
    if isinstance(error, MultipleSpansParseError):
        for span, text in error.refs:
            note = text or error.ref_text or "see here"
            there = _place_of_span(span, line_offset)
            related.append(Diagnosis(there, note, severity="note"))
    return Diagnosis(place, error.msg, _quote(error.span), related=tuple(related))


def _place_of_span(span: Span[str] | Span[bytes], line_offset: int) -> Place:
    location = span.get_location()
    return Place(location.file, location.line + line_offset, location.col)


def _quote(span: Span[str] | Span[bytes]) -> tuple[str, ...]:
    content = span.input.content
    if isinstance(content, bytes):
        return ()
    start = span.input.get_start_of_line(span.start)
    line = content[start : span.input.get_end_of_line(span.start)]
    if len(line) > _LONGEST_QUOTED_LINE or not line.strip():
        return ()
    column = span.start - start
    width = max(1, min(span.end - start, len(line.rstrip())) - column)
    indent = "".join(c if c == "\t" else " " for c in line[:column])
    return (line, indent + "^" * width)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` for the known name nearest to `name`, if any."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f", did you mean '{close[0]}'?" if close else ""
