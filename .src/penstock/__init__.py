"""Penstock: neural-network jobs compiled to static plans and run by actors."""

import os
import sys

# What type checkers take for `typing.TYPE_CHECKING`, without importing `typing`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from penstock.runtime.errors import PenstockError
    from penstock.tools import data as data
    from penstock.tools import exceptions as errors
    from penstock.tools.frontend.onnx.function import OnnxFunction
    from penstock.tools.frontend.onnx.session import OnnxSession
    from penstock.tools.frontend.python import ops
    from penstock.tools.frontend.python import optimizers as optim
    from penstock.tools.frontend.python import schedules as control
    from penstock.tools.frontend.python.calls import op
    from penstock.tools.frontend.python.gradients import grad, value_and_grad
    from penstock.tools.frontend.python.jobs import job
    from penstock.tools.frontend.python.session import Session
    from penstock.tools.frontend.python.tensor import Tensor
    from penstock.tools.frontend.python.trace import assign, variable
    from penstock.tools.frontend.python.workspace import Workspace
    from penstock.tools.reports.notebook import memory_map
    from penstock.tools.session.checkpoint import Checkpoints
    from penstock.tools.session.model_files import read_state, write_state
    from penstock.tools.session.state_dict import from_state_dict, to_state_dict

    __version__: str

__all__ = [
    "Checkpoints",
    "OnnxFunction",
    "OnnxSession",
    "PenstockError",
    "Session",
    "Tensor",
    "Workspace",
    "assign",
    "control",
    "data",
    "errors",
    "from_state_dict",
    "grad",
    "job",
    "memory_map",
    "op",
    "ops",
    "optim",
    "read_state",
    "to_state_dict",
    "value_and_grad",
    "variable",
    "write_state",
]

# The commands start faster without what is for functions in Python.
_HOMES = {
    "Checkpoints": "penstock.tools.session.checkpoint",
    "OnnxFunction": "penstock.tools.frontend.onnx.function",
    "OnnxSession": "penstock.tools.frontend.onnx.session",
    "PenstockError": "penstock.runtime.errors",
    "Session": "penstock.tools.frontend.python.session",
    "Tensor": "penstock.tools.frontend.python.tensor",
    "Workspace": "penstock.tools.frontend.python.workspace",
    "assign": "penstock.tools.frontend.python.trace",
    "from_state_dict": "penstock.tools.session.state_dict",
    "grad": "penstock.tools.frontend.python.gradients",
    "job": "penstock.tools.frontend.python.jobs",
    "memory_map": "penstock.tools.reports.notebook",
    "op": "penstock.tools.frontend.python.calls",
    "read_state": "penstock.tools.session.model_files",
    "to_state_dict": "penstock.tools.session.state_dict",
    "value_and_grad": "penstock.tools.frontend.python.gradients",
    "variable": "penstock.tools.frontend.python.trace",
    "write_state": "penstock.tools.session.model_files",
}
_MODULES = {
    "control": "penstock.tools.frontend.python.schedules",
    "data": "penstock.tools.data",
    "errors": "penstock.tools.exceptions",
    "ops": "penstock.tools.frontend.python.ops",
    "optim": "penstock.tools.frontend.python.optimizers",
}


class _MovedModules:
    """Finds what is at no place by the names of 0.1, as the last of all finders."""

    @staticmethod
    def find_spec(
        name: str, path: object = None, target: object = None
    ) -> "ModuleSpec | None":
        """The module at its new place; None for names that are not old ones."""
        if not name.startswith("penstock."):
            return None
        from penstock.moved import spec_of

        return spec_of(name)


sys.meta_path.append(_MovedModules)

if "PENSTOCK_VECTOR_BYTES" in os.environ:
    from penstock.cpu_target import limit_numba

    limit_numba()


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name == "__version__":
        from importlib.metadata import version

        return version("penstock")
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
