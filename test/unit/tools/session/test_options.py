"""The options of compiling as one record, and the keywords of sessions."""

from dataclasses import fields
from pathlib import Path

import pytest

from penstock.runtime.errors import PenstockError
from penstock.tools.cli.run_arguments import FLAGS, arguments, options_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model
from penstock.tools.session.options import (
    DEFAULTS,
    CompileOptions,
    Keywords,
    with_keywords,
)
from penstock.tools.session.session import Session

JOB = """
job.job @double placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
"""


def model() -> Model:
    module = installed_compiler()[0].parse(JOB.encode(), "job.mlir")
    return Model(module, {}, Path())


def test_equal_options_are_one_key():
    one, other = CompileOptions("cpu", 2), CompileOptions("cpu", threads=2)
    assert {one: 1}[other] == 1
    assert one != DEFAULTS


def test_options_that_are_as_by_default_are_not_changed():
    assert DEFAULTS.changed == []
    assert CompileOptions(threads=1, guard=None).changed == []
    changed = CompileOptions(winograd=True, simulate_ranks=True).changed
    assert changed == ["simulate_ranks", "winograd"]


def test_options_are_checked_once_they_are_made():
    with pytest.raises(PenstockError, match="unknown device 'gpu'"):
        CompileOptions("gpu")
    with pytest.raises(PenstockError, match="threads must be at least 1, got 0"):
        CompileOptions(threads=0)


def test_sessions_take_options_by_their_old_keywords():
    given = with_keywords(
        DEFAULTS,
        {
            "device": "cuda",
            "threads": 3,
            "simulate_ranks": True,
            "model_jobs": True,
            "strategy": "memory",
            "kernels": Path("kernels.db"),
            "allow_winograd": True,
            "guard": "all",
        },
    )
    assert given == CompileOptions(
        device="cuda",
        threads=3,
        simulate_ranks=True,
        model_jobs=True,
        strategy="memory",
        database=Path("kernels.db"),
        winograd=True,
        guard="all",
    )


def test_each_option_has_a_keyword_but_that_of_shared_variables():
    renamed = {"kernels": "database", "allow_winograd": "winograd"}
    named = {renamed.get(name, name) for name in Keywords.__annotations__}
    assert {field.name for field in fields(CompileOptions)} - named == {"panels"}


def test_an_unknown_keyword_is_refused():
    unknown = {"panels": False}
    with pytest.raises(TypeError, match="unexpected keyword argument 'panels'"):
        Session(model(), **unknown)  # pyright: ignore[reportArgumentType] -- refused


def test_keywords_change_the_options_that_a_session_is_given():
    options = CompileOptions(threads=2)
    with Session(model(), options) as one, Session(model(), options, threads=1) as two:
        threads = [session.executor.program.threads for session in (one, two)]
    assert threads == [2, 1]


def test_the_command_line_gives_options_with_the_same_defaults():
    assert options_of(arguments().parse_args(["model.onnx"])) == DEFAULTS


def test_each_option_of_the_command_line_has_a_flag_to_name():
    line = "model.onnx --device cpu --threads 2 --guard all --kernels k.db"
    flags = "--simulate-ranks", "--allow-winograd"
    options = options_of(arguments().parse_args([*line.split(), *flags]))
    assert set(options.changed) == {"device", "threads", "database", *FLAGS}
