// SPDX-License-Identifier: Apache-2.0
// The data of the page (pageData in data.go) and the tree that is drawn of it.
const data = JSON.parse(byId("data").textContent);
const labels = {
  count: data.labels.name.length,
  kind: (l) => data.strings[data.labels.kind[l]],
  name: (l) => data.strings[data.labels.name[l]],
  binary: (l) => data.strings[data.labels.binary[l]],
  file: (l) => data.strings[data.labels.file[l]],
};

// namesOf lists the names that labels of a kind have, at most 1000.
function namesOf(kind) {
  const names = new Set();
  for (let l = 0; l < labels.count; l++) if (labels.kind(l) === kind) names.add(labels.name(l));
  return [...names].sort().slice(0, 1000);
}

// timeAt is the time that samples which end in a box stand for, in nanoseconds, or 0.
const timeAt = (drawing, i) => (drawing.time ? drawing.time[i] : drawing.self[i] * drawing.period);

// drawingsOf lists the drawings of a type, with the index of their interval.
const drawingsOf = (type) => data.intervals.flatMap((interval, i) =>
  interval.drawings.filter((drawing) => drawing.type === type).map((drawing) => [drawing, i]));

// timed reports for each type whether all of its samples stand for time. Shares are of that time then: where the sampling
// period was longer, a sample counts for more.
const timed = data.types.map((_, type) => drawingsOf(type).every(([drawing]) =>
  (drawing.time ? drawing.self.every((v, i) => v === 0 || drawing.time[i] > 0) : drawing.period > 0)));

// sums adds up an interval's values of a type, and their time.
function sums(interval, type) {
  let value = 0, time = 0;
  for (const drawing of interval.drawings) {
    if (drawing.type !== type) continue;
    for (let i = 0; i < drawing.self.length; i++) {
      value += drawing.self[i];
      time += timeAt(drawing, i);
    }
  }
  return { value, time };
}

// totals adds to each box of columns in preorder what is below it.
function totals(self, depth) {
  const out = Float64Array.from(self);
  const open = []; // index of the last box of each depth, while walking backwards: the sum that waits for its parent
  for (let i = out.length - 1; i >= 0; i--) {
    const d = depth[i];
    out[i] += open[d + 1] || 0;
    open[d + 1] = 0;
    open[d] = (open[d] || 0) + out[i];
  }
  return out;
}

// merger adds up drawings in one tree. Boxes of the same label below the same parent are one.
class Merger {
  constructor(choice) {
    this.choice = choice;
    this.timed = timed[choice.type];
    this.known = new Map();
    this.label = []; this.parent = []; this.self = []; this.time = []; this.base = [];
    this.line = []; this.lineValue = []; this.lines = [];
  }

  // add counts a drawing, in the base of a comparison or in what is shown.
  add(drawing, isBase) {
    const { label, depth, self, line } = drawing;
    const heavy = totals(self, depth);
    const way = []; // the box of the tree at each depth, or -1 where it is not selected
    for (let i = 0; i < label.length; i++) {
      const above = depth[i] === 0 ? -2 : way[depth[i] - 1];
      const at = this.step(above, label[i]);
      way[depth[i]] = at;
      if (at < 0) continue;
      const time = timeAt(drawing, i);
      if (isBase) {
        this.base[at] += this.timed ? time : self[i];
        continue;
      }
      this.self[at] += self[i];
      this.time[at] += time;
      if (above !== at) this.vote(at, line[i], heavy[i]);
    }
  }

  // step returns the box of a label below another one; levels that are not grouped by go into the one above.
  step(above, l) {
    if (above === -1) return -1;
    const kind = labels.kind(l);
    if (kind === "service" || kind === "thread") {
      const wanted = this.choice[kind];
      if (wanted !== "" && wanted !== labels.name(l)) return -1;
      if (!this.choice.by[kind]) return above;
    }
    const key = (above + 2) * labels.count + l;
    let at = this.known.get(key);
    if (at === undefined) {
      at = this.label.length;
      this.known.set(key, at);
      this.label.push(l);
      this.parent.push(above < 0 ? -1 : above);
      this.self.push(0); this.time.push(0); this.base.push(0);
      this.line.push(0); this.lineValue.push(0); this.lines.push(false);
    }
    return at;
  }

  // vote keeps the line of the heaviest box.
  vote(at, line, value) {
    const positive = Math.abs(line);
    this.lines[at] ||= line < 0 || (this.line[at] !== 0 && positive !== 0 && this.line[at] !== positive);
    if (positive !== 0 && value > this.lineValue[at]) {
      this.line[at] = positive;
      this.lineValue[at] = value;
    }
  }
}

// sum adds up what is below each box: parents have lower indices.
function sum(own, parent) {
  const out = Float64Array.from(own);
  for (let i = out.length - 1; i > 0; i--) if (parent[i] >= 0) out[parent[i]] += out[i];
  return out;
}

// merge is the tree of a choice: boxes in preorder, the heaviest child first.
function merge(choice) {
  const m = new Merger(choice);
  data.intervals.forEach((interval, i) => {
    const chosen = i >= choice.from && i <= choice.to;
    if (!chosen && !choice.compare) return;
    for (const drawing of interval.drawings) if (drawing.type === choice.type) m.add(drawing, !chosen);
  });
  const ownWeight = m.timed ? m.time : m.self;
  const weight = sum(ownWeight, m.parent);
  const value = sum(m.self, m.parent);
  const base = sum(m.base, m.parent);
  const time = sum(m.time, m.parent);
  const order = preorder(m, weight);
  const pick = (Type, column) => Type.from(order, (i) => column[i]);
  // weight is what widths and shares are of; value and time are what is shown.
  const tree = {
    count: order.length, type: data.types[choice.type], label: pick(Int32Array, m.label),
    weight: pick(Float64Array, weight), ownWeight: pick(Float64Array, ownWeight),
    value: pick(Float64Array, value), time: pick(Float64Array, time), self: pick(Float64Array, m.self), selfTime: pick(Float64Array, m.time),
    base: choice.compare ? pick(Float64Array, base) : null, ownBase: choice.compare ? pick(Float64Array, m.base) : null,
    line: pick(Float64Array, m.line), lines: Array.from(order, (i) => m.lines[i]),
  };
  return place(tree, m, order);
}

// preorder returns the indices of all boxes of a merger, each before its children.
function preorder(m, weight) {
  const children = m.label.map(() => null);
  for (let i = 1; i < m.label.length; i++) (children[m.parent[i]] ||= []).push(i);
  const before = (a, b) => weight[a] - weight[b] || (labels.name(m.label[a]) < labels.name(m.label[b]) ? 1 : -1);
  const order = new Int32Array(m.label.length);
  const todo = m.label.length ? [0] : [];
  for (let n = 0; todo.length > 0; n++) {
    const at = todo.pop();
    order[n] = at;
    if (children[at]) for (const child of children[at].sort(before)) todo.push(child);
  }
  return order;
}

// place computes parents, depths, the ends of subtrees and where boxes start.
function place(tree, m, order) {
  const n = tree.count;
  const index = new Int32Array(n);
  order.forEach((at, i) => { index[at] = i; });
  tree.parent = new Int32Array(n).fill(-1);
  tree.depth = new Int32Array(n);
  tree.end = new Int32Array(n);
  tree.start = new Float64Array(n);
  const next = new Float64Array(n); // where the next child starts
  for (let i = 0; i < n; i++) {
    const parent = i === 0 ? -1 : index[m.parent[order[i]]];
    tree.parent[i] = parent;
    if (parent >= 0) {
      tree.depth[i] = tree.depth[parent] + 1;
      tree.start[i] = next[parent];
      next[parent] += tree.weight[i];
    }
    next[i] = tree.start[i];
  }
  for (let i = n - 1; i >= 0; i--) {
    tree.end[i] = Math.max(tree.end[i], i + 1);
    const parent = tree.parent[i];
    if (parent >= 0) tree.end[parent] = Math.max(tree.end[parent], tree.end[i]);
  }
  tree.total = n ? tree.weight[0] : 0;
  tree.baseTotal = tree.base && n ? tree.base[0] : 0;
  return tree;
}

// points is by how many percentage points a box's share grew against the base.
function points(tree, weight, base) {
  return (tree.total ? 100 * weight / tree.total : 0) - (tree.baseTotal ? 100 * base / tree.baseTotal : 0);
}

// functions adds up self and total of each label; recursive calls count once.
function functions(tree) {
  const rows = new Map();
  const open = new Int32Array(labels.count);
  const stack = [];
  for (let i = 0; i < tree.count; i++) {
    while (stack.length > 0 && tree.end[stack[stack.length - 1]] <= i) open[tree.label[stack.pop()]]--;
    const l = tree.label[i];
    const kind = labels.kind(l);
    if (tree.depth[i] > 0 && kind !== "service" && kind !== "thread") {
      let row = rows.get(l);
      if (!row) {
        row = { label: l, name: labels.name(l), own: 0, self: 0, selfTime: 0, weight: 0, total: 0, time: 0, ownBase: 0 };
        rows.set(l, row);
      }
      row.own += tree.ownWeight[i];
      row.self += tree.self[i];
      row.selfTime += tree.selfTime[i];
      if (tree.base) row.ownBase += tree.ownBase[i];
      if (open[l] === 0) {
        row.weight += tree.weight[i];
        row.total += tree.value[i];
        row.time += tree.time[i];
      }
    }
    open[l]++;
    stack.push(i);
  }
  return [...rows.values()];
}

// matching counts the boxes whose label is marked, and what is in the outermost of them; heaviest is one of these or -1.
function matching(tree, marked) {
  const m = { boxes: 0, weight: 0, value: 0, time: 0, heaviest: -1 };
  let covered = 0;
  for (let i = 0; i < tree.count; i++) {
    if (!marked[tree.label[i]] || tree.weight[i] === 0) continue;
    m.boxes++;
    if (i < covered) continue;
    m.weight += tree.weight[i];
    m.value += tree.value[i];
    m.time += tree.time[i];
    if (m.heaviest < 0 || tree.weight[i] > tree.weight[m.heaviest]) m.heaviest = i;
    covered = tree.end[i];
  }
  return m;
}
