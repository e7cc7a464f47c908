"""The programs of several ranks as one, to be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region

from penstock.dialects.launch import ProgramOp, ViewAttr
from penstock.dialects.launch.control_flow import PlaceAttr
from penstock.lowering.algorithms.unique_names import UniqueNames


class JoinedRanks(NamedTuple):
    """
    A program with the ops of those of all ranks. A name that several of them have is
    another one in it for each: `names` has these by program, and then by name.
    """

    program: ProgramOp
    names: Mapping[str, Mapping[str, str]]


def join_ranks(programs: Sequence[ProgramOp]) -> JoinedRanks:
    """The programs of several ranks as one, which is a copy unless there is one."""
    if len(programs) == 1:
        return JoinedRanks(programs[0], {programs[0].sym_name.data: {}})
    tables = [[*program.symbol_table()] for program in programs]
    counts = Counter(name for table in tables for name in table)
    unique = UniqueNames(counts)
    names: dict[str, dict[str, str]] = {}
    ops: list[Operation] = []
    for program, table in zip(programs, tables, strict=True):
        rank = program.rank.value.data
        own = {x: unique.make(f"{x} of rank {rank}") for x in table if counts[x] > 1}
        names[program.sym_name.data] = own
        ops += _renamed(program, own)
    first = programs[0]
    region = Region(Block(ops))
    made = ProgramOp(_name_of(programs), first.rank.value.data, region, first.exclusive)
    return JoinedRanks(made, names)


def _name_of(programs: Sequence[ProgramOp]) -> str:
    """The name of the plan that ranks have the parts of, or else all names."""
    ranks = [(each.sym_name.data, each.rank.value.data) for each in programs]
    plans = {name.removesuffix(f"_{rank}") for name, rank in ranks}
    return plans.pop() if len(plans) == 1 else ", ".join(name for name, _ in ranks)


def _renamed(program: ProgramOp, names: Mapping[str, str]) -> Iterator[Operation]:
    """Copies of the ops of a program, with other names for some symbols."""
    for op in program.body.block.ops:
        copy = op.clone()
        for inner in copy.walk():
            for table in (inner.properties, inner.attributes):
                for key, value in table.items():
                    table[key] = _renamed_in(key, value, names)
        yield copy


def _renamed_in(key: str, value: Attribute, names: Mapping[str, str]) -> Attribute:
    match value:
        case StringAttr() if key == "sym_name":
            return StringAttr(names.get(value.data, value.data))
        case SymbolRefAttr():
            name = value.string_value()
            return SymbolRefAttr(names.get(name, name))
        case ArrayAttr():
            return ArrayAttr([_renamed_in(key, each, names) for each in value])
        case ViewAttr() | PlaceAttr():
            return type(value).new(
                [_renamed_in(key, x, names) for x in value.parameters]
            )
        case DictionaryAttr() if key == "every":
            return DictionaryAttr({names.get(x, x): n for x, n in value.data.items()})
        case _:
            return value
