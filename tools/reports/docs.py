"""
The generated pages of the documentation, from definitions, tests and figures:

    python -m penstock.tools.reports.docs docs

makes `dialects/<name>.md` for each dialect, `passes.md`, `api.md`, `commands.md` and
`benchmarks.md` in the folder named.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import get_all_dialects as get_upstream_dialects
from xdsl.dialects.builtin import (
    ArrayOfConstraint,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    FloatData,
    IntAttr,
    IntAttrConstraint,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.test import TestOp
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    AtLeast,
    AttrConstraint,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    MessageConstraint,
    OpDef,
    OptOperandDef,
    OptPropertyDef,
    OptResultDef,
    ParamAttrConstraint,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
    VarConstraint,
    VarOperandDef,
    VarResultDef,
)
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import HasParent, OpTrait

from penstock.dialects import get_all_dialects
from penstock.dialects.kernel.body_ops import InStructuredOp
from penstock.dialects.launch.schedules.schedule import ScheduleAttr
from penstock.dialects.op.body import InBody
from penstock.dialects.op.elementwise import Elements
from penstock.dialects.op.tensor_op import ElementwiseOp, TensorOp
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.counts import CountConstraint
from penstock.dialects.utils.repetitions import MOST_ACTS
from penstock.dialects.utils.splat import SplatAttr
from penstock.tools.reports.api_page import api_page
from penstock.tools.reports.benchmark_figures import FiguresError
from penstock.tools.reports.benchmarks_page import benchmarks_page
from penstock.tools.reports.commands_page import commands_page
from penstock.tools.reports.markdown import HEADING, Lines, table, text_of
from penstock.tools.reports.pass_examples import ExampleError
from penstock.tools.reports.passes_page import passes_page

ROOT = Path(__file__).resolve().parents[2]
"""The project's folder, if this file is used where it was written."""

_LEGEND = """\
In a syntax, words in backticks stand for themselves, `$name` for a part of the op, and
what is in `( )?` may be left out. An example is valid where the values that it uses are
defined."""
_CUSTOM = re.compile(r"custom<\w+>\(([^()]*)\)")
_EXAMPLE = re.compile(r"```mlir\n(.*?)```", re.DOTALL)


def pages(root: Path) -> dict[str, str]:
    """
    The text of each page by its path below the folder of the documentation.

    Examples of passes and figures of benchmarks are read below `root`, the project's
    folder. Raises `ExampleError` if an example is missing, and `FiguresError` if
    figures are not in their format.
    """
    dialects = {name: factory() for name, factory in get_all_dialects().items()}
    made = {f"dialects/{name}.md": dialect_page(d) for name, d in dialects.items()}
    return {
        **made,
        "passes.md": passes_page(root),
        "api.md": api_page(),
        "commands.md": commands_page(),
        "benchmarks.md": benchmarks_page(root / "docs" / "benchmarks"),
    }


def write_pages(folder: Path) -> None:
    """Write all pages below a folder, which is made if need be."""
    for name, text in pages(ROOT).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


################################################################################
# Dialects                                                                     #
################################################################################


def dialect_page(dialect: Dialect) -> str:
    """The page of a dialect: the docstring of its module, its attributes, its ops."""
    attributes = list(dialect.attributes)
    operations = list(dialect.operations)
    owner = sys.modules[_home_of(dialect)]
    lines = [HEADING, "", f"# Dialect `{dialect.name}`", "", text_of(owner), ""]
    attributes.sort(key=lambda attribute: issubclass(attribute, TypeAttribute))
    lines += _contents(attributes, operations)
    for title, kind in (("Attributes", False), ("Types", True)):
        chosen = [a for a in attributes if issubclass(a, TypeAttribute) is kind]
        if chosen:
            lines += [f"## {title}", ""]
        for attribute in chosen:
            lines += attribute_section(attribute)
    lines += ["## Ops", "", _LEGEND, ""]
    for operation in operations:
        lines += operation_section(operation)
    return "\n".join(lines).rstrip() + "\n"


def _home_of(dialect: Dialect) -> str:
    """The module of a dialect: the one that the registry's function imports from."""
    return f"penstock.dialects.{dialect.name}"


def _contents(
    attributes: Sequence[type[Attribute]], operations: Sequence[type[Operation]]
) -> Lines:
    names = [*map(attribute_name, attributes), *(op.name for op in operations)]
    anchors = [re.sub(r"[^a-z0-9_-]", "", name.lower()) for name in names]
    links: list[str] = []
    for index, (name, anchor) in enumerate(zip(names, anchors, strict=True)):
        # Of headings with one anchor the later ones are numbered.
        count = anchors[:index].count(anchor)
        links.append(f"[`{name}`](#{anchor}{f'-{count}' if count else ''})")
    yield from (*textwrap.wrap(", ".join(links), 88, break_on_hyphens=False), "")


def attribute_name(attribute: type[Attribute]) -> str:
    """The name of an attribute or type as IR spells it, such as `#job.init`."""
    return ("!" if issubclass(attribute, TypeAttribute) else "#") + attribute.name


def attribute_section(attribute: type[Attribute]) -> Lines:
    """The docstring of an attribute or type, and its parameters."""
    yield from (f"### `{attribute_name(attribute)}`", "", text_of(attribute), "")
    cases: Iterable[str] = getattr(attribute, "enum_type", ())
    if listed := ", ".join(f"`{case}`" for case in cases):
        yield from (f"One of {listed}.", "")
    if issubclass(attribute, ScheduleAttr):
        parts = attribute.fields().items()
        rows = [(f"`{name}`", field.describe()) for name, field in parts]
        yield from table(("field", "what it is"), rows)
        return
    if not issubclass(attribute, ParametrizedAttribute):
        return
    parameters = attribute.get_irdl_definition().parameters
    rows = [(f"`{name}`", words(parameter.constr)) for name, parameter in parameters]
    yield from table(("parameter", "what it is"), rows)


def operation_section(operation: type[Operation]) -> Lines:
    """The section of an op: docstring, syntax, parts, traits and interfaces."""
    assert issubclass(operation, IRDLOperation), "all ops of ours are defined by IRDL"
    definition = operation.get_irdl_definition()
    yield from (f"### `{operation.name}`", "", text_of(operation), "")
    if definition.assembly_format is not None:
        yield "Syntax:"
        syntax = _CUSTOM.sub(r"\1", definition.assembly_format)
        yield from ("", "```", f"{operation.name} {syntax}", "```", "")
    yield from table(("part", "kind", "what it is"), list(_parts_of(definition)))
    known = [x for x in operation.traits if isinstance(x, KnownAttributes)]
    names = sorted({f"`{name}`" for trait in known for name in trait.names})
    if names:
        yield from (f"Attributes: {', '.join(names)}.", "")
    others = (x for x in operation.traits if not isinstance(x, KnownAttributes))
    traits = sorted(map(trait_name, others))
    # Those with an underscore are how xDSL finds interfaces.
    shown = [f"`{trait}`" for trait in traits if not trait.startswith("_")]
    if shown:
        yield from (f"Traits: {', '.join(shown)}.", "")
    if issubclass(operation, TensorOp):
        yield from interface_lines(operation)
    if issubclass(operation, HasCanonicalizationPatternsInterface):
        yield from canonicalization_lines(operation)


def canonicalization_lines(
    operation: type[HasCanonicalizationPatternsInterface],
) -> Lines:
    """The identities that `canonicalize` uses on an op."""
    yield from ("`canonicalize` knows:", "")
    for pattern in operation.get_canonicalization_patterns():
        text = " ".join(text_of(type(pattern)).split())
        yield f"* {text}"
    yield ""


def _parts_of(definition: OpDef) -> Iterator[tuple[str, str, str]]:
    segments = {"operandSegmentSizes", "resultSegmentSizes"}
    for name, operand in definition.operands:
        kind = _arity(operand, OptOperandDef, VarOperandDef)
        yield f"`{name}`", f"operand{kind}", words_of_range(operand.constr)
    for name, prop in definition.properties.items():
        if name in segments:
            continue
        optional = isinstance(prop, OptPropertyDef)
        default = prop.default_value
        text = words(prop.constr)
        if default is not None:
            text += f"; `{default}` unless given"
        yield f"`{name}`", f"property{', optional' if optional else ''}", text
    for name, _ in definition.regions:
        yield f"`{name}`", "region", "one block"
    for name, result in definition.results:
        kind = _arity(result, OptResultDef, VarResultDef)
        yield f"`{name}`", f"result{kind}", words_of_range(result.constr)


def _arity(value: object, optional: type, variadic: type) -> str:
    # An optional operand is a variadic one to xDSL.
    if isinstance(value, optional):
        return ", optional"
    return ", any number" if isinstance(value, variadic) else ""


def trait_name(trait: OpTrait) -> str:
    """The name of a trait, with the ops that it names."""
    name = type(trait).__name__
    if isinstance(trait, HasParent):
        return f"{name}({', '.join(op.name for op in trait.op_types)})"
    if isinstance(trait, InStructuredOp):
        return f"HasParent({', '.join(trait.names) or 'a structured op'})"
    if isinstance(trait, InBody):
        return "HasParent(an op on tensors with bodies)"
    return name


################################################################################
# Constraints in words                                                         #
################################################################################

_WORDS: Mapping[type[Attribute], str] = {
    DenseArrayBase: "list of integers",
    DenseIntOrFPElementsAttr: "elements of a tensor",
    DictionaryAttr: "dictionary",
    FloatAttr: "float",
    FloatData: "float",
    IntAttr: "integer",
    IntegerAttr: "integer",
    MemRefType: "memref",
    NoneAttr: "none",
    SplatAttr: "elements of a tensor",
    StringAttr: "string",
    SymbolRefAttr: "symbol",
    TensorType: "tensor",
    UnitAttr: "flag",
}


def words_of_range(constraint: RangeConstraint) -> str:
    """The constraint of each of a range of values, in words."""
    match constraint:
        case RangeLengthConstraint(constraint=inner):
            return words_of_range(inner)
        case RangeOf(constr=inner):
            return words(inner)
        case _:
            return str(constraint)


def words(constraint: AttrConstraint) -> str:
    """The constraint of an attribute or of the type of a value, in words."""
    match constraint:
        case AnyAttr():
            return "anything"
        case BaseAttr(attr=attribute):
            return _WORDS.get(attribute) or f"`{attribute_name(attribute)}`"
        case EqAttrConstraint(attr=attribute):
            return f"`{attribute}`"
        case VarConstraint(name=name, constraint=inner):
            return f"{words(inner)}, one and the same for all `{name}`"
        case AnyOf(attr_constrs=inner):
            return " or ".join(dict.fromkeys(map(words, inner)))
        case MessageConstraint(constr=inner):
            return words(inner)
        case SymbolNameConstraint():
            return "name of a symbol"
        case ArrayOfConstraint(elem_range_constraint=inner):
            return f"list of: {words_of_range(inner)}"
        case ParamAttrConstraint(base_attr=attribute, param_constrs=parameters):
            return _words_of_parameters(attribute, parameters)
        case _:
            return f"`{constraint}`"


def _words_of_parameters(
    attribute: type[Attribute], parameters: Iterable[AttrConstraint]
) -> str:
    text = _WORDS.get(attribute) or f"`{attribute_name(attribute)}`"
    limit = ""
    for parameter in parameters:
        match parameter:
            case EqAttrConstraint(attr=type):
                text = (
                    f"list of `{type}`" if attribute is DenseArrayBase else f"`{type}`"
                )
            case IntAttrConstraint(int_constraint=AtLeast(bound=bound)):
                limit = f", at least {bound}"
            case IntAttrConstraint(int_constraint=CountConstraint()):
                limit = f", 1 to {MOST_ACTS}"
            case _:
                pass
    return text + limit


################################################################################
# Examples and what they say                                                   #
################################################################################


def examples_of(operation: type[Operation]) -> list[str]:
    """The examples in the docstring of an op."""
    return _EXAMPLE.findall(text_of(operation))


ALIAS = re.compile(r"^#(\w+) = (.+)$", re.MULTILINE)
"""The line of an example that gives an attribute a name."""


def read_example(text: str) -> ModuleOp:
    """
    The module of an example.

    Values without a definition are results of `test.op`s before it, with the types that
    the example says. Raises `ParseError` for an example that is no IR.
    """
    ctx = Context()
    for name, factory in (get_upstream_dialects() | get_all_dialects()).items():
        ctx.register_dialect(name, factory)
    parser = Parser(ctx, without_aliases(text))
    operations: list[Operation] = []
    while (operation := parser.parse_optional_operation()) is not None:
        operations.append(operation)
    module = ModuleOp(operations)
    undefined: Mapping[str, Mapping[int, SSAValue]] = parser.forward_ssa_references
    for name, values in undefined.items():
        for value in values.values():
            _define(module, name, value)
    return module


def without_aliases(text: str) -> str:
    """A text with attributes in place of the names that its lines give to them."""
    for name, attribute in ALIAS.findall(text):
        text = re.sub(rf"#{name}\b(?! =)", lambda _, it=attribute: it, text)
    return ALIAS.sub("", text)


def _define(module: ModuleOp, name: str, value: SSAValue) -> None:
    definition = TestOp(result_types=[value.type])
    Rewriter.insert_op(definition, InsertPoint.at_start(module.body.block))
    definition.results[0].name_hint = name
    value.replace_all_uses_with(definition.results[0])


def interface_lines(operation: type[TensorOp]) -> Lines:
    """The interfaces of an op that passes use, and the cost of its example."""
    elements = getattr(operation, "ELEMENTS", None)
    if isinstance(elements, Elements):
        yield f"Elements: {elements.name} ({', '.join(map(str, elements.types))})."
    if not issubclass(operation, ElementwiseOp):
        yield "Not elementwise."
    elif not operation.get_irdl_definition().regions:
        yield "Elementwise: may be fused."
    for text in examples_of(operation):
        for op in read_example(text).walk():
            if isinstance(op, operation):
                yield _cost_line(op)
                break
    yield ""


def _cost_line(op: TensorOp) -> str:
    flops, size = op.cost()
    pairs = [
        f"result {pair.result} may lie on operand {pair.operand}"
        for pair in op.in_place_pairs()
    ]
    places = ", ".join(pairs) or "no result may lie on an operand"
    return f"The example takes {flops} flops and touches {size} bytes; {places}."


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pages below the folder that the arguments name."""
    parser = argparse.ArgumentParser(
        "penstock.tools.reports.docs", description="Write the reference pages."
    )
    parser.add_argument("folder", type=Path, help="where the pages go")
    try:
        write_pages(parser.parse_args(argv).folder)
    except (ExampleError, FiguresError) as error:
        sys.exit(f"{parser.prog}: error: {error}")


if __name__ == "__main__":
    main()
