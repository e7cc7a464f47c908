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
    context.font = `${points}px ${FONT}`;
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
        context.fillText(cut(tasks[i].name, points, room), left, y + high * 0.32);
        context.globalAlpha *= 0.75;
        context.fillText(cut(tasks[i].kind, points, room), left, y + high * 0.72);
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
