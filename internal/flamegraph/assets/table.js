// SPDX-License-Identifier: Apache-2.0
// The table of top functions.
const rowsAtOnce = 200;

class Table {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.sort = "self";
    this.ascending = false;
    this.selected = -1;
    this.all = [];
    this.limit = rowsAtOnce;
    for (const head of document.querySelectorAll("th[data-sort]")) {
      head.firstElementChild.addEventListener("click", () => this.sortBy(head.dataset.sort));
    }
    byId("more-rows").addEventListener("click", () => {
      this.limit += rowsAtOnce;
      this.draw();
    });
    byId("rows").addEventListener("click", (e) => {
      const row = e.target.closest("tr");
      if (row) this.onSelect(Number(row.dataset.label));
    });
  }

  show(tree, found) {
    this.tree = tree;
    this.all = functions(tree);
    byId("table").classList.toggle("compare", tree.base !== null);
    if (!tree.base && this.sort === "change") this.sort = "self";
    this.filter(found);
  }

  // filter leaves the rows whose label is found.
  filter(found) {
    this.found = found;
    this.limit = rowsAtOnce;
    this.draw();
  }

  select(label) {
    this.selected = label;
    for (const row of byId("rows").children) {
      row.classList.toggle("selected", Number(row.dataset.label) === label);
      row.querySelector("button").setAttribute("aria-pressed", Number(row.dataset.label) === label);
    }
  }

  sortBy(column) {
    this.ascending = this.sort === column ? !this.ascending : column === "name";
    this.sort = column;
    this.draw();
  }

  sorted() {
    const rows = this.found ? this.all.filter((row) => this.found[row.label]) : this.all.slice();
    const key = {
      name: (row) => row.name.toLowerCase(),
      self: (row) => row.own,
      total: (row) => row.weight,
      change: (row) => points(this.tree, row.own, row.ownBase),
    }[this.sort];
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    return rows.sort((a, b) => (this.ascending ? 1 : -1) * order(key(a), key(b)) || b.weight - a.weight || order(a.name, b.name));
  }

  draw() {
    for (const head of document.querySelectorAll("th[data-sort]")) {
      const on = head.dataset.sort === this.sort;
      head.setAttribute("aria-sort", on ? (this.ascending ? "ascending" : "descending") : "none");
    }
    const rows = this.sorted();
    const dark = isDark();
    byId("rows").replaceChildren(...rows.slice(0, this.limit).map((row) => this.row(row, dark)));
    const rest = rows.length - this.limit;
    byId("more-rows").hidden = rest <= 0;
    byId("more-rows").textContent = "Show " + whole.format(Math.min(rest, rowsAtOnce)) + " of " + whole.format(rest) + " more";
    this.select(this.selected);
  }

  row(row, dark) {
    const tree = this.tree;
    const line = document.createElement("tr");
    line.dataset.label = row.label;
    const name = document.createElement("td");
    const button = element("button");
    button.type = "button";
    const swatch = element("i");
    swatch.style.background = colour(labels.kind(row.label), row.name, labels.binary(row.label), dark);
    button.append(swatch, printable(row.name));
    name.title = printable(row.name + (labels.binary(row.label) ? "\nin " + labels.binary(row.label) : ""));
    name.append(button);
    line.append(name, this.number(row.own, row.self, row.selfTime), this.number(row.weight, row.total, row.time));
    line.append(element("td", tree.base ? change(points(tree, row.own, row.ownBase)) : "", "number change"));
    return line;
  }

  number(weight, value, time) {
    const cell = element("td", undefined, "number");
    cell.append(element("small", brief(this.tree.type, value, time)), share(weight, this.tree.total, 1));
    return cell;
  }
}
