// What the scripts of all pages stand on. Scripts of a page are one text, in order.
"use strict";
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const data = JSON.parse(find("#data").textContent);
const side = find("#side"), tip = find("#tip");

// Words ----------------------------------------------------------------------------

/** A size as text: "1.5 KiB". */
function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = size, unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return unit ? `${value.toFixed(1)} ${units[unit]}` : `${size} B`;
}

/** A size as text, with all its digits too: "1.5 KiB (1,536)". */
function exactBytes(size) {
  const exact = size.toLocaleString("en");
  return size < 1024 ? `${exact} B` : `${bytes(size)} (${exact})`;
}

/** A time in microseconds as text: "1.500 ms". */
function time(micros) {
  if (micros >= 1e6) return `${(micros / 1e6).toFixed(3)} s`;
  if (micros >= 1e3) return `${(micros / 1e3).toFixed(3)} ms`;
  return `${micros.toFixed(3)} \u00b5s`;
}

/** A time on a ruler, without the zeros that all of them would end in. */
const shortTime = micros => time(micros).replace(/\.?0+ /, " ");

const FONT = '"Penstock Sans", system-ui, sans-serif';

/** The longest beginning of a text that is at most so wide at a size in pixels. */
function cut(text, size, width) {
  if (textWidth(text, size) <= width) return text;
  const characters = [...text];
  let room = width - 1770 * size / 2048, count = 0;  // 1770 is that of the ellipsis
  for (const character of characters) {
    room -= textWidth(character, size);
    if (room < 0) break;
    count++;
  }
  return count ? characters.slice(0, count).join("") + "\u2026" : "";
}

// Elements -------------------------------------------------------------------------

/** An element with a text. */
function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

/** Pairs of a name and a value; those without a value are left out. */
function list(entries) {
  const node = document.createElement("dl");
  for (const [name, value] of entries) {
    if (value === "" || value === null || value === undefined) continue;
    node.append(element("dt", name), element("dd", value));
  }
  return node;
}

/** A title, and buttons of a text, a note and an action each; nothing without any. */
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
  return title ? [element("h3", title), items] : [items];
}

/** Show nodes beside the pointer. */
function showTip(event, nodes) {
  tip.replaceChildren(...nodes);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const beside = (at, size, end) =>
    Math.max(0, at + 16 + size > end ? at - size - 12 : at + 16);
  tip.style.left = `${beside(event.clientX, width, innerWidth)}px`;
  tip.style.top = `${beside(event.clientY, height, innerHeight)}px`;
}
const hideTip = () => { tip.hidden = true; };

/** Fill the side pane. */
const showSide = (...nodes) => side.replaceChildren(...nodes);

// Tables ---------------------------------------------------------------------------

/** Sort a table by a column, and the other way round the next time. */
function sortTable(table, column) {
  const head = table.tHead.rows[0].cells[column], body = table.tBodies[0];
  const isNumber = head.classList.contains("number");
  const last = head.getAttribute("aria-sort");
  const first = isNumber ? "descending" : "ascending";
  const other = isNumber ? "ascending" : "descending";
  const order = last === first ? other : first, sign = order === "ascending" ? 1 : -1;
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const compare = isNumber
    ? (a, b) => Number(key(a)) - Number(key(b))
    : (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
  body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
}

/** Let a click on a head sort its table. Numbers stand in `data-value`. */
function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = element("button", head.textContent, { type: "button" });
    button.onclick = () => sortTable(table, column);
    head.replaceChildren(button);
  });
}
all("table.sortable").forEach(makeSortable);

/** A table that sorts: heads are texts, or [text, "number"]; rows are lists of texts, of
 * [text, number], or of nodes. */
function sortable(heads, rows) {
  const table = element("table", "", { className: "sortable" });
  const top = table.createTHead().insertRow(), body = table.createTBody();
  const kinds = heads.map(head => (Array.isArray(head) ? head[1] : ""));
  heads.forEach((head, i) => top.append(
    element("th", Array.isArray(head) ? head[0] : head, { className: kinds[i] })));
  for (const cells of rows) {
    const row = body.insertRow();
    cells.forEach((cell, i) => {
      const place = row.insertCell();
      place.className = kinds[i];
      if (cell instanceof Node) place.append(cell);
      else if (Array.isArray(cell)) {
        place.textContent = cell[0];
        place.dataset.value = cell[1];
      } else place.textContent = cell;
    });
  }
  makeSortable(table);
  return table;
}

// Search ---------------------------------------------------------------------------

/**
 * Serve the search field: `match(text)` lists what is found, `show(found, text)` tells,
 * and Enter goes from one to the next, backwards with Shift.
 */
function serveSearch(match, show, choose) {
  const field = find("#search"), output = find("#found");
  let found = [], current = -1;
  field.addEventListener("input", () => {
    const text = field.value.trim().toLowerCase();
    found = text ? match(text) : [];
    current = -1;
    output.textContent = text ? `${found.length} found` : "";
    document.body.classList.toggle("searching", text !== "");
    show(found, text);
  });
  field.addEventListener("keydown", event => {
    if (event.key !== "Enter" || !found.length) return;
    current = (current + (event.shiftKey ? -1 : 1) + found.length) % found.length;
    choose(found[current]);
    output.textContent = `${current + 1} of ${found.length}`;
  });
}

// Light and dark -------------------------------------------------------------------

const probe = element("i", "", { hidden: true });
document.body.append(probe);

/** What a colour of the style is now, such as "--text": for canvases. */
function colourOf(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** Call a function whenever colours or the font have changed: canvases draw anew. */
function onLook(act) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act);
  addEventListener("theme", act);
  document.fonts.ready.then(act);
}
for (const weight of [400, 600]) document.fonts.load(`${weight} 12px ${FONT}`);

{
  const button = find("#theme"), root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const set = theme => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    button.dataset.theme = theme;
    dispatchEvent(new Event("theme"));
  };
  // Pages in a frame may not keep anything.
  const keep = theme => { try { localStorage.penstockTheme = theme; } catch { } };
  const kept = () => { try { return localStorage.penstockTheme; } catch { return null; } };
  button.onclick = () => {
    const next = themes[(themes.indexOf(button.dataset.theme) + 1) % themes.length];
    keep(next);
    set(next);
  };
  set(themes.includes(kept()) ? kept() : "auto");
  button.hidden = false;
}
