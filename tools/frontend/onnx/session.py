"""
`OnnxSession`: ONNX models, compiled for the shapes that they are run with.

A session is compiled at the first run with certain shapes of inputs, and with certain
values of those inputs that a shape depends on; further runs with these use it again.
Other processes find its plan (`penstock.tools.session.saved_plan.known`), unless such a
value is part of it, and do not even read the model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import PenstockError
from penstock.runtime.options import Closing, check_named
from penstock.tools.driver.errors import needing_onnx
from penstock.tools.driver.files import refuse_others
from penstock.tools.driver.pipeline_edits import Edit
from penstock.tools.session.options import CompileOptions, Keywords, with_keywords
from penstock.tools.session.saved_plan.known import KnownPlans, Request
from penstock.tools.session.session import Model, Session

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto

    from penstock.runtime.executors.bound import Bound
    from penstock.tools.frontend.onnx.model import ImportedModel

Array = npt.NDArray[np.generic]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]

MOST_SESSIONS = 8
"""The number of compiled sessions that are kept by default."""


class OnnxSession(Closing):
    """
    An ONNX model, compiled for each set of shapes that it is run with. Close it after
    use.

    * `model`: a file, or a `ModelProto`. Extents of inputs that have a name, or are
      left open, are those of the arrays of a run.
    * `threads`: the number of workers, and of compute streams of the CPU.
    * `keep`: the number of compiled sessions that are kept, those that were used last,
      each with variables of its own.
    * `maxima`: the most iterations of loops, and elements that `NonZero`, `Compress` or
      `NonMaxSuppression` finds, by the names of nodes, or of outputs of these, where
      the number is only known at run time. Without it a model with such a loop is
      compiled for each of the numbers that it is run with.
    * `pipeline`, `edits`, `load`: the pipeline that compiles it, as
      `cpu{threads=4 winograd=true}`, edits of it, as `skip op-fuse-rows`, and Python
      files with plug-ins: see [pipelines](pipelines.md).

    Raises UsageError if there is no such model, or for a text that is no edit, and
    PenstockError for numbers that are not possible.

    ```python
    import numpy as np
    from onnx import parser

    import penstock

    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "relu (float[n] x) => (float[n] y) { y = Relu(x) }"
    )
    with penstock.OnnxSession(model) as session:
        outputs = session.run({"x": np.float32([-1, 2])})
    assert outputs["y"].tolist() == [0, 2]
    ```
    """

    def __init__(
        self,
        model: str | Path | ModelProto,
        *,
        threads: int = 1,
        keep: int = MOST_SESSIONS,
        pipeline: str | None = None,
        edits: Sequence[str | Edit] = (),
        load: Sequence[str | Path] = (),
        maxima: Mapping[str, int] | None = None,
    ):
        asked = CompileOptions(threads=threads)
        given: Keywords = {"pipeline": pipeline, "edits": edits, "load": load}
        self._options = with_keywords(asked, given)
        if keep < 1:
            raise PenstockError(f"at least one session is kept, got keep={keep}")
        self._keep = keep
        self._maxima = dict(maxima or {})
        self._sessions: OrderedDict[Key, Session] = OrderedDict()
        self._is_closed = False
        self._last: Session | None = None
        """The session of the last run, unless it is made for values of inputs."""
        self._given: _Given | None = None
        self._known: KnownPlans | None = None
        if isinstance(model, (str, Path)):
            self._known = KnownPlans(Path(model))
            if not self._known.is_known:
                self._given = _read(self._known)
        else:
            self._given = _Given(model, "model")

    @property
    def compiled(self) -> int:
        """The number of sessions that are kept."""
        return len(self._sessions)

    def run(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """
        The outputs by name, for `inputs`, arrays by name.

        Raises PenstockError if the arrays do not fit the model or the session is
        closed, and `Rejected` if the model cannot be compiled for them.
        """
        # Most runs have arrays like those of the last one.
        given = cast("Mapping[str, Array]", inputs)
        last = self._last
        if last is not None and (found := last.quick(given)) is not None:
            return found
        session, arrays = self._session_and_arrays(inputs)
        return dict(session.run(arrays))

    def bind(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        outputs: Mapping[str, Array] | None = None,
    ) -> Bound:
        """
        A run on arrays that stay the same: each `bound.run()` reads what those of
        `inputs` hold then, and writes to those of `outputs`, by name, or to new ones,
        and returns these. It lasts as long as the compiled session for such inputs is
        kept.

        Raises what `run` raises, and PenstockError unless all are contiguous arrays of
        the types of the model, for an array of outputs that has bytes of another one,
        and for a model that is compiled for values of its inputs.
        """
        session, arrays = self._session_and_arrays(inputs)
        if session is not self._last:
            raise PenstockError(
                "the model is compiled for values of its inputs, so no arrays can be "
                "bound to them"
            )
        return session.bind(arrays, outputs)

    def _session_and_arrays(
        self, inputs: Mapping[str, npt.ArrayLike]
    ) -> tuple[Session, dict[str, Array]]:
        """The session for inputs, compiled if need be, and the arrays that it reads."""
        if self._is_closed:
            raise PenstockError("the session is closed")
        check_named(inputs)
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        session = self._session_for(arrays)
        ports = session.executor.program.inputs
        return session, {name: arrays[name] for name in ports}

    def lower(self, inputs: Mapping[str, npt.ArrayLike], level: str = "launch") -> str:
        """
        The text of the model at a `level`, for inputs of the shapes of `inputs`: `job`,
        `plan`, `memory`, `launch`, or the `source` of its kernels. It is without the
        weights.

        Raises what `run` raises, and UsageError for an unknown level.
        """
        from penstock.tools.driver.compiler import installed_compiler
        from penstock.tools.session.lowered_text import text_at

        check_named(inputs)
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        imported = self._model().imported(
            arrays,
            self._maxima,
            separate_weights=self._options.separate_weights,
        )
        model = Model(imported.module, imported.weights, Path())
        front = installed_compiler(self._options.load)
        return text_at(front, model, self._options, level)

    def close(self) -> None:
        """End all sessions. Nothing can be run from then on."""
        self._is_closed, self._last = True, None
        while self._sessions:
            self._sessions.popitem()[1].close()

    def _session_for(self, arrays: Mapping[str, Array]) -> Session:
        shapes = tuple(sorted((name, array.shape) for name, array in arrays.items()))
        for key, session in self._sessions.items():
            if key.shapes == shapes and key.holds(arrays):
                self._sessions.move_to_end(key)
                self._last = None if key.has_values else session
                return session
        known: Mapping[str, Array] = {}
        bounds = tuple(sorted(self._maxima.items()))
        request = Request(self._options, shapes=shapes, maxima=bounds)
        plan = None if self._known is None else self._known.find(request)
        if plan is not None:
            session = Session.of(plan, plan.threads)
        else:
            session, known = self._compiled(arrays, request)
        while len(self._sessions) >= self._keep:
            self._sessions.popitem(last=False)[1].close()
        self._sessions[key := Key(shapes, known)] = session
        self._last = None if key.has_values else session
        return session

    def _model(self) -> _Given:
        """The model, which is read unless it has been; plug-ins may convert nodes."""
        if self._options.load:
            from penstock.tools.driver.plugins import load_plugins

            load_plugins(self._options.load)
        if self._given is None:
            assert self._known is not None, "what is not known has been read"
            self._given = _read(self._known)
        return self._given

    def _compiled(
        self, arrays: Mapping[str, Array], request: Request
    ) -> tuple[Session, Mapping[str, Array]]:
        """A new session, and the arrays whose values it is made for."""
        imported = self._model().imported(
            arrays,
            self._maxima,
            separate_weights=self._options.separate_weights,
        )
        model = Model(imported.module, imported.weights, Path())
        session = Session(model, request.options)
        if self._known is not None and not imported.known:
            self._known.keep(request, session.executable, session.state)
        return session, {name: arrays[name].copy() for name in sorted(imported.known)}


def _read(plans: KnownPlans) -> _Given:
    """Read the model that plans are of. Raises UsageError if it is none."""
    with needing_onnx():
        from penstock.tools.frontend.onnx.model import data_files, read_onnx

    refuse_others(plans.path, ".onnx")
    plans.name_files(data_files(plans.path))
    return _Given(read_onnx(plans.path), str(plans.path))


class _Given:
    """A model, with the extents that are left open."""

    def __init__(self, given: ModelProto, name: str):
        from onnx import ModelProto

        from penstock.tools.frontend.onnx.ports import inputs_of

        self._name = name
        self._open_inputs = ModelProto()
        """The inputs as the model has them, with their open extents."""
        self._open_inputs.graph.input.extend(inputs_of(given.graph))
        self._model = ModelProto()
        self._model.CopyFrom(given)

    def imported(
        self,
        arrays: Mapping[str, Array],
        maxima: Mapping[str, int],
        *,
        separate_weights: bool,
    ) -> ImportedModel:
        """
        The job of the model for certain inputs. Raises PenstockError if they do not
        fit, `Rejected` if the model cannot be compiled for them.
        """
        from penstock.tools.frontend.onnx.model import import_for
        from penstock.tools.frontend.onnx.ports import inputs_of, with_tensors

        self._check(arrays)
        model = with_tensors(self._model, arrays)
        for value in inputs_of(model.graph):
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for extent in arrays[value.name].shape:
                shape.dim.add().dim_value = extent
        return import_for(
            model,
            self._name,
            arrays,
            maxima=maxima,
            separate_weights=separate_weights,
        )

    def _check(self, arrays: Mapping[str, Array]) -> None:
        """Raise PenstockError unless the arrays have the shapes of the inputs."""
        from penstock.tools.frontend.onnx.ports import with_tensors

        values = with_tensors(self._open_inputs, arrays).graph.input
        names = [value.name for value in values]
        if missing := sorted(set(names) - arrays.keys()):
            raise PenstockError(f"there is no array for {', '.join(missing)}")
        if unknown := sorted(arrays.keys() - set(names)):
            raise PenstockError(f"the model has no inputs {', '.join(unknown)}")
        extents: dict[str, int] = {}
        for value in values:
            check_shape(value.name, value.type.tensor_type, arrays, extents)


class Key:
    """The shapes of all inputs and the values of some that a session is made for."""

    def __init__(self, shapes: Shapes, known: Mapping[str, Array]):
        self.shapes = shapes
        self._known = known

    @property
    def has_values(self) -> bool:
        """Whether a session is made for values of inputs."""
        return bool(self._known)

    def holds(self, arrays: Mapping[str, Array]) -> bool:
        """Whether arrays have these values, bit by bit."""
        return all(
            array.dtype == arrays[name].dtype
            and array.tobytes() == arrays[name].tobytes()
            for name, array in self._known.items()
        )


def check_shape(
    name: str,
    type: TypeProto.Tensor,
    arrays: Mapping[str, Array],
    extents: dict[str, int],
) -> None:
    """
    Raise PenstockError unless an array has the extents of an input, and those of one
    name are the same everywhere; notes these.
    """
    shape = arrays[name].shape
    if not type.HasField("shape"):
        return
    if len(shape) != len(type.shape.dim):
        raise PenstockError(
            f"input '{name}' has {len(type.shape.dim)} axes, got an array of shape "
            f"{shape}"
        )
    for axis, (extent, dim) in enumerate(zip(shape, type.shape.dim, strict=True)):
        wanted = dim.dim_value if dim.HasField("dim_value") else extent
        if dim.dim_param:
            wanted = extents.setdefault(dim.dim_param, extent)
        if extent != wanted:
            called = f" '{dim.dim_param}'" if dim.dim_param else ""
            raise PenstockError(
                f"axis {axis} of input '{name}' should have the extent{called} "
                f"{wanted}, got {extent}"
            )
