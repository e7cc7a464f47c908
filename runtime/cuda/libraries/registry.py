"""
Libraries that compute stages of kernels, if they are there when a program is loaded.

The source of a kernel says by `LIBRARY_CALLS`, its last statement, which stages a
library computes: a list of tuples of the stage's name, the library's, the numbers of
the arguments (two factors and the result), and the problem, a `Product` or a
`Convolution` by its fields. Each library has a module of its own that makes a
`Library`; others may be registered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.runtime.cuda.driver import Function, Launch
from penstock.runtime.cuda.libraries.problems import (
    Convolution,
    Library,
    LibraryError,
    Product,
    Sum,
)

CALLS = "\nLIBRARY_CALLS = "
STAGE = re.compile(r"stage_(\d+)")
KINDS: dict[str, type[Sum]] = {kind.__name__: kind for kind in (Product, Convolution)}

OPENERS: dict[str, Callable[[], Library]] = {}
"""The makers of libraries, by name. They raise LibraryError if there is none."""
_opened: dict[str, Library] = {}


def register_library(name: str, opener: Callable[[], Library]) -> None:
    """Add a library, in place of any other of its name."""
    OPENERS[name] = opener
    _opened.pop(name, None)


def library(name: str) -> Library:
    """A library. Raises LibraryError if it is not there."""
    if name not in _opened:
        if (opener := OPENERS.get(name)) is None:
            known = ", ".join(sorted(OPENERS))
            raise LibraryError(f"there is no library '{name}', known are: {known}")
        _opened[name] = opener()
    return _opened[name]


def missing(name: str) -> str | None:
    """Why a library cannot be used, if so."""
    try:
        library(name)
    except LibraryError as error:
        return str(error)
    return None


def forget(device: int) -> None:
    """Let libraries let go of a device whose context is no more."""
    for opened in _opened.values():
        opened.forget(device)


def _open_cublas() -> Library:
    from penstock.runtime.cuda.libraries.cublas import open_cublas

    return open_cublas()


def _open_cudnn() -> Library:
    from penstock.runtime.cuda.libraries.cudnn import open_cudnn

    return open_cudnn()


register_library("cublas", _open_cublas)
register_library("cudnn", _open_cudnn)


# Calls


@dataclass(frozen=True)
class LibraryCall:
    """A stage that a library computes."""

    stage: str
    library: str
    arguments: tuple[int, int, int]
    """The numbers of the factors and of the result among the kernel's arguments."""
    wanted: Sum


@dataclass(frozen=True)
class Bound:
    """The stage on a device: the handle of its function."""

    call: LibraryCall
    library: Library
    device: int

    def bind(self, words: Sequence[int]) -> Launch:
        """
        A launch with the addresses of all arguments of the kernel, its status and, if
        there is some, of memory that only the library uses.
        """
        own = [words[number] for number in self.call.arguments]
        if self.room:
            own.append(words[-1])
        return self.library.bind(self.call.wanted, own, self.device)

    @property
    def room(self) -> int:
        """The bytes that only the library uses."""
        return self.library.room(self.call.wanted, self.device)


def calls_of(source: str) -> list[LibraryCall]:
    """The stages of a kernel that libraries compute."""
    text = source.partition(CALLS)[2]
    found: list[LibraryCall] = []
    for stage, name, arguments, kind, facts in ast.literal_eval(text) if text else ():
        wanted = KINDS[kind](**facts)
        found.append(LibraryCall(stage, name, tuple(arguments), wanted))
    return found


def with_calls(
    kernel: str, source: str, functions: Sequence[Function], device: int
) -> tuple[Function, ...]:
    """
    The functions of a kernel and, between them, the calls of libraries, ready for the
    device in use. Raises LibraryError if a library is not there.
    """
    found = [*functions]
    for call in calls_of(source):
        try:
            bound = _ready(call, device)
            room = bound.room
        except LibraryError as error:
            raise LibraryError(
                f"kernel @{kernel} was selected to be computed by '{call.library}', "
                f"which cannot be used: {error}; select its kernels anew"
            ) from error
        made = Function(
            call.stage,
            bound,
            items=1,
            threads=1,
            blockwise=True,
            is_fallback=False,
            resident=1,
            is_capturable=bound.library.is_capturable,
            room=room,
        )
        after = [x for x, other in enumerate(found) if _number(other) > _number(made)]
        found.insert(after[0] if after else len(found), made)
    return tuple(found)


def _ready(call: LibraryCall, device: int) -> Bound:
    """A call whose library is open."""
    opened = library(call.library)
    if not isinstance(call.wanted, opened.kinds):
        kind = type(call.wanted).__name__.lower()
        raise LibraryError(f"it does not compute a {kind}")
    opened.open(device)
    return Bound(call, opened, device)


def _number(function: Function) -> int:
    """The place of a stage among those of its kernel."""
    numbers = STAGE.findall(function.name)
    assert numbers, "stages are called stage_<n>"
    return int(numbers[-1])
