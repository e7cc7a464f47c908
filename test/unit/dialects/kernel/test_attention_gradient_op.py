"""`kernel.attention_gradient`: its meaning, loops and schedules, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_on_copies
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr

from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import AttentionGradientAttr, KernelOp
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention
from penstock.lowering.codegen.cuda.attention_gradient import gradient_tiles

Array: TypeAlias = NDArray[np.floating]
Exact: TypeAlias = NDArray[np.float64]
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
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of all arguments by their names."""
        heads = () if self.groups else (self.stack,)
        rows = self.stack, self.rows
        return {
            "q": (*rows, self.terms),
            "k": (*heads, self.keys, self.terms),
            "v": (*heads, self.keys, self.columns),
            "g": (*rows, self.columns),
            "l": rows,
            "d": rows,
            "m": (self.rows, self.keys),
            "x": (*rows, self.terms),
            "y": (*heads, self.keys, self.terms),
            "z": (*heads, self.keys, self.columns),
        }

    @property
    def text(self) -> str:
        """The kernel, in which scores are halved and moved by an operand."""
        type = {
            name: f"memref<{'x'.join(map(str, shape))}x{self.type}>"
            for name, shape in self.shapes.items()
        }

        def listed(names: str) -> str:
            values = ", ".join(f"%{name}" for name in names)
            return f"{values} : {', '.join(type[name] for name in names)}"

        head = "" if self.groups else "s, "
        places = ["s, r, t", f"{head}k, t", f"{head}k, c", "s, r, c", "s, r", "s, r"]
        places += ["r, k", *places[:3]]
        maps = ", ".join(f"affine_map<(s, r, k, t, c) -> ({x})>" for x in places)
        causal = "" if self.causal is None else f"causal {self.causal}"
        arguments = ", ".join(f"%{name}: {x}" for name, x in type.items())
        return f"""
          launch.kernel @k target "cpu" ({arguments}) {{
            kernel.attention_gradient {causal} indexing_maps = [{maps}]
              ins({listed("qkvg")}) rows({listed("ld")}) score({listed("m")})
              outs({listed("xyz")}) {{
            ^bb0(%s: {self.type}, %a: {self.type}):
              %c = arith.constant 5.0e-01 : {self.type}
              %0 = arith.mulf %s, %c : {self.type}
              %1 = arith.addf %0, %a : {self.type}
              kernel.yield %1, %c : {self.type}, {self.type}
            }}
          }}"""

    def arrays(self, rng: np.random.Generator) -> list[Array]:
        """Random operands, with numbers of rows that are those of attention."""
        found = {
            name: rng.standard_normal(shape).astype(DTYPES[self.type])
            for name, shape in self.shapes.items()
        }
        hidden = rng.random(found["m"].shape) < 0.2
        # Each row sees its first key.
        hidden[:, 0] = False
        found["m"][hidden] = -np.inf
        exact = {name: array.astype(np.float64) for name, array in found.items()}
        scores = self.scores(exact)
        lse = np.logaddexp.reduce(scores, axis=-1)
        out = np.exp(scores - lse[..., None]) @ exact["v"]
        found["l"][...] = lse
        found["d"][...] = (out * exact["g"]).sum(-1)
        for name in "xyz":
            found[name][...] = 7.5
        return [*found.values()]

    def scores(self, arrays: Mapping[str, Exact]) -> Exact:
        """All scores."""
        products = arrays["q"] @ np.swapaxes(arrays["k"], -1, -2)
        scores = products * 0.5 + arrays["m"]
        if self.causal is not None:
            hidden = np.triu(np.ones(scores.shape[1:], bool), self.causal + 1)
            scores[:, hidden] = -np.inf
        return scores

    def loss(self, arrays: Mapping[str, Exact]) -> float:
        """The sum of the products of the result of attention with the gradient."""
        scores = self.scores(arrays)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        return float((shares @ arrays["v"] * arrays["g"]).sum())

    def gradients(self, arrays: list[Array]) -> list[Exact]:
        """The gradients by the formula of a softmax, in 64 bits."""
        found = dict(zip(self.shapes, arrays, strict=True))
        q, k, v, g = (found[name].astype(np.float64) for name in "qkvg")
        exact = {"q": q, "k": k, "v": v, "m": found["m"].astype(np.float64)}
        scores = self.scores(exact)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        of_shares = g @ np.swapaxes(v, -1, -2)
        inner = (shares * of_shares).sum(-1, keepdims=True)
        of_sums = shares * (of_shares - inner) * 0.5
        by_keys = np.swapaxes(of_sums, -1, -2) @ q
        by_values = np.swapaxes(shares, -1, -2) @ g
        if self.groups:
            by_keys, by_values = by_keys.sum(0), by_values.sum(0)
        return [of_sums @ k, by_keys, by_values]


def gradient_in(kernel: KernelOp) -> AttentionGradientOp:
    (op,) = kernel.body.block.ops
    assert isinstance(op, AttentionGradientOp)
    return op


CASES = (
    Sizes(1, 1, 1, 1, 1),
    Sizes(2, 7, 9, 5, 3),
    Sizes(2, 70, 90, 8, 16, causal=2),
    Sizes(3, 20, 33, 16, 8, groups=True),
    Sizes(2, 130, 19, 8, 16, causal=0, type="f64"),
    # No row sees the last keys.
    Sizes(2, 5, 200, 4, 4, causal=1),
)


@pytest.mark.parametrize("sizes", CASES)
def test_meaning_loops_and_schedule_agree_with_numpy(
    sizes: Sizes, parse_kernel: Callable[[str], KernelOp]
) -> None:
    arrays = sizes.arrays(fresh())
    wanted = sizes.gradients(arrays)
    tolerance = 400 * float(np.finfo(DTYPES[sizes.type]).eps)

    def check(found: Sequence[NDArray[Any]]) -> None:
        for array, exact in zip(found, wanted, strict=True):
            scale = tolerance * max(1.0, float(np.abs(exact).max()))
            np.testing.assert_allclose(array, exact, rtol=0, atol=scale)

    kernel = parse_kernel(sizes.text)
    before = [array.copy() for array in arrays]
    check(gradient_in(kernel).evaluate(*arrays))
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    schedule_attention(kernel, 32)
    schedule = gradient_in(kernel).attributes.get(SCHEDULE)
    assert isinstance(schedule, AttentionGradientAttr)
    blocks = run_on_copies(kernel, arrays)[-3:]
    check(blocks)
    replace_by_loops(gradient_in(kernel))
    assert not any(op.name == "kernel.attention_gradient" for op in kernel.walk())
    check(run_on_copies(kernel, arrays)[-3:])


def test_meaning_is_that_of_central_differences(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    sizes = Sizes(2, 4, 5, 3, 2, causal=1, type="f64")
    arrays = sizes.arrays(fresh())
    found = gradient_in(parse_kernel(sizes.text)).evaluate(*arrays)
    named = dict(zip(sizes.shapes, arrays, strict=True))
    exact = {name: array.astype(np.float64) for name, array in named.items()}
    step = 6e-6
    for name, gradient in zip("qkv", found, strict=True):
        for at in np.ndindex(exact[name].shape):
            ends: list[float] = []
            for sign in (1, -1):
                moved = exact[name].copy()
                moved[at] += sign * step
                ends.append(sizes.loss({**exact, name: moved}))
            wanted = (ends[0] - ends[1]) / (2 * step)
            assert abs(float(gradient[at]) - wanted) < 1e-7, (name, at)


def test_results_do_not_depend_on_parts(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    sizes = Sizes(5, 40, 40, 16, 16, causal=0)
    arrays = sizes.arrays(fresh())
    kernel = parse_kernel(sizes.text)
    schedule_attention(kernel, 32)
    whole = run_on_copies(kernel, arrays)[-3:]
    for one, other in zip(
        whole, run_on_copies(kernel, arrays, parts=3)[-3:], strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_work_counts_the_scores_that_are_seen(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    def work(sizes: Sizes) -> int:
        return gradient_in(parse_kernel(sizes.text)).work()

    # Row i sees 1 + i of 4 keys: 10 scores of 16.
    per_score = 2 * (3 * 8 + 2 * 4 + 8)
    assert work(Sizes(3, 4, 4, 8, 4)) == 3 * 16 * per_score
    assert work(Sizes(3, 4, 4, 8, 4, causal=0)) == 3 * 10 * per_score


def test_effects_are_reads_of_all_and_a_write_of_each_result(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    op = gradient_in(parse_kernel(Sizes(2, 3, 4, 5, 6, groups=True).text))
    found = [(x.value, x.how.value, x.elements) for x in op.effects()]
    reads = [(value, "read", None) for value in op.operands[:7]]
    writes = zip(op.operands[7:], (2 * 3 * 5, 4 * 5, 4 * 6), strict=True)
    assert found == [*reads, *((value, "write", n) for value, n in writes)]


def test_rows_of_operands_that_are_apart_have_no_schedule(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    text = Sizes(1, 4, 4, 4, 4).text.replace("(s, r, t)>", "(s, t, r)>")
    kernel = parse_kernel(text)
    schedule_attention(kernel, 32)
    assert gradient_in(kernel).attributes[REFUSAL] == StringAttr(
        "the terms of queries do not follow each other"
    )
    # A GPU brings them to shared memory in any order.
    assert not isinstance(gradient_tiles(gradient_in(kernel)), str)


def test_long_rows_have_no_blocks_on_a_gpu(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    op = gradient_in(parse_kernel(Sizes(1, 4, 4, 512, 4).text))
    assert gradient_tiles(op) == (
        "blocks of queries and keys do not fit into shared memory and registers"
    )
