"""Tables and pages of comparisons, and the suites that they are about."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import numpy as np
import pytest

from penstock.lowering.algorithms.packing import Lifetime
from penstock.tools.cli.run import run_tool as penstock_run
from penstock.tools.driver.errors import FileError
from penstock.tools.reports.compare.generated import JOBS, generated_jobs
from penstock.tools.reports.compare.lifetimes import FOLDER, read_problem, suite
from penstock.tools.reports.compare.measuring import difference
from penstock.tools.reports.compare.page import BARS, page_of
from penstock.tools.reports.compare.running import compare_planners
from penstock.tools.reports.compare.table import METRICS, Comparison, seconds_text
from penstock.tools.reports.compare.variants import light_models


def quiet(_: str) -> None:
    """Say nothing of what is measured."""


@pytest.fixture
def found() -> Comparison:
    """Three subjects, of which the last has no number of the second variant."""
    made = Comparison(["old", "new"], [METRICS["memory"], METRICS["time"]])
    made.add("a", [{"memory": 4096, "time": 2e-3}, {"memory": 1024, "time": 1e-3}])
    made.add("b", [{"memory": 1000, "time": 5e-4}, {"memory": 2000, "time": 1.5e-3}])
    made.add("<c>", [{"memory": 7, "time": 2.0}, "no place for it"])
    return made


# Tables


def test_ratios_are_to_the_first_variant(found: Comparison) -> None:
    assert found.ratios("memory", 1) == [0.25, 2.0]
    assert found.ratios("time", 1) == pytest.approx([0.5, 3.0], rel=1e-12)
    ratios = found.as_json()["ratios"]
    means = [1.0, statistics.geometric_mean([0.25, 2.0])]
    assert isinstance(ratios, dict)
    assert ratios["memory"] == pytest.approx(means, rel=1e-12)


def test_a_table_has_a_block_for_each_metric(found: Comparison) -> None:
    assert found.text().splitlines() == [
        "memory              old      new    ratio",
        "a               4.0 KiB  1.0 KiB  0.250 x",
        "b                1000 B  2.0 KiB  2.000 x",
        "<c>                 7 B   failed",
        "geometric mean                    0.707 x",
        "",
        "time               old     new    ratio",
        "a                 2 ms    1 ms  0.500 x",
        "b               500 us  1.5 ms  3.000 x",
        "<c>                2 s  failed",
        "geometric mean                  1.225 x",
    ]


def test_an_error_is_told_once(found: Comparison) -> None:
    assert found.errors == ["<c>, new: no place for it"]
    assert found.as_json()["errors"] == found.errors
    cells = found.as_json()["subjects"]
    assert isinstance(cells, dict)
    assert cells["<c>"] == {"memory": [7, None], "time": [2.0, None]}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (1.0, "1 s"), (0.0123, "12.3 ms"), (1.5e-6, "1.5 us")],
)
def test_times_have_their_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


# Pages


def test_bars_are_as_long_as_numbers_are_large(found: Comparison) -> None:
    text = page_of(found)
    bars = re.findall(r'<rect class="variant-(\d)".*? width="([\d.]+)"', text)
    widths = [float(width) for _, width in bars]
    assert [int(number) for number, _ in bars] == [0, 1] * 6
    # Each subject has its own scale; a bar that failed has no length.
    assert widths[:6] == [BARS, BARS / 4, BARS / 2, BARS, BARS, 0]
    assert widths[6:8] == [BARS, BARS / 2]


def test_a_page_escapes_names_and_loads_nothing(found: Comparison) -> None:
    text = page_of(found)
    assert "<c>" not in text
    assert "&lt;c&gt;, new: no place for it" in text
    assert not re.search(r'(src|href)="(?!data:)', text)


# Suites


def test_suites_of_lifetimes_are_whole() -> None:
    assert {name: len(suite(name)) for name in ("minimalloc", "training")} == {
        "minimalloc": 11,
        "training": 26,
    }
    assert (FOLDER / "minimalloc" / "LICENSE").is_file()
    assert all(
        (FOLDER / name / "README").is_file() for name in ("minimalloc", "training")
    )


def test_the_bound_of_a_problem_is_its_fullest_step() -> None:
    path = suite("minimalloc")["A"]
    rows = np.loadtxt(path, np.int64, delimiter=",", skiprows=1)
    change = np.zeros(int(rows[:, 2].max()) + 1, np.int64)
    np.add.at(change, rows[:, 1], rows[:, 3])
    np.subtract.at(change, rows[:, 2], rows[:, 3])
    assert read_problem(path).bound == np.cumsum(change).max()


def test_a_step_past_the_last_one_is_not_live(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,lower,upper,size\n0,1,3,5\n")
    assert list(read_problem(path).lifetimes) == [Lifetime(1, 2, 5)]


NO_COLUMN = "has no column '{}' (the first line is id,lower,upper,size)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,lower,size\n1,2,3\n", f" is no table of lifetimes: it {NO_COLUMN}"),
        ("", f" is no table of lifetimes: it {NO_COLUMN}"),
        ("lower,upper,size\n0,1,5\n\n0,1,1.5\n", ":4: size is an integer, got '1.5'"),
        ("lower,upper,size\n0,x,5\n", ":2: upper is an integer, got 'x'"),
        ("lower,upper,size\n0,1\n", ":2: size is an integer, got nothing"),
    ],
)
def test_a_file_of_another_form_is_refused(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(FileError) as raised:
        read_problem(path)
    column = "upper" if text else "lower"
    assert str(raised.value) == f"{path}{told.format(column)}"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b"id,lower,upper,size\n\xff\n")
    with pytest.raises(FileError, match="is no table of lifetimes: it is no text"):
        read_problem(path)


@pytest.mark.parametrize("got", ["3,1,5", "0,0,5", "0,1,-5"])
def test_a_buffer_that_is_never_needed_is_refused(tmp_path: Path, got: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f"id,lower,upper,size\n0,0,1,1\n1,{got}\n")
    lower, upper, size = got.split(",")
    told = f"buffer 2 cannot be packed: lower {lower}, upper {upper}, size {size}"
    with pytest.raises(FileError, match=told):
        read_problem(path)


def test_light_models_are_nine() -> None:
    models = light_models()
    assert len(models) == 9
    assert all(model.has_random_weights and model.path.is_file() for model in models)


@pytest.mark.parametrize("name", JOBS)
def test_generated_jobs_compute_what_numpy_does(name: str, tmp_path: Path) -> None:
    (path,) = (file.path for file in generated_jobs(tmp_path) if file.name == name)
    assert penstock_run([str(path), "--random-inputs", "3", "--check", "numpy"]) == 0


# Planners


def test_planners_are_compared_with_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    # Two steps: 4 and 2 bytes live, then 2 and 4; no planner needs more than 8.
    path.write_text("id,lower,upper,size\n0,0,1,4\n1,0,2,2\n2,1,2,4\n")
    found = compare_planners(["best", "size-first"], [("p", path)], quiet)
    bound, best, by_size = (cell.value for cell in found.cells["p"]["memory"])
    assert bound == 6
    assert best == 6
    assert by_size is not None
    assert 6 <= by_size <= 10
    times = [cell.value for cell in found.cells["p"]["compile-time"]]
    assert times[0] is None
    assert all(time is not None and time > 0 for time in times[1:])


def test_a_planner_that_is_not_there_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,lower,upper,size\n0,0,1,4\n")
    found = compare_planners(["none", "best"], [("p", path)], quiet)
    assert found.cells["p"]["memory"][2].value == 4
    (error,) = found.errors
    assert error.startswith("p, none: no memory planner 'none' ")


# Outputs


def test_the_difference_of_outputs_is_relative() -> None:
    wanted = {"x": np.array([4.0, -8.0]), "y": np.zeros((0, 3))}
    assert (
        difference({"x": np.array([4.0, -7.0]), "y": np.zeros((0, 3))}, wanted) == 1 / 8
    )
    assert difference({"x": np.array([4.0])}, wanted) == float("inf")
    assert difference({}, wanted) == float("inf")
