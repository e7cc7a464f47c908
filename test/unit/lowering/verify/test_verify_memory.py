"""Registers that share bytes with none, and the syntax of limits."""

from __future__ import annotations

import numpy as np
import pytest
from draws import draws
from xdsl.utils.exceptions import PassFailedException

from penstock.lowering.verify.memory import Span, alone, parse_limits


@pytest.mark.parametrize("seed", range(draws(66)))
def test_spans_that_share_bytes_with_none(seed: int):
    """Against a count of the spans at each byte."""
    rng = np.random.default_rng(seed)
    spans: list[Span] = []
    used = np.zeros((2, 40), np.int64)
    for _ in range(rng.integers(0, 9)):
        chunk, start = int(rng.integers(2)), int(rng.integers(30))
        end = start + int(rng.integers(0, 10))
        spans.append(Span(chunk, start, end))
        used[chunk, start:end] += 1
    expected = [bool((used[x.chunk, x.start : x.end] <= 1).all()) for x in spans]
    assert alone(spans) == expected


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("7", 7),
        ("3K", 3072),
        ("2M", 2 << 20),
        ("5G", 5 << 30),
        ("1T", 1 << 40),
    ],
)
def test_sizes_may_have_a_unit(text: str, size: int):
    assert parse_limits(f"host=1, cuda:12={text}") == {"host": 1, "cuda:12": size}


@pytest.mark.parametrize(
    "text", ["", "host=", "=4", "host=-1", "host=1.5G", "a=1,,b=2"]
)
def test_other_texts_are_no_limits(text: str):
    with pytest.raises(PassFailedException, match="expected a memory and its size"):
        parse_limits(text)
