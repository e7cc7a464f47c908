// Memory ---------------------------------------------------------------------------

function blockOf(rect) {
  const [z, c, b] = rect.closest("figure").dataset.key.split(".").slice(1).map(Number);
  return memory.zones[z].chunks[c].blocks[b];
}
const rectName = rect => blockOf(rect).registers[Number(rect.dataset.i)].name;

function chooseNamed(name) {
  if (registerOf.has(name)) chooseRegister(registerOf.get(name));
  else if (variableOf.has(name)) chooseVariable(variableOf.get(name));
}

for (const svg of all("#memory .plot svg")) {
  svg.addEventListener("click", event => {
    if (event.target.dataset.i === undefined) unchoose();
    else chooseNamed(rectName(event.target));
  });
  svg.addEventListener("pointermove", event => {
    if (event.target.dataset.i === undefined) { hideTip(); return; }
    const register = blockOf(event.target).registers[Number(event.target.dataset.i)];
    showTip(event, [element("b", register.name), list([
      ["bytes", bytes(register.bytes)], ["made by", register.producer],
      ["alive", register.always ? "always" :
        `steps ${register.first} to ${register.last}`]])]);
  });
  svg.addEventListener("pointerleave", hideTip);
}
