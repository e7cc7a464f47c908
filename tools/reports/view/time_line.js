// The time line --------------------------------------------------------------------

const TRACK = 40, HEAD = 26, NAMES = 150;

class LineView extends View {
  constructor() {
    super("line");
    this.all = trace ? trace.tracks : [];
    const ends = this.all.flatMap(t => t.slices.slice(-400).map(s => s[1] + s[2]));
    this.end = ends.reduce((a, b) => Math.max(a, b), 0) || 1;
    this.range = null;  // the start and the end of the selected time
    this.isSelecting = false;
    this.showRank("");
    this.addOptions();
  }
  /** Show the tracks of a rank, or with "" all. */
  showRank(rank) {
    const ranks = track => new Set(track.rank !== null ? [String(track.rank)]
      : track.slices.filter(s => s[4] >= 0).map(s => String(tasks[s[4]].rank)));
    this.tracks = this.all.filter(track => {
      const found = ranks(track);
      return rank === "" || !found.size || found.has(rank);
    });
    this.longest = this.tracks.map(
      t => t.slices.reduce((most, s) => Math.max(most, s[2]), 0));
    this.draw();
  }
  addOptions() {
    if (!trace) return;
    const runs = this.runs();
    const label = element("label", "Run "), choice = document.createElement("select");
    choice.id = "run";
    choice.append(element("option", "all", { value: "" }), ...runs.map(
      ([from, to], i) => element("option", `${i} (${time(to - from)})`, { value: i })));
    choice.onchange = () => this.zoomTo(runs[choice.value]);
    label.append(choice);
    const select = element("button", "Select", { id: "select", type: "button" });
    select.title = "Drag to select a time; Shift and a drag do so at any time";
    select.setAttribute("aria-pressed", "false");
    select.onclick = () => {
      this.isSelecting = !this.isSelecting;
      select.setAttribute("aria-pressed", String(this.isSelecting));
    };
    const tools = document.createElement("nav");
    tools.append(select);
    find("#line-options").append(label, tools);
  }
  /** The start and the end of each run, of all ranks that it is of. */
  runs() {
    const found = new Map();
    for (const { slices } of this.all) {
      let number = 0;
      for (const [, start, duration, category] of slices) {
        if (trace.categories[category] !== "run") continue;
        const [from, to] = found.get(number) ?? [Infinity, -Infinity];
        found.set(number++, [Math.min(from, start), Math.max(to, start + duration)]);
      }
    }
    return [...found.values()];
  }
  /** Zoom to a run, or to all of them, and show its sums. */
  zoomTo(run) {
    this.fit();
    this.range = run ?? null;
    if (run) {
      const [from, to] = run;
      this.scale = (this.canvas.clientWidth - NAMES - 20) / Math.max(to - from, 1e-3);
      this.x = NAMES + 4 - from * this.scale;
    }
    this.showSums();
    this.draw();
  }
  selects(event) { return event.shiftKey || this.isSelecting; }
  select(from, to) {
    const moment = x => Math.max(0, (Math.max(x, NAMES) - this.x) / this.scale);
    this.range = [moment(from), moment(to)].sort((a, b) => a - b);
    this.draw();
  }
  /** The acts and the time of each task between two moments, and the idle time. */
  sums(from, to) {
    const found = new Map(), idle = { acts: 0, total: 0 };
    this.tracks.forEach((track, t) => {
      for (let s = this.from(t, from); s < track.slices.length; s++) {
        const [, start, duration, category, task] = track.slices[s];
        if (start > to) break;
        const part = Math.min(to, start + duration) - Math.max(from, start);
        const kind = trace.categories[category];
        if (part < 0 || (part === 0 && duration > 0)) continue;
        if (kind === "op" || kind === "run") continue;
        if (kind !== "idle" && !found.has(task)) found.set(task, { acts: 0, total: 0 });
        const sum = kind === "idle" ? idle : found.get(task);
        sum.acts++;
        sum.total += part;
      }
    });
    return { found, idle };
  }
  showSums() {
    const [from, to] = this.range || [0, this.end];
    const { found, idle } = this.sums(from, to);
    const busy = [...found.values()].reduce((sum, each) => sum + each.total, 0);
    const ranked = [...found].sort((a, b) => b[1].total - a[1].total);
    const table = sortable(
      ["task", ["acts", "number"], ["time", "number"], ["%", "number"]],
      ranked.map(([task, { acts, total }]) => {
        const link = element("button", task < 0 ? "other" : tasks[task].name);
        link.onclick = () => { if (task >= 0) chooseTask(task, true); };
        const share = busy ? 100 * total / busy : 0;
        return [link, [acts, acts], [time(total), total], [share.toFixed(1), share]];
      }));
    showSide(element("h2", this.range ? `${time(to - from)} selected` : "All runs"),
      list([["from", time(from)], ["to", time(to)], ["busy", time(busy)],
        ["idle", time(idle.total)],
        ["acts", [...found.values()].reduce((sum, each) => sum + each.acts, 0)]]),
      table);
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
    context.font = `12px ${FONT}`;
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
    if (this.range) {
      const [start, end] = this.range.map(moment => this.x + moment * this.scale);
      context.globalAlpha = 0.14;
      context.fillStyle = colours.mark;
      context.fillRect(start, HEAD, end - start, height);
      context.globalAlpha = 1;
    }
    context.fillStyle = colours.plot;
    context.fillRect(0, 0, NAMES, height);
    context.fillStyle = colours.text;
    this.tracks.forEach((track, t) => context.fillText(
      cut(track.name, 12, NAMES - 16), 10, HEAD + t * TRACK + this.y + TRACK / 2));
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
      context.fillText(cut(name, 12, wide - 6), x + 3, middle);
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
    if (!slice) { this.range = null; unchoose(); return; }
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
