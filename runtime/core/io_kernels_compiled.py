"""
The kernels where data enters and leaves a program, see
`penstock.runtime.core.io_kernels`.
"""

from __future__ import annotations

from penstock.runtime.core.atomics import compiled, copy_bytes, load_word, store_word


@compiled()
def _advance(table: int) -> int:
    """The pointer at a table's cursor, which moves on."""
    cursor = load_word(table)
    store_word(table, cursor + 1)
    return load_word(table + 16 + 8 * cursor)


def feed(args: int, part: int, parts: int) -> int:
    """Copy from the pointer at a table's cursor to a slot, if that lies elsewhere."""
    table = load_word(args)
    pointer, slot = _advance(table), load_word(args + 8)
    if slot != pointer:
        copy_bytes(slot, pointer, load_word(table + 8))
    return 0


def fetch(args: int, part: int, parts: int) -> int:
    """Copy from a slot to the pointer at a table's cursor, if that is elsewhere."""
    table = load_word(args)
    pointer, slot = _advance(table), load_word(args + 8)
    if slot != pointer:
        copy_bytes(pointer, slot, load_word(table + 8))
    return 0


def copy(args: int, part: int, parts: int) -> int:
    """Copy from a place to another."""
    copy_bytes(load_word(args + 16), load_word(args + 8), load_word(load_word(args)))
    return 0
