"""Variables whose values assignments exchange, against what the job's text says."""

from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

TYPE = "tensor<4xf32>"


def opened(text: str, engine: str, threads: int = 1) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "exchange.mlir")
    compiler[0].verify(module)
    model = Model(module, {}, Path())
    return Session(model, threads=threads, engine=engine, compiler=compiler)


def job(variables: str, lines: list[str]) -> str:
    """A job over variables of one letter."""
    declared = [
        f'%{name} = job.variable "{name}" init <normal, seed = {ord(name)}, '
        f"mean = 0.0, std = 1.0> : {TYPE}"
        for name in variables
    ]
    body = "\n  ".join([*declared, *lines])
    return f"job.job @exchange placement <cpu, [0:0]> {{\n  {body}\n}}"


def assign(source: str, target: str) -> str:
    return f"job.assign %{source} to %{target} : {TYPE}"


def after(state: dict[str, Array], pairs: list[str]) -> dict[str, Array]:
    """The state after `ab`: the new value of b is the old one of a."""
    return {**state, **{target: state[source] for source, target in pairs}}


@pytest.mark.parametrize(
    ("engine", "threads"), [("actors", 1), ("actors", 2), ("sequential", 1)]
)
@pytest.mark.parametrize(
    "pairs",
    [
        ["ab", "ba"],
        ["ab", "bc", "ca"],
        ["ba", "cb", "ac"],
        ["ab", "ba", "cd", "dc"],
        ["ab", "ba", "ac", "bd"],
        ["ab", "bc", "cd", "da", "ae"],
        ["ab", "bc", "cd"],
        ["aa", "ab"],
    ],
    ids=" ".join,
)
def test_assignments_exchange_values(pairs: list[str], engine: str, threads: int):
    variables = "".join(sorted(set("".join(pairs))))
    reads = [f'job.output "y{x}", %{x} : {TYPE}' for x in variables]
    # Who reads a variable stands before, between and behind those that assign.
    lines = [assign(*pair) for pair in pairs]
    for place, read in enumerate(reads):
        lines.insert(2 * place, read)
    with opened(job(variables, lines), engine, threads) as session:
        state = session.state()
        for _ in range(4):
            found = session.run({})
            for name, array in found.items():
                np.testing.assert_array_equal(array, state[name[1:]])
            state = after(state, pairs)
            now = session.state()
            assert all((now[x] == state[x]).all() for x in variables)
        pieces = session.run_many([dict[str, Array]() for _ in range(3)])
        for piece in pieces:
            for name, array in piece.items():
                np.testing.assert_array_equal(array, state[name[1:]])
            state = after(state, pairs)


def test_what_is_computed_between_reads_old_values():
    text = job(
        "ab",
        [
            f"%s = op.add %a, %b : {TYPE}, {TYPE} -> {TYPE}",
            f"%r = op.reshape %b to [4] : {TYPE} -> {TYPE}",
            assign("a", "b"),
            assign("r", "a"),
            f'job.output "s", %s : {TYPE}',
        ],
    )
    with opened(text, "actors") as session:
        state = session.state()
        for _ in range(3):
            found = session.run({})
            np.testing.assert_array_equal(found["s"], np.add(state["a"], state["b"]))
            state = after(state, ["ab", "ba"])
            assert all((session.state()[x] == state[x]).all() for x in "ab")
