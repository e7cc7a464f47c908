// Facts that all views ask for.
const { graph, memory, trace, palette } = data;
const { tasks, registers, variables, edges } = graph;
const search = find("#search");

// What is known of tasks and registers ---------------------------------------------

const makers = registers.map(() => []), readers = registers.map(() => []);
tasks.forEach((task, i) => {
  for (const r of task.writes) makers[r].push(i);
  for (const r of task.reads) readers[r].push(i);
});
const users = variables.map(() => []);
tasks.forEach((task, i) => { for (const v of task.variables) users[v].push(i); });
const registerOf = new Map(registers.map((r, i) => [r.name, i]));
const taskOf = new Map(tasks.map((task, i) => [task.name, i]));
const variableOf = new Map(variables.map((v, i) => [v.name, i]));
const times = tasks.map(() => ({ count: 0, total: 0, least: Infinity, most: 0 }));
const waits = tasks.map(() => new Map());
for (const track of trace ? trace.tracks : []) {
  for (const [, , duration, category, task, facts] of track.slices) {
    if (task < 0) continue;
    const kind = trace.categories[category];
    if (kind === "idle") {
      const key = `${facts.missing} of ${facts.register}`;
      waits[task].set(key, (waits[task].get(key) || 0) + duration);
    } else if (kind !== "op") {
      const known = times[task];
      known.count++;
      known.total += duration;
      known.least = Math.min(known.least, duration);
      known.most = Math.max(known.most, duration);
    }
  }
}
