"""The standard pipelines: any level can be dumped, read back and resumed."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import parse_pipeline

from penstock.lowering.pipelines import (
    PIPELINES,
    Passes,
    PipelineOptions,
    pipeline,
    text_of,
    training_passes,
)
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.instrumentation import PassInstrumentation, Step
from penstock.tools.driver.pass_pipeline import make_passes
from penstock.tools.session.oracle import evaluate_model, has_numpy_meaning
from penstock.tools.session.session import Model, Session, read_model

EXAMPLES = Path(__file__).parents[3] / "examples"
JOBS = ("digits.mlir", "encoder.mlir")


def squeezenet() -> ModuleOp:
    onnx = pytest.importorskip("onnx")
    from penstock.tools.frontend.onnx.model import import_file

    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    path = data / "light" / "light_squeezenet.onnx"
    return import_file(path, random_weights=1).module


def read(text: str) -> ModuleOp:
    compiler = installed_compiler()[0]
    module = compiler.parse(text.encode(), "text.mlir")
    compiler.verify(module)
    return module


def run_all(module: ModuleOp, passes: Passes) -> str:
    """The text that passes leave, which was verified where it was written first."""
    compiler, table = installed_compiler()
    compiler.disable_verify = True
    run_pipeline(compiler, table, module, passes)
    return str(module)


def levels(module: ModuleOp, passes: Passes) -> dict[str, str]:
    """Each text that passes of a pipeline leave, and the name of the first of them."""
    compiler, table = installed_compiler()
    dumps: dict[str, str] = {}

    class Note(PassInstrumentation):
        def after_pass(self, step: Step, module: ModuleOp) -> None:
            dumps.setdefault(str(module), step.name)

    compiler.instrumentations.append(Note())
    compiler.apply(module, make_passes(table, passes))
    return dumps


def check_resuming(module: ModuleOp, passes: Passes, every: int = 1) -> None:
    """
    Check that texts between two passes end as the same program: all of them, or `every`
    so many.
    """
    dumps = levels(module, passes)
    final = str(module)
    assert "launch.program" in final
    for text, name in list(dumps.items())[::every]:
        assert run_all(read(text), passes) == final, f"resumed after {name}"


@pytest.mark.slow
@pytest.mark.parametrize(("device", "streams"), [("cpu", 1), ("cpu", 2), ("cuda", 2)])
@pytest.mark.parametrize("job", JOBS)
def test_every_level_can_be_read_back_and_resumed(job: str, device: str, streams: int):
    module = read_model(installed_compiler()[0], EXAMPLES / job).module
    check_resuming(module, pipeline(PipelineOptions(device, streams)))


@pytest.mark.slow
def test_levels_of_squeezenet_can_be_resumed():
    check_resuming(squeezenet(), pipeline(PipelineOptions("cpu")), every=4)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_every_level_runs_and_means_the_same(job: str):
    compiler = installed_compiler()
    source = read_model(compiler[0], EXAMPLES / job)
    inputs: dict[str, Array] = {
        "x": np.random.default_rng(1).standard_normal((2, 16, 32)).astype(np.float32),
        "mask": np.ones((2, 1, 1, 16), np.bool_),
    }
    if job == "digits.mlir":
        with np.load(EXAMPLES / "digits-test.npz") as arrays:
            inputs = dict(arrays)
    expected = evaluate_model(source, inputs)
    results: list[dict[str, Array]] = []
    for text in levels(source.module, pipeline(PipelineOptions("cpu"))):
        model = Model(read(text), {}, EXAMPLES)
        if has_numpy_meaning(model.entry):
            for name, array in evaluate_model(model, inputs).items():
                np.testing.assert_allclose(
                    array.astype(np.float64),
                    expected[name].astype(np.float64),
                    rtol=1e-5,
                    atol=1e-6,
                )
        with Session(model, compiler=compiler) as session:
            results.append(session.run(inputs))
    for result in results:
        for name, array in results[0].items():
            np.testing.assert_array_equal(result[name], array)


def test_standard_pipelines_are_those_of_kinds_of_devices_and_of_several_jobs():
    assert dict(PIPELINES) == {
        "cpu": pipeline(PipelineOptions("cpu", 1)),
        "cuda": pipeline(PipelineOptions("cuda", 1)),
        "jobs": pipeline(PipelineOptions(merge=True)),
        "main": pipeline(PipelineOptions(merge=True, main=True)),
        "model": pipeline(PipelineOptions(merge=True, model_jobs=True)),
        "train": training_passes(),
    }


@pytest.mark.parametrize(
    "options",
    [
        PipelineOptions("cuda", 2, simulate_ranks=True, merge=True, main=True),
        PipelineOptions(model_jobs=True, strategy="memory", panels=False),
        PipelineOptions("cpu", 4, database="a b.db", gpu="NVIDIA H200", waves=True),
        PipelineOptions("cpu", winograd=True, guard="bounded"),
    ],
)
def test_the_text_of_a_pipeline_is_read_as_the_same_passes(options: PipelineOptions):
    passes = pipeline(options)
    assert tuple(parse_pipeline(text_of(passes))) == passes


def test_options_of_a_pipeline_are_those_of_passes_and_no_more():
    passes = text_of(pipeline(PipelineOptions("cpu", 3, database="k.db", guard="all")))
    for text in (
        'op-split-pads{device="cpu"}',
        'plan-write-times{database="k.db" parts=3}',
        'plan-assign-streams{streams=3 policy="critical-path"}',
        'regst-plan-memory{guard="all"}',
        "convert-plan-to-launch,",
        'launch-select-kernels{database="k.db" parts=3}',
    ):
        assert text in passes
