"""Sessions that several ranks open: each warning and error is told once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest
from rank_threads import connected

from penstock.runtime.errors import PenstockError
from penstock.tools.cli.exit_codes import usage_code
from penstock.tools.driver.errors import FileError, InternalError, UsageError
from penstock.tools.session.ranks import Ranks
from penstock.tools.session.saved_plan.build import build


@contextmanager
def one_of(rank: int, said: Sequence[Sequence[object]]) -> Generator[Ranks]:
    """
    A rank among others, which each say something in an exchange. Only one thread may
    catch warnings.
    """
    with connected(len(said)) as made:
        ranks = [Ranks(transport, len(said)) for transport in made]
        others = [
            threading.Thread(target=ranks[i].values, args=(said[i],))
            for i in range(len(said))
            if i != rank
        ]
        for thread in others:
            thread.start()
        yield ranks[rank]
        for thread in others:
            thread.join()


def warn_in(ranks: Ranks, *texts: str) -> list[str]:
    """The warnings that a rank gives where these come while it opens a session."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with ranks.opening(), ranks.opening():
            for text in texts:
                warnings.warn(text, RuntimeWarning, stacklevel=1)
    return [str(x.message) for x in given]


def fail_in(ranks: Ranks, error: Exception, *, is_late: bool = False) -> None:
    """Fail while a session is opened, once all have a program or before."""
    with ranks.opening():
        if is_late:
            ranks.jobs([])
        raise error


def test_rank_0_gives_each_warning_once() -> None:
    said = [[], [None, "slow", "old"], [None, "slow", "new"]]
    with one_of(0, said) as ranks:
        given = warn_in(ranks, "slow", "slow again", "new")
    assert given == [
        "all ranks: slow",
        "rank 0: slow again",
        "ranks 0, 2: new",
        "rank 1: old",
    ]


def test_other_ranks_give_none() -> None:
    with one_of(1, [[None], []]) as ranks:
        assert warn_in(ranks, "slow") == []


@pytest.mark.parametrize(
    ("rank", "is_told"),
    [(0, False), (1, True)],
    ids=["the first", "another"],
)
def test_an_error_of_several_ranks_is_told_by_the_first(
    rank: int, *, is_told: bool
) -> None:
    texts = ["no model", "no memory", "no memory"]
    error = UsageError(texts[rank])
    said = [[[1, text]] for text in texts]
    with one_of(rank, said) as ranks, pytest.raises(UsageError) as caught:
        fail_in(ranks, error)
    assert caught.value.is_shared
    assert caught.value.is_told == is_told


@pytest.mark.parametrize(("kind", "code"), [(0, 1), (1, 2), (3, 1)])
def test_an_error_of_another_rank_is_one_of_all(kind: int, code: int) -> None:
    """Also its exit code, and rank 0 tells it."""
    with (
        one_of(0, [[], [[kind, "no model"]]]) as ranks,
        pytest.raises(PenstockError, match=r"^rank 1: no model$") as caught,
    ):
        warn_in(ranks)
    error = caught.value
    assert error.is_shared
    assert not error.is_told
    assert (usage_code(error) if isinstance(error, UsageError) else 1) == code


def test_ranks_with_different_errors_have_that_of_the_first() -> None:
    """So one is told, and all have one exit code."""
    said = [[None], [[0, "no model"]], []]
    with one_of(2, said) as ranks, pytest.raises(FileError) as caught:
        fail_in(ranks, UsageError("no memory"))
    assert str(caught.value) == "rank 1: no model"
    assert caught.value.is_shared
    assert caught.value.is_told


def test_a_defect_of_one_rank_is_one_of_all() -> None:
    text = "internal error: ValueError: planted; please report it"
    with one_of(0, [[], [[2, text]]]) as ranks, pytest.raises(InternalError) as caught:
        warn_in(ranks)
    assert str(caught.value) == f"rank 1: {text}"


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ([build(), "other", "options"], "another model"),
        ([build(), "model", "other"], "other options"),
        (["other", "other", "other"], "another version of penstock"),
    ],
)
def test_ranks_have_one_model_with_one_version(other: list[str], what: str) -> None:
    text = (
        f"rank 2 has {what} than rank 0: all processes need the same model, options "
        "and version"
    )
    own = [build(), "model", "options"]
    with (
        one_of(0, [[], [None, *own], [None, *other]]) as ranks,
        pytest.raises(UsageError, match=f"^{text}$"),
    ):
        ranks.agree_on({"another model": "model", "other options": "options"})


def test_an_error_of_a_rank_that_has_its_program_ends_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reasons: list[str] = []
    with one_of(0, [[], [None, "train"]]) as ranks:
        monkeypatch.setattr(ranks.transport, "abort", reasons.append)
        with pytest.raises(PenstockError):
            fail_in(ranks, PenstockError("no memory"), is_late=True)
    assert reasons == ["no memory"]
