// SPDX-License-Identifier: Apache-2.0

//go:build browser

// These tests let Chromium draw pages, which says what a browser makes of them: `make test-page`.
package flamegraph

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// rows are those of the table, with one space between their texts.
func (b *tab) rows() (out []string) {
	b.t.Helper()
	text := b.text(`[...document.querySelectorAll("#rows tr")].map((row) => [...row.cells].flatMap((cell) => [...cell.childNodes])
		.map((node) => node.textContent).join(" ")).join("\n")`)
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

// TestBrowserRunsNoName checks that names that would break out of a page are text.
func TestBrowserRunsNoName(t *testing.T) {
	b := newTab(t)
	hostileHash := "query=%3Cimg%20src=x%3E&function=%3Cimg%3E&theme=%22onload=&service=%3Cimg%3E&type=9&range=7-3"
	for _, hash := range []string{"", hostileHash} {
		b.open([]byte(hostilePage(t)), hash)
		require.Equal(t, "Flame graph 2026-11-21 09:00:00Z – 09:00:05Z", b.text("document.title"), "no name ran")
		require.Contains(t, b.shown("notes"), "5 samples, 45.0 ms of CPU time")
		require.Equal(t, "0", b.text(`document.querySelectorAll("img, script[src], iframe, object, link, style:not(:first-of-type)").length`))
		require.Equal(t, "2", b.text(`document.scripts.length`))
	}
	b.open([]byte(hostilePage(t)), "")
	require.Len(t, b.rows(), len(hostile))
	require.Contains(t, b.shown("rows"), hostile[0])
	require.Contains(t, b.shown("service"), hostile[1])
	for range 4 { // all, service, thread, function
		b.text(`document.getElementById("scroll").focus()`)
		b.press("ArrowDown")
	}
	require.Contains(t, b.shown("status"), "Total: 1 sample, 9.00 ms of CPU time (20.00 %)")
	require.Empty(t, b.errors)
}

func goldenPage(t *testing.T) []byte {
	text, err := page(golden(t))
	require.NoError(t, err)
	return text
}

// TestBrowserMerges holds what is counted for a choice of intervals, services, threads and types. The numbers are those
// of the profiles of golden, added up by hand.
func TestBrowserMerges(t *testing.T) {
	b := newTab(t)
	begin := fmt.Sprint(start.Add(5 * time.Second).UnixMilli())
	second := "range=" + begin + "-" + begin
	for _, c := range []struct {
		hash, notes, found string
		rows               []string
	}{
		{hash: "", notes: "50 samples, 460 ms of CPU time · sampling period 9.00 ms to 9.23 ms · all 2 intervals", rows: []string{
			"[no stack] 288 ms 62.6 % 288 ms 62.6 %", "read 100 ms 21.7 % 100 ms 21.7 %", "work 72.0 ms 15.7 % 72.0 ms 15.7 %",
			"main 0 0.0 % 136 ms 29.6 %", "[stack not whole: max_depth] 0 0.0 % 36.0 ms 7.8 %", "script 0 0.0 % 18.0 ms 3.9 %",
		}},
		{hash: second + "&compare=1", notes: "43 samples, 397 ms of CPU time · sampling period 9.23 ms · 1 of 2 intervals", rows: []string{
			"[no stack] 288 ms 72.5 % 288 ms 72.5 % +72.54", "read 82.0 ms 20.7 % 82.0 ms 20.7 % −7.92", "work 27.0 ms 6.8 % 27.0 ms 6.8 % −64.63",
			"main 0 0.0 % 109 ms 27.5 % 0.00", "[stack not whole: max_depth] 0 0.0 % 0 0.0 % 0.00", "script 0 0.0 % 0 0.0 % 0.00",
		}},
		{hash: "type=off_cpu", notes: "5.00 ms (5,000,000 ns) · all 2 intervals", rows: []string{"main 5.00 ms 100 % 5.00 ms 100 %"}},
		{hash: "service=pay", notes: "8 samples, 82.0 ms of CPU time", rows: []string{
			"read 82.0 ms 100 % 82.0 ms 100 %", "main 0 0.0 % 82.0 ms 100 %",
		}},
		{hash: "query=MAI", found: "2 boxes, 29.57 %, 136 ms", rows: []string{"main 0 0.0 % 136 ms 29.6 %"}},
		{hash: "query=main&by-service=0&by-thread=0", found: "1 box, 29.57 %, 136 ms", rows: []string{"main 0 0.0 % 136 ms 29.6 %"}},
		{hash: "query=main&function=work", found: "work: 2 boxes, 15.65 %, 72.0 ms", rows: []string{"main 0 0.0 % 136 ms 29.6 %"}},
	} {
		b.open(goldenPage(t), c.hash)
		require.Equal(t, c.rows, b.rows(), c.hash)
		require.Contains(t, b.shown("notes"), c.notes, c.hash)
		require.Equal(t, c.found, b.shown("found"), c.hash)
	}
}

// TestBrowserShowsCPUTimeFirst checks that a page opens with CPU time, whichever type of samples came first.
func TestBrowserShowsCPUTimeFirst(t *testing.T) {
	wait := onCPU("shop", sample(1000, "worker"))
	wait.SampleTypes[0], wait.PeriodType = model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}, model.ValueType{}
	text, err := graph(t, wait, onCPU("shop", sample(7, "worker"))).Page()
	require.NoError(t, err)
	b := newTab(t)
	b.open(text, "")
	require.Contains(t, b.shown("notes"), "7 samples")
	b.open(text, "type=off_cpu")
	require.Contains(t, b.shown("notes"), "1.00 µs (1,000 ns)")
}

// TestBrowserSaysThatThereIsNothing checks that a page without samples is no blank one.
func TestBrowserSaysThatThereIsNothing(t *testing.T) {
	empty, err := (&Graph{}).Page()
	require.NoError(t, err)
	b := newTab(t)
	visible := func() string {
		return b.text(`document.getElementById("empty").checkVisibility() && document.getElementById("empty").textContent`)
	}
	b.open(empty, "")
	require.Equal(t, "No samples were taken in this time.", visible())
	b.open(goldenPage(t), "service=pay&thread=worker")
	require.Contains(t, visible(), "No samples of this service and thread")
	b.text(`document.getElementById("reset").click()`)
	require.Equal(t, "false", visible())
}

// TestBrowserDrawsHugePages checks that 100,000 stacks are drawn within a bound of time and memory.
func TestBrowserDrawsHugePages(t *testing.T) {
	g := hugeGraph(100_000)
	began := time.Now()
	text, err := g.Page()
	require.NoError(t, err)
	encoded := time.Since(began)
	b := newTab(t)
	b.open(text, "")
	ms, err := strconv.Atoi(b.text("document.documentElement.dataset.drawn"))
	require.NoError(t, err)
	took := func(action string) string {
		return b.text("(() => { const from = performance.now(); " + action + "; return Math.round(performance.now() - from); })()")
	}
	search := took(`document.getElementById("search").value = "leaf_1"; document.getElementById("search").dispatchEvent(new Event("input"))`)
	redraw := took(`document.getElementById("flame").click()`)
	t.Logf("%d boxes: page of %.1f MB written in %v, drawn after %d ms, searched in %s ms, turned in %s ms, %d MiB resident",
		g.interval().boxes(), float64(len(text))/1e6, encoded, ms, search, redraw, b.memory()>>20)
	require.Less(t, ms, 10_000)
	require.Less(t, b.memory(), int64(1<<30))
	require.NotContains(t, b.shown("notes"), "“(other)”", "all are drawn")
}

// hugeGraph has n stacks of which no two are equal: 20 frames deep, with shared callers.
func hugeGraph(n int) *Graph {
	g := &Graph{from: start, to: start.Add(5 * time.Second), left: &budget{maxBuilt, maxTexts}}
	tree := newTree(model.ValueType{Type: "samples", Unit: "count"}, g.left)
	for i := range n {
		steps := []step{{label: label{kind: kindService, name: "shop"}}, {label: label{kind: kindThread, name: "worker"}}}
		for d, index := 0, i; d < 20; d++ {
			kind := kindNative
			if d > 16 {
				kind = kindKernel
			}
			name := fmt.Sprintf("handler%d_%d", d, index%7)
			if d == 19 {
				name = fmt.Sprintf("leaf_%d", i%5000)
			}
			steps = append(steps, step{label: label{kind: kind, name: name, binary: "/usr/bin/shop"}})
			if d > 12 {
				index /= 7
			}
		}
		tree.add(steps, weight{int64(1 + i%13), int64(1+i%13) * 9e6})
	}
	g.trees = append(g.trees, tree)
	return g
}

// TestBrowserDrawsTheRootInView checks that a page is not blank at first sight, however deep a rare stack is: the root is
// in view, root on top and root at the bottom.
func TestBrowserDrawsTheRootInView(t *testing.T) {
	var deep []*model.Frame
	for i := range 200 {
		deep = append(deep, frame(model.FrameNative, fmt.Sprint("f", i), 1))
	}
	text, err := graph(t, onCPU("s", sample(5, "w", deep...), sample(900, "w", deep[:8]...))).Page()
	require.NoError(t, err)
	b := newTab(t)
	for _, size := range [][2]int{{1400, 900}, {390, 844}} {
		b.size(size[0], size[1])
		for hash, y := range map[string]string{"": "stage.top + 10", "flame=1": "stage.bottom - 10"} {
			b.open(text, hash)
			where := b.text(`(() => {
				const stage = document.getElementById("scroll").getBoundingClientRect();
				const pixel = document.getElementById("canvas").getContext("2d").getImageData(stage.width / 2, ` + y + ` - stage.top, 1, 1).data;
				return [pixel.join(), stage.top >= 0 && stage.bottom <= innerHeight, document.documentElement.scrollHeight <= innerHeight].join(" ");
			})()`)
			require.NotContains(t, where, "255,255,255,255", "the background")
			require.Contains(t, where, "true true", "%v %s: the page itself does not scroll", size, hash)
			before := b.text(`document.getElementById("scroll").scrollTop`)
			b.text(`document.getElementById("search").value = "f150"; document.getElementById("search").dispatchEvent(new Event("input"))`)
			require.NotEqual(t, before, b.text(`document.getElementById("scroll").scrollTop`), "what is found comes into view")
		}
	}
}

// TestBrowserKeepsTheRootInView checks that a flame graph shows its root after the window became lower.
func TestBrowserKeepsTheRootInView(t *testing.T) {
	var deep []*model.Frame
	for i := range 100 {
		deep = append(deep, frame(model.FrameNative, fmt.Sprint("f", i), 1))
	}
	text, err := graph(t, onCPU("s", sample(5, "w", deep...))).Page()
	require.NoError(t, err)
	b := newTab(t)
	b.open(text, "flame=1")
	b.size(1400, 500)
	// A frame later the observer of sizes was called.
	below := b.wait(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
		const pane = document.getElementById("scroll");
		done(Math.round(pane.scrollHeight - pane.scrollTop - pane.clientHeight));
	})))`)
	require.Equal(t, "0", below)
}

// TestBrowserKeys holds what the keyboard does.
func TestBrowserKeys(t *testing.T) {
	b := newTab(t)
	b.open(goldenPage(t), "")
	b.press("/")
	require.Equal(t, "search", b.text("document.activeElement.id"))
	for _, key := range []string{"r", "e", "a"} {
		b.press(key)
	}
	require.Equal(t, "2 boxes, 21.74 %, 100 ms", b.shown("found"))
	b.press("Enter")
	require.Equal(t, "scroll", b.text("document.activeElement.id"))
	b.press("Escape")
	require.Empty(t, b.shown("found"))
	for _, key := range []string{"ArrowDown", "ArrowDown", "ArrowRight"} { // all, shop, pay
		b.press(key)
	}
	require.Equal(t, "pay · Total: 8 samples, 82.0 ms of CPU time (17.83 %) · Self: 0 samples (0.00 %)", b.shown("status"))
	for _, key := range []string{"ArrowDown", "ArrowDown", "Enter"} { // io, main: zoomed in
		b.press(key)
	}
	require.Contains(t, b.shown("status"), "main · Total: 8 samples")
	require.Equal(t, "false", b.text(`document.getElementById("reset").disabled`))
	b.press("ArrowUp")
	b.press("ArrowLeft") // the worker of shop, which is zoomed out to
	require.Contains(t, b.shown("status"), "worker · Total: 42 samples")
	b.press("Escape")
	require.Equal(t, "true", b.text(`document.getElementById("reset").disabled`))
	require.Empty(t, b.errors)
}

// TestBrowserMouse checks that clicks zoom, sort, highlight and select intervals.
func TestBrowserMouse(t *testing.T) {
	b := newTab(t)
	b.open(goldenPage(t), "")
	at := func(selector string) (x, y float64) {
		_, err := fmt.Sscan(b.text(`(() => { const r = document.querySelector(`+strconv.Quote(selector)+`).getBoundingClientRect();
			return r.left + r.width / 2 + " " + (r.top + Math.min(10, r.height / 2)); })()`), &x, &y)
		require.NoError(t, err)
		return x, y
	}
	b.click(at(`th[data-sort="total"] button`))
	require.Regexp(t, `^\[no stack\]`, b.rows()[0])
	require.Regexp(t, `^main `, b.rows()[1])
	b.click(at(`th[data-sort="name"] button`))
	require.Regexp(t, `^\[no stack\]`, b.rows()[0])
	b.click(at(`tr:last-child td button`))
	require.Equal(t, "work: 2 boxes, 15.65 %, 72.0 ms", b.shown("found"))
	b.click(at(`tr:last-child td button`))
	require.Empty(t, b.shown("found"))
	b.click(at(`.slot`))
	require.Contains(t, b.shown("notes"), "7 samples, 63.0 ms of CPU time · sampling period 9.00 ms · 1 of 2 intervals")
	b.click(at(`.all`))
	require.Contains(t, b.shown("notes"), "50 samples")
	x, y := at(`#scroll`)
	b.click(x, y+20) // shop
	require.Contains(t, b.shown("tip"), "shop")
	require.Contains(t, b.shown("tip"), "Total: 42 samples, 378 ms of CPU time (82.17 %)")
	require.Equal(t, "false", b.text(`document.getElementById("reset").disabled`))
	before := b.text("document.documentElement.dataset.theme")
	b.click(at(`#theme`))
	require.NotEqual(t, before, b.text("document.documentElement.dataset.theme"))
	require.Equal(t, "rgb(22, 25, 29)", b.text("getComputedStyle(document.body).backgroundColor"))
	require.Empty(t, b.errors)
}
