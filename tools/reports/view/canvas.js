// Canvases -------------------------------------------------------------------------

let colours = {};
function readColours() {
  for (const name of ["plot", "text", "soft", "line", "mark", "label", "other"])
    colours[name] = colourOf(`--${name}`);
}
const opColour = kind => palette[kind] || colours.other;

class View {
  constructor(id) {
    this.canvas = find(`#${id} canvas`);
    this.context = this.canvas.getContext("2d");
    this.scale = 1; this.x = 0; this.y = 0; this.waiting = 0; this.isFitted = false;
    const canvas = this.canvas;
    let drag = null;
    const fingers = new Map();
    const lift = event => fingers.delete(event.pointerId);
    canvas.addEventListener("pointercancel", event => { lift(event); drag = null; });
    canvas.addEventListener("pointerdown", event => {
      fingers.set(event.pointerId, this.at(event));
      // A view may select by a drag, instead of being moved by it.
      const from = this.selects?.(event) ? this.at(event)[0] : null;
      drag = { x: event.clientX, y: event.clientY, moved: false, from };
      if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (!drag) { this.hover(event); return; }
      if (fingers.size === 2 && fingers.has(event.pointerId)) {
        this.pinch(fingers, event);
        drag.moved = true;
        return;
      }
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      drag.moved = true;
      if (drag.from !== null) { this.select(drag.from, this.at(event)[0]); return; }
      drag.x = event.clientX; drag.y = event.clientY;
      canvas.classList.add("dragging");
      this.x += dx; this.y += dy;
      this.draw();
    });
    canvas.addEventListener("pointerup", event => {
      lift(event);
      canvas.classList.remove("dragging");
      if (drag && !drag.moved) this.click(...this.at(event));
      else if (drag && drag.from !== null) this.showSums();
      drag = null;
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const [x, y] = this.at(event);
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), x, y);
    }, { passive: false });
    canvas.addEventListener("keydown", event => {
      if (this.key?.(event)) { event.preventDefault(); return; }
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
  /** Zoom as two fingers move apart or together. */
  pinch(fingers, event) {
    const distance = () => {
      const [[ax, ay], [bx, by]] = fingers.values();
      return Math.max(1, Math.hypot(ax - bx, ay - by));
    };
    const before = distance();
    fingers.set(event.pointerId, this.at(event));
    const [[ax, ay], [bx, by]] = fingers.values();
    this.zoom(distance() / before, (ax + bx) / 2, (ay + by) / 2);
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
    const w = Math.round(width * ratio), h = Math.round(height * ratio);
    // A new size gives the canvas new memory, which takes longer than most pictures.
    if (canvas.width !== w || canvas.height !== h || !context.reset)
      [canvas.width, canvas.height] = [w, h];
    else context.reset();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.isFitted) { this.begin(); this.isFitted = true; }
    this.paint(context, width, height);
  }
}
