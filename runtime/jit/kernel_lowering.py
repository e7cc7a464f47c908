"""
Lowering of printed kernels to LLVM IR, without Numba's front end.

Code generators print a small part of Python: words, scalars of exact types, elements of
buffers, loops over ranges, branches, and calls of functions that emit their own code.
Each name has a type once it is given a value, in the order of the text, so that one
walk over the text finds types and emits code:

    text -> ast -> lowered() -> LLVM IR
                       |
                       v  NotPrintedError
                     Numba

All means what Numba takes it for under NumPy's error model: sums of signed integers do
not overflow, and division by zero gives zero. Sources of users may have all that Numba
knows; those that have more than this part are left to it. Numba reads bytecode, finds
types by iteration, and looks up an implementation for each op, which takes several
times as long.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownLambdaType=false

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core.extending import (
    _Intrinsic as Intrinsic,  # pyright: ignore[reportPrivateUsage] # it has no other
)

from penstock.runtime.kernels.cpu.support import (
    Buffer,
    load_element,
    store_element,
)

Builder: TypeAlias = Any
LlvmValue: TypeAlias = Any
Type: TypeAlias = Any

WORD, BIT = ir.IntType(64), ir.IntType(1)
MOST = 1 << 63
"""The least number that is no signed word."""

_CLASSES: Mapping[object, Type] = {
    getattr(np, name): getattr(types, name)
    for name in (
        *("float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
}
"""The type of the scalars that calls of a class give."""

_RELATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}

_ARITHMETIC: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
}

_OF_BITS: Mapping[type[ast.operator], str] = {
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}


class NotPrintedError(Exception):
    """Text outside of the part of Python that kernels are printed in."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is known at run time, or a constant, and its type."""

    type: Type
    llvm: LlvmValue


class LoweredKernel(NamedTuple):
    """The LLVM IR of a kernel, as texts of two modules that are to be linked."""

    loops: str
    """The C function, and the functions of the text that it calls."""
    micro_kernels: str
    """The functions beside it, in the vectors and registers that they are to have."""


def lowered(
    function: Callable[..., int], text: ast.Module, symbol: str, words: int, bits: int
) -> LoweredKernel | None:
    """
    The LLVM IR of the C function of this name, of so many words and with a result of 32
    or 64 bits, given the function and the text that defines it. None if the text is not
    of the part that kernels are printed in.
    """
    unit = _Unit(function, text)
    try:
        unit.add(function, symbol, words, bits)
    except NotPrintedError:
        return None
    return _in_two(unit.module)


def _in_two(module: ir.Module) -> LoweredKernel:
    """The text of a module, and apart that of the functions which are not inlined."""
    loops, micro_kernels = (ir.Module(module.name) for _ in range(2))
    for each in module.globals.values():
        if not isinstance(each, ir.Function) or each.is_declaration:
            loops.add_global(each)
            micro_kernels.add_global(each)
        elif "noinline" in each.attributes:
            each.linkage = ""
            micro_kernels.add_global(each)
            declared = ir.Function(loops, each.function_type, each.name)
            declared.attributes.update(each.attributes)
        else:
            loops.add_global(each)
    for part in (loops, micro_kernels):
        part.triple, part.metadata = module.triple, module.metadata
    return LoweredKernel(str(loops), str(micro_kernels))


class _Unit:
    """The functions of a text, in a module of LLVM IR."""

    def __init__(self, function: Callable[..., int], text: ast.Module):
        self.module = ir.Module("penstock")
        self.module.triple = binding.get_process_triple()
        self._file = function.__code__.co_filename
        self._definitions = {
            min([each.lineno, *(x.lineno for x in each.decorator_list)]): each
            for each in ast.walk(text)
            if isinstance(each, ast.FunctionDef)
        }
        self._inner: dict[object, ir.Function] = {}

    def add(
        self, function: Callable[..., int], name: str, words: int, bits: int
    ) -> ir.Function:
        """Lower a function of so many words."""
        code = function.__code__
        definition = self._definitions.get(code.co_firstlineno)
        if definition is None or len(definition.args.args) != words:
            raise NotPrintedError
        kind = ir.FunctionType(ir.IntType(bits), [WORD] * words)
        made = ir.Function(self.module, kind, name)
        cells = function.__closure__ or ()
        closure = {
            free: cell.cell_contents
            for free, cell in zip(code.co_freevars, cells, strict=True)
        }
        names = {**vars(builtins), **function.__globals__, **closure}
        _Body(self, made, definition, names).emit()
        return made

    def inner(self, function: object) -> ir.Function | None:
        """A function of the text that others call, lowered once; None if it is none."""
        if not isinstance(function, FunctionType):
            return None
        if function.__code__.co_filename != self._file:
            return None
        if function not in self._inner:
            words = function.__code__.co_argcount
            name = self.module.get_unique_name(function.__name__)
            self._inner[function] = made = self.add(function, name, words, 64)
            made.linkage = "internal"
        return self._inner[function]


class _Context:
    """As much of Numba's target context as functions ask for that emit their code."""

    @staticmethod
    def get_dummy_value() -> None:
        """The result of a function without one."""

    @staticmethod
    def make_tuple(
        _builder: Builder, _type: Type, values: Sequence[LlvmValue]
    ) -> Sequence[LlvmValue]:
        """The values of a tuple, as they are."""
        return values


class _Body:
    """The code of one function."""

    def __init__(
        self,
        unit: _Unit,
        made: ir.Function,
        definition: ast.FunctionDef,
        names: Mapping[str, object],
    ):
        self._unit, self._definition, self._names = unit, definition, names
        self._result = made.function_type.return_type
        entry, start = (made.append_basic_block(name) for name in ("entry", "start"))
        self._builder: Builder = ir.IRBuilder(entry)
        builder = self._builder
        # Functions that emit code put what is on the stack into the first block.
        builder.branch(start)
        builder.position_at_end(start)
        arguments = [each.arg for each in definition.args.args]
        self._known: dict[str, object] = {
            name: Value(types.int64, value)
            for name, value in zip(arguments, made.args, strict=True)
        }
        """The values of names that are given one once."""
        self._slots: dict[str, Value] = {}
        """The places on the stack of names that are given several."""
        self._varying = _varying(definition)
        if not self._varying.isdisjoint(arguments):
            raise NotPrintedError

    def emit(self) -> None:
        """Emit the function."""
        self._block(self._definition.body)
        if not self._builder.block.is_terminated:
            raise NotPrintedError

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for each in statements:
            if self._builder.block.is_terminated:
                return
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._operand(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                read = ast.Name(name, ast.Load())
                made = self._binary(op, self._operand(read), self._operand(value))
                self._assign(node.target, made)
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.If():
                self._branch(node)
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Name() as called, keywords=[]) as span,
                orelse=[],
            ) if self._operand(called) is range:
                self._loop(name, [self._operand(end) for end in span.args], node.body)
            case ast.Return(value=ast.expr() as value):
                found = self._value(self._operand(value))
                if not isinstance(found.type, types.Integer):
                    raise NotPrintedError
                kind = types.int64 if self._result == WORD else types.int32
                self._builder.ret(self._as(found, kind))
            case _:
                raise NotPrintedError

    def _assign(self, target: ast.expr, operand: object) -> None:
        match target:
            case ast.Name(id=name) if name in self._varying:
                self._store(name, self._value(operand))
            case ast.Name(id=name):
                self._known[name] = operand
            case ast.Tuple(elts=targets):
                if not isinstance(operand, tuple) or len(operand) != len(targets):
                    raise NotPrintedError
                for each, part in zip(targets, operand, strict=True):
                    self._assign(each, part)
            case ast.Subscript(value=of, slice=index):
                buffer, place = self._element(of, index)
                value = self._as(self._value(operand), buffer.type.scalar)
                store_element(self._builder, buffer.type, buffer.llvm, place, value)
            case _:
                raise NotPrintedError

    def _store(self, name: str, value: Value) -> None:
        if (slot := self._slots.get(name)) is None:
            with self._builder.goto_entry_block():
                place = self._builder.alloca(value.llvm.type)
                self._builder.store(ir.Constant(value.llvm.type, None), place)
            self._slots[name] = slot = Value(value.type, place)
        if slot.type != value.type:
            raise NotPrintedError
        self._builder.store(value.llvm, slot.llvm)

    @contextmanager
    def _inside(self) -> Generator[None]:
        """Statements whose names end with them, as they may not have run."""
        before = dict(self._known)
        yield
        self._known = before

    def _branch(self, node: ast.If) -> None:
        builder = self._builder
        condition = self._truth(self._operand(node.test))
        yes, no, after = map(builder.append_basic_block, ("then", "else", "after"))
        builder.cbranch(condition, yes, no)
        for block, statements in ((yes, node.body), (no, node.orelse)):
            builder.position_at_end(block)
            with self._inside():
                self._block(statements)
            if not builder.block.is_terminated:
                builder.branch(after)
        builder.position_at_end(after)
        if not after.instructions and not _is_reached(after):
            builder.unreachable()

    def _loop(
        self, name: str, ends: Sequence[object], statements: Sequence[ast.stmt]
    ) -> None:
        """
        A loop over a range. A step that is known at run time alone may have any sign,
        so the turns are counted before.
        """
        builder = self._builder
        first, last, by = _range(ends)
        start, end = (self._word(value) for value in (first, last))
        step = self._word(by)
        before = builder.block
        left = None if isinstance(by, int) else _turns(builder, start, end, step)
        head, body, after = map(builder.append_basic_block, ("head", "turn", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        place = builder.phi(WORD)
        place.add_incoming(start, before)
        if left is None:
            relation = "<" if cast("int", by) > 0 else ">"
            more, turns = builder.icmp_signed(relation, place, end), None
        else:
            turns = builder.phi(WORD)
            turns.add_incoming(left, before)
            more = builder.icmp_signed(">", turns, WORD(0))
        builder.cbranch(more, body, after)
        builder.position_at_end(body)
        with self._inside():
            self._assign(ast.Name(name, ast.Store()), Value(types.int64, place))
            self._block(statements)
        if not builder.block.is_terminated:
            place.add_incoming(builder.add(place, step, flags=["nsw"]), builder.block)
            if turns is not None:
                fewer = builder.sub(turns, WORD(1), flags=["nsw"])
                turns.add_incoming(fewer, builder.block)
            builder.branch(head)
        builder.position_at_end(after)

    # Expressions

    def _operand(self, node: ast.expr) -> object:
        """The value of an expression: at run time, or of Python."""
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return number
            case ast.Name(id=name):
                return self._named(name)
            case ast.Tuple(elts=parts):
                return tuple(self._operand(part) for part in parts)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._operand(left), self._operand(right))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._negated(self._operand(inner))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                truth = self._truth(self._operand(inner))
                return Value(types.boolean, self._builder.not_(truth))
            case ast.Compare():
                return self._compared(node)
            case ast.BoolOp():
                return self._connected(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Subscript(value=of, slice=index):
                buffer, place = self._element(of, index)
                kind = buffer.type
                value = load_element(self._builder, kind, buffer.llvm, place)
                return Value(kind.scalar, value)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=of, attr=name):
                module = self._operand(of)
                if not isinstance(module, ModuleType):
                    raise NotPrintedError
                return getattr(module, name)
            case _:
                raise NotPrintedError

    def _named(self, name: str) -> object:
        if (slot := self._slots.get(name)) is not None:
            return Value(slot.type, self._builder.load(slot.llvm))
        if name in self._known:
            return self._known[name]
        if name in self._varying or name not in self._names:
            raise NotPrintedError
        return self._names[name]

    def _value(self, operand: object) -> Value:
        """An operand as a value of the run."""
        match operand:
            case Value():
                return operand
            case bool():
                return Value(types.boolean, BIT(int(operand)))
            case int() if -MOST <= operand < MOST:
                return Value(types.int64, WORD(operand))
            case float():
                return Value(types.float64, ir.Constant(ir.DoubleType(), operand))
            case _:
                raise NotPrintedError

    def _word(self, operand: object) -> LlvmValue:
        value = self._value(operand)
        if not isinstance(value.type, types.Integer):
            raise NotPrintedError
        return self._as(value, types.int64)

    def _as(self, value: Value, kind: Type) -> LlvmValue:
        """A value as one of another type."""
        builder, own = self._builder, value.type
        if own == kind:
            return value.llvm
        from_float, to_float = (isinstance(x, types.Float) for x in (own, kind))
        if not to_float and not isinstance(kind, types.Integer):
            raise NotPrintedError
        if not from_float and not isinstance(own, types.Integer | types.Boolean):
            raise NotPrintedError
        signed = isinstance(own, types.Integer) and own.signed
        target = _llvm_type(kind)
        if from_float and to_float:
            emit = builder.fpext if own.bitwidth < kind.bitwidth else builder.fptrunc
        elif from_float:
            emit = builder.fptosi if kind.signed else builder.fptoui
        elif to_float:
            emit = builder.sitofp if signed else builder.uitofp
        elif value.llvm.type.width >= target.width:
            emit = builder.trunc
        else:
            emit = builder.sext if signed else builder.zext
        return emit(value.llvm, target)

    def _truth(self, operand: object) -> LlvmValue:
        value = self._value(operand)
        if value.type == types.boolean:
            return value.llvm
        if not isinstance(value.type, types.Integer):
            raise NotPrintedError
        return self._builder.icmp_signed("!=", value.llvm, value.llvm.type(0))

    def _element(self, of: ast.expr, index: ast.expr) -> tuple[Value, LlvmValue]:
        """A buffer, and the number of an element."""
        buffer = self._operand(of)
        if not isinstance(buffer, Value) or not isinstance(buffer.type, Buffer):
            raise NotPrintedError
        return buffer, self._word(self._operand(index))

    # Operations

    def _unified(self, a: Value, b: Value) -> tuple[Type, LlvmValue, LlvmValue]:
        """Two numbers as ones of the type that is computed in."""
        kinds = a.type, b.type
        if all(isinstance(kind, types.Integer) for kind in kinds):
            signed = a.type.signed or b.type.signed
            if signed and types.uint64 in kinds:
                raise NotPrintedError
            kind = types.int64 if signed else types.uint64
            return kind, self._as(a, kind), self._as(b, kind)
        if a.type != b.type or not isinstance(a.type, types.Float | types.Boolean):
            raise NotPrintedError
        return a.type, a.llvm, b.llvm

    def _binary(self, op: ast.operator, left: object, right: object) -> object:
        kind, a, b = self._unified(self._value(left), self._value(right))
        builder, symbol = self._builder, type(op)
        if symbol in _OF_BITS and not isinstance(kind, types.Float):
            return Value(kind, getattr(builder, _OF_BITS[symbol])(a, b))
        if kind == types.boolean:
            raise NotPrintedError
        if isinstance(kind, types.Float):
            name = "fdiv" if symbol is ast.Div else f"f{_ARITHMETIC.get(symbol)}"
            if not hasattr(builder, name):
                raise NotPrintedError
            return Value(kind, getattr(builder, name)(a, b))
        if (name := _ARITHMETIC.get(symbol)) is not None:
            flags = ["nsw"] if kind.signed else []
            return Value(kind, getattr(builder, name)(a, b, flags=flags))
        if symbol not in (ast.FloorDiv, ast.Mod) or not kind.signed:
            raise NotPrintedError
        quotient, rest = _divided(builder, a, b)
        return Value(kind, quotient if symbol is ast.FloorDiv else rest)

    def _negated(self, operand: object) -> object:
        if isinstance(operand, int | float):
            return -operand
        value = self._value(operand)
        if isinstance(value.type, types.Float):
            return Value(value.type, self._builder.fneg(value.llvm))
        if not isinstance(value.type, types.Integer) or not value.type.signed:
            raise NotPrintedError
        wide = self._as(value, types.int64)
        return Value(types.int64, self._builder.neg(wide))

    def _compared(self, node: ast.Compare) -> Value:
        if any(_may_fail(each) for each in node.comparators[1:]):
            raise NotPrintedError
        builder = self._builder
        values = [
            self._value(self._operand(each)) for each in (node.left, *node.comparators)
        ]
        found: LlvmValue = None
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            kind, a, b = self._unified(left, right)
            if (relation := _RELATIONS.get(type(op))) is None:
                raise NotPrintedError
            if isinstance(kind, types.Float):
                is_other = relation == "!="
                emit = builder.fcmp_unordered if is_other else builder.fcmp_ordered
            else:
                signed = isinstance(kind, types.Integer) and kind.signed
                emit = builder.icmp_signed if signed else builder.icmp_unsigned
            one = emit(relation, a, b)
            found = one if found is None else builder.and_(found, one)
        return Value(types.boolean, found)

    def _connected(self, node: ast.BoolOp) -> Value:
        """Conditions of which those behind the first that decides are not looked at."""
        builder, is_and = self._builder, isinstance(node.op, ast.And)
        after = builder.append_basic_block("decided")
        found: list[tuple[LlvmValue, ir.Block]] = []
        for each in node.values:
            value = self._value(self._operand(each))
            if value.type != types.boolean:
                raise NotPrintedError
            found.append((value.llvm, builder.block))
            if each is node.values[-1]:
                builder.branch(after)
                break
            more = builder.append_basic_block("condition")
            ways = (more, after) if is_and else (after, more)
            builder.cbranch(value.llvm, *ways)
            builder.position_at_end(more)
        builder.position_at_end(after)
        return Value(types.boolean, _merged(builder, found))

    def _choice(self, node: ast.IfExp) -> Value:
        builder = self._builder
        condition = self._truth(self._operand(node.test))
        yes, no, after = map(builder.append_basic_block, ("this", "that", "chosen"))
        builder.cbranch(condition, yes, no)
        found: list[tuple[LlvmValue, ir.Block]] = []
        kinds: list[Type] = []
        for block, each in ((yes, node.body), (no, node.orelse)):
            builder.position_at_end(block)
            value = self._value(self._operand(each))
            found.append((value.llvm, builder.block))
            kinds.append(value.type)
            builder.branch(after)
        if kinds[0] != kinds[1]:
            raise NotPrintedError
        builder.position_at_end(after)
        return Value(kinds[0], _merged(builder, found))

    # Calls

    def _call(self, node: ast.Call) -> object:
        if node.keywords:
            raise NotPrintedError
        if isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            return self._bits(self._operand(node.func.value), node.args)
        called = self._operand(node.func)
        operands = [self._operand(each) for each in node.args]
        if isinstance(called, Intrinsic):
            return self._emitted(called, operands)
        if isinstance(called, type) and (kind := _CLASSES.get(called)) is not None:
            (value,) = map(self._value, operands)
            return Value(kind, self._as(value, kind))
        if called is min or called is max:
            return self._extreme("<" if called is min else ">", operands)
        if (inner := self._unit.inner(called)) is None:
            raise NotPrintedError
        words = [self._word(each) for each in operands]
        return Value(types.int64, self._builder.call(inner, words))

    def _bits(self, operand: object, arguments: Sequence[ast.expr]) -> Value:
        """The bits of a number as one of another class."""
        value = self._value(operand)
        kinds = [_CLASSES.get(self._operand(each)) for each in arguments]
        kind = kinds[0] if len(kinds) == 1 else None
        if kind is None or kind.bitwidth != getattr(value.type, "bitwidth", None):
            raise NotPrintedError
        return Value(kind, self._builder.bitcast(value.llvm, _llvm_type(kind)))

    def _extreme(self, relation: str, operands: Sequence[object]) -> Value:
        """The least or the largest one of words; the first of equal ones."""
        found, *others = map(self._word, operands)
        for each in others:
            is_more = self._builder.icmp_signed(relation, each, found)
            found = self._builder.select(is_more, each, found)
        return Value(types.int64, found)

    def _emitted(self, called: Any, operands: Sequence[object]) -> object:
        """A call of a function that emits its code, and says of which types it is."""
        given = [self._given(called, each) for each in operands]
        try:
            found = called._defn(None, *given)
        except TypeError:
            found = None
        if found is None:
            raise NotPrintedError
        signature, generate = found
        values = [
            self._argument(each, kind)
            for each, kind in zip(operands, signature.args, strict=True)
        ]
        made = generate(_Context, self._builder, signature, values)
        kind = signature.return_type
        if isinstance(kind, types.BaseTuple):
            return tuple(Value(*each) for each in zip(kind.types, made, strict=True))
        return None if kind == types.none else Value(kind, made)

    def _given(self, called: Any, operand: object) -> Type:
        """The type of an argument, which is that of a constant if a function asks."""
        if isinstance(operand, tuple):
            kinds = [self._given(called, each) for each in operand]
            return types.BaseTuple.from_types([types.unliteral(each) for each in kinds])
        if type(operand) is int and called._prefer_literal:
            return types.literal(operand)
        return self._value(operand).type

    def _argument(self, operand: object, kind: Type) -> LlvmValue:
        """An argument as a function takes it."""
        if not isinstance(operand, tuple):
            return self._as(self._value(operand), types.unliteral(kind))
        if not isinstance(kind, types.BaseTuple) or len(kind.types) != len(operand):
            raise NotPrintedError
        values = [
            self._argument(each, part)
            for each, part in zip(operand, kind.types, strict=True)
        ]
        made = ir.Constant(
            ir.LiteralStructType([value.type for value in values]), ir.Undefined
        )
        for place, value in enumerate(values):
            made = self._builder.insert_value(made, value, place)
        return made


def _varying(definition: ast.FunctionDef) -> set[str]:
    """The names that are given a value at several places, or change theirs."""
    counts = Counter(each.arg for each in definition.args.args)
    loops: set[str] = set()
    for node in ast.walk(definition):
        match node:
            case ast.For(target=ast.Name(id=name)):
                # It is counted below, too.
                loops.add(name)
                counts[name] -= 1
            case ast.AugAssign(target=ast.Name(id=name)):
                counts[name] += 1
            case ast.Name(id=name, ctx=ast.Store()):
                counts[name] += 1
            case _:
                pass
    return {name for name, count in counts.items() if count + (name in loops) > 1}


def _range(ends: Sequence[object]) -> tuple[object, object, object]:
    """The start, the end and the step of a range, which is no 0 if it is known."""
    match ends:
        case [last]:
            return 0, last, 1
        case [first, last]:
            return first, last, 1
        case [first, last, step] if type(step) is Value or (
            type(step) is int and step != 0
        ):
            return first, last, step
        case _:
            raise NotPrintedError


def _turns(
    builder: Builder, start: LlvmValue, end: LlvmValue, step: LlvmValue
) -> LlvmValue:
    """The number of turns of a range; below 1 if there are none."""
    way = builder.or_(builder.ashr(step, WORD(63)), WORD(1))
    span = builder.sub(builder.add(builder.sub(end, start), step), way)
    return _divided(builder, span, step)[0]


def _divided(
    builder: Builder, a: LlvmValue, b: LlvmValue
) -> tuple[LlvmValue, LlvmValue]:
    """
    The quotient of two words, rounded down, and the remainder; both are 0 where the
    divisor is.
    """
    zero, one = WORD(0), WORD(1)
    if isinstance(b, ir.Constant) and b.constant not in (0, -1):
        divisor, is_zero = b, None
    else:
        is_zero = builder.icmp_signed("==", b, zero)
        is_least = builder.icmp_signed("==", a, WORD(-MOST))
        too_large = builder.and_(is_least, builder.icmp_signed("==", b, WORD(-1)))
        divisor = builder.select(builder.or_(is_zero, too_large), one, b)
    quotient, rest = builder.sdiv(a, divisor), builder.srem(a, divisor)
    differ = builder.icmp_signed("<", builder.xor(rest, divisor), zero)
    adjusts = builder.and_(builder.icmp_signed("!=", rest, zero), differ)
    quotient = builder.sub(quotient, builder.zext(adjusts, WORD))
    rest = builder.add(rest, builder.select(adjusts, divisor, zero))
    if is_zero is None:
        return quotient, rest
    quotient = builder.select(is_zero, zero, quotient)
    return quotient, builder.select(is_zero, zero, rest)


def _merged(builder: Builder, found: Sequence[tuple[LlvmValue, ir.Block]]) -> LlvmValue:
    """The value of the block that control came from."""
    made = builder.phi(found[0][0].type)
    for value, block in found:
        made.add_incoming(value, block)
    return made


def _is_reached(block: ir.Block) -> bool:
    """Whether a block of a function is the target of a branch."""
    ends = (each.terminator for each in block.function.blocks)
    return any(end is not None and block in end.operands for end in ends)


def _may_fail(node: ast.expr) -> bool:
    """Whether an expression does more than compute with words that are there."""
    inner = (ast.Subscript, ast.Call, ast.IfExp)
    return any(isinstance(each, inner) for each in ast.walk(node))


def _llvm_type(kind: Type) -> Any:
    if isinstance(kind, types.Float):
        return ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType()
    return ir.IntType(kind.bitwidth)
