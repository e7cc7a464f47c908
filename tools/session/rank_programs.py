"""
The programs of several ranks, which rank 0 compiles for all of them: it sends each
other rank its own as an executable in plain data. Before that, all compare the model
and the options that they were started with.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.tools.driver.errors import UsageError, explain_os_error
from penstock.tools.driver.files import sha256_of
from penstock.tools.driver.plugin_digest import codes_of_files
from penstock.tools.session.model import (
    Model,
    compile_model,
    compile_programs,
    programs_of,
)
from penstock.tools.session.options import CompileOptions

if TYPE_CHECKING:
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.session.executable import Executable
    from penstock.tools.session.program_export import ExportedProgram
    from penstock.tools.session.ranks import Ranks
    from penstock.tools.session.saved_plan.sent_program import SentProgram


def agree_on_file(
    ranks: Ranks, path: Path, options: CompileOptions, asked: object = None
) -> None:
    """
    Raise UsageError on all ranks unless each can read the model in a file, and all have
    the same one, the same options, and are `asked` for the same beside them. Plug-ins
    of files are known then.
    """
    if options.load:
        from penstock.tools.driver.plugins import load_plugins

        load_plugins(options.load)
    try:
        model = sha256_of(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    _agree(ranks, model, options, asked)


def agree_on_model(ranks: Ranks, model: Model, options: CompileOptions) -> None:
    """Raise UsageError on all ranks unless they have one model, and equal options."""
    _agree(ranks, _digest(str(model.module)), options, None)


def _agree(ranks: Ranks, model: str, options: CompileOptions, asked: object) -> None:
    # Files that are loaded may lie in other folders.
    named = [x.name for x in fields(options) if x.name != "load"]
    said = [getattr(options, name) for name in named]
    facts = repr((said, codes_of_files(options.load), asked))
    ranks.agree_on({"another model": model, "other options": _digest(facts)})


def compile_for(
    ranks: Ranks | None,
    model: Model,
    options: CompileOptions,
    compiler: tuple[Compiler, PassTable] | None = None,
    *,
    allow_source: bool = False,
) -> Executable:
    """
    The executable of this process that a model is compiled to: by rank 0, if there are
    several ranks, which have agreed on it. Raises what `compile_model` does.
    """
    if ranks is None:
        return compile_model(model, options, compiler, allow_source=allow_source)
    if not ranks.is_first:
        return program_of_rank(ranks, model.directory)
    from penstock.tools.session.saved_plan.sent_program import packed

    found = compile_programs(
        model,
        options,
        compiler,
        lambda lowered: ranks.in_order(programs_of(lowered)),
        allow_source=allow_source,
    )
    own, *others = _shares(found)
    ranks.give([partial(packed, program) for program in others])
    return own


def _shares(programs: list[ExportedProgram]) -> list[ExportedProgram]:
    """Programs as those of ranks. Raises `Rejected` if a kernel has no source."""
    from penstock.tools.session.ranks import Share

    digest = _digest("\n".join(program.text for program in programs))
    made = [
        program.as_share(Share(rank, len(programs), digest))
        for rank, program in enumerate(programs)
    ]
    for program in made:
        _ = program.sources
    return made


def program_of_rank(ranks: Ranks, folder: Path) -> SentProgram:
    """
    The executable that rank 0 has compiled for this one of the others, whose files of
    initialisers lie in a folder here. Raises the error of rank 0, if it has one.
    """
    from penstock.tools.session.saved_plan.sent_program import unpacked

    return unpacked(ranks.take(), folder)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
