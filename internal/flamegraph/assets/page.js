// SPDX-License-Identifier: Apache-2.0
// Connects the controls, the table and the chart. What is selected is in the address, after #, to be kept and passed on.
const state = { type: 0, service: "", thread: "", query: "", selected: -1, view: "both" };
const chart = new Chart();
const timeline = new Timeline(rebuild);
const table = new Table((label) => highlight(label === state.selected ? -1 : label));
let found = null; // labels that the search matches

// rebuild merges what is selected anew.
function rebuild() {
  const comparable = data.intervals.length > 1;
  byId("compare-label").hidden = !comparable;
  if (byId("compare").checked && timeline.whole() && comparable) {
    // There are no others: the later half is compared with the earlier.
    timeline.from = Math.ceil(data.intervals.length / 2);
    timeline.press();
  }
  const tree = data.types.length === 0 ? null : merge({
    type: state.type, from: timeline.from, to: timeline.to, service: state.service, thread: state.thread,
    by: { service: byId("by-service").checked, thread: byId("by-thread").checked }, compare: byId("compare").checked && comparable,
  });
  const empty = !tree || tree.total === 0;
  byId("empty").hidden = !empty;
  byId("empty").textContent = !tree ? "No samples were taken in this time." :
    "No samples of this service and thread in the selected intervals. Reset shows all.";
  byId("notes").textContent = tree ? notes(tree) : "";
  chart.show(empty ? null : tree);
  if (empty) byId("rows").replaceChildren();
  else table.show(tree, found);
  byId("status").textContent = empty ? "" : "Click or Enter zooms in, Escape goes back, arrow keys move, / searches";
  drawLegend();
  refresh();
}

// notes is what the graph is of and what it leaves out.
function notes(tree) {
  const intervals = data.intervals.slice(timeline.from, timeline.to + 1);
  const last = intervals.reduce((latest, interval) => Math.max(latest, interval.to), 0);
  const parts = [span(intervals[0].from, last), amount(tree.type, tree.count ? tree.value[0] : 0, tree.count ? tree.time[0] : 0)];
  const rate = periods(intervals);
  if (rate !== "") parts.push(rate);
  if (data.intervals.length > 1) {
    parts.push((timeline.whole() ? "all " : intervals.length + " of ") + data.intervals.length + " intervals");
  }
  let folded = 0, all = 0, leftOut = 0;
  for (const interval of intervals) {
    leftOut += interval.leftOut;
    all += sums(interval, state.type).value;
    for (const drawing of interval.drawings) if (drawing.type === state.type) folded += drawing.folded;
  }
  if (folded > 0) parts.push(share(folded, all) + " in “(other)”: more boxes than a page holds");
  if (leftOut > 0) parts.push(whole.format(leftOut) + " samples of further types left out");
  return parts.join(" · ");
}

// periods states how long the sampling period was, on the average of each interval.
function periods(intervals) {
  if (!timed[state.type] || data.types[state.type].unit !== "count") return "";
  const means = intervals.map((interval) => sums(interval, state.type)).filter((s) => s.value > 0).map((s) => s.time / s.value);
  if (means.length === 0) return "";
  const shortest = seconds(Math.min(...means)), longest = seconds(Math.max(...means));
  return "sampling period " + shortest + (shortest === longest ? "" : " to " + longest);
}

// search marks the labels whose name contains the query.
function search(query) {
  state.query = query;
  const wanted = query.trim().toLowerCase();
  found = null;
  if (wanted !== "") {
    found = new Uint8Array(labels.count);
    for (let l = 0; l < labels.count; l++) {
      if (labels.kind(l) !== "service" && labels.kind(l) !== "thread" && labels.name(l).toLowerCase().includes(wanted)) found[l] = 1;
    }
  }
  if (chart.tree) table.filter(found);
  refresh();
  showFirst();
}

function highlight(label) {
  state.selected = label;
  table.select(label);
  refresh();
  showFirst();
}

// showFirst scrolls to the heaviest box of what is marked.
function showFirst() {
  if (!chart.marked || !chart.tree) return;
  const { heaviest } = matching(chart.tree, chart.marked);
  if (heaviest >= chart.zoomed && heaviest < chart.tree.end[chart.zoomed]) chart.reveal(heaviest);
}

// refresh shows what is marked: the selected function, or else what the search found.
function refresh() {
  let marked = found;
  if (state.selected >= 0) {
    marked = new Uint8Array(labels.count);
    marked[state.selected] = 1;
  }
  chart.mark(marked);
  byId("found").textContent = "";
  if (marked && chart.tree) {
    const m = matching(chart.tree, marked);
    const what = state.selected >= 0 ? printable(labels.name(state.selected)).slice(0, 40) + ": " : "";
    byId("found").textContent = what + whole.format(m.boxes) + (m.boxes === 1 ? " box, " : " boxes, ") + share(m.weight, chart.tree.total) +
      ", " + brief(chart.tree.type, m.value, m.time);
  }
  byId("reset").disabled = chart.zoomed === 0 && state.query === "" && state.selected < 0 &&
    state.service === "" && state.thread === "" && timeline.whole();
  remember();
}

function zoom(at) {
  chart.zoom(at);
  chart.focus(at);
  refresh();
}

// back undoes one thing: the highlight, the search, the zoom.
function back() {
  byId("tip").hidden = true;
  if (state.selected >= 0) return highlight(-1);
  if (state.query !== "") {
    byId("search").value = "";
    return search("");
  }
  if (chart.zoomed !== 0) zoom(0);
}

function reset() {
  state.selected = -1;
  byId("compare").checked = false;
  timeline.from = 0;
  timeline.to = data.intervals.length - 1;
  timeline.press();
  state.service = state.thread = byId("service").value = byId("thread").value = byId("search").value = "";
  search("");
  rebuild();
}

function setFlame(flame) {
  chart.setFlame(flame);
  byId("icicle").setAttribute("aria-pressed", !flame);
  byId("flame").setAttribute("aria-pressed", flame);
  remember();
}

function setView(view) {
  state.view = view;
  byId("main").dataset.view = view;
  for (const v of ["both", "graph", "table"]) byId("view-" + v).setAttribute("aria-pressed", v === view);
  chart.layout(true);
  remember();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  chart.recolour();
  if (chart.tree) table.draw();
  drawLegend();
}

function drawLegend() {
  const dark = isDark();
  const compared = chart.tree && chart.tree.base;
  const items = compared ?
    [[changeColour(10, dark), "larger share than in the other intervals"], [changeColour(-10, dark), "smaller share"]] :
    Object.entries(kinds).filter(([, k]) => k.says).map(([kind, k]) => [plainColour(kind, dark), k.says]);
  byId("legend").replaceChildren(...items.map(([background, text]) => {
    const item = document.createElement("li");
    const swatch = element("i");
    swatch.style.background = background;
    item.append(swatch, text);
    return item;
  }));
}

// remember writes the state to the address.
function remember() {
  const p = new URLSearchParams();
  if (data.types[state.type]) p.set("type", data.types[state.type].type);
  if (!timeline.whole()) p.set("range", timeline.written());
  for (const key of ["service", "thread", "query"]) if (state[key]) p.set(key, state[key]);
  if (state.selected >= 0) p.set("function", labels.name(state.selected));
  for (const id of ["by-service", "by-thread"]) if (!byId(id).checked) p.set(id, "0");
  if (byId("compare").checked) p.set("compare", "1");
  if (chart.flame) p.set("flame", "1");
  if (state.view !== "both") p.set("view", state.view);
  if (document.documentElement.dataset.theme) p.set("theme", document.documentElement.dataset.theme);
  try {
    history.replaceState(null, "", "#" + p);
  } catch { /* some browsers refuse it for files: the page works without */ }
}

// recall reads the state from the address. Values that do not fit are left out.
function recall() {
  const p = new URLSearchParams(location.hash.slice(1));
  // CPU time first: another type may be the first one of the data and have almost no samples.
  const types = data.types.map((t) => t.type);
  state.type = [types.indexOf(p.get("type")), types.indexOf("samples"), 0].find((i) => i >= 0);
  byId("type").value = state.type;
  timeline.read(p.get("range") || "");
  for (const key of ["service", "thread"]) {
    byId(key).value = p.get(key) || "";
    state[key] = byId(key).value;
  }
  for (const id of ["by-service", "by-thread"]) byId(id).checked = p.get(id) !== "0";
  byId("compare").checked = p.get("compare") === "1";
  for (let l = 0; p.has("function") && l < labels.count; l++) if (labels.name(l) === p.get("function")) state.selected = l;
  table.selected = state.selected;
  const theme = ["dark", "light"].includes(p.get("theme")) ? p.get("theme") : "";
  const view = ["both", "graph", "table"].includes(p.get("view")) ? p.get("view") : "both";
  const query = p.get("query") || "";
  byId("search").value = query;
  timeline.draw(state.type);
  setFlame(p.get("flame") === "1");
  search(query);
  rebuild();
  setTheme(theme);
  setView(view);
  showFirst();
}

function fill(id, first, names) {
  byId(id).replaceChildren(new Option(first, ""), ...names.map((name) => new Option(printable(name), name)));
  byId(id).hidden = names.length < 2;
}

function pointed(e) {
  const box = chart.scroll.getBoundingClientRect();
  return e.clientX - box.left < chart.width ? chart.at(e.clientX - box.left, e.clientY - box.top) : -1;
}

function listen() {
  chart.scroll.addEventListener("pointermove", (e) => {
    const at = pointed(e);
    chart.outline("hover", at);
    byId("tip").hidden = at < 0;
    if (at >= 0) showTip(chart.tree, at, e.clientX, e.clientY);
    if (at >= 0) byId("status").textContent = statusOf(chart.tree, at);
  });
  chart.scroll.addEventListener("pointerleave", () => {
    chart.outline("hover", -1);
    byId("tip").hidden = true;
  });
  chart.scroll.addEventListener("scroll", () => {
    chart.outline("hover", -1);
    byId("tip").hidden = true;
  });
  chart.scroll.addEventListener("click", (e) => {
    const at = pointed(e);
    if (at >= 0) zoom(at);
  });
  chart.scroll.addEventListener("keydown", (e) => {
    if (!chart.tree || e.ctrlKey || e.altKey || e.metaKey) return;
    if (e.key === "Enter" && chart.focused >= 0) zoom(chart.focused);
    else if (!e.key.startsWith("Arrow") && e.key !== "Home") return;
    else moveTo(neighbour(chart, e.key));
    e.preventDefault();
  });
  window.addEventListener("keydown", (e) => {
    if (e.key === "Escape") back();
    if (e.key !== "/" || e.ctrlKey || e.metaKey || ["INPUT", "SELECT"].includes(e.target.tagName)) return;
    e.preventDefault();
    byId("search").focus();
    byId("search").select();
  });
  byId("search").addEventListener("keydown", (e) => {
    if (e.key === "Enter") chart.scroll.focus();
  });
}

// moveTo focuses a box; one outside the zoomed subtree zooms out to what has both.
function moveTo(at) {
  const t = chart.tree;
  let top = chart.zoomed;
  while (top > 0 && (at < top || at >= t.end[top])) top = t.parent[top];
  if (top !== chart.zoomed) {
    chart.zoom(top);
    refresh();
  }
  chart.focus(at);
  byId("status").textContent = statusOf(t, at);
}

function control() {
  data.types.forEach((type, i) => byId("type").append(new Option(type.type.replaceAll("_", " "), i)));
  byId("type").hidden = data.types.length < 2;
  fill("service", "All services", namesOf("service"));
  fill("thread", "All threads", namesOf("thread"));
  byId("type").addEventListener("change", () => {
    state.type = Number(byId("type").value);
    timeline.draw(state.type);
    rebuild();
  });
  for (const id of ["service", "thread"]) {
    byId(id).addEventListener("change", () => {
      state[id] = byId(id).value;
      rebuild();
    });
  }
  for (const id of ["by-service", "by-thread", "compare"]) byId(id).addEventListener("change", rebuild);
  byId("search").addEventListener("input", () => search(byId("search").value));
  byId("icicle").addEventListener("click", () => setFlame(false));
  byId("flame").addEventListener("click", () => setFlame(true));
  for (const v of ["both", "graph", "table"]) byId("view-" + v).addEventListener("click", () => setView(v));
  byId("reset").addEventListener("click", reset);
  byId("theme").addEventListener("click", () => {
    setTheme(isDark() ? "light" : "dark");
    remember();
  });
  byId("more").addEventListener("click", () => {
    const open = document.querySelector(".filters").classList.toggle("open");
    byId("more").setAttribute("aria-expanded", open);
  });
  byId("controls").addEventListener("submit", (e) => e.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(""));
}

if (data.types.length > 0) document.title = "Flame graph " + span(data.intervals[0].from, data.intervals[data.intervals.length - 1].to);
control();
listen();
recall();
// The time until the first drawing, in milliseconds: what the tests measure.
document.documentElement.dataset.drawn = Math.round(performance.now());
