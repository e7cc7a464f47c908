"""`kernel.attention`: its meaning, its loops and its schedules, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_on_copies
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import AttentionAttr, KernelOp
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention

Array: TypeAlias = NDArray[np.floating]
DTYPES = {"f32": np.dtype("float32"), "f64": np.dtype("float64")}


@dataclass(frozen=True)
class Sizes:
    """The extents of the loops, and what the op says besides."""

    stack: int
    rows: int
    keys: int
    terms: int
    columns: int
    causal: int | None = None
    type: str = "f32"
    groups: bool = False
    """Whether keys and values are those of all stacks."""

    @property
    def text(self) -> str:
        """The kernel, in which scores are halved and moved by an operand."""
        heads, s = ("", "") if self.groups else (f"{self.stack}x", "s, ")
        shapes = [
            f"{self.stack}x{self.rows}x{self.terms}",
            f"{heads}{self.keys}x{self.terms}",
            f"{heads}{self.keys}x{self.columns}",
            f"{self.rows}x{self.keys}",
            f"{self.stack}x{self.rows}x{self.columns}",
        ]
        q, k, v, m, o = (f"memref<{shape}x{self.type}>" for shape in shapes)
        maps = ", ".join(
            f"affine_map<(s, r, k, t, c) -> ({results})>"
            for results in ("s, r, t", f"{s}k, t", f"{s}k, c", "r, k", "s, r, c")
        )
        causal = "" if self.causal is None else f"causal {self.causal}"
        return f"""
          launch.kernel @k target "cpu" (%q: {q}, %k: {k}, %v: {v}, %m: {m}, %o: {o}) {{
            kernel.attention {causal} indexing_maps = [{maps}]
              ins(%q, %k, %v : {q}, {k}, {v}) score(%m : {m}) outs(%o : {o}) {{
            ^bb0(%s: {self.type}, %a: {self.type}):
              %c = arith.constant 5.0e-01 : {self.type}
              %0 = arith.mulf %s, %c : {self.type}
              %1 = arith.addf %0, %a : {self.type}
              kernel.yield %1 : {self.type}
            }}
          }}"""

    def arrays(self, rng: np.random.Generator) -> list[Array]:
        """Random operands; some of the keys are hidden from some rows."""
        shapes = [
            (self.stack, self.rows, self.terms),
            (self.stack, self.keys, self.terms)[self.groups :],
            (self.stack, self.keys, self.columns)[self.groups :],
            (self.rows, self.keys),
        ]
        dtype = DTYPES[self.type]
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        arrays[3][rng.random(arrays[3].shape) < 0.2] = -np.inf
        return [*arrays, np.full((self.stack, self.rows, self.columns), 7.5, dtype)]


def exact(sizes: Sizes, arrays: list[Array]) -> NDArray[np.float64]:
    """Attention in 64 bits, step by step."""
    q, k, v, mask = (array.astype(np.float64) for array in arrays[:4])
    keys = np.broadcast_to(k, (sizes.stack, *k.shape[-2:]))
    values = np.broadcast_to(v, (sizes.stack, *v.shape[-2:]))
    scores = np.einsum("srt,skt->srk", q, keys) * 0.5 + mask
    if sizes.causal is not None:
        hidden = np.triu(np.ones(scores.shape[1:], bool), sizes.causal + 1)
        scores[:, hidden] = -np.inf
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
    return np.einsum("srk,skc->src", shares, values)


def attention_in(kernel: KernelOp) -> AttentionOp:
    (op,) = kernel.body.block.ops
    assert isinstance(op, AttentionOp)
    return op


CASES = (
    Sizes(1, 1, 1, 1, 1),
    Sizes(2, 7, 9, 5, 3),
    Sizes(2, 7, 9, 5, 3, causal=2),
    Sizes(3, 20, 33, 16, 8, groups=True),
    Sizes(2, 17, 19, 8, 16, causal=0, type="f64"),
    Sizes(2, 1, 40, 16, 16),
)


@pytest.mark.parametrize("sizes", CASES)
def test_meaning_loops_and_schedule_agree_with_numpy(
    sizes: Sizes, parse_kernel: Callable[[str], KernelOp]
) -> None:
    arrays = sizes.arrays(fresh())
    wanted = exact(sizes, arrays)
    # Scores are off by what their terms round to, and means by as much times values.
    tolerance = 200 * float(np.finfo(DTYPES[sizes.type]).eps)

    kernel = parse_kernel(sizes.text)
    before = [array.copy() for array in arrays]
    (found,) = attention_in(kernel).evaluate(*arrays)
    meant = found.astype(np.float64)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    np.testing.assert_allclose(meant, wanted, rtol=tolerance, atol=tolerance)

    schedule_attention(kernel, 32)
    assert SCHEDULE in attention_in(kernel).attributes
    blocks = run_on_copies(kernel, arrays)[-1]
    np.testing.assert_allclose(blocks, wanted, rtol=tolerance, atol=tolerance)

    replace_by_loops(attention_in(kernel))
    assert not any(op.name == "kernel.attention" for op in kernel.walk())
    loops = run_on_copies(kernel, arrays)[-1]
    np.testing.assert_allclose(loops, wanted, rtol=tolerance, atol=tolerance)


def test_a_score_that_vectors_cannot_compute_has_no_schedule(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    wide = "%x = arith.extf %s : f32 to f64\n%0 = arith.truncf %x : f64 to f32"
    text = Sizes(1, 4, 4, 4, 4).text
    kernel = parse_kernel(text.replace("%0 = arith.mulf %s, %c : f32", wide))
    schedule_attention(kernel, 32)
    why = attention_in(kernel).attributes[REFUSAL]
    assert why == StringAttr("there is no arith.extf of vectors for scores")


def test_a_score_may_depend_on_the_numbers_of_row_and_key(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    sizes = Sizes(2, 3, 5, 4, 6)
    number = """%kn = kernel.index 2 : index
      %ki = arith.index_cast %kn : index to i32
      %x = arith.sitofp %ki : i32 to f32
      %0 = arith.mulf %x, %c : f32"""
    kernel = parse_kernel(sizes.text.replace("%0 = arith.mulf %s, %c : f32", number))
    arrays = sizes.arrays(np.random.default_rng(4))
    _, _, v, mask, _ = arrays
    powers = np.exp(0.5 * np.arange(5) + mask.astype(np.float64))
    wanted = powers / powers.sum(1, keepdims=True) @ v.astype(np.float64)
    (meant,) = attention_in(kernel).evaluate(*arrays)
    np.testing.assert_allclose(meant.astype(np.float64), wanted, rtol=1e-5)
    schedule_attention(kernel, 32)
    assert REFUSAL in attention_in(kernel).attributes
    np.testing.assert_allclose(run_on_copies(kernel, arrays)[-1], wanted, rtol=1e-5)


def test_work_counts_the_scores_that_are_seen(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    def work(sizes: Sizes) -> int:
        return attention_in(parse_kernel(sizes.text)).work()

    # Row i sees 1 + i of 4 keys: 10 scores of 16.
    per_score = 2 * (8 + 4 + 8)
    assert work(Sizes(3, 4, 4, 8, 4)) == 3 * 16 * per_score
    assert work(Sizes(3, 4, 4, 8, 4, causal=0)) == 3 * 10 * per_score


def test_effects_are_reads_of_all_and_a_write_of_the_result(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    op = attention_in(parse_kernel(Sizes(2, 3, 4, 5, 6).text))
    found = [(x.value, x.how.value, x.elements) for x in op.effects()]
    reads = [(value, "read", None) for value in op.operands[:4]]
    assert found == [*reads, (op.out, "write", 2 * 3 * 6)]


def with_sums(text: str, shape: str, type: str) -> str:
    """A kernel of attention that stores the logarithms of the sums of rows, too."""
    memref = f"memref<{shape}x{type}>"
    rows = "affine_map<(s, r, k, t, c) -> (s, r)>"
    text = text.replace("-> (s, r, c)>]", f"-> (s, r, c)>, {rows}]")
    text = text.replace(
        ") {\n            kernel", f", %l: {memref}) {{\n            kernel"
    )
    return text.replace(
        ") {\n            ^bb0", f") lse(%l : {memref}) {{\n            ^bb0"
    )


@pytest.mark.parametrize(
    "sizes", [Sizes(2, 7, 9, 5, 3, causal=2), Sizes(3, 4, 6, 2, 5, type="f64")]
)
def test_sums_of_rows_are_a_second_result(
    sizes: Sizes, parse_kernel: Callable[[str], KernelOp]
) -> None:
    rows = f"{sizes.stack}x{sizes.rows}"
    kernel = parse_kernel(with_sums(sizes.text, rows, sizes.type))
    op = attention_in(kernel)
    arrays = sizes.arrays(fresh())
    # A row that sees nothing.
    arrays[3][1] = -np.inf
    given = [*arrays, np.full((sizes.stack, sizes.rows), 7.5, arrays[0].dtype)]
    q, k, _, mask = (array.astype(np.float64) for array in arrays[:4])
    scores = np.einsum("srt,skt->srk", q, k) * 0.5 + mask
    if sizes.causal is not None:
        hidden = np.triu(np.ones(scores.shape[1:], bool), sizes.causal + 1)
        scores[:, hidden] = -np.inf
    sums = np.logaddexp.reduce(scores, axis=-1)
    assert {*sums[:, 1].tolist()} == {-np.inf}
    tolerance = 200 * float(np.finfo(arrays[0].dtype).eps)
    meant = [array.astype(np.float64) for array in op.evaluate(*given)]
    effects = [(x.value, x.elements) for x in op.effects() if x.how.value == "write"]
    cells = sizes.stack * sizes.rows
    assert effects == [(op.out, cells * sizes.columns), (op.lse, cells)]
    loops = run_on_copies(kernel, given)[-2:]
    schedule_attention(kernel, 32)
    assert isinstance(op.attributes.get(SCHEDULE), AttentionAttr)
    for out, lse in (meant, loops, run_on_copies(kernel, given)[-2:]):
        np.testing.assert_allclose(lse, sums, rtol=tolerance, atol=tolerance)
        wanted = exact(sizes, arrays)
        np.testing.assert_allclose(out, wanted, rtol=tolerance, atol=tolerance)


def test_sums_of_rows_of_halves_are_wider(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    sizes = Sizes(1, 3, 4, 2, 2)
    text = with_sums(sizes.text, "1x3", "f32").replace("xf32>", "xf16>")
    text = text.replace("memref<1x3xf16>", "memref<1x3xf32>").replace(
        "%a: f32", "%h: f16"
    )
    text = text.replace("%c = arith", "%a = arith.extf %h : f16 to f32\n%c = arith")
    kernel = parse_kernel(text)
    arrays = [x.astype(np.float16) for x in sizes.arrays(np.random.default_rng(3))]
    given = [*arrays, np.zeros((1, 3), np.float32)]
    q, k, _, mask = (array.astype(np.float64) for array in arrays[:4])
    scores = np.einsum("srt,skt->srk", q, k) * 0.5 + mask
    sums = np.logaddexp.reduce(scores, axis=-1)
    (_, meant) = attention_in(kernel).evaluate(*given)
    np.testing.assert_allclose(meant.astype(np.float64), sums, rtol=1e-5)
    np.testing.assert_allclose(run_on_copies(kernel, given)[-1], sums, rtol=1e-5)
