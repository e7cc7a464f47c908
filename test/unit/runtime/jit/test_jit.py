"""Compiling kernels through the cache on disk, and what the machine code is like."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pytest
from numba import njit

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.jit import cache
from penstock.runtime.jit import cache_files as kept_files
from penstock.runtime.jit.c_function import assembly_of
from penstock.runtime.jit.cpu import compile_cpu, more_vectors
from penstock.runtime.jit.object_file import read_object, write_object
from penstock.runtime.kernels.cpu_features import processor_here

ParseKernel: TypeAlias = Callable[[str], KernelOp]

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32


@c_kernel
def kernel(args, part, parts):
    a = buffer_f32(args, 0, 1)
    a[0] = a[0] * f32({factor})
    return 5
"""
CHILD = """
import sys
import numpy as np
from penstock.runtime.jit.cpu import compile_cpu
source = open(sys.argv[1]).read()
kernel = compile_cpu(source, "kernel")
number = np.array([3], np.float32)
status = kernel(np.array([number.ctypes.data]).ctypes.data)
print(kernel.from_cache, status, number[0], "numba" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    return folder


def start_child(tmp_path: Path, factor: float = 2) -> subprocess.Popen[str]:
    source = tmp_path / "source.txt"
    source.write_text(SOURCE.format(factor=factor))
    command = [sys.executable, "-c", CHILD, str(source)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_child(tmp_path: Path, factor: float = 2) -> str:
    """
    The results of a new process for the kernel: whether it is from the cache, status,
    result, and whether it has imported Numba.
    """
    output, errors = start_child(tmp_path, factor).communicate(timeout=300)
    assert not errors, errors
    return output.strip()


def machine_code(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.o"))


def test_source_says_how_many_parts_are_of_use(folder: Path) -> None:
    source = SOURCE.format(factor=2)
    assert compile_cpu(source, "kernel").parts == 1
    assert compile_cpu("PARTS = 6\n" + source, "kernel").parts == 6
    shared = np.array([3], np.float32)
    row = np.array([shared.ctypes.data])
    assert compile_cpu("PARTS = 6\n" + source, "kernel")(row.ctypes.data, 1, 6) == 5


@pytest.mark.slow
def test_second_process_loads_machine_code(tmp_path: Path, folder: Path) -> None:
    assert run_child(tmp_path) == "False 5 6.0 True"
    files = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert run_child(tmp_path) == "True 5 6.0 False"
    assert files == {file: file.stat().st_mtime_ns for file in folder.rglob("*")}


@pytest.mark.slow
def test_other_source_is_other_code(tmp_path: Path, folder: Path) -> None:
    assert run_child(tmp_path, 2) == "False 5 6.0 True"
    assert run_child(tmp_path, 3) == "False 5 9.0 True"
    assert len(machine_code(folder)) == 2


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the machine code of one kernel."""
    tmp_path = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
        assert run_child(tmp_path) == "False 5 6.0 True"
    return tmp_path / "cache"


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    ["cut", "flip", "empty", "lacking"],
)
def test_damaged_files_are_made_anew(
    damage: str, filled: Path, tmp_path: Path, folder: Path
) -> None:
    shutil.copytree(filled, folder)
    (file,) = machine_code(folder)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    if damage == "lacking":
        entry = read_object(file)
        assert entry is not None
        write_object(file, entry._replace(externals=["no_such_function"]))
    else:
        contents = {"cut": data[: len(data) // 2], "flip": data, "empty": b""}
        file.write_bytes(contents[damage])
    assert run_child(tmp_path).endswith(" 5 6.0 True")
    assert run_child(tmp_path) == "True 5 6.0 False"


@pytest.mark.slow
def test_processes_at_the_same_time_do_not_disturb_each_other(
    tmp_path: Path, folder: Path
) -> None:
    children = [start_child(tmp_path) for _ in range(3)]
    for child in children:
        output, errors = child.communicate(timeout=300)
        assert not errors, errors
        assert " 5 6.0 " in output
    assert not list(folder.glob(".*")), "temporary files were left"
    run_child(tmp_path)
    assert run_child(tmp_path) == "True 5 6.0 False"


def test_unwritable_folder_is_replaced_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv(cache.VARIABLE, str(file / "cache"))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        first = compile_cpu(SOURCE.format(factor=11), "kernel")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = compile_cpu(SOURCE.format(factor=12), "kernel")
    assert not first.from_cache
    assert first.address != second.address


def test_one_process_compiles_a_source_once(folder: Path) -> None:
    source = SOURCE.format(factor=13)
    assert compile_cpu(source, "a") is compile_cpu(source, "b")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_CACHE_HOME": "/x"}, "/x/penstock"),
        ({"HOME": "/home/me"}, "/home/me/.cache/penstock"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_default_folder(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.user_cache_dir() / "penstock" == Path(expected)


def test_hash_separates_its_parts() -> None:
    assert cache.content_hash(["ab", "c"]) != cache.content_hash(["a", "bc"])
    assert cache.content_hash(["ab"]) == cache.content_hash(["ab"])


def test_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(source: str, target: Path) -> None:
        raise OSError("no more")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no more"):
        kept_files.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("part", [1, 2])
def test_other_parts_have_nothing_to_do(part: int, parse_kernel: ParseKernel) -> None:
    text = """launch.kernel @k target "cpu" (%o: memref<8xf32>) {
        %c = arith.constant 1.0 : f32
        linalg.fill ins(%c : f32) outs(%o : memref<8xf32>)
    }"""
    kernel = compile_cpu(kernel_source(parse_kernel(text)), "k")
    out = np.zeros(8, np.float32)
    args = np.array([out.ctypes.data], np.int64)
    assert kernel(args.ctypes.data, part, 3) == 0
    assert not out.any()
    assert kernel(args.ctypes.data, 0, 3) == 0
    assert out.all()


MATRIX = "memref<64x48xf32>"
VECTORISED = {
    "an elementwise sum": (
        ["i, j", "i, j", "i, j"],
        "pp",
        [MATRIX, MATRIX, MATRIX],
        "%t = arith.addf %x, %y : f32",
    ),
    "a product of matrices": (
        ["i, k", "k, j", "i, j"],
        "ppr",
        ["memref<64x32xf32>", "memref<32x48xf32>", MATRIX],
        "%p = arith.mulf %x, %y : f32 %t = arith.addf %s, %p : f32",
    ),
    "a product with a transposed matrix": (
        ["i, k", "j, k", "i, j"],
        "ppr",
        ["memref<64x96xf32>", "memref<48x96xf32>", MATRIX],
        "%p = arith.mulf %x, %y : f32 %t = arith.addf %s, %p : f32",
    ),
    "a convolution": (
        ["c, i + r, j + q", "f, c, r, q", "f, i, j"],
        "ppprrr",
        ["memref<5x30x30xf32>", "memref<7x5x3x3xf32>", "memref<7x28x28xf32>"],
        "%p = arith.mulf %x, %y : f32 %t = arith.addf %s, %p : f32",
    ),
}
LOOPS = {"pp": "i, j", "ppr": "i, j, k", "ppprrr": "f, i, j, c, r, q"}


def assembly(source: str) -> str:
    """The assembly of a kernel."""
    names: dict[str, Callable[..., int]] = {}
    with more_vectors():
        exec(compile(source, "kernel.py", "exec"), cast("dict[str, object]", names))
        return assembly_of(names["kernel"], 3, 32)


@pytest.mark.skipif(
    "sse2" not in processor_here().features, reason="reads the assembly of x86"
)
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", VECTORISED)
def test_machine_code_works_on_vectors(name: str, parse_kernel: ParseKernel) -> None:
    maps, kinds, (a, b, o), body = VECTORISED[name]
    map_texts = ", ".join(f"affine_map<({LOOPS[kinds]}) -> ({map})>" for map in maps)
    iterators = ", ".join({"p": '"parallel"', "r": '"reduction"'}[k] for k in kinds)
    text = f"""launch.kernel @k target "cpu" (%a: {a}, %b: {b}, %o: {o}) {{
      linalg.generic {{indexing_maps = [{map_texts}], iterator_types = [{iterators}]}}
        ins(%a, %b : {a}, {b}) outs(%o : {o}) {{
      ^bb0(%x: f32, %y: f32, %s: f32):
        {body}
        linalg.yield %t : f32
      }}
    }}"""
    code = assembly(kernel_source(parse_kernel(text)))
    widest = {64: "[yz]mm", 32: "ymm", 16: "xmm"}[processor_here().vector_bytes]
    scalar = re.findall(r"\bv?(?:addss|fmadd\d+ss)\b", code)
    vector = re.findall(rf"\bv?(?:addps|fmadd\d+ps)\b.*{widest}", code)
    assert len(vector) > len(scalar)


CHAIN = """launch.kernel @k target "cpu" (%a: memref<999xf32>, %o: memref<999xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                  iterator_types = ["parallel"]}
    ins(%a : memref<999xf32>) outs(%o : memref<999xf32>) {
  ^bb0(%x: f32, %s: f32):
    %c = arith.constant 0.1 : f32
    %n = arith.constant 3 : i32
    %f = arith.sitofp %n : i32 to f32
    %p = arith.mulf %x, %c : f32
    %q = arith.addf %p, %f : f32
    %r = arith.maximumf %q, %x : f32
    %t = math.sqrt %r : f32
    linalg.yield %t : f32
  }
}"""


@pytest.mark.usefixtures("folder")
def test_single_precision_stays_single(parse_kernel: ParseKernel) -> None:
    code = assembly(kernel_source(parse_kernel(CHAIN)))
    double = r"v?(?:add|mul|max|sqrt|fmadd\w*)[sp]d\b|cvt[sp]s2[sp]d|cvt[sp]d2[sp]s"
    assert not re.search(double, code)


def test_a_result_may_take_the_place_of_an_operand(parse_kernel: ParseKernel) -> None:
    kernel = compile_cpu(kernel_source(parse_kernel(CHAIN)), "k")
    numbers = np.random.default_rng(4).normal(size=999).astype(np.float32)
    shared = numbers.copy()
    args = np.array([shared.ctypes.data] * 2, np.int64)
    assert kernel(args.ctypes.data) == 0
    tenth = numbers * np.float32(0.1) + np.float32(3)
    np.testing.assert_array_equal(shared, np.sqrt(np.maximum(tenth, numbers)))


@njit
def fold(count: int, start: int) -> int:
    """A function that calls itself, so that not all of it is inlined."""
    if count <= 0:
        return start
    return fold(count - 1, start * 3 + count) ^ fold(count - 2, start)


def folded(count: int, start: int) -> int:
    return fold(count, start)


def triangle(count: int, start: int) -> int:
    for i in range(count):
        start ^= start * i
    return start


def test_a_c_function_calls_nothing_of_its_own() -> None:
    """The function that it wraps is optimised with it, and ends as a part of it."""
    text = assembly_of(triangle, 2, 64)
    assert "imul" in text
    assert not re.search(r"^\s*(?:call|jmp)q?\s+[\w\"$]", text, re.MULTILINE)


def test_an_object_file_shows_one_function() -> None:
    """Names of others would be those of other object files by chance."""
    text = assembly_of(folded, 2, 64)
    shown = re.findall(r"^\s*\.(?:globl|weak|comm)\s+([\w.$]+)", text, re.MULTILINE)
    assert shown == ["function"]
