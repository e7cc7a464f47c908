"""
The forms of ops that definitions have found right, each of which is checked once.

A definition of xDSL says which types, attributes and regions an op has. Ops that are
alike in all of these are right or wrong together. Most ops of a module are of few
forms, and keep theirs while passes change what is around them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter

from xdsl.ir import Operation
from xdsl.irdl import OpDef
from xdsl.traits import IsolatedFromAbove, OpTrait

# An op is verified in less time than views of these would take.
_parts_of = attrgetter("_operands", "results", "_successors", "regions")
_type_of = attrgetter("_type")


class KnownForms:
    """The forms of ops that definitions have found right."""

    def __init__(self) -> None:
        self._right: dict[tuple[object, ...], list[object]] = {}
        """The parts of each form, by the identities of which it is known."""
        self._traits: dict[int, list[OpTrait]] = {}
        """The traits that check an op, by the identity of the definition."""

    @contextmanager
    def asked_first(self) -> Generator[None]:
        """
        A context in which definitions check no op of a known form, and leave it to the
        dominance check which values an isolated op uses.
        """
        before = _asked.set(self)
        try:
            yield
        finally:
            _asked.reset(before)

    def verify(self, definition: OpDef, op: Operation) -> None:
        """Raise `VerifyException` for an op that is not as its definition says."""
        parts = _form_of(definition, op)
        key = (*map(id, parts),)
        if key not in self._right:
            verify_by_definition(definition, op)
            self._right[key] = parts
            return
        for trait in self._checking(definition):
            trait.verify(op)

    def _checking(self, definition: OpDef) -> list[OpTrait]:
        if (found := self._traits.get(id(definition))) is None:
            found = self._traits[id(definition)] = [
                trait
                for trait in definition.traits
                if type(trait).verify is not OpTrait.verify
                and not isinstance(trait, IsolatedFromAbove)
            ]
        return found


_asked: ContextVar[KnownForms | None] = ContextVar("known forms", default=None)
"""The forms that are asked first: each thread has its own, as several may compile."""
verify_by_definition = OpDef.verify


def _verify(self: OpDef, op: Operation) -> None:
    if (forms := _asked.get()) is None:
        verify_by_definition(self, op)
    else:
        forms.verify(self, op)


OpDef.verify = _verify


def _form_of(definition: OpDef, op: Operation) -> list[object]:
    """All that a definition asks of an op, besides its traits, and the definition."""
    operands, results, successors, regions = _parts_of(op)
    form: list[object] = [
        definition,
        len(successors),
        *map(_type_of, operands),
        None,
        *map(_type_of, results),
        None,
        *op.properties,
        *op.properties.values(),
    ]
    for name in definition.attributes:
        form += (name, op.attributes.get(name))
    for region in regions:
        first = region.first_block
        form.append(len(region.blocks))
        if first is not None:
            form += map(_type_of, first.args)
    return form
