"""After a pass, verifiers are asked that may see anything else than before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects import func, test
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
)
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import OpDef
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import JobOp, OutputOp, VariableOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.regst import ChunkOp, MemoryCaseAttr
from penstock.tools.driver import known_forms
from penstock.tools.driver.compiler import (
    Compiler,
    installed_compiler,
    rare_collections,
)
from penstock.tools.driver.errors import Rejected
from penstock.tools.driver.known_forms import KnownForms
from penstock.tools.driver.verifier import (
    Culprits,
    facts_of,
    module_errors,
    seen_otherwise,
)

TEXT = """
job.job @sums placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %y = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %z = op.sub %y, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "z", %z : tensor<4xf32>
}
"""

Change = Callable[[ModuleOp], None]


class Chain:
    """
    Ops each of which reads the one before, the fourth within the third, which has an
    argument that the fourth reads, too; and one beside them.
    """

    def __init__(self) -> None:
        self.a = test.TestOp(result_types=[f32])
        self.b = test.TestOp([self.a.results[0]], result_types=[f32])
        block = Block(arg_types=[f32])
        self.d = test.TestOp([self.b.results[0], block.args[0]], result_types=[f32])
        self.deep = test.TestOp([block.args[0]])
        self.around = test.TestOp(regions=[Region(Block([self.deep]))])
        block.add_ops([self.d, self.around])
        self.c = test.TestOp(
            [self.b.results[0]], result_types=[f32], regions=[Region(block)]
        )
        self.beside = test.TestOp()
        self.e = test.TestOp([self.c.results[0]])
        self.module = ModuleOp([self.a, self.b, self.c, self.e, self.beside])

    def seen(self, change: Callable[[], object]) -> set[Operation]:
        """The ops whose verifiers see a change."""
        before = facts_of(self.module)
        change()
        return seen_otherwise(before, facts_of(self.module))


def mark(op: Operation) -> None:
    op.attributes["mark"] = UnitAttr()


def test_a_change_is_seen_around_it_and_one_step_beyond() -> None:
    x = Chain()
    assert x.seen(lambda: None) == set()
    assert x.seen(lambda: mark(x.b)) == {x.module, x.a, x.b, x.c, x.d}
    assert x.seen(lambda: mark(x.d)) == {x.module, x.b, x.c, x.d}
    # A change in an op is none of those beside it.
    assert x.seen(lambda: mark(x.deep)) == {x.module, x.c, x.around, x.deep}
    assert x.seen(lambda: mark(x.c)) == {
        *(x.module, x.b, x.c, x.d, x.around),
        *(x.e,),
    }


def test_types_of_arguments_are_seen_however_deep_they_are_read() -> None:
    x = Chain()
    argument = x.d.operands[1]
    found = x.seen(lambda: Rewriter.replace_value_with_new_type(argument, f64))
    assert {x.c, x.d, x.deep} <= found
    assert x.beside not in found


def test_removed_ops_and_new_operands_are_seen_by_the_ops_that_they_read() -> None:
    x = Chain()
    assert x.seen(lambda: Rewriter.erase_op(x.e)) == {x.module, x.c}

    def read_another() -> None:
        x.d.operands[0] = x.a.results[0]

    assert x.seen(read_another) == {x.module, x.a, x.b, x.c, x.d}


class FarSighted(test.TestOp):
    """An op that must read no op that reads a marked one."""

    def verify_(self) -> None:
        (near,) = (value.owner for value in self.operands)
        assert isinstance(near, Operation)
        (far,) = (value.owner for value in near.operands)
        if isinstance(far, Operation) and "mark" in far.attributes:
            raise VerifyException("two steps on there is a mark")


@dataclass(frozen=True)
class Mark(ModulePass):
    """Marks the first op, if it is to."""

    name = "mark-first"

    does: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        first = op.body.block.first_op
        if self.does and first is not None:
            mark(first)


def test_all_is_verified_after_the_last_pass() -> None:
    far = test.TestOp(result_types=[f32])
    near = test.TestOp([far.results[0]], result_types=[f32])
    module = ModuleOp([far, near, FarSighted([near.results[0]])])
    passes = [Mark(False), Mark(), Mark(False)]
    with pytest.raises(Rejected) as raised:
        Compiler(Context()).apply(module, passes)
    message = "the pipeline left bad IR: test.op: two steps on there is a mark"
    assert str(raised.value) == message


def parsed() -> tuple[Compiler, ModuleOp]:
    compiler, _ = installed_compiler()
    compiler.verify_each = True
    return compiler, compiler.parse(TEXT.encode(), "sums.mlir")


@dataclass(frozen=True)
class Does(ModulePass):
    """Does what it is told."""

    change: Change

    name = "does"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(op)


def only(module: ModuleOp, kind: type[Operation]) -> Operation:
    (found,) = (op for op in module.walk() if isinstance(op, kind))
    return found


def nothing(module: ModuleOp) -> None:
    pass


def other_operand(module: ModuleOp) -> None:
    only(module, AddOp).operands[0] = only(module, VariableOp).results[0]


def other_type(module: ModuleOp) -> None:
    result = only(module, AddOp).results[0]
    Rewriter.replace_value_with_new_type(result, TensorType(f64, [4]))


def other_property(module: ModuleOp) -> None:
    only(module, OutputOp).properties["port"] = StringAttr("other")


def other_attribute(module: ModuleOp) -> None:
    only(module, AddOp).attributes["acme.note"] = StringAttr("other")


def other_order(module: ModuleOp) -> None:
    op = only(module, OutputOp)
    op.detach()
    only(module, JobOp).regions[0].block.insert_op_before(op, only(module, AddOp))


def fewer(module: ModuleOp) -> None:
    Rewriter.erase_op(only(module, OutputOp))


def one_more(module: ModuleOp) -> None:
    module.body.block.add_op(only(module, JobOp).clone())


def other_argument(module: ModuleOp) -> None:
    only(module, JobOp).regions[0].block.insert_arg(TensorType(f32, [4]), 0)


CHANGES = (
    other_operand,
    other_type,
    other_property,
    other_attribute,
    other_order,
    fewer,
    one_more,
    other_argument,
)


@pytest.mark.parametrize("change", CHANGES)
def test_ops_are_seen_otherwise_once_something_has_changed(change: Change) -> None:
    _, module = parsed()
    before = facts_of(module)
    assert not seen_otherwise(before, facts_of(module))
    change(module)
    assert seen_otherwise(before, facts_of(module))


@pytest.mark.parametrize("is_known", [False, True])
def test_only_passes_that_changed_something_are_followed_by_verifying(
    is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, module = parsed()
    if is_known:
        compiler.verify(module)
    verified: list[str] = []

    def verify(
        module: ModuleOp, prefix: str, position: int, only: object = None
    ) -> None:
        verified.append(prefix)

    monkeypatch.setattr(compiler, "verify", verify)
    changes = nothing, nothing, other_attribute, nothing, other_property
    compiler.apply(module, [Does(change) for change in changes])
    count = 2 if is_known else 3
    assert verified == ["does left bad IR: "] * count + ["the pipeline left bad IR: "]


def test_a_change_after_a_module_was_verified_is_seen() -> None:
    compiler, module = parsed()
    compiler.verify(module)
    other_type(module)
    with pytest.raises(Rejected, match=r"does left bad IR: op\.add: "):
        compiler.apply(module, [Does(nothing), Does(nothing)])


def test_what_breaks_a_module_that_was_sound_before_is_found() -> None:
    for change, where in ((other_order, r"job\.output: "), (other_type, r"op\.add: ")):
        compiler, module = parsed()
        with pytest.raises(Rejected, match=f"does left bad IR: {where}"):
            compiler.apply(module, [Does(nothing), Does(change)])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The definitions that are asked, by the names of their ops."""
    names: list[str] = []
    original = known_forms.verify_by_definition

    def verify(definition: OpDef, op: Operation) -> None:
        names.append(definition.name)
        original(definition, op)

    monkeypatch.setattr(known_forms, "verify_by_definition", verify)
    return names


def test_definitions_are_asked_once_about_a_form(asked: list[str]) -> None:
    _, module = parsed()
    known = KnownForms()
    assert not module_errors(module, None, known)
    assert sorted(asked) == sorted(op.name for op in module.walk())
    asked.clear()
    for change in (nothing, other_property):
        change(module)
        assert not module_errors(module, None, known)
        assert asked == []
    other_type(module)
    assert [text for _, text in module_errors(module, None, known)]
    assert "op.add" in asked
    asked.clear()
    only(module, JobOp).verify(verify_nested_ops=False)
    assert asked == ["job.job"]


def test_attributes_that_are_no_part_of_a_form_are_checked(asked: list[str]) -> None:
    first = ChunkOp(MemoryCaseAttr(0, "host"), 64)
    second = first.clone()
    second.properties["size"] = IntegerAttr(128, 64)
    module, known = ModuleOp([first, second]), KnownForms()
    assert not module_errors(module, None, known)
    assert asked.count("regst.chunk") == 1
    for wrong in (IntegerAttr(-1, 64), IntegerAttr(64, 32), StringAttr("64")):
        second.properties["size"] = wrong
        ((op, _),) = module_errors(module, None, known)
        assert op is second
    second.properties["size"] = IntegerAttr(256, 64)
    second.properties["memory_case"] = StringAttr("host")
    ((op, _),) = module_errors(module, None, known)
    assert op is second


def test_traits_are_asked_of_known_forms_too() -> None:
    _, module = parsed()
    known = KnownForms()
    assert not module_errors(module, None, known)
    mark(only(module, AddOp))
    ((op, text),) = module_errors(module, None, known)
    assert op is only(module, AddOp)
    assert "mark" in text


def test_known_forms_of_isolated_ops_use_nothing_outside_where_nothing_gets() -> None:
    outside, dead = test.TestOp(result_types=[f32]), test.TestOp()
    body = Region([Block([func.ReturnOp()]), Block([dead, func.ReturnOp()])])
    function = func.FuncOp("f", FunctionType.from_lists([], []), body)
    module, known = ModuleOp([outside, function]), KnownForms()
    assert not module_errors(module, None, known)
    dead.operands = [outside.results[0]]
    ((op, text),) = module_errors(module, None, known)
    assert op is dead
    assert "is defined outside of func.func, which is isolated from above" in text


def test_threads_that_compile_at_once_leave_each_other_and_python_alone(
    asked: list[str],
) -> None:
    """One begins while the other compiles, and ends after it."""
    before, (_, module) = gc.get_threshold(), parsed()
    add = only(module, AddOp)
    has_begun, may_end = threading.Event(), threading.Event()

    def compile_longer() -> None:
        with KnownForms().asked_first(), Culprits().recording(), rare_collections():
            has_begun.set()
            may_end.wait()

    other = threading.Thread(target=compile_longer)
    with KnownForms().asked_first(), Culprits().recording(), rare_collections():
        other.start()
        has_begun.wait()
        for _ in range(2):
            add.verify(verify_nested_ops=False)
        assert len(asked) == 1
    rare = gc.get_threshold()
    may_end.set()
    other.join()
    assert gc.get_threshold() == before != rare
    for _ in range(2):
        add.verify(verify_nested_ops=False)
    assert len(asked) == 3
    # The module is printed again.
    with pytest.raises(VerifyException) as caught:
        add.emit_error("planted", VerifyException("planted"))
    assert "job.output" in "".join(caught.value.__notes__)
