// SPDX-License-Identifier: Apache-2.0
// Draws a tree on a canvas of the size of its pane, which scrolls over rows: a canvas of the whole height would exceed
// what browsers allow. Boxes narrower than half a pixel are left out with all that is below them.
const rowHeight = 20;
const narrowest = 0.5;

class Chart {
  constructor() {
    this.canvas = byId("canvas");
    this.scroll = byId("scroll");
    this.pen = this.canvas.getContext("2d", { alpha: false });
    this.widths = new Map(); // of texts
    this.colours = new Map(); // of labels
    this.tree = null;
    this.flame = false;
    this.width = this.height = this.full = 0;
    this.zoomed = 0;
    this.focused = -1;
    this.marked = null; // by label, while a search or a highlight is on
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.scroll);
  }

  // resize keeps the root of a flame graph in view if it was, and brings it into view where nothing was drawn before.
  resize() {
    const hadRoot = this.flame && this.scroll.scrollTop + this.height >= this.full - rowHeight;
    this.layout(!this.width || hadRoot);
  }

  show(tree) {
    this.tree = tree;
    this.zoomed = 0;
    this.focused = -1;
    this.layout(true);
  }

  setFlame(flame) {
    this.flame = flame;
    this.layout(true);
  }

  recolour() {
    this.colours.clear();
    this.draw();
  }

  mark(marked) {
    this.marked = marked;
    this.draw();
  }

  zoom(at) {
    this.zoomed = at;
    this.layout(true);
  }

  // layout sizes the canvas and the scrolled height, which rows that nothing is drawn of do not add to.
  layout(atRoot) {
    this.width = this.scroll.clientWidth;
    this.height = this.scroll.clientHeight;
    if (!this.tree || this.tree.count === 0 || this.width === 0) {
      this.clear();
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = this.width + "px";
    this.canvas.style.height = this.height + "px";
    this.rows = 0;
    this.visit((i) => { this.rows = Math.max(this.rows, this.tree.depth[i] + 1); });
    this.full = Math.max(this.height, this.rows * rowHeight + 4);
    byId("spacer").style.height = this.full + "px";
    // The root is in view, wherever it is: a graph whose deepest stack is a rare one shows needles otherwise.
    if (atRoot) {
      const y = this.y(this.tree.depth[this.zoomed]);
      this.scroll.scrollTop = this.flame ? this.full : Math.max(0, y - 2 * rowHeight);
    }
    this.draw();
  }

  clear() {
    this.pen.fillStyle = getComputedStyle(document.body).backgroundColor;
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    byId("spacer").style.height = "0";
    this.outline("focus", -1);
  }

  x(i) {
    const t = this.tree;
    if (i < this.zoomed && t.end[i] > this.zoomed) return 0; // an ancestor
    return (t.start[i] - t.start[this.zoomed]) * this.scale();
  }

  wide(i) {
    const t = this.tree;
    if (i < this.zoomed && t.end[i] > this.zoomed) return this.width;
    return t.weight[i] * this.scale();
  }

  scale() { return this.width / (this.tree.weight[this.zoomed] || 1); }

  // y is the top of a row in the scrolled height.
  y(depth) { return this.flame ? this.full - (depth + 1) * rowHeight : depth * rowHeight; }

  // visit calls f for each box that is wide enough to be drawn.
  visit(f) {
    const t = this.tree;
    const scale = this.scale();
    for (let i = t.parent[this.zoomed]; i >= 0; i = t.parent[i]) f(i);
    for (let i = this.zoomed; i < t.end[this.zoomed];) {
      if (t.weight[i] * scale < narrowest) {
        i = t.end[i];
        continue;
      }
      f(i);
      i++;
    }
  }

  draw() {
    const t = this.tree;
    if (!t || t.count === 0 || this.width === 0) return;
    const ratio = this.canvas.width / this.width;
    const pen = this.pen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.body);
    pen.fillStyle = style.backgroundColor;
    pen.fillRect(0, 0, this.width, this.height);
    pen.font = "12px " + style.fontFamily;
    pen.textBaseline = "middle";
    this.dark = isDark();
    const top = this.scroll.scrollTop;
    this.visit((i) => {
      const y = this.y(t.depth[i]) - top;
      if (y > -rowHeight && y < this.height) this.box(i, y);
    });
    this.outline("focus", this.focused);
  }

  box(i, y) {
    const t = this.tree;
    const pen = this.pen;
    const x = this.x(i);
    const w = this.wide(i);
    const dim = (this.marked && !this.marked[t.label[i]]) || (i < this.zoomed);
    pen.globalAlpha = dim ? (this.dark ? 0.3 : 0.28) : 1;
    pen.fillStyle = t.base ? changeColour(points(t, t.weight[i], t.base[i]), this.dark) : this.labelColour(t.label[i]);
    pen.fillRect(x, y + 1, Math.max(w - 1, narrowest), rowHeight - 1);
    pen.globalAlpha = 1;
    if (w < 26) return;
    const text = this.fit(labels.name(t.label[i]), w - 9);
    if (text === "") return;
    pen.fillStyle = dim && this.dark ? "#c3c9d1" : dim ? "#555b63" : "#111111";
    pen.fillText(text, x + 4, y + rowHeight / 2 + 1);
  }

  labelColour(l) {
    let c = this.colours.get(l);
    if (!c) {
      c = colour(labels.kind(l), labels.name(l), labels.binary(l), this.dark);
      this.colours.set(l, c);
    }
    return c;
  }

  // fit cuts a text to a width. Nothing in a name reorders the text around it.
  fit(name, width) {
    const text = printable(name);
    let all = this.widths.get(text);
    if (all === undefined) {
      all = this.pen.measureText(text).width;
      if (this.widths.size < 50000) this.widths.set(text, all);
    }
    if (all <= width) return text;
    let n = Math.floor(text.length * width / all);
    while (n > 1 && this.pen.measureText(text.slice(0, n) + "…").width > width) n--;
    return n < 2 ? "" : text.slice(0, n) + "…";
  }

  // at returns the box under a point of the pane, or -1.
  at(px, py) {
    const t = this.tree;
    if (!t || t.count === 0) return -1;
    const y = py + this.scroll.scrollTop;
    const depth = Math.floor(this.flame ? (this.full - y) / rowHeight : y / rowHeight);
    const zoomDepth = t.depth[this.zoomed];
    if (depth < 0) return -1;
    let i = this.zoomed;
    if (depth <= zoomDepth) {
      for (let d = zoomDepth; d > depth; d--) i = t.parent[i];
      return i;
    }
    for (let d = zoomDepth; d < depth; d++) {
      i = this.childAt(i, px);
      if (i < 0) return -1;
    }
    return i;
  }

  childAt(parent, px) {
    const t = this.tree;
    for (let c = parent + 1; c < t.end[parent]; c = t.end[c]) {
      const x = this.x(c);
      const w = this.wide(c);
      if (px >= x && px < x + w) return w >= narrowest ? c : -1;
    }
    return -1;
  }

  focus(i) {
    this.focused = i;
    if (i >= 0) this.reveal(i);
    this.outline("focus", i);
  }

  // reveal scrolls a box into view: to a third of the height, so that what is around it can be seen.
  reveal(i) {
    const y = this.y(this.tree.depth[i]);
    const top = this.scroll.scrollTop;
    if (y < top || y + rowHeight > top + this.height) this.scroll.scrollTop = y - this.height / 3;
  }

  // outline frames a box by an element: the canvas need not be drawn again for it.
  outline(id, i) {
    const frame = byId(id).style;
    if (i < 0 || !this.tree || i >= this.tree.count) {
      frame.display = "none";
      return;
    }
    const x = Math.max(0, this.x(i));
    frame.display = "block";
    frame.left = x + "px";
    frame.top = this.y(this.tree.depth[i]) - this.scroll.scrollTop + "px";
    frame.width = Math.max(3, Math.min(this.width, this.x(i) + this.wide(i)) - x) + "px";
    frame.height = rowHeight + 1 + "px";
  }
}
