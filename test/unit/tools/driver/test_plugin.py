"""A package of a third party has the same rights as Penstock's own ops and passes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

PLUGIN = Path(__file__).parents[3] / "plugin"
MODEL = str(PLUGIN / "Inputs" / "acme.mlir")
DROP_RELU = str(PLUGIN / "Inputs" / "drop_relu.py")

Tool: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package is installed."""
    site = tmp_path_factory.mktemp("site")
    command = [PLUGIN / "install.py", site, "install", PLUGIN / "acme"]
    subprocess.run([sys.executable, *command], check=True, timeout=300)
    return site


@pytest.fixture
def tool(site: Path) -> Tool:
    """Run an installed tool on arguments, where the package is installed."""

    def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
        paths = str(site), *filter(None, [os.environ.get("PYTHONPATH")])
        return subprocess.run(
            [str(Path(sys.executable).parent / name), *args],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a tool that succeeds without a word on stderr."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_help_lists_what_is_installed_and_what_is_loaded(tool: Tool) -> None:
    text = output_of(tool("penstock-opt", "--load", DROP_RELU, "--help"))
    assert "passes of acme:\n  acme-expand-swish\n" in text
    assert "dialects of acme:\n  acme\n" in text
    assert f"passes of {DROP_RELU}:\n  drop-relu\n" in text


@pytest.mark.slow
def test_passes_of_both_are_described(tool: Tool) -> None:
    text = output_of(tool("penstock-opt", "--load", DROP_RELU, "--list-passes"))
    assert "  acme-expand-swish: Write `acme.swish` in terms of the `op` dia" in text
    assert "  drop-relu: Replace every `op.relu` by its operand.\n" in text


@pytest.mark.slow
def test_ops_round_trip(tool: Tool, tmp_path: Path) -> None:
    once = output_of(tool("penstock-opt", MODEL))
    assert "%n = acme.row_norm %x : tensor<6x5xf32> -> tensor<6x5xf32>" in once
    printed = tmp_path / "printed.mlir"
    printed.write_text(once)
    assert output_of(tool("penstock-opt", str(printed))) == once


def test_a_wrong_op_is_rejected_by_its_own_inference(
    tool: Tool, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text(
        '%x = "test.op"() : () -> tensor<4xf32>\n'
        "%y = acme.row_norm %x : tensor<4xf32> -> tensor<4xf32>\n"
    )
    done = tool("penstock-opt", str(path))
    assert done.returncode == 1
    assert f"{path}:2:1: error: " in done.stderr
    assert "expected a matrix, got tensor<4xf32>" in done.stderr


def test_the_elementwise_op_is_fused_with_ours(tool: Tool) -> None:
    text = output_of(tool("penstock-opt", MODEL, "-p", "op-fuse-elementwise"))
    before, fused = text.split("op.fused")
    assert "acme.row_norm" in before
    assert "acme.swish" in fused
    assert "op.relu" in fused


@pytest.mark.parametrize("name", ["penstock-opt", "xdsl-opt"])
def test_the_pass_is_found_through_its_entry_point(tool: Tool, name: str) -> None:
    text = output_of(tool(name, MODEL, "-p", "acme-expand-swish"))
    assert "acme.swish" not in text
    assert "op.sigmoid %n" in text
    assert "op.mul %n, " in text


def test_a_pass_from_a_file_joins_those_of_packages(tool: Tool) -> None:
    passes = "acme-expand-swish,drop-relu,canonicalize"
    text = output_of(tool("penstock-opt", MODEL, "--load", DROP_RELU, "-p", passes))
    assert "op.relu" not in text
    assert "op.mul" in text


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels_of_the_package_run(
    tool: Tool, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    x = np.random.default_rng(5).standard_normal((6, 5)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    files = ("--inputs", f"{tmp_path}/in.npz", "--outputs", f"{tmp_path}/out.npz")
    checks = ("--check", "numpy", "--device", device)
    text = output_of(tool("penstock-run", MODEL, *files, *checks))
    assert "check against numpy: y differs by" in text

    with np.load(tmp_path / "out.npz") as outputs:
        rows = x / np.sqrt((x.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(outputs["n"], rows, rtol=1e-6)
        swish = rows / (1 + np.exp(-rows))
        wanted = np.where(swish > 0, swish, 0)
        np.testing.assert_allclose(outputs["y"], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_the_expanded_op_means_the_same(tool: Tool, tmp_path: Path) -> None:
    outputs: list[np.ndarray] = []
    expanded = tmp_path / "expanded.mlir"
    expanded.write_text(
        output_of(tool("penstock-opt", MODEL, "-p", "acme-expand-swish"))
    )
    for model in (MODEL, str(expanded)):
        to = f"{tmp_path}/out.npz"
        done = tool("penstock-run", model, "--random-inputs", "3", "--outputs", to)
        output_of(done)
        with np.load(to) as arrays:
            outputs.append(arrays["y"])
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-6, atol=1e-7)
