"""
The passes that compile a model: those of its options, or of the pipeline that is named.

A pipeline may be named with options of its own, and a session has options, too. They
are one set: the session does as the text of the pipeline says, the pipeline is made as
the session is asked to, and where both say something they agree.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

from penstock.lowering.pipelines import (
    DEFAULTS,
    Pipeline,
    PipelineOptions,
    pipeline,
    text_of_value,
)
from penstock.tools.driver.compiler import Compiler
from penstock.tools.driver.edited_pipeline import (
    Step,
    dump,
    edited_passes,
    expanded,
    make_pipeline,
    steps_of,
)
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.pass_pipeline import PassTable, make_passes
from penstock.tools.driver.plugin_digest import PlugInCode, installed_code
from penstock.tools.session.options import CompileOptions, check_device, flags_of
from penstock.tools.session.origin import Origin

_OF_SESSIONS = (
    *("device", "threads", "simulate_ranks", "model_jobs", "strategy"),
    *("collectives", "winograd", "plain_loops", "guard"),
)
"""The options that pipelines and sessions have, by the name that both give them."""


class Choice(NamedTuple):
    """The steps of a pipeline, and the options with what its text says."""

    steps: Sequence[Step]
    options: CompileOptions


class Lowering(NamedTuple):
    """The passes that compile a model, and the options with what its pipeline says."""

    passes: tuple[ModulePass, ...]
    options: CompileOptions
    asked: CompileOptions
    """The options as they were given."""

    def origin_with(self, loaded: Sequence[PlugInCode]) -> Callable[[], Origin]:
        """The origin of what they compile, for files that were loaded, when asked."""

        def origin() -> Origin:
            pipeline = dump(map(_in_no_folder, self.passes))
            plugins = (*installed_code(), *loaded)
            return Origin(pipeline, flags_of(self.asked), self.options.threads, plugins)

        return origin


def _in_no_folder(made: ModulePass) -> ModulePass:
    """A pass whose options name files without their folders, as plans do."""
    options = [field.name for field in fields(made) if field.init]
    texts = {name: getattr(made, name) for name in options}
    found = {
        name: os.path.basename(value)
        for name, value in texts.items()
        if isinstance(value, str) and os.path.isabs(value)
    }
    return replace(made, **found) if found else made


def chosen_passes(
    compiler: Compiler,
    passes: PassTable,
    options: CompileOptions,
    standard: PipelineOptions,
    level: str | None = None,
) -> Lowering:
    """
    The passes that options ask for, up to a level if one is named: see `chosen`. Raises
    UsageError also for what is wrong with their edits.
    """
    choice = chosen(compiler, passes, options, standard)
    specs = edited_passes(choice.steps, options.edits, level)
    return Lowering(make_passes(passes, specs), choice.options, options)


def chosen(
    compiler: Compiler,
    passes: PassTable,
    options: CompileOptions,
    standard: PipelineOptions,
) -> Choice:
    """
    The steps of a pipeline before edits. `standard` has the options that those of a
    session mean for a pipeline. Raises UsageError for what is wrong with its text, and
    for an unknown device.
    """
    check_device(options.device)
    if options.pipeline is None:
        return Choice(steps_of(pipeline(standard)), options)
    made = _Made(standard)
    found = expanded(options.pipeline, compiler.pipelines, passes, made.make)
    made.check_taken(options)
    return Choice(steps_of(found), made.settled(options))


class _Made:
    """The pipelines of a text, made with the options of a session, too."""

    def __init__(self, standard: PipelineOptions):
        self._asked = {
            name: value
            for name, value in asdict(standard).items()
            if value != getattr(DEFAULTS, name)
        }
        self._found: list[Pipeline] = []

    def make(self, cls: type[Pipeline], spec: ArgSpec) -> Pipeline:
        """A pipeline of its own options, and of those that are asked for."""
        given = dict(spec.normalize_parameter_names().parameters)
        known = {field.name: field for field in fields(cls)}
        for name, value in self._asked.items():
            if name in known and known[name].init and name not in given:
                given[name] = (value,)
        made = make_pipeline(cls, ArgSpec(spec.name, given))
        for name, value in self._asked.items():
            if name in known and (own := getattr(made, name)) != value:
                option = name.replace("_", "-")
                raise UsageError(
                    f"pipeline '{spec.name}' has {option}={text_of_value(own)}, but "
                    f"{option}={text_of_value(value)} is asked for"
                )
        self._found.append(made)
        return made

    def check_taken(self, options: CompileOptions) -> None:
        """Raise UsageError for an option that no pipeline of the text has."""
        # Threads run the program, too.
        wanted = {*options.changed} & {*self._asked} - {"threads", "panels"}
        for name in sorted(wanted):
            if not any(hasattr(made, name) for made in self._found):
                option = name.replace("_", "-")
                raise UsageError(
                    f"{option} is asked for, but '{options.pipeline}' names no "
                    "pipeline that has this option"
                )

    def settled(self, options: CompileOptions) -> CompileOptions:
        """The options of a session with those that the text gives."""
        said: dict[str, Any] = {}
        for made in self._found:
            for name in _OF_SESSIONS:
                if hasattr(made, name):
                    said.setdefault(name, getattr(made, name))
        return replace(options, **said)
