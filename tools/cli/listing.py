"""
The lists of passes, dialects and targets that `penstock-opt` prints.
"""

import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from penstock.tools.driver.pass_pipeline import PassTable, describe_options

_WIDTH = 88


def summary_of(universes: Mapping[str, Universe]) -> Iterator[str]:
    """
    The names of all items of each universe but xDSL's own, none of which is imported.
    """
    for origin, universe in universes.items():
        if origin == "xdsl":
            continue
        yield from _wrap(f"passes of {origin}", universe.all_passes)
        yield from _wrap(f"dialects of {origin}", universe.all_dialects)
        yield from _wrap(f"targets of {origin}", universe.all_targets)
    yield "--list-passes describes every pass, --show-dialects names every dialect."


def _wrap(title: str, names: Iterable[str]) -> Iterator[str]:
    if text := ", ".join(sorted(names)):
        yield f"{title}:\n" + textwrap.fill(
            text,
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )


def dialects_of(universes: Mapping[str, Universe]) -> str:
    """The names of all dialects, by the universe that has them."""
    paragraphs = (
        text
        for origin, universe in universes.items()
        for text in _wrap(f"dialects of {origin}", universe.all_dialects)
    )
    return "\n\n".join(paragraphs)


def passes_of(universes: Mapping[str, Universe]) -> str:
    """The passes: the first line of the docstring of each, and its options."""
    paragraphs = (
        "\n".join((f"passes of {origin}:", *_describe_all(universe.all_passes)))
        for origin, universe in universes.items()
        if universe.all_passes
    )
    return "\n\n".join(paragraphs)


def json_of(universes: Mapping[str, Universe], *, passes: bool, dialects: bool) -> str:
    """The lists as JSON: by the universe that has them."""
    found: dict[str, object] = {}
    if passes:
        found["passes"] = [
            _pass_as_json(name, origin, factory)
            for origin, universe in universes.items()
            for name, factory in sorted(universe.all_passes.items())
        ]
    if dialects:
        found["dialects"] = [
            {"name": name, "of": origin}
            for origin, universe in universes.items()
            for name in sorted(universe.all_dialects)
        ]
    return json.dumps(found, indent=1)


def _pass_as_json(
    name: str, origin: str, factory: Callable[[], type[ModulePass]]
) -> dict[str, object]:
    try:
        pass_type = factory()
    except Exception as error:  # one broken plug-in must not hide the rest
        return {"name": name, "of": origin, "error": str(error)}
    text, options = _first_line(pass_type), describe_options(pass_type)
    return {"name": name, "of": origin, "summary": text, "options": options}


def _describe_all(passes: PassTable) -> Iterator[str]:
    for name, factory in sorted(passes.items()):
        try:
            pass_type = factory()
        except Exception as error:  # one broken plug-in must not hide the rest
            yield f"  {name}: cannot be loaded: {error}"
            continue
        yield f"  {name}: {_first_line(pass_type)}"
        yield from (f"    {option}" for option in describe_options(pass_type))


def _first_line(pass_type: type[ModulePass]) -> str:
    # A dataclass without a docstring gets its signature for one.
    text = inspect.cleandoc(pass_type.__doc__ or "")
    if text.startswith(f"{pass_type.__name__}("):
        return ""
    return " ".join(text.partition("\n\n")[0].split())
