// Widths of texts, which layouts depend on: the same on each machine, without a browser.
"use strict";
// The advance of each character from " " to "~" in the page's font, for an em of 2048.
const ADVANCES = [
  576, 589, 954, 1297, 1314, 2011, 1319, 614, 747, 747, 1026, 1355, 590, 942, 590, 738,
  1292, 833, 1249, 1265, 1323, 1215, 1270, 1159, 1267, 1270, 590, 618, 1355, 1355, 1355,
  1047, 1978, 1413, 1340, 1496, 1478, 1231, 1209, 1528, 1522, 550, 1169, 1376, 1158,
  1850, 1543, 1566, 1308, 1566, 1318, 1314, 1322, 1524, 1413, 2018, 1397, 1390, 1288,
  747, 738, 747, 965, 934, 661, 1150, 1254, 1170, 1254, 1194, 758, 1256, 1211, 496, 496,
  1124, 496, 1794, 1210, 1228, 1254, 1254, 771, 1081, 670, 1211, 1151, 1676, 1118, 1151,
  1131, 873, 681, 873, 1355,
];

/** The width of a text at a size in pixels: the same on each machine. */
function textWidth(text, size) {
  let sum = 0;
  for (const character of text) sum += ADVANCES[character.codePointAt(0) - 32] ?? 1400;
  return sum * size / 2048;
}
