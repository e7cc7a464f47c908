// Pictures of memory that zoom down to the smallest register.

const NAME_WIDTH = 38, NAME_HEIGHT = 15;  // pixels of a rectangle that shows its name
const THIN = 3;                           // pixels below which a border would hide all
const X_TICKS = 12, Y_TICKS = 6;

/** The distance of numbers on an axis of steps: 1, 2 or 5 of some power. */
function stepDistance(steps) {
  const rough = Math.max(1, steps / X_TICKS), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= rough - 1e-9);
}

/** The distance of numbers on an axis of bytes: a power of two. */
const byteDistance = size => 2 ** Math.max(0, Math.ceil(Math.log2(size / Y_TICKS)));

const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

/**
 * The picture of a block. `layouts` are those of other planners: a name, a size, and an
 * offset for each register. `act` has `facts(register)` for the tip, `choose(picture,
 * index)` and `unchoose()`.
 */
class MemoryPicture {
  constructor(figure, plan, block, layouts, act) {
    Object.assign(this, { figure, plan, block, layouts, act });
    this.svg = find(".plot svg", figure);
    this.plot = find(".plot", figure);
    this.rects = new Map(all("rect", this.svg).map(r => [Number(r.dataset.i), r]));
    const { x, y, width, height } = this.svg.viewBox.baseVal;
    this.whole = { x, y, width, height };
    this.view = { ...this.whole };
    // Attributes of thousands of rectangles are too slow to be read for each frame.
    this.boxes = new Map([...this.rects].map(([index, rect]) => [index, {
      x: rect.x.baseVal.value, y: rect.y.baseVal.value,
      width: rect.width.baseVal.value, height: rect.height.baseVal.value,
      colour: rect.classList[0], thin: false,
    }]));
    this.high = y + height;               // units of all bytes of the block
    this.steps = Math.max(1, plan.steps.length);
    this.size = Math.max(1, block.size);
    this.hatch();
    this.addLines();
    this.addButtons();
    this.listen();
  }

  // Places: units of the picture, bytes, pixels.

  byteAt(y) { return (1 - y / this.high) * this.size; }
  unitOf(byte) { return this.high * (1 - byte / this.size); }
  scale() {
    return [this.svg.clientWidth / this.view.width,
      this.svg.clientHeight / this.view.height];
  }
  boxOf(index) { return this.boxes.get(index); }

  // Zoom.

  get isZoomed() { return this.view.width < this.whole.width * 0.999 ||
    this.view.height < this.whole.height * 0.999; }

  look(view) {
    const { whole } = this;
    const width = clamp(view.width, whole.width / this.steps / 2, whole.width);
    const height = clamp(
      view.height, Math.min(whole.height, this.high * 8 / this.size), whole.height);
    this.view = {
      width, height,
      x: clamp(view.x, whole.x, whole.x + whole.width - width),
      y: clamp(view.y, whole.y, whole.y + whole.height - height),
    };
    this.draw();
  }
  /** Zoom around a point, given in parts of the width and the height. */
  zoom(factor, across = 0.5, down = 0.5) {
    const { x, y, width, height } = this.view;
    const next = { width: width / factor, height: height / factor };
    this.look({ ...next, x: x + (width - next.width) * across,
      y: y + (height - next.height) * down });
  }
  move(across, down) {
    const { x, y, width, height } = this.view;
    this.look({ width, height, x: x + width * across, y: y + height * down });
  }
  /** Zoom until a register can be seen and has room for its name. */
  reveal(index) {
    const box = this.boxOf(index), [wide, high] = this.scale();
    const inside = box.x >= this.view.x && box.y >= this.view.y &&
      box.x + box.width <= this.view.x + this.view.width + 1e-6 &&
      box.y + box.height <= this.view.y + this.view.height + 1e-6;
    if (inside && box.width * wide >= NAME_WIDTH && box.height * high >= NAME_HEIGHT)
      return;
    const width = box.width * wide >= NAME_WIDTH ? Math.max(this.view.width, box.width)
      : box.width * this.svg.clientWidth / (2 * NAME_WIDTH);
    const height = box.height * high >= NAME_HEIGHT
      ? Math.max(this.view.height, box.height)
      : box.height * this.svg.clientHeight / (2 * NAME_HEIGHT);
    this.look({ width, height, x: box.x + box.width / 2 - width / 2,
      y: box.y + box.height / 2 - height / 2 });
  }

  // Drawing.

  draw() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.drawNow());
  }
  drawNow() {
    const { x, y, width, height } = this.view;
    if (!this.svg.clientWidth) return;
    this.svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
    this.svg.classList.toggle("zoomed", this.isZoomed);
    const [wide, high] = this.scale();
    this.pattern.setAttribute("patternTransform", `scale(${1 / wide} ${1 / high})`);
    this.drawAxes();
    all(".label", this.plot).forEach(label => label.remove());
    this.plot.append(...this.names(wide, high), ...this.planners(high));
  }
  drawAxes() {
    const axis = (selector, entries) => find(selector, this.figure).replaceChildren(
      ...entries.map(([text, style]) => element("span", text, { style })));
    const least = this.byteAt(this.view.y + this.view.height);
    const most = this.byteAt(this.view.y), distance = byteDistance(most - least);
    const ys = [];
    for (let at = Math.ceil(least / distance - 1e-9) * distance; at <= most + 1e-6;
      at += distance)
      ys.push([bytes(at).replace(".0 ", " "),
        `bottom:${100 * (at - least) / (most - least)}%`]);
    axis(".y-axis", ys);
    const unit = this.whole.width / this.steps, xs = [];
    const first = this.view.x / unit, count = this.view.width / unit;
    const apart = stepDistance(count * 600 / Math.max(300, this.svg.clientWidth));
    for (let at = Math.ceil(first / apart - 1e-9) * apart;
      at < Math.min(this.steps, first + count - 1e-9); at += apart)
      xs.push([`${at}`, `left:${100 * (at - first) / count}%`]);
    axis(".x-axis", xs);
  }
  names(wide, high) {
    const labels = [], taken = new Set(), { x: left, y: top } = this.view;
    const right = left + this.view.width, bottom = top + this.view.height;
    for (const [index, box] of this.boxes) {
      const { x, y, width, height, colour } = box;
      const thin = width * wide < THIN || height * high < THIN;
      if (thin !== box.thin) {
        box.thin = thin;
        this.rects.get(index).classList.toggle("thin", thin);
      }
      const from = Math.max(x, left), below = Math.max(y, top);
      const room = (Math.min(x + width, right) - from) * wide;
      const tall = (Math.min(y + height, bottom) - below) * high;
      const register = this.block.registers[index];
      if (room < NAME_WIDTH || tall < NAME_HEIGHT || register.alias_of) continue;
      const key = `${x},${y}`;
      if (taken.has(key)) continue;
      taken.add(key);
      labels.push(element("div", register.name, {
        className: `label of-${colour}`,
        style: `left:${(from - left) * wide + 1}px;top:${(below - top) * high}px;` +
          `width:${room}px`,
      }));
    }
    return labels;
  }
  /** The names of planners at the lines of their sizes. */
  planners(high) {
    const { y, height } = this.view;
    return this.lines.filter(({ at }) => at >= y && at <= y + height).map(
      ({ at, names }) => element("div", names.join(", "), {
        className: "label planner-name", style: `top:${(at - y) * high}px`,
      }));
  }

  // Layouts of other planners.

  addLines() {
    const sizes = new Map();
    for (const { name, size } of this.layouts)
      sizes.set(size, [...(sizes.get(size) || []), name]);
    this.lines = [...sizes].filter(([size]) => size !== this.block.size).map(
      ([size, names]) => ({ at: this.unitOf(size), names }));
    for (const { at } of this.lines) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", "planner");
      path.setAttribute("d", `M0,${at}H${this.whole.width}`);
      this.svg.append(path);
    }
    const rows = all("tr[data-planner]", this.figure);
    for (const row of rows) {
      row.addEventListener("click", () => {
        for (const other of rows) other.classList.toggle("on", other === row);
        this.layOut(row.dataset.planner);
      });
    }
    rows[0]?.classList.add("on");
  }
  /** Show the layout of a planner by its number, or with "" that of the plan. */
  layOut(number) {
    const found = number === "" ? null : this.layouts[Number(number)];
    for (const [index, rect] of this.rects) {
      const { bytes: size, offset } = this.block.registers[index];
      const at = found ? found.offsets[index] : offset;
      const y = this.unitOf(at + size);
      this.boxOf(index).y = y;
      rect.setAttribute("y", y);
    }
    this.draw();
  }

  // Parts.

  hatch() {
    const name = `hatch-${this.figure.dataset.key.replaceAll(".", "-")}`;
    this.pattern = find("#hatch").cloneNode(true);
    this.pattern.id = name;
    find("#hatch").parentNode.append(this.pattern);
    this.figure.style.setProperty("--hatch", `url(#${name})`);
  }
  addButtons() {
    const tools = element("span", "", { className: "zoom" });
    for (const [text, label, act] of [
      ["+", "Zoom in", () => this.zoom(1.6)],
      ["\u2212", "Zoom out", () => this.zoom(1 / 1.6)],
      ["Fit", "Show all", () => this.look(this.whole)]]) {
      const button = element("button", text, { type: "button", onclick: act });
      button.setAttribute("aria-label", label);
      tools.append(button);
    }
    find("figcaption", this.figure).append(tools);
  }
  listen() {
    const { svg } = this;
    let drag = null, wasMoved = false;
    const part = event => {
      const box = svg.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width,
        (event.clientY - box.top) / box.height];
    };
    svg.addEventListener("pointerdown", event => {
      drag = [event.clientX, event.clientY];
      wasMoved = false;
    });
    svg.addEventListener("pointermove", event => {
      if (!drag || !this.isZoomed) { this.point(event, part(event)[0]); return; }
      const dx = event.clientX - drag[0], dy = event.clientY - drag[1];
      if (!wasMoved && Math.hypot(dx, dy) < 4) return;
      if (!wasMoved && event.isTrusted) svg.setPointerCapture(event.pointerId);
      wasMoved = true;
      drag = [event.clientX, event.clientY];
      hideTip();
      this.move(-dx / svg.clientWidth, -dy / svg.clientHeight);
    });
    for (const end of ["pointerup", "pointercancel"])
      svg.addEventListener(end, () => { drag = null; });
    svg.addEventListener("pointerleave", hideTip);
    svg.addEventListener("click", event => {
      if (wasMoved) return;
      const index = event.target.dataset.i;
      if (index === undefined) this.act.unchoose();
      else this.act.choose(this, Number(index));
    });
    svg.addEventListener("dblclick", event => {
      if (event.target.dataset.i !== undefined)
        this.reveal(Number(event.target.dataset.i));
      else this.zoom(2, ...part(event));
    });
    // Without a key the wheel scrolls the page; fingers that pinch come with Ctrl.
    svg.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.003)),
        ...part(event));
    }, { passive: false });
    svg.addEventListener("keydown", event => {
      const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0],
        ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
      if (moves[event.key] && this.isZoomed) this.move(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1.6);
      else if (event.key === "-") this.zoom(1 / 1.6);
      else if (event.key === "0") this.look(this.whole);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.draw()).observe(svg);
  }
  point(event, across) {
    const at = (this.view.x + this.view.width * across) / this.whole.width;
    const step = clamp(Math.floor(at * this.steps), 0, this.steps - 1);
    const nodes = [], index = event.target.dataset.i;
    if (index !== undefined) {
      const register = this.block.registers[Number(index)];
      nodes.push(element("b", register.name), list(this.act.facts(register)));
    }
    const task = this.plan.steps[step] ? `: ${this.plan.steps[step].task}` : "";
    const live = `${exactBytes(this.block.live[step])} alive`;
    showTip(event, [...nodes, list([[`step ${step}${task}`, live]])]);
  }
}

/** The pictures of a page, of plans and of layouts by the keys of blocks. */
function picturesOf(plans, layouts, act) {
  return all("figure.block").map(figure => {
    const key = figure.dataset.key, [p, z, c, b] = key.split(".").map(Number);
    const block = plans[p].zones[z].chunks[c].blocks[b];
    return new MemoryPicture(figure, plans[p], block, layouts[key] || [], act);
  });
}

/** The steps in which a register is alive, in words. */
const lifeOf = register => (register.always ? "always"
  : `steps ${register.first} to ${register.last}`);

/** Let buttons choose the rank that is shown, where there are several. */
function serveRanks(act = () => {}) {
  for (const button of all("#ranks button")) {
    button.onclick = () => {
      for (const other of all("#ranks button"))
        other.setAttribute("aria-pressed", String(other === button));
      const { rank } = button.dataset;
      for (const part of all("#views [data-rank]"))
        part.hidden = rank !== "" && part.dataset.rank !== rank;
      act(rank);
    };
  }
}
