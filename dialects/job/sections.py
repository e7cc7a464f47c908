"""
Sections, in which a run of a job holds resources that jobs share, and their ticks.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    param_def,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.hints import isa

SECTIONS = "sections"
"""The attribute of a job, or of its plan, that lists its sections."""

TOTAL, INPUT, OUTPUTS = "total", "input", "outputs"
KINDS = (INPUT, OUTPUTS, TOTAL)


@irdl_attr_definition
class SectionAttr(ParametrizedAttribute):
    """
    Variables and interfaces that a job uses together, by name: those that it reads, and
    those that it writes. Two sections of different jobs intersect if one writes what
    the other reads or writes, or if both are of kind `total` and the jobs exclude each
    other.

    ```mlir
    #job.section<"total", total reads ["w"] writes ["step"]>
    ```
    """

    name = "job.section"

    section_name: StringAttr = param_def(converter=StringAttr.get)
    kind: StringAttr = param_def(converter=StringAttr.get)
    reads: ArrayAttr[StringAttr] = param_def()
    writes: ArrayAttr[StringAttr] = param_def()

    @classmethod
    def of(
        cls,
        name: str,
        kind: str,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
    ) -> SectionAttr:
        """The section of this name and kind over these names."""
        lists = [ArrayAttr(map(StringAttr, names)) for names in (reads, writes)]
        return cls(StringAttr(name), StringAttr(kind), *lists)

    def verify(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(
                f"a section is one of {', '.join(KINDS)}, got '{self.kind.data}'"
            )
        names = [name.data for name in (*self.reads, *self.writes)]
        if len(set(names)) != len(names):
            raise VerifyException(
                f"a section names a thing once, got {', '.join(names)}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            name = parser.parse_str_literal()
            parser.parse_punctuation(",")
            kind = parser.parse_identifier()
            names = [names_after(parser, keyword) for keyword in ("reads", "writes")]
        return [StringAttr(name), StringAttr(kind), *names]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.section_name.data)
            printer.print_string(f", {self.kind.data}")
            for keyword, names in (("reads", self.reads), ("writes", self.writes)):
                if names:
                    printer.print_string(f" {keyword} ")
                    printer.print_attribute(names)


def names_after(parser: AttrParser, keyword: str) -> ArrayAttr[StringAttr]:
    """The list of strings after a keyword, empty if that does not come."""
    names: list[str] = []
    if parser.parse_optional_keyword(keyword) is not None:
        names = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_str_literal
        )
    return ArrayAttr(map(StringAttr, names))


def sections_of(attribute: Attribute | None) -> list[SectionAttr]:
    """
    The sections that the attribute `sections` lists; none if there is no such
    attribute. Raises `VerifyException` if it is no list of sections with names of their
    own, the first of which, and no other, is of kind `total`.
    """
    if attribute is None:
        return []
    if not isa(attribute, ArrayAttr[SectionAttr]):
        raise VerifyException(f"sections should list #job.section, got {attribute}")
    names = [section.section_name.data for section in attribute]
    if doubled := next((x for i, x in enumerate(names) if x in names[:i]), None):
        raise VerifyException(f"two sections are named '{doubled}'")
    kinds = [section.kind.data for section in attribute]
    if kinds[:1] != [TOTAL] or TOTAL in kinds[1:]:
        raise VerifyException(
            f"the first section, and no other, is of kind total, got {', '.join(kinds)}"
        )
    return list(attribute)


@irdl_op_definition
class SourceTickOp(IRDLOperation):
    """
    The begin of a section of a job: its task acts before all others of the section.

    ```mlir
    job.source_tick "total"
    ```
    """

    name = "job.source_tick"

    section = prop_def(StringAttr)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$section attr-dict"

    def __init__(self, section: str):
        super().__init__(properties={"section": StringAttr(section)})


@irdl_op_definition
class SinkTickOp(IRDLOperation):
    """
    The end of a section of a job: its task acts after all others of the section.

    ```mlir
    job.sink_tick "total"
    ```
    """

    name = "job.sink_tick"

    section = prop_def(StringAttr)

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$section attr-dict"

    def __init__(self, section: str):
        super().__init__(properties={"section": StringAttr(section)})
