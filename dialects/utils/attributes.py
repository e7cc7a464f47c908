"""
Discardable attributes: those of an op that are no part of its definition.

An attribute without a dialect's prefix is ours, and its name has to be declared at its
op; one with a prefix, such as `acme.note`, may be anything, as in MLIR. It stays where
an op is replaced: `replace_op` and `carry` give it to the ops that take its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import Rewriter
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import PatternRewriter

OF_VALUES = ("max_shape", "operand_sbp", "placement", "sbp", "slots")
"""Where an op of a job runs, and how its values lie, in parts and in slots."""

OF_JOBS = ("sections", "system")
"""The sections that a job holds while it runs, and whether the input names them."""

OF_PLANS = (
    *OF_JOBS,
    "events",
    "given_up",
    "interval_ns",
    "jobs",
    "live_bytes",
    "makespan_ns",
    "no_events",
    "no_interval",
    "order_ns",
    "unguarded",
    "waves",
)
"""
The reports of passes on a plan, and, where it is merged, on the plans of its `jobs`.
"""


@dataclass(frozen=True, init=False)
class KnownAttributes(OpTrait):
    """
    An op has no discardable attributes but these, those that the same trait of its base
    classes names, and those with a dialect's prefix.
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)

    def verify(self, op: Operation) -> None:
        """Raise a `VerifyException` for an attribute that is declared nowhere."""
        if op.attributes:
            verify_known(op, known_attributes(op))


def verify_known(op: Operation, known: Collection[str]) -> None:
    """Raise a `VerifyException` for an attribute without a prefix but for these."""
    for name in op.attributes:
        if "." in name or name in known:
            continue
        properties = properties_of(op)
        if name in properties:
            raise VerifyException(_misplaced(op, name))
        hint = _nearest(name, [*known, *properties])
        raise VerifyException(
            f"unknown attribute '{name}'{hint} (what is not ours has a "
            f"dialect's prefix, such as 'acme.{name}')"
        )


def properties_of(op: Operation) -> set[str]:
    """The names of the properties that an op has, or may have by its definition."""
    if not isinstance(op, IRDLOperation):
        return {*op.properties}
    return {*op.properties, *op.get_irdl_definition().properties}


def _misplaced(op: Operation, name: str) -> str:
    """That a property is given as an attribute, and how it is written."""
    what = f"'{name}' is a property of the op, no attribute"
    line = _with_property(op, name)
    if line is None:
        return f"{what}: it is written outside of the braces of attributes"
    return f"{what}: write {line}"


def _with_property(op: Operation, name: str) -> str | None:
    """
    The text of an op, in its first line, with an attribute as the property of its name;
    None where that makes no op that is right.
    """
    meant = op.clone()
    try:
        meant.properties[name] = meant.attributes.pop(name)
        meant.verify(verify_nested_ops=False)
        return str(meant).partition("\n")[0]
    except VerifyException:
        return None
    finally:
        meant.drop_all_references()


def known_attributes(op: Operation) -> set[str]:
    """The names without a prefix that are declared at an op and its base classes."""
    traits = (trait for trait in op.traits if isinstance(trait, KnownAttributes))
    return {name for trait in traits for name in trait.names}


def own_attributes(op: Operation) -> dict[str, Attribute]:
    """The discardable attributes of an op that are ours: those without a prefix."""
    return {name: attr for name, attr in op.attributes.items() if "." not in name}


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), n=1)
    return f", did you mean '{close[0]}'?" if close else ""


def replace_op(
    op: Operation,
    made: Operation | Sequence[Operation],
    values: Sequence[SSAValue | None] | None = None,
    *,
    rewriter: PatternRewriter | None = None,
) -> None:
    """
    Replace an op by others, in a pass or, with its `rewriter`, in a pattern.

    `values` stand for its results, by default those of the last op that is made; their
    makers have its attributes with a dialect's prefix. An op that has no results, or
    none that something stands for, leaves them to all ops that are made.
    """
    ops = (made,) if isinstance(made, Operation) else tuple(made)
    found = values if values is not None else ops[-1].results if ops else ()
    owners = [value.owner for value in found if value is not None]
    makers = [owner for owner in owners if isinstance(owner, Operation)]
    for maker in makers or ops:
        carry(op, maker)
    replace = Rewriter.replace_op if rewriter is None else rewriter.replace
    replace(op, ops, values)


def replace_by_value(op: Operation, value: SSAValue, rewriter: PatternRewriter) -> None:
    """Replace an op by a value that is there, whose maker stands for it from now on."""
    replace_op(op, (), [value], rewriter=rewriter)


def carry(source: Operation, target: Operation) -> None:
    """
    Let an op that takes the place of another one have its attributes with a dialect's
    prefix. Attributes of `target` of the same name stay.
    """
    for name, attribute in source.attributes.items():
        if "." in name:
            target.attributes.setdefault(name, attribute)


def ask_for_slots(source: Operation, *targets: Operation) -> None:
    """
    Let ops that make the results of another one in its place ask for as many slots.
    """
    if (slots := source.attributes.get("slots")) is not None:
        for target in targets:
            target.attributes["slots"] = slots


def carry_with_body(source: Operation, target: Operation) -> None:
    """
    Let an op that takes the place of a group have the attributes with a dialect's
    prefix of the group and of its members, the last one's first.
    """
    carry(source, target)
    for member in source.walk(reverse=True):
        carry(member, target)
