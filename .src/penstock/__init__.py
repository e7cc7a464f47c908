"""Penstock: neural-network jobs compiled to static plans and run by actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.runtime.errors import PenstockError
    from penstock.tools.frontend import ops
    from penstock.tools.frontend.calls import op
    from penstock.tools.frontend.jobs import job
    from penstock.tools.frontend.session import Session
    from penstock.tools.frontend.tensor import Tensor
    from penstock.tools.frontend.trace import variable

__all__ = ["PenstockError", "Session", "Tensor", "job", "op", "ops", "variable"]

# The commands start faster without what is for functions in Python.
_HOMES = {
    "PenstockError": "penstock.runtime.errors",
    "Session": "penstock.tools.frontend.session",
    "Tensor": "penstock.tools.frontend.tensor",
    "job": "penstock.tools.frontend.jobs",
    "op": "penstock.tools.frontend.calls",
    "variable": "penstock.tools.frontend.trace",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "ops":
        return import_module("penstock.tools.frontend.ops")
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
