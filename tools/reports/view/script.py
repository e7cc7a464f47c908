"""The script of the page."""

from penstock.tools.reports.view.script_views import VIEWS

_PANEL = r"""
"use strict";
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const data = JSON.parse(find("#data").textContent);
const { graph, memory, trace, palette } = data;
const { tasks, registers, variables, edges } = graph;
const side = find("#side"), tip = find("#tip"), search = find("#search");

// Words ----------------------------------------------------------------------------

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = size, unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return unit ? `${value.toFixed(1)} ${units[unit]}` : `${size} B`;
}

function time(micros) {
  if (micros >= 1e6) return `${(micros / 1e6).toFixed(3)} s`;
  if (micros >= 1e3) return `${(micros / 1e3).toFixed(3)} ms`;
  return `${micros.toFixed(3)} \u00b5s`;
}
// A time on a ruler, without the zeros that all of them would end in.
const shortTime = micros => time(micros).replace(/\.?0+ /, " ");

function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

function list(entries) {
  const node = document.createElement("dl");
  for (const [name, value] of entries) {
    if (value === "" || value === null || value === undefined) continue;
    node.append(element("dt", name), element("dd", value));
  }
  return node;
}

// What is known of tasks and registers ---------------------------------------------

const makers = registers.map(() => []), readers = registers.map(() => []);
tasks.forEach((task, i) => {
  for (const r of task.writes) makers[r].push(i);
  for (const r of task.reads) readers[r].push(i);
});
const users = variables.map(() => []);
tasks.forEach((task, i) => { for (const v of task.variables) users[v].push(i); });
const registerOf = new Map(registers.map((r, i) => [r.name, i]));
const variableOf = new Map(variables.map((v, i) => [v.name, i]));
const times = tasks.map(() => ({ count: 0, total: 0, least: Infinity, most: 0 }));
const waits = tasks.map(() => new Map());
for (const track of trace ? trace.tracks : []) {
  for (const [, , duration, category, task, facts] of track.slices) {
    if (task < 0) continue;
    const kind = trace.categories[category];
    if (kind === "idle") {
      const key = `${facts.missing} of ${facts.register}`;
      waits[task].set(key, (waits[task].get(key) || 0) + duration);
    } else if (kind !== "op") {
      const known = times[task];
      known.count++;
      known.total += duration;
      known.least = Math.min(known.least, duration);
      known.most = Math.max(known.most, duration);
    }
  }
}

// The panel ------------------------------------------------------------------------

let chosen = null, matches = new Set();

function links(title, entries) {
  if (!entries.length) return [];
  const items = document.createElement("ul");
  for (const [text, note, act] of entries) {
    const item = document.createElement("li"), button = element("button", text);
    if (note) button.append(element("small", note));
    button.onclick = act;
    item.append(button);
    items.append(item);
  }
  return [element("h3", title), items];
}

const taskLink = i => [tasks[i].name, tasks[i].kind, () => chooseTask(i, true)];
const registerLink = i => [registers[i].name,
  registers[i].bytes === undefined ? "control" : bytes(registers[i].bytes),
  () => chooseRegister(i)];
const variableLink = i => [variables[i].name, bytes(variables[i].bytes),
  () => chooseVariable(i)];

function rates(op, i) {
  const { count, total } = times[i];
  if (!count || tasks[i].ops.length !== 1 || !total) return "";
  return [["flops", "GFLOP/s"], ["bytes", "GB/s"]]
    .filter(([key]) => op[key]).map(([key, unit]) =>
      `${(op[key] * count / total / 1000).toFixed(2)} ${unit}`).join(", ");
}

function chooseTask(i, move) {
  chosen = { task: i };
  const task = tasks[i], known = times[i];
  const nodes = [element("h2", task.name), list([
    ["op", task.kind],
    ["on", `${task.device}, stream ${task.stream}`],
    ["calls", known.count || null],
    ["total", known.count ? time(known.total) : null],
    ["each", known.count ? `${time(known.total / known.count)} (${time(known.least)}` +
      ` to ${time(known.most)})` : null],
  ])];
  for (const op of task.ops) {
    nodes.push(element("h3", op.op === op.name ? op.op : `${op.op} ${op.name}`), list([
      ["flops", op.flops === undefined ? null : op.flops.toLocaleString("en")],
      ["bytes", op.bytes === undefined ? null : bytes(op.bytes)],
      ["rate", rates(op, i)],
    ]));
  }
  nodes.push(
    ...links("reads", task.reads.map(registerLink)),
    ...links("variables", task.variables.map(variableLink)),
    ...links("writes", task.writes.map(registerLink)),
    ...links("waited for", [...waits[i]].sort((a, b) => b[1] - a[1]).slice(0, 10)
      .map(([what, total]) => [what, time(total), () => {}])));
  side.replaceChildren(...nodes);
  if (move) { graphView.show(i); lineView.show(i); }
  mark();
}

function place(thing) {
  return thing.bytes === undefined ? "none: it only says when" :
    `${thing.chunk}, from byte ${thing.offset.toLocaleString("en")}`;
}

function chooseRegister(i) {
  chosen = { register: i };
  const register = registers[i];
  side.replaceChildren(element("h2", register.name), list([
    ["type", register.type],
    ["bytes", register.bytes === undefined ? null :
      `${bytes(register.bytes)} (${register.bytes.toLocaleString("en")})`],
    ["place", place(register)],
    ["slots", register.slots],
    ["full at the start", register.initial || null],
  ]), ...links("made by", makers[i].map(taskLink)),
    ...links("read by", readers[i].map(taskLink)));
  mark();
}

function chooseVariable(i) {
  chosen = { variable: i };
  const variable = variables[i];
  side.replaceChildren(element("h2", variable.name), list([
    ["type", variable.type], ["bytes", bytes(variable.bytes)],
    ["place", place(variable)],
  ]), ...links("used by", users[i].map(taskLink)));
  mark();
}

function unchoose() {
  chosen = null;
  side.replaceChildren(element("p", "Click a task, a register or a slice."));
  mark();
}

function mark() {
  all("#memory rect").forEach(rect => {
    const name = rectName(rect);
    const on = chosen && (
      chosen.register !== undefined && registers[chosen.register].name === name ||
      chosen.variable !== undefined && variables[chosen.variable].name === name ||
      chosen.task !== undefined && [
        ...tasks[chosen.task].reads, ...tasks[chosen.task].writes,
      ].some(r => registers[r].name === name));
    rect.classList.toggle("on", Boolean(on));
  });
  graphView.draw();
  lineView.draw();
}

"""

_REST = r"""
// Memory ---------------------------------------------------------------------------

function blockOf(rect) {
  const [z, c, b] = rect.closest("figure").dataset.key.split(".").slice(1).map(Number);
  return memory.zones[z].chunks[c].blocks[b];
}
const rectName = rect => blockOf(rect).registers[Number(rect.dataset.i)].name;

function chooseNamed(name) {
  if (registerOf.has(name)) chooseRegister(registerOf.get(name));
  else if (variableOf.has(name)) chooseVariable(variableOf.get(name));
}

for (const svg of all("#memory .plot svg")) {
  svg.addEventListener("click", event => {
    if (event.target.dataset.i === undefined) unchoose();
    else chooseNamed(rectName(event.target));
  });
  svg.addEventListener("pointermove", event => {
    if (event.target.dataset.i === undefined) { tip.hidden = true; return; }
    const register = blockOf(event.target).registers[Number(event.target.dataset.i)];
    showTip(event, [element("b", register.name), list([
      ["bytes", bytes(register.bytes)], ["made by", register.producer],
      ["alive", register.always ? "always" :
        `steps ${register.first} to ${register.last}`]])]);
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}
// Search and tabs ------------------------------------------------------------------

let found = [], current = -1;
function filter() {
  const text = search.value.trim().toLowerCase();
  found = [];
  current = -1;
  if (text) tasks.forEach((task, i) => {
    const words = [task.name, task.kind, ...task.ops.map(op => op.name)];
    if (words.some(word => word.toLowerCase().includes(text))) found.push(i);
  });
  matches = new Set(found);
  find("#found").textContent = text ? `${found.length} found` : "";
  if (text) {
    const shown = found.slice(0, 300).map(taskLink);
    chosen = null;
    side.replaceChildren(element("h2", `${found.length} tasks`), ...links("", shown));
    document.body.classList.add("searching");
    const names = new Set(found.flatMap(i => [...tasks[i].reads, ...tasks[i].writes])
      .map(r => registers[r].name));
    all("#memory rect").forEach(
      rect => rect.classList.toggle("match", names.has(rectName(rect))));
  } else {
    document.body.classList.remove("searching");
    unchoose();
  }
  mark();
}
search.addEventListener("input", filter);
search.addEventListener("keydown", event => {
  if (event.key !== "Enter" || !found.length) return;
  current = (current + (event.shiftKey ? -1 : 1) + found.length) % found.length;
  chooseTask(found[current], true);
  find("#found").textContent = `${current + 1} of ${found.length}`;
});
addEventListener("keydown", event => { if (event.key === "Escape") unchoose(); });

function open(name) {
  for (const button of all("nav button"))
    button.setAttribute("aria-selected", String(button.dataset.view === name));
  for (const view of all(".view")) view.hidden = view.id !== name;
  redraw();
}
for (const button of all("nav button"))
  button.onclick = () => open(button.dataset.view);

function redraw() {
  readColours();
  graphView.draw();
  lineView.draw();
}
readColours();
const graphView = new GraphView(), lineView = new LineView();
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
unchoose();
open("graph");
"""

SCRIPT = _PANEL + VIEWS + _REST
