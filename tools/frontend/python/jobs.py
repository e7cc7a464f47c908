"""
Jobs as decorated functions: the object that `@penstock.job` makes, and its traces.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Region

from penstock.dialects.job import InputOp, JobOp, OutputOp, PlacementAttr
from penstock.dialects.utils.diagnostics import Place
from penstock.dialects.utils.value_names import name_value
from penstock.notebook import Displayed
from penstock.tools.driver.compiler import installed_compiler, rare_collections
from penstock.tools.driver.pipeline_edits import Edit
from penstock.tools.driver.plugins import load_plugins
from penstock.tools.frontend.python.dtypes import DType, tensor_of
from penstock.tools.frontend.python.errors import TraceError, location_of
from penstock.tools.frontend.python.guards import Array, is_array, is_number, late
from penstock.tools.frontend.python.signature import Arguments, signature_of
from penstock.tools.frontend.python.structures import Rebuild, flattened
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, active_trace, tracing
from penstock.tools.session.lowered_text import text_at
from penstock.tools.session.model import Model
from penstock.tools.session.options import (
    DEFAULTS,
    CompileOptions,
    Keywords,
    PipelineKeywords,
    joined,
    with_keywords,
)

HOST = PlacementAttr("cpu", [(0, 0)])
OUTPUT = "out"
"""The name of what a job returns, and the start of the names of its parts."""


@dataclass(frozen=True)
class TracedJob(Displayed):
    """
    A job for arguments of certain shapes, as IR: `Job.trace` makes it.

    * `name`: the name of the job.
    * `module`: the module that holds the job; sessions work on copies.
    * `rebuild`: a function from outputs by name to the function's result.
    * `weights`: arrays by name, from which variables start.
    * `options`: the pipeline of the job, with its edits and files to load.
    """

    name: str
    module: ModuleOp
    """It holds the job; sessions work on copies."""
    rebuild: Rebuild
    """Makes what the function returns of the outputs by name."""
    weights: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """The arrays that variables start from. Written to `weights.npz` beside the text
    of the job, they complete it."""
    options: CompileOptions = DEFAULTS
    """The job's own pipeline, edits and files to load."""

    @property
    def ir(self) -> str:
        """The job as text."""
        return str(self.module)

    def model(self) -> Model:
        """A copy of the job and its weights, to compile."""
        return Model(self.module.clone(), self.weights, Path())

    def lower(
        self,
        device: str | None = None,
        threads: int = 1,
        level: str = "launch",
        **keywords: Unpack[PipelineKeywords],
    ) -> str:
        """
        The launch program of the job as text, for a kind of `device` and a number of
        `threads`; or the job at a `level` before that: `job`, `plan`, `memory`, or the
        `source` of its kernels. `keywords` are the options of sessions about pipelines.

        Raises `Rejected` if it cannot be compiled, UsageError for an unknown level.
        """
        asked: Keywords = {**keywords, "device": device, "threads": threads}
        options = joined(with_keywords(DEFAULTS, asked), self.options)
        return text_at(installed_compiler(options.load), self.model(), options, level)


class Job(Displayed):
    """
    A function on tensors that a session compiles at its first call, and runs.

    Called with arrays, it returns arrays, in the structure that the function returns.
    Called with tensors, in a function that is traced, it becomes a part of that one.
    `penstock.job` makes it of a `function`; `names` are those that annotations may use,
    and `options` has the pipeline, edits and files to load of this job alone.
    """

    def __init__(
        self,
        function: Callable[..., object],
        names: Mapping[str, object] | None = None,
        options: CompileOptions = DEFAULTS,
    ):
        self.function = function
        """The function as it was written; it runs on arrays, too."""
        self.options = options
        """The job's own pipeline, edits and files to load."""
        self.signature = signature_of(function, names or {})
        update_wrapper(self, function)
        self.name = function.__name__

    def __repr__(self) -> str:
        return f"<job {self.name}{inspect.signature(self.function)}>"

    def __call__(self, *args: object, **options: object) -> Any:
        """
        The result of a run for `args` and `options`, which are those of the function.

        The job runs in the current session, or else in that in which it was made.

        Raises ArgumentError for arguments that do not fit, TraceError or `Rejected` if
        it cannot be compiled for them, and PenstockError if it fails or its session is
        closed.
        """
        if active_trace() is not None and _has_tensors((*args, *options.values())):
            return self.function(*args, **options)
        return late("session").session_of(self).call(self, *args, **options)

    def submit(self, *args: object, **options: object) -> Future[Any]:
        """
        A future of the result of a run for `args` and `options`, which runs after what
        was submitted before.

        Errors of arguments are raised here, later ones by the future.
        """
        return late("session").session_of(self).submit(self, *args, **options)

    @property
    def place(self) -> Place:
        """The place where the function is written."""
        code = inspect.unwrap(self.function).__code__
        return Place(code.co_filename, code.co_firstlineno, 1)

    @cached_property
    def ir(self) -> str:
        """
        The job as text.

        Raises TraceError if its shapes differ from call to call: `trace` is given an
        example of such a call.
        """
        return self.trace().ir

    def trace(self, *args: object, **options: object) -> TracedJob:
        """
        The job for arguments of the shapes of `args` and `options`, which may be left
        out if all calls have the same.

        Raises TraceError if the function cannot be traced.
        """
        signature = self.signature
        if not args and not options and signature.parameters:
            if not signature.is_static:
                raise TraceError(
                    f"{self.name} takes different shapes: trace it with an example",
                    self.place,
                )
            args = tuple(signature.example())
        return self.traced_for(signature.bind(args, options))

    def traced_for(self, arguments: Arguments) -> TracedJob:
        """
        The job for `arguments` of certain shapes. Raises UsageError for a file that
        cannot be loaded.
        """
        if self.options.load:
            load_plugins(self.options.load)
        trace = Trace(self.name)

        def make(name: str, shape: tuple[int, ...], dtype: DType) -> Tensor:
            op = InputOp(name, tensor_of(shape, dtype))
            op.location = location_of(self.place)
            name_value(op.result, name)
            trace.block.add_op(op)
            return Tensor(op.result, trace)

        with rare_collections(), tracing(trace):
            inputs = self.signature.inputs(arguments.values, make)
            leaves: dict[str, object] = {}
            rebuild = flattened(self.function(*inputs), OUTPUT, leaves)
            self._add_outputs(trace, leaves)
            trace.finish()
        job = JobOp(self.name, HOST, Region(trace.block))
        job.location = location_of(self.place)
        module, options = ModuleOp([job]), self.options
        return TracedJob(self.name, module, rebuild, trace.weights, options)

    def _add_outputs(self, trace: Trace, leaves: Mapping[str, object]) -> None:
        for name, leaf in leaves.items():
            tensor = leaf
            if is_number(leaf) or is_array(leaf):
                tensor = trace.constant(np.asarray(leaf))
            if not isinstance(tensor, Tensor):
                got = type(leaf).__name__
                raise TraceError(
                    f"{self.name} returns a {got} as '{name}', expected tensors in "
                    "lists, tuples and dictionaries",
                    self.place,
                )
            op = OutputOp(name, trace.value_of(tensor))
            op.location = location_of(self.place)
            trace.block.add_op(op)


def _has_tensors(values: Sequence[object]) -> bool:
    leaves: dict[str, object] = {}
    flattened(list(values), "", leaves)
    return any(isinstance(leaf, Tensor) for leaf in leaves.values())


@overload
def job(function: Callable[..., object], /) -> Job: ...
@overload
def job(
    *,
    pipeline: str | None = None,
    edits: Sequence[str | Edit] = (),
    load: Sequence[str | Path] = (),
) -> Callable[[Callable[..., object]], Job]: ...
def job(
    function: Callable[..., object] | None = None,
    /,
    *,
    pipeline: str | None = None,
    edits: Sequence[str | Edit] = (),
    load: Sequence[str | Path] = (),
) -> Job | Callable[[Callable[..., object]], Job]:
    """
    A job made of a function on tensors, for use as a decorator.

    Parameters of `function` are annotated with what they take: a shape and a dtype, as
    in `Annotated[Tensor, (64, 784), "f32"]`; an extent that is a name, as in `("n",
    784)`, may differ from call to call. The current session takes the job up, and
    compiles it at its first call.

    `@penstock.job(edits=["skip op-fuse-rows"])` compiles this job with a `pipeline` of
    its own in place of the session's, with `edits` after those of the session, and with
    the plug-ins of further Python files to `load`: see [pipelines](pipelines.md).

    Raises TraceError for a parameter without such an annotation, UsageError for a text
    that is no edit.

    ```python
    from typing import Annotated

    import numpy as np

    import penstock
    from penstock import Tensor


    @penstock.job
    def double(x: Annotated[Tensor, (2, 3), "f32"]):
        return x + x


    assert "op.add" in double.ir
    assert double.function(np.float32(2)) == 4
    ```
    """
    # Annotations that are kept as text may name what only the caller knows.
    names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage] -- no other way
    given: Keywords = {"pipeline": pipeline, "edits": edits, "load": load}
    options = with_keywords(DEFAULTS, given)

    def made_of(function: Callable[..., object]) -> Job:
        made = Job(function, names, options)
        late("session").adopt(made)
        return made

    return made_of if function is None else made_of(function)
