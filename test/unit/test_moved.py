"""Old names of modules go on working for plug-ins, and users find all of `penstock`."""

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

import penstock
from penstock.moved import MOVED, SHADOWED
from penstock.runtime.jit.source_digest import imported_modules
from penstock.runtime.kernels.cuda.stages import Stage, stages_in

ROOT = Path(__file__).parents[2]

DOUBLING = '''
from xdsl.dialects.builtin import StringAttr, TensorType, f32
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from penstock.dialects.interfaces import ElementwiseOp, element_count, tensor_type
from penstock.dialects.kernel import KernelBuilder
from penstock.lowering.selection.alternatives import Alternative, Variant
from penstock.lowering.selection.registry import register_alternative

SOURCE = """
from penstock.runtime.kernel_support import buffer_f32, c_kernel, f32

@c_kernel
def kernel(args, part, parts):
    x, y = buffer_f32(args, 0, 2), buffer_f32(args, 1, 2)
    for i in range({count}):
        y[i] = f32(x[i] + x[i])
    return 0
"""


@irdl_op_definition
class DoubleOp(ElementwiseOp):
    """Each element, twice."""

    name = "acme.double"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def infer_types(self):
        return (tensor_type(self.operand),)

    def flops(self):
        return element_count(self.result.type)

    def evaluate(self, x):
        return (x + x,)

    def scalar(self, k: KernelBuilder, operands):
        (x,) = operands
        return k.mul(x, k.constant(2, f32))


class Doubling(Alternative):
    """Doubles vectors."""

    name = "doubling"
    ops = ("acme.double",)
    dtypes = ("f32",)
    priority = 10

    def refuse(self, request):
        return None

    def variants(self, request):
        (count,) = request.kernel.arguments[0].get_shape()

        def apply(kernel):
            kernel.attributes["source"] = StringAttr(SOURCE.format(count=count))

        yield Variant(apply, cost_ns=count / 16)


register_alternative(Doubling())
Acme = Dialect("acme", [DoubleOp])
'''

JOB = """
job.job @double placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8xf32>
  %y = acme.double %x : tensor<8xf32> -> tensor<8xf32>
  job.output "y", %y : tensor<8xf32>
}
"""


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_module_that_moved_has_the_same_objects_under_its_old_name(old: str):
    sys.modules.pop(old, None)
    new = MOVED[old]
    with pytest.warns(DeprecationWarning, match=f"{old} is {new} now") as told:
        module = import_module(old)
    given = vars(import_module(new))
    public = [name for name in given if not name.startswith("_")]
    assert all(getattr(module, name) is given[name] for name in public)
    assert sum(str(x.message).startswith(f"{old} is ") for x in told) == 1


def test_the_warning_is_told_once_a_module_where_it_is_imported():
    code = textwrap.dedent(
        """
        import warnings
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            from penstock.runtime.measures import CountObserver
            from penstock.runtime.measures import Sampled
            from penstock.lowering.packing.problem import Problem
            from penstock.lowering.packing.problem import Lifetime
            from penstock.dialects.kernel import KernelBuilder
            from penstock.dialects.kernel import memref_type
            from penstock.tools.session import Session
        for one in told:
            print(str(one.message).split()[0], one.filename)
        """
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "penstock.runtime.measures <string>",
        "penstock.lowering.packing <string>",
        "penstock.lowering.packing.problem <string>",
        "penstock.dialects.kernel <string>",
        "penstock.tools.session <string>",
    ]


@pytest.mark.parametrize("old", sorted(SHADOWED))
def test_a_package_has_the_names_of_the_module_that_stood_there(old: str):
    package, module = import_module(old), import_module(SHADOWED[old])
    names = {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and name[0] != "_"
    }
    assert names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all(getattr(package, x) is getattr(module, x) for x in names)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing


def test_the_list_of_changes_names_each_with_its_new_place():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for old, new in {**MOVED, **SHADOWED}.items():
        was, now = (name.removeprefix("penstock.") for name in (old, new))
        assert f"| `{was}` | `{now}` |" in text


def test_registries_are_the_same_under_old_names():
    from penstock.lowering.algorithms.packing.registry import register_packing
    from penstock.lowering.launch.autotune.registry import register_alternative

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packing = import_module("penstock.lowering.packing")
        selection = import_module("penstock.lowering.selection.registry")
    assert packing.register_packing is register_packing
    assert selection.register_alternative is register_alternative


def test_what_never_was_is_not_found():
    old = "penstock.lowering.packing.nothing"
    with pytest.raises(ModuleNotFoundError), pytest.warns(match=f"{old} is "):
        import_module(old)


@pytest.mark.slow
def test_a_plug_in_of_the_old_names_runs(tmp_path: Path):
    (tmp_path / "acme.py").write_text(DOUBLING, encoding="utf-8")
    (tmp_path / "double.mlir").write_text(JOB, encoding="utf-8")
    asked = "run double.mlir --load acme.py --random-inputs 1 --check numpy"
    assert "y differs by 0.00e+00" in _command(asked, tmp_path)
    asked = "opt double.mlir --load acme.py --pipeline cpu -p launch-select-kernels"
    assert "y[i] = f32(x[i] + x[i])" in _command(f"{asked} -t numba", tmp_path)


def _command(asked: str, folder: Path) -> str:
    name, *arguments = asked.split()
    run = f"import sys; from penstock.tools.cli.entry import {name} as run"
    done = subprocess.run(
        [sys.executable, "-c", f"{run}; sys.exit(run())", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_cuda_source_of_a_plug_in_may_list_phases():
    names: dict[str, object] = {}
    exec(
        "from penstock.runtime.kernels.cuda.support import Phase\n"
        "def phase_0(): pass\n"
        "PHASES = [Phase(phase_0, 4)]",
        names,
    )
    assert stages_in(names) == [Stage(cast("Callable[[], None]", names["phase_0"]), 4)]
    assert stages_in({**names, "STAGES": []}) == []


def test_the_source_of_a_kernel_is_kept_by_the_text_of_the_module_at_its_new_place():
    text = "from penstock.runtime.kernel_support import c_kernel\n"
    assert imported_modules(text) == {"runtime.kernels.cpu.support"}


@pytest.mark.parametrize("name", penstock.__all__)
def test_a_name_of_the_package_is_there(name: str):
    assert getattr(penstock, name) is not None


@pytest.mark.slow
def test_types_of_all_names_of_the_package_are_known_to_a_user(tmp_path: Path):
    pytest.importorskip("basedpyright", reason="it is a tool of developers")
    file = tmp_path / "mine.py"
    lines = [f"from penstock import {', '.join(penstock.__all__)}"]
    lines += [f"reveal_type({name})" for name in penstock.__all__]
    file.write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, file],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = [x for x in done.stdout.splitlines() if "Type of " in x]
    assert len(told) == len(penstock.__all__)
    assert not any("Unknown" in line or '"Any"' in line for line in told), told
