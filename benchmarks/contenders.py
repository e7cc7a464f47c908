"""
The contenders of the workloads: Penstock and its peers, each by its usual interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

from benchmarks.harness import Opener, Run
from benchmarks.jax_runs import model_run
from benchmarks.sessions import imported_model, penstock_run, runtime_run
from benchmarks.workloads import WORKLOADS
from penstock.runtime.loading.initializers import Array


def open_penstock(name: str, threads: int) -> Run:
    """A session on a workload."""
    workload = WORKLOADS[name]()
    return penstock_run(imported_model(workload.model), workload.inputs, threads)


def open_onnxruntime(name: str, threads: int) -> Run:
    """A session of ONNX Runtime on a workload."""
    workload = WORKLOADS[name]()
    return runtime_run(workload.model, workload.inputs, threads)


def open_torch(name: str, threads: int) -> Run:
    """The same network in PyTorch, operation by operation (eager)."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    workload = WORKLOADS[name]()
    weights = {key: torch.tensor(value) for key, value in workload.weights.items()}
    (x,) = (torch.tensor(value) for value in workload.inputs.values())
    forward = workload.forward

    def run() -> list[Array]:
        with torch.inference_mode():
            return [forward(weights, x).numpy()]

    return run


def open_jax(name: str, threads: int) -> Run:
    """The same nodes as one function that JAX compiles."""
    workload = WORKLOADS[name]()
    return model_run(workload.model, workload.inputs, threads)


CONTENDERS: Mapping[str, Callable[[str, int], Run]] = {
    "Penstock": open_penstock,
    "ONNX Runtime": open_onnxruntime,
    "PyTorch eager": open_torch,
    "JAX": open_jax,
}
"""All contenders, ours first."""


def openers(workload: str, threads: int) -> dict[str, Opener]:
    """The opener of each contender on a workload."""
    return {
        name: partial(opener, workload, threads) for name, opener in CONTENDERS.items()
    }
