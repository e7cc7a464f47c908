"""
A memory of the signatures that Numba has found for its built-in functions.

For each call, such as an addition, Numba tries the templates of the function one after
the other, with literal types and without, before and again while it lowers: a third of
the time of its front end. The answer depends on the function and the types alone.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from numba.core.errors import TypingError
from numba.core.types import Function

_get_call_type: Any = Function.get_call_type

_known: WeakKeyDictionary[Any, dict[object, Any]] = WeakKeyDictionary()
"""
The signature of each function for a typing context and types, or the message that says
why there is none. A function with new templates is another object.
"""


def forget_all() -> None:
    """Let Numba look for signatures anew."""
    _known.clear()


@contextmanager
def known_signatures() -> Generator[None]:
    """
    Let Numba remember signatures. Only one thread at a time may compile, which Numba's
    lock sees to.
    """
    before: Any = Function.get_call_type
    setattr(Function, "get_call_type", _remembered)  # noqa: B010
    try:
        yield
    finally:
        setattr(Function, "get_call_type", before)  # noqa: B010


def _remembered(function: Any, context: Any, args: Any, kws: Any) -> Any:
    if kws:
        return _get_call_type(function, context, args, kws)
    known, key = _known.setdefault(function, {}), (context, args)
    if key not in known:
        try:
            known[key] = _get_call_type(function, context, args, kws)
        except TypingError as error:
            known[key] = str(error)
            raise
    if isinstance(found := known[key], str):
        raise TypingError(found)
    return found
