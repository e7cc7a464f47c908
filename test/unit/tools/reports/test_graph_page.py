"""The graph page: purposes of edges, stages of kernels, layouts, and their pictures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import onnx
import pytest
from browser import DESKTOP, PHONE, Browser, Pictures, Screen, Tab
from large_programs import gpt, inception, training
from onnx import ModelProto
from scoped_models import bert, unet

import penstock.tools.reports.view as view
from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.dialects.utils.diagnostics import nodes_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.onnx.model import import_file, import_model
from penstock.tools.reports.view.data import Graph, scope_of
from penstock.tools.reports.view.edges import Purpose
from penstock.tools.reports.view.kernel_stages import Buffer, Stage, region_of
from penstock.tools.reports.view.page import page_of
from penstock.tools.session.model import Model, compile_model
from penstock.tools.session.options import CompileOptions

Json: TypeAlias = "dict[str, Any]"

VENDOR = Path(view.__file__).parent / "vendor"
GEOMETRY = Path(__file__).parents[3] / "helpers" / "geometry.js"


def compiled(model: ModelProto, threads: int = 1) -> ProgramOp:
    imported = import_model(model, "model.onnx")
    options = CompileOptions(threads=threads)
    made = Model(imported.module, imported.weights, Path())
    return compile_model(made, options, installed_compiler()).program


# Data -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [bert(1), unet(2)], ids=["bert", "unet"])
@pytest.mark.parametrize("threads", [1, 2])
def test_data_edges_are_those_of_the_model(model: ModelProto, threads: int):
    program = compiled(model, threads)
    found = Graph(program).edges()
    data = [(e.start, e.end) for e in found if e.purpose == Purpose.DATA]
    tasks = [{*nodes_of(actor)} for actor in program.actors]
    below = reachable(len(tasks), data)
    for before, after in edges_of_nodes(model):
        starts = [i for i, nodes in enumerate(tasks) if before in nodes]
        ends = [i for i, nodes in enumerate(tasks) if after in nodes]
        assert all(a == b or b in below[a] for a in starts for b in ends)
    names = [node.name for node in model.graph.node]
    number = {name: i for i, name in enumerate(names)}
    pairs = [(number[a], number[b]) for a, b in edges_of_nodes(model)]
    later = reachable(len(names), pairs)
    for start, end in data:
        if tasks[start] and tasks[end] and tasks[start] != tasks[end]:
            assert any(
                number[b] in later[number[a]] for a in tasks[start] for b in tasks[end]
            )
    assert {e.purpose for e in found} >= {Purpose.DATA, Purpose.FEEDBACK}


def edges_of_nodes(model: ModelProto) -> list[tuple[str, str]]:
    maker = {out: node.name for node in model.graph.node for out in node.output}
    return [
        (maker[name], node.name)
        for node in model.graph.node
        for name in node.input
        if name in maker
    ]


def reachable(count: int, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """The nodes after each node."""
    found: list[set[int]] = [set() for _ in range(count)]
    changed = True
    while changed:
        changed = False
        for a, b in edges:
            if not found[a] >= {b, *found[b]}:
                found[a] |= {b, *found[b]}
                changed = True
    return found


def branching() -> ProgramOp:
    """A program that has edges for all purposes."""
    text = """job.job @p placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<4x64xf32>
      %w = job.input "w" : tensor<64x64xf32>
      %a = op.matmul %x, %w : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32>
      %b = op.matmul %a, %w : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32>
      %c = op.softmax %a axis 1 : tensor<4x64xf32> -> tensor<4x64xf32>
      %d = op.matmul %c, %w : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32>
      %e = op.softmax %d axis 1 : tensor<4x64xf32> -> tensor<4x64xf32>
      %f = op.add %b, %e : tensor<4x64xf32>, tensor<4x64xf32> -> tensor<4x64xf32>
      job.output "y", %f : tensor<4x64xf32>
    }"""
    front = installed_compiler()
    module = front[0].parse(text.encode(), "p.mlir")
    return compile_model(Model(module, {}, Path()), CompileOptions(), front).program


def test_guards_and_orders_are_no_data():
    found = Graph(branching()).edges()
    assert {e.purpose for e in found} == {*Purpose}


@pytest.mark.parametrize(
    ("nodes", "scope"),
    [
        ([], []),
        (["MatMul_3"], []),
        (["/layers.0/attn/q/MatMul"], ["layers.0", "attn", "q"]),
        (["/layers.0/attn/q/MatMul", "/layers.0/Add"], ["layers.0"]),
        (["/layers.0/up/MatMul", "/act/Relu"], ["layers.0", "up"]),
    ],
)
def test_scopes_are_those_that_all_nodes_share(nodes: list[str], scope: list[str]):
    assert scope_of(nodes) == scope


KERNEL = """
launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%x: memref<2x3xf32>, %o: memref<2x3xf32>) {
    %own = memref.alloc() : memref<6xf32>
    %flat = memref.collapse_shape %x [[0 : i64, 1 : i64]]
      : memref<2x3xf32> into memref<6xf32>
    linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]
    } ins(%flat : memref<6xf32>) outs(%own : memref<6xf32>) {
    ^bb0(%a: f32, %b: f32):
      %e = math.exp %a : f32
      linalg.yield %e : f32
    }
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    scf.for %i = %c0 to %c6 step %c1 {
      %v = memref.load %own[%i] : memref<6xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %o[%c0, %c0] : memref<2x3xf32>
    }
  }
}
"""


def kernel_of(text: str) -> KernelOp:
    module = installed_compiler()[0].parse(text.encode(), "k.mlir")
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    return kernel


def test_stages_of_a_kernel_and_its_own_memory():
    region = region_of(kernel_of(KERNEL))
    assert region is not None
    assert region.buffers == (
        Buffer("argument 0", "2x3xf32", 24, False),
        Buffer("argument 1", "2x3xf32", 24, False),
        Buffer("own memory", "6xf32", 24, True),
    )
    assert region.stages == (
        Stage("map: exp", (0, 2), (2,)),
        Stage("loop: addf", (2,), (1,)),
    )


def test_one_stage_alone_is_no_region():
    text = """launch.program @p rank 0 {
      launch.kernel @k target "cpu" (%o: memref<2xf32>) {
        %z = arith.constant 0.0 : f32
        linalg.fill ins(%z : f32) outs(%o : memref<2xf32>)
      }
    }"""
    assert region_of(kernel_of(text)) is None


def test_vendored_files_are_what_they_are_said_to_be():
    text = (VENDOR / "VERSIONS.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert [row[0] for row in rows] == ["dagre.min.js"]
    for name, _, _, licence, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
        notice = (VENDOR / f"{name}.LEGAL.txt").read_text(encoding="utf-8")
        assert licence == "MIT"
        assert "Permission is hereby granted, free of charge" in notice
        assert notice.strip() in page_of(gpt(1))


# Layouts ----------------------------------------------------------------------------

Shown: TypeAlias = Callable[..., Tab]


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Shown:
    """The page of a program in a tab, when its graph is drawn."""

    def show(program: ProgramOp, screen: Screen = DESKTOP) -> Tab:
        path = tmp_path / f"{program.sym_name.data}.html"
        path.write_text(page_of(program), encoding="utf-8")
        tab = browser.open(path, screen)
        tab.run("graphView.settled.then(() => true)")
        tab.run(GEOMETRY.read_text(encoding="utf-8"))
        tab.rest()
        return tab

    return show


LAYOUTS = """
(bys => {
  const found = {};
  for (const by of bys) {
    const engine = new Engine(graphView.service.graph);
    const commands = { first: { what: "show", by, purposes: [0] },
      all: { what: "all", open: true }, none: { what: "all", open: false } };
    for (const [name, command] of Object.entries(commands)) {
      const picture = engine.do(command);
      found[`${by} ${name}`] = { ...flawsOf(picture), ...picture.asked,
        boxes: picture.nodes.length, width: picture.w, height: picture.h,
        up: upwards(picture) };
    }
  }
  return found;
})
"""

CLEAN = {"overlaps": 0, "throughBoxes": 0, "crossings": 0, "up": 0}
GROUPINGS = ["scope", "block", "chain", "stream", "device", "none"]


def layouts(tab: Tab, groupings: Sequence[str] = GROUPINGS) -> dict[str, Json]:
    return tab.run(f"{LAYOUTS}({json.dumps(groupings)})")


def assert_clean(found: dict[str, Json], but: Sequence[str] = ()) -> None:
    for name, facts in found.items():
        flaws = {key: facts[key] for key in CLEAN if key not in but}
        assert flaws == {key: 0 for key in flaws}, name


@pytest.mark.parametrize("model", [bert(), unet()], ids=["bert", "unet"])
def test_models_are_drawn_without_crossings(model: ModelProto, shown: Shown):
    with shown(compiled(model)) as tab:
        found = layouts(tab)
        assert_clean(found)
        assert tab.is_quiet()


# Each takes four seconds to compile.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("inception_v1", 500), ("resnet50", 100)])
def test_light_models_are_drawn_without_crossings(name: str, least: int, shown: Shown):
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    imported = import_file(folder / f"light_{name}.onnx")
    made = Model(imported.module, imported.weights, Path())
    program = compile_model(made, CompileOptions(), installed_compiler()).program
    with shown(program) as tab:
        found = layouts(tab)
        assert_clean(found)
        # The branches of an inception block stand side by side.
        assert found["none all"]["width"] >= least
        assert tab.is_quiet()


def test_flaws_are_found(shown: Shown):
    with shown(inception(1)) as tab:
        script = """
        (() => {
          const picture = new Engine(graphView.service.graph)
            .do({ what: "show", by: "none", purposes: [0] });
          const before = flawsOf(picture);
          picture.places[0] = picture.places[4];
          picture.places[1] = picture.places[5] + 1;
          const moved = flawsOf(picture), { linePoints, lineStarts } = picture;
          const last = lineStarts[lineStarts.length - 1];
          linePoints.set([-500, 1, 900, picture.h - 1], last - 4);
          return [before, moved, flawsOf(picture)];
        })()
        """
        before, moved, crossed = tab.run(script)
        assert before == {"overlaps": 0, "throughBoxes": 0, "crossings": 0}
        assert moved["overlaps"] > 0
        assert crossed["throughBoxes"] > 0
        assert crossed["crossings"] > 0


def test_equal_pieces_are_laid_out_once(shown: Shown):
    with shown(gpt(30)) as tab:
        found = layouts(tab, ["scope"])
        assert_clean(found, ["crossings"])
        assert max(facts["crossings"] for facts in found.values()) <= 30
        unfolded = found["scope all"]
        assert unfolded["boxes"] > 400
        assert unfolded["calls"] < 40 < 300 < unfolded["pieces"]
        assert unfolded["largest"] < 20
        assert unfolded["width"] < 1200
        assert found["scope first"]["boxes"] <= 160


def test_no_piece_is_too_large_for_dagre(shown: Shown):
    with shown(training(45)) as tab:
        asked = tab.run(
            "new Engine(graphView.service.graph)"
            ".do({ what: 'show', by: 'none', purposes: [0] }).asked"
        )
        assert tab.run("tasks.length") > 300
        assert 1 < asked["largest"] <= 300


def test_lines_pass_by_boxes_that_are_higher(shown: Shown):
    with shown(gpt(2, heads=3)) as tab:
        assert_clean(layouts(tab), ["crossings"])


def test_blocks_of_branches_are_columns(shown: Shown):
    with shown(inception(30)) as tab:
        found = layouts(tab, ["scope", "none"])
        assert_clean(found)
        assert found["none all"]["width"] > 400
        assert found["scope none"]["boxes"] == 2


def test_scopes_of_forward_and_backward_are_no_cycles(shown: Shown):
    with shown(training(5)) as tab:
        found = layouts(tab)
        assert_clean(found, ["crossings"])
        labels = tab.run("graphView.picture.groups.map(group => group.label)")
        assert {"layers.3", "layers.3 (2)"} <= {*labels}


# Actions of a person ----------------------------------------------------------------


def test_groups_fold_by_clicks_and_keys(shown: Shown):
    with shown(gpt(3)) as tab:
        # The next frame fits the picture into the window.
        settled = (
            "graphView.settled.then(() => new Promise(requestAnimationFrame))"
            ".then(() => graphView.picture.nodes.length)"
        )
        tab.click("#fold")
        folded = tab.run(settled)
        group = "graphView.picture.nodes.findIndex(node => node < 0)"
        x, y = tab.run(
            f"(() => {{ const box = {group}, [x, y] = graphView.rectOf(box); "
            "const at = graphView.canvas.getBoundingClientRect(); return ["
            "at.x + graphView.x + (x + 12) * graphView.scale, "
            "at.y + graphView.y + (y + 12) * graphView.scale]; })()"
        )
        tab.click_at(x, y)
        opened = tab.run(settled)
        assert opened > folded
        label = tab.run("graphView.picture.groups[chosen.group].label")
        assert label in tab.text("#side")
        assert "each run" not in tab.text("#side")
        tab.click_at(x, y)
        assert tab.run(settled) == folded
        tab.run("graphView.canvas.focus()")
        tab.press("u")
        assert tab.run(settled) > opened
        tab.press("f")
        assert tab.run(settled) == folded
        assert tab.run("graphView.service.worker !== null")
        assert tab.is_quiet()


def test_a_selected_task_shows_its_lines_and_lights_its_registers(shown: Shown):
    with shown(gpt(4)) as tab:
        tab.run("chooseTask(0, true); graphView.settled.then(() => true)")
        side = tab.text("#side")
        assert "/mask" in side
        tab.run("graphView.canvas.focus()")
        tab.press("ArrowDown")
        tab.run("graphView.settled.then(() => true)")
        assert tab.run("tasks[chosen.task].kind") == "view"
        assert tab.run("edgesOfTask[0].some(i => edges[i][1] === chosen.task)")
        lit = 'all("#memory rect.on").map(rectName).sort()'
        task = "tasks[chosen.task]"
        names = (
            f"[...{task}.reads, ...{task}.writes].map(r => registers[r].name).sort()"
        )
        assert tab.run(lit) == tab.run(names) != []
        tab.press("Escape")
        assert tab.run("chosen") is None
        assert tab.is_quiet()


PINCH = """
(() => {
  const { canvas } = graphView, before = graphView.scale;
  const touch = (kind, pointerId, clientX) => canvas.dispatchEvent(
    new PointerEvent(kind, { pointerId, clientX, clientY: 400, bubbles: true }));
  touch("pointerdown", 1, 100);
  touch("pointerdown", 2, 200);
  touch("pointermove", 2, 300);
  touch("pointerup", 1, 100);
  touch("pointerup", 2, 300);
  return [graphView.scale / before, chosen];
})()
"""


def test_two_fingers_zoom(shown: Shown):
    with shown(gpt(1), PHONE) as tab:
        grown, chosen = tab.run(PINCH)
        assert grown == pytest.approx(2)
        assert chosen is None
        assert tab.is_quiet()


def test_orders_and_guards_are_switched_on(shown: Shown):
    with shown(branching()) as tab:
        count = (
            "graphView.settled.then(() => new Set(graphView.picture.lineEdges.items)"
            ".size)"
        )
        seen = [tab.run(count)]
        for box in ("[value='1']", "[value='2']"):
            tab.click(f"#graph-options {box}")
            seen.append(tab.run(count))
        assert seen[0] < seen[1] < seen[2]
        assert tab.is_quiet()


def test_a_fused_task_shows_its_stages(shown: Shown):
    with shown(compiled(bert(1))) as tab:
        task = tab.run("graphView.texts.findIndex(text => text.stages)")
        before = tab.run("graphView.picture.nodes.length")
        tab.run(f"chooseTask({task}, true)")
        tab.run("graphView.settled.then(() => true)")
        tab.run("graphView.canvas.focus()")
        tab.press("Enter")
        settled = "graphView.settled.then(() => graphView.picture.nodes.length)"
        assert tab.run(settled) > before
        assert "stages" in tab.text("#side")
        assert flaws(tab) == {"overlaps": 0, "throughBoxes": 0, "crossings": 0}
        tab.press("Enter")
        assert tab.run(settled) == before
        assert tab.is_quiet()


def test_a_fused_task_is_called_by_its_ops(shown: Shown):
    program = compiled(bert(1))
    tasks = Graph(program).to_json()["tasks"]
    held = [op["holds"] for task in tasks for op in task["ops"] if "holds" in op]
    assert any(ops[0] == "op.matmul" and len(ops) > 1 for ops in held)
    with shown(program) as tab:
        titles: list[str] = tab.run("graphView.texts.map(text => text.title)")
        assert not any("fused" in title for title in titles)
        assert any(title.startswith("matmul + ") for title in titles)
        task = next(i for i, task in enumerate(tasks) if "holds" in task["ops"][0])
        tab.run(f"chooseTask({task}, true)")
        text = " + ".join(tasks[task]["ops"][0]["holds"]).replace("op.", "")
        assert text in tab.text("#side")
        assert tab.is_quiet()


def test_what_cannot_be_told_apart_on_the_screen_is_painted_once(shown: Shown):
    with shown(gpt(60)) as tab:
        tab.run("graphView.apply({ what: 'all', open: true }, true)")
        painted = "(graphView.drawNow(), graphView.painted)"
        tab.run("graphView.settled.then(() => (graphView.fit(), true))")
        boxes, lines = tab.run(
            "[graphView.picture.nodes.length, graphView.picture.hasArrow.length]"
        )
        whole = tab.run(painted)
        assert 0 < whole["boxes"] < boxes
        assert whole["lines"] < lines
        near = tab.run(f"(graphView.scale = 0.8, {painted})")
        assert 0 < near["boxes"] < boxes / 4
        assert tab.is_quiet()


def test_a_canvas_keeps_its_memory_while_it_is_moved(shown: Shown):
    with shown(gpt(2)) as tab:
        tab.run("graphView.settled.then(() => true)")
        counted = (
            "(() => { let sizes = 0; const { canvas } = graphView;"
            " const set = Object.getOwnPropertyDescriptor("
            "HTMLCanvasElement.prototype, 'width').set;"
            " Object.defineProperty(canvas, 'width', { configurable: true,"
            " get() { return Number(canvas.getAttribute('width')); },"
            " set(value) { sizes++; set.call(canvas, value); } });"
            " for (let i = 0; i < 5; i++) { graphView.y -= 9; graphView.drawNow(); }"
            " delete canvas.width; return sizes; })()"
        )
        assert tab.run(counted) == 0
        assert tab.is_quiet()


def flaws(tab: Tab) -> Json:
    return tab.run("flawsOf(graphView.picture)")


def test_colours_tell_what_is_asked(shown: Shown):
    with shown(gpt(1)) as tab:
        choose = (
            "(box => {{ box.value = '{0}'; box.onchange({{ target: box }}); }})"
            "(find('#colour'))"
        )
        for by, text in (
            ("device", "cpu:0"),
            ("time", "no time"),
            ("bytes", "1.0 KiB"),
            ("kind", "view"),
        ):
            tab.run(choose.format(by))
            assert text in tab.text(".legend")
        assert tab.is_quiet()


def test_a_page_without_workers_lays_out_by_itself(shown: Shown):
    with shown(gpt(2)) as tab:
        before = tab.run("[...graphView.picture.places]")
        tab.run("graphView.service.goOnHere()")
        tab.click("#fold")
        assert (
            tab.run("graphView.settled.then(() => graphView.picture.nodes.length)") > 0
        )
        tab.run("find('#by').value = 'scope'; find('#by').onchange()")
        after = "graphView.settled.then(() => [...graphView.picture.places])"
        assert tab.run(after) == before
        assert tab.is_quiet()


@pytest.mark.parametrize("screen", [DESKTOP, DESKTOP._replace(is_dark=True), PHONE])
def test_the_graph_looks_like_its_picture(
    screen: Screen, shown: Shown, pictures: Pictures
):
    with shown(gpt(6), screen) as tab:
        pictures.compare(tab, "graph")
        assert tab.is_quiet()
