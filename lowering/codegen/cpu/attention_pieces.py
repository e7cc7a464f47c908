"""The pieces that kernels of attention and of its gradients are computed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """Queries that are computed together, and the vectors that they lie in."""

    queries: int
    vectors: int
    lanes: int
    is_whole: bool
    """Whether it has as many queries as a piece can have."""
    suffix: str = ""
    """The end of the names of its functions."""

    @property
    def width(self) -> int:
        """The elements of a line of a panel."""
        return self.vectors * self.lanes

    @property
    def used(self) -> int:
        """The queries in the last vector."""
        return self.queries - (self.vectors - 1) * self.lanes


def pieces_of(queries: int, most: int, vectors: int, lanes: int) -> list[Piece]:
    """The kinds of pieces of queries: whole ones, and that of what is left."""
    whole, rest = divmod(queries, most)
    found: list[Piece] = []
    if whole:
        found.append(Piece(most, vectors, lanes, is_whole=True))
    if rest:
        suffix = "_tail" if whole else ""
        found.append(Piece(rest, -(-rest // lanes), lanes, False, suffix))
    return found


def tiles_of(columns: int, lanes: int, most: int) -> tuple[int, int]:
    """The tiles in a row of a result, and the vectors of each, which are `most`."""
    vectors = -(-columns // lanes)
    most = min(most, vectors)
    width = next(n for n in range(most, 0, -1) if vectors % n == 0)
    return vectors // width, width
