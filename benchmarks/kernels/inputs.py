"""The programs whose kernels are listed: sections of files, and models."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.kernels.lowering import FAILED, Line, Lowering, Read
from benchmarks.kernels.variants import Variant, with_vectors
from penstock.dialects.job import JobOp
from penstock.lowering.pipelines import Passes
from penstock.tools.driver.edited_pipeline import expanded

if TYPE_CHECKING:
    from onnx import ModelProto
    from xdsl.dialects.builtin import ModuleOp

    from penstock.tools.driver.compiler import Compiler

_SPLIT = re.compile(rb"^// -----[ \t\r]*$", re.MULTILINE)
_RUN = re.compile(r"^// *RUN: *(.*)$", re.MULTILINE)
_LEVEL = ("launch-", "convert-plan-to-launch")


def lines_of_file(
    path: Path, root: Path, variants: Sequence[Variant], fixed: bool = False
) -> list[Line]:
    """The kernels of all sections of a file, with all numbers in them if `fixed`."""
    data = path.read_bytes()
    name = path.relative_to(root).as_posix()
    lowering = _lowering(fixed)
    standard = {str(v): v.passes(lowering.available) for v in variants}
    runs = run_lines(data.decode(), lowering)
    found: list[Line] = []
    for number, section in enumerate(_SPLIT.split(data)):
        read = partial(_read, section, name)
        case = f"{name}#{number}"
        found += _of_section(lowering, read, case, standard)
        for label, passes in runs.items():
            found += lowering.lines(read, case, {label: passes})
    return found


def _of_section(
    lowering: Lowering,
    read: Read,
    case: str,
    cases: Mapping[str, Passes],
) -> Iterator[Line]:
    """The kernels of a section; of each job alone, if they do not fit together."""
    found = [*lowering.lines(read, case, cases)]
    yield from found
    if any(line.kernel != FAILED for line in found):
        return
    with suppress(Exception):
        ops = read(lowering.compiler).ops
        jobs = [op.sym_name.data for op in ops if isinstance(op, JobOp)]
        for name in jobs if len(jobs) > 1 else ():
            alone = partial(_only, read, name)
            yield from lowering.lines(alone, f"{case}@{name}", cases)


def _only(read: Read, name: str, compiler: Compiler) -> ModuleOp:
    """The module that is read, without other jobs."""
    module = read(compiler)
    for op in [*module.ops]:
        if isinstance(op, JobOp) and op.sym_name.data != name:
            op.detach()
    return module


def _read(data: bytes, name: str, compiler: Compiler) -> ModuleOp:
    return compiler.parse(data, name)


@cache
def _lowering(fixed: bool) -> Lowering:
    return Lowering(fixed)


def run_lines(text: str, lowering: Lowering) -> dict[str, Passes]:
    """The passes of RUN lines that end in launch programs, by the numbers of lines."""
    lines = enumerate(_RUN.findall(text))
    found = ((f"run{n}", _passes_of(line, lowering)) for n, line in lines)
    plain = Variant().passes(lowering.available)
    wanted = {label: passes for label, passes in found if passes not in (None, plain)}
    return {label: passes or () for label, passes in wanted.items()}


def _passes_of(line: str, lowering: Lowering) -> Passes | None:
    """The passes of a RUN line, or None if it does not make kernels of its file."""
    try:
        words = shlex.split(line.split("|")[0])
    except ValueError:
        return None
    words = words[words[:1] == ["not"] :]
    if words[:2] != ["penstock-opt", "%s"]:
        return None
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--pipeline", default="")
    parser.add_argument("-p", "--passes", default="")
    parser.add_argument("-t", default="")
    given = parser.parse_known_args(words[2:])[0]
    if "%" in given.pipeline + given.passes:
        return None
    table = lowering.compiler.pipelines, lowering.available
    try:
        passes = tuple(
            spec
            for text in (given.pipeline, given.passes)
            if text
            for spec in expanded(text, *table)
        )
    except Exception:
        return None
    is_of_kernels = given.t.startswith(("numba", "cuda"))
    if not is_of_kernels and not any(x.name.startswith(_LEVEL) for x in passes):
        return None
    return with_vectors(passes, lowering.available, 64)


################################################################################
# Models                                                                       #
################################################################################

Models: TypeAlias = "Iterator[tuple[str, Callable[[], ModuleOp | str]]]"
"""Names of models, and functions that make their jobs, or the text of them."""


def gemms() -> Models:
    """The products and convolutions that are measured."""
    from benchmarks.gemm import CONVOLUTIONS, PRODUCTS, case_of, model_of

    for name in (*PRODUCTS, *CONVOLUTIONS):
        yield name, lambda name=name: imported(model_of(case_of(name)))


def expressions() -> Models:
    """The elementwise ops and ops on rows that are measured."""
    from benchmarks.elementwise import CASES, SHAPES, model_of

    for name, case in CASES.items():
        for shape, extents in SHAPES.items():
            make = partial(model_of, case, extents)
            yield (
                f"{name},{shape}".replace(" ", "_"),
                lambda make=make: imported(make()),
            )


def attentions() -> Models:
    """The cases of attention that are measured."""
    from benchmarks.attention import CASES, case_of

    for name in CASES:
        yield name, lambda name=name: imported(case_of(name).model)


def gpu_cases() -> Models:
    """The jobs that are measured on a GPU."""
    from benchmarks import gpu_cases as cases

    found = [
        *cases.checked_cases(),
        *cases.row_cases(small=False),
        *cases.product_cases(small=False),
        *cases.attention_cases(small=False),
    ]
    for case in found:
        yield case.name.replace(" ", "_"), lambda text=case.text: text


def nodes() -> Models:
    """The test cases of ONNX, an op each."""
    from penstock.tools.reports.onnx_coverage import all_cases

    for case in all_cases():
        # Others compute the same by small ops.
        if "_expanded" not in case.name:
            yield case.name, lambda model=case.model: imported(model)


GROUPS: Mapping[str, Callable[[], Models]] = {
    "gemm": gemms,
    "elementwise": expressions,
    "attention": attentions,
    "gpu": gpu_cases,
    "nodes": nodes,
}
"""The models of benchmarks, and those of ONNX's tests, by the names of groups."""


def imported(model: ModelProto) -> ModuleOp:
    """The job of a model."""
    from penstock.tools.frontend.onnx.model import import_model

    return import_model(model, model.graph.name).module


def whole_models(name: str) -> Models:
    """A light model of the package `onnx`, or one of PyTorch, if it is installed."""
    from benchmarks.models import exported_models, light_models

    for _, module in chain(light_models([name]), exported_models([name])):
        yield name, lambda module=module: module


def lines_of_models(
    name: str,
    variants: Sequence[Variant],
    first: int = 0,
    step: int = 1,
    fixed: bool = False,
) -> Iterator[Line]:
    """The kernels of a group of models, or of a model; of each of so many models."""
    lowering = _lowering(fixed)
    cases = {str(v): v.passes(lowering.available) for v in variants}
    is_group = name in GROUPS
    found = GROUPS[name]() if is_group else whole_models(name)
    for case, make in islice(found, first, None, step):
        label = f"{name}/{case}" if is_group else name
        yield from lowering.lines(partial(_made, make), label, cases)


def _made(make: Callable[[], ModuleOp | str], compiler: Compiler) -> ModuleOp:
    made = make()
    return compiler.parse(made.encode(), "") if isinstance(made, str) else made
