"""
The origin of a program: the passes that made it, with all that was asked for and the
code that is not this package's. Saved plans say it, and `penstock-run --show-origin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from penstock.tools.driver.plugin_digest import PlugInCode


class Origin(NamedTuple):
    """The way in which a program was compiled; that of an unknown one is empty."""

    pipeline: str = ""
    """The passes with all their options, a line each, as `--pipeline` takes them."""
    asked: str = ""
    """The options that were not as by default, as flags of `penstock-run`."""
    threads: int = 1
    """The workers that the program was meant for."""
    plugins: tuple[PlugInCode, ...] = ()
    """The installed plug-ins, and the files that were loaded."""

    def as_json(self) -> dict[str, object]:
        """The origin as values for JSON."""
        return {**self._asdict(), "plugins": [list(code) for code in self.plugins]}

    def lines(self) -> Iterator[str]:
        """The origin for a person, as text of which the last part runs."""
        if not self.pipeline:
            yield "the file does not tell its origin"
            return
        yield f"asked for: {self.asked or 'nothing'}"
        yield f"plug-ins: {'' if self.plugins else 'none'}".rstrip()
        for code in self.plugins:
            yield f"  {code}"
        yield "pipeline:"
        yield self.pipeline


UNKNOWN = Origin()
"""The origin of a file that does not tell it."""


def origin_from_json(value: object) -> Origin:
    """The origin in values of JSON. Raises ValueError if they are none."""
    match value:
        case {
            "pipeline": str(pipeline),
            "asked": str(asked),
            "threads": int(threads),
            "plugins": list(),
        }:
            plugins = cast("Mapping[str, Sequence[object]]", value)["plugins"]
            found = tuple(map(_plugin_from_json, plugins))
            return Origin(pipeline, asked, max(1, threads), found)
        case _:
            raise ValueError("no origin of a program")


def _plugin_from_json(value: object) -> PlugInCode:
    match value:
        case [str(name), str(version), str(digest)]:
            return PlugInCode(name, version, digest)
        case _:
            raise ValueError("no code of a plug-in")
