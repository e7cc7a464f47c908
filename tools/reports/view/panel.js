// The panel ------------------------------------------------------------------------

// What is selected: a task, a register, a variable, or a group by number.
let chosen = null, matches = new Set();

const taskLink = i => [tasks[i].name, tasks[i].kind, () => chooseTask(i, true)];
const registerLink = i => [registers[i].name,
  registers[i].bytes === undefined ? "control" : bytes(registers[i].bytes),
  () => chooseRegister(i)];
const variableLink = i => [variables[i].name, bytes(variables[i].bytes),
  () => chooseVariable(i)];

function rates(op, i) {
  const { count, total } = times[i];
  if (!count || tasks[i].ops.length !== 1 || !total) return "";
  return [["flops", "GFLOP/s"], ["bytes", "GB/s"]]
    .filter(([key]) => op[key]).map(([key, unit]) =>
      `${(op[key] * count / total / 1000).toFixed(2)} ${unit}`).join(", ");
}

/** The stages of a kernel or the steps of bodies, and the memory that these have. */
function stageNodes([buffers, stages]) {
  const own = buffers.filter(([, , , isOwn]) => isOwn);
  return [element("h3", "stages"),
    list(stages.map(([name, , writes], i) => [
      `${i + 1}`, `${name}${writes.length ? ` → ${buffers[writes[0]][1]}` : ""}`])),
    ...(own.length ? [element("h3", "memory of its own"),
      list(own.map(([name, type, size]) => (name === "own memory"
        ? [type, bytes(size)] : [name, `${type}, ${bytes(size)}`])))] : [])];
}

function chooseTask(i, move) {
  chosen = { task: i };
  const task = tasks[i], known = times[i];
  const nodes = [element("h2", task.name), list([
    ["op", task.kind],
    ["on", `${task.device}, stream ${task.stream}`],
    [task.nodes.length > 1 ? "nodes" : "node", task.nodes.join(", ")],
    ["written at", task.place],
    ["calls", known.count || null],
    ["total", known.count ? time(known.total) : null],
    ["each", known.count ? `${time(known.total / known.count)} (${time(known.least)}` +
      ` to ${time(known.most)})` : null],
  ])];
  if (task.regions.length === 1) nodes.push(...stageNodes(graph.regions[task.regions[0]]));
  for (const op of task.ops) {
    nodes.push(element("h3", op.op === op.name ? op.op : `${op.op} ${op.name}`), list([
      ["ops", op.holds?.join(" + ").replaceAll("op.", "")],
      ["flops", op.flops === undefined ? null : op.flops.toLocaleString("en")],
      ["bytes", op.bytes === undefined ? null : bytes(op.bytes)],
      ["rate", rates(op, i)],
    ]));
  }
  nodes.push(
    ...links("reads", task.reads.map(registerLink)),
    ...links("variables", task.variables.map(variableLink)),
    ...links("writes", task.writes.map(registerLink)),
    ...links("waited for", [...waits[i]].sort((a, b) => b[1] - a[1]).slice(0, 10)
      .map(([what, total]) => [what, time(total), () => {}])));
  showSide(...nodes);
  if (move) { graphView.show(i); lineView.show(i); }
  mark();
}

/** Tell of a group: what its tasks take together, and each of them in a table. */
function chooseGroup(group) {
  chosen = { group };
  const { label } = graphView.picture.groups[group];
  const members = graphView.membersOf(group);
  const sum = list => members.reduce((total, i) => total + list[i], 0);
  const rows = members.slice(0, 200).map(i => {
    const button = element("button", tasks[i].name, { type: "button", className: "link" });
    button.onclick = () => chooseTask(i, true);
    return [button, tasks[i].kind, [trace ? time(taskTimes[i]) : "", taskTimes[i]],
      [bytes(taskBytes[i]), taskBytes[i]]];
  });
  showSide(element("h2", label), list([
    ["tasks", members.length],
    ["each run", trace ? time(sum(taskTimes)) : null],
    ["writes", bytes(sum(taskBytes))],
  ]), sortable(["task", "op", ["time", "number"], ["bytes", "number"]], rows));
  mark();
}

function place(thing) {
  return thing.bytes === undefined ? "none: it only says when" :
    `${thing.chunk}, from byte ${thing.offset.toLocaleString("en")}`;
}

function chooseRegister(i) {
  chosen = { register: i };
  const register = registers[i];
  showSide(element("h2", register.name), list([
    ["type", register.type],
    ["bytes", register.bytes === undefined ? null : exactBytes(register.bytes)],
    ["place", place(register)],
    ["slots", register.slots],
    ["full at the start", register.initial || null],
  ]), ...links("made by", makers[i].map(taskLink)),
    ...links("read by", readers[i].map(taskLink)));
  mark();
}

function chooseVariable(i) {
  chosen = { variable: i };
  const variable = variables[i];
  showSide(element("h2", variable.name), list([
    ["type", variable.type], ["bytes", bytes(variable.bytes)],
    ["place", place(variable)],
  ]), ...links("used by", users[i].map(taskLink)));
  mark();
}

function unchoose() {
  chosen = null;
  showSide(element("p", "Click a task, a register or a slice."));
  mark();
}

const namesWritten = task => tasks[task].writes.map(r => registers[r].name);

/** The names of the registers and variables that what is selected uses. */
function namesOfChosen() {
  if (!chosen) return [];
  if (chosen.register !== undefined) return [registers[chosen.register].name];
  if (chosen.variable !== undefined) return [variables[chosen.variable].name];
  if (chosen.task === undefined)
    return graphView.membersOf(chosen.group).flatMap(namesWritten);
  const { reads, writes, variables: used } = tasks[chosen.task];
  return [...[...reads, ...writes].map(r => registers[r].name),
    ...used.map(v => variables[v].name)];
}

function mark() {
  light("on", namesOfChosen());
  graphView.draw();
  lineView.draw();
}
