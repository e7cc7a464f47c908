"""
Pipelines as a person asks for them: a text, edits of its passes, and a level to end at.

    text  --steps_of-->  steps  --edited-->  steps  --ended_at-->  steps  -->  passes

The text is a list as `-p` takes it, in which a pipeline may stand wherever a pass may.
Edits are applied one after the other, each to all that those before it have left. A
pass that is put in beside another one is of its level. So a level ends at one place,
also where the pass that ended it was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType

from penstock.dialects.utils.diagnostics import definition_of
from penstock.lowering.pipelines import LEVELS, Passes, Pipeline, text_of
from penstock.tools.driver.diagnostics import FileError, UsageError, suggest
from penstock.tools.driver.pass_pipeline import (
    PassTable,
    import_item,
    instantiate,
    listed_by,
    parse_specs,
    unknown_pass,
)
from penstock.tools.driver.pipeline_edits import Edit

PipelineTable = Mapping[str, Callable[[], type[Pipeline]]]

Make = Callable[[type[Pipeline], ArgSpec], Pipeline]
"""Makes a pipeline of its class, and of its options as they were given."""


class Step(NamedTuple):
    """A pass of a pipeline, and the level of IR that it leaves, from 0 for a job."""

    spec: ArgSpec
    level: int


################################################################################
# Text                                                                         #
################################################################################


def make_pipeline(cls: type[Pipeline], spec: ArgSpec) -> Pipeline:
    """A pipeline of its options. Raises `UsageError` for a bad one."""
    return instantiate("pipeline", cls, ArgSpec(cls.name, spec.parameters))


def expanded(
    text: str, pipelines: PipelineTable, passes: PassTable, make: Make = make_pipeline
) -> Passes:
    """
    The passes of a text, with those that its pipelines stand for. Raises `UsageError`
    for malformed text, for what is neither a pipeline nor a pass, and for a bad option.
    """
    return tuple(_expanded(parse_specs(text), pipelines, passes, make))


def _expanded(
    specs: Sequence[ArgSpec], pipelines: PipelineTable, passes: PassTable, make: Make
) -> Iterator[ArgSpec]:
    for spec in specs:
        if spec.name in pipelines:
            cls = import_item("pipeline", spec.name, pipelines[spec.name])
            yield from _passes_of(spec.name, make(cls, spec))
        elif spec.name in passes:
            yield spec
        elif len(specs) > 1:
            raise unknown_pass(spec.name, (*passes, *pipelines))
        else:
            hint = suggest(spec.name, (*pipelines, *passes))
            text = f"unknown pipeline '{spec.name}'{hint} {listed_by('pipeline')}"
            raise UsageError(text)


def passes_of(
    text: str,
    edits: Iterable[Edit],
    level: str | None,
    pipelines: PipelineTable,
    passes: PassTable,
    make: Make = make_pipeline,
) -> Passes:
    """
    The passes of a text after some edits, up to a level if one is named. Raises
    `UsageError` for all that is wrong with them.
    """
    steps = steps_of(expanded(text, pipelines, passes, make))
    return edited_passes(steps, edits, level)


def edited_passes(
    steps: Sequence[Step], edits: Iterable[Edit], level: str | None
) -> Passes:
    """The passes of steps after some edits, up to a level if one is named."""
    if level is not None:
        check_end(steps, level)
    found = edited(steps, edits)
    ended = found if level is None else ended_at(found, level)
    return tuple(step.spec for step in ended)


def _passes_of(name: str, pipeline: Pipeline) -> Sequence[ArgSpec]:
    """The passes of a pipeline, which may be that of a plug-in. Raises `FileError`."""
    where = definition_of(type(pipeline))
    start = f"pipeline '{name}'{f' ({where})' if where else ''}"
    try:
        found = cast("object", pipeline.passes())
    except Exception as error:
        raise FileError(f"{start} fails: {type(error).__name__}: {error}") from error
    if not isinstance(found, Sequence):
        kind = type(found).__name__
        raise FileError(f"{start} returns no passes but what is of {kind}")
    specs = cast("Sequence[object]", found)
    for spec in specs:
        if not isinstance(spec, ArgSpec):
            raise FileError(f"{start} has a pass that is no `call` but {spec!r}")
    return cast("Sequence[ArgSpec]", specs)


def steps_of(passes: Iterable[ArgSpec]) -> list[Step]:
    """Passes with the levels that they leave: some go from one level to the next."""
    ends = [name for name in LEVELS.values() if name is not None]
    steps: list[Step] = []
    level = 0
    for spec in passes:
        if spec.name in ends:
            level = ends.index(spec.name) + 1
        steps.append(Step(spec, level))
    return steps


def dump(passes: Iterable[ModulePass]) -> str:
    """The text of passes with all their options, a line each, as `-p` reads it."""
    return text_of(map(_whole_spec, passes), ",\n")


def _whole_spec(made: ModulePass) -> ArgSpec:
    spec = made.spec(include_default=True)
    options = {name.replace("_", "-"): x for name, x in spec.parameters.items()}
    return ArgSpec(spec.name, options)


################################################################################
# Levels                                                                       #
################################################################################


def check_level(level: str) -> None:
    """Raise `UsageError` for what is no level."""
    if level not in LEVELS:
        hint = suggest(level, LEVELS)
        raise UsageError(f"unknown level '{level}'{hint} (known: {', '.join(LEVELS)})")


def check_end(steps: Sequence[Step], level: str) -> None:
    """Raise `UsageError` for a pipeline that does not tell where a level ends."""
    check_level(level)
    end = LEVELS[level]
    if end is not None and all(step.spec.name != end for step in steps):
        raise UsageError(
            f"the pipeline has no pass '{end}', before which the level '{level}' ends"
        )


def ended_at(steps: Iterable[Step], level: str) -> list[Step]:
    """The steps that leave a level, or one before it."""
    last = list(LEVELS).index(level)
    return [step for step in steps if step.level <= last]


################################################################################
# Edits                                                                        #
################################################################################


def edited(steps: Sequence[Step], edits: Iterable[Edit]) -> list[Step]:
    """
    The steps after some edits. Raises `UsageError` for an edit of a pass that is not
    there, and for malformed text.
    """
    found = list(steps)
    for edit in edits:
        positions = _positions(found, edit)
        pieces = [
            _EDITED[edit.verb](found, number, edit) if number in positions else [step]
            for number, step in enumerate(found)
        ]
        found = [step for piece in pieces for step in piece]
    return found


def _positions(steps: Sequence[Step], edit: Edit) -> set[int]:
    """Where the steps are that an edit is about."""
    name, mark, number = edit.target.partition("#")
    found = [i for i, step in enumerate(steps) if step.spec.name == name]
    if not found:
        hint = suggest(name, [step.spec.name for step in steps])
        raise UsageError(
            f"{edit}: the pipeline has no pass '{name}'{hint} "
            "(--dump-pipeline prints its passes)"
        )
    if not mark:
        return set(found)
    if not number.isdecimal() or not 1 <= int(number) <= len(found):
        times = "once" if len(found) == 1 else f"{len(found)} times"
        raise UsageError(
            f"{edit}: pass '{name}' is in the pipeline {times}, got '#{number}'"
        )
    return {found[int(number) - 1]}


def _inserted_after(steps: Sequence[Step], number: int, edit: Edit) -> list[Step]:
    return [steps[number], *_new(edit, steps[number].level)]


def _inserted_before(steps: Sequence[Step], number: int, edit: Edit) -> list[Step]:
    level = steps[number - 1].level if number else 0
    return [*_new(edit, level), steps[number]]


def _replaced(steps: Sequence[Step], number: int, edit: Edit) -> list[Step]:
    return _new(edit, steps[number].level)


def _skipped(steps: Sequence[Step], number: int, edit: Edit) -> list[Step]:
    return []


def _with_option(steps: Sequence[Step], number: int, edit: Edit) -> list[Step]:
    spec, level = steps[number]
    value = _value_of(edit.text)
    options = {name.replace("_", "-"): x for name, x in spec.parameters.items()}
    return [Step(ArgSpec(spec.name, {**options, edit.option: value}), level)]


_EDITED: Mapping[str, Callable[[Sequence[Step], int, Edit], list[Step]]] = {
    "insert-after": _inserted_after,
    "insert-before": _inserted_before,
    "replace": _replaced,
    "skip": _skipped,
    "set": _with_option,
}
"""The steps that stand in the place of one, after an edit of each verb."""


def _new(edit: Edit, level: int) -> list[Step]:
    return [Step(spec, level) for spec in parse_specs(edit.text)]


def _value_of(text: str) -> ParameterListType:
    """
    The value of an option, as in the text of a pipeline. All that is none there, such
    as the path of a file, is a string.
    """
    # No option in the text can have a longer name.
    name = "x" * (len(text) + 1)
    try:
        (spec,) = parse_specs(f"{name}{{{name}={text}}}")
    except UsageError:
        return (text,)
    return spec.parameters[name] if len(spec.parameters) == 1 else (text,)
