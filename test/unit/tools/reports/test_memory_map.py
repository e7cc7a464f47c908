"""The page of the memory map: planners, ranks, and what a person does in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from browser import PHONE, SCREENS, Browser, Pictures, Screen

from penstock.lowering.algorithms.packing import packing_names
from penstock.tools.cli.opt import run_tool
from penstock.tools.reports.memory.planners import DEFAULT, planners_of

EXAMPLES = Path(__file__).parents[4] / "examples"
ENCODER = str(EXAMPLES / "encoder.mlir")

TO_REGISTERS = (
    "op-infer-shapes,job-place,convert-job-to-plan,plan-order-tasks,"
    "plan-assign-streams,plan-create-registers,regst-alias-registers"
)

RANKS = """
!t = tensor<64x64xf32>
job.job @two placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <xavier_uniform, seed = 1> : !t
  %a = op.matmul %x, %w : !t, !t -> !t
  %b = op.softmax %a axis 1 : !t -> !t
  job.output "y", %b : !t
}
"""

Json: TypeAlias = "dict[str, Any]"


def run(*arguments: str) -> str:
    with redirect_stdout(StringIO()) as output:
        assert run_tool(arguments) == 0
    return output.getvalue()


def refuses(capsys: pytest.CaptureFixture[str], text: str, *arguments: str) -> None:
    assert run_tool(arguments) == 2
    assert capsys.readouterr().err == f"penstock-opt: error: {text}\n"


def data_of(page: Path) -> Json:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The encoder, whose registers have no places yet."""
    path = tmp_path_factory.mktemp("registers") / "registers.mlir"
    path.write_text(run(ENCODER, "-p", TO_REGISTERS), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def page(registers: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of the encoder."""
    folder = tmp_path_factory.mktemp("map")
    path = folder / "map.html"
    out = str(folder / "out.mlir")
    run(registers, "-p", "regst-plan-memory", "--memory-map", str(path), "-o", out)
    return path


# Planners ----------------------------------------------------------------------------


def shared_block(data: Json) -> tuple[str, Json]:
    """The block whose registers share bytes, and its key."""
    found = [
        (f"0.{z}.{c}.{b}", block)
        for z, zone in enumerate(data["plans"][0]["zones"])
        for c, chunk in enumerate(zone["chunks"])
        for b, block in enumerate(chunk["blocks"])
        if block["name"] == "shared"
    ]
    ((key, block),) = found
    return key, block


@pytest.mark.slow
def test_planners_give_what_the_pass_gives(registers: str, tmp_path: Path) -> None:
    path, out = tmp_path / "all.html", str(tmp_path / "out.mlir")
    names = "best", "best-fit", "lifetime-first"
    planner = ["-p", "regst-plan-memory", "--planners", ",".join(names)]
    run(registers, *planner, "--memory-map", str(path), "-o", out)
    data = data_of(path)
    key, block = shared_block(data)
    sizes = {found["name"]: found["size"] for found in data["planners"][key]}
    assert tuple(sizes) == names
    assert sizes["best"] == block["size"]
    for name in names[1:]:
        options = f"regst-plan-memory{{algorithm={name}}}"
        text = run(registers, "-p", options, "-t", "memory-report{format=json}")
        _, block = shared_block(json.loads(text))
        assert sizes[name] == block["size"], name
    assert sizes["best-fit"] > sizes["best"]


def test_all_planners_are_all_that_there_are() -> None:
    assert planners_of("all") == packing_names()
    assert planners_of("none") == []
    assert planners_of("best, best-fit,best") == ["best", "best-fit"]


def test_no_layout_lets_registers_overlap_that_live_together(page: Path) -> None:
    data = data_of(page)
    key, block = shared_block(data)
    assert [found["name"] for found in data["planners"][key]] == list(DEFAULT)
    roots = [i for i, r in enumerate(block["registers"]) if r["alias_of"] is None]
    number = {register["name"]: i for i, register in enumerate(block["registers"])}
    for found in data["planners"][key]:
        offsets, ends = found["offsets"], list[int]()
        for i, register in enumerate(block["registers"]):
            ends.append(offsets[i] + register["bytes"])
            if (root := register["alias_of"]) is not None:
                assert offsets[i] == offsets[number[root]] + register["alias_offset"]
        assert max(ends) == found["size"]
        lives = lives_of(block)
        for i, j in combinations(roots, 2):
            together = lives[i][0] <= lives[j][1] and lives[j][0] <= lives[i][1]
            apart = ends[i] <= offsets[j] or ends[j] <= offsets[i]
            assert apart or not together


def lives_of(block: Json) -> list[tuple[int, int]]:
    """The first and the last step of each register, under all names."""
    spans: dict[str, tuple[int, int]] = {}
    for register in block["registers"]:
        root = register["alias_of"] or register["name"]
        first, last = spans.get(root, (register["first"], register["last"]))
        spans[root] = min(first, register["first"]), max(last, register["last"])
    return [spans[r["alias_of"] or r["name"]] for r in block["registers"]]


def test_the_table_of_planners_is_readable_without_script(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"<tr data-planner=\"\d*\"><td>([^<]+)</td>", text)
    assert rows == ["this plan", *DEFAULT]
    _, block = shared_block(data_of(page))
    assert f'<td class="number" data-value="{block["size"]}">' in text


def test_no_planners_are_compared_on_request(registers: str, tmp_path: Path) -> None:
    path, out = tmp_path / "none.html", str(tmp_path / "out.mlir")
    planner = ["-p", "regst-plan-memory", "--planners", "none"]
    run(registers, *planner, "--memory-map", str(path), "-o", out)
    assert data_of(path)["planners"] == {}
    assert "</i>other planners" not in path.read_text(encoding="utf-8")


LOADED = """
from penstock.plugins import register
PENSTOCK_INTERFACE = "0.2"
register("memory-planner", "map-{name}")(lambda problem, budget: {offsets})
"""


def test_planners_of_files_are_compared_and_checked(
    registers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apart = tmp_path / "apart.py"
    offsets = "[sum(problem.strides[:i]) for i in range(len(problem.sizes))]"
    apart.write_text(LOADED.format(name="apart", offsets=offsets), encoding="utf-8")
    (zeros := tmp_path / "zeros.py").write_text(
        LOADED.format(name="zeros", offsets="[0] * len(problem.sizes)"),
        encoding="utf-8",
    )
    path, out = tmp_path / "own.html", str(tmp_path / "out.mlir")
    ask = [registers, "-p", "regst-plan-memory", "--memory-map", str(path), "-o", out]
    run(*ask, "--load", str(apart), "--planners", "map-apart, size-first")
    key, block = shared_block(data := data_of(path))
    first, second = data["planners"][key]
    assert (first["name"], second["name"]) == ("map-apart", "size-first")
    sizes = [r["bytes"] for r in block["registers"] if r["alias_of"] is None]
    assert sum(sizes) <= first["size"] < sum(sizes) + 64 * len(sizes)
    capsys.readouterr()
    assert run_tool([*ask, "--load", str(zeros), "--planners", "map-zeros"]) == 1
    error = capsys.readouterr().err
    assert "--planners: memory planner 'map-zeros' puts buffers 0 and 1 on " in error
    assert "zeros.py:" in error


def test_planners_that_are_not_there_are_refused(
    registers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = str(tmp_path / "no.html")
    text = (
        "--planners: no memory planner 'bset', did you mean 'best'? "
        "(penstock-opt --list memory-planner names them)"
    )
    refuses(capsys, text, registers, "--memory-map", page, "--planners", "bset")
    text = "--planners is for a --memory-map, which is not given"
    refuses(capsys, text, registers, "--planners", "best")


# Bodies ------------------------------------------------------------------------------

NESTED = """
!t = tensor<64xf32>
job.job @nested placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %go = job.input "go" : tensor<i1>
  %y = op.loop 5 carries(%x : !t) reads(%go : tensor<i1>) -> !t {
  ^bb0(%i: tensor<i64>, %z: !t, %g: tensor<i1>):
    %c = op.cum_sum %z axis 0 : !t -> !t
    %d = op.if %g reads(%c, %z : !t, !t) -> !t {
    ^bb1(%e: !t, %f: !t):
      %h = op.softmax %e axis 0 : !t -> !t
      %k = op.mul %h, %f : !t, !t -> !t
      op.yield %k : !t
    } else {
    ^bb1(%e: !t, %f: !t):
      op.yield %f : !t
    }
    op.yield %d : !t
  }
  job.output "y", %y : !t
}
"""


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of a job with a condition in a loop."""
    folder = tmp_path_factory.mktemp("bodies")
    (model := folder / "nested.mlir").write_text(NESTED, encoding="utf-8")
    path, out = folder / "map.html", str(folder / "out.mlir")
    passes = f"{TO_REGISTERS.replace(',regst', ',regst-mark-interfaces,regst')}"
    passes += ",regst-plan-memory"
    run(str(model), "-p", passes, "--memory-map", str(path), "-o", out)
    return path


def test_bodies_are_folded_below_their_plan(bodies: Path) -> None:
    text, data = bodies.read_text(encoding="utf-8"), data_of(bodies)
    found = [plan["body"] and plan["body"]["task"] for plan in data["plans"]]
    assert found == [None, "y", "y/d", "y/d"]
    titles = re.findall(r'<details class="body"><summary>\n(.*)</summary>', text)
    assert titles == [
        "body of y (op.loop 5) in y/memory, 5 steps",
        "body of y/d (op.if, then) in d/memory, 5 steps",
        "body of y/d (op.if, else) in d/memory, 3 steps",
    ]
    for key in re.findall(r'data-key="([^"]+)"', text):
        p, z, c, b = map(int, key.split("."))
        assert data["plans"][p]["zones"][z]["chunks"][c]["blocks"][b]["registers"]
    # The memory of a body is a register of the plan around it.
    for outer, inner in ((0, 1), (1, 2)):
        sizes = {
            register["name"]: register["bytes"]
            for zone in data["plans"][outer]["zones"]
            for chunk in zone["chunks"]
            for block in chunk["blocks"]
            for register in block["registers"]
        }
        body = data["plans"][inner]
        assert sizes[body["body"]["register"]] == body["zones"][0]["size"] > 0


def test_a_register_that_is_found_unfolds_its_body(
    browser: Browser, bodies: Path
) -> None:
    with browser.open(bodies) as tab:
        assert tab.run('all("details.body").map(d => d.open)') == [False] * 3
        tab.type("#search", "h/out")
        tab.press("Enter")
        assert "h/out" in tab.text("#side")
        assert tab.run('all("details.body").map(d => d.open)') == [True, True, False]
        assert tab.is_quiet()


# In a browser ------------------------------------------------------------------------


def blocks_of(data: Json) -> Iterator[Json]:
    for zone in data["plans"][0]["zones"]:
        for chunk in zone["chunks"]:
            yield from chunk["blocks"]


def test_registers_are_found_and_chosen(browser: Browser, page: Path) -> None:
    blocks = list(blocks_of(data_of(page)))
    last, first = blocks[-1]["registers"][-1], blocks[0]["registers"][0]
    with browser.open(page) as tab:
        tab.type("#search", last["name"])
        assert tab.text("#found") == "1 found"
        tab.press("Enter")
        assert tab.text("#found") == "1 of 1"
        chosen = tab.text("#side")
        for part in (last["name"], last["producer"], f"{last['bytes'] / 1024:.1f} KiB"):
            assert part in chosen
        tab.type("#search", "")
        tab.click("figure.block rect")
        assert first["name"] in tab.text("#side")
        assert "variable" in tab.text("#side")
        tab.press("Escape")
        assert tab.text("#side") == "Click a register."
        assert tab.run('all(".label").length') > 0
        assert tab.is_quiet()


SEEN = """(name => {
  const picture = pictures.find(p => p.block.registers.some(r => r.name === name));
  const index = picture.block.registers.findIndex(r => r.name === name);
  picture.drawNow();
  const box = picture.rects.get(index).getBoundingClientRect();
  const plot = picture.svg.getBoundingClientRect();
  const names = all(".label", picture.figure).map(label => label.textContent);
  return { width: box.width, height: box.height, named: names.includes(name),
    inside: box.left >= plot.left - 1 && box.top >= plot.top - 1 &&
      box.right <= plot.right + 1 && box.bottom <= plot.bottom + 1,
    zoomed: picture.isZoomed, thin: picture.rects.get(index).matches(".thin"),
    axis: all(".y-axis span", picture.figure).map(span => span.textContent) };
})"""


@pytest.mark.parametrize("screen", [SCREENS[0], PHONE], ids=lambda s: s.name)
def test_the_smallest_register_can_be_seen_at_its_size(
    browser: Browser, page: Path, screen: Screen
) -> None:
    registers = [r for b in blocks_of(data_of(page)) for r in b["registers"]]
    smallest = min(registers, key=lambda register: register["bytes"])
    largest = max(registers, key=lambda register: register["bytes"])
    assert largest["bytes"] > 50 * smallest["bytes"]
    with browser.open(page, screen) as tab:
        before = tab.run(f"{SEEN}({smallest['name']!r})")
        assert before["thin"]
        assert not before["named"]
        tab.type("#search", smallest["name"])
        tab.press("Enter")
        after = tab.run(f"{SEEN}({smallest['name']!r})")
        assert after["height"] >= 15
        assert after["named"]
        assert after["inside"]
        assert after["zoomed"]
        assert not after["thin"]
        assert before["axis"] != after["axis"]
        tab.run(
            'all(".zoom button").filter(b => b.textContent === "Fit")'
            ".forEach(button => button.click())"
        )
        tab.rest()
        fitted = tab.run(f"{SEEN}({smallest['name']!r})")
        assert (fitted["zoomed"], fitted["axis"]) == (False, before["axis"])
        assert tab.is_quiet()


PLACES = """(() => {
  const picture = pictures.find(p => p.block.name === "shared");
  return picture.block.registers.map((r, i) => {
    const { y, height } = picture.boxOf(i);
    return Math.round(picture.byteAt(y + height));
  });
})()"""


def test_a_click_shows_the_layout_of_a_planner(browser: Browser, page: Path) -> None:
    data = data_of(page)
    key, block = shared_block(data)
    index = DEFAULT.index("best-fit")
    with browser.open(page) as tab:
        own = [register["offset"] for register in block["registers"]]
        assert tab.run(PLACES) == own
        tab.run('all("details").forEach(details => { details.open = true; })')
        tab.click(f'tr[data-planner="{index}"]')
        assert tab.run(PLACES) == data["planners"][key][index]["offsets"] != own
        assert tab.text("tr.on td") == "best-fit"
        assert "best-fit" in tab.run('all(".planner-name")[0].textContent')
        tab.click('tr[data-planner=""]')
        assert tab.run(PLACES) == own
        table = tab.run('all("details.registers table tbody tr").length')
        assert table == sum(len(b["registers"]) for b in blocks_of(data))
        tab.click("details.registers tbody tr")
        assert tab.text("#side h2") == tab.text("details.registers tbody td")
        assert tab.is_quiet()


def test_pictures_zoom_and_move_by_keys_and_mouse(browser: Browser, page: Path) -> None:
    view = 'pictures[0].svg.getAttribute("viewBox")'
    with browser.open(page) as tab:
        seen = [tab.run(view)]
        tab.run("pictures[0].svg.focus()")
        for key in ("+", "ArrowRight", "ArrowDown", "-", "0"):
            tab.run(
                f"pictures[0].svg.dispatchEvent("
                f"new KeyboardEvent('keydown', {{ key: '{key}' }}))"
            )
            tab.rest()
            seen.append(tab.run(view))
        assert seen[0] == seen[-1]
        assert len(set(seen)) == 4
        wheel = "pictures[0].svg.dispatchEvent(new WheelEvent('wheel', { deltaY: -200"
        tab.run(f"{wheel} }}))")
        tab.rest()
        assert tab.run(view) == seen[0], "the wheel alone scrolls the page"
        tab.run(f"{wheel}, ctrlKey: true }}))")
        tab.rest()
        assert tab.run(view) != seen[0]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of a job on two ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    (job := folder / "ranks.mlir").write_text(RANKS, encoding="utf-8")
    path = folder / "map.html"
    pipeline = "cpu{simulate-ranks=true}"
    out = str(folder / "out.mlir")
    run(str(job), "--pipeline", pipeline, "--memory-map", str(path), "-o", out)
    return path


def test_a_page_holds_several_ranks(browser: Browser, ranks: Path) -> None:
    zones = data_of(ranks)["plans"][0]["zones"]
    assert sorted({zone["rank"] for zone in zones}) == [0, 1]
    heads = 'all("section[data-rank] h3").filter(head => head.offsetParent)'
    shown = f"{heads}.map(head => head.textContent)"
    with browser.open(ranks) as tab:
        assert tab.run(shown) == [f"Memory {zone['memory_case']}" for zone in zones]
        tab.click('#ranks button[data-rank="1"]')
        assert tab.run(shown) == [
            f"Memory {zone['memory_case']}" for zone in zones if zone["rank"] == 1
        ]
        rows = 'all("tr[data-rank]").filter(row => row.offsetParent).length'
        assert tab.run(rows) == sum(zone["rank"] == 1 for zone in zones)
        other = next(zone for zone in zones if zone["rank"] == 0)
        name = other["chunks"][0]["blocks"][0]["registers"][0]["name"]
        tab.type("#search", name)
        tab.press("Enter")
        assert tab.text("#side h2") == name
        assert len(tab.run(shown)) == len(zones)
        assert tab.is_quiet()


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_pictures_of_the_map(
    browser: Browser, pictures: Pictures, page: Path, screen: Screen
) -> None:
    with browser.open(page, screen) as tab:
        assert tab.run("document.documentElement.scrollWidth") == screen.width
        pictures.compare(tab, "memory-map")
        assert tab.is_quiet()
