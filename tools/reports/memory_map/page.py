"""
The style and the script of the memory map, which `map.py` writes.
"""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --text: #1d2129; --soft: #5c6470; --line: #d5d8dd;
  --plot: #ffffff; --raised: #ffffff; --live: #16181d; --bound: #c4161c;
  --variable: #b9bec7; --other: #98a0ad; --label: #14161a; --mark: #0b57d0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181c; --text: #e7e9ed; --soft: #a0a8b4; --line: #3a3f48;
    --plot: #1e2126; --raised: #262a31; --live: #ffffff; --bound: #ff7b72;
    --variable: #666d79; --other: #7d8694; --mark: #8ab4f8;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, sans-serif;
}
header {
  position: sticky; top: 0; z-index: 3; padding: 10px 20px 8px;
  background: var(--page); border-bottom: 1px solid var(--line);
}
main { padding: 4px 20px 260px; }
h1 { font-size: 18px; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 20px 0 0; }
h2 small { font-weight: normal; color: var(--soft); margin-left: 6px; }
h3 { font-size: 14px; margin: 16px 0 0; }
p { margin: 2px 0 10px; color: var(--soft); }
.controls, .legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0; }
.controls { align-items: center; }
.controls label { color: var(--soft); display: flex; align-items: center; gap: 6px; }
#search { width: 260px; font: inherit; padding: 3px 8px; }
#found { color: var(--soft); min-width: 90px; }
.legend { padding: 8px 0 0; list-style: none; font-size: 12px; color: var(--soft); }
.legend i {
  display: inline-block; width: 12px; height: 12px; margin-right: 5px;
  vertical-align: -1px; border-radius: 2px;
}
.alias-key {
  border: 1px dashed var(--text);
  background: repeating-linear-gradient(135deg, var(--text) 0 1px, transparent 1px 4px);
}
.legend .live-key, .legend .bound-key { height: 0; vertical-align: 4px; width: 18px; }
.live-key { border-top: 2px solid var(--live); }
.bound-key { border-top: 2px dashed var(--bound); }
figure { margin: 0 0 22px; }
figcaption { margin: 0 0 6px 72px; color: var(--soft); }
figcaption b { color: var(--text); margin-right: 6px; }
.frame { display: flex; }
.y-axis {
  position: relative; flex: 0 0 72px; font-size: 11px; color: var(--soft);
  height: calc(var(--high) * var(--tall, 1));
}
.y-axis span { position: absolute; right: 8px; transform: translateY(50%); }
.scroll { flex: 1; min-width: 0; overflow-x: auto; overflow-y: hidden; }
.plot { position: relative; width: calc(100% * var(--long, 1)); padding: 0 1px 20px; }
svg { display: block; }
.plot svg {
  width: 100%; height: calc(var(--high) * var(--tall, 1)); background: var(--plot);
  outline: 1px solid var(--line); cursor: crosshair;
}
.x-axis { position: relative; height: 0; font-size: 11px; color: var(--soft); }
.x-axis span { position: absolute; top: 3px; padding-left: 3px; }
.x-axis span::before {
  content: ""; position: absolute; left: 0; top: -3px; height: 7px;
  border-left: 1px solid var(--soft);
}
rect {
  stroke: var(--plot); stroke-width: 1; vector-effect: non-scaling-stroke;
  transition: opacity 0.1s;
}
.c0 { fill: #6ba3d6; background: #6ba3d6; } .c1 { fill: #f2a65a; background: #f2a65a; }
.c2 { fill: #77bf7f; background: #77bf7f; } .c3 { fill: #e5827f; background: #e5827f; }
.c4 { fill: #b799d2; background: #b799d2; } .c5 { fill: #5fc2c0; background: #5fc2c0; }
.c6 { fill: #dcc24a; background: #dcc24a; } .c7 { fill: #d995bd; background: #d995bd; }
.variable { fill: var(--variable); background: var(--variable); }
.other { fill: var(--other); background: var(--other); }
.alias {
  fill: url(#hatch); stroke: var(--label); stroke-dasharray: 4 3; pointer-events: all;
}
.hatching { stroke: #14161a; stroke-opacity: 0.45; stroke-width: 1; fill: none; }
.searching rect { opacity: 0.18; }
.searching rect.match { opacity: 1; }
rect.on { stroke: var(--mark); stroke-width: 3; stroke-dasharray: none; }
.live, .bound, .halo {
  fill: none; vector-effect: non-scaling-stroke; pointer-events: none;
}
.live { stroke: var(--live); stroke-width: 1.75; }
.halo { stroke: var(--plot); stroke-width: 4.5; stroke-opacity: 0.75; }
.bound { stroke: var(--bound); stroke-width: 1.75; stroke-dasharray: 7 5; }
.label {
  position: absolute; pointer-events: none; overflow: hidden; padding: 0 4px;
  font-size: 11px; line-height: 15px; white-space: nowrap; text-overflow: ellipsis;
  color: var(--label);
}
.label.of-variable, .label.of-other { color: var(--text); }
.searching .label { opacity: 0.3; }
details { margin: 6px 0 0 72px; }
summary { cursor: pointer; color: var(--soft); }
table { border-collapse: collapse; margin: 4px 0; }
th { text-align: left; font-weight: normal; color: var(--soft); }
th, td { padding: 1px 14px 1px 0; overflow-wrap: anywhere; }
td + td, th + th { text-align: right; }
tr[data-i] { cursor: pointer; }
tr[data-i]:hover { background: var(--line); }
#details, #tip {
  position: fixed; z-index: 4; background: var(--raised); color: var(--text);
  border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px;
  box-shadow: 0 3px 14px rgb(0 0 0 / 0.22); overflow-wrap: anywhere;
}
#tip { max-width: 380px; pointer-events: none; font-size: 12px; }
#details { right: 20px; bottom: 20px; width: 380px; max-height: 45vh; overflow: auto; }
#details button {
  float: right; border: 0; background: none; color: var(--soft); font: inherit;
  font-size: 18px; line-height: 1; cursor: pointer;
}
dl {
  display: grid; grid-template-columns: max-content 1fr; gap: 0 12px;
  margin: 4px 0 0;
}
dt { color: var(--soft); }
dd { margin: 0; }
"""

SCRIPT = """
"use strict";
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const { plans } = JSON.parse(find("#data").textContent);
const tip = find("#tip"), details = find("#details"), search = find("#search");
const fewest = { width: 38, height: 15 };

const figures = all("figure.block").map(figure => {
  const [p, z, c, b] = figure.dataset.key.split(".").map(Number);
  const plan = plans[p], block = plan.zones[z].chunks[c].blocks[b];
  const svg = find(".plot svg", figure), rects = new Map();
  for (const rect of all("rect", svg)) rects.set(Number(rect.dataset.i), rect);
  return { figure, plan, block, svg, rects, plot: find(".plot", figure) };
});

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = size, unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  const exact = size.toLocaleString("en");
  return unit ? `${value.toFixed(1)} ${units[unit]} (${exact})` : `${exact} B`;
}

function steps(register) {
  return register.always ? "always" : `steps ${register.first} to ${register.last}`;
}

function list(entries) {
  const node = document.createElement("dl");
  for (const [name, value] of entries) {
    if (value === "" || value === null) continue;
    node.append(Object.assign(document.createElement("dt"), { textContent: name }));
    node.append(Object.assign(document.createElement("dd"), { textContent: value }));
  }
  return node;
}

function title(text) {
  return Object.assign(document.createElement("b"), { textContent: text });
}

function facts(register) {
  const producer = register.producer
    ? `${register.producer} (${register.op})` : "nobody";
  const slots = register.slots > 1 ? ` in ${register.slots} slots` : "";
  return [
    ["made by", producer],
    ["bytes", bytes(register.bytes) + slots],
    ["alive", steps(register)],
    ["why not reused", register.reasons.join("; ")],
  ];
}

let chosen = null;
function choose(place, index, scroll) {
  if (chosen) chosen.classList.remove("on");
  chosen = place.rects.get(index);
  chosen.classList.add("on");
  const register = place.block.registers[index];
  const close = Object.assign(document.createElement("button"), {
    textContent: "\\u00d7", title: "Close", onclick: unchoose,
  });
  const entries = facts(register);
  entries.splice(1, 0,
    ["read by", register.readers.join(", ") || "nobody"], ["type", register.type]);
  entries.push(
    ["block", `${place.block.name}, from byte ${register.offset.toLocaleString("en")}`],
    ["at the peak", register.at_peak ? "alive" : "not alive"],
    ["shares bytes", register.shares ? `with ${register.shares} others` : "with none"],
    ["in use at other steps", register.unordered ? `with ${register.unordered}` : ""],
    ["job", register.job]);
  details.replaceChildren(close, title(register.name), list(entries));
  details.hidden = false;
  if (scroll) chosen.scrollIntoView({ block: "center", inline: "center" });
}

function unchoose() {
  if (chosen) chosen.classList.remove("on");
  chosen = null;
  details.hidden = true;
}

function point(place, event) {
  const box = place.svg.getBoundingClientRect(), { plan, block } = place;
  const count = Math.max(1, plan.steps.length);
  const across = (event.clientX - box.left) / box.width;
  const step = Math.min(count - 1, Math.max(0, Math.floor(across * count)));
  const nodes = [], index = event.target.dataset.i;
  if (index !== undefined) {
    const register = block.registers[Number(index)];
    nodes.push(title(register.name), list(facts(register)));
  }
  const task = plan.steps[step] ? `: ${plan.steps[step].task}` : "";
  const live = `${bytes(block.live[step])} alive`;
  nodes.push(list([[`step ${step}${task}`, live]]));
  tip.replaceChildren(...nodes);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const beside = (at, size, end) => at + 16 + size > end ? at - size - 12 : at + 16;
  tip.style.left = `${beside(event.clientX, width, innerWidth)}px`;
  tip.style.top = `${beside(event.clientY, height, innerHeight)}px`;
}

function relabel() {
  for (const { plot, svg, block, rects } of figures) {
    all(".label", plot).forEach(label => label.remove());
    const view = svg.viewBox.baseVal;
    const wide = svg.clientWidth / view.width, high = svg.clientHeight / view.height;
    const labels = [], taken = new Set();
    for (const [index, rect] of rects) {
      const width = rect.width.baseVal.value * wide;
      const height = rect.height.baseVal.value * high;
      const register = block.registers[index];
      if (width < fewest.width || height < fewest.height || register.alias_of) continue;
      const key = `${rect.x.baseVal.value},${rect.y.baseVal.value}`;
      if (taken.has(key)) continue;
      taken.add(key);
      const label = document.createElement("div");
      label.className = `label of-${rect.classList[0]}`;
      label.textContent = register.name;
      label.style.left = `${rect.x.baseVal.value * wide + 1}px`;
      label.style.top = `${rect.y.baseVal.value * high}px`;
      label.style.width = `${width}px`;
      labels.push(label);
    }
    plot.append(...labels);
  }
  const first = figures[0]?.svg;
  if (first) find("#hatch").setAttribute("patternTransform",
    `scale(${first.viewBox.baseVal.width / first.clientWidth} ` +
    `${first.viewBox.baseVal.height / first.clientHeight})`);
}

let waiting = 0;
function relabelSoon() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(relabel);
}

let matches = [], current = -1;
function filter() {
  const text = search.value.trim().toLowerCase();
  matches = [];
  current = -1;
  document.body.classList.toggle("searching", text !== "");
  for (const place of figures) {
    for (const [index, rect] of place.rects) {
      const { name, producer, alias_of } = place.block.registers[index];
      const hit = text !== "" && [name, producer, alias_of].some(
        word => word !== null && word.toLowerCase().includes(text));
      rect.classList.toggle("match", hit);
      if (hit) matches.push([place, index]);
    }
  }
  find("#found").textContent = text ? `${matches.length} found` : "";
}

for (const place of figures) {
  place.svg.addEventListener("pointermove", event => point(place, event));
  place.svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  place.svg.addEventListener("click", event => {
    const index = event.target.dataset.i;
    if (index === undefined) unchoose(); else choose(place, Number(index), false);
  });
  for (const row of all("tr[data-i]", place.figure)) {
    row.addEventListener("click", () => choose(place, Number(row.dataset.i), true));
  }
}
search.addEventListener("input", filter);
search.addEventListener("keydown", event => {
  if (event.key !== "Enter" || !matches.length) return;
  current = (current + (event.shiftKey ? -1 : 1) + matches.length) % matches.length;
  choose(...matches[current], true);
  find("#found").textContent = `${current + 1} of ${matches.length}`;
});
addEventListener("keydown", event => { if (event.key === "Escape") unchoose(); });
for (const [id, name] of [["wide", "--long"], ["high", "--tall"]]) {
  find(`#${id}`).addEventListener("input", event => {
    document.body.style.setProperty(name, 2 ** event.target.value);
    relabelSoon();
  });
}
addEventListener("resize", relabelSoon);
relabel();
"""
