"""Progress of training loops, and logs of scalars."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import data


class Terminal(io.StringIO):
    """The text of a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def loader(count: int = 20) -> data.Loader:
    return data.Loader(data.arrays(x=np.arange(count)), 5)


def train(
    loader: data.Loader, stream: io.StringIO, epochs: int = 1, **options: Any
) -> None:
    """A loop whose first step takes 60 seconds, and others one."""
    clock = Clock()
    steps = data.progress(loader, epochs, stream=stream, clock=clock, **options)
    for batch in steps:
        steps.show(loss=np.float32(1 / steps.step), sum=batch["x"].sum())
        clock.now += 60 if clock.now == 0 else 1


def test_a_terminal_shows_a_line_that_is_drawn_over_itself() -> None:
    terminal = Terminal()
    train(loader(), terminal)
    *drawn, last = terminal.getvalue().split("\r")
    assert [text.rstrip() for text in drawn if text.strip()] == [
        "train 1/4 [######..................] loss 1, sum 10",
        "train 2/4 [############............] loss 0.5, sum 35, 5 samples/s",
        "train 3/4 [##################......] loss 0.3333, sum 60, 5 samples/s",
        "train 4/4 [########################] loss 0.25, sum 85, 5 samples/s",
    ]
    assert last == "train 4/4: loss 0.25, sum 85, 5 samples/s\n"


def test_elsewhere_there_are_plain_lines_at_intervals() -> None:
    stream = io.StringIO()
    train(loader(), stream, epochs=2, what="digits", every=3)
    assert stream.getvalue().splitlines() == [
        "digits 1/8: loss 1, sum 10",
        "digits 4/8: loss 0.25, sum 85, 5 samples/s",
        "digits 7/8: loss 0.1429, sum 60, 5 samples/s",
        "digits 8/8: loss 0.125, sum 85, 5 samples/s",
    ]


def test_a_loop_without_an_end_or_scalars_counts_its_steps() -> None:
    stream = io.StringIO()
    source = data.iterator(range(20))
    for _ in data.progress(data.Loader(source, 5), stream=stream, clock=Clock()):
        pass
    assert stream.getvalue() == "train 4\n"


def test_a_loop_that_is_left_or_fails_ends_with_its_last_step() -> None:
    for leave in (True, False):
        stream = io.StringIO()
        steps = data.progress(loader(), stream=stream, clock=Clock())

        def work(steps: Any = steps, leave: bool = leave) -> None:
            for _ in steps:
                if steps.step == 3 and not leave:
                    raise ValueError("no")
                steps.show(loss=steps.step)
                if steps.step == 3:
                    break

        if leave:
            work()
        else:
            with pytest.raises(ValueError, match=r"^no$"):
                work()
        gc.collect()
        last = 3 if leave else 2
        assert stream.getvalue() == f"train {last}/4: loss {last}\n"


def test_a_run_that_is_resumed_counts_on_in_its_log(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "loss.jsonl"
    first, second = loader(), loader()
    train(first, io.StringIO(), log=path)
    assert first.epoch == 1
    state = first.state()
    train(first, io.StringIO(), epochs=2, log=path)
    # Steps after the checkpoint come again.
    second.restore(state)
    train(second, stream := io.StringIO(), epochs=2, log=path)
    assert stream.getvalue().splitlines()[-1].startswith("train 8/8: loss 0.125")
    rows = data.ScalarLog(path).read()
    assert [row.step for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rows[6].scalars == {"loss": float(np.float32(1 / 7)), "sum": 60.0}
    lines = path.read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [*range(1, 9), *range(5, 9)]


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    log = data.ScalarLog(tmp_path / "log.jsonl")
    log.add(1, loss=float("nan"), rate=np.array([0.5]).item())
    with log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    ((step, scalars),) = log.read()
    assert (step, np.isnan(scalars["loss"]), scalars["rate"]) == (1, True, 0.5)


def broken(folder: Path, text: bytes) -> object:
    (folder / "log.jsonl").write_bytes(text)
    return data.ScalarLog(folder / "log.jsonl").read()


REFUSED: list[tuple[Callable[[Path], object], str]] = [
    (
        lambda folder: data.ScalarLog(folder / "a").add(1, loss=np.ones(2)),
        "'loss' is no number but ndarray",
    ),
    (
        lambda folder: data.ScalarLog(folder / "a").read(),
        "cannot read {}/a: no such file or directory",
    ),
    (
        lambda folder: data.ScalarLog(folder).add(1),
        "cannot write {}: is a directory",
    ),
    (
        lambda folder: broken(folder, b'{"step": 1}\n{\n'),
        "{}/log.jsonl:2 is no JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ),
    (
        lambda folder: broken(folder, b'{"step": 1, "loss": "low"}\n'),
        "{}/log.jsonl:1 is no step with numbers",
    ),
    (
        lambda folder: broken(folder, b"[1]\n"),
        "{}/log.jsonl:1 is no step with numbers",
    ),
    (
        lambda folder: broken(folder, b"\xff\n"),
        "{}/log.jsonl is no text",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_bad_scalars_and_logs_are_told(
    use: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(data.DataError) as caught:
        use(tmp_path)
    assert str(caught.value).startswith(message.format(tmp_path))
