"""Sessions: models of every level from a file to results, and what they mean."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import erf

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.diagnostics import Rejected, UsageError
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session, program_of, read_model

EXAMPLES = Path(__file__).parents[4] / "examples"


F64Array = npt.NDArray[np.float64]


def floats(array: Array) -> F64Array:
    return array.astype(np.float64)


def model_of(text: str, weights: Mapping[str, Array] | None = None) -> Model:
    compiler = installed_compiler()[0]
    module = compiler.parse(text.encode(), "test.mlir")
    compiler.verify(module)
    return Model(module, weights or {}, EXAMPLES)


def example(name: str) -> Model:
    return read_model(installed_compiler()[0], EXAMPLES / name)


def arrays_of(name: str) -> dict[str, Array]:
    with np.load(EXAMPLES / name) as arrays:
        return dict(arrays)


# Examples ----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_digits_are_classified(threads: int):
    inputs = arrays_of("digits-test.npz")
    labels = arrays_of("digits-labels.npz")["label"]
    with Session.open(EXAMPLES / "digits.mlir", threads=threads) as session:
        probabilities = floats(session.run(inputs)["probabilities"])
    assert np.mean(np.argmax(probabilities, 1) == labels) >= 0.95
    expected = evaluate_model(example("digits.mlir"), inputs)["probabilities"]
    np.testing.assert_allclose(probabilities, floats(expected), rtol=1e-4, atol=1e-6)


def attention(
    x: F64Array, mask: npt.NDArray[np.bool_], w: dict[str, F64Array]
) -> F64Array:
    """Self-attention as in its paper (Vaswani et al. 2017), a head at a time."""
    out = np.empty_like(x)
    for batch in range(len(x)):
        q, k, v = (x[batch] @ w[f"w{i}"] + w[f"b{i}"] for i in "qkv")
        for head in range(4):
            part = slice(8 * head, 8 * head + 8)
            scores = q[:, part] @ k[:, part].T / np.sqrt(8)
            weights = np.exp(scores) * mask[batch].reshape(1, -1)
            weights /= weights.sum(1, keepdims=True)
            out[batch, :, part] = weights @ v[:, part]
    return out @ w["wo"] + w["bo"]


def normalised(x: F64Array, scale: F64Array, shift: F64Array) -> F64Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def encoder(inputs: Mapping[str, Array], w: dict[str, F64Array]) -> F64Array:
    x = inputs["x"].astype(np.float64)
    mask = inputs["mask"].astype(np.bool_)
    y = normalised(x + attention(x, mask, w), w["g1"], w["n1"])
    hidden = y @ w["w1"] + w["b1"]
    hidden = hidden * 0.5 * (1 + erf(hidden / np.sqrt(2)))
    return normalised(y + hidden @ w["w2"] + w["b2"], w["g2"], w["n2"])


def test_encoder_layer_is_that_of_the_paper():
    random = np.random.default_rng(5)
    shapes = {f"w{i}": (32, 32) for i in "qkvo"} | {f"b{i}": (32,) for i in "qkvo"}
    shapes |= {"g1": (32,), "n1": (32,), "w1": (32, 64), "b1": (64,)}
    shapes |= {"w2": (64, 32), "b2": (32,), "g2": (32,), "n2": (32,)}
    weights = {
        name: random.normal(0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    mask = random.random((2, 1, 1, 16)) < 0.7
    mask[..., 0] = True
    inputs = {
        "x": random.standard_normal((2, 16, 32)).astype(np.float32),
        "mask": mask,
    }
    model = example("encoder.mlir")
    model.weights = weights
    expected = encoder(inputs, {k: v.astype(np.float64) for k, v in weights.items()})
    evaluated = floats(evaluate_model(model, inputs)["z"])
    np.testing.assert_allclose(evaluated, expected, rtol=1e-4, atol=2e-5)
    with Session(model, threads=2) as session:
        z = floats(session.run(inputs)["z"])
    np.testing.assert_allclose(z, expected, rtol=1e-4, atol=2e-5)


def test_plan_that_was_written_by_hand():
    x = np.random.default_rng(2).standard_normal((4, 8)).astype(np.float32)
    w = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    model = example("plan.mlir")
    model.weights = {"w": w}
    expected = np.maximum(x + w, 0)
    assert (evaluate_model(model, {"x": x})["y"] == expected).all()
    with Session(model) as session:
        results = session.run_many([{"x": x}, {"x": 2 * x}])
    assert (results[0]["y"] == expected).all()
    assert (results[1]["y"] == np.maximum(2 * x + w, 0)).all()


@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
def test_program_that_was_written_by_hand(engine: str):
    x = np.random.default_rng(2).standard_normal((4, 8)).astype(np.float32)
    path = str(EXAMPLES / "program.mlir")
    with Session.open(path, engine=engine) as session:
        y = floats(session.run({"x": x})["y"])
    np.testing.assert_allclose(y, (floats(x) ** 2).sum(1), rtol=1e-6)


# Errors ------------------------------------------------------------------------------

INPUT = '%x = job.input "x" : tensor<2xf32>\njob.output "y", %x : tensor<2xf32>'
JOB = f"job.job @a placement <cpu, [0:0]> {{\n{INPUT}\n}}\n"


PROGRAM = "launch.program @p rank 0 { ^bb0: }\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"device": "tpu"},
            "unknown device 'tpu', did you mean 'cpu'? (penstock-opt --list device "
            "names them)",
        ),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        (
            {"engine": "turbo"},
            "unknown engine 'turbo', expected one of actors, sequential, sim",
        ),
    ],
)
def test_options_are_refused_before_anything_is_read_or_compiled(
    options: dict[str, Any], message: str
):
    with pytest.raises(PenstockError) as caught:
        Session.open("nowhere.mlir", **options)
    assert str(caught.value) == message
    with pytest.raises(PenstockError) as caught:
        Session(model_of(""), **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(("text", "line", "count"), [("", 1, 0), (JOB + PROGRAM, 5, 2)])
def test_program_is_alone_in_its_module(text: str, line: int, count: int):
    with pytest.raises(Rejected) as caught:
        Session(model_of(text))
    place = f"test.mlir:{line}:1"
    expected = f"{place}: the module should hold one job, plan or program, got {count}"
    assert str(caught.value) == expected


def test_one_job_is_evaluated_at_a_time():
    with pytest.raises(Rejected) as caught:
        evaluate_model(model_of(JOB + JOB.replace("@a", "@b")), {})
    expected = "the module should hold one job, plan or program, got 2"
    assert str(caught.value) == f"test.mlir:5:1: {expected}"


def test_job_without_ops():
    with Session(model_of("job.job @a placement <cpu, [0:0]> {\n^bb0:\n}")) as session:
        assert session.run({}) == {}


def test_job_that_gives_back_what_it_takes():
    x = np.array([1, 2], np.float32)
    with Session(model_of(JOB)) as session:
        assert session.run({"x": x})["y"].tolist() == [1, 2]
        assert not session.is_simulated


def test_inputs_that_nothing_uses_are_taken():
    unused = '%z = job.input "z" : tensor<2xf32>\n' + INPUT
    x = np.array([1, 2], np.float32)
    with Session(model_of(JOB.replace(INPUT, unused))) as session:
        assert session.run({"x": x, "z": x})["y"].tolist() == [1, 2]


def test_module_that_was_not_lowered():
    with pytest.raises(Rejected) as caught:
        program_of(model_of(JOB))
    expected = "job.job was not lowered to a launch program"
    assert str(caught.value) == f"test.mlir:1:1: {expected}"


def test_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(UsageError) as caught:
        Session.open(tmp_path / "none.mlir")
    expected = f"cannot read {tmp_path / 'none.mlir'}: no such file or directory"
    assert str(caught.value) == expected


def test_all_bad_ops_are_named_with_their_places(tmp_path: Path):
    path = tmp_path / "bad.mlir"
    path.write_text(
        "job.job @a placement <cpu, [0:0]> {\n"
        '  %x = job.input "x" : tensor<2xf32>\n'
        "  %y = op.relu %x : tensor<2xf32> -> tensor<3xf32>\n"
        "  %z = op.exp %x : tensor<2xf32> -> tensor<4xf32>\n"
        "}\n"
    )
    with pytest.raises(Rejected) as caught:
        Session.open(path)
    assert [d.render("") for d in caught.value.diagnoses] == [
        f"{path}:3:3: error: op.relu: the result's type should be tensor<2xf32>, "
        "got tensor<3xf32>",
        f"{path}:4:3: error: op.exp: the result's type should be tensor<2xf32>, "
        "got tensor<4xf32>",
    ]


def test_weights_that_are_not_there(tmp_path: Path):
    path = tmp_path / "digits.mlir"
    path.write_text((EXAMPLES / "digits.mlir").read_text())
    with pytest.raises(PenstockError) as caught:
        Session.open(path)
    weights = tmp_path / "digits-weights.npz"
    expected = f"cannot read weights from {weights}: no such file or directory"
    assert str(caught.value) == expected


# The meaning in NumPy ----------------------------------------------------------------


def test_weights_of_the_model_are_what_variables_mean():
    text = """
    job.job @a placement <cpu, [0:0]> {
      %v = job.variable "v" init <ones> : tensor<2xf32>
      %w = job.variable "w" init <ones> : tensor<2xf32>
      %s = op.add %v, %w : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      job.output "s", %s : tensor<2xf32>
    }
    """
    model = model_of(text, {"w": np.array([5, 6], np.float32)})
    assert evaluate_model(model, {})["s"].tolist() == [6, 7]
    with Session(model) as session:
        assert session.run({})["s"].tolist() == [6, 7]


def test_tasks_are_evaluated_in_the_order_of_their_data():
    text = (EXAMPLES / "plan.mlir").read_text()
    start = text.index('  plan.task "w"')
    tasks = text[start:].removesuffix("}\n").split("  plan.task ")[1:]
    assert len(tasks) == 5
    turned = text[:start] + "".join(f"  plan.task {t}" for t in tasks[::-1]) + "}\n"
    x = np.ones((4, 8), np.float32)
    expected = evaluate_model(example("plan.mlir"), {"x": x})
    assert (evaluate_model(model_of(turned), {"x": x})["y"] == expected["y"]).all()


def test_tasks_that_read_from_each_other():
    text = """
    plan.plan @p {
      %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<f32>>
      %y = regst.register "y" slots 1 on <0, host> : !regst.data<tensor<f32>>
      plan.task "a" on <0, cpu:0> stream <compute, 0>
          ins(%y : !regst.data<tensor<f32>>) outs(%x : !regst.data<tensor<f32>>) {
      ^bb0(%v: tensor<f32>):
        %r = op.exp %v : tensor<f32> -> tensor<f32>
        plan.yield %r : tensor<f32>
      }
      plan.task "b" on <0, cpu:0> stream <compute, 0>
          ins(%x : !regst.data<tensor<f32>>) outs(%y : !regst.data<tensor<f32>>) {
      ^bb0(%v: tensor<f32>):
        %r = op.exp %v : tensor<f32> -> tensor<f32>
        plan.yield %r : tensor<f32>
      }
    }
    """
    with pytest.raises(UsageError) as caught:
        evaluate_model(model_of(text), {})
    assert str(caught.value) == "tasks read from each other: a -> b -> a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JOB, "no array is given for input 'x'"),
        (
            "launch.program @p rank 0 {\n^bb0:\n}",
            "a launch.program cannot be checked against NumPy",
        ),
        (
            JOB.replace(
                "job.output",
                '"arith.constant"() <{value = 1 : i32}> : () -> i32\njob.output',
            ).replace(
                '%x = job.input "x" : tensor<2xf32>',
                '%x = job.variable "x" init <ones> : tensor<2xf32>',
            ),
            "arith.constant has no meaning in NumPy",
        ),
    ],
)
def test_models_without_a_meaning(text: str, message: str):
    with pytest.raises(UsageError) as caught:
        evaluate_model(model_of(text), {})
    assert str(caught.value) == message
