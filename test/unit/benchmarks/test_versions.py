"""Two checkouts side by side: each process runs what its own one has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.harness import Race, Result, race
from benchmarks.versions import (
    Opening,
    Racing,
    checkout_of,
    figures,
    is_slower,
    less_accurate,
    main,
    means,
    race_row,
    race_rows,
)

GEMM = """\
import numpy
from penstock import NUMBER

def open_penstock(name, threads):
    assert name == "4x4", name
    return lambda: [numpy.array([NUMBER])]
"""


def checkout(path: Path, number: int) -> Path:
    """A checkout whose compiler is a number."""
    (path / "benchmarks").mkdir(parents=True)
    (path / "benchmarks" / "__init__.py").touch()
    (path / "benchmarks" / "gemm.py").write_text(GEMM, "utf-8")
    (path / ".src" / "penstock").mkdir(parents=True)
    init = path / ".src" / "penstock" / "__init__.py"
    init.write_text(f"NUMBER = {number}\n", "utf-8")
    return path


def test_each_process_runs_its_own_checkout(tmp_path: Path) -> None:
    paths = {name: checkout(tmp_path / name, n) for n, name in enumerate("ab", 7)}
    openers = {name: Opening(path, "gemm", ("4x4",), 1) for name, path in paths.items()}
    found = race(openers, 1, idle=lambda: True, turn_seconds=1e-4)
    first, second = found.results
    assert first.problem is None
    # 7 and 8 are no results of one computation.
    assert second.problem == "outputs differ by 1.4e-01"


def test_rows_have_the_old_time_over_the_new_one() -> None:
    found = Race((Result("new", (2.0, 1.0, 4.0)), Result("old", (4.0, 3.0, 6.0))), 0)
    assert race_row("case", 2, found) == [
        *("case", "2", "4000.000", "2000.000", "2.000", "3.000")
    ]
    failed = Race((Result("new", (2.0,)), Result("old", (), "failed: no")), 0)
    assert race_row("case", 1, failed) == ["case", "1", "failed: no", "", "", ""]


def result(new: tuple[float, ...], old: tuple[float, ...]) -> Race:
    """A race with the seconds of each round of both versions."""
    return Race((Result("new", new), Result("old", old)), 0)


@pytest.mark.parametrize(
    ("new", "old", "slower"),
    [
        ((1.1, 1.1, 1.1), (1.0, 1.0, 1.0), True),
        ((1.04, 1.04, 1.04), (1.0, 1.0, 1.0), False),
        # A noisy median, or one lucky round of the old version, is not enough.
        ((1.0, 1.2, 1.2), (1.0, 1.0, 1.0), False),
        ((1.0, 1.0, 1.0), (0.8, 1.0, 1.0), False),
    ],
)
def test_a_case_is_slower_in_medians_and_best_rounds(
    new: tuple[float, ...], old: tuple[float, ...], slower: bool
) -> None:
    assert is_slower(result(new, old)) is slower


def test_a_slower_case_is_raced_again_for_twice_as_long() -> None:
    asked: list[int] = []
    slow, even = result((2.0,), (1.0,)), result((1.0,), (1.0,))

    def always(rounds: int) -> Race:
        asked.append(rounds)
        return slow

    def once(rounds: int) -> Race:
        return slow if rounds == 5 else even

    cases: list[tuple[str, int, Racing]] = [("a", 1, always), ("b", 2, once)]
    cases.append(("c", 1, lambda _: even))
    rows, slower = race_rows(iter(cases), 5)
    assert asked == [5, 10]
    assert slower == ["a on 1 threads"]
    assert [row[4] for row in rows] == ["0.500", "1.000", "1.000"]


def test_a_commit_is_checked_out_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for text in ("old", "new"):
        (tmp_path / "file").write_text(text, "utf-8")
        for words in (["init", "-q"], ["add", "file"], ["commit", "-qm", text]):
            subprocess.run([*git, *words], check=True)
    monkeypatch.setattr("benchmarks.versions.ROOT", tmp_path)
    with checkout_of("HEAD~1") as folder:
        assert (folder / "file").read_text("utf-8") == "old"
    assert not folder.exists()


def test_means_are_geometric() -> None:
    rows = [["a", "1", "1", "1", "2.0", ""], ["b", "1", "x", "", "", ""]]
    assert means(rows) == []
    rows.append(["c", "1", "1", "1", "8.0", ""])
    assert means(rows) == [["geometric mean", "", "", "", "4.000", ""]]


def test_figures_are_named_by_words() -> None:
    data = {
        "runs": [{"name": "cold", "seconds": [3, 1, 2]}, {"count": 4, "done": True}],
        "title": "text",
    }
    assert dict(figures(data)) == {"runs cold seconds": 2.0, "runs 1 count": 4.0}


def test_errors_of_ours_that_became_larger_are_told() -> None:
    rows = [
        ["exp Penstock", "1", "0.5", "0.75", "0.667", ""],
        ["log Penstock", "1", "0.5", "0.5", "1.000", ""],
        ["exp PyTorch eager", "1", "0.5", "0.75", "0.667", ""],
    ]
    assert less_accurate(rows) == ["exp Penstock, error 0.75 ulp, not 0.5"]


PAGE = """\
import json, sys
path = sys.argv[sys.argv.index("--json") + 1]
page = sys.argv[sys.argv.index("--only") + 1]
with open(path, "w") as file:
    json.dump({"results": {page: {"us": NUMBER}}}, file)
"""


def test_other_pages_are_made_by_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, number in (("old", 6), ("new", 4)):
        folder = tmp_path / name / "benchmarks"
        folder.mkdir(parents=True)
        script = PAGE.replace("NUMBER", str(number))
        (folder / "run.py").write_text(script, "utf-8")
    monkeypatch.setattr("benchmarks.versions.ROOT", tmp_path / "new")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert main([str(tmp_path / "old"), "--only", "waves", "--rounds", "2"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[1:-1] == ["waves us", "2", "6", "4", "1.500", ""]
