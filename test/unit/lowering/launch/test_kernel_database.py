"""The kernel database and its keys."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import StringAttr

from penstock.dialects.launch import KernelOp
from penstock.lowering.kernel_times import keys
from penstock.lowering.kernel_times.database import (
    DatabaseError,
    Entry,
    KernelDatabase,
    Time,
)
from penstock.lowering.kernel_times.keys import Key, kernel_key, machine_here

ParseKernel: TypeAlias = Callable[[str], KernelOp]

STAMP = "2026-11-21T12:00:00+00:00"
SHARED = [HealthCheck.function_scoped_fixture]


def time(median: float, source: str = "penstock") -> Time:
    """A time of 3 samples."""
    return Time(median, median - 1, 3, STAMP, source)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a database may be made."""
    return tmp_path / "kernels.db"


# Rows ---------------------------------------------------------------------------------


def test_what_was_recorded_is_read_by_another_connection(path: Path) -> None:
    with KernelDatabase(path, write=True) as database:
        database.record(Key("a"), {"rules": time(5.5), "loops": time(7)})
    with KernelDatabase(path) as database:
        assert database.times(Key("a")) == {"rules": time(5.5), "loops": time(7)}
        assert database.times(Key("b")) == {}


def test_the_last_time_counts_unless_nothing_is_to_be_overwritten(path: Path) -> None:
    with KernelDatabase(path, write=True) as database:
        database.record(Key("a"), {"rules": time(5)})
        database.record(Key("a"), {"rules": time(9), "x": time(1)}, overwrite=False)
        assert database.times(Key("a")) == {"rules": time(5), "x": time(1)}
        database.record(Key("a"), {"rules": time(9)})
        assert database.times(Key("a")) == {"rules": time(9), "x": time(1)}


def test_rows_are_found_by_op_target_and_source(path: Path) -> None:
    with KernelDatabase(path, write=True) as database:
        database.record(Key("a"), {"rules": time(5)}, op="op.matmul")
        database.record(Key("b"), {"acme": time(4, "acme")}, op="op.add", target="cuda")
        matmul = Entry("op.matmul", "cpu", "rules", time(5))
        add = Entry("op.add", "cuda", "acme", time(4, "acme"))
        assert database.entries() == [add, matmul]
        assert database.entries(op="op.matmul") == [matmul]
        assert database.entries(target="cuda") == [add]
        assert database.entries(source="acme", op="op.add") == [add]
        assert database.entries(source="acme", op="op.matmul") == []


def test_keys_of_one_digest_are_told_apart_by_their_text(path: Path) -> None:
    first, second = Key("a"), Key("b")
    second.__dict__["digest"] = first.digest
    with KernelDatabase(path, write=True) as database:
        database.record(first, {"rules": time(5)})
        assert database.times(second) == {}
        database.record(second, {"rules": time(6)})
        assert database.times(first) == {"rules": time(5)}
        assert database.times(second) == {"rules": time(6)}


def test_a_measurement_that_fails_half_way_leaves_nothing(path: Path) -> None:
    broken = Time(1.0, 1.0, 3, None)  # pyright: ignore[reportArgumentType] # not null
    with KernelDatabase(path, write=True) as database:
        with pytest.raises(DatabaseError, match="NOT NULL constraint failed"):
            database.record(Key("a"), {"rules": time(5), "x": broken})
        assert database.times(Key("a")) == {}
        database.record(Key("a"), {"rules": time(5)})


# Other processes ----------------------------------------------------------------------

WRITES = 40
WRITER = """
import sys
from pathlib import Path
from penstock.lowering.kernel_times.database import KernelDatabase, Time
from penstock.lowering.kernel_times.keys import Key

for number in range({writes}):
    with KernelDatabase(Path(sys.argv[1]), write=True) as database:
        time = Time(number + 10, number + 9, 3, "{stamp}")
        database.record(Key(f"shared {{number}}"), {{sys.argv[2]: time}})
"""


@pytest.mark.slow
def test_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    code = WRITER.format(writes=WRITES, stamp=STAMP)
    names = ["one", "two", "three"]
    writers = [
        subprocess.Popen([sys.executable, "-c", code, path, name]) for name in names
    ]
    assert [writer.wait(300) for writer in writers] == [0, 0, 0]
    with KernelDatabase(path) as database:
        for number in range(WRITES):
            expected = {name: time(number + 10) for name in names}
            assert database.times(Key(f"shared {number}")) == expected


def test_a_reader_sees_what_was_there_while_another_one_writes(path: Path) -> None:
    with KernelDatabase(path, write=True) as database:
        database.record(Key("a"), {"rules": time(5)})
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE time SET median_ns = 99")
        with KernelDatabase(path) as reader:
            assert reader.times(Key("a")) == {"rules": time(5)}
        other.execute("ROLLBACK")
        other.close()


# Files that are none ------------------------------------------------------------------


def test_there_must_be_a_file_to_read(path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"cannot read .*kernels.db: no such file"):
        KernelDatabase(path)
    assert not path.exists()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none" / "kernels.db"
    with pytest.raises(DatabaseError, match="unable to open database file"):
        KernelDatabase(path, write=True)


@pytest.mark.parametrize("write", [False, True])
def test_another_file_is_refused_and_not_changed(path: Path, write: bool) -> None:
    data = b"This is a text, and much longer than the head of a database." * 40
    path.write_bytes(data)
    with pytest.raises(DatabaseError, match="file is not a database"):
        KernelDatabase(path, write=write)
    assert path.read_bytes() == data


@pytest.mark.parametrize("write", [False, True])
def test_another_database_is_refused_and_not_changed(path: Path, write: bool) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE people (name TEXT)")
    other.close()
    with pytest.raises(DatabaseError, match="is no kernel database"):
        KernelDatabase(path, write=write)
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("people",)]
    other.close()


def test_tables_of_another_version_are_refused(path: Path) -> None:
    KernelDatabase(path, write=True).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 7")
    other.close()
    with pytest.raises(DatabaseError, match="has tables of version 7, expected 2"):
        KernelDatabase(path)


def test_damage_is_found(path: Path) -> None:
    with KernelDatabase(path, write=True) as database:
        for number in range(200):
            database.record(Key(f"{number}" * 50), {"rules": time(5)})
    data = bytearray(path.read_bytes())
    page = 4096
    data[page : 9 * page] = b"\xff" * (8 * page)
    path.write_bytes(data)
    with pytest.raises(DatabaseError, match=r"damaged|malformed"):
        KernelDatabase(path)


def test_a_row_with_a_flipped_bit_counts_as_missing(path: Path) -> None:
    with KernelDatabase(path, write=True) as database:
        database.record(Key("a"), {"rules": time(5), "tiles": time(7)})
    changes = (
        *("median_ns = 5.5", "least_ns = 1", "samples = 2", "measured_at = '2027'"),
        *("source = 'qenstock'", "checksum = '0'", "alternative = 'rulds'"),
        "alternative = CAST(x'ff' AS TEXT)",
    )
    for change in changes:
        other = sqlite3.connect(path)
        other.execute(f"UPDATE time SET {change} WHERE alternative = 'rules'")
        other.commit()
        other.close()
        with KernelDatabase(path, write=True) as database:
            assert database.times(Key("a")) == {"tiles": time(7)}
            assert [entry.alternative for entry in database.entries()] == ["tiles"]
            # It is measured again, also where nothing is overwritten.
            database.record(
                Key("a"), {"rules": time(6), "tiles": time(9)}, overwrite=False
            )
            assert database.times(Key("a")) == {"rules": time(6), "tiles": time(7)}


# Keys ---------------------------------------------------------------------------------

PRODUCT = """
launch.kernel @{name} target "{target}" (%{a}: memref<4x{k}x{type}>,
    %{b}: memref<{k}x4x{type}>, %o: memref<4x4x{type}>) {{
  linalg.matmul ins(%{left}, %{right} : memref<4x{k}x{type}>, memref<{k}x4x{type}>)
    outs(%o : memref<4x4x{type}>)
}}"""


def product(parse: ParseKernel, **changes: object) -> KernelOp:
    """A kernel of a product of matrices."""
    facts = {"name": "k", "target": "cpu", "a": "a", "b": "b", "k": 4, "type": "f32"}
    facts |= {"left": "a", "right": "b", **changes}
    return parse(PRODUCT.format(**facts))


def test_names_and_notes_are_no_part_of_a_key(parse_kernel: ParseKernel) -> None:
    plain = product(parse_kernel)
    renamed = product(parse_kernel, name="other", a="x", b="y", left="x", right="y")
    renamed.attributes["selected"] = StringAttr("rules: just so")
    renamed.attributes["refused"] = StringAttr("nothing")
    keys = {kernel_key(k, "here", vector_bytes=64).text for k in (plain, renamed)}
    assert len(keys) == 1
    assert renamed.sym_name.data == "other"
    assert "selected" in renamed.attributes
    assert renamed.body.block.args[0].name_hint == "x"


def test_all_that_a_time_depends_on_is_part_of_a_key(parse_kernel: ParseKernel) -> None:
    plain = product(parse_kernel)
    others = [
        product(parse_kernel, **change)
        for change in (
            {"target": "cuda"},
            {"k": 5},
            {"type": "f64"},
            {"left": "b", "right": "a"},
            {"left": "a", "right": "a"},
        )
    ]
    noted = product(parse_kernel)
    noted.attributes["fast"] = StringAttr("")
    found = [kernel_key(k, "here", vector_bytes=64) for k in (plain, *others, noted)]
    found += [
        kernel_key(plain, "there", vector_bytes=64),
        kernel_key(plain, "here", vector_bytes=32),
        kernel_key(plain, "here", vector_bytes=64, parts=2),
        kernel_key(plain, "here", vector_bytes=64, constants=[1]),
        kernel_key(plain, "here", vector_bytes=64, constants=[1, 0]),
    ]
    assert len({key.text for key in found}) == len(found)
    assert len({key.digest for key in found}) == len(found)


TEXTS = st.text(alphabet='ab"\\,:{}[] \n', max_size=6)
SHAPES = st.lists(st.integers(1, 30), min_size=1, max_size=3)


@pytest.mark.slow
@settings(suppress_health_check=SHARED, max_examples=60, deadline=None)
@given(st.lists(st.tuples(SHAPES, SHAPES, TEXTS, TEXTS), min_size=2, max_size=6))
def test_different_kernels_never_have_one_key(
    parse_kernel: ParseKernel, facts: list[tuple[list[int], list[int], str, str]]
) -> None:
    texts: dict[str, object] = {}
    for left, right, note, machine in facts:
        shapes = ("x".join(map(str, shape)) for shape in (left, right))
        first, second = shapes
        kernel = parse_kernel(
            f'launch.kernel @k target "cpu" (%a: memref<{first}xf32>, '
            f"%b: memref<{second}xf32>) {{ }}"
        )
        kernel.attributes["source"] = StringAttr(note)
        text = kernel_key(kernel, machine, vector_bytes=64).text
        identity = tuple(left), tuple(right), note, machine
        assert texts.setdefault(text, identity) == identity
    assert len(texts) == len({repr(fact) for fact in facts})


def test_a_machine_is_told_by_its_processor_and_by_what_makes_its_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from llvmlite import binding

    here = machine_here()
    assert binding.get_host_cpu_name() in here
    assert "numba" in here

    def other() -> list[Path]:
        return [Path(__file__)]

    monkeypatch.setattr(keys, "generators", other)
    assert machine_here.__wrapped__() != here
    monkeypatch.undo()
    assert machine_here.__wrapped__() == here
    monkeypatch.setattr(keys, "ABI", 2)
    assert machine_here.__wrapped__() != here
