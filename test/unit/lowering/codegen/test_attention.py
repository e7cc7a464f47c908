"""Kernels of attention, as plain loops and in blocks, against NumPy and a peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pytest
from kernel_runs import result_of
from numpy.typing import NDArray
from onnx import numpy_helper
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, f32, f64, i64
from xdsl.ir import Attribute, Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import AttentionAttr, KernelOp
from penstock.dialects.op import AttentionOp, SoftmaxOp
from penstock.dialects.op.axes import int_list
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention
from penstock.lowering.codegen.target import kernel_source
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.frontend.onnx.model import import_model
from penstock.tools.session.session import Model, Session

Floats: TypeAlias = NDArray[np.floating]
Exact: TypeAlias = NDArray[np.float64]
Order: TypeAlias = Sequence[int] | None

"""The padding around arrays."""


@dataclass(frozen=True)
class Case:
    """Shapes as they lie, and what the op says of them."""

    q: Sequence[int]
    k: Sequence[int]
    v: Sequence[int]
    mask: Sequence[int] | None = None
    scale: float = 0.25
    q_by: Order = None
    k_by: Order = None
    v_by: Order = None
    by: Order = None
    schedule: AttentionAttr | int | None = 64
    """A schedule, the bytes of vectors it is made for, or None: plain loops."""
    dtype: str = "float32"
    causal: int | None = None

    @property
    def shapes(self) -> list[Sequence[int]]:
        """Those of all operands."""
        return [self.q, self.k, self.v, *([] if self.mask is None else [self.mask])]


def op_of(case: Case) -> AttentionOp:
    """The op, on arguments of a block that nobody owns."""
    element = f32 if case.dtype == "float32" else f64
    args = Block(arg_types=[TensorType(element, shape) for shape in case.shapes]).args
    orders = {name: getattr(case, name) for name in ("q_by", "k_by", "v_by", "by")}
    properties: dict[str, Attribute | None] = {
        name: None if order is None else int_list(order)
        for name, order in orders.items()
    }
    properties["scale"] = FloatAttr(case.scale, f64)
    if case.causal is not None:
        properties["causal"] = IntegerAttr(case.causal, i64)
    return AttentionOp.inferred(args, properties)


def kernel_of(case: Case) -> KernelOp:
    """The kernel of a case with its schedule."""
    kernel = KernelOp("k", "cpu", kernel_body(op_of(case)))
    (stage,) = (op for op in kernel.body.block.ops if op.regions)
    if isinstance(case.schedule, AttentionAttr):
        stage.attributes[SCHEDULE] = case.schedule
    elif case.schedule is not None:
        schedule_attention(kernel, case.schedule)
        assert isinstance(stage.attributes.get(SCHEDULE), AttentionAttr)
    return kernel


def arrays_of(case: Case, spread: float = 1.0) -> list[Floats]:
    """Random operands."""
    random = np.random.default_rng(11)
    return [
        (random.normal(size=shape) * spread).astype(case.dtype) for shape in case.shapes
    ]


def run(case: Case, arrays: Sequence[Floats], parts: int = 1) -> Floats:
    """The result of the kernel on operands, in so many parts, last one first."""
    kernel = kernel_of(case)
    if case.schedule is not None:
        assert "_shares(" in kernel_source(kernel)
    return result_of(kernel, arrays, parts)


def hidden(case: Case) -> NDArray[np.bool_]:
    """The keys that each row of queries does not see."""
    assert case.causal is not None
    rows, keys = np.arange(case.q[-2]), np.arange(case.k[-2])
    return keys > rows[:, None] + case.causal


def exact(case: Case, arrays: Sequence[Floats]) -> tuple[Exact, float]:
    """Attention in 64 bits, step by step, and the largest score."""
    q, k, v, *mask = (array.astype(np.float64) for array in arrays)
    q, k, v = (
        x if order is None else np.transpose(x, order)
        for x, order in ((q, case.q_by), (k, case.k_by), (v, case.v_by))
    )
    scores = np.einsum("...qd,...kd->...qk", q, k) * case.scale
    finite = np.max(np.abs(scores), initial=0)
    for each in mask:
        scores = scores + each
        finite += np.max(np.abs(each[np.isfinite(each)]), initial=0)
    if case.causal is not None:
        scores = np.where(hidden(case), -np.inf, scores)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = np.einsum("...qk,...kd->...qd", shares, v)
    return (mixed if case.by is None else np.transpose(mixed, case.by)), finite


def check(case: Case, arrays: Sequence[Floats], result: Floats) -> None:
    """
    Compare with what 64 bits give. A score is off by what its terms round to; a share
    by as much, as it is a power of scores; and a mean by a share's error times values.
    """
    wanted, largest = exact(case, arrays)
    epsilon = float(np.finfo(case.dtype).eps)
    values = np.max(np.abs(arrays[2][np.isfinite(arrays[2])]), initial=0)
    tolerance = epsilon * (16 + 4 * largest) * float(values)
    assert result.shape == wanted.shape
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance)


COLUMNS = AttentionAttr("columns", (6, 2, 16), (4, 3), 24)
ROWS = AttentionAttr("rows", (8, 1, 16), (2, 2), 24)
BY = (1, 0, 2)

CASES = {
    "plain loops": Case((2, 7, 5), (2, 9, 5), (2, 9, 3), (7, 9), schedule=None),
    "plain loops in another order": Case(
        (7, 2, 5), (9, 2, 5), (9, 2, 3), None, 1, BY, BY, BY, BY, None
    ),
    "whole blocks": Case((2, 64, 32), (2, 48, 32), (2, 48, 48), schedule=COLUMNS),
    "primes": Case((2, 71, 37), (2, 53, 37), (2, 53, 41), schedule=COLUMNS),
    "a mask for each score": Case(
        (2, 71, 37), (2, 53, 37), (2, 53, 41), (71, 53), schedule=COLUMNS
    ),
    "a mask for each key": Case(
        (2, 71, 37), (2, 53, 37), (2, 53, 41), (2, 1, 53), schedule=COLUMNS
    ),
    "a mask for each query": Case(
        (2, 71, 37), (2, 53, 37), (2, 53, 41), (71, 1), schedule=COLUMNS
    ),
    "one number for all": Case((17, 8), (5, 8), (5, 8), (1, 1)),
    "shared keys": Case((2, 3, 20, 16), (2, 1, 33, 16), (2, 1, 33, 16), (20, 33)),
    "a stack of queries only": Case((3, 20, 16), (33, 16), (33, 16)),
    "heads that lie after tokens": Case(
        (40, 3, 16), (50, 3, 16), (50, 3, 16), (40, 50), 0.25, BY, BY, BY, BY
    ),
    "queries and keys that lie by terms": Case(
        (2, 16, 40), (2, 16, 50), (2, 50, 16), None, 1, (0, 2, 1), (0, 2, 1)
    ),
    "one query": Case((3, 1, 64), (3, 131, 64), (3, 131, 64), (131,)),
    "one query by terms": Case(
        (3, 1, 16), (3, 16, 31), (3, 31, 16), None, 1, None, (0, 2, 1)
    ),
    "few queries": Case((2, 3, 21), (2, 53, 21), (2, 53, 41), (3, 53), schedule=ROWS),
    "few queries and a mask for each": Case(
        (2, 3, 21), (2, 53, 21), (2, 53, 41), (2, 3, 1), schedule=ROWS
    ),
    "one of all": Case((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "one key": Case((2, 20, 8), (2, 1, 8), (2, 1, 8)),
    "one term and column": Case((2, 20, 1), (2, 30, 1), (2, 30, 1)),
    "short vectors": Case((2, 33, 24), (2, 300, 24), (2, 300, 24), schedule=16),
    "vectors of 32 bytes": Case((2, 33, 64), (2, 200, 64), (2, 200, 64), schedule=32),
    "many columns": Case((20, 200), (30, 200), (30, 200)),
    "seven vectors": Case((20, 16), (30, 16), (30, 112)),
    "64 bits": Case(
        (2, 33, 24), (2, 200, 24), (2, 200, 24), (33, 200), dtype="float64"
    ),
    "64 bits of one query": Case((2, 1, 24), (2, 99, 24), (2, 99, 24), dtype="float64"),
    "causal in plain loops": Case(
        (2, 7, 5), (2, 9, 5), (2, 9, 3), schedule=None, causal=1
    ),
    "causal": Case((2, 64, 8), (2, 64, 8), (2, 64, 16), schedule=COLUMNS, causal=0),
    "causal in one block": Case((2, 71, 8), (2, 71, 8), (2, 71, 16), causal=0),
    "causal with keys before and a mask": Case(
        (2, 71, 37), (2, 110, 37), (2, 110, 41), (71, 110), schedule=COLUMNS, causal=39
    ),
    "causal with fewer keys": Case(
        (1, 71, 8), (1, 20, 8), (1, 20, 8), schedule=COLUMNS, causal=0
    ),
    "causal with keys that nobody sees": Case(
        (1, 9, 8), (1, 90, 8), (1, 90, 8), schedule=COLUMNS, causal=3
    ),
    "few causal queries": Case(
        (2, 4, 21), (2, 53, 21), (2, 53, 41), (4, 53), schedule=ROWS, causal=47
    ),
    "few causal queries of few keys": Case(
        (2, 3, 21), (2, 53, 21), (2, 53, 41), schedule=ROWS, causal=0
    ),
    "one causal query": Case((3, 1, 64), (3, 131, 64), (3, 131, 64), causal=99),
    "causal in 64 bits": Case(
        (2, 33, 24), (2, 40, 24), (2, 40, 24), dtype="float64", causal=7
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_meanings(name: str) -> None:
    case = CASES[name]
    arrays = arrays_of(case)
    check(case, arrays, run(case, arrays, parts=3))
    (meaning,) = op_of(case).evaluate(*arrays)
    assert str(meaning.dtype) == case.dtype
    check(case, arrays, np.asarray(meaning, case.dtype))


SHAPES = {
    "plain": Case((2, 40, 16), (2, 70, 16), (2, 70, 16), (40, 70), schedule=None),
    "columns": Case((2, 40, 16), (2, 70, 16), (2, 70, 16), (40, 70), schedule=COLUMNS),
    "once": Case((2, 40, 16), (2, 70, 16), (2, 70, 16), (40, 70)),
    "rows": Case((2, 4, 16), (2, 70, 16), (2, 70, 16), (4, 70), schedule=ROWS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_scores_of_80_and_more_do_not_overflow(name: str) -> None:
    case = SHAPES[name]
    q, k, v, mask = arrays_of(case)
    q = q / np.float32(case.scale)
    for sign in (1, -1):
        arrays = [q, k, v, np.where(mask > 0, 80, -80).astype(case.dtype) * sign]
        check(case, arrays, run(case, arrays))
    arrays = [q * 9, k * 9, v, mask]
    assert exact(case, arrays)[1] > 500
    check(case, arrays, run(case, arrays))


@pytest.mark.parametrize("name", SHAPES)
def test_rows_of_which_a_mask_leaves_nothing_are_nan(name: str) -> None:
    case = SHAPES[name]
    q, k, v, mask = arrays_of(case)
    rows, keys = mask.shape
    mask[np.arange(rows)[:, None] + keys - rows < np.arange(keys)] = -np.inf
    # The first block of a row, a row, and all but the last key of another one.
    mask[0, :24] = -np.inf
    mask[1] = -np.inf
    mask[2, :-1] = -np.inf
    mask[2, -1] = 0
    result = run(case, [q, k, v, mask])
    assert np.isnan(result[:, 1]).all()
    assert np.isfinite(np.delete(result, 1, 1)).all()
    check(case, [q, k, v, mask], result)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_scores_that_are_no_numbers_make_rows_nan(name: str, odd: float) -> None:
    case = SHAPES[name]
    q, k, v, mask = arrays_of(case)
    mask[3, 50] = odd
    result = run(case, [q, k, v, mask])
    assert np.isnan(result[:, 3]).all()
    check(case, [q, k, v, mask], result)


@pytest.mark.parametrize("name", SHAPES)
def test_values_that_are_no_numbers_reach_all_rows(name: str) -> None:
    case = SHAPES[name]
    q, k, v, mask = arrays_of(case)
    mask[:, 5] = -1000
    v[0, 5, 2] = np.nan
    v[1, 5, 2] = np.inf
    result = run(case, [q, k, v, mask])
    assert np.isnan(result[:, :, 2]).all()
    check(case, [q, k, v, mask], result)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_scores_that_are_not_seen_do_not_count(name: str) -> None:
    plain = SHAPES[name]
    case = replace(plain, causal=plain.k[1] - plain.q[1])
    q, k, v, mask = arrays_of(case)
    odd = np.resize([np.nan, np.inf, 1e30, -np.inf, 7.0], mask.shape)
    changed = np.where(hidden(case), odd, mask).astype(case.dtype)
    result = run(case, [q, k, v, changed])
    assert np.isfinite(result).all()
    check(case, [q, k, v, mask], result)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)])
def test_there_may_be_no_rows(shape: tuple[int, ...]) -> None:
    case = Case(shape, (shape[0], 3, 4), (shape[0], 3, 5), schedule=None)
    kernel = kernel_of(case)
    schedule_attention(kernel, 64)
    (stage,) = (op for op in kernel.body.block.ops if op.regions)
    assert str(stage.attributes["no_schedule"]) == '"there are no elements"'
    assert run(case, arrays_of(case)).size == 0


def test_no_terms_make_means() -> None:
    case = Case((2, 3, 0), (2, 4, 0), (2, 4, 5), schedule=None)
    arrays = arrays_of(case)
    mean = arrays[2].mean(1, keepdims=True)
    np.testing.assert_allclose(
        run(case, arrays), np.broadcast_to(mean, (2, 3, 5)), rtol=1e-6
    )


def test_flops_count_both_products() -> None:
    op = op_of(Case((2, 3, 8), (2, 5, 8), (2, 5, 4), by=BY))
    assert op.flops() == 2 * 3 * 5 * (2 * 8 + 2 * 4 + 7)


@pytest.mark.parametrize("rows", [1, 4, 9])
@pytest.mark.parametrize("keys", [1, 5, 12])
def test_flops_count_scores_that_are_seen(rows: int, keys: int) -> None:
    for offset in range(13):
        case = Case((rows, 8), (keys, 8), (keys, 4), causal=offset)
        seen = np.count_nonzero(~hidden(case))
        assert op_of(case).flops() == seen * (2 * 8 + 2 * 4 + 7)


def test_work_is_cut_into_blocks_of_queries() -> None:
    case = Case((2, 256, 64), (2, 256, 64), (2, 256, 64))
    text = kernel_source(kernel_of(case))
    assert "\nPARTS = 8\n" in text
    starts = [8 * part // 3 for part in range(4)]
    assert all(first < last for first, last in pairwise(starts))
    small = kernel_source(kernel_of(Case((8, 4), (8, 4), (8, 4))))
    assert "\nPARTS = 1\n" in small


def finding_of(kernel: KernelOp) -> str:
    """Why there is no source of a kernel."""
    with pytest.raises(LocatedPassFailure) as failure:
        kernel_source(kernel)
    ((_, message),) = failure.value.findings
    return message


MISFITS = {
    "309760 bytes of panels are more than the stack allows: 262144": (
        Case((70, 1200), (6, 1200), (6, 3)),
        AttentionAttr("columns", (6, 4, 16), (4, 1), 6),
    ),
    "9 rows are more than 8": (Case((9, 4), (5, 4), (5, 3)), ROWS),
    "the terms of keys do not follow each other": (
        Case((1, 4), (4, 5), (5, 3), k_by=(1, 0)),
        ROWS,
    ),
    "the elements of values do not follow each other": (
        Case((9, 4), (5, 4), (3, 5), v_by=(1, 0)),
        COLUMNS,
    ),
    "there are no elements": (Case((0, 4), (5, 4), (5, 3)), COLUMNS),
}


@pytest.mark.parametrize("why", MISFITS)
def test_schedules_that_do_not_fit_are_refused(why: str) -> None:
    case, schedule = MISFITS[why]
    message = finding_of(kernel_of(replace(case, schedule=schedule)))
    assert message == f"kernel @k: {schedule} does not fit kernel.attention: {why}"


# Jobs --------------------------------------------------------------------------------

JOB = """
!x = tensor<2x{rows}x3x16xf32>
!h = tensor<2x3x{rows}x16xf32>
!t = tensor<2x3x16x{rows}xf32>
!s = tensor<2x3x{rows}x{rows}xf32>
job.job @j placement <cpu, [0:0]> {{
  %q = job.input "q" : !x
  %k = job.input "k" : !x
  %v = job.input "v" : !x
  %qt = op.transpose %q by [0, 2, 1, 3] : !x -> !h
  %kt = op.transpose %k by [0, 2, 3, 1] : !x -> !t
  %vt = op.transpose %v by [0, 2, 1, 3] : !x -> !h
  %p = op.matmul %qt, %kt : !h, !t -> !s
  %c = op.constant dense<4.0> : tensor<f32>
  %d = op.div %p, %c : !s, tensor<f32> -> !s
  %s = op.softmax %d axis 3 : !s -> !s
  %o = op.matmul %s, %vt : !s, !h -> !h
  %y = op.transpose %o by [0, 2, 1, 3] : !h -> !x
  job.output "y", %y : !x
}}
"""


def model_of(rows: int) -> Model:
    compiler = installed_compiler()[0]
    module = compiler.parse(JOB.format(rows=rows).encode(), "test.mlir")
    compiler.verify(module)
    return Model(module, {}, Path())


@pytest.mark.parametrize("threads", [1, 2])
def test_jobs_agree_with_onnx_runtime_and_have_no_scores(threads: int) -> None:
    import onnxruntime
    from onnx import TensorProto, helper

    rows, random = 97, np.random.default_rng(3)
    shape = [2, rows, 3, 16]
    inputs = {n: random.normal(size=shape).astype(np.float32) for n in "qkv"}
    orders = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    nodes = [
        helper.make_node("Transpose", [n], [f"{n}t"], perm=orders[n]) for n in "qkv"
    ]
    nodes += [
        helper.make_node("MatMul", ["qt", "kt"], ["p"]),
        helper.make_node("Div", ["p", "c"], ["d"]),
        helper.make_node("Softmax", ["d"], ["s"], axis=-1),
        helper.make_node("MatMul", ["s", "vt"], ["o"]),
        helper.make_node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "qkvy"]
    four = helper.make_tensor("c", TensorProto.FLOAT, [], [4.0])
    graph = helper.make_graph(nodes, "g", ports[:3], ports[3:], [four])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted: Floats = np.asarray(peer.run(None, inputs)[0])  # pyright: ignore[reportUnknownMemberType] ONNX Runtime carries no types
    with Session(model_of(rows), threads=threads) as session:
        result = session.run(inputs)["y"]
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=0, atol=2e-6)


def peak_of(rows: int, *passes: str) -> int:
    """The bytes of the plan of the job."""
    from penstock.dialects.regst import ChunkOp

    compiler, known = installed_compiler()
    module = model_of(rows).module
    text = ",".join((*passes, "convert-job-to-plan,plan-assign-streams"))
    text += ",plan-create-registers,regst-alias-registers,regst-plan-memory"
    run_pipeline(compiler, known, module, text)
    chunks = (op for op in module.walk() if isinstance(op, ChunkOp))
    return sum(chunk.size.value.data for chunk in chunks)


def test_scores_are_not_in_the_plan() -> None:
    rows = 640
    scores = 2 * 3 * rows * rows * 4
    ports = 4 * prod((2, rows, 3, 16)) * 4
    assert peak_of(rows) > scores
    assert peak_of(rows, "op-fuse-attention") < ports * 1.1 < scores


GROUPS = """
job.job @j placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<21x6x8xf32>
  %k = job.input "k" : tensor<2x33x8xf32>
  %v = job.input "v" : tensor<33x2x16xf32>
  %m = job.input "m" : tensor<6x1x33xf32>
  %a = op.transpose %q by [1, 0, 2] : tensor<21x6x8xf32> -> tensor<6x21x8xf32>
  %b = op.reshape %k to [2, 1, 33, 8] : tensor<2x33x8xf32> -> tensor<2x1x33x8xf32>
  %c = op.expand %b to [2, 3, 33, 8] : tensor<2x1x33x8xf32> -> tensor<2x3x33x8xf32>
  %d = op.reshape %c to [6, 33, 8] : tensor<2x3x33x8xf32> -> tensor<6x33x8xf32>
  %e = op.transpose %v by [1, 0, 2] : tensor<33x2x16xf32> -> tensor<2x33x16xf32>
  %f = op.reshape %e to [2, 1, 33, 16] : tensor<2x33x16xf32> -> tensor<2x1x33x16xf32>
  %g = op.expand %f to [2, 3, 33, 16] : tensor<2x1x33x16xf32> -> tensor<2x3x33x16xf32>
  %h = op.reshape %g to [6, 33, 16] : tensor<2x3x33x16xf32> -> tensor<6x33x16xf32>
  %p = op.matmul %a, %d transpose_b
    : tensor<6x21x8xf32>, tensor<6x33x8xf32> -> tensor<6x21x33xf32>
  %n = op.add %p, %m : tensor<6x21x33xf32>, tensor<6x1x33xf32> -> tensor<6x21x33xf32>
  %s = op.softmax %n axis 2 : tensor<6x21x33xf32> -> tensor<6x21x33xf32>
  %o = op.matmul %s, %h
    : tensor<6x21x33xf32>, tensor<6x33x16xf32> -> tensor<6x21x16xf32>
  %y = op.transpose %o by [1, 0, 2] : tensor<6x21x16xf32> -> tensor<21x6x16xf32>
  job.output "y", %y : tensor<21x6x16xf32>
}
"""


def test_groups_of_heads_share_keys_and_values() -> None:
    compiler = installed_compiler()[0]
    module = compiler.parse(GROUPS.encode(), "test.mlir")
    random = np.random.default_rng(4)
    shapes = {"q": (21, 6, 8), "k": (2, 33, 8), "v": (33, 2, 16), "m": (6, 1, 33)}
    inputs = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    q, k, v, m = (array.astype(np.float64) for array in inputs.values())
    scores = np.einsum("qhd,hkd->hqk", q, np.repeat(k, 3, 0)) + m
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    wanted = np.einsum("hqk,khd->qhd", shares, np.repeat(v, 3, 1))
    with Session(Model(module, {}, Path())) as session:
        result = session.run(inputs)["y"].astype(np.float64)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=4e-6)


# ONNX --------------------------------------------------------------------------------

Mask: TypeAlias = tuple[Sequence[int], type]
NODES: Mapping[
    str, tuple[Sequence[int], Sequence[int], Mask | None, Mapping[str, float]]
] = {
    "plain": ([2, 4, 20, 8], [2, 4, 24, 8], None, {}),
    "causal": ([2, 4, 24, 8], [2, 4, 24, 8], None, {"is_causal": 1}),
    "causal as PyTorch writes it": (
        [2, 4, 24, 8],
        [2, 4, 24, 8],
        None,
        {"is_causal": 1, "softcap": 0.0, "qk_matmul_output_mode": 0},
    ),
    "a mask of numbers": ([2, 4, 20, 8], [2, 4, 24, 8], ([20, 24], float), {}),
    "a mask for each stack": ([2, 4, 20, 8], [2, 4, 24, 8], ([2, 1, 20, 24], bool), {}),
    "groups": ([2, 6, 20, 8], [2, 2, 24, 8], None, {}),
    "groups with a mask for each head": (
        [2, 6, 20, 8],
        [2, 2, 24, 8],
        ([2, 6, 20, 24], float),
        {},
    ),
    "groups with one mask": ([2, 6, 20, 8], [2, 2, 24, 8], ([2, 1, 20, 24], bool), {}),
    "groups that are causal": ([2, 6, 24, 8], [2, 2, 24, 8], None, {"is_causal": 1}),
    "heads in rows": (
        [2, 20, 48],
        [2, 24, 16],
        None,
        {"q_num_heads": 6, "kv_num_heads": 2, "scale": 0.25},
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_attention_of_onnx_is_one_op(name: str) -> None:
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    q, k, mask, attributes = NODES[name]
    random = np.random.default_rng(9)
    inputs: dict[str, NDArray[np.generic]] = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in zip("qkv", (q, k, k), strict=True)
    }
    types = dict.fromkeys(inputs, TensorProto.FLOAT)
    if mask is not None:
        shape, kind = mask
        numbers = random.normal(size=shape)
        is_flag = kind is bool
        types["m"] = TensorProto.BOOL if is_flag else TensorProto.FLOAT
        inputs["m"] = numbers > -0.5 if is_flag else numbers.astype(np.float32)
    node = helper.make_node("Attention", [*inputs], ["y"])
    node.attribute.extend(
        helper.make_attribute(key, value) for key, value in attributes.items()
    )
    ports = [
        helper.make_tensor_value_info(name, types[name], array.shape)
        for name, array in inputs.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, q)
    constants = [] if mask is None else [numpy_helper.from_array(inputs["m"], "m")]
    graph = helper.make_graph([node], "g", ports[:3], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    reference = ReferenceEvaluator(model)
    results: object = reference.run(None, inputs)  # pyright: ignore[reportUnknownMemberType] ONNX carries no types
    (wanted,) = cast("list[Floats]", results)
    given = {name: inputs[name] for name in "qkv"}
    imported = import_model(model, "g")
    compiler, known = installed_compiler()
    copy = imported.module.clone()
    run_pipeline(compiler, known, copy, "op-infer-shapes,job-clean,op-fuse-attention")
    (found,) = (op for op in copy.walk() if isinstance(op, AttentionOp))
    assert (found.offset == 0) == ("is_causal" in attributes)
    assert (found.mask is None) == (mask is None)
    assert not [op for op in copy.walk() if isinstance(op, SoftmaxOp)]
    with Session(Model(imported.module, imported.weights, Path())) as session:
        result = session.run(given)["y"]
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=0, atol=2e-6)


def test_a_last_query_sees_all_keys() -> None:
    from onnx import TensorProto, helper

    shapes = {"q": 1, "k": 1, "v": 1, "past_k": 23, "past_v": 23}
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4, rows, 8])
        for name, rows in shapes.items()
    ]
    names = ["q", "k", "v", "", "past_k", "past_v"]
    outputs = ["y", "all_k", "all_v"]
    node = helper.make_node("Attention", names, outputs, is_causal=1)
    last = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4, rows, 8])
        for name, rows in zip(outputs, (1, 24, 24), strict=True)
    ]
    graph = helper.make_graph([node], "g", ports, last)
    opsets = [helper.make_opsetid("", 23)]
    imported = import_model(helper.make_model(graph, opset_imports=opsets), "g")
    assert imported.weights == {}
    compiler, known = installed_compiler()
    passes = "op-infer-shapes,job-clean,op-fuse-attention"
    run_pipeline(compiler, known, imported.module, passes)
    (found,) = (op for op in imported.module.walk() if isinstance(op, AttentionOp))
    assert (found.offset, found.mask) == (None, None)
