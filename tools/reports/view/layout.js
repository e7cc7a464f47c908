// The layout of what is open of a graph, by dagre: each open group by itself, in pieces
// between the nodes that every path passes, and equal pieces once.
"use strict";

const GAP = 18, RANK = 40, PAD = 10, GROUP_HEAD = 24, LAYERS = 6, PORTS = 8, BAND = 800;
const TITLE = 12, SMALL = 11, ROW = 15, NARROW = 96;

// Pieces ---------------------------------------------------------------------------

/** Lays out pieces; it remembers them all, and counts how often dagre was asked. */
class Pieces {
  constructor() {
    this.known = new Map();
    this.pieces = 0;
    this.calls = 0;
    this.largest = 0;
  }

  /** Nodes of [width, height] and edges [from, to, weight]: middles, lines, middle. */
  layout(sizes, edges) {
    this.pieces++;
    const key = JSON.stringify([sizes, edges]);
    if (!this.known.has(key)) this.known.set(key, this.ask(sizes, edges));
    return this.known.get(key);
  }

  ask(sizes, edges) {
    this.calls++;
    this.largest = Math.max(this.largest, sizes.length);
    const graph = new dagre.graphlib.Graph()
      .setGraph({ rankdir: "TB", nodesep: GAP, ranksep: RANK, edgesep: 10 });
    sizes.forEach(([width, height], i) => graph.setNode(`${i}`, { width, height }));
    for (const [a, b, weight] of edges) graph.setEdge(`${a}`, `${b}`, { weight });
    dagre.layout(graph);
    const at = sizes.map((_, i) => {
      const { x, y } = graph.node(`${i}`);
      return [x, y];
    });
    const bands = new Map();      // the height of each layer, by its middle
    const bandOf = y => Math.round(y * 100);
    at.forEach(([, y], i) => {
      bands.set(bandOf(y), Math.max(bands.get(bandOf(y)) ?? 0, sizes[i][1]));
    });
    const heightAt = y => bands.get(bandOf(y)) ?? 0;
    const lines = edges.map(([a, b]) => {
      const points = graph.edge(`${a}`, `${b}`).points.map(p => [p.x, p.y]);
      return at[a][1] < at[b][1]
        ? straightened(points, [at[a], sizes[a]], [at[b], sizes[b]], heightAt) : points;
    });
    return { at, lines, middle: graph.graph().width / 2 };
  }
}

/**
 * A line from the lower border of a box to the upper one of another, that passes each
 * layer upright: dagre's can cross neighbours, which may be higher than the box.
 */
function straightened(points, [[ax, ay], [aw, ah]], [[bx, by], [bw, bh]], heightAt) {
  const clamp = (x, middle, width) => {
    const half = Math.max(0, width / 2 - 8);
    return Math.min(middle + half, Math.max(middle - half, x));
  };
  const first = clamp(points[1][0], ax, aw), last = clamp(points.at(-2)[0], bx, bw);
  const line = [[first, ay + ah / 2]];
  if (heightAt(ay) > ah) line.push([first, ay + heightAt(ay) / 2]);
  for (const [x, y] of points.slice(1, -1)) {
    const half = heightAt(y) / 2;
    if (half) line.push([x, y - half], [x, y + half]); else line.push([x, y]);
  }
  if (heightAt(by) > bh) line.push([last, by - heightAt(by) / 2]);
  line.push([last, by - bh / 2]);
  return line;
}

/** Cut where no edge leads over a node, and put the pieces below each other. */
function inPieces(pieces, sizes, edges) {
  const count = sizes.length, cuts = cutsOf(count, edges), from = sizes.map(() => []);
  edges.forEach(([a, b], k) => from[Math.min(a, b)].push(k));
  const at = [], lines = [];
  for (let start = 0, end; start < count && (!start || start < count - 1); start = end) {
    for (end = start + 1; end < count && !cuts[end]; end++);
    const last = Math.min(end, count - 1);
    const mine = from.slice(start, Math.max(last, start + 1)).flat();
    const asks = mine.map(
      k => [edges[k][0] - start, edges[k][1] - start, edges[k][2] ?? 1]);
    holdTogether(asks, last - start);
    const got = pieces.layout(sizes.slice(start, last + 1), asks);
    const dx = -got.middle, dy = start ? at[start][1] - got.at[0][1] : 0;
    got.at.forEach(([x, y], i) => {
      if (i || !start) at[start + i] = [x + dx, y + dy];
    });
    // Pieces are in the middle, so that long ones do not drift to a side.
    const aside = at[start][0] - got.at[0][0] - dx;
    mine.forEach((k, i) => {
      const isFirst = edges[k][0] === start;
      lines[k] = got.lines[i].map(
        ([x, y], n) => [x + dx + (n || !isFirst ? 0 : aside), y + dy]);
    });
  }
  return { at, lines };
}

/** Add edges that are not drawn, which keep all of a piece between its two ends. */
function holdTogether(asks, last) {
  const reads = new Set(asks.map(([, b]) => b)), feeds = new Set(asks.map(([a]) => a));
  for (let i = 1; i <= last; i++) {
    if (!reads.has(i)) asks.push([0, i, 0]);
    if (!feeds.has(i) && i < last) asks.push([i, last, 0]);
  }
}

// Links of groups ------------------------------------------------------------------

/** The links between children of an open group, with the edges of each, and its ports. */
class Inside {
  constructor() {
    this.ports = { in: new Map(), out: new Map() };
    this.links = new Map();
  }
  link(a, b, edge) {
    const to = this.links.get(a) ?? this.links.set(a, new Map()).get(a);
    (to.get(b) ?? to.set(b, []).get(b)).push(edge);
  }
  /** The name of the port of a task outside; there is one for all if they are many. */
  port(side, task) { return this.ports[side].has(task) ? task : "all"; }
  joinPorts() {
    for (const side of ["in", "out"])
      if (this.ports[side].size > PORTS) this.ports[side] = new Map([["all", null]]);
  }
}

/**
 * Take out the lines of what is read far and wide until the rest crosses few layers for
 * each node: its readers show its name. That keeps the time of dagre linear.
 */
function nameFarReaders(links, order) {
  const index = new Map(order.map((node, i) => [node, i])), layer = new Map();
  const sources = order.filter(node => links.has(node));
  const of = node => layer.get(node) ?? 0;
  for (const a of sources)
    for (const b of links.get(a).keys()) layer.set(b, Math.max(of(b), of(a) + 1));
  const far = sources.map(a => {
    let sum = 0;
    for (const b of links.get(a).keys()) sum += Math.abs(of(b) - of(a));
    return [sum, a];
  }).sort((x, y) => y[0] - x[0] || index.get(x[1]) - index.get(y[1]));
  let sum = far.reduce((total, [span]) => total + span, 0);
  for (const [span, a] of far) {
    if (sum <= LAYERS * order.length + 60) return;
    for (const [b, edges] of links.get(a)) {
      if (!(b instanceof Fold)) continue;
      (b.named ??= []).push(...edges);
      links.get(a).delete(b);
    }
    sum -= span;
  }
}

// The whole picture ----------------------------------------------------------------

class Layout {
  constructor(tree, edges, pieces) {
    Object.assign(this, { tree, edges, pieces });
    this.inner = new Map();
    this.linkAll();
    for (const inside of this.inner.values()) inside.joinPorts();
    for (const crossing of this.crossings) this.linkInside(crossing);
    this.place(tree.root);
    this.boxes = [];
    this.lines = [];
    this.walk(tree.root, 0, 0);
  }

  inside(group) {
    return this.inner.get(group)
      ?? this.inner.set(group, new Inside()).get(group);
  }

  /** Find for each edge the innermost group of both ends, and the ports on its way. */
  linkAll() {
    const paths = this.tree.nodes.map(node => {
      const path = [];
      for (let at = node; at; at = at.parent) path.unshift(at);
      const closed = path.findIndex(at => !at.open || at.id >= 0);
      return path.slice(0, closed + 1);
    });
    this.crossings = [];
    this.edges.forEach(([s, t], edge) => {
      const from = paths[s], to = paths[t];
      let k = 1;
      while (from[k] && from[k] === to[k]) k++;
      if (!from[k] || !to[k]) return;
      this.crossings.push([edge, s, from, to, k]);
      for (let i = k; i < from.length - 1; i++) this.inside(from[i]).ports.out.set(s, null);
      for (let i = k; i < to.length - 1; i++) this.inside(to[i]).ports.in.set(s, null);
    });
  }

  linkInside([edge, s, from, to, k]) {
    this.inside(from[k - 1]).link(from[k], to[k], edge);
    for (let i = k; i < from.length - 1; i++) {
      const inside = this.inside(from[i]);
      inside.link(from[i + 1], `out${inside.port("out", s)}`, edge);
    }
    for (let i = k; i < to.length - 1; i++) {
      const inside = this.inside(to[i]);
      inside.link(`in${inside.port("in", s)}`, to[i + 1], edge);
    }
  }

  /** Give the children of an open group their places in it, and the group its size. */
  place(group) {
    if (group.id >= 0) this.linkStages(group);
    const inside = this.inside(group), { links, ports } = inside;
    const nodes = [], sizes = [];
    const add = (node, size) => { nodes.push(node); sizes.push(size); };
    const children = this.inOrder(group, links);
    for (const child of children) child.named = null;
    const sides = side => [...ports[side].keys()].map(task => side + task);
    nameFarReaders(links, [...sides("in"), ...children, ...sides("out")]);
    if (ports.in.size > 1) add("top", [1, 1]);     // keeps the ports of a side in a row
    for (const port of sides("in")) add(port, [6, 1]);
    for (const child of children) {
      if (child.open) this.place(child); else [child.w, child.h] = this.sizeOf(child);
      add(child, [child.w, child.h]);
    }
    for (const port of sides("out")) add(port, [6, 1]);
    if (ports.out.size > 1) add("low", [1, 1]);
    this.arrange(group, inside, nodes, sizes);
    for (const child of children)
      if (child.open && child.isGroup) this.turn(child, inside.lines);
  }

  /** Mirror an open group if its ports are then more in the order of their lines. */
  turn(group, lines) {
    const inside = this.inside(group), { ports } = inside;
    let wrong = 0;
    for (const [side, end, at] of [["out", "a", 0], ["in", "b", -1]]) {
      const pairs = lines.filter(line => line[end] === group).flatMap(
        ({ points, edges }) => [...new Set(edges.map(edge => this.edges[edge][0]))].map(
          task => [ports[side].get(inside.port(side, task))[0], points.at(at)[0]]));
      pairs.forEach(([port, x], i) => {
        for (const [other, y] of pairs.slice(i + 1))
          wrong -= Math.sign((port - other) * (x - y));
      });
    }
    if (wrong > 0) this.mirror(group);
  }

  /** Mirror an open group, with all that is open in it. */
  mirror(group) {
    const inside = this.inside(group), { ports } = inside;
    const mirrored = ([x, y]) => [group.w - x, y];
    for (const child of group.children) {
      child.x = group.w - child.x - child.w;
      if (child.open) this.mirror(child);
    }
    for (const side of Object.values(ports))
      for (const [task, point] of side) side.set(task, mirrored(point));
    for (const line of inside.lines) line.points = line.points.map(mirrored);
  }

  arrange(group, inside, nodes, sizes) {
    const index = new Map(nodes.map((node, i) => [node, i])), { links, ports } = inside;
    const pairs = [], drawn = [];
    for (const [a, to] of links) for (const [b, edges] of to) {
      pairs.push([index.get(a), index.get(b)]);
      drawn.push([a, b, edges]);
    }
    const hold = (side, end) => [...ports[side].keys()].map(
      task => (side === "in" ? [end, index.get(`in${task}`), 9]
        : [index.get(`out${task}`), end, 9]));
    if (index.has("top")) pairs.push(...hold("in", index.get("top")));
    if (index.has("low")) pairs.push(...hold("out", index.get("low")));
    const { at, lines } = inPieces(this.pieces, sizes, pairs);
    const [left, top, right, low] = extentOf(at, sizes, lines);
    const head = group.parent ? GROUP_HEAD + (group.named ? ROW : 0) : 0;
    const wide = Math.max(right - left, group.parent ? textWidth(group.label, TITLE) + 70 : 0);
    const dx = PAD - left + (wide - right + left) / 2, dy = PAD + head - top;
    group.w = wide + 2 * PAD;
    group.h = low - top + 2 * PAD + head;
    nodes.forEach((node, i) => {
      if (!(node instanceof Fold)) return;
      node.x = at[i][0] + dx - sizes[i][0] / 2;
      node.y = at[i][1] + dy - sizes[i][1] / 2;
    });
    for (const side of ["in", "out"])
      for (const task of ports[side].keys()) {
        const [x, y] = at[index.get(side + task)];
        ports[side].set(task, [x + dx, y + dy]);
      }
    inside.lines = drawn.map(([a, b, edges], k) => ({
      a, b, edges, points: lines[k].map(([x, y]) => [x + dx, y + dy]),
    }));
  }

  /** The children of a group, each after those that it needs. */
  inOrder(group, links) {
    const children = [...group.children].sort((a, b) => a.first - b.first);
    const index = new Map(children.map((child, i) => [child, i])), pairs = [];
    for (const [a, to] of links)
      for (const b of to.keys())
        if (index.has(a) && index.has(b)) pairs.push([index.get(a), index.get(b)]);
    return topological(children.length, pairs).map(i => children[i]);
  }

  linkStages(task) {
    const inside = this.inside(task);
    for (const [a, b] of this.tree.tasks[task.id].stages.links)
      inside.link(task.children[a], task.children[b], -1);
  }

  /** The size of a box that is closed: it depends on texts alone. */
  sizeOf(node) {
    const task = node.isGroup ? null : this.tree.tasks[
      node.id >= 0 ? node.id : node.parent.id];
    const texts = node.isGroup ? [[`${node.label} (${node.count})   `, TITLE]]
      : node.stage >= 0 ? this.stageTexts(task.stages.boxes[node.stage])
        : [[task.title + (task.stages ? "   " : ""), TITLE], [task.sub, SMALL],
          [task.type, SMALL]];
    if (node.named) texts.push([this.namedText(node), SMALL]);
    const width = texts.reduce(
      (most, [text, size]) => Math.max(most, textWidth(text, size)), NARROW);
    return [Math.ceil((width + 20) / 8) * 8, 3 * ROW + 9 + (node.named ? ROW : 0)];
  }

  stageTexts({ title, sub }) { return [[title, TITLE], [sub, SMALL]]; }

  /** What a node reads that no line shows. */
  namedText(node) {
    const sources = [...new Set(node.named.map(edge => this.edges[edge]?.[0] ?? -1))];
    const first = sources[0] < 0 ? "" : nameOf(this.tree.tasks[sources[0]]);
    return `◂ ${first}${sources.length > 1 ? ` +${sources.length - 1}` : ""}`;
  }

  /** Collect boxes and lines, from the outermost group on. */
  walk(group, x, y) {
    if (group.parent) this.boxes.push({ node: group, x, y, w: group.w, h: group.h });
    for (const line of this.inside(group).lines) this.drawLine(line, x, y);
    for (const child of group.children) {
      if (child.open) this.walk(child, x + child.x, y + child.y);
      else this.boxes.push(
        { node: child, x: x + child.x, y: y + child.y, w: child.w, h: child.h });
    }
  }

  drawLine({ a, b, edges, points }, x, y) {
    const whole = points.map(([px, py]) => [px + x, py + y]);
    const isEnd = node => node instanceof Fold && !(node.open && node.isGroup);
    this.lines.push({ points: whole, hasArrow: isEnd(b), edges });
    const bySource = new Map();
    for (const edge of edges) {
      const source = this.edges[edge]?.[0];
      bySource.get(source)?.push(edge) ?? bySource.set(source, [edge]);
    }
    const port = (node, side, source) => {
      const inside = this.inside(node);
      const [px, py] = inside.ports[side].get(inside.port(side, source));
      return [x + node.x + px, y + node.y + py];
    };
    const isOpen = node => node instanceof Fold && !isEnd(node);
    const seen = new Map();
    for (const [source, own] of bySource) {   // on to the ports inside of open groups
      if (isOpen(a)) this.toPort([port(a, "out", source), whole[0]], own, seen);
      if (isOpen(b)) this.toPort([whole.at(-1), port(b, "in", source)], own, seen);
    }
  }

  toPort(points, edges, seen) {
    const key = points.join(), known = seen.get(key);
    if (known) { known.edges.push(...edges); return; }
    const line = { points, hasArrow: false, edges: [...edges] };
    seen.set(key, line);
    this.lines.push(line);
  }
}

/** The least and greatest x and y of boxes and lines. */
function extentOf(at, sizes, lines) {
  const found = [Infinity, Infinity, -Infinity, -Infinity];
  const see = (x, y) => {
    found[0] = Math.min(found[0], x); found[1] = Math.min(found[1], y);
    found[2] = Math.max(found[2], x); found[3] = Math.max(found[3], y);
  };
  at.forEach(([x, y], i) => {
    const [w, h] = sizes[i];
    see(x - w / 2, y - h / 2);
    see(x + w / 2, y + h / 2);
  });
  for (const line of lines) for (const [x, y] of line) see(x, y);
  return at.length ? found : [0, 0, 0, 0];
}

// The engine: it takes commands, and gives pictures --------------------------------

class Engine {
  constructor(graph) {
    this.graph = graph;
    this.pieces = new Pieces();
  }

  /** Do a command, and give the picture, or null if nothing has changed. */
  do({ what, by, purposes, group, task, open }) {
    if (what === "show") this.show(by, purposes);
    else if (what === "all") this.tree.setAll(open);
    else if (what === "stages") this.tree.toggleStages(task);
    else if (what === "reveal") { if (!this.tree.reveal(task)) return null; }
    else this.tree.groups[group].open = !this.tree.groups[group].open;
    return packed(new Layout(this.tree, this.edges, this.pieces), this);
  }

  show(by, purposes) {
    const { tasks, edges } = this.graph;
    const wanted = new Set(purposes);
    this.numbers = [...edges.keys()].filter(
      i => wanted.has(edges[i][3]) && edges[i][0] !== edges[i][1]);
    this.edges = this.numbers.map(i => edges[i]);
    this.tree = new Tree(tasks, this.edges, by);
  }
}

/** Lists of numbers as one array, and where each begins. */
function rowsOf(lists) {
  const starts = new Int32Array(lists.length + 1);
  lists.forEach((each, i) => { starts[i + 1] = starts[i] + each.length; });
  const items = new Int32Array(starts[lists.length]);
  lists.forEach((each, i) => items.set(each, starts[i]));
  return { starts, items };
}

/** A picture in arrays, which go from a worker to the page without being copied. */
function packed(layout, { tree, numbers, pieces }) {
  const { boxes, lines } = layout, { root } = tree;
  const places = new Float64Array(boxes.length * 4), nodes = new Int32Array(boxes.length);
  const stages = new Int32Array(boxes.length).fill(-1), isOpen = new Uint8Array(boxes.length);
  boxes.forEach(({ node, x, y, w, h }, i) => {
    places.set([x, y, w, h], 4 * i);
    nodes[i] = node.stage >= 0 ? node.parent.id : node.isGroup ? -1 - node.index : node.id;
    stages[i] = node.stage;
    isOpen[i] = node.open ? 1 : 0;
  });
  const bands = Math.floor(root.h / BAND) + 1;
  const span = (low, high, list, i) => {
    const end = Math.min(bands - 1, Math.floor(high / BAND));
    for (let b = Math.max(0, Math.floor(low / BAND)); b <= end; b++) list[b].push(i);
  };
  const boxBands = Array.from({ length: bands }, () => []);
  const lineBands = Array.from({ length: bands }, () => []);
  boxes.forEach(({ y, h }, i) => span(y, y + h, boxBands, i));
  lines.forEach(({ points }, i) => {
    let low = Infinity, high = -Infinity;
    for (const [, y] of points) { low = Math.min(low, y); high = Math.max(high, y); }
    span(low, high, lineBands, i);
  });
  const lineStarts = new Int32Array(lines.length + 1);
  lines.forEach((line, i) => {
    lineStarts[i + 1] = lineStarts[i] + 2 * line.points.length;
  });
  const linePoints = new Float64Array(lineStarts[lines.length]);
  lines.forEach((line, i) => linePoints.set(line.points.flat(), lineStarts[i]));
  const parents = new Int32Array(tree.nodes.length);
  tree.nodes.forEach((node, i) => { parents[i] = node.parent.index; });
  return {
    w: root.w, h: root.h,
    places, nodes, stages, isOpen,
    named: boxes.map(({ node }) => (node.named ? layout.namedText(node) : null)),
    namedEdges: rowsOf(boxes.map(
      ({ node }) => (node.named ?? []).map(edge => numbers[edge]))),
    lineStarts, linePoints,
    hasArrow: Uint8Array.from(lines, line => (line.hasArrow ? 1 : 0)),
    lineEdges: rowsOf(lines.map(
      line => line.edges.map(edge => (edge < 0 ? -1 : numbers[edge])))),
    boxBands: rowsOf(boxBands), lineBands: rowsOf(lineBands),
    parents,
    groups: tree.groups.map(({ label, parent, count, open }) => (
      { label, parent: parent?.index ?? -1, count, open })),
    asked: { calls: pieces.calls, pieces: pieces.pieces, largest: pieces.largest },
  };
}

// In a worker, so that the page can be moved meanwhile -----------------------------

/** Answer messages of [number, command] by [number, picture]; the first has the graph. */
function serveLayouts(scope) {
  let engine = null;
  scope.onmessage = ({ data: [number, command] }) => {
    if (!engine) { engine = new Engine(command); return; }
    const picture = engine.do(command);
    const buffers = picture ? Object.values(picture).flatMap(value => [
      value?.buffer, value?.starts?.buffer, value?.items?.buffer,
    ]).filter(Boolean) : [];
    scope.postMessage([number, picture], buffers);
  };
}
