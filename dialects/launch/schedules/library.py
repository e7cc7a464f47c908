"""Schedules of contractions that a library computes, such as cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class LibraryAttr(ParametrizedAttribute):
    """
    The library that computes a contraction on a GPU; it has to be there when the
    program runs. `folds 1` says that the stage before, which sets the result to 0, is
    part of that.

    ```mlir
    #launch.library<"cublas", folds 1>
    ```
    """

    name = "launch.library"

    library: StringAttr = param_def()
    before: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, library: str, folds: int = 0):
        super().__init__(StringAttr(library), IntAttr(folds))

    @property
    def folds(self) -> int:
        """The stages before that are part of it."""
        return self.before.data

    def verify(self) -> None:
        if not self.library.data:
            raise VerifyException("a library has a name")
        if self.folds not in (0, 1):
            raise VerifyException(
                f"a library computes up to one stage before, got {self.folds}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            name, folds = parser.parse_str_literal(), 0
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("folds")
                folds = parser.parse_integer()
        return [StringAttr(name), IntAttr(folds)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.library.data)
            if self.folds:
                printer.print_string(f", folds {self.folds}")
