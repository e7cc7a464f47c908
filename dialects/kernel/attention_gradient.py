"""`kernel.attention_gradient`: gradients of attention without a matrix of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    MemRefType,
    f32,
)
from xdsl.ir import Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.attention import (
    Lazy,
    products_of,
)
from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.scores import ScoreOp, float_of, properties_of, roles_of
from penstock.dialects.kernel.sums import index_by
from penstock.dialects.utils.half_precision import is_half

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

Q, K, V, GRAD, LSE, DELTA = range(6)
"""The numbers of operands; those of scores come after them, and then the results."""


class Result(NamedTuple):
    """A result by its number among the three, and the roles of its rows."""

    line: str
    """The role of the loop over its rows: `row` or `key`."""
    column: str
    """The role of the loop over the elements of a row."""


RESULTS = Result("row", "term"), Result("key", "term"), Result("key", "column")
"""The gradients by queries, keys and values."""


@irdl_op_definition
class AttentionGradientOp(ScoreOp):
    """
    The gradients of `kernel.attention` by `q`, `k` and `v`, from `grad`, that of its
    result, and two numbers of each row: `lse`, the logarithm of the sum of the
    exponentials of its scores, and `delta`, the sum of the products of its result with
    the gradient of that, less the gradient of `lse` if it has one.

    Scores are made again. The region makes a score of a sum of products and elements
    of `rows` as that of `kernel.attention` does, and yields its derivative by the sum
    after it. With the share `p = exp(score - lse)` of a key in a row, the gradient of
    the sum is `s = p * (grad * v^T - delta) * derivative`, and the results are `s * k`,
    `s^T * q` and `p^T * grad`. They are of the type of scores, `f32` for `f16` and
    `bf16`, and are added up over the loops of the stack that their maps do not have.

    `lse` is not less than a score of its row but for rounding. With `causal` n row i
    sees the keys up to number i + n only. A row without a score above -inf makes NaN of
    all gradients that it adds to; so may operands of keys that a row does not see, if
    they are not finite.

    ```mlir
    kernel.attention_gradient causal 0 indexing_maps = [
        affine_map<(s, r, k, t, c) -> (s, r, t)>,
        affine_map<(s, r, k, t, c) -> (s, k, t)>,
        affine_map<(s, r, k, t, c) -> (s, k, c)>,
        affine_map<(s, r, k, t, c) -> (s, r, c)>,
        affine_map<(s, r, k, t, c) -> (s, r)>,
        affine_map<(s, r, k, t, c) -> (s, r)>,
        affine_map<(s, r, k, t, c) -> (s, r, t)>,
        affine_map<(s, r, k, t, c) -> (s, k, t)>,
        affine_map<(s, r, k, t, c) -> (s, k, c)>
      ] ins(%q, %k, %v, %g
          : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x3xf32>, memref<2x8x3xf32>)
      rows(%l, %d : memref<2x8xf32>, memref<2x8xf32>)
      outs(%dq, %dk, %dv : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x3xf32>) {
    ^bb0(%s: f32):
      %c = arith.constant 5.000000e-01 : f32
      %0 = arith.mulf %s, %c : f32
      kernel.yield %0, %c : f32, f32
    }
    ```
    """

    name = "kernel.attention_gradient"

    SUMMED: ClassVar[int] = DELTA + 1

    q = operand_def(MemRefType)
    k = operand_def(MemRefType)
    v = operand_def(MemRefType)
    grad = operand_def(MemRefType)
    lse = operand_def(MemRefType)
    delta = operand_def(MemRefType)
    score_inputs = var_operand_def(MemRefType)
    q_grad = operand_def(MemRefType)
    k_grad = operand_def(MemRefType)
    v_grad = operand_def(MemRefType)

    assembly_format = (
        "(`causal` $causal^)? `indexing_maps` `=` $indexing_maps "
        "`ins` `(` $q `,` $k `,` $v `,` $grad `:` "
        "type($q) `,` type($k) `,` type($v) `,` type($grad) `)` "
        "`rows` `(` $lse `,` $delta `:` type($lse) `,` type($delta) `)` "
        "(`score` `(` $score_inputs^ `:` type($score_inputs) `)`)? "
        "`outs` `(` $q_grad `,` $k_grad `,` $v_grad `:` "
        "type($q_grad) `,` type($k_grad) `,` type($v_grad) `)` "
        "attr-dict-with-keyword $score"
    )

    def __init__(
        self,
        operands: Sequence[SSAValue],
        score_inputs: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        score: Region,
        causal: int | None = None,
    ):
        super().__init__(
            operands=[*operands, score_inputs, *outs],
            properties=properties_of(maps, causal),
            regions=[score],
        )

    def outs_at(self) -> range:
        return range(len(self.operands) - len(RESULTS), len(self.operands))

    def roles(self) -> Mapping[str, Sequence[int]]:
        used = [map.used_dims() for map in self.maps()[: GRAD + 1]]
        return roles_of(*used)

    def work(self) -> int:
        return self.work_of(terms=3, columns=2)

    def verify_structure(self) -> None:
        roles, maps = self.roles(), self.maps()
        first = self.outs_at()[0]
        self.verify_scores()
        stack = {*roles["stack"]}
        rows = {*stack, *roles["row"]}
        for map in maps[LSE : DELTA + 1]:
            if map.used_dims() != rows:
                raise VerifyException(
                    f"numbers of rows are indexed by rows and the stack, got {map}"
                )
        for result, map in zip(RESULTS, maps[first:], strict=True):
            own = {*roles[result.line], *roles[result.column]}
            if map.used_dims() - stack != own:
                raise VerifyException(
                    f"a gradient is indexed by {result.line}s, {result.column}s and "
                    f"the stack, got {map}"
                )
        self._verify_types()

    def _verify_types(self) -> None:
        element = float_of(self.q, self.k, self.v, self.grad)
        wide = f32 if is_half(element) else element
        for value in (self.lse, self.delta, *self.written()):
            if element_of(value) != wide:
                raise VerifyException(
                    f"numbers of rows and gradients are {wide}, as scores, got "
                    f"{value.type}"
                )
        block = self.score.block
        wanted = [wide, *(element_of(value) for value in self.score_inputs)]
        if [*block.arg_types] != wanted:
            raise VerifyException(
                f"the region takes {[*map(str, wanted)]}, got "
                f"{[*map(str, block.arg_types)]}"
            )
        end = block.last_op
        if not isinstance(end, YieldOp) or [*end.operand_types] != [wide, wide]:
            raise VerifyException(
                f"the region should yield a score of {wide} and its derivative"
            )

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

        first, maps, extents = self.outs_at()[0], self.maps(), self.loops().extents
        dtype = dtype_of_scalar(self.score.block.args[0].type)
        key, term, column, row = (
            self.roles()[role][0] for role in ("key", "term", "column", "row")
        )
        q, k, v, grad, lse, delta, *inputs = (
            over_loops(array, map, extents)
            for array, map in zip(operands[:first], maps[:first], strict=True)
        )
        q, k, v, grad = (array.astype(dtype) for array in (q, k, v, grad))
        with np.errstate(all="ignore"):
            sums = products_of(q, k, (row, key, term))
            score, slope = evaluate_region(self.score.block, [sums, *inputs], extents)
            shares = np.exp(np.subtract(score, lse))
            of_shares = products_of(grad, v, (row, key, column))
            of_sums = shares * np.subtract(of_shares, delta) * slope
            if self.offset is not None:
                numbers = np.indices(extents, sparse=True)
                hidden = numbers[key] > numbers[row] + self.offset
                none = np.asarray(0, dtype)
                shares = np.where(hidden, none, shares)
                of_sums = np.where(hidden, none, of_sums)
            found = (
                products_of(of_sums, k, (row, term, key)),
                products_of(of_sums, q, (key, term, row)),
                products_of(shares, grad, (key, column, row)),
            )
        results = [out.copy() for out in operands[first:]]
        for result, map, value in zip(results, maps[first:], found, strict=True):
            kept = kept_extents(map, extents)
            added = tuple(n for n, extent in enumerate(kept) if extent == 1)
            view_over_loops(result, map, kept, True)[...] = np.sum(
                value, added, keepdims=True
            )
        return results

    def build_loops(self, k: KernelBuilder) -> None:
        roles, extents, maps = self.roles(), self.loops().extents, self.maps()
        for number, out in enumerate(self.outs_at()):
            (line,) = roles[RESULTS[number].line]
            stack = [n for n in roles["stack"] if n in maps[out].used_dims()]
            k.parallel(
                [extents[loop] for loop in (*stack, line)],
                lambda k, at, number=number, loops=(*stack, line): _Line(
                    self, number, dict(zip(loops, at, strict=True))
                ).build(k),
            )


class _Line:
    """The loops that compute a row of a result."""

    def __init__(
        self, op: AttentionGradientOp, number: int, place: Mapping[int, SSAValue]
    ):
        self.op, self.result, self.place = op, RESULTS[number], {**place}
        self.out = op.outs_at()[number]
        self.roles, self.extents = op.roles(), op.loops().extents
        self.type = op.score.block.args[0].type

    def _loop(self, role: str) -> int:
        return self.roles[role][0]

    def _extent(self, role: str) -> int:
        return self.extents[self._loop(role)]

    def build(self, k: KernelBuilder) -> None:
        """
        Build the sum over the other loops of the stack, and over all keys that see the
        row, or all rows that see the key.
        """
        zero = k.constant(0, self.type)
        self._each_element(k, lambda k, at: self._store(k, zero, at))
        rest = [n for n in self.roles["stack"] if n not in self.place]
        self._build_stack(k, rest)

    def _build_stack(self, k: KernelBuilder, rest: Sequence[int]) -> None:
        if rest:

            def turn(k: KernelBuilder, at: SSAValue) -> None:
                self.place[rest[0]] = at
                self._build_stack(k, rest[1:])

            k.each(self.extents[rest[0]], turn)
            return
        other = "key" if self.result.line == "row" else "row"

        def add(
            k: KernelBuilder, at: SSAValue, _: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            self.place[self._loop(other)] = at
            self._add(k)
            return ()

        k.loop(*self._seen(k), (), add)

    def _seen(self, k: KernelBuilder) -> tuple[SSAValue, SSAValue]:
        """The keys that count for a row, or the rows that a key counts for."""
        offset = self.op.offset
        line = self.place[self._loop(self.result.line)]
        if self.result.line == "row":
            keys = k.index(self._extent("key"))
            if offset is None:
                return k.index(0), keys
            return k.index(0), k.minimum(k.add(line, k.index(offset + 1)), keys)
        rows = k.index(self._extent("row"))
        if offset is None:
            return k.index(0), rows
        return k.maximum(k.sub(line, k.index(offset)), k.index(0)), rows

    def _add(self, k: KernelBuilder) -> None:
        """Add the products of a row and a key to the row of the result."""
        factor, other = self._factors(k)

        def add(k: KernelBuilder, at: SSAValue) -> None:
            new = k.mul(factor, self._load(k, other, **{self.result.column: at}))
            so_far = k.load(self.op.operands[self.out], self._place(k, at))
            self._store(k, k.add(so_far, new), at)

        self._each_element(k, add)

    def _factors(self, k: KernelBuilder) -> tuple[SSAValue, int]:
        """The factor of a row and a key, and the operand that it is multiplied with."""
        score, slope = self._score(k)
        share = k.exp(k.sub(score, self._load(k, LSE)))
        if self.result.column == "column":
            return share, GRAD
        of_share = k.sub(self._product(k, GRAD, V, "column"), self._load(k, DELTA))
        of_sum = k.mul(k.mul(share, of_share), slope)
        return of_sum, K if self.result.line == "row" else Q

    def _score(self, k: KernelBuilder) -> Sequence[SSAValue]:
        """The score of a key for a row, and its derivative."""
        sum = self._product(k, Q, K, "term")
        place = {**self.place}
        return k.inline(
            self.op.score.block,
            [
                lambda: sum,
                *(self._input(k, n) for n in range(len(self.op.score_inputs))),
            ],
            index_by(lambda _, loop: place[loop]),
        )

    def _input(self, k: KernelBuilder, number: int) -> Lazy:
        operand = DELTA + 1 + number
        return lambda: k.load(
            self.op.operands[operand],
            k.indices(self.op.maps()[operand], self.place),
        )

    def _product(self, k: KernelBuilder, a: int, b: int, role: str) -> SSAValue:
        """The sum of the products of a row of an operand and one of another."""

        def add(k: KernelBuilder, at: Sequence[SSAValue], total: SSAValue) -> SSAValue:
            factors = (self._load(k, number, **{role: at[0]}) for number in (a, b))
            return k.add_term(total, k.mul(*factors))

        bounds = [(k.index(0), k.index(self._extent(role)))]
        return k.accumulate(bounds, k.constant(0, self.type), add)

    def _each_element(
        self, k: KernelBuilder, body: Callable[[KernelBuilder, SSAValue], None]
    ) -> None:
        k.each(self._extent(self.result.column), body)

    def _load(self, k: KernelBuilder, number: int, **at: SSAValue) -> SSAValue:
        """An element of an operand, in the type of scores."""
        loops = {self._loop(role): index for role, index in at.items()}
        indices = k.indices(self.op.maps()[number], {**self.place, **loops})
        value = k.load(self.op.operands[number], indices)
        return k.insert(arith.ExtFOp(value, f32)) if is_half(value.type) else value

    def _place(self, k: KernelBuilder, at: SSAValue) -> Sequence[SSAValue]:
        loops = {self._loop(self.result.column): at}
        return k.indices(self.op.maps()[self.out], {**self.place, **loops})

    def _store(self, k: KernelBuilder, value: SSAValue, at: SSAValue) -> None:
        k.store(value, self.op.operands[self.out], self._place(k, at))
