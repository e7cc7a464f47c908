"""`kernel.attention`: rows of values, weighted with the exponentials of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from xdsl.dialects import math
from xdsl.dialects.builtin import (
    MemRefType,
    f32,
)
from xdsl.ir import Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.scores import ScoreOp, float_of, properties_of, roles_of
from penstock.dialects.kernel.sums import index_by
from penstock.dialects.utils.half_precision import is_half

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


Lazy: TypeAlias = "Callable[[], SSAValue]"


@irdl_op_definition
class AttentionOp(ScoreOp):
    """
    `softmax(score(q * k^T)) * v`: each row of the result is a mean of the rows of `v`,
    weighted with the exponentials of the scores of the keys for one query.

    The maps say the role of each loop: *terms* index `q` and `k`, *keys* `k` and `v`.
    Of the loops of the result the last one that only `v` has too is the *column*, the
    last one that only `q` has too is the *row*, and the others are the *stack*. The
    region makes the score of the sum of products, its first argument, and of an element
    of each operand of `score`; sums, powers and scores are of the type of that
    argument: `f32` for `f16` and `bf16`, else that of the elements. With `causal` n row
    i sees the keys up to number i + n only; the values of others are multiplied with 0,
    or not at all.

    A row without a score above -inf is NaN, and so is one with a score of NaN or inf.
    The operand `lse` is a second result, of the type of scores: for each row the
    logarithm of the sum of the exponentials of its scores, -inf of none above that.
    As loops, rows of `f16` and `bf16` are rounded in the result with each key.

    ```mlir
    kernel.attention causal 0 indexing_maps = [
        affine_map<(s, r, k, t, c) -> (s, r, t)>,
        affine_map<(s, r, k, t, c) -> (s, k, t)>,
        affine_map<(s, r, k, t, c) -> (s, k, c)>,
        affine_map<(s, r, k, t, c) -> (r, k)>,
        affine_map<(s, r, k, t, c) -> (s, r, c)>
      ] ins(%q, %k, %v : memref<12x8x64xf32>, memref<12x8x64xf32>, memref<12x8x32xf32>)
      score(%m : memref<8x8xf32>) outs(%o : memref<12x8x32xf32>) {
    ^bb0(%s: f32, %a: f32):
      %c = arith.constant 1.250000e-01 : f32
      %0 = arith.mulf %s, %c : f32
      %1 = arith.addf %0, %a : f32
      kernel.yield %1 : f32
    }
    ```
    """

    name = "kernel.attention"

    SUMMED: ClassVar[int] = 3

    q = operand_def(MemRefType)
    k = operand_def(MemRefType)
    v = operand_def(MemRefType)
    score_inputs = var_operand_def(MemRefType)
    out = operand_def(MemRefType)
    lse = opt_operand_def(MemRefType)

    assembly_format = (
        "(`causal` $causal^)? `indexing_maps` `=` $indexing_maps "
        "`ins` `(` $q `,` $k `,` $v `:` type($q) `,` type($k) `,` type($v) `)` "
        "(`score` `(` $score_inputs^ `:` type($score_inputs) `)`)? "
        "`outs` `(` $out `:` type($out) `)` (`lse` `(` $lse^ `:` type($lse) `)`)? "
        "attr-dict-with-keyword $score"
    )

    def __init__(
        self,
        operands: tuple[SSAValue, SSAValue, SSAValue],
        score_inputs: Sequence[SSAValue],
        out: SSAValue,
        maps: Sequence[AffineMap],
        score: Region,
        causal: int | None = None,
        lse: SSAValue | None = None,
    ):
        super().__init__(
            operands=[*operands, score_inputs, out, lse],
            properties=properties_of(maps, causal),
            regions=[score],
        )

    def outs_at(self) -> range:
        return range(3 + len(self.score_inputs), len(self.operands))

    def roles(self) -> Mapping[str, Sequence[int]]:
        maps = self.maps()
        used = (maps[number] for number in (0, 1, 2, self.outs_at()[0]))
        return roles_of(*(map.used_dims() for map in used))

    def work(self) -> int:
        return self.work_of(terms=1, columns=1)

    def verify_structure(self) -> None:
        self.verify_scores()
        roles, results = self.roles(), self.maps()
        rows = {*roles["stack"], *roles["row"]}
        if self.lse is not None and results[-1].used_dims() != rows:
            raise VerifyException(
                f"the sums of rows are indexed by rows and the stack, got {results[-1]}"
            )
        self._verify_types()

    def _verify_types(self) -> None:
        element = float_of(self.q, self.k, self.v, self.out)
        block = self.score.block
        first, *others = block.arg_types or [element]
        if first != (f32 if is_half(element) else element):
            raise VerifyException(f"a sum of {element} is no {first}")
        if self.lse is not None and element_of(self.lse) != first:
            raise VerifyException(
                f"the sums of rows are {first}, as scores, got {self.lse.type}"
            )
        inputs = [element_of(value) for value in self.score_inputs]
        if others != inputs or not block.args:
            raise VerifyException(
                f"the region takes the sum and {[*map(str, inputs)]}, got "
                f"{[*map(str, block.arg_types)]}"
            )
        end = block.last_op
        if not isinstance(end, YieldOp) or [*end.operand_types] != [first]:
            raise VerifyException(f"the region should yield one score of {first}")

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import (
            dtype_of_scalar,
            evaluate_region,
            kept_extents,
            over_loops,
            view_over_loops,
        )

        first = self.outs_at()[0]
        given, outs = operands[:first], operands[first:]
        maps, extents = self.maps(), self.loops().extents
        dtype = dtype_of_scalar(self.score.block.args[0].type)
        roles = self.roles()
        key, term, column, row = (
            roles[role][0] for role in ("key", "term", "column", "row")
        )
        q, k, v, *inputs = (
            over_loops(array, map, extents)
            for array, map in zip(given, maps[:first], strict=True)
        )
        with np.errstate(all="ignore"):
            sums = products_of(q.astype(dtype), k.astype(dtype), (row, key, term))
            (scores,) = evaluate_region(self.score.block, [sums, *inputs], extents)
            if self.offset is not None:
                numbers = np.indices(scores.shape, sparse=True)
                hidden = numbers[key] > numbers[row] + self.offset
                scores = np.where(hidden, np.asarray(-inf, dtype), scores)
            largest = np.max(scores, key, keepdims=True)
            powers = np.exp(scores - np.where(largest == -inf, 0, largest))
            total = np.sum(powers, key, keepdims=True)
            mixed = products_of(powers, v.astype(dtype), (row, column, key))
            found = mixed / total, largest + np.log(total)
        results = [out.copy() for out in outs]
        for result, map, value in zip(results, maps[first:], found, strict=False):
            view = view_over_loops(result, map, kept_extents(map, extents), True)
            view[...] = value
        return results

    def build_loops(self, k: KernelBuilder) -> None:
        roles, extents = self.roles(), self.loops().extents
        loops = [*roles["stack"], *roles["row"]]
        k.parallel(
            [extents[loop] for loop in loops],
            lambda k, at: _Row(self, dict(zip(loops, at, strict=True))).build(k),
        )


@dataclass
class _Row:
    """The loops that compute a row of the result."""

    op: AttentionOp
    place: Mapping[int, SSAValue]
    """The indices of the loops around it."""
    roles: Mapping[str, Sequence[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.roles = self.op.roles()

    @property
    def _out(self) -> int:
        """The number of the result."""
        return self.op.outs_at()[0]

    def _extent(self, role: str) -> int:
        return self.op.loops().extents[self.roles[role][0]]

    def build(self, k: KernelBuilder) -> None:
        """
        Build a loop over keys that carries the largest score and the sum of powers so
        far. The mean so far lies in the result: a new largest score makes it smaller.
        """
        type, depth = element_of(self.op.out), self._extent("column")
        zero, one, lowest = (k.constant(number, type) for number in (0, 1, -inf))
        k.each(depth, lambda k, at: self._store(k, zero, at))

        def turn(
            k: KernelBuilder, key: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            before, total = carried
            score = self._score(k, key)
            largest = k.larger(before, score)
            # Nothing may be subtracted from -inf that is -inf itself.
            base = k.select(k.compare("eq", largest, lowest), zero, largest)
            decay, power = k.exp(k.sub(before, base)), k.exp(k.sub(score, base))

            def mix(k: KernelBuilder, at: SSAValue) -> None:
                so_far = self._load(k, self._out, column=at)
                value = self._load(k, 2, key=key, column=at)
                new = k.add(k.mul(so_far, decay), k.mul(value, power))
                self._store(k, new, at)

            k.each(depth, mix)
            return [largest, k.add(k.mul(total, decay), power)]

        largest, total = k.loop(k.index(0), self._seen(k), [lowest, zero], turn)
        if (lse := self.op.lse) is not None:
            sums = k.add(largest, k.insert(math.LogOp(total)))
            k.store(sums, lse, k.indices(self.op.maps()[-1], self.place))
        share = k.div(one, total)

        def finish(k: KernelBuilder, at: SSAValue) -> None:
            self._store(k, k.mul(self._load(k, self._out, column=at), share), at)

        k.each(depth, finish)

    def _seen(self, k: KernelBuilder) -> SSAValue:
        """The number of keys that count for the row, from the first one on."""
        keys, offset = k.index(self._extent("key")), self.op.offset
        if offset is None or offset + 1 >= self._extent("key"):
            return keys
        row = self.place[self.roles["row"][0]]
        return k.minimum(k.add(row, k.index(offset + 1)), keys)

    def _score(self, k: KernelBuilder, key: SSAValue) -> SSAValue:
        """The score of a key for the row of queries."""

        def add(k: KernelBuilder, at: Sequence[SSAValue], total: SSAValue) -> SSAValue:
            q = self._load(k, 0, term=at[0])
            key_term = self._load(k, 1, key=key, term=at[0])
            return k.add_term(total, k.mul(q, key_term))

        bounds = [(k.index(0), k.index(self._extent("term")))]
        zero = k.constant(0, element_of(self.op.out))
        sum = k.accumulate(bounds, zero, add)
        indices = {**self.place, self.roles["key"][0]: key}
        (score,) = k.inline(
            self.op.score.block,
            [
                lambda: sum,
                *(self._input(k, n, key) for n in range(len(self.op.score_inputs))),
            ],
            index_by(lambda _, loop: indices[loop]),
        )
        return score

    def _input(self, k: KernelBuilder, number: int, key: SSAValue) -> Lazy:
        return lambda: self._load(k, 3 + number, key=key)

    def _load(self, k: KernelBuilder, number: int, **at: SSAValue) -> SSAValue:
        """An element of an operand, given the indices of loops of the row."""
        return k.load(self.op.operands[number], self._indices(k, number, **at))

    def _store(self, k: KernelBuilder, value: SSAValue, column: SSAValue) -> None:
        k.store(value, self.op.out, self._indices(k, self._out, column=column))

    def _indices(
        self, k: KernelBuilder, number: int, **at: SSAValue
    ) -> Sequence[SSAValue]:
        loops = {self.roles[role][0]: index for role, index in at.items()}
        return k.indices(self.op.maps()[number], {**self.place, **loops})


def products_of(a: Array, b: Array, loops: tuple[int, int, int]) -> Array:
    """
    The sums of products over the last of three axes, of which `a` has the first and
    `b` the second; the others are broadcast, and the axis of sums has one element.
    """
    import numpy as np

    row, column, term = loops
    ends = [-3, -2, -1]
    left = np.moveaxis(a, [column, row, term], ends)[..., 0, :, :]
    right = np.moveaxis(b, [row, term, column], ends)[..., 0, :, :]
    sums = np.matmul(left, right)[..., None, :, :]
    return np.moveaxis(sums, ends, [term, row, column])
