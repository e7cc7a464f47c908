"""`penstock-view`: where tasks are drawn, what the page says, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from browser import Browser, Screen
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    i8,
    i64,
)
from xdsl.ir import Block, Operation, Region

from penstock.dialects.job import DeviceAttr, InitAttr
from penstock.dialects.launch import (
    ActorOp,
    ChunkOp,
    ProgramOp,
    RegisterOp,
    VariableOp,
)
from penstock.dialects.regst import MemoryCaseAttr
from penstock.runtime.observe.trace_of_ranks import (
    RankTrace,
    text_of,
    trace_of_ranks,
)
from penstock.runtime.program.executable import image_from_json
from penstock.tools.cli.run import run_tool as run_model
from penstock.tools.cli.view import run_tool
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.files import path_of_rank
from penstock.tools.reports.memory_map.map import y_axis
from penstock.tools.reports.view.data import Graph
from penstock.tools.reports.view.edges import Purpose
from penstock.tools.reports.view.memory import memory_of
from penstock.tools.reports.view.page import page_of
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.program_export import ExportedProgram, image_of
from penstock.tools.session.program_file import programs_in
from penstock.tools.session.ranks import Share
from penstock.tools.session.saved_plan.plan import save_plan
from penstock.tools.session.session import lower, program_of, read_model

EXAMPLES = Path(__file__).parents[4] / "examples"
ENCODER, PROGRAM = str(EXAMPLES / "encoder.mlir"), str(EXAMPLES / "program.mlir")

Json: TypeAlias = "dict[str, Any]"

NASTY = """</script><img src=x onerror="alert(1)"> & 'q'"""

# Memory ------------------------------------------------------------------------------


CPU = DeviceAttr(0, "cpu", 0)


def register(name: str, offset: int, size: int, slots: int = 1) -> RegisterOp:
    """Bytes of the chunk; slots lie at multiples of 64."""
    return RegisterOp(name, "c0", offset, slots, MemRefType(i8, [size]))


def actor(name: str, reads: Sequence[str], writes: Sequence[str]) -> ActorOp:
    return ActorOp(name, CPU, 0, reads, writes, Region(Block()))


def program(
    memory: Sequence[Operation], actors: Sequence[ActorOp], name: str = "p"
) -> ProgramOp:
    chunk = ChunkOp("c0", MemoryCaseAttr(0, "host"), 512)
    return ProgramOp(name, 0, Region(Block([chunk, *memory, *actors])))


def report(**numbers: int) -> DictionaryAttr:
    return DictionaryAttr({key: IntegerAttr(n, i64) for key, n in numbers.items()})


def live_of(program: ProgramOp) -> Sequence[int]:
    (zone,) = memory_of(image_of(program), ["view"] * len(program.actors)).zones
    return zone.usage.live


def test_registers_are_alive_from_writer_to_last_reader():
    memory = [register("x", 0, 8), register("y", 8, 4), register("z", 16, 16, slots=2)]
    actors = [
        actor("a", [], ["x"]),
        actor("b", ["x"], ["y"]),
        actor("c", ["x"], ["z"]),
        actor("d", ["y", "z"], []),
    ]
    assert live_of(program(memory, actors)) == [8, 12, 8 + 4 + 80, 84]


def test_the_bound_is_that_of_the_plan_if_the_program_says_it():
    memory = [register("x", 0, 64), register("y", 128, 64)]
    actors = [actor("a", [], ["x"]), actor("b", ["x"], ["y"]), actor("c", ["y"], [])]
    made = program(memory, actors)
    (zone,) = memory_of(image_of(made), ["view"] * 3).zones
    assert (zone.usage.bound, zone.usage.ratio) == (128, None)
    assert "512 B, at most 128 B alive, fullest at step 1, b" in page_of(made, None)
    chunk = made.body.block.first_op
    assert chunk is not None
    chunk.attributes["memory"] = report(bound=96, peak=192)
    (zone,) = memory_of(image_of(made), ["view"] * 3).zones
    assert (zone.usage.bound, zone.usage.ratio) == (96, 2.0)
    text = "512 B, activations 192 B (2.000 x the bound of 96 B), fullest at step 1, b"
    assert text in page_of(made, None)


def test_the_bound_stands_in_the_executable():
    chunk = ChunkOp("c0", MemoryCaseAttr(0, "host"), 512)
    chunk.attributes["memory"] = report(bound=96, peak=192)
    image = image_of(ProgramOp("p", 0, Region(Block([chunk]))))
    assert [(x.peak, x.bound) for x in image.chunks] == [(192, 96)]
    assert image_from_json(image.to_json()) == image


def test_variables_are_always_alive():
    type = MemRefType(i8, [4])
    variable = VariableOp("w", "c0", 0, type, init=InitAttr("zeros", {}))
    memory = [variable, register("x", 4, 8)]
    assert live_of(program(memory, [actor("a", [], ["x"]), actor("b", [], [])])) == [
        12,
        4,
    ]


def test_what_lies_on_a_register_counts_with_it():
    memory = [register("x", 0, 8), register("part", 4, 4), register("later", 0, 8)]
    actors = [
        actor("a", [], ["x"]),
        actor("b", ["x"], ["part"]),
        actor("c", ["part"], []),
        actor("d", [], ["later"]),
    ]
    made = program(memory, actors)
    assert live_of(made) == [8, 8, 8, 8]
    (zone,) = memory_of(image_of(made), ["view"] * 4).zones
    found = {r.name: r for r in zone.chunks[0].blocks[0].registers}
    assert (found["part"].alias_of, found["part"].alias_offset) == ("x", 4)
    assert found["x"].alias_of is found["later"].alias_of is None


# The page ----------------------------------------------------------------------------


def compiled(path: str, threads: int = 1) -> ProgramOp:
    compiler, passes = installed_compiler()
    model = read_model(compiler, Path(path))
    lower(compiler, passes, model, CompileOptions(threads=threads))
    return program_of(model)


def data_of(page: str) -> Json:
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


class Elements(HTMLParser):
    """The elements of a page, and what they load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [v or "" for k, v in attrs if k in ("src", "href", "onerror")]


def test_the_page_says_what_the_program_says():
    made = compiled(ENCODER, threads=2)
    image = image_of(made)
    graph = data_of(page_of(made))["graph"]
    assert [task["name"] for task in graph["tasks"]] == [a.name for a in image.actors]
    names = [register["name"] for register in graph["registers"]]
    for task, known in zip(graph["tasks"], image.actors, strict=True):
        assert [names[r] for r in task["reads"]] == list(known.reads)
        assert [names[r] for r in task["writes"]] == list(known.writes)
        assert task["stream"] == known.stream
    sizes = {q.name: q.kind.size for q in image.queues if q.kind is not None}
    assert {r["name"]: r["bytes"] for r in graph["registers"] if "bytes" in r} == sizes
    costs = [op["flops"] for t in graph["tasks"] for op in t["ops"] if "flops" in op]
    assert sum(costs) > 0
    for start, end, register, purpose in graph["edges"]:
        assert register in graph["tasks"][start]["writes"]
        assert register in graph["tasks"][end]["reads"]
        is_full = graph["registers"][register]["initial"] > 0
        assert is_full == (purpose == Purpose.FEEDBACK)


def test_the_page_loads_nothing_and_is_the_same_each_time():
    page = page_of(compiled(PROGRAM))
    assert not [link for link in Elements(page).loads if not link.startswith("#")]
    assert "default-src 'none'" in page
    assert page_of(compiled(PROGRAM)) == page


def nasty_program() -> ProgramOp:
    memory = [register(NASTY, 0, 8)]
    actors = [actor(NASTY, [], [NASTY]), actor("<b>", [NASTY], [])]
    return program(memory, actors, name=NASTY)


def test_names_are_text():
    page = page_of(nasty_program())
    elements = Elements(page)
    assert "img" not in elements.tags
    assert "b" not in elements.tags
    assert elements.tags.count("script") == 3
    assert data_of(page)["graph"]["tasks"][0]["name"] == NASTY


@pytest.mark.parametrize(
    ("size", "texts"),
    [
        (0, {"0 B": 0}),
        (5, {"0 B": 0, "1 B": 20, "2 B": 40, "3 B": 60, "4 B": 80, "5 B": 100}),
        (
            80 << 10,
            {
                "0 B": 0,
                "16 KiB": 20,
                "32 KiB": 40,
                "48 KiB": 60,
                "64 KiB": 80,
                "80 KiB": 100,
            },
        ),
        (
            40 << 20,
            {
                "0 B": 0,
                "8 MiB": 20,
                "16 MiB": 40,
                "24 MiB": 60,
                "32 MiB": 80,
                "40 MiB": 100,
            },
        ),
        (64 << 20, {"0 B": 0, "16 MiB": 25, "32 MiB": 50, "48 MiB": 75, "64 MiB": 100}),
    ],
)
def test_bytes_on_the_axis_are_round(size: int, texts: dict[str, float]):
    found = re.findall(r"bottom:([0-9.]+)%..([^<]+)<", "".join(y_axis(size)))
    assert {text: float(place) for place, text in found} == texts


# The command -------------------------------------------------------------------------


def refuses(
    capsys: pytest.CaptureFixture[str], message: str, *arguments: str, code: int = 2
) -> None:
    assert run_tool(arguments) == code
    assert capsys.readouterr() == ("", f"penstock-view: error: {message}\n")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of three runs of the encoder."""
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    arguments = [ENCODER, "--random-inputs", "1", "--threads", "2", "--repeat", "3"]
    assert run_model([*arguments, "--trace", str(path)]) == 0
    return path


@pytest.mark.slow
def test_a_trace_becomes_a_time_line(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "view.html"
    arguments = ENCODER, "--threads", "2", "--trace", str(trace), "-o", str(page)
    assert run_tool(arguments) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    data = data_of(page.read_text())
    line, tasks = data["trace"], data["graph"]["tasks"]
    assert [t["name"] for t in line["tracks"]] == [
        "runs",
        "stream 0 (cpu)",
        "stream 1 (cpu)",
    ]
    acts = 0
    for track in line["tracks"][1:]:
        for name, _, duration, category, task, _ in track["slices"]:
            assert duration >= 0
            if line["categories"][category] in ("task", "edge"):
                assert tasks[task]["name"] == line["names"][name]
                acts += 1
    assert acts == 3 * len(tasks)


@pytest.mark.parametrize("name", ["digits", "plan", "program"])
def test_files_of_all_levels_are_shown(name: str, tmp_path: Path):
    page = tmp_path / "view.html"
    file = EXAMPLES / f"{name}.mlir"
    assert run_tool([str(file), "-o", str(page)]) == 0
    tasks = data_of(page.read_text())["graph"]["tasks"]
    assert [task["name"] for task in tasks] == [
        a.sym_name.data for a in compiled(str(file)).actors
    ]


def test_a_saved_plan_is_shown_like_its_program(tmp_path: Path):
    plan, pages = tmp_path / "m.penstock", [tmp_path / "a.html", tmp_path / "b.html"]
    model = str(EXAMPLES / "digits.mlir")
    assert run_model([model, "--random-inputs", "1", "--save-plan", str(plan)]) == 0
    for file, page in zip((model, str(plan)), pages, strict=True):
        assert run_tool([file, "-o", str(page)]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_files_that_are_no_traces_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, out = tmp_path / "t.json", ["-o", str(tmp_path / "o.html")]
    cases = {
        "[]": "the file is no object",
        "{}": "otherData is no object",
        '{"otherData": {"version": 7}}': "it has version 7, not 1",
        '{"otherData": {"version": 1}, "traceEvents": 3}': "traceEvents is no list",
        '{"otherData": {"version": 1}, "traceEvents": [3]}': "event 0 is no object",
        '{"otherData": {"version": 1, "programs": 2}, "traceEvents": []}': ""
        "programs is no list",
        '{"otherData": {"version": 1}, "traceEvents": [{"ph": "X", "tid": 1, "ts": 0, '
        '"dur": 1, "pid": 3}]}': "it has events of other processes than 1",
        '{"otherData": {"version": 1}, "traceEvents": [{"ph": "X", "tid": 1, "ts": 0}]}'
        "": "dur of event 0 is no number",
        '{"otherData": {"version": 1}, "traceEvents": [{"ph": "X", "tid": 1, "ts": 0, '
        '"dur": 1, "args": 2}]}': "args of event 0 is no object",
    }
    for text, reason in cases.items():
        path.write_text(text)
        message = f"{path} is no trace: {reason}"
        refuses(capsys, message, PROGRAM, "--trace", str(path), *out, code=1)
    path.write_bytes(b"\xff\xfe")
    message = f"{path} is no trace: it is no text"
    refuses(capsys, message, PROGRAM, "--trace", str(path), *out, code=1)
    path.write_text("no")
    assert run_tool([PROGRAM, "--trace", str(path), *out]) == 1
    assert "is no trace: it is no JSON: " in capsys.readouterr().err
    assert not (tmp_path / "o.html").exists()


def test_a_trace_of_another_program_is_refused(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = str(tmp_path / "o.html")
    message = f"{trace} is a trace of @encoder, not of @squares"
    refuses(capsys, message, PROGRAM, "--trace", str(trace), "-o", out, code=1)


RANKS = """
!t = tensor<8x8xf32>
job.job @pair placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %far = op.exp %x {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %y = op.matmul %far, %x : !t, !t -> !t
  job.output "y", %y : !t
}
"""


def trace_of_a_rank(program: ProgramOp) -> Json:
    """A trace in which the tasks of a rank act one after the other."""
    names = [actor.sym_name.data for actor in program.actors]
    where = {"pid": 1, "tid": 1}
    slices: list[Json] = [
        {"name": name, "cat": "task", "ph": "X", **where, "ts": i, "dur": 1, "args": {}}
        for i, name in enumerate(names)
    ]
    facts = {"register": f"{names[0]}/out", "from": names[0], "task": names[1]}
    idle = {**slices[1], "name": "waits", "cat": "idle", "args": facts}
    return {
        "otherData": {"program": program.sym_name.data, "version": 1},
        "traceEvents": [*slices, idle],
    }


def test_all_ranks_are_on_one_page_and_one_time_line(tmp_path: Path) -> None:
    model, path, page = (tmp_path / x for x in ("pair.mlir", "t.json", "o.html"))
    model.write_text(RANKS)
    programs = programs_in(model)
    # Names that ranks share, as files of programs may have.
    for program in programs:
        for op in program.actors:
            if op.sym_name.data in ("x", "far"):
                op.sym_name = StringAttr("same")
    model.write_text("\n".join(map(str, programs)))
    traces = [RankTrace(trace_of_a_rank(program), 0) for program in programs]
    path.write_text(text_of(trace_of_ranks(traces)))
    assert run_tool([str(model), "--trace", str(path), "-o", str(page)]) == 0
    data = data_of(page.read_text())
    tasks, line = data["graph"]["tasks"], data["trace"]
    actors = [(rank, x.sym_name.data) for rank in (0, 1) for x in programs[rank].actors]
    found = [(task["rank"], task["name"]) for task in tasks]
    assert [(r, name.removesuffix(f" of rank {r}")) for r, name in found] == actors
    assert len({name for _, name in found}) == len(found)
    assert [track["rank"] for track in line["tracks"]] == [0, 1]
    for rank, track in enumerate(line["tracks"]):
        acts = [x[4] for x in track["slices"] if line["categories"][x[3]] == "task"]
        assert acts == [i for i, task in enumerate(tasks) if task["rank"] == rank]
        (idle,) = [x for x in track["slices"] if line["categories"][x[3]] == "idle"]
        assert idle[5]["from"] == tasks[acts[0]]["name"]
    edges = [
        (tasks[start], tasks[end], data["graph"]["registers"][register])
        for start, end, register, _ in data["graph"]["edges"]
    ]
    crossing = [
        (start["name"], end["name"], register["name"])
        for start, end, register in edges
        if start["rank"] != end["rank"]
    ]
    assert len(crossing) == 2
    for start, end, register in crossing:
        assert start.endswith("/send")
        assert register in [
            data["graph"]["registers"][i]["name"]
            for task in tasks
            if task["name"] == end
            for i in task["writes"]
        ]


def test_plans_of_ranks_are_shown_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model := tmp_path / "pair.mlir").write_text(RANKS)
    programs, plan = programs_in(model), tmp_path / "pair.penstock"
    for rank, program in enumerate(programs):
        share = ExportedProgram(program).as_share(Share(rank, 2, "digest"))
        save_plan(path_of_rank(plan, rank), share, {})
    assert [str(x) for x in programs_in(plan)] == [str(x) for x in programs]
    last = path_of_rank(plan, 1)
    save_plan(last, ExportedProgram(programs[1]).as_share(Share(1, 2, "other")), {})
    message = f"{last} was not saved together with {path_of_rank(plan, 0)}"
    refuses(capsys, message, str(plan), "-o", str(tmp_path / "o.html"))


def test_files_that_cannot_be_read_or_written_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    none, out = str(tmp_path / "none"), str(tmp_path / "o.html")
    reason = "no such file or directory"
    refuses(capsys, f"cannot read {none}: {reason}", none, "-o", out)
    message = f"cannot read {none}: {reason}"
    refuses(capsys, message, PROGRAM, "--trace", none, "-o", out)
    (model := tmp_path / "model.onnx").touch()
    message = f"{model} is no program: penstock-import makes one of it"
    refuses(capsys, message, str(model), "-o", out)
    missing = str(tmp_path / "no" / "o.html")
    refuses(capsys, f"cannot write {missing}: {reason}", PROGRAM, "-o", missing)


def test_what_does_not_compile_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bad.mlir"
    path.write_text("job.job")
    assert run_tool([str(path), "-o", str(tmp_path / "o.html")]) == 1
    assert f"{path}:1:" in capsys.readouterr().err


# In a browser ------------------------------------------------------------------------

CLICKS = """
(async () => {
const say = {};
const texts = () => side.textContent;
const press = (view, x, y) => {
  const box = view.canvas.getBoundingClientRect();
  const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
  view.canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  view.canvas.dispatchEvent(new PointerEvent("pointerup", at));
};
const tab = name => find(`nav button[data-view="${name}"]`).click();
try {
  await graphView.settled;
  graphView.drawNow();
  const wanted = tasks.findIndex(task => task.name === TASK);
  await graphView.show(wanted);
  press(graphView, ...graphView.center(wanted));
  say.task = texts();
  const link = all("aside li button").find(b => b.textContent.startsWith(REGISTER));
  link.click();
  say.register = texts();
  graphView.drawNow();
  press(graphView, 2, 2);
  say.nothing = texts();
  search.value = TASK;
  search.dispatchEvent(new Event("input"));
  say.found = find("#found").textContent;
  search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  await graphView.settled;
  say.entered = texts();
  search.value = "";
  search.dispatchEvent(new Event("input"));
  const before = graphView.scale;
  graphView.canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300 }));
  say.zoomed = graphView.scale > before;
  find('#graph button[data-zoom="0"]').click();
  graphView.drawNow();
  const corners = tasks.map((_, i) => graphView.center(i));
  const { clientWidth, clientHeight } = graphView.canvas;
  say.fits = corners.every(([x, y]) =>
    x > 0 && y > 0 && x < clientWidth && y < clientHeight);
  tab("memory");
  const rect = all("#memory rect").find(r => rectName(r) === REGISTER);
  rect.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  say.memory = texts();
  say.views = all(".view").filter(view => !view.hidden).map(view => view.id);
  if (trace) {
    tab("line");
    lineView.drawNow();
    const t = lineView.tracks.findIndex(
      track => track.slices.some(s => s[4] === wanted));
    const slice = lineView.tracks[t].slices.find(
      s => s[4] === wanted && trace.categories[s[3]] === "task");
    lineView.zoom(50 / (slice[2] * lineView.scale), 0);
    lineView.show(wanted);
    const x = lineView.x + (slice[1] + slice[2] / 2) * lineView.scale;
    press(lineView, x, HEAD + t * TRACK + 20);
    say.slice = texts();
  }
  const start = performance.now();
  tab("graph");
  graphView.drawNow();
  say.took = performance.now() - start;
  say.alerts = all("img").length;
} catch (error) { say.error = String(error.stack); }
return say;
})()
"""
"""The actions of a person on a page, and the views after them."""


def driven(browser: Browser, page: Path, task: str, register: str) -> Json:
    """The state of the page after a browser opens it and a click selects things."""
    script = CLICKS.replace("TASK", json.dumps(task))
    script = script.replace("REGISTER", json.dumps(register))
    with browser.open(page, Screen(1200, 800)) as tab:
        seen: Json = tab.run(script)
        assert "error" not in seen, seen["error"]
        assert tab.is_quiet()
    return seen


@pytest.mark.slow
def test_tasks_registers_and_slices_are_clicked_in_a_browser(
    browser: Browser, trace: Path, tmp_path: Path
):
    page = tmp_path / "view.html"
    arguments = ENCODER, "--threads", "2", "--trace", str(trace), "-o", str(page)
    assert run_tool(arguments) == 0
    seen = driven(browser, page, "s0", "s0/out")
    for part in ("s0", "op.matmul", "32,768", "calls3", "GFLOP/s", "s0/out8.0 KiB"):
        assert part in seen["task"]
    for part in ("s0/out", "8.0 KiB", "c0, from byte", "made by", "read by"):
        assert part in seen["register"]
    assert seen["nothing"] == "Click a task, a register or a slice."
    assert seen["found"] == "1 found"
    assert seen["entered"] == seen["task"]
    assert seen["memory"] == seen["register"]
    assert seen["views"] == ["memory"]
    assert seen["slice"].startswith(seen["task"])
    assert "this slice" in seen["slice"]
    assert seen["zoomed"]
    assert seen["fits"]


@pytest.mark.slow
def test_nasty_names_are_shown_as_they_are(browser: Browser, tmp_path: Path):
    page = tmp_path / "nasty.html"
    page.write_text(page_of(nasty_program()), encoding="utf-8")
    seen = driven(browser, page, NASTY, NASTY)
    assert seen["task"].startswith(NASTY)
    assert seen["register"].startswith(NASTY)
    assert seen["alerts"] == 0


@pytest.mark.slow
def test_thousands_of_tasks_stay_usable(browser: Browser, tmp_path: Path):
    count = 4000
    memory = [register(f"r{i}", i % 32 * 8, 8) for i in range(count)]
    actors = [
        actor(f"t{i}", [f"r{j}" for j in {i // 2, i - 1} if 0 <= j < i], [f"r{i}"])
        for i in range(count)
    ]
    page = tmp_path / "many.html"
    page.write_text(page_of(program(memory, actors)), encoding="utf-8")
    seen = driven(browser, page, "t3777", "r3777")
    assert seen["task"].startswith("t3777")
    assert seen["found"] == "1 found"
    assert seen["fits"]
    # One drawing of everything, in milliseconds.
    assert seen["took"] < 2000


def test_tasks_that_only_come_before_or_after_others_are_ticks() -> None:
    text = """
    job.job @a placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<4xf32>
      %r = op.reshape %x to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
      %y = op.softmax %r axis 1 : tensor<2x2xf32> -> tensor<2x2xf32>
      job.output "y", %y : tensor<2x2xf32>
    }
    """
    passes = (
        "job-add-sections,convert-job-to-plan,plan-assign-streams,"
        "plan-create-registers,regst-alias-registers,plan-add-ticks,"
        "regst-plan-memory,convert-plan-to-launch"
    )
    compiler, table = installed_compiler()
    module = compiler.parse(text.encode(), "a.mlir")
    run_pipeline(compiler, table, module, passes)
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    kinds = dict(
        zip(
            (actor.sym_name.data for actor in program.actors),
            Graph(program).kinds,
            strict=True,
        )
    )
    assert kinds["total/source"] == kinds["outputs/sink"] == "tick"
    assert (kinds["r"], kinds["y"]) == ("view", "op.softmax")


# Bodies ------------------------------------------------------------------------------

NESTED = """
!t = tensor<64xf32>
job.job @nested placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %go = job.input "go" : tensor<i1>
  %m = job.variable "m" init <ones> : tensor<64x64xf32>
  %y = op.loop 5 carries(%x : !t) reads(%go, %m : tensor<i1>, tensor<64x64xf32>) -> !t {
  ^bb0(%i: tensor<i64>, %z: !t, %g: tensor<i1>, %n: tensor<64x64xf32>):
    %c = op.matmul %z, %n : !t, tensor<64x64xf32> -> !t
    %d = op.if %g reads(%c, %n : !t, tensor<64x64xf32>) -> !t {
    ^bb1(%e: !t, %f: tensor<64x64xf32>):
      %h = op.softmax %e axis 0 : !t -> !t
      %k = op.matmul %h, %f : !t, tensor<64x64xf32> -> !t
      op.yield %k : !t
    } else {
    ^bb1(%e: !t, %f: tensor<64x64xf32>):
      %k = op.cum_sum %e axis 0 : !t -> !t
      op.yield %k : !t
    }
    op.yield %d : !t
  }
  job.output "y", %y : !t
}
"""


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a job with a condition in a loop."""
    folder = tmp_path_factory.mktemp("nested")
    (model := folder / "nested.mlir").write_text(NESTED, encoding="utf-8")
    assert run_tool([str(model), "-o", str(folder / "nested.html")]) == 0
    return folder / "nested.html"


def test_the_steps_of_bodies_are_stages_of_their_task(nested: Path):
    graph = data_of(nested.read_text(encoding="utf-8"))["graph"]
    (task,) = [task for task in graph["tasks"] if task["name"] == "y"]
    (region,) = task["regions"]
    buffers, stages = graph["regions"][region]
    inner = [name for name, _, _ in stages if name.startswith("loop 5 > ")]
    assert [name.removeprefix("loop 5 > ") for name in inner] == [
        "matmul",
        "then > softmax",
        "then > matmul",
        "else > cum_sum",
    ]
    # Each step reads what the step before it writes; both branches the first product.
    written = [{buffers[b][0] for b in writes} for _, _, writes in stages][-4:]
    read = [{buffers[b][0] for b in reads} for _, reads, _ in stages][-4:]
    assert written[0] <= read[1]
    assert written[0] <= read[3]
    assert written[1] <= read[2]
    own = {name: text for name, text, _, is_own in buffers if is_own}
    assert all(" at byte " in text for text in own.values())
    assert written[0] | written[1] <= own.keys()


def test_the_memory_of_bodies_is_drawn_below_that_of_the_program(nested: Path):
    memory = data_of(nested.read_text(encoding="utf-8"))["memory"]
    (body,) = memory["bodies"]
    assert body["body"] == {"task": "y", "form": "loop 5", "register": "y/memory"}
    ((zone,),) = [[*body["zones"]]]
    block = zone["chunks"][0]["blocks"][0]
    lives = {r["name"]: (r["first"], r["last"]) for r in block["registers"]}
    steps = [step["task"] for step in body["steps"]]
    softmax = steps.index("loop 5 > then > softmax")
    assert (softmax, softmax + 1) in lives.values()
    # Registers alive at a step lie in the memory, side by side.
    for step, live in enumerate(zone["live"]):
        spans = sorted(
            (r["offset"], r["bytes"])
            for r in block["registers"]
            if r["alias_of"] is None and r["first"] <= step <= r["last"]
        )
        assert sum(size for _, size in spans) == live <= zone["size"]
        for (start, size), (after, _) in pairwise(spans):
            assert start + size <= after
    text = nested.read_text(encoding="utf-8")
    assert "<summary>\nbody of y (loop 5) in y/memory\n</summary>" in text


def test_a_loop_opens_to_its_steps(browser: Browser, nested: Path):
    with browser.open(nested) as tab:
        settled = "graphView.settled.then(() => graphView.picture.nodes.length)"
        before = tab.run(settled)
        tab.run('chooseTask(tasks.findIndex(t => t.name === "y"), true)')
        assert "then > softmax" in tab.text("#side")
        tab.run("graphView.settled.then(() => true)")
        tab.run("graphView.canvas.focus()")
        tab.press("Enter")
        assert tab.run(settled) >= before + 4
        assert tab.is_quiet()
