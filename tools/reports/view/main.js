// Search and tabs ------------------------------------------------------------------

function matching(text) {
  return [...tasks.keys()].filter(i => {
    const { name, kind, ops, nodes } = tasks[i];
    return [name, kind, ...nodes, ...ops.map(op => op.name)]
      .some(word => word.toLowerCase().includes(text));
  });
}

function showFound(found, text) {
  matches = new Set(found);
  if (text) {
    chosen = null;
    const shown = found.slice(0, 300).map(taskLink);
    showSide(element("h2", `${found.length} tasks`), ...links("", shown));
    light("match", found.flatMap(i => [...tasks[i].reads, ...tasks[i].writes])
      .map(r => registers[r].name));
    mark();
  } else unchoose();
}
serveSearch(matching, showFound, i => chooseTask(i, true));
addEventListener("keydown", event => { if (event.key === "Escape") unchoose(); });

function open(name) {
  for (const button of all("[role=tab]"))
    button.setAttribute("aria-selected", String(button.dataset.view === name));
  for (const view of all(".view")) view.hidden = view.id !== name;
  find("#graph-options").hidden = name !== "graph";
  find("#line-options").hidden = name !== "line";
  if (find("#ranks")) find("#ranks").hidden = name === "graph";
  showLegend(name === "graph" ? graphView.colour : "kind");
  redraw();
}
for (const button of all("[role=tab]"))
  button.onclick = () => open(button.dataset.view);

function redraw() {
  readColours();
  graphView.draw();
  lineView.draw();
}
readColours();
const graphView = new GraphView(), lineView = new LineView();
new ResizeObserver(redraw).observe(find("#views"));
onLook(redraw);
serveRanks(rank => lineView.showRank(rank));
unchoose();
open(data.first);
