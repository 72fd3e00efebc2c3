// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

func narrowed(pattern string, list ...string) Rule {
	r := Rule{Monitor: monitor.HTTPErrorRate, Threshold: 1, Period: 10, Count: 1, Paths: list}
	if pattern != "" {
		r.Pattern = regexp.MustCompile(pattern)
	}
	return r
}

// TestPathsAreFound holds that what is remembered of a path is what each rule says of it, however many there are.
func TestPathsAreFound(t *testing.T) {
	rules := []Rule{narrowed("^/a"), narrowed("", "/a/1", "/b/2"), narrowed(""), {Monitor: monitor.ProcessCPU, Period: 1, Count: 1}, narrowed("^/a"), narrowed("7$"), narrowed("", "/a/1", "/b/2")}
	p := makePaths(rules)
	require.Equal(t, 3, p.narrowed, "each narrowing is looked at once")
	draw := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		path, begins := []byte(fmt.Sprintf("/%c/%d", 'a'+draw.IntN(3), draw.IntN(300))), draw.IntN(2) == 0
		found, _, ok := p.find(rules, append([]byte{begun(begins)}, path...), path, begins, 3)
		require.True(t, ok)
		for i := range rules {
			want := noPlace
			if window, counts := rules[i].window(path, begins); counts && rules[i].Monitor.OfRequests() {
				want = window
			}
			require.Equal(t, want, int(found[i]), "%s %v: rule %d", path, begins, i)
		}
		require.LessOrEqual(t, len(p.known), maxPaths)
		require.LessOrEqual(t, len(p.before), maxPaths)
	}
	bytes := 0
	for _, of := range []map[string]places{p.known, p.before} {
		for key, found := range of {
			bytes += pathEntry + len(key) + len(found)
		}
	}
	require.Equal(t, bytes, p.bytes)

	before := len(p.known)
	long := []byte("/a" + strings.Repeat("x", maxPathBytes))
	_, matches, ok := p.find(rules, append([]byte("="), long...), long, false, maxMatches)
	require.True(t, ok)
	require.Equal(t, 3*(1+len(long)/matchBytes), matches)
	require.Len(t, p.known, before, "long paths are not remembered")
}

// TestPathsThatAreRememberedCostNothing holds that a path is matched once however often it is asked for.
func TestPathsThatAreRememberedCostNothing(t *testing.T) {
	rules := []Rule{narrowed("^/a"), narrowed("b$")}
	p := makePaths(rules)
	total := 0
	for range 1000 {
		for i := range maxPaths / 2 {
			path := fmt.Sprintf("/a/%d/b", i)
			_, matches, ok := p.find(rules, []byte("="+path), []byte(path), false, 2)
			require.True(t, ok)
			total += matches
		}
	}
	require.Equal(t, maxPaths, total)
	path := []byte("/a/0/b")
	key := append([]byte("="), path...)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.find(rules, key, path, false, 0) }))
}

// TestManyPathsAreShed holds that paths that are all different are matched only so often in a second, that the rest is counted as lost,
// and that rules for all paths see every request.
func TestManyPathsAreShed(t *testing.T) {
	all := narrowed("")
	rules := []Rule{all}
	for i := range 19 {
		rules = append(rules, narrowed(fmt.Sprintf("^/%d/", i)))
	}
	h := newHost(t, Policy{When: rules})
	p := process(7)
	h.watch.Add(p, []int{0})
	const requests = 1500
	within := uint64(maxMatches / 19)
	for second := range uint64(2) {
		for i := range requests {
			h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte(fmt.Sprintf("/x/%d/%d", second, i)), Status: 200})
		}
		h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/1/"), Status: 200})
		window := &h.watch.members[p.ID].subjects[0].windows[0][0]
		require.InDelta(t, requests+1, window.cells[place(h.second+1, LateBy)].n, 0)
		require.Empty(t, h.tick(time.Second))
		require.Equal(t, (requests+1-within)*(second+1), h.watch.Stats().Unmatched)
	}
}
