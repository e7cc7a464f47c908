"""The base class of structured ops on the scores of keys for rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    IntegerAttr,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AtLeast,
    AttrSizedOperandSegments,
    eq,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import StructuredOp, element_of


class ScoreOp(StructuredOp):
    """
    A stage that makes scores of sums of products of the rows of `q` and `k`. Operands
    of scores come after those of sums, and then the results.
    """

    SUMMED: ClassVar[int]
    """The number of operands before those of scores."""

    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    causal = opt_prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    score = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(IsolatedFromAbove())

    def loaded_arguments(self, block: Block) -> Sequence[SSAValue]:
        # The first one is a sum.
        return block.args[1:]

    def stored_values(self) -> Sequence[SSAValue]:
        return ()

    @property
    def offset(self) -> int | None:
        """The number of keys past its own that a row sees; all of them if None."""
        return None if self.causal is None else self.causal.value.data

    def numbered_loops(self) -> Collection[int]:
        roles = self.roles()
        return [loop for role in ("stack", "row", "key") for loop in roles[role]]

    def work_of(self, terms: int, columns: int) -> int:
        """The work if each score takes so many sums over terms and over columns."""
        extents = self.loops().extents
        stack, row, key, term, column = (
            prod(extents[loop] for loop in loops) for loops in self.roles().values()
        )
        scores = scores_of(row, key, self.offset)
        return 2 * stack * scores * (terms * term + columns * column + 8)

    def verify_scores(self) -> None:
        """
        Raise `VerifyException` where a loop has no role, where operands of scores are
        indexed by other loops than scores are, or where no row is cut.
        """
        roles, end = self.roles(), self.outs_at()[0]
        for role in ("row", "key", "term", "column"):
            if len(loops := roles[role]) != 1:
                raise VerifyException(
                    f"attention has one loop of {role}s, got {len(loops)}"
                )
        known = {loop for loops in roles.values() for loop in loops}
        for loop in range(self.maps()[0].num_dims):
            if loop not in known:
                raise VerifyException(
                    f"loop {loop} is none of rows, keys, terms, columns or a stack"
                )
        score_loops = known - {*roles["term"], *roles["column"]}
        inputs, maps = self.operands[self.SUMMED : end], self.maps()[self.SUMMED : end]
        for value, map in zip(inputs, maps, strict=True):
            if map.used_dims() - score_loops:
                raise VerifyException(
                    f"an operand of scores is indexed by rows, keys and the stack, got "
                    f"{map} of {value.type}"
                )
        keys = self.loops().extents[roles["key"][0]]
        if self.offset is not None and self.offset >= keys:
            raise VerifyException(
                f"each row sees all of {keys} keys with causal {self.offset}"
            )


def properties_of(
    maps: Sequence[AffineMap], causal: int | None
) -> dict[str, Attribute | None]:
    """The properties of an op with such maps, whose rows see keys up to a number."""
    return {
        "indexing_maps": ArrayAttr(map(AffineMapAttr, maps)),
        "causal": None if causal is None else IntegerAttr(causal, i64),
    }


def float_of(*operands: SSAValue) -> AnyFloat:
    """The one type of float of operands. Raises `VerifyException` for others."""
    types = [element_of(value) for value in operands]
    if not isinstance(first := types[0], AnyFloat) or len({*types}) > 1:
        text = ", ".join(map(str, types))
        raise VerifyException(f"attention is of floats of one type, got {text}")
    return first


def roles_of(
    q: AbstractSet[int], k: AbstractSet[int], v: AbstractSet[int], out: AbstractSet[int]
) -> Mapping[str, Sequence[int]]:
    """
    The loops of attention by their roles, given those that its operands and its result
    have.
    """
    loops = sorted(q | k | v | out)
    rows = [n for n in loops if n in q & out and n not in k | v][-1:]
    columns = [n for n in loops if n in v & out and n not in q | k][-1:]
    return {
        "stack": [n for n in loops if n in out and n not in (*rows, *columns)],
        "row": rows,
        "key": [n for n in loops if n in k & v and n not in q | out],
        "term": [n for n in loops if n in q & k and n not in v | out],
        "column": columns,
    }


def scores_of(rows: int, keys: int, offset: int | None) -> int:
    """
    The number of scores that count if row i sees the keys up to number i + `offset`.
    """
    if offset is None:
        return rows * keys
    cut = min(rows, max(0, keys - offset - 1))
    return cut * (cut + 1) // 2 + cut * offset + (rows - cut) * keys
