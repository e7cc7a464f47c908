// The graph: boxes and lines of a picture that the layout has made ------------------

const READABLE = 0.3, WITH_HEADS = 0.25, WITH_TYPES = 0.5, HEAT = ["#fdf3d0", "#e5603c"];

/** What tasks take: a mean time of an act, and the bytes of what they write. */
const taskTimes = times.map(({ count, total }) => (count ? total / count : 0));
const taskBytes = tasks.map(
  task => task.writes.reduce((sum, r) => sum + (registers[r].bytes ?? 0), 0));
const edgesOfTask = tasks.map(() => []);
edges.forEach(([from, to], i) => {
  edgesOfTask[from].push(i);
  if (to !== from) edgesOfTask[to].push(i);
});

/** A colour between two of them. */
function between([low, high], part) {
  const mix = at => Math.round(parseInt(low.slice(at, at + 2), 16) * (1 - part)
    + parseInt(high.slice(at, at + 2), 16) * part);
  return `rgb(${mix(1)} ${mix(3)} ${mix(5)})`;
}

const palettes = { kind: palette, device: paletteOf(tasks.map(task => task.device)) };
const greatest = list => list.reduce((a, b) => Math.max(a, b), 0);

/** Tell what colours mean. */
function showLegend(by) {
  const items = palettes[by] ? Object.entries(palettes[by])
    : by === "time" ? [["no time", HEAT[0]], [time(greatest(taskTimes)), HEAT[1]]]
      : [["no bytes", HEAT[0]], [bytes(greatest(taskBytes)), HEAT[1]]];
  find(".legend").replaceChildren(...items.map(([text, colour]) => {
    const item = element("li", text), key = document.createElement("i");
    key.style.background = colour;
    item.prepend(key);
    return item;
  }));
}

class GraphView extends View {
  constructor() {
    super("graph");
    this.service = new LayoutService(graphOf(graph));
    this.texts = this.service.graph.tasks;
    this.picture = null;
    this.colour = "kind";
    this.isLate = false;
    this.minimap = new Minimap(this);
    const shown = () => this.apply({
      what: "show", by: find("#by").value,
      purposes: [0, ...all("#graph-options input:checked").map(box => Number(box.value))],
    }, true);
    find("#by").onchange = shown;
    for (const box of all("#graph-options input")) box.onchange = shown;
    find("#colour").onchange = event => { this.recolour(event.target.value); };
    find("#unfold").onclick = () => this.apply({ what: "all", open: true }, true);
    find("#fold").onclick = () => this.apply({ what: "all", open: false }, true);
    shown();
  }

  // Pictures

  /** Let the layout do a command, and show its picture. */
  apply(command, isNew = false, keep = null) {
    this.settled = this.applied(command, isNew, keep);
    return this.settled;
  }

  async applied(command, isNew, keep) {
    const slow = setTimeout(() => { this.isLate = true; this.draw(); }, 400);
    const before = keep && this.picture ? this.screenOf(keep) : null;
    const picture = await this.service.ask(command);
    clearTimeout(slow);
    this.isLate = false;
    if (picture) this.take(picture, command);
    if (isNew) this.isFitted = false;
    if (before && this.screenOf(keep)) {
      const after = this.screenOf(keep);
      this.x += before[0] - after[0];
      this.y += before[1] - after[1];
    }
    this.draw();
  }

  take(picture, command) {
    this.picture = picture;
    const { nodes, stages, groups, parents } = picture, boxes = nodes.length;
    this.boxOfTask = new Int32Array(tasks.length).fill(-1);
    this.boxOfGroup = new Int32Array(groups.length).fill(-1);
    for (let i = 0; i < boxes; i++) {
      if (nodes[i] < 0) this.boxOfGroup[-1 - nodes[i]] = i;
      else if (stages[i] < 0) this.boxOfTask[nodes[i]] = i;
    }
    if (command.what === "show") this.sum(groups, parents);
    // The innermost box that is seen of each task: its own, or that of a closed group.
    for (let task = 0; task < tasks.length; task++) {
      let group = parents[task];
      while (this.boxOfTask[task] < 0 && group >= 0) {
        this.boxOfTask[task] = this.boxOfGroup[group];
        group = groups[group].parent;
      }
    }
    this.boxMark = new Uint32Array(boxes);
    this.lineMark = new Uint32Array(picture.hasArrow.length);
    this.mark = 0;
    this.measureLines(picture);
    this.loose = null;
    this.minimap.image = null;
  }

  /** How far each line reaches: to the left, to the right, and from top to bottom. */
  measureLines({ hasArrow, lineStarts, linePoints: at }) {
    const count = hasArrow.length;
    this.lineLeft = new Float32Array(count).fill(Infinity);
    this.lineRight = new Float32Array(count).fill(-Infinity);
    this.lineSize = new Float32Array(count);
    for (let line = 0; line < count; line++) {
      let top = Infinity, bottom = -Infinity;
      for (let i = lineStarts[line]; i < lineStarts[line + 1]; i += 2) {
        this.lineLeft[line] = Math.min(this.lineLeft[line], at[i]);
        this.lineRight[line] = Math.max(this.lineRight[line], at[i]);
        top = Math.min(top, at[i + 1]);
        bottom = Math.max(bottom, at[i + 1]);
      }
      this.lineSize[line] = Math.max(
        this.lineRight[line] - this.lineLeft[line], bottom - top);
    }
  }

  /** The sums of all tasks of each group. */
  sum(groups, parents) {
    this.groupTimes = new Float64Array(groups.length);
    this.groupBytes = new Float64Array(groups.length);
    tasks.forEach((_, task) => {
      for (let group = parents[task]; group >= 0; group = groups[group].parent) {
        this.groupTimes[group] += taskTimes[task];
        this.groupBytes[group] += taskBytes[task];
      }
    });
  }

  membersOf(group) {
    const { groups, parents } = this.picture;
    return [...tasks.keys()].filter(task => {
      for (let at = parents[task]; at >= 0; at = groups[at].parent)
        if (at === group) return true;
      return false;
    });
  }

  rectOf(box) {
    const at = 4 * box, { places } = this.picture;
    return [places[at], places[at + 1], places[at + 2], places[at + 3]];
  }

  screenOf({ task, group }) {
    const box = group === undefined ? this.boxOfTask[task] : this.boxOfGroup[group];
    if (box === undefined || box < 0) return null;
    const [x, y] = this.rectOf(box);
    return [this.x + x * this.scale, this.y + y * this.scale];
  }

  // Moving

  fit() {
    if (!this.picture) return;
    const { clientWidth: w, clientHeight: h } = this.canvas, { picture } = this;
    this.scale = Math.min(1.2, (w - 40) / picture.w, (h - 40) / picture.h);
    this.x = (w - this.scale * picture.w) / 2;
    this.y = (h - this.scale * picture.h) / 2;
  }
  begin() {
    this.fit();
    if (this.scale >= 0.7) return;
    // What does not fit starts at its beginning, in a size that can be read.
    const { clientWidth: w } = this.canvas;
    this.scale = Math.max(0.5, Math.min(0.9, (w - 40) / this.picture.w));
    this.x = w / 2 - this.scale * this.picture.w / 2;
    this.y = 20;
  }
  drawNow() { if (this.picture) super.drawNow(); }
  zoom(factor, x, y) {
    const next = Math.min(4, Math.max(0.002, this.scale * factor));
    this.x = x - (x - this.x) * next / this.scale;
    this.y = y - (y - this.y) * next / this.scale;
    this.scale = next;
    this.draw();
  }
  /** Move a task into sight, and unfold what it lies in. */
  async show(task) {
    await this.apply({ what: "reveal", task });
    const { clientWidth: w, clientHeight: h } = this.canvas, box = this.boxOfTask[task];
    if (!w || box < 0) return;
    if (this.scale < 0.4) this.scale = 0.7;
    const [left, top, wide, high] = this.rectOf(box);
    const x = this.x + (left + wide / 2) * this.scale;
    const y = this.y + (top + high / 2) * this.scale;
    if (x > 80 && x < w - 80 && y > 40 && y < h - 40) return;
    this.x += w / 2 - x;
    this.y += h / 2 - y;
    this.draw();
  }

  /** The middle of the box in which a task is seen, on the screen. */
  center(task) {
    const [x, y, w, h] = this.rectOf(this.boxOfTask[task]);
    return [this.x + (x + w / 2) * this.scale, this.y + (y + h / 2) * this.scale];
  }

  // Drawing

  /** What is in sight of rows of bands: numbers, each once. */
  seen({ starts, items }, marks, low, high) {
    const found = [], last = starts.length - 2;
    const from = Math.max(0, Math.floor(low / BAND)), to = Math.floor(high / BAND);
    for (let band = from; band <= Math.min(last, to); band++) {
      for (let at = starts[band]; at < starts[band + 1]; at++) {
        const item = items[at];
        if (marks[item] === this.mark) continue;
        marks[item] = this.mark;
        found.push(item);
      }
    }
    return found;
  }

  paint(context, width, height) {
    const { scale, picture } = this, ratio = devicePixelRatio || 1;
    context.fillStyle = colours.plot;
    context.fillRect(0, 0, width, height);
    context.setTransform(
      ratio * scale, 0, 0, ratio * scale, ratio * this.x, ratio * this.y);
    this.mark++;
    const low = -this.y / scale, high = (height - this.y) / scale;
    const left = -this.x / scale, right = (width - this.x) / scale;
    const boxes = this.seen(picture.boxBands, this.boxMark, low, high)
      .sort((a, b) => a - b);
    this.paintGroups(context, boxes);
    // A line that is shorter than half a pixel, or beside the window, is none.
    const lines = this.seen(picture.lineBands, this.lineMark, low, high)
      .filter(line => this.lineSize[line] * scale >= 0.5
        && this.lineLeft[line] < right && this.lineRight[line] > left);
    this.paintLines(context, lines);
    context.textBaseline = "middle";
    const inSight = this.apart(boxes).filter(box => {
      const [x, , w] = this.rectOf(box);
      return x < right && x + w + 200 > left;
    });
    for (const box of inSight) this.paintBox(context, box);
    this.painted = { boxes: inSight.length, lines: lines.length };
    context.globalAlpha = 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.minimap.paint(context, width, height);
    if (this.isLate) {
      context.fillStyle = colours.text;
      context.font = `12px ${FONT}`;
      context.fillText("The layout takes a while …", 14, height - 20);
    }
    document.documentElement.dataset.drawn ??= performance.now();
  }

  /** The boxes that differ on the screen: of those in one pixel, the first one. */
  apart(boxes) {
    const { places, isOpen } = this.picture, { scale } = this, pixels = new Set();
    return boxes.filter(box => {
      const at = 4 * box;
      if (isOpen[box] || places[at + 3] * scale >= 1) return true;
      const pixel = Math.floor(places[at] * scale)
        + 65536 * Math.floor(places[at + 1] * scale);
      if (pixels.has(pixel)) return this.isOn(box);
      pixels.add(pixel);
      return true;
    });
  }

  /** Whether a box is of what is selected. */
  isOn(box) {
    const node = this.picture.nodes[box];
    return chosen !== null && (node >= 0
      ? chosen.task === node : chosen.group === -1 - node);
  }

  paintGroups(context, boxes) {
    context.fillStyle = colours.line;
    context.globalAlpha = 0.28;
    for (const box of boxes)
      if (this.picture.isOpen[box]) context.fillRect(...this.rectOf(box));
    context.globalAlpha = 1;
  }

  /** Whether a line, or what a box reads without one, is of what is selected. */
  isNear(rows, i) {
    if (!chosen) return false;
    for (let at = rows.starts[i]; at < rows.starts[i + 1]; at++) {
      const edge = edges[rows.items[at]];
      if (edge && (edge[0] === chosen.task || edge[1] === chosen.task
        || edge[2] === chosen.register)) return true;
    }
    return false;
  }

  paintLines(context, lines) {
    const { lineStarts, linePoints: at, hasArrow, lineEdges } = this.picture;
    const others = new Path2D(), near = new Path2D(), dashed = new Path2D();
    const heads = new Path2D(), nearHeads = new Path2D();
    for (const line of lines) {
      const isNear = this.isNear(lineEdges, line), end = lineStarts[line + 1];
      const edge = edges[lineEdges.items[lineEdges.starts[line]]];
      const path = isNear ? near : edge && edge[3] ? dashed : others;
      path.moveTo(at[lineStarts[line]], at[lineStarts[line] + 1]);
      for (let i = lineStarts[line] + 2; i < end; i += 2) path.lineTo(at[i], at[i + 1]);
      if (!hasArrow[line] || this.scale < WITH_HEADS) continue;
      arrowHead(isNear ? nearHeads : heads, at[end - 4], at[end - 3], at[end - 2], at[end - 1]);
    }
    const thin = Math.max(1, 0.6 / this.scale);
    context.globalAlpha = 0.75;
    context.strokeStyle = context.fillStyle = colours.soft;
    context.lineWidth = thin;
    context.stroke(others);
    context.fill(heads);
    context.setLineDash([5, 4]);
    context.stroke(dashed);
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = colours.mark;
    context.lineWidth = 2 * thin;
    if (chosen) context.stroke(this.looseLines());
    context.setLineDash([]);
    context.stroke(near);
    context.fill(nearHeads);
  }

  /** The lines of `undrawn`, made once for a picture and what is selected. */
  looseLines() {
    if (this.loose?.of !== chosen) this.loose = { of: chosen, path: this.undrawn() };
    return this.loose.path;
  }

  /** Lines of what is selected that the picture lacks: far readers, orders, guards. */
  undrawn() {
    const path = new Path2D(), drawn = new Set();
    const { lineEdges, lineStarts } = this.picture;
    const wanted = chosen.task === undefined
      ? [...edges.keys()].filter(i => edges[i][2] === chosen.register)
      : edgesOfTask[chosen.task];
    const near = new Set(wanted);
    for (let line = 0; line < lineStarts.length - 1; line++)
      for (let at = lineEdges.starts[line]; at < lineEdges.starts[line + 1]; at++)
        if (near.has(lineEdges.items[at])) drawn.add(lineEdges.items[at]);
    for (const edge of wanted) {
      const [from, to] = edges[edge], a = this.boxOfTask[from], b = this.boxOfTask[to];
      if (drawn.has(edge) || a === b || a < 0 || b < 0) continue;
      const [ax, ay, aw, ah] = this.rectOf(a), [bx, by, bw, bh] = this.rectOf(b);
      const isDown = ay + ah <= by, y = isDown ? ay + ah : ay, end = isDown ? by : by + bh;
      const bend = (end - y) * 0.4;
      path.moveTo(ax + aw / 2, y);
      path.bezierCurveTo(
        ax + aw / 2, y + bend, bx + bw / 2, end - bend, bx + bw / 2, end);
    }
    return path;
  }

  paintBox(context, box) {
    const { nodes, stages, isOpen, named } = this.picture, node = nodes[box];
    const [x, y, w, height] = this.rectOf(box), isOn = this.isOn(box);
    // A box that stands for all of its pixel fills that.
    const h = Math.max(height, 1 / this.scale);
    const hit = node >= 0 ? matches.has(node) : this.hasMatch(-1 - node);
    context.globalAlpha = search.value.trim() && !hit && !isOn ? 0.22 : 1;
    if (!isOpen[box]) {
      context.fillStyle = stages[box] >= 0 ? colours.raised : this.fillOf(node);
      context.fillRect(x, y, w, h);
    }
    if (isOn || hit && search.value.trim() || this.scale >= READABLE) {
      context.strokeStyle = isOn || hit ? colours.mark : colours.soft;
      context.lineWidth = isOn ? 3 : hit ? 2 : 0.7;
      context.strokeRect(x, y, w, h);
    }
    if (this.scale < READABLE) return;
    const isPlain = isOpen[box] || node < 0 || stages[box] >= 0;
    const ink = isPlain ? colours.text : colours.label;
    const rows = this.rowsOf(box, node, stages[box], isOpen[box]);
    rows.forEach(([text, size], i) => {
      if (!text) return;
      context.fillStyle = ink;
      context.font = `${size}px ${FONT}`;
      context.fillText(cut(text, size, w - 12), x + 8, y + 13 + i * ROW);
    });
    if (named[box]) {
      context.fillStyle = this.isNear(this.picture.namedEdges, box) && !isPlain
        ? "#0b3d91" : ink;
      context.font = `${SMALL}px ${FONT}`;
      const row = isOpen[box] ? 1 : 3;
      context.fillText(cut(named[box], SMALL, w - 12), x + 8, y + 13 + row * ROW);
    }
    if (node >= 0 && !isOpen[box] && stages[box] < 0 && this.scale >= WITH_TYPES)
      this.paintType(context, this.texts[node].type, x + w / 2, y + h + 13);
  }

  /** The type of what a task writes, on the lines below it. */
  paintType(context, type, middle, y) {
    if (!type) return;
    const wide = textWidth(type, SMALL) + 6;
    context.fillStyle = colours.plot;
    context.fillRect(middle - wide / 2, y - 7, wide, 14);
    context.fillStyle = colours.soft;
    context.font = `${SMALL}px ${FONT}`;
    context.fillText(type, middle - wide / 2 + 3, y);
  }

  /** The rows of text in a box, each with its size. */
  rowsOf(box, node, stage, open) {
    if (stage >= 0) {
      const { title, sub } = this.texts[node].stages.boxes[stage];
      return [[title, TITLE], [sub, SMALL]];
    }
    if (node < 0) {
      const { label, count } = this.picture.groups[-1 - node];
      const head = `${open ? "▾" : "▸"} ${label} (${count})`;
      return open ? [[head, TITLE]] : [[head, TITLE], ["", SMALL],
        [costs(this.groupTimes[-1 - node], this.groupBytes[-1 - node]), SMALL]];
    }
    const { title, sub, stages } = this.texts[node];
    const head = stages ? `${open ? "▾" : "▸"} ${title}` : title;
    if (open) return [[`${head}: ${sub}`, TITLE]];
    return [[head, TITLE], [sub, SMALL],
      [costs(taskTimes[node], taskBytes[node]), SMALL]];
  }

  // Colours

  recolour(by) {
    this.colour = by;
    this.minimap.image = null;
    this.most = greatest(by === "time" ? taskTimes : taskBytes);
    showLegend(by);
    this.draw();
  }

  fillOf(node) {
    if (node < 0) return this.fillOfGroup(-1 - node);
    const { colour } = this;
    if (colour === "kind") return opColour(tasks[node].kind);
    if (colour === "device") return palettes.device[tasks[node].device] ?? colours.other;
    const value = (colour === "time" ? taskTimes : taskBytes)[node];
    return between(HEAT, this.most ? value / this.most : 0);
  }

  fillOfGroup() { return colours.raised; }

  hasMatch(group) {
    if (this.matched !== matches) {
      this.matched = matches;
      this.matchedGroups = new Set();
      const { groups, parents } = this.picture;
      for (const task of matches)
        for (let at = parents[task]; at >= 0; at = groups[at].parent)
          this.matchedGroups.add(at);
    }
    return this.matchedGroups.has(group);
  }

  // Input

  /** The innermost box at a place on the screen, or -1. */
  boxAt(sx, sy) {
    if (!this.picture) return -1;
    const x = (sx - this.x) / this.scale, y = (sy - this.y) / this.scale;
    this.mark++;
    let found = -1;
    for (const box of this.seen(this.picture.boxBands, this.boxMark, y, y)) {
      const [left, top, w, h] = this.rectOf(box);
      if (x >= left && x <= left + w && y >= top && y <= top + h)
        found = Math.max(found, box);
    }
    return found;
  }

  /** Whether a place lies in the first row of a box, which folds and unfolds it. */
  isHead(box, sy) {
    const [, top] = this.rectOf(box);
    return (sy - this.y) / this.scale - top < GROUP_HEAD;
  }

  click(x, y) {
    if (this.minimap.click(x, y)) return;
    const box = this.boxAt(x, y);
    if (box < 0) { unchoose(); return; }
    const node = this.picture.nodes[box], isOpen = this.picture.isOpen[box];
    if (node < 0) {
      if (isOpen && !this.isHead(box, y)) { unchoose(); return; }
      this.toggle(-1 - node);
    } else {
      const isSame = chosen?.task === node;
      chooseTask(node, false);
      const hasStages = this.texts[node].stages && this.picture.stages[box] < 0;
      if (hasStages && this.isHead(box, y) && (isSame || isOpen)) this.toggleStages(node);
    }
  }

  toggle(group) {
    chooseGroup(group);
    return this.apply({ what: "toggle", group }, false, { group });
  }

  toggleStages(task) {
    return this.apply({ what: "stages", task }, false, { task });
  }

  /** Keys that need a selection: go along the data, and fold or unfold. */
  key(event) {
    if (event.key === "u") find("#unfold").click();
    else if (event.key === "f") find("#fold").click();
    else if (event.key === "Enter") this.enter();
    else if (chosen?.task === undefined || event.shiftKey) return false;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const [near, far] = event.key === "ArrowDown" ? [0, 1] : [1, 0];
      const next = edgesOfTask[chosen.task]
        .filter(i => !edges[i][3] && edges[i][near] === chosen.task)
        .map(i => edges[i][far]);
      if (next.length) chooseTask(next[0], true);
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const step = event.key === "ArrowRight" ? 1 : tasks.length - 1;
      chooseTask((chosen.task + step) % tasks.length, true);
    } else return false;
    return true;
  }

  enter() {
    if (chosen?.group !== undefined) this.toggle(chosen.group);
    else if (chosen?.task === undefined) chooseTask(0, true);
    else if (this.texts[chosen.task].stages) this.toggleStages(chosen.task);
  }

  tipAt(x, y) {
    const box = this.boxAt(x, y);
    if (box < 0) return null;
    const node = this.picture.nodes[box];
    if (node < 0) {
      if (this.picture.isOpen[box]) return null;
      const { label, count } = this.picture.groups[-1 - node];
      return [element("b", label), list([["tasks", count],
        ["total", trace ? time(this.groupTimes[-1 - node]) : null],
        ["writes", bytes(this.groupBytes[-1 - node])]])];
    }
    const { name, kind, stream } = tasks[node], { count, total } = times[node];
    return [element("b", name), list([["op", kind], ["stream", stream],
      ["node", tasks[node].nodes.join(", ")], ["writes", this.texts[node].type],
      ["total", count ? `${time(total)} in ${count} acts` : null]])];
  }
}

/** A time and a size, or what there is of them. */
const costs = (micros, size) => [
  micros ? time(micros) : "", size ? bytes(size) : "",
].filter(Boolean).join(" · ");

function arrowHead(path, px, py, x, y) {
  const angle = Math.atan2(y - py, x - px);
  path.moveTo(x, y);
  for (const turn of [-0.4, 0.4])
    path.lineTo(x - 8 * Math.cos(angle + turn), y - 8 * Math.sin(angle + turn));
  path.closePath();
}

/** Colours of names, the most frequent first, as those of kinds. */
function paletteOf(names) {
  const counts = new Map(), fills = data.colours;
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const ranked = [...counts.keys()].sort(
    (a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
  return Object.fromEntries(ranked.slice(0, fills.length).map((n, i) => [n, fills[i]]));
}

// The map of the whole graph, in a corner ------------------------------------------

class Minimap {
  constructor(view) {
    this.view = view;
    this.image = null;
  }

  /** Where it lies: nothing if all is in sight anyway. */
  area(width, height) {
    const { picture, scale } = this.view;
    const isWhole = picture.w * scale <= width && picture.h * scale <= height;
    if (isWhole || width < 480) return null;
    const k = Math.min(100 / picture.w, (height - 90) * 0.45 / picture.h);
    const w = Math.max(10, picture.w * k), h = Math.max(10, picture.h * k);
    return { x: width - w - 14, y: 14, w, h };
  }

  paint(context, width, height) {
    const area = this.area(width, height);
    this.at = area;
    if (!area) return;
    const { view } = this, { x, y, w, h } = area, { picture } = view;
    // A frame that shows another picture has enough to do: the map comes in the next.
    if (this.image === null) { this.renderLater(w, h); return; }
    context.fillStyle = colours.plot;
    context.fillRect(x - 4, y - 4, w + 8, h + 8);
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(x - 4, y - 4, w + 8, h + 8);
    context.drawImage(this.image, x, y, w, h);
    const kx = w / picture.w, ky = h / picture.h;
    const clip = (low, size, most) => {
      const start = Math.min(most, Math.max(0, low));
      return [start, Math.max(2, Math.min(most, low + size) - start)];
    };
    const [left, wide] = clip(-view.x / view.scale * kx, width / view.scale * kx, w);
    const [top, high] = clip(-view.y / view.scale * ky, height / view.scale * ky, h);
    context.strokeStyle = colours.mark;
    context.lineWidth = 1.5;
    context.strokeRect(x + left, y + top, wide, high);
  }

  renderLater(w, h) {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.image = this.render(w, h);
      this.view.draw();
    });
  }

  render(w, h) {
    const image = document.createElement("canvas"), { view } = this, { picture } = view;
    image.width = Math.ceil(2 * w);
    image.height = Math.ceil(2 * h);
    const pen = image.getContext("2d");
    pen.scale(image.width / picture.w, image.height / picture.h);
    const ky = image.height / picture.h, kx = image.width / picture.w;
    const pixels = new Set();
    for (let box = 0; box < picture.nodes.length; box++) {
      const at = 4 * box, { places } = picture;
      const pixel = Math.floor(places[at] * kx) * 65536 + Math.floor(places[at + 1] * ky);
      if (places[at + 3] * ky < 1 && pixels.has(pixel)) continue;
      pixels.add(pixel);
      const node = picture.nodes[box];
      pen.globalAlpha = picture.isOpen[box] ? 0.25 : 1;
      pen.fillStyle = picture.isOpen[box] ? colours.line
        : node < 0 ? colours.other : view.fillOf(node);
      pen.fillRect(...view.rectOf(box));
    }
    return image;
  }

  /** Move to what is clicked on; tell whether that lies on the map. */
  click(x, y) {
    const { at, view } = this;
    if (!at || x < at.x || x > at.x + at.w || y < at.y || y > at.y + at.h) return false;
    const { clientWidth: w, clientHeight: h } = view.canvas;
    view.x = w / 2 - (x - at.x) / at.w * view.picture.w * view.scale;
    view.y = h / 2 - (y - at.y) / at.h * view.picture.h * view.scale;
    view.draw();
    return true;
  }
}
