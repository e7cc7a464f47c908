"""The source of a program's kernels, and why some of it is not run unasked."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.plugins import names_of

if TYPE_CHECKING:
    from penstock.dialects.launch import KernelOp, ProgramOp
    from penstock.dialects.utils.diagnostics import Finding

_ONLY_IF_ALLOWED = (
    "which is only run if that is allowed (--allow-source, allow_source=True)"
)


def kernel_sources(
    program: ProgramOp, targets: Collection[str] = ("cpu", "cuda")
) -> dict[str, str]:
    """
    The source text of each kernel for one of these kinds of devices, or for one that a
    plug-in generates code for, by its name. Raises `Rejected` with all in the kernels
    that has no source.
    """
    from penstock.dialects.launch import KernelOp
    from penstock.dialects.utils.diagnostics import LocatedPassFailure
    from penstock.lowering.codegen.target import kernel_source
    from penstock.tools.driver.diagnostics import reject_if_any

    known = {*targets, *names_of("code-generator")}
    sources: dict[str, str] = {}
    findings: list[Finding] = []
    for op in program.body.block.ops:
        if not isinstance(op, KernelOp) or op.compiled_for not in known:
            continue
        try:
            sources[op.sym_name.data] = kernel_source(op)
        except LocatedPassFailure as failure:
            findings += failure.findings
    reject_if_any(findings, "")
    return sources


def own_sources(program: ProgramOp) -> list[KernelOp]:
    """The kernels of a program with a source of their own, beside their body."""
    from penstock.dialects.launch import KernelOp

    ops = program.body.block.ops
    return [op for op in ops if isinstance(op, KernelOp) and op.source is not None]


def author_of(kernel: KernelOp, line: int | None) -> str:
    """
    The alternative that a kernel has its source of, as a part of a message, with the
    place where its file has this line of the source, or where the alternative is
    defined, as far as that is known here, else as the kernel notes it; nothing if a
    person wrote the source into IR.
    """
    from xdsl.dialects.builtin import StringAttr

    from penstock.dialects.launch.actors import AUTHOR
    from penstock.lowering.launch.autotune.registry import alternatives
    from penstock.lowering.launch.autotune.selection import SELECTED

    note = kernel.attributes.get(SELECTED)
    selected = note.data if isinstance(note, StringAttr) else ""
    for alternative in alternatives():
        if alternative.is_applied_later:
            # It leaves a kernel as it is, with the source that a person wrote.
            continue
        if selected.startswith((f"{alternative.name}:", f"{alternative.name} ")):
            place = place_of_source(type(alternative), kernel.source or "", line)
            return f", of the alternative '{alternative.name}'{place}"
    noted = kernel.attributes.get(AUTHOR)
    return f", of the alternative {noted.data}" if isinstance(noted, StringAttr) else ""


def place_of_source(author: type, source: str, line: int | None) -> str:
    """The place of a line of a source in the file that defines its author."""
    from penstock.dialects.utils.diagnostics import definition_of

    if (place := definition_of(author)) is None:
        return ""
    lines = source.splitlines()
    if line is not None and 0 < line <= len(lines):
        with open(place.file, encoding="utf-8") as file:
            known = [text.strip() for text in file]
        wanted = lines[line - 1].strip()
        if known.count(wanted) == 1:
            return f" ({place.file}:{known.index(wanted) + 1})"
    return f" ({place.file}:{place.line})"


def kernel_objections(program: ProgramOp) -> list[Finding]:
    """
    Why kernels of a program that comes from elsewhere are not run, one reason a kernel:
    a source of its own, or an op that is not proven to stay inside of its memory.
    """
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.analysis.access_bounds import unproven_accesses

    objections: list[Finding] = []
    for kernel in program.body.block.ops:
        if not isinstance(kernel, KernelOp):
            continue
        start = f"kernel '{kernel.sym_name.data}'"
        if kernel.source is not None:
            text = f"{start} brings Python source of its own, {_ONLY_IF_ALLOWED}"
            objections.append((kernel, text))
            continue
        for op in unproven_accesses(kernel)[:1]:
            text = f"{start} may reach outside of its memory by {op.name}"
            objections.append((op, f"{text}, {_ONLY_IF_ALLOWED}"))
    return objections
