// The groups that a graph of tasks folds into: a tree, whose groups are convex.
//
// A graph has `tasks` of a `title`, `sub`, `foot`, `type`, `scope`, `stream`, `device`
// and perhaps `stages`, and `edges` of [from, to, register, purpose].
"use strict";

const FIRST_BOXES = 120, REPEATS = 4, SHORTEST_RUN = 4, LARGEST = 300, BUNDLE = 60;

/** A place in the tree: a task has an `id`, a stage of it a `stage`, a group neither. */
class Fold {
  constructor(label, parent, first) {
    Object.assign(this, { label, parent, first });
    this.children = null;
    this.open = false;
    this.id = -1; this.stage = -1;
    this.count = 1;             // tasks
    this.named = null;          // edges that are not drawn, but told by a name
    this.x = this.y = this.w = this.h = 0;
  }
  get isGroup() { return this.id < 0 && this.stage < 0; }
}

/** A heap of numbers, the least first. */
class Heap {
  constructor() { this.items = []; }
  push(value) {
    const { items } = this;
    let at = items.length;
    for (; at > 0; at = (at - 1) >> 1) {
      const up = items[(at - 1) >> 1];
      if (up <= value) break;
      items[at] = up;
    }
    items[at] = value;
  }
  pop() {
    const { items } = this, least = items[0], value = items.pop(), { length } = items;
    if (!length) return least;
    let at = 0;
    for (let next; (next = 2 * at + 1) < length; at = next) {
      if (next + 1 < length && items[next + 1] < items[next]) next++;
      if (items[next] >= value) break;
      items[at] = items[next];
    }
    items[at] = value;
    return least;
  }
}

/** Numbers so that each comes after those it needs, else in order; cycles are cut. */
function topological(count, pairs) {
  const after = Array.from({ length: count }, () => []), missing = new Int32Array(count);
  for (const [a, b] of pairs) { after[a].push(b); missing[b]++; }
  const ready = new Heap(), order = [], isDone = new Uint8Array(count);
  for (let i = 0; i < count; i++) if (!missing[i]) ready.push(i);
  for (let cut = 0; order.length < count;) {
    if (!ready.items.length) {
      while (isDone[cut]) cut++;
      ready.push(cut);
    }
    const node = ready.pop();
    if (isDone[node]) continue;
    isDone[node] = 1;
    order.push(node);
    for (const next of after[node]) if (!--missing[next] && !isDone[next]) ready.push(next);
  }
  return order;
}

/** The number of the strongly connected component of each node (Tarjan's, by a stack). */
function componentsOf(count, pairs) {
  const after = Array.from({ length: count }, () => []);
  for (const [a, b] of pairs) after[a].push(b);
  const found = new Int32Array(count).fill(-1), low = new Int32Array(count);
  const index = new Int32Array(count).fill(-1), next = new Int32Array(count);
  const open = [], isOpen = new Uint8Array(count);
  let counter = 0, components = 0;
  for (let root = 0; root < count; root++) {
    if (index[root] >= 0) continue;
    const path = [root];
    while (path.length) {
      const node = path.at(-1);
      if (index[node] < 0) {
        index[node] = low[node] = counter++;
        open.push(node);
        isOpen[node] = 1;
      }
      const child = after[node][next[node]++];
      if (child !== undefined) {
        if (index[child] < 0) path.push(child);
        else if (isOpen[child]) low[node] = Math.min(low[node], index[child]);
        continue;
      }
      path.pop();
      if (path.length) low[path.at(-1)] = Math.min(low[path.at(-1)], low[node]);
      if (low[node] < index[node]) continue;
      for (let member = -1; member !== node;) {
        member = open.pop();
        isOpen[member] = 0;
        found[member] = components;
      }
      components++;
    }
  }
  return found;
}

/** Which numbers in a line no edge leads over: 1 for those. */
function cutsOf(count, pairs) {
  const over = new Int32Array(count + 1);
  for (const [a, b] of pairs) {
    const low = Math.min(a, b), high = Math.max(a, b);
    if (high - low > 1) { over[low + 1]++; over[high]--; }
  }
  for (let i = 1; i <= count; i++) over[i] += over[i - 1];
  return over.subarray(0, count).map(number => (number ? 0 : 1));
}

// The groups that each task lies in, from the outermost on -------------------------

const nameOf = task => task.sub || task.title;
const spanOf = (tasks, run) => `${nameOf(tasks[run[0]])} … ${nameOf(tasks[run.at(-1)])}`;

/** Runs of tasks up to the next one that every path passes. */
function blockPaths(tasks, pairs) {
  const order = topological(tasks.length, pairs), place = new Int32Array(order.length);
  order.forEach((task, i) => { place[task] = i; });
  const cuts = cutsOf(order.length, pairs.map(([a, b]) => [place[a], place[b]]));
  const paths = tasks.map(() => []);
  for (let start = 0, end; start < order.length; start = end) {
    for (end = start + 1; end < order.length && !cuts[end - 1]; end++);
    const run = order.slice(start, end);
    if (run.length < SHORTEST_RUN) continue;
    for (const task of run) paths[task] = [spanOf(tasks, run)];
  }
  return paths;
}

/** Runs of tasks each of which is the only reader of the one before, and reads no other. */
function chainPaths(tasks, pairs) {
  const readers = tasks.map(() => new Set()), makers = tasks.map(() => new Set());
  for (const [a, b] of pairs) { readers[a].add(b); makers[b].add(a); }
  const next = readers.map(set => {
    const [only] = set;
    return set.size === 1 && makers[only].size === 1 ? only : -1;
  });
  const isInner = new Uint8Array(tasks.length);
  for (const task of next) if (task >= 0) isInner[task] = 1;
  const paths = tasks.map(() => []);
  tasks.forEach((_, first) => {
    if (isInner[first]) return;
    const run = [];
    for (let task = first; task >= 0; task = next[task]) run.push(task);
    if (run.length < SHORTEST_RUN) return;
    for (const task of run) paths[task] = [spanOf(tasks, run)];
  });
  return paths;
}

const PATHS = {
  scope: (tasks, pairs) => (tasks.some(task => task.scope.length)
    ? tasks.map(task => task.scope) : blockPaths(tasks, pairs)),
  block: blockPaths,
  chain: chainPaths,
  stream: tasks => tasks.map(task => [`stream ${task.stream}`]),
  device: tasks => tasks.map(task => [task.device]),
  none: tasks => tasks.map(() => []),
};

// The tree -------------------------------------------------------------------------

class Tree {
  /** The tree of tasks by a way to group them; edges are those that are drawn. */
  constructor(tasks, edges, by) {
    this.tasks = tasks;
    this.paths = PATHS[by](tasks, edges);
    const order = topological(tasks.length, edges);
    this.place = new Int32Array(order.length);
    order.forEach((task, i) => { this.place[task] = i; });
    this.nodes = tasks.map((task, id) => {
      const node = new Fold(task.title, null, this.place[id]);
      node.id = id;
      return node;
    });
    this.root = new Fold("", null, 0);
    this.root.children = this.childrenOf(order, edges, 0);
    this.simplify(this.root);
    this.root.open = true;
    this.groups = [];
    this.number(this.root);
    this.openFirst();
  }

  /** The children of a group of tasks, with all below: tasks, and groups of depth + 1. */
  childrenOf(tasks, edges, depth) {
    const { paths } = this, parts = [], partOf = new Map(), byName = new Map();
    for (const task of tasks) {
      const name = paths[task][depth];
      let part = name === undefined ? undefined : byName.get(name);
      if (part === undefined) {
        part = parts.push({ name, tasks: [] }) - 1;
        if (name !== undefined) byName.set(name, part);
      }
      parts[part].tasks.push(task);
      partOf.set(task, part);
    }
    this.split(parts, partOf, edges);
    const inner = parts.map(() => []), links = [];
    for (const edge of edges) {
      const a = partOf.get(edge[0]), b = partOf.get(edge[1]);
      if (a === b) inner[a].push(edge); else links.push([a, b]);
    }
    const made = topological(parts.length, links).map(part => {
      const { name, tasks: own } = parts[part];
      if (name === undefined) return this.nodes[own[0]];
      const group = new Fold(name, null, this.place[own[0]]);
      group.children = this.childrenOf(own, inner[part], depth + 1);
      return group;
    });
    return this.bundled(made, links, topological(parts.length, links));
  }

  /**
   * Split groups that lie on a cycle of groups, as forward and backward of a layer do: by
   * how often paths within the cycle change between groups, which only grows on a path.
   */
  split(parts, partOf, edges) {
    const links = edges.map(([a, b]) => [partOf.get(a), partOf.get(b)])
      .filter(([a, b]) => a !== b);
    const component = componentsOf(parts.length, links), sizes = new Map();
    for (const c of component) sizes.set(c, (sizes.get(c) ?? 0) + 1);
    if (sizes.size === parts.length) return;
    const isCyclic = task => sizes.get(component[partOf.get(task)]) > 1;
    const level = new Map(), within = edges.filter(([a, b]) => isCyclic(a)
      && component[partOf.get(a)] === component[partOf.get(b)]);
    const readers = new Map();
    for (const [a, b] of within) readers.get(a)?.push(b) ?? readers.set(a, [b]);
    const cyclic = [...partOf.keys()].filter(isCyclic)
      .sort((a, b) => this.place[a] - this.place[b]);
    for (const task of cyclic) {
      const at = level.get(task) ?? 0;
      level.set(task, at);
      for (const reader of readers.get(task) ?? []) {
        const changes = partOf.get(reader) === partOf.get(task) ? 0 : 1;
        level.set(reader, Math.max(level.get(reader) ?? 0, at + changes));
      }
    }
    const made = new Map();
    for (const task of cyclic) {
      const old = partOf.get(task);
      if (parts[old].name === undefined) continue;
      const key = `${old} ${level.get(task)}`;
      if (!made.has(key)) {
        const before = [...made.keys()].filter(k => k.startsWith(`${old} `)).length;
        made.set(key, before ? parts.length : old);
        const { name } = parts[old];
        if (before) parts.push({ name: `${name} (${before + 1})`, tasks: [] });
        else parts[old].tasks = [];
      }
      const part = made.get(key);
      parts[part].tasks.push(task);
      partOf.set(task, part);
    }
  }

  /** Runs of children in groups, where dagre would be given too many at once. */
  bundled(children, links, order) {
    if (children.length <= LARGEST) return children;
    const place = new Int32Array(order.length);
    order.forEach((part, i) => { place[part] = i; });
    const cuts = cutsOf(order.length, links.map(([a, b]) => [place[a], place[b]]));
    let longest = 0;
    for (let i = 0, run = 0; i < cuts.length; i++) {
      run = cuts[i] ? 0 : run + 1;
      longest = Math.max(longest, run);
    }
    if (longest <= LARGEST) return children;
    const size = Math.max(BUNDLE, Math.ceil(children.length / LARGEST));
    const bundles = [];
    for (let i = 0; i < children.length; i += size) {
      const run = children.slice(i, i + size);
      bundles.push(this.groupOf(run, `${labelOf(this, run[0])} … ${labelOf(this, run.at(-1))}`));
    }
    return bundles;
  }

  groupOf(children, label) {
    const group = new Fold(label, null, children[0].first);
    group.children = children;
    return group;
  }

  /** No group of one; at least some equal groups in a row are one group. */
  simplify(node) {
    for (const child of node.children) if (child.children) this.simplify(child);
    const children = node.children.map(
      child => (child.children?.length === 1 ? child.children[0] : child));
    node.children = [];
    for (let i = 0, j; i < children.length; i = j) {
      for (j = i + 1; children[i].children && j < children.length
        && this.shapeOf(children[j]) === this.shapeOf(children[i]); j++);
      const run = children.slice(i, j);
      if (run.length < REPEATS || run.length === children.length) {
        node.children.push(...run);
        continue;
      }
      node.children.push(this.groupOf(run, `${run[0].label} … ${run.at(-1).label}`));
      this.adopt(node.children.at(-1));
    }
    this.adopt(node);
  }

  adopt(node) {
    node.count = 0;
    for (const child of node.children) {
      child.parent = node;
      node.count += child.count;
    }
  }

  shapeOf(node) {
    node.shape ??= node.children
      ? `(${node.children.map(child => this.shapeOf(child)).join()})` : node.label;
    return node.shape;
  }

  number(group) {
    group.index = this.groups.push(group) - 1;
    for (const child of group.children) if (child.children) this.number(child);
  }

  /** Open the outer groups while few boxes are seen. */
  openFirst() {
    let seen = this.root.children.length;
    for (const queue = [...this.root.children]; queue.length;) {
      const node = queue.shift();
      if (!node.children || seen + node.children.length - 1 > FIRST_BOXES) continue;
      node.open = true;
      seen += node.children.length - 1;
      queue.push(...node.children);
    }
  }

  setAll(open) {
    for (const group of this.groups) if (group !== this.root) group.open = open;
    if (!open) for (const node of this.nodes) node.open = false;
  }

  /** Open all groups that a task lies in; tell whether one was closed. */
  reveal(id) {
    let isNew = false;
    for (let at = this.nodes[id].parent; at; at = at.parent) {
      isNew ||= !at.open;
      at.open = true;
    }
    return isNew;
  }

  /** Show or hide the stages of a task. */
  toggleStages(id) {
    const node = this.nodes[id];
    node.open = !node.open;
    node.children ??= (this.tasks[id].stages?.boxes ?? []).map((stage, i) => {
      const child = new Fold(stage.title, node, i);
      child.stage = i;
      return child;
    });
  }
}

const labelOf = (tree, node) => (node.id < 0 ? node.label : nameOf(tree.tasks[node.id]));
