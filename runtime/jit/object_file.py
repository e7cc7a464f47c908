"""
Machine code that is kept in the cache folder, loaded by LLVM alone.

Numba is needed to compile, not to load: a process that finds all of its code here never
imports it, and starts in a fraction of the time. An entry of the cache is one file, of
a line of JSON and an object file:

    {"symbol": ..., "parts": ..., "externals": [...]}

One that is damaged, or that needs functions which this process does not have, counts as
missing.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from llvmlite import binding

from penstock.runtime.jit.cache_files import keep, read_kept


class ObjectCode(NamedTuple):
    """
    An object file that defines the C function `symbol`; `externals` are functions that
    it calls by name, `parts` says into how many parts its work is usefully cut.
    """

    symbol: str
    parts: int
    externals: Sequence[str]
    code: bytes


def write_object(path: Path, entry: ObjectCode) -> None:
    """Keep machine code in a file, if that can be written."""
    head = {key: value for key, value in entry._asdict().items() if key != "code"}
    keep(path, json.dumps(head).encode() + b"\n" + entry.code)


def read_object(path: Path) -> ObjectCode | None:
    """The machine code in a file, if there is one and it is intact."""
    if (data := read_kept(path)) is None:
        return None
    head, _, code = data.partition(b"\n")
    return ObjectCode(**json.loads(head), code=code)


def load_object(entry: ObjectCode) -> int | None:
    """
    The address of the function that an object file defines, good until this process
    ends; None if there are no such functions as it calls. The same symbol is loaded
    once per process.
    """
    # Functions of this process are known once there is an engine.
    engine = _engine()
    if any(binding.address_of_symbol(name) is None for name in entry.externals):
        return None
    if not (address := _addresses.get(entry.symbol)):
        engine.add_object_file(binding.ObjectFileRef.from_data(entry.code))
        engine.finalize_object()
        address = cast("int", engine.get_function_address(entry.symbol))
        _addresses[entry.symbol] = address
    return address


_addresses: dict[str, int] = {}


@cache
def _engine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
