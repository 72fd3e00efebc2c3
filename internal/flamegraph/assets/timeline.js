// SPDX-License-Identifier: Apache-2.0
// Selects a range of intervals: a click selects one, dragging or Shift extends.
class Timeline {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.from = 0;
    this.to = data.intervals.length - 1;
    this.anchor = -1;
    window.addEventListener("pointerup", () => { this.dragging = false; });
  }

  // draw makes a bar of each interval's value of a type.
  draw(type) {
    const strip = byId("timeline");
    strip.replaceChildren();
    if (data.intervals.length < 2) return;
    const all = data.intervals.map((interval) => sums(interval, type));
    const heights = all.map((s) => (timed[type] ? s.time : s.value));
    const highest = Math.max(...heights, 1);
    data.intervals.forEach((interval, i) => {
      const slot = element("button", undefined, "slot");
      slot.type = "button";
      slot.title = span(interval.from, interval.to) + "\n" + amount(data.types[type], all[i].value, all[i].time);
      slot.setAttribute("aria-label", slot.title);
      const bar = element("i");
      bar.style.height = 100 * heights[i] / highest + "%";
      slot.append(bar);
      slot.addEventListener("pointerdown", (e) => {
        slot.releasePointerCapture(e.pointerId);
        this.dragging = true;
        this.extend(i, e.shiftKey);
        e.preventDefault();
        slot.focus();
      });
      slot.addEventListener("pointerenter", () => this.dragging && this.extend(i, true));
      slot.addEventListener("click", (e) => { if (e.detail === 0) this.extend(i, e.shiftKey); }); // the keyboard
      strip.append(slot);
    });
    const everything = element("button", "All", "all");
    everything.type = "button";
    everything.title = "select all intervals";
    everything.addEventListener("click", () => this.select(0, data.intervals.length - 1));
    strip.append(everything);
    this.press();
  }

  extend(i, more) {
    if (!more || this.anchor < 0) this.anchor = i;
    this.select(Math.min(this.anchor, i), Math.max(this.anchor, i));
  }

  select(from, to) {
    if (from === this.from && to === this.to) return;
    this.from = from;
    this.to = to;
    this.press();
    this.onSelect();
  }

  press() {
    byId("timeline").querySelectorAll(".slot").forEach((slot, i) => {
      slot.setAttribute("aria-pressed", i >= this.from && i <= this.to);
    });
  }

  // written is the range by the begins of its intervals, which stay when the page gets new ones.
  written() { return data.intervals[this.from].from + "-" + data.intervals[this.to].from; }

  // read takes a written range, if the page has its intervals.
  read(text) {
    const [from, to] = text.split("-").map((begin) => data.intervals.findIndex((interval) => interval.from === Number(begin)));
    if (from >= 0 && to >= from) [this.from, this.to] = [from, to];
  }

  whole() { return this.from === 0 && this.to === data.intervals.length - 1; }
}
