"""Signatures of built-in functions, which Numba is asked for once."""

from __future__ import annotations

from typing import Any

import pytest
from numba.core.errors import TypingError
from numba.core.types import Function

from penstock.runtime.jit import known_signatures
from penstock.runtime.jit.c_function import assembly_of


def polynomial(x: int, y: int) -> int:
    total = 0
    for i in range(x):
        total += i * y - (y >> 3)
    return total


def wrong(x: int, y: int) -> int:
    return x + "text"  # pyright: ignore


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The functions of which Numba has looked for signatures."""
    calls: list[object] = []
    find: Any = Function.get_call_type

    def counted(function: Any, *arguments: object) -> object:
        calls.append(function)
        return find(function, *arguments)

    monkeypatch.setattr(known_signatures, "_get_call_type", counted)
    return calls


def test_a_signature_is_looked_for_once(asked: list[object]) -> None:
    known_signatures.forget_all()
    first = assembly_of(polynomial, 2, 64)
    assert asked, "a process that knows none asks Numba"
    asked.clear()
    assert assembly_of(polynomial, 2, 64).count("\n") == first.count("\n")
    assert not asked


def test_types_that_do_not_fit_are_told_each_time() -> None:
    told: list[str] = []
    for _ in range(2):
        with pytest.raises(TypingError) as error:
            assembly_of(wrong, 2, 64)
        told.append(str(error.value))
    assert "unicode_type" in told[0]
    assert told[0].splitlines() == told[1].splitlines()


def test_numba_is_as_it_was_after_a_kernel() -> None:
    before = Function.get_call_type
    assembly_of(polynomial, 2, 64)
    with pytest.raises(TypingError):
        assembly_of(wrong, 2, 64)
    assert Function.get_call_type is before
