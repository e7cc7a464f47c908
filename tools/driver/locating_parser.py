"""
A parser that gives each operation the place where it is written.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    NoneAttr,
    RankedStructure,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Operation, SSAValue, TypeAttribute
from xdsl.irdl import AttributeInvT, IRDLOperation
from xdsl.parser import AttrParser, Parser, ParserState, UnresolvedOperand
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.utils.exceptions import (
    DiagnosticException,
    MultipleSpansParseError,
    ParseError,
)
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from penstock.dialects.utils.diagnostics import told
from penstock.dialects.utils.former_names import FORMER_NAMES
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.splat import Elements, SplatAttr
from penstock.tools.driver.diagnostics import suggest

_VALUE_NAME = re.compile(r"%([\w$.-]+)")
_PLAIN_TYPE = re.compile(r'(?:tensor|memref|vector)<[^<>#!/"\n-]*>')
"""A type without another one, a name of an attribute, a comment or an arrow in it."""
MOST_DIGITS = 64
"""The most characters of an element; a longer string holds several."""


class _Lexer(MLIRLexer):
    """
    The lexer of xDSL with two mends for string literals, and one for a message.

    Its own pattern tries exponentially many ways to match a string that is never
    closed. And the printer escapes each byte outside ASCII, which the lexer takes for
    bytes even where they are the UTF-8 of a text, so that names of most scripts could
    be printed but not read back.
    """

    _unescaped_characters_regex = re.compile(
        r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
    )

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind != MLIRTokenKind.BYTES_LIT:
            return token
        literal = StringLiteral.from_span(token.span)
        try:
            literal.bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, literal)

    def _lex_prefixed_ident(self, start_pos: int) -> MLIRToken:
        try:
            return super()._lex_prefixed_ident(start_pos)
        except ParseError as error:
            text = self.input.content[start_pos:]
            message = f"expected a name after '{text[0]}'{_hint_about(text)}"
            raise ParseError(error.span, message) from None


def _hint_about(text: str) -> str:
    """The reason why a text that begins with a mark is probably no IR."""
    from penstock.lowering.codegen.target import title_of

    if text.startswith(title_of("")):
        return ": this is the source of kernels, the last level, and no IR"
    return ": comments of IR begin with //" if text.startswith("# ") else ""


_UNDEFINED_VALUES = "values used but not defined"
_UNDEFINED_BLOCKS = "region ends with missing block declarations"
"""The beginnings of xDSL's messages about the end of the text, or of a region."""


class UndefinedNames(ParseError):
    """
    Values or blocks that are used, but never defined: an error at the use of each.
    """

    def __init__(self, errors: Sequence[ParseError]) -> None:
        super().__init__(errors[0].span, errors[0].msg)
        self.errors = tuple(errors)


class LocatingParser(Parser):
    """
    The parser of xDSL, which gives each operation without a location the place where it
    starts, and one whose location is a mere name this place under the name.

    Every exception of an operation's own parser becomes a `ParseError` at that place,
    and values and blocks without a definition are reported where they are used.
    `line_offset` is the number of lines of the file before `text`.
    """

    def __init__(
        self, ctx: Context, text: str, name: str, line_offset: int = 0
    ) -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._file = StringAttr(name)
        self._line_starts = [0, *(end.end() for end in re.finditer("\n", text))]
        self._line_offset = line_offset
        self._start_of_op = 0
        self._first_uses: dict[str, Span] = {}
        """The first use of each value that was used before its definition."""
        self._declared: dict[SSAValue, tuple[str, Span]] = {}
        """
        The name and the first use of each value that stood for one without a definition
        yet.
        """
        self._takes_splats = False
        """Whether the operation that is parsed knows `SplatAttr`."""
        self._types: dict[str, TypeAttribute] = {}
        """Types by their text."""
        self.resources: dict[str, dict[str, str | bool | int]] = {}
        """The external resources of the text: values by group and key."""

    def parse_optional_type(self) -> TypeAttribute | None:
        """A type, if there is one. Most of a text are alike, and read once."""
        plain = _PLAIN_TYPE.match(self.lexer.input.content, self.pos)
        if plain is None:
            return super().parse_optional_type()
        text = plain.group()
        if (known := self._types.get(text)) is not None:
            self._resume_from(plain.end())
            return known
        found = super().parse_optional_type()
        if found is not None:
            self._types[text] = found
        return found

    def _parse_external_resources(self) -> None:
        braces = self.Delimiter.BRACES
        self.parse_comma_separated_list(braces, self._parse_resources_of_group)

    def _parse_resources_of_group(self) -> None:
        group = self.resources.setdefault(self._parse_resource_key(), {})

        def parse_one() -> None:
            key = self._parse_resource_key()
            group[key] = self._parse_resource_value()

        self.parse_comma_separated_list(self.Delimiter.BRACES, parse_one)

    def _parse_resource_key(self) -> str:
        key = self.parse_optional_identifier() or self.parse_str_literal()
        self.parse_punctuation(":")
        return key

    def _parse_resource_value(self) -> str | bool | int:
        flag = self.parse_optional_boolean()
        if flag is not None:
            return flag
        number = self.parse_optional_integer(allow_boolean=False)
        return self.parse_str_literal() if number is None else number

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """
        The module of the whole text; a text without any operation is an empty one.
        """
        start = self.pos
        try:
            if allow_implicit_module and self._current_token.kind == MLIRTokenKind.EOF:
                module = ModuleOp([])
            else:
                module = super().parse_module(allow_implicit_module)
        except ParseError as error:
            if error.msg.startswith(_UNDEFINED_VALUES):
                raise self._undefined_values() from None
            raise
        except RecursionError:
            raise
        except Exception as error:
            self.raise_error(_explain(error))
        self._locate(module, start)
        return module

    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        """The value of a name, whose use is noted if it has no definition yet."""
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span)
        value = super().resolve_operand(operand, type)
        if isinstance(value, ForwardDeclaredValue):
            self._declared.setdefault(value, (operand.operand_name, operand.span))
        return value

    def _undefined_values(self) -> UndefinedNames:
        names = [*self.forward_ssa_references]
        seen = _VALUE_NAME.findall(self.lexer.input.content)
        known = sorted({*seen} - {*names})
        return UndefinedNames(
            [
                ParseError(
                    self._first_uses[name],
                    f"value %{name} is used, but not defined{suggest(name, known)}",
                )
                for name in names
            ]
        )

    def parse_operation(self) -> Operation:
        """One operation, with its place."""
        start = self._start_of_op = self.pos
        try:
            op = super().parse_operation()
        except MultipleSpansParseError as error:
            if error.msg.startswith(_UNDEFINED_BLOCKS):
                raise _undefined_blocks(error) from None
            raise
        except (ParseError, RecursionError):
            raise
        except Exception as error:
            end = self._end_of_line(start)
            span = Span(start, end, self.lexer.input)
            raise ParseError(span, _explain(error)) from error
        self._check_forward_uses(op)
        self._locate(op, start)
        return op

    def _check_forward_uses(self, op: Operation) -> None:
        """
        Raise ParseError for an operand that xDSL has lost: its name was defined in a
        region of the operation before the operation existed.
        """
        for operand in op.operands:
            if not isinstance(operand, ForwardDeclaredValue):
                continue
            declared = self.forward_ssa_references
            if any(operand in found.values() for found in declared.values()):
                continue
            name, span = self._declared[operand]
            raise ParseError(span, f"value %{name} is used, but not defined")

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        """
        The elements of a tensor: a `SplatAttr` if one element stands for all, in an op
        that declares it.
        """
        start = self.pos
        is_known = type is None and self._takes_splats
        splat = self._parse_optional_splat() if is_known else None
        if splat is None:
            self._resume_from(start)
            return super().parse_dense_int_or_fp_elements_attr(type)
        # xDSL's own types say that it is dense, as its text does.
        return cast("DenseIntOrFPElementsAttr", splat)

    def _parse_optional_splat(self) -> Elements | None:
        """One element and the type of a tensor of several, if the text has them."""
        self.parse_punctuation("<", " in dense attribute")
        token = self._current_token
        is_long = token.span.end - token.span.start > MOST_DIGITS
        if is_long or token.kind in (MLIRTokenKind.L_SQUARE, MLIRTokenKind.GREATER):
            return None
        bits = self.parse_optional_str_literal()
        element = None if bits is not None else self._parse_tensor_literal()[0][0]
        self.parse_punctuation(">", " in dense attribute")
        self.parse_punctuation(":", " in dense attribute")
        type = self._parse_dense_literal_type()
        if (
            not isa(type, TensorType[AnyFloat | IntegerType])
            or type.element_count() < 2
        ):
            return None
        kind = type.element_type
        if element is not None:
            return SplatAttr(type, BytesAttr(self._packed(element, kind)))
        if bits is None or len(bits) != 2 + 2 * kind.compile_time_size:
            return None
        return SplatAttr(type, BytesAttr(bytes.fromhex(bits[2:])))

    def _packed(
        self,
        element: AttrParser._TensorLiteralElement,
        kind: AnyFloat | IntegerType,
    ) -> bytes:
        """The bytes of an element, as dense attributes hold them."""
        if isinstance(kind, AnyFloat):
            number = element.to_type(self, kind)
            assert isinstance(number, float | int), "a float is no pair of numbers"
            return kind.pack([number])
        whole = element.to_type(self, kind)
        assert isinstance(whole, int), "an integer is no pair of numbers"
        return kind.pack([kind.get_normalized_value(whole)])

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        if not element.span.text.startswith("0x"):
            return element
        return _BitsElement(element.is_negative, element.value, element.span)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        name = FORMER_NAMES.get(name, name)
        stack = self._parser_state.dialect_stack
        op_type = self.ctx.get_optional_op(name, dialect_stack=stack)
        if op_type is None:
            hint = suggest(name, (known.name for known in self.ctx.loaded_ops))
            end = self._end_of_line(self._start_of_op)
            self.raise_error(
                f"Operation {name} is not registered{hint}", self._start_of_op, end
            )
        self._takes_splats = takes_splats(op_type)
        return op_type

    def _locate(self, op: Operation, position: int) -> None:
        location = op.location
        if isinstance(location, UnknownLoc):
            op.location = self._place_at(position)
        elif isinstance(location, NameLoc) and isinstance(location.location, NoneAttr):
            op.location = NameLoc(location.desc, self._place_at(position))

    def _place_at(self, position: int) -> FileLineColLoc:
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(
            self._file, IntAttr(line + self._line_offset), IntAttr(column)
        )

    def _end_of_line(self, position: int) -> int:
        return self.lexer.input.get_end_of_line(position)


def _undefined_blocks(error: MultipleSpansParseError) -> UndefinedNames:
    errors: list[ParseError] = []
    for span, _ in error.refs:
        errors.append(ParseError(span, f"block {span.text} is used, but not defined"))
    return UndefinedNames(errors)


@cache
def takes_splats(op_type: type[Operation]) -> bool:
    """Whether an operation declares a property that may be a `SplatAttr`."""
    if not issubclass(op_type, IRDLOperation):
        return False
    properties = op_type.get_irdl_definition().properties.values()
    return any(SplatAttr in (p.constr.get_bases() or ()) for p in properties)


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
    return f"cannot parse this operation: {told(error)}"
