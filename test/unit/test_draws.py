"""Seeds of random numbers of tests."""

from __future__ import annotations

import re
from pathlib import Path

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


OTHERS = re.compile(
    r"default_rng\(\)|SeedSequence\(\)|\bRandom\(\)|SystemRandom|\burandom\b"
    r"|\bsecrets\b|from random import (?!Random$)|np\.random\.(?!default_rng|Generator)"
    r"[a-z]\w*\(",
    re.MULTILINE,
)
"""Random numbers whose seed nobody gives, and which no failure shows."""


def test_all_fresh_numbers_have_a_seed_that_is_shown() -> None:
    tests = Path(__file__).parents[1]
    own = {Path(__file__), tests / "helpers" / "draws.py"}
    found = {
        str(path.relative_to(tests)): text
        for path in sorted({*tests.rglob("*.py")} - own)
        if (text := OTHERS.findall(path.read_text("utf-8")))
    }
    assert found == {}
    assert OTHERS.search((tests / "helpers" / "draws.py").read_text("utf-8"))
