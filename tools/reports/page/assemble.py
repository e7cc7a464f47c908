"""
Pages made of files: a page is one text that loads nothing, wherever it is opened.

The frame is `page.html`, with `kit.css` and `kit.js`, which all pages share, and a
subset of the font Inter. A page adds styles and scripts of its own.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

FOLDER = Path(__file__).parent

WEIGHTS = {400: "regular", 600: "semibold"}
"""The files of the font by its weight."""

FACE = (
    '@font-face {{ font-family: "Penstock Sans"; font-weight: {weight}; '
    'src: url("data:font/woff2;base64,{text}") format("woff2"); }}'
)


class Page(NamedTuple):
    """
    The parts of a page. `heading` is markup, and so are the lines of `header`, which
    stand below it, and of `views`. The script finds `data` as JSON.
    """

    title: str
    heading: str
    header: Sequence[str]
    views: Sequence[str]
    data: object
    styles: Sequence[Path]
    scripts: Sequence[Path]
    engine: Sequence[Path] = ()
    """Scripts that need no page, and run in workers too."""

    def text(self) -> str:
        """The whole page."""
        styles = [kit_style(), *map(text_of, self.styles)]
        scripts = [text_of(FOLDER / "kit.js"), *map(text_of, self.scripts)]
        engine = [text_of(FOLDER / "text_width.js"), *map(text_of, self.engine)]
        return Template(text_of(FOLDER / "page.html")).substitute(
            title=escape(self.title),
            heading=self.heading,
            header="\n".join(self.header),
            views="\n".join(self.views),
            data=inert(self.data),
            style="\n".join(styles),
            engine=without_maps("\n".join(engine)),
            script="\n".join(scripts),
        )


def without_maps(script: str) -> str:
    """A script without the comments by which tools of browsers load maps of sources."""
    return re.sub(r"^//# sourceMappingURL=.*$", "", script, flags=re.MULTILINE)


def beside(module: str, *names: str) -> list[Path]:
    """The files of these names in the folder of a module, which is its `__file__`."""
    return [Path(module).parent / name for name in names]


@cache
def text_of(path: Path) -> str:
    """The text of a file of ours."""
    return path.read_text(encoding="utf-8")


@cache
def kit_style() -> str:
    """The style that all pages share, with the font and its licence."""
    font = FOLDER / "font"
    faces = [
        FACE.format(weight=weight, text=encoded(font / f"{name}.woff2"))
        for weight, name in WEIGHTS.items()
    ]
    notice = text_of(font / "OFL.txt").split("\n\n")
    head = f"/* {notice[0]}\n{notice[1]} */"
    return "\n".join([head, *faces, text_of(FOLDER / "kit.css")])


def encoded(path: Path) -> str:
    """The bytes of a file in base 64."""
    return b64encode(path.read_bytes()).decode("ascii")


def inert(data: object) -> str:
    """JSON that no browser mistakes for the end of a script."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
