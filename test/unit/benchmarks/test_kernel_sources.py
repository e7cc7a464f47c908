"""Sources of kernels stay as they are, and a list of them tells where they do not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from xdsl.utils.arg_spec import ArgSpec

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.kernel_sources import main
from benchmarks.kernels.inputs import lines_of_file
from benchmarks.kernels.lists import Entry, differences, read_list
from benchmarks.kernels.lowering import FAILED
from benchmarks.kernels.resources import Resources, described, is_worse
from benchmarks.kernels.variants import PLAIN, aligned

ROOT = Path(__file__).parents[3]
KEPT = Path(__file__).with_name("kernel_sources.txt")
FILES = (
    *("examples/digits.mlir", "examples/encoder.mlir"),
    *sorted(
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("test/target/*.mlir")
        if not path.stem.endswith("-invalid")
    ),
)
DIGITS = 16

ADVICE = """\
{count} kernels have other sources than {kept} says:
{names}
A change that is to keep sources has to be mended: CONTRIBUTING.md, "How to change
kernels", shows how to see what differs. If they are to change, name them and the reason
in the commit, and write the list anew: RENEW_SOURCES=1 pytest -k kernel_sources"""

JOB = """\
job.job @one placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
"""
SPOILT = """\
// -----
job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf33>
}
"""


################################################################################
# The list of the suite                                                        #
################################################################################


def found_list() -> list[str]:
    """The lines of the kernels as they are now."""
    return [
        f"{line.key[:DIGITS]} {line.case} {line.kernel}"
        for name in FILES
        for line in lines_of_file(ROOT / name, ROOT, PLAIN)
        if line.kernel != FAILED
    ]


def test_kernels_have_the_sources_that_are_kept(tmp_path: Path) -> None:
    found = "".join(f"{line}\n" for line in found_list())
    if os.environ.get("RENEW_SOURCES"):
        KEPT.write_text(found, "utf-8")
    now = tmp_path / "now.txt"
    now.write_text(found, "utf-8")
    names = [
        f"  {each.case} {(each.new or each.old or Entry('', '')).kernel}"
        for each in differences(read_list(KEPT), read_list(now))
    ]
    advice = ADVICE.format(
        count=len(names), kept=KEPT.relative_to(ROOT), names="\n".join(names)
    )
    assert not names, advice


################################################################################
# Lists                                                                        #
################################################################################


def test_equal_sources_are_equal_under_other_names() -> None:
    old = {"case": [Entry("p.0:a", "1"), Entry("p.1:b", "2")]}
    new = {"case": [Entry("p.0:c", "2"), Entry("p.1:d", "1")]}
    assert [*differences(old, new)] == []


def test_kernels_of_one_name_belong_together() -> None:
    old = {"case": [Entry("p.0:a", "1"), Entry("p.1:b", "2"), Entry("p.2:c", "3")]}
    new = {"case": [Entry("p.0:z", "3"), Entry("p.1:b", "5"), Entry("p.2:y", "6")]}
    found = [*differences(old, new)]
    pairs = [(x.old and x.old.kernel, x.new and x.new.kernel) for x in found]
    assert pairs == [("p.1:b", "p.1:b"), ("p.0:a", "p.2:y")]


def test_a_source_counts_as_often_as_it_is_there() -> None:
    old = {
        "case": [Entry("p.0:a", "1"), Entry("p.1:b", "1")],
        "gone": [Entry("c", "2")],
    }
    new = {"case": [Entry("p.0:a", "1")]}
    found = [*differences(old, new)]
    assert [(x.case, x.old and x.old.key, x.new) for x in found] == [
        ("case", "1", None),
        ("gone", "2", None),
    ]


def test_pipelines_are_aligned_by_the_passes_that_all_have() -> None:
    a, b, c, d = (ArgSpec(name, {}) for name in "abcd")
    assert aligned([(a, c, c), (a, b, c, c), (a, c, c, d)]) == [
        (a, None, c, c, None),
        (a, b, c, c, None),
        (a, None, c, c, d),
    ]


def test_resources_are_shown_side_by_side() -> None:
    old, new = Resources(32, 0, 0, 64, 128, 90), Resources(40, 0, 0, 64, 128, 80)
    assert described(old, new) == (
        "registers 32 -> 40, spilled 0, stack 0, shared 64, threads 128, "
        "instructions 90 -> 80"
    )
    assert is_worse(old, new)
    assert not is_worse(new, old)


################################################################################
# The command                                                                  #
################################################################################


def run(folder: Path, text: str, *options: str) -> Path:
    """Keep the kernels of a file with this text; the folder of the list."""
    inputs, kept = folder / "inputs", folder / "kept"
    inputs.mkdir(parents=True)
    (inputs / "job.mlir").write_text(text, "utf-8")
    words = ["job.mlir", "--inputs", str(inputs), "--keep", str(kept), *options]
    assert main(words) == 0
    return kept


def test_a_list_has_each_variant_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = read_list(run(tmp_path, JOB + SPOILT))
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == sum(map(len, kept.values()))
    cpu = [
        f"job.mlir#0:cpu:{width}:threads={threads}{panels}"
        for width in (64, 32, 16)
        for threads in (1, 2)
        for panels in ("", ":no-panels")
    ]
    cuda = [f"job.mlir#0:cuda:64:threads={threads}" for threads in (1, 2)]
    # Neither waves nor Winograd make anything else of it.
    assert sorted(kept) == sorted([*cpu, *cuda, "job.mlir#1"])
    assert kept[cpu[0]] == kept[cpu[-1]] != kept[cuda[0]]
    assert [entry.kernel for entry in kept["job.mlir#1"]] == [FAILED]


def test_what_differs_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = run(tmp_path / "old", JOB, "--quick")
    new = run(tmp_path / "new", JOB.replace("relu", "gelu"), "--quick")
    capsys.readouterr()
    assert main(["--compare", str(old), str(old)]) == 0
    assert capsys.readouterr().out.endswith(
        "kernels that differ: 0 (0 different pairs of sources)\n"
    )
    assert main(["--compare", str(old), str(new), "--diffs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "job.mlir#0:cpu:64:threads=1 one.0:relu_0 -> one.0:gelu_0\n" in shown
    assert shown.count("\n--- old/") == 1
    assert shown.endswith("kernels that differ: 3 (2 different pairs of sources)\n")


def test_a_list_has_to_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--compare", str(tmp_path), str(tmp_path)])
    path = tmp_path / "kernels.txt"
    assert f"no list {path}: --keep writes it" in capsys.readouterr().err


def test_shards_make_the_whole(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.mlir").write_text(JOB, "utf-8")

    def listed(shard: str) -> set[str]:
        kept = tmp_path / shard.replace("/", "-")
        words = [".", "--inputs", str(tmp_path), "--quick", "--keep", str(kept)]
        assert main([*words, "--shard", shard]) == 0
        return {*read_list(kept)}

    first, second = listed("1/2"), listed("2/2")
    assert not first & second
    assert first | second == listed("1/1")


def test_jobs_that_do_not_fit_together_are_taken_alone(tmp_path: Path) -> None:
    other = JOB.replace("@one", "@other").replace("<4x", "<8x")
    kept = read_list(run(tmp_path, JOB + other, "--quick"))
    assert [entry.kernel for entry in kept["job.mlir#0:cpu:64:threads=1"]] == [FAILED]
    alone = [case for case in kept if "@" in case]
    assert alone == [
        f"job.mlir#0@{job}:{variant}" for job in ("one", "other") for variant in PLAIN
    ]


def test_passes_of_run_lines_are_run(tmp_path: Path) -> None:
    line = (
        "// RUN: penstock-opt %s --pipeline cpu -p launch-form-waves | filecheck %s\n"
    )
    kept = read_list(run(tmp_path, line + JOB, "--quick"))
    assert "job.mlir#0:run0" in kept
