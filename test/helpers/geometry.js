// What is wrong with a picture of a graph: boxes that overlap, lines that cross a box,
// and lines that cross each other.
"use strict";

function flawsOf(picture) {
  const { places, isOpen, lineStarts, linePoints } = picture, near = 0.01;
  const boxes = Array.from(isOpen, (open, i) => {
    const [x, y, w, h] = places.slice(4 * i, 4 * i + 4);
    return { open, left: x, top: y, right: x + w, low: y + h };
  });
  const segments = [];
  for (let line = 0; line < lineStarts.length - 1; line++)
    for (let i = lineStarts[line]; i + 2 < lineStarts[line + 1]; i += 2)
      segments.push({ line, from: [linePoints[i], linePoints[i + 1]],
        to: [linePoints[i + 2], linePoints[i + 3]] });
  const holds = (a, b) => a.left <= b.left + near && a.right >= b.right - near
    && a.top <= b.top + near && a.low >= b.low - near;
  const overlap = (a, b) => a.left < b.right - near && b.left < a.right - near
    && a.top < b.low - near && b.top < a.low - near;
  const found = { overlaps: 0, throughBoxes: 0, crossings: 0 };
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1))
      if (overlap(a, b) && !holds(a, b) && !holds(b, a)) found.overlaps++;
  });
  for (const { from, to } of segments)
    for (const box of boxes)
      if (enters(from, to, box) && !(box.open && isWithin(from, to, box)))
        found.throughBoxes++;
  segments.forEach((a, i) => {
    for (const b of segments.slice(i + 1))
      if (a.line !== b.line && cross(a.from, a.to, b.from, b.to)) found.crossings++;
  });
  return found;
}

const isWithin = (from, to, { left, right, top, low }) => [from, to].every(
  ([x, y]) => x >= left - 0.01 && x <= right + 0.01 && y >= top - 0.01 && y <= low + 0.01);

/** Whether a segment goes through the inside of a box (by Liang and Barsky). */
function enters([ax, ay], [bx, by], { left, right, top, low }) {
  let start = 0, end = 1;
  const bounds = [[ax - bx, ax - left - 0.5], [bx - ax, right - 0.5 - ax],
    [ay - by, ay - top - 0.5], [by - ay, low - 0.5 - ay]];
  for (const [p, q] of bounds) {
    if (p === 0) { if (q < 0) return false; continue; }
    if (p < 0) start = Math.max(start, q / p); else end = Math.min(end, q / p);
  }
  return start < end;
}

/** Whether two segments cross, other than at an end of one. */
function cross(a, b, c, d) {
  const side = ([px, py], [qx, qy], [rx, ry]) =>
    (qx - px) * (ry - py) - (qy - py) * (rx - px);
  const one = side(a, b, c), two = side(a, b, d);
  const three = side(c, d, a), four = side(c, d, b), near = 1e-6;
  return one * two < -near && three * four < -near;
}

/** The lines that end above their start. */
function upwards({ lineStarts, linePoints }) {
  let count = 0;
  for (let line = 0; line < lineStarts.length - 1; line++)
    if (linePoints[lineStarts[line] + 1] > linePoints[lineStarts[line + 1] - 1] + 0.01) count++;
  return count;
}
