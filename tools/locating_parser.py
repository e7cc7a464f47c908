"""A parser that remembers where each operation was written."""

import re
from bisect import bisect_right

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from penstock.tools.diagnostics import suggest


class _LinearLexer(MLIRLexer):
    """
    The xDSL lexer, but in linear time: its own pattern for strings tries exponentially
    many ways to match a string that is never closed.
    """

    _unescaped_characters_regex = re.compile(
        r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
    )


class LocatingParser(Parser):
    """
    The xDSL parser, which also gives each operation that states no location the place
    where it starts, and turns whatever an operation's own parser raises into a
    `ParseError` at that place.

    `line_offset` is the number of lines of the file before `text`.
    """

    def __init__(
        self, ctx: Context, text: str, name: str, line_offset: int = 0
    ) -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_LinearLexer(Input(text, name)))
        self._file = StringAttr(name)
        self._line_starts = [0, *(end.end() for end in re.finditer("\n", text))]
        self._line_offset = line_offset
        self._start_of_op = 0

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse the whole text; one without any operation is an empty module."""
        start = self.pos
        try:
            if allow_implicit_module and self._current_token.kind == MLIRTokenKind.EOF:
                module = ModuleOp([])
            else:
                module = super().parse_module(allow_implicit_module)
        except (ParseError, RecursionError):
            raise
        except Exception as error:
            self.raise_error(_explain(error))
        self._locate(module, start)
        return module

    def parse_operation(self) -> Operation:
        """Parse one operation and stamp it with its place."""
        start = self._start_of_op = self.pos
        try:
            op = super().parse_operation()
        except (ParseError, RecursionError):
            raise
        except Exception as error:
            end = self._end_of_line(start)
            span = Span(start, end, self.lexer.input)
            raise ParseError(span, _explain(error)) from error
        self._locate(op, start)
        return op

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        if not element.span.text.startswith("0x"):
            return element
        return _BitsElement(element.is_negative, element.value, element.span)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        stack = self._parser_state.dialect_stack
        op_type = self.ctx.get_optional_op(name, dialect_stack=stack)
        if op_type is None:
            hint = suggest(name, (known.name for known in self.ctx.loaded_ops))
            end = self._end_of_line(self._start_of_op)
            self.raise_error(
                f"Operation {name} is not registered{hint}", self._start_of_op, end
            )
        return op_type

    def _locate(self, op: Operation, position: int) -> None:
        if not isinstance(op.location, UnknownLoc):
            return
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        op.location = FileLineColLoc(
            self._file, IntAttr(line + self._line_offset), IntAttr(column)
        )

    def _end_of_line(self, position: int) -> int:
        return self.lexer.input.get_end_of_line(position)


# xDSL has no public hook for elements.
class _BitsElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """
    A hexadecimal element of a dense literal: the bits of a float, as xDSL prints
    infinities, NaNs and large floats, though it reads them back as integers.
    """

    def to_type(
        self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType
    ) -> int | float | tuple[int, int] | tuple[float, float]:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        data = self.to_int(parser).to_bytes(type.compile_time_size, "little")
        return type.unpack(data, 1)[0]


def _explain(error: Exception) -> str:
    if isinstance(error, DiagnosticException):
        return str(error)
    if isinstance(error, ValueError):
        return f"cannot parse this operation: {error}"
    return f"cannot parse this operation: {type(error).__name__}: {error}"
