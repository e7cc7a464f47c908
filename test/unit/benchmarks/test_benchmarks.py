"""The harness of the benchmarks: fair turns, honest tables; nothing here is timed."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Event, Thread
from typing import TypeAlias, cast

import numpy as np
import pytest

from penstock.tools.reports.benchmark_figures import read_measurements

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import harness, report, run, start
from benchmarks.compiling import JobText, StepTimes, step_seconds
from benchmarks.harness import Field, Manner, Opener, Race, Result
from benchmarks.memory import planned_memory
from benchmarks.report import Section, Table
from benchmarks.speed import race_data, race_rows
from penstock.dialects.job import JobOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.tools.driver.compiler import installed_compiler

Until: TypeAlias = Callable[[Callable[[], bool]], None]


@pytest.fixture(autouse=True)
def _own_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test waits for a benchmark that somebody runs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def constant(value: float) -> Opener:
    """A contender whose one output is three times this number."""
    return partial(partial, np.full, (1, 3), value)


def race(openers: dict[str, Opener], rounds: int = 3) -> Race:
    return harness.race(openers, rounds, idle=lambda: True, turn_seconds=1e-4)


# Contenders


def test_all_contenders_are_timed_in_each_round() -> None:
    found = race({"ours": constant(2), "peer": constant(2)})
    assert [result.name for result in found.results] == ["ours", "peer"]
    assert [len(result.seconds) for result in found.results] == [3, 3]
    assert all(min(result.seconds) > 0 for result in found.results)


def test_contenders_whose_outputs_differ_are_not_timed() -> None:
    openers = {"ours": constant(2), "near": constant(2.0001), "far": constant(2.001)}
    ours, near, far = race(openers).results
    assert ours.problem is None
    assert near.problem is None
    assert far.problem == "outputs differ by 5.0e-04"
    assert far.seconds == ()


def test_contenders_with_other_outputs_are_not_timed() -> None:
    two = partial(partial, np.full, (2, 3), 2.0)
    _, other = race({"ours": constant(2), "other": two}).results
    assert other.problem == "2 outputs, not 1"


def test_a_peer_that_is_not_installed_leaves_the_others() -> None:
    missing = cast(Opener, partial(import_module, "no_such_package"))
    ours, peer = race({"ours": constant(2), "peer": missing}).results
    assert len(ours.seconds) == 3
    assert peer.problem == "not installed: no_such_package"


def test_a_peer_that_fails_leaves_the_others() -> None:
    failing = cast(Opener, partial(divmod, 1, 0))
    ended = cast(Opener, partial(os._exit, 3))
    openers = {"ours": constant(2), "failing": failing, "ended": ended}
    ours, first, second = race(openers).results
    assert len(ours.seconds) == 3
    assert first.problem is not None
    assert first.problem.startswith("failed: ZeroDivisionError: ")
    assert second.problem == "failed: its process ended"


NUMBER_OF_ENVIRONMENT = """lambda: [
    __import__("numpy").full(3, float(__import__("os").environ["PENSTOCK_TEST_NUMBER"]))
]"""


def test_processes_stay_for_several_races_and_are_replaced_when_they_end() -> None:
    manner = Manner(idle=lambda: True, turn_seconds=1e-4)
    environments = {"b": {"PENSTOCK_TEST_NUMBER": "2"}}
    ended = cast(Opener, partial(os._exit, 3))
    # A contender's process does not import this file.
    told = cast(Opener, partial(eval, NUMBER_OF_ENVIRONMENT))
    with Field(environments) as field:
        found = field.race({"a": constant(2), "b": ended}, 1, manner)
        assert found.results[1].problem == "failed: its process ended"
        found = field.race({"a": constant(2), "b": told}, 1, manner)
        assert [result.problem for result in found.results] == [None, None]
        found = field.race({"a": constant(3), "b": constant(2)}, 1, manner)
        assert found.results[1].problem == "outputs differ by 3.3e-01"
        found = field.race({"a": constant(3), "b": constant(3)}, 1, manner)
        assert [len(result.seconds) for result in found.results] == [1, 1]
    assert "PENSTOCK_TEST_NUMBER" not in os.environ


def test_rounds_on_a_busy_machine_are_counted() -> None:
    answers = iter([True, False, False])
    found = harness.race(
        {"ours": constant(2)}, 3, idle=lambda: next(answers), turn_seconds=1e-4
    )
    assert found.disturbed == 2


class Recorder:
    """A contender in this process that takes a second a run and notes its turns."""

    def __init__(self, name: str, log: list[str]):
        self.name = name
        self._log = log

    def turn(self, calls: int) -> float:
        self._log.append(self.name)
        return 1.0 / calls

    def settle(self) -> None:
        self._log.append("-")


def test_each_round_begins_with_another_contender() -> None:
    log: list[str] = []
    runners = [Recorder(name, log) for name in "abc"]
    harness.timed(runners, 3, lambda: True, turn_seconds=0.5)
    # After finding out, each warms up, is timed and comes to rest.
    assert "".join(log[3:]) == "aa-bb-cc-bb-cc-aa-cc-aa-bb-"


def test_runs_that_take_less_than_a_turn_are_repeated() -> None:
    class Quick:
        name = "quick"

        def turn(self, calls: int) -> float:
            return 1e-3

        def settle(self) -> None: ...

    assert harness.calls_in(0.1, Quick()) == 100
    assert harness.calls_in(1e-6, Quick()) == 1


def test_ratios_are_peer_over_ours_and_need_both() -> None:
    ours, peer = Result("ours", (1.0, 2.0, 9.0)), Result("peer", (4.0, 8.0, 1.0))
    gone = Result("gone", problem="not installed: gone")
    found = Race((ours, peer, gone), 0)
    assert found.ratio(peer) == 2.0
    assert found.ratio(gone) is None
    assert Race((gone, peer), 0).ratio(peer) is None


# The machine


def test_busy_ticks_are_all_but_those_of_idling_and_waiting(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 4 100 200 8 16 32 1000 1000\ncpu0 9 9 9 9\n")
    assert harness.processor_ticks(stat) == (1 + 2 + 4 + 8 + 16 + 32, 363)
    assert harness.processor_ticks(tmp_path / "none") is None


def test_waiting_ends_when_the_machine_is_idle_or_the_limit_is_reached() -> None:
    shares = iter([0.9, 0.5, 0.1])
    assert harness.wait_until_idle(60, share=lambda: next(shares))
    assert next(shares, None) is None
    assert not harness.wait_until_idle(0, share=lambda: 0.9)


def test_a_process_is_at_rest_when_it_hardly_runs_or_the_limit_is_reached() -> None:
    times = iter([0, 9e-4, 18e-4, 18.5e-4, 20e-4])
    assert harness.wait_until_at_rest(60, window=1e-3, spent=lambda: next(times))
    assert [*times] == [20e-4], "the third window is the first one at rest"
    running = itertools.count()
    assert not harness.wait_until_at_rest(0, window=1e-3, spent=lambda: next(running))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_the_time_of_threads_counts_as_that_of_their_process(until: Until) -> None:
    done = Event()

    def work() -> None:
        while not done.is_set():
            pass

    before = harness.processor_seconds(os.getpid())
    thread = Thread(target=work)
    thread.start()
    try:
        main = time.thread_time()

        def others() -> float:
            own = time.thread_time() - main
            return harness.processor_seconds(os.getpid()) - before - own

        until(lambda: others() >= 0.05)
    finally:
        done.set()
        thread.join(300)
    assert harness.processor_seconds(2**22 + 1) == 0


def test_where_the_system_does_not_say_the_machine_counts_as_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harness, "processor_ticks", lambda: None)
    assert harness.busy_share(0) == 0.0


def test_a_second_benchmark_waits_for_the_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    inside = Event()

    def second() -> None:
        with harness.only_one():
            inside.set()

    thread = Thread(target=second)
    with harness.only_one():
        thread.start()
        assert not inside.wait(0.2)
    thread.join(300)
    assert inside.is_set()
    assert capsys.readouterr().out == (
        "another benchmark is running: waiting for its end\n"
    )


# Reports


def test_tables_align_numbers_to_the_right() -> None:
    table = Table(("name", "ms"), [("a", "1.25"), ("longer", "10")])
    assert table.markdown().splitlines() == [
        "| name   |   ms |",
        "| ------ | ---: |",
        "| a      | 1.25 |",
        "| longer |   10 |",
    ]


def test_rows_show_the_median_the_range_the_ratio_and_the_rate() -> None:
    ours = Result("ours", (1e-3, 2e-3, 4e-3))
    peer = Result("peer", (3e-3, 3e-3, 3e-3))
    gone = Result("gone", problem="not installed: gone")
    wrong = Result("wrong", problem="outputs differ by 1.0e+00")
    rows = race_rows("net", 2, Race((ours, peer, gone, wrong), 0), 4_000_000)
    assert rows == [
        ["net", "2", "ours", "2.000", "1.000-4.000", "", "2.0"],
        ["net", "2", "peer", "3.000", "3.000-3.000", "1.50", "1.3"],
        ["net", "2", "gone", "not installed", "", "", ""],
        ["net", "2", "wrong", "no result", "", "", ""],
    ]


def test_data_keeps_every_round_and_problem() -> None:
    gone = Result("gone", problem="not installed: gone")
    data = race_data(Race((Result("ours", (1.0, 3.0)), gone), 1))
    assert json.loads(json.dumps(data)) == {
        "disturbed_rounds": 1,
        "contenders": [
            {"name": "ours", "seconds": [1.0, 3.0], "ratio": 1.0, "problem": None},
            {
                "name": "gone",
                "seconds": [],
                "ratio": None,
                "problem": "not installed: gone",
            },
        ],
    }


def test_start_rows_are_medians_of_what_a_contender_tells() -> None:
    found = [{"total": 1.0, "kernels compiled": 2}, {"total": 2.0}, {"total": 6.0}]
    row = dict(zip(start.COLUMNS, start.start_row("x", found)[1:], strict=True))
    assert (row["total"], row["kernels compiled"], row["load"]) == ("2.00", "2", "")
    absent = start.start_row("x", [{"problem": "not installed: x"}])
    assert absent[:3] == ["x", "not installed", ""]
    assert start.start_row("x", [{"problem": "failed: y"}])[1] == "no result"


def test_packages_that_are_missing_are_named_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_torch(package: str) -> str:
        if package == "torch":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(report, "version", no_torch)
    found = report.versions()
    assert (found["torch"], found["numpy"]) == ("not installed", "1.0")
    assert "torch not installed" in report.environment_text(report.environment(3))


def test_processors_are_named_as_the_system_does(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nmodel name\t: Chip 9 @ 2 GHz\n")
    assert report.processor_name(info) == "Chip 9 @ 2 GHz"
    assert report.processor_name(tmp_path / "none")


# The command line


def section(*problems: str) -> Section:
    table = Table(("what", "ms"), [("a", "1")])
    return Section("Thing", "What it is.", [table], {"a": 1}, problems)


@pytest.fixture
def one_benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Section], None]:
    """Let a section be what the only benchmark finds."""

    def use(found: Section) -> None:
        def thing(options: run.Options) -> Section:
            return found

        monkeypatch.setattr(run, "BENCHMARKS", {"thing": thing})

    return use


def test_figures_are_written_as_json(
    tmp_path: Path,
    one_benchmark: Callable[[Section], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "commit", lambda: "0a590d1")
    one_benchmark(section())
    data, folder = tmp_path / "out.json", tmp_path / "figures"
    assert run.main(["--json", str(data), "--write", str(folder), "--rounds", "4"]) == 0
    found = json.loads(data.read_text())
    assert found["results"] == {"thing": {"a": 1}}
    assert found["environment"]["rounds"] == 4
    (written,) = read_measurements(folder)
    assert (written.section, written.title) == ("thing", "Thing")
    assert (written.commit, written.rounds) == ("0a590d1", 4)
    assert written.tables[0].cases[0].ours[0].figures == {"ms": 1}


def test_a_commit_that_is_not_known_is_told_before_anything_is_measured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> str:
        raise FileNotFoundError("no git")

    monkeypatch.setattr(run, "commit", fail)
    with pytest.raises(SystemExit):
        run.main(["--write", str(tmp_path)])
    assert "git does not say: no git" in capsys.readouterr().err


def test_problems_are_shown_and_fail_the_run(
    one_benchmark: Callable[[Section], None], capsys: pytest.CaptureFixture[str]
) -> None:
    one_benchmark(section("net: peer: outputs differ by 1.0e+00"))
    assert run.main([]) == 1
    assert "\n* net: peer: outputs differ by 1.0e+00\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "invalid choice: 'nothing'"),
        (["--threads", "1,0"], "invalid thread_counts value: '1,0'"),
        (["--rounds", "1,2"], "invalid positive value: '1,2'"),
    ],
)
def test_bad_command_lines_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        run.main(arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_thread_counts_are_positive() -> None:
    assert run.thread_counts("1,2") == (1, 2)
    with pytest.raises(ValueError, match="there must be at least one thread"):
        run.thread_counts("0")


# Generated jobs


def test_generated_jobs_have_the_size_asked_for_and_use_all_results() -> None:
    text = str(JobText(400, seed=3))
    compiler, _ = installed_compiler()
    module = compiler.parse(text.encode(), "generated")
    compiler.verify(module)
    (job,) = module.body.block.ops
    assert isinstance(job, JobOp)
    ops = list(job.body.block.ops)
    assert len(ops) == JobText(400, seed=3).count
    assert 400 <= len(ops) <= 410
    tensor_ops = [op for op in ops if isinstance(op, TensorOp)]
    assert all(op.results[0].uses for op in tensor_ops)
    assert len({op.name for op in tensor_ops}) == 16
    assert max(len(list(op.results[0].uses)) for op in tensor_ops) > 2


def test_generated_jobs_follow_from_the_seed() -> None:
    assert str(JobText(100, seed=1)) == str(JobText(100, seed=1))
    assert str(JobText(100, seed=1)) != str(JobText(100, seed=2))


def test_times_of_a_step_add_up_by_position() -> None:
    times = StepTimes()
    for position in 2, 1, 2:
        with times.measure("cse", position):
            pass
    assert list(times.seconds) == [(2, "cse"), (1, "cse")]


def test_each_step_of_compiling_a_job_has_a_time() -> None:
    count, steps = step_seconds(40)
    assert count >= 40
    assert next(iter(steps)) == "parse"
    expected = {"convert-plan-to-launch", "verify", "verify after passes"}
    assert expected < set(steps)
    assert list(steps)[-2:] == ["kernel sources", "verify after passes"]
    assert min(steps.values()) > 0


def test_memory_of_a_plan_is_that_of_its_blocks() -> None:
    """Of three activations of 1 KiB two are alive at a time."""
    text = b"""
      !t = tensor<16x16xf32>
      job.job @j placement <cpu, [0:0]> {
        %x = job.input "x" : !t
        %w = job.variable "w" init <zeros> : !t
        %a = op.matmul %x, %w : !t, !t -> !t
        %b = op.matmul %a, %w : !t, !t -> !t
        job.output "y", %b : !t
      }
    """
    compiler, _ = installed_compiler()
    sizes = {"peak": 2048, "bound": 2048, "sum": 3072, "weights": 1024}
    assert planned_memory(compiler.parse(text, "twice")) == sizes


# Tuning


@pytest.mark.slow
def test_tuned_kernels_are_measured_beside_the_rules() -> None:
    from benchmarks.tuning import tuning

    section = tuning(2, ["4x16x8"])
    (table,) = section.tables
    case, mean = table.rows
    assert case[0] == "4x16x8"
    rules, chosen, gain = map(float, case[1:4])
    assert gain == pytest.approx(rules / chosen, rel=0.2)
    assert case[4].startswith(("rules", "tiles <", "loops"))
    assert mean[0] == "geometric mean"
    assert mean[3] == case[3]
    assert section.problems == []
