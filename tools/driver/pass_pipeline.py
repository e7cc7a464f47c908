"""
Pass pipelines: parsing their text, making their passes, and messages for mistakes.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import TypeVar

from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException

from penstock.dialects.utils.diagnostics import told
from penstock.plugins import PluginError
from penstock.tools.driver.diagnostics import FileError, UsageError, suggest
from penstock.tools.driver.errors import explain_os_error

T = TypeVar("T")
SpecT = TypeVar("SpecT", bound=ArgSpecConvertible)

PassTable = Mapping[str, Callable[[], type[ModulePass]]]


def parse_passes(available: PassTable, text: str) -> tuple[ModulePass, ...]:
    """
    The passes of a pipeline's text, such as `canonicalize,my-pass{option=1}`.

    Raises `UsageError` for malformed text, an unknown pass, or a bad option.
    """
    return make_passes(available, parse_specs(text))


def parse_specs(text: str) -> tuple[ArgSpec, ...]:
    """
    The names and options in a pipeline's text, in which there may be space around
    commas and inside of braces. Raises `UsageError` for malformed text.
    """
    text = _SPACE.sub(lambda found: "".join(filter(None, found.groups())), text.strip())
    try:
        return tuple(parse_pipeline(text))
    except ArgSpecParseError as error:
        raise UsageError(_malformed("pass pipeline", text, error)) from error


_SPACE = re.compile(r'("(?:\\.|[^"\\])*")|\s*(,)\s*|(\{)\s+|\s+(\})')
"""A string, which stays as it is, or a mark with space around it."""


def make_passes(
    available: PassTable, specs: Iterable[ArgSpec]
) -> tuple[ModulePass, ...]:
    """
    The passes of a pipeline, each given by its name and options.

    Raises `UsageError` for an unknown pass or a bad option.
    """
    return tuple(_make_pass(available, spec) for spec in specs)


def _malformed(what: str, text: str, error: ArgSpecParseError) -> str:
    """The part of xDSL's message below its own heading: the text with a mark in it."""
    quote = str(error).partition("\n")[2].rstrip().split("\n")
    return "\n".join((f"malformed {what} '{text}'", *quote[1:]))


def malformed_target(text: str, error: ArgSpecParseError) -> UsageError:
    """The error for the text of a target that cannot be parsed."""
    return UsageError(_malformed("target", text, error))


def _make_pass(available: PassTable, spec: ArgSpec) -> ModulePass:
    if spec.name not in available:
        raise unknown_pass(spec.name, available)
    pass_type = import_item("pass", spec.name, available[spec.name])
    return instantiate("pass", pass_type, spec)


def unknown_pass(name: str, available: Iterable[str]) -> UsageError:
    """The error for the name of no pass."""
    hint = suggest(name, available)
    return UsageError(f"unknown pass '{name}'{hint} {listed_by('pass')}")


def listed_by(kind: str) -> str:
    """The command that lists all of a kind, as the end of an error."""
    return f"(penstock-opt --list {kind} names them)"


def unknown_target(name: str, available: Iterable[str]) -> UsageError:
    """The error for the name of an output format that nobody knows."""
    return UsageError(
        f"unknown target '{name}'{suggest(name, available)} {listed_by('target')}"
    )


def import_item(kind: str, name: str, factory: Callable[[], T]) -> T:
    """The result of a lazy factory; a failed import is a `FileError`."""
    try:
        return factory()
    except PluginError as error:
        raise FileError(str(error)) from error
    except Exception as error:
        text = str(error) if isinstance(error, ImportError) else told(error)
        raise FileError(f"{kind} '{name}' cannot be loaded: {text}") from error


def instantiate(kind: str, cls: type[SpecT], spec: ArgSpec) -> SpecT:
    """
    A pass or a target made from its options; the error for a bad one lists those it
    has.
    """
    options = _options_of(cls)
    for option in spec.normalize_parameter_names().parameters:
        name = option.replace("_", "-")
        if name not in options:
            raise UsageError(
                f"{kind} '{spec.name}' has no option '{name}'"
                f"{suggest(name, options)}{_list(options)}"
            )
    for option, values in spec.normalize_parameter_names().parameters.items():
        if option.endswith("_file"):
            _check_readable(f"{kind} '{spec.name}'", str(values[0]))
    try:
        return cls.from_spec(spec)
    except (ValueError, DiagnosticException) as error:
        text = str(error)
        raise UsageError(
            f"{kind} '{spec.name}': {text[:1].lower()}{text[1:]}{_list(options)}"
        ) from error
    except Exception as error:
        raise UsageError(f"{kind} '{spec.name}': {told(error)}") from error


def _check_readable(where: str, file: str) -> None:
    """Raise `UsageError` for the file of an option that cannot be read."""
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        text = f"cannot read {file}: {explain_os_error(error)}"
        raise UsageError(f"{where}: {text}") from error


def _options_of(cls: type[ArgSpecConvertible]) -> list[str]:
    return [field.name.replace("_", "-") for field in fields(cls) if field.init]


def _list(options: list[str]) -> str:
    return (
        f" (its options: {', '.join(options)})" if options else " (it has no options)"
    )


def describe_options(pass_type: type[ModulePass]) -> list[str]:
    """The options of a pass as `name: type = default`."""
    lines: list[str] = []
    for option in get_pass_option_infos(pass_type):
        default = "" if option.default_value is None else f" = {option.default_value}"
        name = option.name.replace("_", "-")
        # Where annotations are strings, xDSL shows them as such.
        type = option.expected_type.strip("'")
        lines.append(f"{name}: {type}{default}")
    return lines
