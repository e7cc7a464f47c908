"""Programs that rank 0 compiles for all ranks, which are threads here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from rank_threads import connected, in_threads

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.session import model as models
from penstock.tools.session.executable import Executable
from penstock.tools.session.model import Model
from penstock.tools.session.options import DEFAULTS
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.rank_programs import (
    agree_on_file,
    agree_on_model,
    compile_for,
)
from penstock.tools.session.ranks import Ranks
from penstock.tools.session.saved_plan import plan
from penstock.tools.session.saved_plan.archive import PlanError
from penstock.tools.session.saved_plan.sent_program import (
    SentProgram,
    packed,
    unpacked,
)

NET = """
!t = tensor<16xf32>

job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %u = job.variable "u" init <ones> : !t
  %near = op.mul %x, %u : !t, !t -> !t
  %v = job.variable "v" init <npz, file = "v.npz">
    {placement = #job.placement<cpu, [1:0]>} : !t
  %w = job.variable "w" init <zeros> {placement = #job.placement<cpu, [1:0]>} : !t
  %p = op.mul %near, %v {placement = #job.placement<cpu, [1:0]>} : !t, !t -> !t
  %q = op.add %p, %w {placement = #job.placement<cpu, [1:0]>} : !t, !t -> !t
  job.output "y", %q : !t
}
"""
"""Rank 1 has a variable of a file, and one that an array is given for."""


def net(folder: Path, **weights: NDArray[np.float32]) -> Model:
    module = installed_compiler()[0].parse(NET.encode(), str(folder / "net.mlir"))
    return Model(module, weights, folder)


def on_both(function: Callable[[Ranks, int], object]) -> list[Any]:
    """The results of a function on two ranks, which gets their numbers, too."""
    with connected(2) as made:
        ranks = [Ranks(transport, 2) for transport in made]
        return in_threads([partial(function, x, i) for i, x in enumerate(ranks)])


def test_rank_0_compiles_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered: list[Model] = []
    lower = models.lower

    def note(compiler: Any, passes: Any, model: Model, *more: Any) -> object:
        lowered.append(model)
        return lower(compiler, passes, model, *more)

    monkeypatch.setattr(models, "lower", note)
    u, v, w = fresh().standard_normal((3, 16)).astype(np.float32)
    # Files are those of each rank, and arrays that are given those of rank 0.
    np.savez(tmp_path / "v.npz", v=v)
    both = net(tmp_path / "of 0", u=u, w=w), net(tmp_path)

    def compile_here(ranks: Ranks, rank: int) -> Executable:
        return compile_for(ranks, both[rank], DEFAULTS)

    own, sent = on_both(compile_here)
    assert len(lowered) == 1
    assert lowered[0] is both[0]
    assert isinstance(own, ExportedProgram)
    assert isinstance(sent, SentProgram)
    assert own.share is not None
    assert own.share[:2] == (0, 2)
    assert sent.share == own.share._replace(rank=1)
    for executable, wanted in ((own, {"u": u}), (sent, {"v": v, "w": w})):
        values = executable.values()
        assert values.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(values[name], array)
    # All that runs is as rank 0 has it, with the whole path of its file.
    program = ExportedProgram(models.programs_of(both[0])[1])
    assert sent.image == program.image
    assert sent.sources == program.sources
    assert sent.text == program.text
    places = [actor.place or "" for actor in sent.image.actors]
    assert any(place.startswith(f"{tmp_path}/of 0/net.mlir:") for place in places)


def test_a_program_is_not_run_without_the_features_that_it_was_tiled_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, executable = models.compile_programs(
        net(tmp_path), DEFAULTS, None, models.programs_of
    )

    def needed(text: str) -> list[str]:
        return ["warp"]

    monkeypatch.setattr(plan, "_needed_features", needed)
    data = bytearray(packed(executable))
    text = "the program that rank 0 has compiled: its kernels were tiled for .* warp"
    help = "let a host whose processor has the fewest features run rank 0"
    with pytest.raises(PlanError, match=f"^{text}, which this .* lacks: {help}$"):
        unpacked(data, tmp_path)


def refusals(function: Callable[[Ranks, int], object]) -> list[str]:
    """The errors of both ranks."""

    def refused(ranks: Ranks, rank: int) -> str:
        with pytest.raises(UsageError) as caught:
            function(ranks, rank)
        return str(caught.value)

    return on_both(refused)


ALL_NEED = "than rank 0: all processes need the same model, options and version"


def test_ranks_with_other_files_or_options_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one.mlir", tmp_path / "other.mlir"
    one.write_text(NET)
    other.write_text(NET.replace("ones", "zeros"))

    def files(ranks: Ranks, rank: int) -> None:
        agree_on_file(ranks, (one, other)[rank], DEFAULTS)

    def options(ranks: Ranks, rank: int) -> None:
        given = replace(DEFAULTS, collectives=("copies", "ring")[rank])
        agree_on_file(ranks, one, given)

    def asked(ranks: Ranks, rank: int) -> None:
        agree_on_file(ranks, one, DEFAULTS, ("train", "test")[rank])

    assert refusals(files) == [f"rank 1 has another model {ALL_NEED}"] * 2
    for function in (options, asked):
        assert refusals(function) == [f"rank 1 has other options {ALL_NEED}"] * 2


def test_ranks_with_other_models_are_refused(tmp_path: Path) -> None:
    both = net(tmp_path), net(tmp_path)
    on_both(lambda ranks, rank: agree_on_model(ranks, both[rank], DEFAULTS))
    entry = both[1].module.body.block.last_op
    assert entry is not None
    entry.detach()

    def compare(ranks: Ranks, rank: int) -> None:
        agree_on_model(ranks, both[rank], DEFAULTS)

    assert refusals(compare) == [f"rank 1 has another model {ALL_NEED}"] * 2


def test_plug_ins_may_lie_in_other_folders(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(NET)
    files: list[Path] = []
    for rank in range(2):
        (folder := tmp_path / str(rank)).mkdir()
        files.append(folder / "plug_in.py")
        files[rank].write_text("KNOWN = True\n")

    def compare(ranks: Ranks, rank: int) -> None:
        given = replace(DEFAULTS, load=(str(files[rank]),))
        agree_on_file(ranks, tmp_path / "net.mlir", given)

    on_both(compare)
    files[1].write_text("KNOWN = False\n")
    assert refusals(compare) == [f"rank 1 has other options {ALL_NEED}"] * 2
