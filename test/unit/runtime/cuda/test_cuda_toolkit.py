"""The names that numba-cuda asks for, which are there on any machine."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.runtime.jit import ptx as cuda_compiler


def test_what_newer_numpy_has_no_longer_is_added(tmp_path: Path):
    numpy = SimpleNamespace(vstack=max)
    cuda_compiler.complete(numpy, {}, tmp_path)
    assert numpy.row_stack is max
    numpy = SimpleNamespace(vstack=max, row_stack=min)
    cuda_compiler.complete(numpy, {}, tmp_path)
    assert numpy.row_stack is min


@pytest.mark.parametrize("has_package", [True, False])
def test_a_toolkit_is_found_where_nothing_else_says_where(
    has_package: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cuda_compiler, "_has_nvvm", lambda: has_package)
    numpy, environment = SimpleNamespace(row_stack=min), dict[str, str]()
    cuda_compiler.complete(numpy, environment, tmp_path)
    assert environment == {}
    (tmp_path / "nvvm").mkdir()
    cuda_compiler.complete(numpy, environment, tmp_path)
    assert environment == ({} if has_package else {"CUDA_HOME": str(tmp_path)})
    environment = {"CUDA_PATH": "/elsewhere"}
    cuda_compiler.complete(numpy, environment, tmp_path)
    assert environment == {"CUDA_PATH": "/elsewhere"}
