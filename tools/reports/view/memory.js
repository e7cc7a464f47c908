// Memory ---------------------------------------------------------------------------

function registerFacts(register) {
  return [["bytes", bytes(register.bytes)], ["made by", register.producer],
    ["alive", lifeOf(register)]];
}

function chooseIn(picture, index) {
  const { name } = picture.block.registers[index];
  if (registerOf.has(name)) chooseRegister(registerOf.get(name));
  else if (variableOf.has(name)) chooseVariable(variableOf.get(name));
  else if (picture.plan.body) chooseTask(taskOf.get(picture.plan.body.task), true);
}

const pictures = picturesOf([memory, ...memory.bodies], {}, {
  facts: registerFacts, choose: chooseIn, unchoose,
});

/** The register or the variable that a rectangle is of. */
const nameOfRect = new Map(pictures.flatMap(({ rects, block }) =>
  [...rects].map(([index, rect]) => [rect, block.registers[index].name])));
const rectName = rect => nameOfRect.get(rect);
const rectsOfName = new Map();
for (const [rect, name] of nameOfRect)
  rectsOfName.get(name)?.push(rect) ?? rectsOfName.set(name, [rect]);
const lit = {};

/** Give a class to the rectangles of these names, and to no others. */
function light(className, names) {
  for (const rect of lit[className] ?? []) rect.classList.remove(className);
  lit[className] = [...new Set(names)].flatMap(name => rectsOfName.get(name) ?? []);
  for (const rect of lit[className]) rect.classList.add(className);
}
