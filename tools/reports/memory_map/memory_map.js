// The page of the memory map.
let chosen = null;  // a picture and the number of a register there

function facts(register) {
  const producer = register.producer
    ? `${register.producer} (${register.op})` : "nobody";
  const slots = register.slots > 1 ? ` in ${register.slots} slots` : "";
  return [
    ["made by", producer],
    ["bytes", exactBytes(register.bytes) + slots],
    ["alive", lifeOf(register)],
    ["why not reused", register.reasons.join("; ")],
  ];
}

function mark(isOn) {
  if (chosen) chosen[0].rects.get(chosen[1]).classList.toggle("on", isOn);
}

function choose(picture, index) {
  mark(false);
  chosen = [picture, index];
  mark(true);
  const { block } = picture, register = block.registers[index];
  const entries = facts(register);
  entries.splice(1, 0,
    ["read by", register.readers.join(", ") || "nobody"], ["type", register.type]);
  entries.push(
    ["block", `${block.name}, from byte ${register.offset.toLocaleString("en")}`],
    ["at the peak", register.at_peak ? "alive" : "not alive"],
    ["shares bytes", register.shares ? `with ${register.shares} others` : "with none"],
    ["in use at other steps", register.unordered ? `with ${register.unordered}` : ""],
    ["job", register.job]);
  showSide(element("h2", register.name), list(entries));
}

function chooseAndShow([picture, index]) {
  const section = picture.figure.closest("[data-rank]");
  if (section.hidden) find('#ranks button[data-rank=""]').click();
  for (let at = section.closest("details"); at; at = at.parentElement.closest("details"))
    at.open = true;
  choose(picture, index);
  picture.reveal(index);
  picture.svg.scrollIntoView({ block: "nearest" });
}

function unchoose() {
  mark(false);
  chosen = null;
  showSide(element("p", "Click a register."));
}

/** The table of all registers of a block, of which a click shows one. */
function registerTable(picture) {
  const { registers } = picture.block;
  const table = sortable(
    ["register", ["bytes", "number"], ["offset", "number"], ["from step", "number"],
      ["to step", "number"], "made by", "op", "why not reused"],
    registers.map(r => [r.name, [bytes(r.bytes), r.bytes], [r.offset, r.offset],
      [r.first, r.first], [r.last, r.last], r.producer || "", r.op || "",
      r.reasons.join("; ")]));
  [...table.tBodies[0].rows].forEach((row, index) => { row.dataset.i = index; });
  return table;
}

const pictures = picturesOf(data.plans, data.planners, { facts, choose, unchoose });
for (const picture of pictures) {
  const more = find("details.registers", picture.figure);
  more.addEventListener("toggle", () => {
    if (!find("table", more)) more.append(registerTable(picture));
  });
  picture.figure.addEventListener("click", event => {
    const row = event.target.closest("tr[data-i]");
    if (row) chooseAndShow([picture, Number(row.dataset.i)]);
  });
}

function matching(text) {
  const found = [];
  for (const picture of pictures) {
    for (const [index, rect] of picture.rects) {
      const { name, producer, alias_of } = picture.block.registers[index];
      const hit = [name, producer, alias_of].some(
        word => word !== null && word.toLowerCase().includes(text));
      rect.classList.toggle("match", hit);
      if (hit) found.push([picture, index]);
    }
  }
  return found;
}

serveSearch(matching, () => {}, chooseAndShow);
serveRanks();
addEventListener("keydown", event => { if (event.key === "Escape") unchoose(); });
unchoose();
