"""Seeds of random numbers of tests."""

from __future__ import annotations

import pytest
from draws import fresh, fresh_seed


def test_the_first_seed_of_a_test_is_shown_and_repeats_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(test: str) -> tuple[int, int, float]:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{test} (setup)")
        first = fresh_seed()
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{test} (call)")
        return first, fresh_seed(), fresh().random()

    monkeypatch.delenv("PENSTOCK_SWEEP_SEED", raising=False)
    drawn, others = draw("a b"), draw("c")
    assert capsys.readouterr().out == "".join(
        f"PENSTOCK_SWEEP_SEED={first}\n" for first, *_ in (drawn, others)
    )
    assert {*drawn}.isdisjoint(others)
    monkeypatch.setenv("PENSTOCK_SWEEP_SEED", str(drawn[0]))
    assert draw("d") == drawn
