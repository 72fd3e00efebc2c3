// SPDX-License-Identifier: Apache-2.0
// Values, colours and elements. Names go to the page as text only.
const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en-US");

// kinds are those of label.go: what the legend says, and hue, saturation and lightness of their boxes.
const kinds = {
  native: { says: "program", hue: 10, saturation: 80 },
  inlined: { says: "inlined", hue: 192, saturation: 45 },
  kernel: { says: "kernel", hue: 48, saturation: 80 },
  runtime: { says: "Java, JavaScript, …", hue: 115, saturation: 45 },
  service: { says: "service", hue: 217, saturation: 38 },
  thread: { says: "thread", hue: 217, saturation: 22 },
  note: { says: "", hue: 0, saturation: 0 },
};

// seconds writes nanoseconds with three digits.
function seconds(ns) {
  const sign = ns < 0 ? "−" : "";
  const size = Math.abs(ns);
  if (size >= 1e9) return sign + (size / 1e9).toPrecision(size >= 1e12 ? 4 : 3) + " s";
  if (size >= 1e6) return sign + (size / 1e6).toPrecision(3) + " ms";
  return sign + (size / 1e3).toPrecision(3) + " µs";
}

// brief is the time where samples stand for time, else the value.
function brief(type, value, time) {
  if (type.unit === "nanoseconds") return seconds(value);
  if (time > 0) return seconds(time);
  return value === 0 ? "0" : whole.format(value);
}

// amount writes a value with its unit, and the time that it stands for.
function amount(type, value, time) {
  if (type.unit === "nanoseconds") return seconds(value) + " (" + whole.format(value) + " ns)";
  const unit = (type.unit === "count" ? type.type : type.unit).replaceAll("_", " ");
  const text = whole.format(value) + " " + (value === 1 ? unit.replace(/s$/, "") : unit);
  return time > 0 ? text + ", " + seconds(time) + " of CPU time" : text;
}

const share = (part, all, digits = 2) => (all > 0 ? (100 * part / all).toFixed(part >= all ? 0 : digits) : "0") + " %";

function change(points) {
  const rounded = points.toFixed(2);
  return (points > 0 && rounded !== "0.00" ? "+" : "") + rounded.replace("-", "−").replace("−0.00", "0.00");
}

const clock = (ms) => new Date(ms).toISOString().replace("T", " ").replace(/\.\d+Z$/, "Z");

// span writes an interval; the date once where both ends have the same.
function span(from, to) {
  const end = clock(to);
  return clock(from) + " – " + (clock(from).slice(0, 10) === end.slice(0, 10) ? end.slice(11) : end);
}

// hash spreads names over shades; FNV-1a.
function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// colour is that of a box. Functions of one binary have close hues; the text on them is dark in both themes.
function colour(kind, name, binary, dark) {
  const k = kinds[kind] || kinds.note;
  const varied = kind === "service" || kind === "thread" || kind === "note" ? 0 : 1;
  const hue = k.hue + varied * (hash(binary) % 25 - 18);
  const light = (dark ? 63 : 75) + varied * (hash(name) % 11 - 5) + (kind === "thread" ? 6 : 0);
  return "hsl(" + hue + " " + (dark ? 0.8 * k.saturation : k.saturation) + "% " + light + "%)";
}

// plainColour is that of a kind in the legend.
function plainColour(kind, dark) {
  const k = kinds[kind];
  return "hsl(" + k.hue + " " + (dark ? 0.8 * k.saturation : k.saturation) + "% " + ((dark ? 63 : 75) + (kind === "thread" ? 6 : 0)) + "%)";
}

// changeColour is red for a share that grew and blue for one that shrank; 10 points are the full colour.
function changeColour(points, dark) {
  const strength = Math.min(1, Math.sqrt(Math.abs(points) / 10));
  const light = (dark ? 72 : 90) - (dark ? 12 : 24) * strength;
  return "hsl(" + (points >= 0 ? 8 : 217) + " " + Math.round(80 * strength) + "% " + light + "%)";
}

// element makes an element with text.
function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// printable replaces control characters and those that reorder text.
const printable = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
