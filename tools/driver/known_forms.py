"""
The forms of ops that definitions have found right, each of which is checked once.

A definition of xDSL says which types, attributes and regions an op has. Ops that are
alike in all of these are right or wrong together. Most ops of a module are of few
forms, and keep theirs while passes change what is around them.

Names, offsets and their like, of which most ops have their own, are no part of a form:
as far as a definition asks nothing of them that depends on the rest, they are checked
beside it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import NamedTuple

from xdsl.ir import Attribute, Operation
from xdsl.irdl import AnyAttr, AttrConstraint, BaseAttr, OpDef
from xdsl.traits import IsolatedFromAbove, OpTrait

# An op is verified in less time than views of these would take.
_parts_of = attrgetter("_operands", "results", "_successors", "regions")
_type_of = attrgetter("_type")


ALONE = "checked alone"
"""The part of a form that an attribute is which is checked beside it."""


class Asked(NamedTuple):
    """The attributes and properties of a definition, by what it asks of them."""

    classes: frozenset[str]
    """Those of which it asks the class."""
    alone: Mapping[str, AttrConstraint]
    """Those of which it asks more, but nothing that depends on other ones."""
    traits: Sequence[OpTrait]
    """The traits that check an op."""


def _asked_by(definition: OpDef) -> Asked:
    given = {**definition.properties, **definition.attributes}
    constraints = {name: x.constr for name, x in given.items()}
    classes = {n for n, x in constraints.items() if type(x) in (AnyAttr, BaseAttr)}
    alone = {
        name: constraint
        for name, constraint in constraints.items()
        if name not in classes and not constraint.variables()
    }
    traits = [
        trait
        for trait in definition.traits
        if type(trait).verify is not OpTrait.verify
        and not isinstance(trait, IsolatedFromAbove)
    ]
    return Asked(frozenset(classes), alone, traits)


class KnownForms:
    """The forms of ops that definitions have found right."""

    def __init__(self) -> None:
        self._right: dict[tuple[object, ...], list[object]] = {}
        """The parts of each form, by the identities of which it is known."""
        self._asked: dict[int, Asked] = {}
        """The demands of definitions, by their identities."""
        self._fits: dict[tuple[int, int], Attribute] = {}
        """
        The attributes of which a constraint is right, by the identities of both.
        """

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
        if (asked := self._asked.get(id(definition))) is None:
            asked = self._asked[id(definition)] = _asked_by(definition)
        parts = _form_of(definition, op, asked)
        key = (*map(id, parts),)
        if key not in self._right:
            verify_by_definition(definition, op)
            self._right[key] = parts
            return
        if not self._fit(op, asked):
            verify_by_definition(definition, op)
        for trait in asked.traits:
            trait.verify(op)

    def _fit(self, op: Operation, asked: Asked) -> bool:
        """Whether the attributes of an op fit of which more than the class is asked."""
        for name, constraint in asked.alone.items():
            value = op.properties.get(name, op.attributes.get(name))
            if value is None:
                continue
            key = id(constraint), id(value)
            if key not in self._fits:
                if not constraint.verifies(value):
                    return False
                self._fits[key] = value
        return True


_asked: ContextVar[KnownForms | None] = ContextVar("known forms", default=None)
"""The forms that are asked first: each thread has its own, as several may compile."""
verify_by_definition = OpDef.verify


def _verify(self: OpDef, op: Operation) -> None:
    if (forms := _asked.get()) is None:
        verify_by_definition(self, op)
    else:
        forms.verify(self, op)


OpDef.verify = _verify


def _form_of(definition: OpDef, op: Operation, asked: Asked) -> list[object]:
    """
    All that a definition asks of an op, besides its traits and of attributes alone, and
    the definition.
    """
    operands, results, successors, regions = _parts_of(op)
    form: list[object] = [
        definition,
        len(successors),
        *map(_type_of, operands),
        None,
        *map(_type_of, results),
        None,
    ]
    for name, value in op.properties.items():
        form += (name, _part_of(name, value, asked))
    for name in definition.attributes:
        value = op.attributes.get(name)
        form += (name, None if value is None else _part_of(name, value, asked))
    for region in regions:
        first = region.first_block
        form.append(len(region.blocks))
        if first is not None:
            form += map(_type_of, first.args)
    return form


def _part_of(name: str, value: Attribute, asked: Asked) -> object:
    """The part of a form that an attribute is."""
    if name in asked.classes:
        return type(value)
    return ALONE if name in asked.alone else value
