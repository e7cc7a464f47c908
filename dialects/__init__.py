"""The dialects of Penstock, by name. Importing this module imports none of them."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from xdsl.ir import Dialect

DIALECTS = ("job", "kernel", "launch", "op", "plan", "regst")
"""`job` is the object `Job` of the module `job`."""


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """Map each dialect's name to a function that imports and returns it."""
    return {name: partial(dialect_of, name) for name in DIALECTS}


def dialect_of(name: str) -> Dialect:
    """The dialect of a name, from the module of this name."""
    return getattr(import_module(f"penstock.dialects.{name}"), name.title())
