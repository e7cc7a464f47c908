"""The report that a run prints: lines for a person, or one object of JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from penstock.tools.cli.results import results, say


class RunOutput:
    """Lines that are printed at once, or facts that are printed in the end."""

    def __init__(self, *, as_json: bool) -> None:
        self._facts: dict[str, object] | None = {} if as_json else None

    def say(self, lines: str | Iterable[str], facts: Mapping[str, object]) -> None:
        """Print lines, or keep the facts that they tell; lists of facts are joined."""
        if self._facts is None:
            for line in [lines] if isinstance(lines, str) else lines:
                say(line)
            return
        for name, fact in facts.items():
            before = self._facts.get(name)
            if isinstance(before, list) and isinstance(fact, list):
                self._facts[name] = [*before, *fact]
            else:
                self._facts[name] = fact

    def end(self) -> None:
        """Print the facts, if they were kept."""
        if self._facts is not None:
            import json

            say(json.dumps(self._facts, indent=1, default=_plain))


def tell_written(paths: Iterable[str], *, as_json: bool) -> None:
    """
    Tell which files were written, on stderr if stdout is one of them.
    """
    told = list(paths)
    stream = sys.stderr if "-" in told else results()
    files = [path for path in told if path != "-"]
    if as_json:
        import json

        print(json.dumps({"wrote": files}), file=stream)
        return
    if files:
        print(f"wrote {' and '.join(files)}", file=stream)


def _plain(value: object) -> object:
    """A fact as JSON has it, such as a path as text."""
    return str(value)
