// SPDX-License-Identifier: Apache-2.0
// Draws what is in the element "data", see drawing in drawing.go. Texts go to the page as text only.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const whole = new Intl.NumberFormat("en-US");
  // Hues are names of d3-flame-graph's own: red, yellow (C++ and Rust), orange, aqua, green.
  const kinds = {
    native: { says: "program", library: "user", shows: "rgb(228,90,90)" },
    inlined: { says: "inlined", library: "inlined", shows: "rgb(80,192,192)" },
    kernel: { says: "kernel", library: "kernel", shows: "rgb(222,122,0)" },
    runtime: { says: "Java, JavaScript, …", library: "jit", shows: "rgb(80,228,80)" },
    service: { says: "service", colour: "#b7c6dd", shows: "#b7c6dd" },
    thread: { says: "thread", colour: "#d5ddea", shows: "#d5ddea" },
    note: { says: "", colour: "#dddddd" },
  };

  // seconds writes nanoseconds for people.
  function seconds(ns) {
    if (ns >= 1e9) return (ns / 1e9).toPrecision(3) + " s";
    if (ns >= 1e6) return (ns / 1e6).toPrecision(3) + " ms";
    return (ns / 1e3).toPrecision(3) + " µs";
  }

  // amount writes a value of graph, and the time that it stands for.
  function amount(graph, value, time) {
    if (graph.unit === "nanoseconds") return seconds(value);
    const unit = graph.unit === "count" ? graph.type : graph.unit;
    const text = whole.format(value) + " " + unit.replaceAll("_", " ");
    return time > 0 ? text + ", " + seconds(time) + " of CPU time" : text;
  }

  // tree makes nested boxes of the columns of graph. A level that is not wanted goes into the one below.
  function tree(graph, skip) {
    const places = [];
    for (let i = 0; i < graph.label.length; i++) {
      const l = graph.label[i];
      const parent = graph.parent[i] < 0 ? null : places[graph.parent[i]];
      if (parent && skip.has(graph.kinds[l])) {
        places.push(parent);
        continue;
      }
      let box = parent && parent.known.get(l);
      if (!box) {
        box = { label: l, name: graph.names[l], kind: graph.kinds[l], value: 0, time: 0, line: 0, lineValue: 0, lines: false,
          children: [], known: new Map() };
        if (parent) {
          parent.known.set(l, box);
          parent.children.push(box);
        }
      }
      add(box, graph.values[i], graph.times[i], graph.lines[i]);
      places.push(box);
    }
    return places[0];
  }

  // add counts a box of the columns; of several lines the heaviest box's is told.
  function add(box, value, time, line) {
    box.value += value;
    box.time += time;
    box.lines = box.lines || line < 0 || (box.line !== 0 && box.line !== Math.abs(line));
    if (value > box.lineValue) {
      box.line = Math.abs(line);
      box.lineValue = value;
    }
  }

  // tip is the text of a tooltip.
  function tip(graph, total, box) {
    const lines = [box.name];
    const file = graph.files[box.label];
    if (file !== "") lines.push(file + (box.line ? ":" + box.line : "") + (box.lines ? " and other lines" : ""));
    if (graph.binaries[box.label] !== "") lines.push("in " + graph.binaries[box.label]);
    if (kinds[box.kind].says !== "") lines.push(kinds[box.kind].says);
    const self = box.value - box.children.reduce((sum, c) => sum + c.value, 0);
    const selfTime = box.time - box.children.reduce((sum, c) => sum + c.time, 0);
    lines.push(amount(graph, box.value, box.time) + " (" + (100 * box.value / total).toFixed(2) + " %)");
    if (self > 0 && self < box.value) lines.push("in itself: " + amount(graph, self, selfTime));
    return lines.join("\n");
  }

  // notes says what the graph is of and what it leaves out.
  function notes(graph) {
    const all = amount(graph, graph.values[0], graph.times[0]);
    const parts = [all + " in " + seconds((data.to - data.from) * 1e6)];
    if (graph.folded > 0) {
      parts.push((100 * graph.folded / graph.values[0]).toFixed(1) + " % are in the grey boxes “(other)”: " +
        "the smallest of more boxes than one page draws");
    }
    if (data.leftOut > 0) parts.push(whole.format(data.leftOut) + " samples of further types are left out");
    return parts.join(" · ");
  }

  let chart = null;
  function draw() {
    byId("chart").replaceChildren();
    byId("found").textContent = "";
    const graph = data.graphs[Number(byId("type").value)];
    if (!graph) {
      byId("notes").textContent = "There are no samples.";
      return;
    }
    const skip = new Set();
    if (!byId("by-service").checked) skip.add("service");
    if (!byId("by-thread").checked) skip.add("thread");
    const boxes = tree(graph, skip);
    if (chart) chart.destroy();
    chart = flamegraph.default()
      .width(Math.max(320, document.documentElement.clientWidth - 24))
      .cellHeight(18)
      .minFrameSize(0.3)
      .transitionDuration(0)
      .resetHeightOnZoom(true)
      .sort(true)
      .getLibtype((d) => kinds[d.data.kind].library || "")
      .setColorMapper((d, original) => (d.highlight ? original : kinds[d.data.kind].colour || original))
      .setSearchMatch((d, term) => term !== "" && d.data.name.toLowerCase().includes(term.toLowerCase()))
      .setSearchHandler((results, sum, total) => {
        byId("found").textContent = whole.format(results.length) + " boxes, " + (100 * sum / total).toFixed(2) + " %";
      })
      .tooltip(flamegraph.tooltip.defaultFlamegraphTooltip().text((d) => tip(graph, boxes.value, d.data)));
    d3.select("#chart").datum(boxes).call(chart);
    // The first drawing is there at once, also where nothing is animated; what follows moves.
    d3.timerFlush();
    d3.selectAll("#chart g.frame rect").interrupt().attr("width", function () { return this.parentNode.getAttribute("width"); });
    chart.transitionDuration(150);
    byId("notes").textContent = notes(graph);
    search();
  }

  function search() {
    const term = byId("search").value;
    if (!chart || term === "" && byId("found").textContent === "") return;
    if (term !== "") {
      chart.search(term);
      return;
    }
    byId("found").textContent = "";
    chart.clear();
  }

  function legend() {
    for (const kind of Object.values(kinds)) {
      if (!kind.says) continue;
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      swatch.style.background = kind.shows;
      item.append(swatch, kind.says);
      byId("legend").append(item);
    }
  }

  const time = (ms) => new Date(ms).toISOString().replace("T", " ").replace(/\.\d+Z$/, "Z");
  if (data.graphs.length > 0) {
    byId("title").textContent = document.title = "Flame graph " + time(data.from) + " to " + time(data.to);
  }
  data.graphs.forEach((graph, i) => byId("type").append(new Option(graph.type.replaceAll("_", " "), i)));
  byId("type").hidden = data.graphs.length < 2;
  legend();
  for (const id of ["type", "by-service", "by-thread"]) byId(id).addEventListener("change", draw);
  byId("search").addEventListener("input", search);
  byId("reset").addEventListener("click", () => chart && chart.resetZoom());
  byId("controls").addEventListener("submit", (e) => e.preventDefault());
  window.addEventListener("resize", draw);
  draw();
})();
