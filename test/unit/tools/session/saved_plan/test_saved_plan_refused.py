"""Plans that are refused and why, and code in files, which nobody runs."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import Array
from penstock.tools.cli.run import run_tool
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.errors import FileError, UsageError
from penstock.tools.session.arrays import read_arrays
from penstock.tools.session.saved_plan.archive import MANIFEST, PlanError
from penstock.tools.session.saved_plan.plan import KERNEL_ABI, cpu_name, read_plan
from penstock.tools.session.session import Session

Members: TypeAlias = dict[str, bytes]
Edit: TypeAlias = Callable[[Members], None]


def same(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    """Whether arrays have the same names, shapes, dtypes and bits."""
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape)
        and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


# Refusals ----------------------------------------------------------------------------


def changed(
    path: Path, target: Path, edit: Edit, *, facts: Mapping[str, Any] | None = None
) -> Path:
    """A copy of a plan whose members and facts are others, with right checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    edit(members)
    manifest["members"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    manifest.update(facts or {})
    write(target, {MANIFEST: json.dumps(manifest).encode(), **members})
    return target


def write(path: Path, members: Mapping[str, bytes], kind: int = 0) -> None:
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def leave(members: Members) -> None:
    """Change nothing."""


def refusal_of(path: Path, device: str | None = None) -> str:
    """Why a file is refused, without its name."""
    with pytest.raises(PlanError) as caught:
        read_plan(path, device)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"format": "cake"}, "it is no penstock plan"),
        (
            {"version": 9},
            "it has version 9 of the format, but this penstock reads versions 1 and 2",
        ),
        (
            {"version": "1"},
            "it has version '1' of the format, but this penstock reads versions 1 "
            "and 2",
        ),
        (
            {"abi": 77, "versions": {"penstock": "9.9"}},
            "it was saved by penstock 9.9 with kernel ABI 77, but penstock 0.1.0 has "
            f"kernel ABI {KERNEL_ABI}: compile the model anew",
        ),
        (
            {"abi": None, "versions": 3},
            "it was saved by penstock of unknown version with kernel ABI None, but "
            f"penstock 0.1.0 has kernel ABI {KERNEL_ABI}: compile the model anew",
        ),
        (
            {"cpu": "warp-core", "features": ["avx9", "warp"]},
            "its kernels were tiled for warp-core with avx9, warp, which this "
            f"processor ({cpu_name()}) lacks: compile the model anew",
        ),
        ({"features": "avx"}, "its manifest has no list of features"),
        ({"devices": [1]}, "its manifest has no list of devices"),
        ({"members": []}, "its manifest lists no members"),
        ({"weights": {}}, "its weights are not those of its program: 'b/../b', 'w'"),
        (
            {"weights": {"w": "weights/1.npy", "b/../b": "weights/7.npy"}},
            "it lacks weights/7.npy",
        ),
    ],
)
def test_facts_that_cannot_be(
    facts: dict[str, Any],
    message: str,
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
):
    path = changed(saved[0], tmp_path / "x.penstock", leave, facts=facts)
    assert refusal_of(path) == message


def test_device_that_it_was_not_compiled_for(saved: tuple[Path, dict[str, Array]]):
    assert refusal_of(saved[0], "cuda") == (
        "it was compiled for cpu and cannot run on cuda"
    )
    assert read_plan(saved[0], "cpu").devices == ["cpu"]


def test_changed_byte_anywhere(saved: tuple[Path, dict[str, Array]], tmp_path: Path):
    data, path = saved[0].read_bytes(), tmp_path / "x.penstock"
    with zipfile.ZipFile(saved[0]) as archive:
        names = [name for name in archive.namelist() if name != MANIFEST]
        parts = {name: data.index(archive.read(name)) for name in names}
    for name, start in parts.items():
        flipped = bytearray(data)
        flipped[start + 3] ^= 1
        path.write_bytes(flipped)
        message = f"the checksum of '{name}' is not that of its manifest"
        assert refusal_of(path) == message


def test_truncated_file_is_refused_wherever_it_ends(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    data, path = saved[0].read_bytes(), tmp_path / "x.penstock"
    for size in (0, 1, 30, len(data) // 2, len(data) - 30, len(data) - 1):
        path.write_bytes(data[:size])
        assert refusal_of(path).startswith("it is cut off, or no zip file: ")


def test_file_that_is_not_there_is_an_error_as_of_other_files(tmp_path: Path):
    for suffix in (".penstock", ".mlir", ".onnx"):
        path = tmp_path / f"none{suffix}"
        with pytest.raises(UsageError) as caught:
            Session.open(path)
        assert str(caught.value) == f"cannot read {path}: no such file or directory"
        assert not isinstance(caught.value, FileError)


def test_damaged_plan_is_an_error_of_a_file(tmp_path: Path):
    path = tmp_path / "x.penstock"
    path.write_text("nothing")
    with pytest.raises(FileError, match=r"x\.penstock: it is cut off, or no zip file"):
        Session.open(path)


def test_file_that_cannot_be_written(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    path = tmp_path / "none" / "x.penstock"
    with Session.open(saved[0]) as session, pytest.raises(UsageError) as caught:
        session.save(path)
    assert str(caught.value) == f"cannot write {path}: no such file or directory"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a": b""}, "it has no manifest.json"),
        ({MANIFEST: b"[1]"}, "its manifest is no JSON object"),
        ({MANIFEST: b"{", "a": b""}, "its manifest is no JSON: Expecting property"),
        ({MANIFEST: b"[" * 100_000}, "its manifest is no JSON: "),
        (
            {MANIFEST: b'{"format": "penstock plan", "version": 1, "abi": 1}'},
            "its manifest lists no members",
        ),
    ],
)
def test_other_zip_files(members: Members, message: str, tmp_path: Path):
    write(tmp_path / "x.penstock", members)
    assert refusal_of(tmp_path / "x.penstock").startswith(message)


def test_compressed_members_are_refused_before_they_grow(tmp_path: Path):
    path = tmp_path / "bomb.penstock"
    write(path, {MANIFEST: bytes(50_000_000)}, zipfile.ZIP_DEFLATED)
    assert refusal_of(path) == "'manifest.json' is compressed or encrypted"


def test_sizes_beyond_the_file(saved: tuple[Path, dict[str, Array]], tmp_path: Path):
    data, path = bytearray(saved[0].read_bytes()), tmp_path / "x.penstock"
    # The sizes that the central directory gives of its first member.
    start = data.index(b"PK\x01\x02")
    data[start + 20 : start + 28] = (1 << 30).to_bytes(4, "little") * 2
    path.write_bytes(data)
    assert refusal_of(path) == "'manifest.json' lies beyond the end of the file"


def test_manifest_of_absurd_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.tools.session.saved_plan.archive.MAX_MANIFEST", 10)
    write(tmp_path / "x.penstock", {MANIFEST: b" " * 11})
    assert refusal_of(tmp_path / "x.penstock") == "its manifest has 11 bytes"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_member_that_is_there_twice(tmp_path: Path):
    path = tmp_path / "x.penstock"
    write(path, {MANIFEST: b"{}"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(MANIFEST, b"{}")
    assert refusal_of(path) == "it holds 'manifest.json' twice"


def test_members_that_lack_or_that_nobody_knows(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    path, target = saved[0], tmp_path / "deep" / "x.penstock"
    target.parent.mkdir()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    write(target, {**members, "../evil.py": b"boom"})
    assert refusal_of(target) == "it holds ../evil.py, which its manifest lacks"
    assert not (tmp_path / "evil.py").exists()
    del members["kernels.py"]
    write(target, members)
    assert refusal_of(target) == "it lacks kernels.py"


def npy(array: Array | np.ndarray[Any, np.dtype[np.object_]], folder: Path) -> bytes:
    np.save(folder / "a.npy", array, allow_pickle=True)
    return (folder / "a.npy").read_bytes()


class Evil:
    """An object that runs code when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_arrays_of_python_objects_are_not_unpickled(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    trace = tmp_path / "trace"
    data = npy(np.array([Evil(trace)], object), tmp_path)

    def edit(members: Members) -> None:
        members["weights/0.npy"] = data

    path = changed(saved[0], tmp_path / "x.penstock", edit)
    assert refusal_of(path) == "'weights/0.npy' holds Python objects"
    assert not trace.exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"cake", "'weights/0.npy' is no .npy file: "),
        (
            b"\x93NUMPY\x02\x00",
            "'weights/0.npy' is no .npy file: the version is not 1.0",
        ),
        (b"\x93NUMPY\x01\x00\x04\x00oops", "'weights/0.npy' is no .npy file: "),
        ("long", "'weights/0.npy' has 16 bytes for a float32 array of shape (3,)"),
        (
            "huge",
            "'weights/0.npy' has 12 bytes for a float32 array of shape (9999999,)",
        ),
    ],
)
def test_members_that_are_no_arrays(
    data: bytes | str,
    message: str,
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
):
    three = npy(np.zeros(3, np.float32), tmp_path)
    huge = three.replace(b"(3,), }      ", b"(9999999,), }")
    contents = {"long": three + b"four", "huge": huge}

    def edit(members: Members) -> None:
        members["weights/0.npy"] = data if isinstance(data, bytes) else contents[data]

    path = changed(saved[0], tmp_path / "x.penstock", edit)
    assert refusal_of(path).startswith(message)


def test_arrays_of_another_shape_than_the_program_wants(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    data = npy(np.zeros(4, np.float32), tmp_path)

    def edit(members: Members) -> None:
        members["weights/0.npy"] = data

    path = changed(saved[0], tmp_path / "x.penstock", edit)
    with pytest.raises(PenstockError) as caught:
        Session.open(path)
    assert str(caught.value) == (
        "variable 'b/../b' has shape (3,), got an array of shape (4,)"
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_damage_is_refused_or_harmless(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    random, target = np.random.default_rng(11), tmp_path / "x.penstock"
    data = saved[0].read_bytes()
    places = [*range(3000), *range(data.index(b"PK\x01\x02"), len(data))]
    refused = 0
    for turn in range(400):
        # Half of them have right checksums, so that what they cover is looked at.
        if turn % 2:
            path = changed(saved[0], target, lambda members: hit(members, random))
        else:
            bad = bytearray(data)
            bad[random.choice(places)] = random.integers(256)
            target.write_bytes(bad)
            path = target
        try:
            read_plan(path).values()
        except PenstockError:
            refused += 1
    assert refused > 200


def hit(members: Members, random: np.random.Generator) -> None:
    """Change bytes of the header of an array."""
    header = bytearray(members["weights/0.npy"])
    for _ in range(2):
        header[random.integers(128)] = random.choice(list(b"9,(O}\x00\xff "))
    members["weights/0.npy"] = bytes(header)


def test_header_that_numpy_itself_does_not_expect(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    def edit(members: Members) -> None:
        data = members["weights/0.npy"]
        members["weights/0.npy"] = data.replace(b"}", b"(", 1)

    path = changed(saved[0], tmp_path / "x.penstock", edit)
    assert refusal_of(path).startswith("'weights/0.npy' is no .npy file: ")
    np.save(tmp_path / "a.npy", np.zeros(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        bad = (tmp_path / "a.npy").read_bytes().replace(b"}", b"(", 1)
        archive.writestr("a.npy", bad)
    with pytest.raises(UsageError, match=r"cannot read .*a\.npz: "):
        read_arrays(tmp_path / "a.npz")


# Code in files -----------------------------------------------------------------------


@pytest.mark.parametrize("seen", [False, True])
def test_source_in_a_file_is_never_run(
    piece: dict[str, Array],
    seen: bool,
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
    empty_cache: Path,
):
    trace = tmp_path / "trace"
    evil = f"import pathlib; pathlib.Path({str(trace)!r}).touch()\n"

    def edit(members: Members) -> None:
        first, _, rest = members["kernels.py"].partition(b"\n")
        members["kernels.py"] = first + b"\n" + evil.encode() + rest

    path = changed(saved[0], tmp_path / "x.penstock", edit)
    if seen:
        # Then it is not even looked at: the text says what is run.
        Session.open(saved[0]).close()
        with Session.open(path) as session:
            assert same(session.run(piece), saved[1])
    else:
        assert refusal_of(path) == (
            "from line 2 on, 'kernels.py' is not the source of the kernels in "
            "'program.mlir'"
        )
    assert not trace.exists()


def test_source_of_another_build_is_not_compared(
    piece: dict[str, Array],
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
    empty_cache: Path,
):
    def edit(members: Members) -> None:
        members["kernels.py"] = b"# printed otherwise\n"

    facts = {"build": "another"}
    path = changed(saved[0], tmp_path / "x.penstock", edit, facts=facts)
    with Session.open(path) as session:
        assert same(session.run(piece), saved[1])


def with_own_source(path: Path, target: Path, trace: Path) -> Path:
    """A copy of a plan in which all kernels do nothing but leave a trace."""
    source = f"""
from pathlib import Path
from penstock.runtime.kernels.cpu.support import c_kernel
Path({str(trace)!r}).touch()

@c_kernel
def kernel(args, part, parts):
    return 0
"""
    quoted = source.replace("\n", "\\n")

    def edit(members: Members) -> None:
        text = members["program.mlir"].decode()
        text = text.replace(
            "attributes {cost", f'attributes {{source = "{quoted}", cost'
        )
        # Nobody knows what a source returns.
        text = text.replace(" reads [", " can_fail reads [")
        members["program.mlir"] = text.encode()

    return changed(path, target, edit, facts={"build": "another"})


OWN_SOURCE = (
    "brings Python source of its own, which is only run if that is allowed "
    "(--allow-source, allow_source=True)"
)


def test_source_in_a_program_is_run_only_if_that_is_allowed(
    piece: dict[str, Array],
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
    empty_cache: Path,
    capsys: pytest.CaptureFixture[str],
):
    trace = tmp_path / "trace"
    path = with_own_source(saved[0], tmp_path / "x.penstock", trace)
    text = tmp_path / "x.mlir"
    text.write_bytes(read_plan(path).text.encode())
    # Also on a machine that has seen it.
    for _ in range(2):
        with pytest.raises(PlanError, match=r"^program\.mlir:8:3: kernel '\w+' br"):
            Session.open(path)
    with pytest.raises(Rejected) as caught:
        Session.open(text)
    assert all(d.message.endswith(OWN_SOURCE) for d in caught.value.diagnoses)
    for file, *more in ((path,), (text,), (text, "--tune")):
        assert run_tool([str(file), "--random-inputs", "1", *more]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert lines
        assert all(line.endswith(OWN_SOURCE) for line in lines)
    assert not trace.exists()
    y = np.full_like(saved[1]["y"], 7)
    with Session.open(path, allow_source=True) as session:
        session.bind(piece, {"y": y}).run()
    assert np.isin(y, (0, 7)).all(), "kernels write nothing"
    assert trace.exists()
    trace.unlink()
    assert run_tool([str(text), "--random-inputs", "1", "--allow-source"]) == 0


FAR = """
      %far = arith.constant 1000000000000 : index
      %none = arith.constant 0 : index
      %one = arith.constant 1 : index
      "scf.parallel"(%none, %one, %one)
          <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
      ^bb0(%at: index):
        %element = memref.load %in[%far{more}] : memref<{type}>
        memref.store %element, %in[%far{more}] : memref<{type}>
        "scf.reduce"() : () -> ()
      }}) : (index, index, index) -> ()
"""


def with_far_access(path: Path, target: Path) -> Path:
    """A copy of a plan in which a kernel writes far behind its first argument."""

    def edit(members: Members) -> None:
        text = members["program.mlir"].decode()
        head = r"launch\.kernel @[^\n]* \(%\w+: memref<([^>]*)>[^\n]*\n"
        begin = re.search(head, text)
        assert begin is not None
        named = re.sub(r"\(%\w+:", "(%in:", begin[0])
        old = re.search(r"\((%\w+):", begin[0])
        assert old is not None
        body, end = text[begin.end() :].split("\n  }", 1)
        body = re.sub(rf"{old[1]}\b", "%in", body)
        far = FAR.format(type=begin[1], more=", %none" * (begin[1].count("x") - 1))
        changed_text = f"{text[: begin.start()]}{named}{far}{body}\n  }}{end}"
        members["program.mlir"] = changed_text.encode()

    return changed(path, target, edit, facts={"build": "another"})


REACHES_OUT = (
    r"kernel '\w+' may reach outside of its memory by memref\.load, which is only run "
    r"if that is allowed \(--allow-source, allow_source=True\)"
)


def test_accesses_outside_of_memory_are_refused(
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
    empty_cache: Path,
    capsys: pytest.CaptureFixture[str],
):
    path = with_far_access(saved[0], tmp_path / "x.penstock")
    text = tmp_path / "x.mlir"
    with zipfile.ZipFile(path) as archive:
        text.write_bytes(archive.read("program.mlir"))
    # Also on a machine that has seen it.
    for _ in range(2):
        with pytest.raises(PlanError, match=rf"^program\.mlir:\d+:\d+: {REACHES_OUT}$"):
            Session.open(path)
    with pytest.raises(Rejected, match=REACHES_OUT):
        Session.open(text)
    for file, more in ((path, []), (text, []), (text, ["--tune"])):
        assert run_tool([str(file), "--random-inputs", "1", *more]) == 1
        (line,) = capsys.readouterr().err.splitlines()[:1]
        assert re.search(rf"\.mlir:\d+:\d+: .*{REACHES_OUT}$|{REACHES_OUT}$", line)
    # What is allowed is compiled, but this had better not run.
    Session.open(path, allow_source=True).close()


def damaged_place(text: str) -> str:
    """The text of a program whose first register ends behind its chunk."""
    return re.sub(r"(launch\.register [^\n]* at )\d+", r"\g<1>1048576", text, count=1)


def damaged_kind(text: str) -> str:
    """The text of a program with a kernel that takes more than it is given."""
    begin = re.search(r"launch\.kernel @[^\n]* \(%\w+: memref<(\d+)x", text)
    assert begin is not None
    return f"{text[: begin.start(1)]}9{text[begin.start(1) :]}"


@pytest.mark.parametrize("damage", [damaged_place, damaged_kind])
def test_places_and_arguments_that_do_not_fit_are_refused(
    damage: Callable[[str], str],
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
    empty_cache: Path,
    capsys: pytest.CaptureFixture[str],
):
    def edit(members: Members) -> None:
        before = members["program.mlir"].decode()
        members["program.mlir"] = damage(before).encode()
        assert members["program.mlir"].decode() != before

    facts = {"build": "another"}
    path = changed(saved[0], tmp_path / "x.penstock", edit, facts=facts)
    assert run_tool([str(path), "--random-inputs", "1"]) == 1
    found = capsys.readouterr().err.splitlines()[0]
    assert re.match(rf"{re.escape(str(path))}/program\.mlir:\d+:\d+: error: ", found)


def test_text_that_is_no_program(
    saved: tuple[Path, dict[str, Array]],
    tmp_path: Path,
    empty_cache: Path,
    capsys: pytest.CaptureFixture[str],
):
    def edit(members: Members) -> None:
        members["program.mlir"] = b"import os\n"

    path = changed(saved[0], tmp_path / "x.penstock", edit)
    assert run_tool([str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"{path}/program.mlir:1:1: error: ")

    def garble(members: Members) -> None:
        members["program.mlir"] = b"\xff"

    path = changed(saved[0], tmp_path / "x.penstock", garble)
    assert refusal_of(path) == "'program.mlir' is no UTF-8 text"


def test_damaged_cache_is_made_anew(
    piece: dict[str, Array], saved: tuple[Path, dict[str, Array]], empty_cache: Path
):
    Session.open(saved[0]).close()
    (kept,) = empty_cache.rglob("plan.zip")
    before = kept.read_bytes()
    kept.write_bytes(before[: len(before) // 2])
    with Session.open(saved[0]) as session:
        assert same(session.run(piece), saved[1])
    assert kept.read_bytes() == before
