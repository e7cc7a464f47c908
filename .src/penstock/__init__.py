"""Penstock: neural-network jobs compiled to static plans and run by actors."""

# What type checkers take for `typing.TYPE_CHECKING`, without importing `typing`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from penstock.runtime.errors import PenstockError
    from penstock.tools import exceptions as errors
    from penstock.tools.frontend import control, ops
    from penstock.tools.frontend.calls import op
    from penstock.tools.frontend.jobs import job
    from penstock.tools.frontend.session import Session
    from penstock.tools.frontend.tensor import Tensor
    from penstock.tools.frontend.trace import assign, variable
    from penstock.tools.onnx_session import OnnxSession
    from penstock.tools.workspace import Workspace

__all__ = [
    "OnnxSession",
    "PenstockError",
    "Session",
    "Tensor",
    "Workspace",
    "assign",
    "control",
    "errors",
    "job",
    "op",
    "ops",
    "variable",
]

# The commands start faster without what is for functions in Python.
_HOMES = {
    "OnnxSession": "penstock.tools.onnx_session",
    "PenstockError": "penstock.runtime.errors",
    "Session": "penstock.tools.frontend.session",
    "Tensor": "penstock.tools.frontend.tensor",
    "Workspace": "penstock.tools.workspace",
    "assign": "penstock.tools.frontend.trace",
    "job": "penstock.tools.frontend.jobs",
    "op": "penstock.tools.frontend.calls",
    "variable": "penstock.tools.frontend.trace",
}
_MODULES = {
    "control": "penstock.tools.frontend.control",
    "errors": "penstock.tools.exceptions",
    "ops": "penstock.tools.frontend.ops",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
