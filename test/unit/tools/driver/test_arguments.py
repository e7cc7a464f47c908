"""Messages of sessions about arguments that they cannot use."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime import options
from penstock.runtime.errors import PenstockError
from penstock.runtime.options import MOST_EACH, warn_of_threads
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    front = installed_compiler()
    model = Model(front[0].parse(JOB.encode(), "job.mlir"), {}, Path())
    with Session(model, engine="sequential", compiler=front) as opened:
        yield opened


CALLS: dict[str, Callable[[Any], object]] = {
    "run(None)": lambda session: session.run(None),
    "run([])": lambda session: session.run([]),
    "submit(None)": lambda session: session.submit(None),
    "run_many([None])": lambda session: session.run_many([None]),
    "run_many(None)": lambda session: session.run_many(None),
    "run_many('x')": lambda session: session.run_many("x"),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_arrays_by_name_is_an_error_of_one_line(
    session: Session, call: str
) -> None:
    with pytest.raises(PenstockError) as caught:
        CALLS[call](session)
    text = str(caught.value)
    kind = {"[": "list", "'": "str"}.get(call[call.index("(") + 1], "NoneType")
    if "many" in call and "[" not in call:
        assert text == f"pieces are a list of arrays by name each, got {kind}"
    else:
        kind = "NoneType" if "None" in call else kind
        assert text == f"inputs are arrays by name, got {kind}"


@pytest.mark.parametrize(("count", "those"), [(2, "2 CPUs"), (1, "one CPU")])
def test_more_threads_than_processors_can_run_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, count: int, those: str
) -> None:
    monkeypatch.setattr(options, "processors", lambda: count)
    message = f"^1000 threads on {those} wait for each other: "
    with pytest.warns(RuntimeWarning, match=message):
        warn_of_threads(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_threads(MOST_EACH * count)
