"""
Examples of passes: IR before and after, from the lit tests that prove them.

The example of the pass `plan-order-tasks` stands in the lit test
`test/lowering/plan/plan-order-tasks-example.mlir`. Its first comment after the RUN
lines says the point of the example. The IR between `EXAMPLE-BEFORE` and `EXAMPLE-AFTER`
is the input of the pass, and the CHECK lines up to `EXAMPLE-END` match whole lines of
its output.

On the page `{{.*}}` becomes `...`, and so do lines between two checks, unless the
second one is a `CHECK-NEXT`. Input from `EXAMPLE-SKIP` to `EXAMPLE-RESUME` is not
shown, nor is the body of a task that stands on one line. The output of a verifier is
the list of messages that its input expects.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.lowering import level_of

LEVELS = {
    "op": "Passes on ops of a job",
    "job": "Passes on jobs",
    "plan": "Passes on plans",
    "regst": "Passes on registers and memory",
    "launch": "Passes on launch programs",
    "convert": "Conversions from level to level",
    "verify": "Verifiers",
}
"""The heading of each level, by the first word in the names of its passes."""

_RUN = re.compile(r"// RUN: penstock-opt %s -p ('[^']*'|\S+) ")
_ALIAS = re.compile(r"^(![a-z]+) = (.*)$", re.MULTILINE)
_CHECK = re.compile(r"// CHECK(-NEXT)?: (.*)")
_EXPECTED = re.compile(r"\s*// expected-error@\+\d+ \{\{(.*)\}\}$")
_CAPTURE = re.compile(r"%\[\[([A-Z]+)(?::\.\+)?\]\]")
# Bodies of tasks that stand on the line of their op.
_BODY = re.compile(
    r"((?:plan\.task|launch\.kernel) .*?) \{ (?=[\"%^]|job|linalg).* \}$"
)


class ExampleError(Exception):
    """A lit test that has no example where one should be, or one that is not whole."""


@dataclass(frozen=True)
class PassExample:
    """Input and output of a pass, and the lit test that proves them."""

    test: str
    """The path of the lit test, below the root of the project."""
    passes: str
    """The passes that the lit test runs, as `-p` takes them."""
    point: str
    """The point of the example, in a sentence or two."""
    before: tuple[str, ...]
    """Lines of the input."""
    after: tuple[str, ...]
    """Lines of the output, or messages of a verifier."""


def example_path(name: str) -> str:
    """The path of the lit test with the example of a pass, below the project's root."""
    return f"test/lowering/{level_of(name)}/{name}-example.mlir"


def read_example(root: Path, name: str) -> PassExample:
    """
    The example of a pass, from the lit test below the root of the project.

    Raises `ExampleError` if there is no such test, or a marker is missing.
    """
    test = example_path(name)
    try:
        text = (root / test).read_text(encoding="utf-8")
    except OSError as error:
        raise ExampleError(f"{test}: {error.strerror}") from error
    run = _RUN.search(text)
    if run is None:
        raise ExampleError(f"{test}: no RUN line with -p")
    aliases = dict(_ALIAS.findall(text))
    before, after = _sections(test, text)
    shown, messages = _input(before, aliases)
    return PassExample(
        test,
        run[1].strip("'"),
        _point(test, text),
        tuple(shown),
        tuple(_output(after) if after else messages),
    )


def _sections(test: str, text: str) -> tuple[list[str], list[str]]:
    """The lines before and after `EXAMPLE-AFTER`; a verifier has none after it."""
    start, found, rest = text.partition("// EXAMPLE-BEFORE\n")
    body, ended, _ = rest.partition("// EXAMPLE-END")
    if not (start and found and ended):
        raise ExampleError(f"{test}: expected EXAMPLE-BEFORE ... EXAMPLE-END")
    before, _, after = body.partition("// EXAMPLE-AFTER\n")
    return before.splitlines(), after.splitlines()


def _point(test: str, text: str) -> str:
    """The first comment that is no RUN line, on one line."""
    paragraphs = text.partition("// EXAMPLE-BEFORE")[0].split("\n\n")
    words = [p for p in paragraphs if p.startswith("// ") and "RUN:" not in p]
    if not words:
        raise ExampleError(f"{test}: no comment says the point of the example")
    return " ".join(line.removeprefix("// ") for line in words[0].splitlines())


def _input(
    lines: Sequence[str], aliases: dict[str, str]
) -> tuple[list[str], list[str]]:
    """The lines of the input that are shown, and the messages that they expect."""
    shown: list[_Line] = []
    messages: list[str] = []
    skipping = gap = False
    for line in lines:
        if expected := _EXPECTED.match(line):
            messages.append(f"line {len(shown) + 1}: error: {expected[1]}")
        elif line in ("// EXAMPLE-SKIP", "// EXAMPLE-RESUME"):
            skipping = line.endswith("SKIP")
            gap = True
        elif not skipping:
            text = _without_aliases(_BODY.sub(r"\1 { ... }", line), aliases)
            shown.append(_Line(text, gap))
            gap = False
    return list(_finished(shown)), messages


def _without_aliases(line: str, aliases: Mapping[str, str]) -> str:
    return re.sub(r"![a-z]+\b(?![.<])", lambda found: aliases[found[0]], line)


def _output(lines: Sequence[str]) -> list[str]:
    """The lines of the output that the checks match."""
    checks = [check for check in map(_CHECK.match, lines) if check is not None]
    # The texts of `CHECK:` and `CHECK-NEXT:` begin in the same column.
    texts = [" " * len(check[1] or "") + check[2] for check in checks]
    dedented = textwrap.dedent("\n".join(texts)).replace("{{.*}}", "...").split("\n")
    return list(
        _finished(
            [
                _Line(_CAPTURE.sub(lambda x: f"%{x[1].lower()}", text), not check[1])
                for check, text in zip(checks, dedented, strict=True)
            ]
        )
    )


@dataclass(frozen=True)
class _Line:
    text: str
    gap: bool
    """Whether lines before it are left out."""


def _finished(lines: Sequence[_Line]) -> Iterator[str]:
    """Lines with `...` where others are left out, in `{ ... }` for a whole body."""
    before = ""
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        if before and line.gap and not before.endswith("{ ... }"):
            inside = _indent(before) + 2 * before.endswith("{")
            yield " " * max(inside, _indent(line.text)) + "..."
        before = line.text + " ... }" * _is_folded(line.text, after)
        yield before


def _is_folded(text: str, after: _Line | None) -> bool:
    """Whether nothing of the body that begins at the end of a line is shown."""
    if not text.endswith(" {"):
        return False
    return after is None or (after.gap and _indent(after.text) <= _indent(text))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
