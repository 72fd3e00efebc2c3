// SPDX-License-Identifier: Apache-2.0
// Moves between boxes by keyboard, and describes them.

// neighbour returns the box that an arrow key leads to from another one.
function neighbour(chart, key) {
  const t = chart.tree;
  const at = chart.focused < 0 ? chart.zoomed : chart.focused;
  if (chart.focused < 0) return at;
  const away = chart.flame ? "ArrowUp" : "ArrowDown";
  const back = chart.flame ? "ArrowDown" : "ArrowUp";
  switch (key) {
    case away: return at + 1 < t.end[at] && chart.wide(at + 1) > 0 ? at + 1 : at; // the heaviest child is the first
    case back: return t.parent[at] >= 0 ? t.parent[at] : at;
    case "ArrowRight": return sibling(t, at, 1);
    case "ArrowLeft": return sibling(t, at, -1);
    case "Home": return 0;
  }
  return at;
}

// sibling returns the closest box of the same depth on one side, or the same box.
function sibling(t, at, step) {
  for (let i = at + step; i > 0 && i < t.count; i += step) {
    if (t.depth[i] === t.depth[at] && t.weight[i] > 0) return i;
  }
  return at;
}

// describe lists what is known of a box: name, source, binary, kind, values and shares.
function describe(tree, i) {
  const l = tree.label[i];
  const kind = kinds[labels.kind(l)] || kinds.note;
  const lines = [];
  const file = labels.file(l);
  if (file !== "") lines.push(file + (tree.line[i] ? ":" + tree.line[i] : "") + (tree.lines[i] ? " and other lines" : ""));
  if (labels.binary(l) !== "") lines.push("in " + labels.binary(l));
  if (kind.says !== "") lines.push(kind.says);
  lines.push("Total: " + amount(tree.type, tree.value[i], tree.time[i]) + " (" + share(tree.weight[i], tree.total) + ")");
  if (tree.self[i] !== tree.value[i]) {
    lines.push("Self: " + amount(tree.type, tree.self[i], tree.selfTime[i]) + " (" + share(tree.ownWeight[i], tree.total) + ")");
  }
  const parent = tree.parent[i];
  if (parent > 0) lines.push("Of its caller: " + share(tree.weight[i], tree.weight[parent]));
  if (tree.base) {
    lines.push("In the other intervals: " + share(tree.base[i], tree.baseTotal) + ", change " +
      change(points(tree, tree.weight[i], tree.base[i])) + " points");
  }
  return { name: printable(labels.name(l)), lines: lines.map(printable) };
}

// showTip places the description of a box next to the pointer, inside the window.
function showTip(tree, i, px, py) {
  const tip = byId("tip");
  const { name, lines } = describe(tree, i);
  tip.replaceChildren(element("b", name), lines.join("\n"));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = px + 14 + box.width > innerWidth ? px - 10 - box.width : px + 14;
  const top = py + 16 + box.height > innerHeight ? py - 10 - box.height : py + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, top) + "px";
}

// statusOf is the description in one line.
function statusOf(tree, i) {
  const { name, lines } = describe(tree, i);
  return name + " · " + lines.filter((line) => line.startsWith("Total") || line.startsWith("Self")).join(" · ");
}
