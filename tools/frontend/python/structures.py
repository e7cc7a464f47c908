"""
The structure of a function's results: tensors in lists, tuples and dictionaries, which
are kept.

Each tensor gets a name that says where it is: `out`, `out.0`, `out.loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.guards import is_mapping, is_sequence

Rebuild: TypeAlias = Callable[[Mapping[str, Any]], object]
"""Makes the structure anew of arrays or tensors by name."""


def flattened(value: object, name: str, leaves: dict[str, object]) -> Rebuild:
    """
    Add all that is no list, tuple, dictionary or None to `leaves`, by name, and return
    what makes the same structure of arrays or tensors of these names. Raises TraceError
    for dictionaries whose keys are no strings.
    """
    if value is None:
        return lambda arrays: None
    if is_mapping(value):
        return _flattened_dict(value, name, leaves)
    if is_sequence(value):
        return _flattened_sequence(value, name, leaves)
    leaves[name] = value
    return lambda arrays: arrays[name]


def _flattened_dict(
    value: Mapping[object, object], name: str, leaves: dict[str, object]
) -> Rebuild:
    parts: dict[str, Rebuild] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise TraceError(
                f"{name}: the keys of a dictionary are strings, got {key!r}"
            )
        parts[key] = flattened(item, f"{name}.{key}", leaves)
    return lambda arrays: {key: part(arrays) for key, part in parts.items()}


def _flattened_sequence(
    value: Sequence[object], name: str, leaves: dict[str, object]
) -> Rebuild:
    parts = [flattened(item, f"{name}.{i}", leaves) for i, item in enumerate(value)]
    kind: Any = type(value)
    make: Callable[[list[object]], object] = getattr(kind, "_make", kind)
    return lambda arrays: make([part(arrays) for part in parts])
