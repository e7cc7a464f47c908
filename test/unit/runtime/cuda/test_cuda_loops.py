"""Loops and conditions of actors on CUDA devices, which the host drives."""

import os
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pytest
from cuda_loop_jobs import CASES, EDITS, FAILING, check, model_of
from draws import fresh, fresh_seed
from forked_tool import ForkedCommands

from penstock.runtime.cuda import device, resources
from penstock.runtime.errors import TaskError
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.session.session import Session

Engine: TypeAlias = Literal["actors", "sequential"]
HELPERS = Path(__file__).parents[3] / "helpers"

SCRIPT = '''
import numpy as np
from loaded_programs import load_program
from loop_programs import KERNELS, checked
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.executor import Executor
from penstock.tools.session.kernel_sources import kernel_sources
from penstock.tools.session.loading import open_devices

V, N = "memref<2xf64>", "memref<i64>"
IN = {"xs": "memref<4x2xf64>", "h0": V, "n": N, "e": N, "one": N}
OUT = {"ys": "memref<4x2xf64>", "h": V, "i": N, "m": N, "r": N}
OWN = {"b": "memref<64xi8>"}

def both(names, chunk, end):
    at = 0
    for name, type in names.items():
        yield f"launch.register @{name}{end} in @{chunk} at {at} slots 2 : {type}"
        at += 1024

def listed(names, end=""):
    return ", ".join(f"@{name}{end}" for name in names)

def actor(name, device, reads, writes, body, says=""):
    return (f"launch.actor @{name} on <0, {device}:0> stream 0 {says}reads [{reads}] "
        f"writes [{writes}] {{ {body} }}")

BODY = f"""
  launch.copy @h0_d to @h_d
  launch.loop 4 backward {{
    launch.subview @x of @xs_d at 0 step 16 : {V}
    launch.subview @y of @ys_d at 0 step 16 : {V}
    launch.carry @p to @q in [@h_d at 0, @b_d at 0] : {V}
    launch.call @step [@x, @p, @q]
    launch.copy @q to @y
  }}
  launch.subview @t of @b_d at 16 : memref<i1>
  launch.call @add [@n_d, @one_d, @i_d]
  launch.call @less [@i_d, @e_d, @t]
  launch.loop up to 9 while @c made @m_d {{
    launch.carry @j to @k in [@i_d at 0, @b_d at 32] : {N}
    launch.carry @c to @d in [@b_d at 16, @b_d at 48] : memref<i1>
    launch.call @add [@j, @one_d, @k]
    launch.call @less [@k, @e_d, @d]
  }}
  launch.copy @one_d to @r_d
  launch.loop up to 9 count @n_d {{
    launch.subview @s of @b_d at 0 : {N}
    launch.number @s
    launch.call @add_over [@s, @r_d]
  }}
"""
lines = [
    "launch.chunk @host on <0, host> size 16384",
    "launch.chunk @device on <0, device cuda:0> size 16384",
    *both({**IN, **OUT}, "host", ""),
    *both({**IN, **OUT, **OWN}, "device", "_d"),
    *(actor(f"{x}_in", "cpu", "", f"@{x}", f'launch.feed "{x}" to @{x}') for x in IN),
    actor("up", "cuda", listed(IN), listed(IN, "_d"),
        "\\n".join(f"launch.copy @{x} to @{x}_d" for x in IN)),
    actor("a", "cuda", listed(IN, "_d"), listed({**OUT, **OWN}, "_d"), BODY,
        "can_fail "),
    actor("down", "cuda", listed(OUT, "_d"), listed(OUT),
        "\\n".join(f"launch.copy @{x}_d to @{x}" for x in OUT)),
    *(actor(f"{x}_out", "cpu", f"@{x}", "", f'launch.fetch "{x}" from @{x}')
        for x in OUT),
]
op = checked(KERNELS.replace('"cpu"', '"cuda"') + "\\n".join(lines))
sources = kernel_sources(op, ["cuda"])
loaded = load_program(op, sources, devices=open_devices(["cuda"]))

def number(value):
    return np.array(value, np.int64)

rng = np.random.default_rng(SEED)
with Executor(loaded) as executor:
    for n, e in ((0, 0), (3, 7), (3, 8), (9, 2)):
        xs, h = rng.random((4, 2)), rng.random(2)
        given = {"xs": xs, "h0": h, "n": number(n), "e": number(e), "one": number(1)}
        found = executor.run(given)
        rows = []
        for x in xs[::-1]:
            h = 0.5 * h + x
            rows.append(h)
        np.testing.assert_allclose(found["ys"], rows[::-1], rtol=1e-15)
        np.testing.assert_allclose(found["h"], rows[-1], rtol=1e-15)
        assert found["i"] == max(n + 1, e), (found["i"], n, e)
        assert found["m"] == max(0, e - n - 1), (found["m"], n, e)
        assert found["r"] == 1 + sum(range(n)), (found["r"], n)
    try:
        executor.run({**given, "n": number(10)})
    except TaskError as error:
        assert error.reason.endswith("a loop of at most 9 iterations was to make 10")
    else:
        raise AssertionError("the count is too large")
'''


def run_simulated(forked_cuda: ForkedCommands, folder: Path, text: str) -> None:
    """
    Run a program that imports helpers of tests, with a fresh seed; it fails by an
    exception.
    """
    text = text.replace("SEED", str(fresh_seed()))
    environment = {**os.environ, "PYTHONPATH": str(HELPERS)}
    done = forked_cuda.outcome(["python", "-c", text], folder, environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_loops_run_on_the_simulated_device(
    forked_cuda: ForkedCommands, tmp_path: Path
) -> None:
    run_simulated(forked_cuda, tmp_path, SCRIPT)


SIMULATED_JOBS = """
import numpy as np
from cuda_loop_jobs import CASES, EDITS, check, model_of
from penstock.tools.session.session import Session

random = np.random.default_rng(SEED)
for case in CASES.values():
    with Session(model_of(case.text), engine="sequential", edits=EDITS) as session:
        piece = case.piece(random)
        check(session.run(piece), case, piece)
"""


@pytest.mark.slow
def test_loops_of_jobs_run_on_the_simulated_device(
    forked_cuda: ForkedCommands, tmp_path: Path
) -> None:
    run_simulated(forked_cuda, tmp_path, SIMULATED_JOBS)


def session_on(text: str, engine: Engine, captures: bool) -> Session:
    """A session on a device that NumPy plays, in an order of chance."""
    seed = fresh_seed()
    driver = RecordedDriver(seed=seed, captures=captures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "open_cuda", lambda: device.Cuda(driver))
        return Session(model_of(text), engine=engine, edits=EDITS)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("engine", "captures"), [("sequential", 1), ("actors", 0)])
def test_loops_of_jobs_run_in_the_emulator(name: str, engine: Engine, captures: int):
    case, random = CASES[name], fresh()
    pieces = [case.piece(random) for _ in range(4)]
    with session_on(case.text, engine, bool(captures)) as session:
        for found, piece in zip(session.run_many(pieces), pieces, strict=True):
            check(found, case, piece)


@pytest.mark.parametrize(
    ("engine", "statuses"), [("sequential", 4096), ("actors", 4096), ("actors", 3)]
)
def test_a_loop_that_fails_on_a_device_leaves_variables(
    engine: Engine, statuses: int, monkeypatch: pytest.MonkeyPatch
):
    # Eight calls use three statuses again and again.
    monkeypatch.setattr(resources, "MOST_STATUSES", statuses)
    table = fresh().random((6, 3), "f4")
    given = {"table": table, "n": np.asarray(4), "at": np.asarray(0)}
    too_many = "{}: task 'h' failed at act 0 with code {}: a loop of at most 4 "
    too_many += "iterations was to make {}"
    with session_on(FAILING, engine, captures=True) as session:
        before = session.run(given)["h"].astype("f4")
        # Rows 0 to 4, each neighbours of an iteration; sums of eight.
        wanted = table[:4].sum(0) + table[1:5].sum(0)
        np.testing.assert_allclose(before, wanted, rtol=1e-5)
        for name, value, message in (
            ("n", 5, too_many.format("job.mlir:7:3", 5, 5)),
            ("n", -1, too_many.format("job.mlir:7:3", -1, -1)),
            ("at", 2, "act 0, iterations 3, 1 with code 1: gather index out of range"),
            ("at", 5, "act 0, iterations 0, 1 with code 1: gather index out of range"),
        ):
            with pytest.raises(TaskError) as raised:
                session.run({**given, name: np.asarray(value)})
            assert message in str(raised.value)
            assert raised.value.task == "h"
            np.testing.assert_array_equal(session.state()["w"], before)
        after = session.run(given)["h"].astype("f4")
        np.testing.assert_allclose(after, before + wanted, rtol=1e-5)


@pytest.mark.parametrize("captures", [True, False])
def test_a_kernel_in_a_loop_of_known_length_names_its_iteration(captures: bool):
    text = FAILING.replace("up to 4 count(%n)", "4")
    table = fresh().random((6, 3), "f4")
    pieces = [
        {"table": table, "n": np.asarray(0), "at": np.asarray(at)} for at in (0, 1, 3)
    ]
    with session_on(text, "actors", captures) as session:
        with pytest.raises(TaskError) as raised:
            list(session.run_many(pieces))
        assert (raised.value.task, raised.value.act) == ("h", 2)
        assert raised.value.iterations == (2, 1)
