// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// hostile are names that would break out of a page that trusts them.
var hostile = []string{
	`</script><script>document.title="owned"</script>`,
	`<img src=x onerror="document.title='owned'">`,
	`--><!-- ]]>`,
	"\"'`\\ \u2028 \x00\x1b[2J @DATA@ @PAGE@ ${1} {{.}}",
	"not UTF-8: \xff\xfe",
}

func hostilePage(t *testing.T) string {
	var profiles []*model.Profile
	for _, name := range hostile {
		profiles = append(profiles, onCPU(name, sample(1, name, frame(model.FrameNative, name, 1))))
	}
	page, err := graph(t, profiles...).Page()
	require.NoError(t, err)
	return string(page)
}

// TestPageKeepsNamesIn checks that the page has as many elements as its skeleton whatever the names are, and that no
// name is changed but for what is no text.
func TestPageKeepsNamesIn(t *testing.T) {
	empty, err := (&Graph{}).Page()
	require.NoError(t, err)
	page := hostilePage(t)
	text := dataText(t, page)
	require.NotContains(t, text, "<")
	require.NotContains(t, text, "\u2028")
	require.Equal(t, skeletonOf(t, string(empty)), strings.Replace(page, text, "", 1))

	control := strings.NewReplacer("\x00", "\ufffd", "\x1b", "\ufffd") // which no message of ours has
	got := dataOf(t, page)
	for _, name := range hostile {
		require.Contains(t, got.Strings, control.Replace(strings.ToValidUTF8(name, "\ufffd")))
	}
}

// dataText is the JSON of a page.
func dataText(t *testing.T, page string) string {
	_, rest, found := strings.Cut(page, `<script type="application/json" id="data">`)
	require.True(t, found)
	text, _, found := strings.Cut(rest, `</script>`)
	require.True(t, found)
	return text
}

func dataOf(t *testing.T, page string) (out pageData) {
	require.NoError(t, json.Unmarshal([]byte(dataText(t, page)), &out))
	return out
}

func skeletonOf(t *testing.T, page string) string {
	const open, end = `id="data">`, `</script>`
	before, rest, found := strings.Cut(page, open)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	return before + open + end + after
}

// TestPageIsSelfContained checks that the page asks for nothing and may run only what is in it.
func TestPageIsSelfContained(t *testing.T) {
	page := hostilePage(t)
	require.NotRegexp(t, regexp.MustCompile(`<(?:script|img|link|iframe)[^>]*(?:src|href)=`), page)
	require.NotContains(t, page, "@import")
	require.NotContains(t, page, "://", "an address")
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, policy)
	require.Regexp(t, `^default-src 'none'; base-uri 'none'; form-action 'none'; `, policy[1])
	require.NotContains(t, policy[1], "unsafe")
	for element, pattern := range map[string]string{"script": `(?s)<script>(.*?)</script>`, "style": `(?s)<style>(.*?)</style>`} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1)
		require.Len(t, found, 1, element)
		require.Contains(t, policy[1], element+"-src "+digest(found[0][1]))
	}
	for _, placeholder := range []string{"@POLICY@", "@STYLE@", "@SCRIPT@"} {
		require.NotContains(t, page, placeholder)
	}
	require.Less(t, len(page), 64<<10)
}

// TestScriptsMakeNoMarkup checks that no script turns text into markup or code.
func TestScriptsMakeNoMarkup(t *testing.T) {
	for _, name := range scripts {
		text, err := assets.ReadFile("assets/" + name)
		require.NoError(t, err)
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setAttribute\("on|\.src\b|\.href\b|fetch\(`, string(text), name)
	}
}

// golden are profiles of each kind of box, in two intervals.
func golden(t *testing.T) []interval {
	main, work := frame(model.FrameGo, "main", 10), frame(model.FrameGo, "work", 20)
	script, read := frame("v8js", "script", 1), frame(model.FrameKernel, "read", 0)
	cut := sample(4, "worker", work)
	cut.Error = model.StackCut
	waits := onCPU("shop", sample(5e6, "worker", main))
	waits.SampleTypes[0], waits.PeriodType = model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}, model.ValueType{}
	slow := onCPU("pay", sample(1, "io", main, read))
	slow.Period = 19e6
	later := start.Add(5 * time.Second)
	third, fourth := onCPU("shop", sample(3, "worker", main, work), sample(32, "worker")), onCPU("pay", sample(7, "io", main, read))
	slow.Start, third.Start, fourth.Start = later, later, later
	first := graph(t, onCPU("shop", sample(1, "worker", main, work), sample(2, "worker", main, script, read), cut), waits)
	second := graph(t, third, slow, fourth)
	return []interval{first.interval(), second.interval()}
}

// TestGolden holds the data of a page: the same profiles make the same page. EBPFRECEIVER_RECORD=1 writes it anew.
func TestGolden(t *testing.T) {
	const file = "testdata/golden.json"
	got, err := page(golden(t))
	require.NoError(t, err)
	again, err := page(golden(t))
	require.NoError(t, err)
	require.Equal(t, string(again), string(got))
	if os.Getenv("EBPFRECEIVER_RECORD") != "" {
		require.NoError(t, os.WriteFile(file, []byte(dataText(t, string(got))), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), dataText(t, string(got)))
}

// TestOrderOfSamplesMakesNoDifference checks that boxes of equal values are ordered by their names.
func TestOrderOfSamplesMakesNoDifference(t *testing.T) {
	a, b := sample(5, "w", frame(model.FrameNative, "a", 1)), sample(5, "w", frame(model.FrameNative, "b", 1))
	c := sample(5, "x", frame(model.FrameNative, "a", 1))
	one, err := graph(t, onCPU("s", a, b, c)).Page()
	require.NoError(t, err)
	two, err := graph(t, onCPU("s", c, b, a)).Page()
	require.NoError(t, err)
	require.Equal(t, string(one), string(two))
}

// TestPeriod checks that the page has the time of each box, by one period where that is enough.
func TestPeriod(t *testing.T) {
	for _, c := range []struct {
		values, times []int64
		period        int64
		uniform       bool
	}{
		{values: []int64{0, 2, 3}, times: []int64{0, 18, 27}, period: 9, uniform: true},
		{values: []int64{0, 2, 3}, times: []int64{0, 0, 0}, uniform: true},
		{values: []int64{2, 3}, times: []int64{18, 26}},
		{values: []int64{2, 3}, times: []int64{18, 0}},
		{values: []int64{2, 3}, times: []int64{0, 27}},
		{values: []int64{2, 2}, times: []int64{18, 20}},
		{values: []int64{0}, times: []int64{1}},
		{uniform: true},
	} {
		period, uniform := drawing{values: c.values, times: c.times}.period()
		require.Equal(t, c.uniform, uniform, "%+v", c)
		require.Equal(t, c.period, period, "%+v", c)
	}
}
