// What the layout needs of a program: texts, groups, edges, and stages of kernels.
"use strict";

const SHORT_TYPES = {
  bfloat16: "bf16", bool: "i1", float16: "f16", float32: "f32", float64: "f64",
  int16: "i16", int32: "i32", int64: "i64", int8: "i8",
  uint16: "u16", uint32: "u32", uint64: "u64", uint8: "u8",
};
const LONGEST = 28;

/** A type as IR has it: "1x64x56x56 f32". */
const shortType = text => text.replace(/\w+$/, name => SHORT_TYPES[name] ?? name);

const shortened = text => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** The ops of a task without their dialect, those of a group by their own names. */
function titleOf(task) {
  const names = new Set(task.ops.map(({ op, holds }) => holds?.join(" + ") ?? op));
  return shortened(([...names].join(", ") || task.kind).replaceAll("op.", ""));
}

/** The name of a task in its scope: the end of its node's name where it has a scope. */
function subOf(task) {
  const last = task.nodes.at(-1);
  return shortened(task.scope.length && last ? last.split("/").at(-1) : task.name);
}

/** The stages of the kernel of a task, or steps of its bodies, and links from one that writes to one that reads. */
function stagesOf({ buffers, stages }) {
  const writer = new Map(), links = [];
  const boxes = stages.map(([name, reads, writes], i) => {
    const from = new Set(reads.map(b => writer.get(b)).filter(w => w !== undefined));
    for (const stage of from) links.push([stage, i]);
    for (const b of writes) writer.set(b, i);
    const own = writes.find(b => buffers[b][3]), shown = own ?? writes[0];
    const text = shown === undefined ? "" : buffers[shown][1];
    return { title: name, sub: own === undefined ? text : `${text}, own memory` };
  });
  return { boxes, links };
}

/** The graph that an engine lays out. */
function graphOf({ tasks, registers, edges, regions }) {
  const read = new Set(edges.filter(([, , , purpose]) => !purpose).map(([, , r]) => r));
  const stages = regions.map(([buffers, all]) => stagesOf({ buffers, stages: all }));
  return {
    edges,
    tasks: tasks.map(task => ({
      title: titleOf(task),
      sub: subOf(task),
      type: shortened([...new Set(task.writes.filter(r => read.has(r))
        .map(r => shortType(registers[r].type ?? "")))].join(", ")),
      scope: task.scope,
      stream: task.stream,
      device: task.device,
      stages: task.regions.length === 1 ? stages[task.regions[0]] : null,
    })),
  };
}
