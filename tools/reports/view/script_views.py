"""
The views of the script of the page: the graph of tasks, and the time line.
"""

VIEWS = r"""
// Canvases -------------------------------------------------------------------------

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name);
let colours = {};
function readColours() {
  for (const name of ["plot", "text", "soft", "line", "mark", "label", "other"])
    colours[name] = css(`--${name}`).trim();
}
const opColour = kind => palette[kind] || colours.other;

class View {
  constructor(id) {
    this.canvas = find(`#${id} canvas`);
    this.context = this.canvas.getContext("2d");
    this.scale = 1; this.x = 0; this.y = 0; this.waiting = 0; this.isFitted = false;
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener("pointerdown", event => {
      drag = { x: event.clientX, y: event.clientY, moved: false };
      if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (!drag) { this.hover(event); return; }
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      drag = { x: event.clientX, y: event.clientY, moved: true };
      canvas.classList.add("dragging");
      this.x += dx; this.y += dy;
      this.draw();
    });
    canvas.addEventListener("pointerup", event => {
      canvas.classList.remove("dragging");
      if (drag && !drag.moved) this.click(...this.at(event));
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const [x, y] = this.at(event);
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), x, y);
    }, { passive: false });
    canvas.addEventListener("keydown", event => {
      const { clientWidth: w, clientHeight: h } = canvas, step = 60;
      const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0],
        ArrowUp: [0, step], ArrowDown: [0, -step] };
      if (moves[event.key]) {
        this.x += moves[event.key][0]; this.y += moves[event.key][1];
        this.draw();
      } else if (event.key === "+" || event.key === "=") this.zoom(1.3, w / 2, h / 2);
      else if (event.key === "-") this.zoom(1 / 1.3, w / 2, h / 2);
      else if (event.key === "0") { this.fit(); this.draw(); }
      else return;
      event.preventDefault();
    });
    for (const button of all(`#${id} .tools button`)) {
      button.onclick = () => {
        const factor = Number(button.dataset.zoom);
        if (factor) this.zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
        else { this.fit(); this.draw(); }
      };
    }
  }
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
  hover(event) {
    const nodes = this.tipAt(...this.at(event));
    tip.hidden = !nodes;
    if (!nodes) return;
    showTip(event, nodes);
  }
  draw() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.drawNow());
  }
  drawNow() {
    const { canvas, context } = this, ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.isFitted) { this.begin(); this.isFitted = true; }
    this.paint(context, width, height);
  }
}

function showTip(event, nodes) {
  tip.replaceChildren(...nodes);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const beside = (at, size, end) => at + 16 + size > end ? at - size - 12 : at + 16;
  tip.style.left = `${beside(event.clientX, width, innerWidth)}px`;
  tip.style.top = `${beside(event.clientY, height, innerHeight)}px`;
}

function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "\u2026").width <= width)
      low = middle;
    else high = middle - 1;
  }
  return low ? text.slice(0, low) + "\u2026" : "";
}

// The graph ------------------------------------------------------------------------

const COLUMN = 170, ROW = 74, WIDE = 148, HIGH = 38;

class GraphView extends View {
  constructor() {
    super("graph");
    const xs = tasks.map(task => task.x), ys = tasks.map(task => task.y);
    const least = list => list.reduce((a, b) => Math.min(a, b), Infinity);
    const most = list => list.reduce((a, b) => Math.max(a, b), -Infinity);
    this.box = tasks.length ? [least(xs) * COLUMN, 0,
      most(xs) * COLUMN + WIDE, most(ys) * ROW + HIGH] : [0, 0, 1, 1];
    this.rows = [];
    tasks.forEach((task, i) => (this.rows[task.y] ||= []).push(i));
    for (const row of this.rows) row.sort((a, b) => tasks[a].x - tasks[b].x);
  }
  fit() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const [left, top, right, bottom] = this.box;
    this.scale = Math.min(1.2, (w - 40) / (right - left), (h - 40) / (bottom - top));
    this.x = w / 2 - this.scale * (left + right) / 2;
    this.y = h / 2 - this.scale * (top + bottom) / 2;
  }
  begin() {
    this.fit();
    if (this.scale >= 0.85 || !tasks.length) return;
    // What does not fit starts at its beginning, in a size that can be read.
    this.scale = 0.95;
    const { clientWidth: w } = this.canvas, first = tasks[this.rows[0][0]];
    this.x = w / 2 - this.scale * (first.x * COLUMN + WIDE / 2);
    this.y = 30;
  }
  zoom(factor, x, y) {
    const next = Math.min(4, Math.max(0.002, this.scale * factor));
    this.x = x - (x - this.x) * next / this.scale;
    this.y = y - (y - this.y) * next / this.scale;
    this.scale = next;
    this.draw();
  }
  corner(i) {
    return [this.x + tasks[i].x * COLUMN * this.scale,
      this.y + tasks[i].y * ROW * this.scale];
  }
  center(i) {
    const [x, y] = this.corner(i);
    return [x + WIDE / 2 * this.scale, y + HIGH / 2 * this.scale];
  }
  show(i) {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w) return;
    if (this.scale < 0.4) this.scale = 0.7;
    const [x, y] = this.center(i);
    if (x > 80 && x < w - 80 && y > 40 && y < h - 40) return;
    this.x += w / 2 - x;
    this.y += h / 2 - y;
  }
  visible(height) {
    const first = Math.max(0, Math.floor((-this.y / this.scale - HIGH) / ROW));
    const last = Math.min(this.rows.length - 1,
      Math.ceil((height - this.y) / this.scale / ROW));
    return [first, last];
  }
  paint(context, width, height) {
    context.fillStyle = colours.plot;
    context.fillRect(0, 0, width, height);
    this.paintEdges(context, width, height);
    const [first, last] = this.visible(height);
    const wide = Math.max(1.5, WIDE * this.scale);
    const high = Math.max(1.5, HIGH * this.scale), isReadable = this.scale > 0.34;
    const points = Math.round(12.5 * Math.min(1.4, this.scale) + 1);
    context.font = `${points}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    for (let row = first; row <= last; row++) {
      for (const i of this.rows[row] || []) {
        const [x, y] = this.corner(i);
        if (x > width || x + wide < 0) continue;
        const isOn = chosen && chosen.task === i;
        const isDim = search.value.trim() && !matches.has(i) && !isOn;
        context.globalAlpha = isDim ? 0.22 : 1;
        context.fillStyle = opColour(tasks[i].kind);
        context.fillRect(x, y, wide, high);
        if (isOn || matches.has(i)) {
          context.strokeStyle = colours.mark;
          context.lineWidth = isOn ? 3 : 2;
          context.strokeRect(x, y, wide, high);
        }
        if (!isReadable) continue;
        context.fillStyle = colours.label;
        const room = wide - 10 * this.scale, left = x + 5 * this.scale;
        context.fillText(cut(context, tasks[i].name, room), left, y + high * 0.32);
        context.globalAlpha *= 0.75;
        context.fillText(cut(context, tasks[i].kind, room), left, y + high * 0.72);
      }
    }
    context.globalAlpha = 1;
  }
  paintEdges(context, width, height) {
    const near = [];
    context.lineWidth = Math.max(0.4, Math.min(1.4, this.scale * 1.6));
    context.strokeStyle = colours.soft;
    context.globalAlpha = this.scale < 0.1 ? 0.35 : 0.7;
    const paths = [new Path2D(), new Path2D()];
    for (const [from, to, register] of edges) {
      const [ax, ay] = this.center(from), [bx, by] = this.center(to);
      if (Math.max(ay, by) < 0 || Math.min(ay, by) > height) continue;
      if (Math.max(ax, bx) < 0 || Math.min(ax, bx) > width) continue;
      const isNear = chosen && (chosen.task === from || chosen.task === to ||
        chosen.register === register);
      if (isNear) { near.push([ax, ay, bx, by]); continue; }
      const isControl = registers[register].bytes === undefined;
      this.trace(paths[isControl ? 1 : 0], ax, ay, bx, by);
    }
    context.stroke(paths[0]);
    context.setLineDash([4, 4]);
    context.stroke(paths[1]);
    context.setLineDash([]);
    context.globalAlpha = 1;
    context.strokeStyle = colours.mark;
    context.lineWidth = 2;
    const path = new Path2D();
    for (const ends of near) this.trace(path, ...ends);
    context.stroke(path);
  }
  trace(path, ax, ay, bx, by) {
    const half = HIGH / 2 * this.scale, down = by > ay ? half : -half;
    path.moveTo(ax, ay + down);
    if (this.scale < 0.15) { path.lineTo(bx, by - down); return; }
    const bend = (by - ay) * 0.4;
    path.bezierCurveTo(ax, ay + down + bend, bx, by - down - bend, bx, by - down);
  }
  taskAt(x, y) {
    const row = Math.floor((y - this.y) / this.scale / ROW);
    for (const i of this.rows[row] || []) {
      const [left, top] = this.corner(i);
      if (x >= left && x <= left + WIDE * this.scale &&
          y >= top && y <= top + HIGH * this.scale) return i;
    }
    return null;
  }
  click(x, y) {
    const i = this.taskAt(x, y);
    if (i === null) unchoose(); else chooseTask(i, false);
  }
  tipAt(x, y) {
    const i = this.taskAt(x, y);
    if (i === null) return null;
    const { name, kind, stream } = tasks[i], { count, total } = times[i];
    return [element("b", name), list([["op", kind], ["stream", stream],
      ["total", count ? `${time(total)} in ${count} acts` : null]])];
  }
}

// The time line --------------------------------------------------------------------

const TRACK = 40, HEAD = 26, NAMES = 150;

class LineView extends View {
  constructor() {
    super("line");
    this.tracks = trace ? trace.tracks : [];
    const ends = this.tracks.flatMap(t => t.slices.slice(-400).map(s => s[1] + s[2]));
    this.end = ends.reduce((a, b) => Math.max(a, b), 0) || 1;
    this.longest = this.tracks.map(
      t => t.slices.reduce((most, s) => Math.max(most, s[2]), 0));
  }
  fit() {
    this.scale = (this.canvas.clientWidth - NAMES - 20) / this.end;
    this.x = NAMES + 4;
    this.y = 0;
  }
  begin() { this.fit(); }
  zoom(factor, x) {
    const least = (this.canvas.clientWidth - NAMES) / this.end / 2;
    const next = Math.min(1e4, Math.max(least, this.scale * factor));
    this.x = x - (x - this.x) * next / this.scale;
    this.scale = next;
    this.draw();
  }
  show(i) {
    const width = this.canvas.clientWidth;
    if (!width) return;
    for (const track of this.tracks) {
      const slice = track.slices.find(
        s => s[4] === i && trace.categories[s[3]] !== "idle");
      if (!slice) continue;
      const x = this.x + (slice[1] + slice[2] / 2) * this.scale;
      if (x < NAMES || x > width) this.x += (NAMES + width) / 2 - x;
      return;
    }
  }
  from(track, moment) {
    // The first slice that may reach beyond a moment, as none is longer.
    const slices = this.tracks[track].slices, limit = moment - this.longest[track];
    let low = 0, high = slices.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (slices[middle][1] < limit) low = middle + 1; else high = middle;
    }
    return low;
  }
  paint(context, width, height) {
    context.fillStyle = colours.plot;
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const right = (width - this.x) / this.scale, left = (NAMES - this.x) / this.scale;
    this.tracks.forEach((track, t) => {
      const y = HEAD + t * TRACK + this.y;
      if (y + TRACK < HEAD || y > height) return;
      context.fillStyle = colours.line;
      context.fillRect(0, y + TRACK - 1, width, 1);
      let drawn = -Infinity;
      for (let s = this.from(t, left); s < track.slices.length; s++) {
        const [name, start, duration, category, task] = track.slices[s];
        if (start > right) break;
        const x = this.x + start * this.scale, wide = duration * this.scale;
        if (x + wide < NAMES || x + wide < drawn + 0.5) continue;
        if (trace.categories[category] !== "op") drawn = Math.max(x + wide, x + 0.5);
        this.slice(context, trace.names[name], trace.categories[category], task,
          Math.max(x, NAMES), y, Math.max(0.6, wide - Math.max(0, NAMES - x)));
      }
    });
    context.fillStyle = colours.plot;
    context.fillRect(0, 0, NAMES, height);
    context.fillStyle = colours.text;
    this.tracks.forEach((track, t) => context.fillText(
      cut(context, track.name, NAMES - 16), 10, HEAD + t * TRACK + this.y + TRACK / 2));
    this.ruler(context, width, left, right);
  }
  slice(context, name, category, task, x, y, wide) {
    const isInner = category === "op", isIdle = category === "idle";
    const top = y + (isInner ? 21 : 5), high = isInner ? 14 : isIdle ? 10 : 30;
    const isOn = chosen && chosen.task === task && task >= 0;
    const isDim = search.value.trim() && !matches.has(task) && !isOn;
    context.globalAlpha = isDim ? 0.2 : isIdle ? 0.55 : 1;
    context.fillStyle = isIdle ? colours.line :
      task >= 0 ? opColour(tasks[task].kind) : colours.other;
    context.fillRect(x, isIdle ? y + 15 : top, wide, high);
    if (isOn && !isIdle) {
      context.strokeStyle = colours.mark;
      context.lineWidth = 2;
      context.strokeRect(x, top, wide, high);
    }
    if (wide > 30) {
      context.fillStyle = isIdle ? colours.soft : colours.label;
      const middle = isIdle ? y + 20 : top + high / 2;
      context.fillText(cut(context, name, wide - 6), x + 3, middle);
    }
    context.globalAlpha = 1;
  }
  ruler(context, width, left, right) {
    context.fillStyle = colours.plot;
    context.fillRect(0, 0, width, HEAD);
    context.fillStyle = colours.line;
    context.fillRect(0, HEAD - 1, width, 1);
    const rough = 110 / this.scale, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(n => n * power >= rough) * power;
    context.fillStyle = colours.soft;
    for (let n = Math.ceil(left / step); n * step <= right; n++) {
      const x = this.x + n * step * this.scale;
      context.fillRect(x, HEAD - 6, 1, 5);
      context.fillText(shortTime(n * step), x + 3, HEAD / 2);
    }
  }
  sliceAt(x, y) {
    const t = Math.floor((y - HEAD - this.y) / TRACK);
    if (x < NAMES || y < HEAD || !this.tracks[t]) return null;
    const moment = (x - this.x) / this.scale, near = 2 / this.scale;
    const slices = this.tracks[t].slices;
    let found = null;
    for (let s = this.from(t, moment); s < slices.length; s++) {
      if (slices[s][1] > moment + near) break;
      if (slices[s][1] + slices[s][2] >= moment - near) found = slices[s];
    }
    return found;
  }
  click(x, y) {
    const slice = this.sliceAt(x, y);
    if (!slice) { unchoose(); return; }
    if (slice[4] >= 0) chooseTask(slice[4], false);
    else side.replaceChildren(element("h2", trace.names[slice[0]]));
    side.append(element("h3", "this slice"), this.facts(slice));
  }
  facts([name, start, duration, category, , facts]) {
    return list([["is", trace.categories[category]], ["starts at", time(start)],
      ["takes", time(duration)], ...Object.entries(facts)]);
  }
  tipAt(x, y) {
    const slice = this.sliceAt(x, y);
    return slice && [element("b", trace.names[slice[0]]), this.facts(slice)];
  }
}
"""
