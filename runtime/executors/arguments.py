"""The arrays that a caller gives for the ports of a program, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.arrays import Array, address_of
from penstock.runtime.loading.loader import Port, fitting
from penstock.runtime.options import check_named

VERBS = {"inputs": "takes", "outputs": "gives"}
"""The verb of a program for a kind of ports."""


def check_inputs(
    ports: Mapping[str, Port], given: Mapping[str, Array]
) -> dict[str, Array]:
    """
    The arrays of one piece, contiguous. Raises PenstockError unless there is one of
    the right shape and dtype for each port, and no other array.
    """
    check_named(given)
    fed: dict[str, Array] = {}
    for name, port in ports.items():
        if name not in given:
            refuse_names(ports, given)
        if not port.takes(array := given[name]):
            array = fitting(f"input '{name}'", array, port.shape, port.dtype)
        fed[name] = array
    if len(given) != len(fed):
        refuse_names(ports, given)
    return fed


def refuse_names(
    ports: Mapping[str, object], given: Mapping[str, Array], kind: str = "inputs"
) -> NoReturn:
    """Raise PenstockError for arrays that have no port or ports that have no array."""
    if missing := sorted(set(ports) - set(given)):
        raise PenstockError(f"no arrays are given for {kind} {', '.join(missing)}")
    extra = ", ".join(sorted(set(given) - set(ports)))
    known, verb = ", ".join(sorted(ports)) or "none", VERBS[kind]
    raise PenstockError(f"there are no {kind} {extra}, the program {verb} {known}")


def arrays_to_bind(
    ports: Mapping[str, Port], given: Mapping[str, Array], kind: str = "inputs"
) -> list[Array]:
    """
    The arrays of ports, in the order of these, which are read or written where they
    are. Raises PenstockError unless each is contiguous and has the shape and the dtype
    of its port, and for outputs that cannot be written.
    """
    check_named(given)
    if given.keys() != ports.keys():
        refuse_names(ports, given, kind)
    for name, port in ports.items():
        what, array = f"{kind[:-1]} '{name}'", given[name]
        if not port.takes(array):
            fitting(what, array, port.shape, port.dtype)
            raise PenstockError(
                f"{what} would be copied: bind an array of NumPy that is contiguous"
            )
        if kind == "outputs" and not array.flags.writeable:
            raise PenstockError(f"{what} is an array that cannot be written")
    return [given[name] for name in ports]


def check_apart(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Raise PenstockError for an output that has bytes of another array."""
    spans = [(address_of(x), address_of(x) + x.nbytes) for x in (*inputs, *outputs)]
    first = len(inputs)
    for number, (start, end) in enumerate(spans):
        for begin, last in spans[max(first, number + 1) :]:
            if start < last and begin < end:
                raise PenstockError(
                    "an output is bound to bytes of another array, which would change "
                    "in a run"
                )
