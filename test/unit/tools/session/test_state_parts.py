"""Checkpoints of several ranks, here threads: each writes its parts to one folder."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.runtime.errors import PenstockError
from penstock.runtime.program.variable_part import Part
from penstock.runtime.transport.sockets import SocketTransport
from penstock.tools.session import checkpoint
from penstock.tools.session.checkpoint import (
    MANIFEST,
    Checkpoint,
    CheckpointError,
    Checkpoints,
)
from penstock.tools.session.ranks import Ranks
from penstock.tools.session.state_parts import StateParts

T = TypeVar("T")
COUNT = 3

WHOLE: Mapping[str, NDArray[Any]] = {
    "b": np.random.default_rng(1).standard_normal(5).astype(np.float32),
    "step": np.array(7),
    "w": np.random.default_rng(2).standard_normal((6, 4)),
}


@pytest.fixture
def ranks() -> Generator[list[Ranks]]:
    """Three ranks with a socket between each two."""
    ends: dict[tuple[int, int], socket.socket] = {}
    for first, second in combinations(range(COUNT), 2):
        ends[first, second], ends[second, first] = socket.socketpair()
    made = [
        SocketTransport(r, {peer: x for (own, peer), x in ends.items() if own == r})
        for r in range(COUNT)
    ]
    yield [Ranks(transport, COUNT) for transport in made]
    for transport in made:
        transport.close()


def parts_of(rank: int) -> list[Part]:
    """Rows of "w", the whole of "b", and on the last rank "step"."""
    rows = slice(2 * rank, 2 * rank + 2)
    found = [
        Part("w", (2 * rank, 0), (6, 4), WHOLE["w"][rows]),
        Part("b", (0,), (5,), WHOLE["b"]),
    ]
    return found + [Part("step", (), (), WHOLE["step"])] * (rank == 2)


def on_each(ranks: list[Ranks], act: Callable[[int, StateParts], T]) -> list[T]:
    """The results of each rank for its state, at the same time."""

    def run(rank: int) -> T:
        return act(rank, StateParts(parts_of(rank), ranks[rank]))

    with ThreadPoolExecutor(COUNT) as pool:
        return [*pool.map(run, range(COUNT))]


def is_whole(state: Mapping[str, NDArray[Any]]) -> bool:
    return [*state] == [*WHOLE] and all(
        (x.dtype, x.shape, x.tobytes())
        == (WHOLE[name].dtype, WHOLE[name].shape, WHOLE[name].tobytes())
        for name, x in state.items()
    )


def test_each_rank_writes_its_parts(ranks: list[Ranks], tmp_path: Path) -> None:
    def save(_: int, state: StateParts) -> Checkpoint:
        return Checkpoints(tmp_path).save(state, 5, {"by": "ranks"}, seeds={"x": 1})

    (saved, *others) = on_each(ranks, save)
    assert others == [saved] * 2
    assert is_whole(saved.state())
    assert (saved.note(), saved.seeds()) == ({"by": "ranks"}, {"x": 1})
    facts = json.loads((saved.path / MANIFEST).read_bytes())
    # Variables that lie on all of them are written by the first one.
    written = [[part["name"] for part in file["parts"]] for file in facts["files"]]
    assert written == [["w", "b"], ["w"], ["w", "step"]]
    assert facts["files"][1]["parts"][0]["offsets"] == [2, 0]
    assert [*tmp_path.iterdir()] == [saved.path]


def test_old_ones_are_removed_once(ranks: list[Ranks], tmp_path: Path) -> None:
    for step in range(3):
        on_each(ranks, lambda _, state, n=step: Checkpoints(tmp_path, 2).save(state, n))
    assert [x.step for x in Checkpoints(tmp_path).all()] == [1, 2]


def refusals(
    ranks: list[Ranks], folders: Callable[[int], Path], step: int
) -> list[str]:
    """The message on each rank of a checkpoint that cannot be written."""

    def save(rank: int, state: StateParts) -> str:
        with pytest.raises(CheckpointError) as caught:
            Checkpoints(folders(rank)).save(state, step)
        return str(caught.value)

    return on_each(ranks, save)


def test_a_rank_that_cannot_write_ends_it_on_all(
    ranks: list[Ranks], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoint._write_arrays  # pyright: ignore[reportPrivateUsage]

    def fail(folder: Path, name: str, state: Mapping[str, Any]) -> Path:
        if name == "state-1":
            raise OSError("no space left")
        return write(folder, name, state)

    monkeypatch.setattr(checkpoint, "_write_arrays", fail)
    final = tmp_path / "step-0000000001"
    expected = f"cannot write {final}: rank 1: no space left"
    assert refusals(ranks, lambda _: tmp_path, 1) == [expected] * COUNT
    assert not [*tmp_path.iterdir()]


def test_steps_only_grow_on_all_ranks(ranks: list[Ranks], tmp_path: Path) -> None:
    Checkpoints(tmp_path).save({}, 4)
    found = refusals(ranks, lambda _: tmp_path, 4)
    assert len({*found}) == 1
    assert "is of step 4, so there can be none of step 4 after it" in found[0]
    assert [x.step for x in Checkpoints(tmp_path).all()] == [4]


def test_a_part_that_is_gone_is_told(ranks: list[Ranks], tmp_path: Path) -> None:
    (saved, *_) = on_each(ranks, lambda _, x: Checkpoints(tmp_path).save(x, 1))
    facts = json.loads((saved.path / MANIFEST).read_bytes())
    files = facts["files"]
    facts["files"] = files[:2]
    (saved.path / MANIFEST).write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match="has 16 of its 24 elements"):
        saved.state()
    others: list[Any] = [
        "nothing",
        [{}],
        [{**files[0], "parts": files[2]["parts"]}],
    ]
    for damaged in others:
        (saved.path / MANIFEST).write_text(json.dumps({**facts, "files": damaged}))
        with pytest.raises(CheckpointError, match="has parts that do not fit"):
            saved.state()
    (saved.path / files[1]["name"]).unlink()
    (saved.path / MANIFEST).write_text(json.dumps({**facts, "files": files}))
    with pytest.raises(CheckpointError, match="lacks state-1"):
        saved.state()


@pytest.mark.parametrize("count", [0, 3, 6])
def test_parts_of_all_ranks_are_cut_to_a_count_that_one_has(
    ranks: list[Ranks], tmp_path: Path, count: int
) -> None:
    def save(rank: int, state: StateParts) -> Checkpoint:
        number = [Part("n", (), (), np.array(count))] * (rank == 1)
        # The other ranks have no part of "b", and know nothing of its count.
        parts = [x for x in state.parts if x.name != "b" or rank == 0]
        names = ["w", "b"] if rank == 0 else ["w"]
        cuts = {"w": [("n", 0)], "b": [("n", 0)]}
        own = {name: cuts[name] for name in names}
        made = StateParts([*parts, *number], state.ranks, own)
        return Checkpoints(tmp_path).save(made, 1)

    (saved, *_) = on_each(ranks, save)
    state = saved.state()
    np.testing.assert_array_equal(state["w"], WHOLE["w"][:count])
    np.testing.assert_array_equal(state["b"], WHOLE["b"][:count])


def test_a_state_of_one_process_is_kept_whole(tmp_path: Path) -> None:
    parts = [part for rank in range(COUNT) for part in parts_of(rank)]
    saved = Checkpoints(tmp_path).save(StateParts(parts), 1)
    assert is_whole(saved.state())
    assert json.loads((saved.path / MANIFEST).read_bytes())["version"] == 1


def test_ranks_agree_on_what_is_wrong(ranks: list[Ranks]) -> None:
    def agree(rank: int, state: StateParts) -> str:
        assert state.ranks is not None
        state.ranks.agree([])
        with pytest.raises(PenstockError) as caught:
            state.ranks.agree(["odd", "worse"] if rank == 2 else [])
        return str(caught.value)

    text = "2 things are wrong with the state:\n  rank 2: odd\n  rank 2: worse"
    assert on_each(ranks, agree) == [text] * COUNT
