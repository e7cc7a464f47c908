// The page of the memory map.
const { plans } = data;
const fewest = { width: 38, height: 15 };  // pixels of a rectangle with a name

const figures = all("figure.block").map(figure => {
  const [p, z, c, b] = figure.dataset.key.split(".").map(Number);
  const plan = plans[p], block = plan.zones[z].chunks[c].blocks[b];
  const svg = find(".plot svg", figure), rects = new Map();
  for (const rect of all("rect", svg)) rects.set(Number(rect.dataset.i), rect);
  return { figure, plan, block, svg, rects, plot: find(".plot", figure) };
});

function steps(register) {
  return register.always ? "always" : `steps ${register.first} to ${register.last}`;
}

function facts(register) {
  const producer = register.producer
    ? `${register.producer} (${register.op})` : "nobody";
  const slots = register.slots > 1 ? ` in ${register.slots} slots` : "";
  return [
    ["made by", producer],
    ["bytes", exactBytes(register.bytes) + slots],
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
  const entries = facts(register);
  entries.splice(1, 0,
    ["read by", register.readers.join(", ") || "nobody"], ["type", register.type]);
  entries.push(
    ["block", `${place.block.name}, from byte ${register.offset.toLocaleString("en")}`],
    ["at the peak", register.at_peak ? "alive" : "not alive"],
    ["shares bytes", register.shares ? `with ${register.shares} others` : "with none"],
    ["in use at other steps", register.unordered ? `with ${register.unordered}` : ""],
    ["job", register.job]);
  showSide(element("h2", register.name), list(entries));
  if (scroll) chosen.scrollIntoView({ block: "center", inline: "center" });
}

function unchoose() {
  if (chosen) chosen.classList.remove("on");
  chosen = null;
  showSide(element("p", "Click a register."));
}

function point(place, event) {
  const box = place.svg.getBoundingClientRect(), { plan, block } = place;
  const count = Math.max(1, plan.steps.length);
  const across = (event.clientX - box.left) / box.width;
  const step = Math.min(count - 1, Math.max(0, Math.floor(across * count)));
  const nodes = [], index = event.target.dataset.i;
  if (index !== undefined) {
    const register = block.registers[Number(index)];
    nodes.push(element("b", register.name), list(facts(register)));
  }
  const task = plan.steps[step] ? `: ${plan.steps[step].task}` : "";
  const live = `${exactBytes(block.live[step])} alive`;
  nodes.push(list([[`step ${step}${task}`, live]]));
  showTip(event, nodes);
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

function matching(text) {
  const found = [];
  for (const place of figures) {
    for (const [index, rect] of place.rects) {
      const { name, producer, alias_of } = place.block.registers[index];
      const hit = [name, producer, alias_of].some(
        word => word !== null && word.toLowerCase().includes(text));
      rect.classList.toggle("match", hit);
      if (hit) found.push([place, index]);
    }
  }
  return found;
}

for (const place of figures) {
  place.svg.addEventListener("pointermove", event => point(place, event));
  place.svg.addEventListener("pointerleave", hideTip);
  place.svg.addEventListener("click", event => {
    const index = event.target.dataset.i;
    if (index === undefined) unchoose(); else choose(place, Number(index), false);
  });
  for (const row of all("tr[data-i]", place.figure)) {
    row.addEventListener("click", () => choose(place, Number(row.dataset.i), true));
  }
}
serveSearch(matching, () => {}, ([place, index]) => choose(place, index, true));
addEventListener("keydown", event => { if (event.key === "Escape") unchoose(); });
for (const [id, name] of [["wide", "--long"], ["high", "--tall"]]) {
  find(`#${id}`).addEventListener("input", event => {
    document.body.style.setProperty(name, 2 ** event.target.value);
    relabelSoon();
  });
}
new ResizeObserver(relabelSoon).observe(find("#views"));
unchoose();
relabel();
