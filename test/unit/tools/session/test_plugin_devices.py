"""Devices of plug-ins: a job runs on one, and rubbish is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.plugins import forget, register
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.devices import Cpu
from penstock.runtime.loading.memory import HostChunk
from penstock.tools.cli.run import run_tool
from penstock.tools.cli.view import run_tool as view_tool
from penstock.tools.driver.errors import Rejected
from penstock.tools.driver.plugins import unload
from penstock.tools.session.session import Session

JOB = """
job.job @two placement <acme, [0:0-1]> {
  %x = job.input "x" {sbp = #job.sbp<S(1)>} : tensor<8x16xf32>
  %w = job.variable "w" init <ones> : tensor<16x8xf32>
  %h = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  job.output "y", %h : tensor<8x8xf32>
}
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget(__name__)


def run(folder: Path, x: np.ndarray) -> np.ndarray:
    path = folder / "job.mlir"
    path.write_text(JOB, encoding="utf-8")
    with Session.open(path) as session:
        return session.run({"x": x})["y"]


X = np.random.default_rng(4).standard_normal((8, 16)).astype(np.float32)


def test_a_job_runs_on_two_devices_of_a_plug_in(tmp_path: Path) -> None:
    seen: dict[int, int] = {}

    class Acme(Cpu):
        def allocate(self, size: int, number: int = 0) -> HostChunk:
            seen[number] = size
            return super().allocate(size, number)

    register("device", "acme")(Acme)
    expected = X.astype(np.float64) @ np.ones((16, 8))
    np.testing.assert_allclose(run(tmp_path, X), expected, rtol=1e-5, atol=1e-5)
    assert seen.keys() == {0, 1}


ON_CPU = JOB.replace("<acme, [0:0-1]>", "<cpu, [0:0]>")
FILE = """
from penstock.plugins import register
from penstock.runtime.loading.devices import Cpu


@register("device", "loaded")
class Loaded(Cpu):
    def allocate(self, size, number=0):
        print("allocated")
        return super().allocate(size, number)
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("job.mlir").write_text(ON_CPU, encoding="utf-8")
    Path("acme.py").write_text(FILE, encoding="utf-8")
    unload()
    yield
    unload()


@pytest.mark.usefixtures("files")
def test_commands_place_jobs_on_a_device_of_a_plug_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["job.mlir", "--load", "acme.py", "--device", "loaded"]
    assert run_tool([*words, "--random-inputs", "1", "--check", "numpy"]) == 0
    out, err = capsys.readouterr()
    assert "on loaded, " in out
    assert err == "allocated\n"
    assert view_tool([*words, "-o", "page.html"]) == 0
    assert '"loaded:0"' in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_sessions_place_jobs_on_a_device_of_a_plug_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Session.open("job.mlir", device="loaded", load=["acme.py"]) as session:
        found = np.asarray(session.run({"x": X})["y"], np.float32)
    expected = X.astype(np.float64) @ np.ones((16, 8))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert capsys.readouterr().out == "allocated\n"


@pytest.mark.parametrize("name", ["lodaed", "loaded"])
@pytest.mark.usefixtures("files")
def test_a_device_of_no_plug_in_is_told(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load = ["--load", "acme.py"] * (name != "loaded")
    near = ", did you mean 'loaded'?" * (name != "loaded")
    hint = "(penstock-opt --list device names them)"
    for tool, words in (
        (run_tool, ["--random-inputs", "1"]),
        (run_tool, ["--compile-to", "plan"]),
        (view_tool, ["-o", "a.html"]),
    ):
        assert tool(["job.mlir", "--device", name, *words, *load]) == 2
        text = f"error: unknown device '{name}'{near} {hint}\n"
        out, err = capsys.readouterr()
        assert not out
        assert err.endswith(text)


def test_without_it_the_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="there are no kernels for 'acme'"):
        run(tmp_path, X)


def test_an_object_that_is_no_device_is_refused(tmp_path: Path) -> None:
    register("device", "acme")(lambda: 5)
    expected = r"^device 'acme' opens int, which has no is_simulated \(.*\.py:\d+\)$"
    with pytest.raises(PenstockError, match=expected):
        run(tmp_path, X)


def test_one_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    @register("device", "acme")
    def fail() -> object:
        raise OSError("no such bus")

    expected = r"^device 'acme' fails: OSError: no such bus \(.*devices.py:\d+\)$"
    with pytest.raises(PenstockError, match=expected):
        run(tmp_path, X)


@pytest.mark.usefixtures("files")
def test_a_saved_plan_runs_where_its_device_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = ["--load", "acme.py"]
    random = ["--random-inputs", "1", "--outputs"]
    words = ["job.mlir", *load, "--device", "loaded", *random, "a.npz"]
    assert run_tool([*words, "--save-plan", "job.penstock"]) == 0
    unload()
    capsys.readouterr()
    needed = (
        "the program needs a device of kind 'loaded', which no plug-in here opens: "
        "load its file, with --load FILE.py or load=['FILE.py']"
    )
    assert run_tool(["job.penstock", *random, "b.npz"]) == 1
    assert capsys.readouterr().err == f"penstock-run: error: {needed}\n"
    assert run_tool(["job.penstock", *load, *random, "b.npz"]) == 0
    assert capsys.readouterr().err == "allocated\n"
    with np.load("a.npz") as before, np.load("b.npz") as after:
        np.testing.assert_array_equal(before["y"], after["y"])
    unload()
    with pytest.raises(PenstockError, match="the program needs a device of kind 'loa"):
        Session.open("job.penstock")
    with Session.open("job.penstock", load=["acme.py"]) as session:
        expected = X.astype(np.float64) @ np.ones((16, 8))
        found = np.asarray(session.run({"x": X})["y"], np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins" / "code_generator.py"
ON_VECTORS = """
job.job @net placement <vector, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  %w = job.input "w" : tensor<8x16xf32>
  %m = op.mul %x, %w : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  %t = op.tanh %m : tensor<8x16xf32> -> tensor<8x16xf32>
  job.output "y", %t : tensor<8x16xf32>
}
"""


@pytest.mark.usefixtures("files")
def test_kernels_are_printed_by_the_code_generator_of_a_device() -> None:
    Path("net.mlir").write_text(ON_VECTORS, encoding="utf-8")
    w = np.flip(X)
    with Session.open("net.mlir", load=[str(EXAMPLE)]) as session:
        (text,) = session.executable.sources.values()
        assert json.loads(text)["sizes"] == [128] * 2
        found = np.asarray(session.run({"x": X, "w": w})["y"], np.float32)
        session.save(Path("net.penstock"))
    expected = np.tanh(X.astype(np.float64) * w)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    with Session.open("net.penstock", load=[str(EXAMPLE)]) as session:
        np.testing.assert_array_equal(session.run({"x": X, "w": w})["y"], found)


@pytest.mark.usefixtures("files")
def test_a_code_generator_that_changes_prints_anew() -> None:
    """Kept facts of a plan are those of the code that printed them."""
    Path("net.mlir").write_text(ON_VECTORS, encoding="utf-8")
    text = EXAMPLE.read_text(encoding="utf-8")
    Path("mine.py").write_text(text, encoding="utf-8")
    feeds = {"x": X, "w": X}
    with Session.open("net.mlir", load=["mine.py"]) as session:
        session.save(Path("net.penstock"))
    other = text.replace('"math.tanh": np.tanh', '"math.tanh": np.exp')
    other = other.replace("json.dumps({", 'json.dumps({"of": "another", ')
    Path("mine.py").write_text(other, encoding="utf-8")
    with Session.open("net.penstock", load=["mine.py"]) as session:
        (text,) = session.executable.sources.values()
        assert json.loads(text)["of"] == "another"
        found = np.asarray(session.run(feeds)["y"], np.float32)
    np.testing.assert_allclose(found, np.exp(X.astype(np.float64) ** 2), rtol=1e-5)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returns no source but None"),
        ("  ", "returns no source but '  '"),
        (b"x", "returns no source but b'x'"),
        (ValueError("no such instruction"), "fails: ValueError: no such instruction"),
    ],
)
def test_a_bad_code_generator_is_named_with_the_kernel(
    tmp_path: Path, answer: object, message: str
) -> None:
    register("device", "vector")(Cpu)

    @register("code-generator", "vector")
    def generate(kernel: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    (tmp_path / "net.mlir").write_text(ON_VECTORS, encoding="utf-8")
    with pytest.raises(Rejected) as caught:
        Session.open(tmp_path / "net.mlir")
    pattern = rf"net.mlir:6:3: .*kernel @\w+: code generator 'vector' {message} \(.*\)$"
    assert re.search(pattern, str(caught.value))


@pytest.mark.usefixtures("files")
def test_a_code_generator_that_computes_something_else_is_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("net.mlir").write_text(ON_VECTORS, encoding="utf-8")
    text = EXAMPLE.read_text(encoding="utf-8").replace("np.multiply", "np.add")
    Path("wrong.py").write_text(text, encoding="utf-8")
    words = ["net.mlir", "--load", "wrong.py", "--random-inputs", "1"]
    assert run_tool([*words, "--check", "numpy"]) == 1
    capsys.readouterr()
    assert run_tool([*words, "--bisect"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"first task that differs .*: t\w* at net.mlir:6:3: writes", out)
