// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-split", "engine=3", "-split", "network=2", "-skip", "^TestMeasure", "./..."})
	require.NoError(t, err)
	require.Equal(t, []split{{"engine", 3}, {"network", 2}}, o.split)
	require.Equal(t, "auto", o.race)
	for _, args := range [][]string{{}, {"-split", "engine", "x"}, {"-split", "engine=0", "x"}, {"-race", "maybe", "x"}, {"-run", "(", "x"}, {"-repeat", "0", "x"}, {"-parallel", "0", "x"}} {
		_, err := parse(args)
		require.Error(t, err, "%v", args)
	}
	t.Setenv("STRICT", "1")
	o, err = parse([]string{"x"})
	require.NoError(t, err)
	require.True(t, o.strict)
}

func TestWhatIsConcurrent(t *testing.T) {
	for source, want := range map[string]bool{
		"package a; import \"sync\"; var m sync.Mutex":                true,
		"package a; import \"sync/atomic\"; var n atomic.Int64":       true,
		"package a; func f() { for { if true { go f() } } }":          true,
		"package a; import \"strings\"; var s = strings.Fields(\"\")": false,
	} {
		got, err := isConcurrent("a.go", source)
		require.NoError(t, err)
		require.Equal(t, want, got, source)
	}
	_, err := isConcurrent("a.go", "package")
	require.Error(t, err)
}

func TestBatchesHaveNoNameTwice(t *testing.T) {
	var list []*pkg
	for _, dir := range []string{"a/e2e", "b/e2e", "c/engine", "d/proc"} {
		list = append(list, &pkg{Dir: dir, race: strings.HasPrefix(dir, "c"), parts: 1})
	}
	var got []string
	for _, b := range batches(list, 0) {
		text := fmt.Sprint(b.race)
		for _, p := range b.packages {
			text += " " + p.Dir
		}
		got = append(got, text)
	}
	require.Equal(t, []string{"false a/e2e d/proc", "false b/e2e", "true c/engine"}, got)
}

func TestBatchOfWhatRunsFirst(t *testing.T) {
	found := batches([]*pkg{{Dir: "e2e"}, {Dir: "engine", rank: 1}, {Dir: "proc", rank: 2}}, 2)
	require.Len(t, found, 2)
	require.Len(t, found[0].packages, 2)
	require.Equal(t, "proc", found[1].packages[0].Dir)
}

func TestDeal(t *testing.T) {
	names, err := selectTests("TestA\nTestMeasureB\nwhat TestMain prints\nFuzzC\nBenchmarkD\nExampleE\n", "^TestMeasure")
	require.NoError(t, err)
	require.Equal(t, []string{"TestA", "FuzzC", "ExampleE"}, names)
	units := deal(&pkg{parts: 2}, "", names)
	require.Len(t, units, 2)
	require.Equal(t, []string{"TestA", "ExampleE"}, units[0].tests)
	require.Equal(t, []string{"FuzzC"}, units[1].tests)
	require.Empty(t, deal(&pkg{parts: 2}, "", nil), "no process without a test")
}

func TestReadLines(t *testing.T) {
	var got []string
	readLines(strings.NewReader("\x16=== RUN   TestA\nno line feed\x16--- PASS: TestA (0.00s)\n\nend"), func(line string) { got = append(got, line) })
	require.Equal(t, []string{"=== RUN   TestA", "no line feed", "--- PASS: TestA (0.00s)", "end"}, got)
}

func TestLoad(t *testing.T) {
	before := parseLoad("cpu  100 0 50 1000 10 0 0 5 0 0\ncpu0 1")
	require.Equal(t, load{busy: 150, idle: 1010, steal: 5}, before)
	after := parseLoad("cpu  200 0 50 1090 10 0 0 15 0 0\n")
	before.at, after.at = time.Unix(0, 0), time.Unix(2, 0)
	before.waited, before.pressure = parsePressure("some avg10=0.00 avg60=1.00 avg300=2.00 total=1000000\nfull avg10=0")
	after.waited, after.pressure = parsePressure("some avg10=0.00 avg60=1.00 avg300=2.00 total=1500000\n")
	require.Regexp(t, "^[0-9]+ CPUs, busy 50 % of the time, taken by other guests \\(steal\\) 5.0 %, a process waited for a CPU 25 % of the time$", after.since(before).String())
	require.Equal(t, "its load is unknown", parseLoad("").since(parseLoad("")).String())
	_, known := parsePressure("")
	require.False(t, known)
}

// execute runs tests of testdata/sample.
func execute(t *testing.T, args ...string) (passed bool, out string) {
	t.Helper()
	var buf bytes.Buffer
	o, err := parse(append(args, "./testdata/sample"))
	require.NoError(t, err)
	o.out = &buf
	passed, err = o.execute(t.Context())
	require.NoError(t, err)
	return passed, buf.String()
}

func TestHowTestsEnd(t *testing.T) {
	passed, out := execute(t, "-run", "^Test(Passes|Skips)$", "-split", "sample=2")
	require.True(t, passed, out)
	require.Contains(t, out, "testdata/sample (1/2)")
	require.Contains(t, out, "testdata/sample (2/2)")
	require.Contains(t, out, "  there is no moon\n    internal/testrun/testdata/sample TestSkips\n")
	require.Contains(t, out, "testrun: 2 passed, 0 failed, 1 skipped", "the test and its part")

	passed, out = execute(t, "-strict", "-run", "^TestSkips$")
	require.False(t, passed, out)
	require.Contains(t, out, "1 tests were skipped, and STRICT=1 allows none")

	passed, out = execute(t, "-run", "^Test(Passes|Fails)$")
	require.False(t, passed, out)
	require.Regexp(t, `--- FAIL: TestFails/part \([0-9.]+s\) of internal/testrun/testdata/sample\n    sample_test.go:18: two is not three\n`, out)
	require.Contains(t, out, "testrun: failed: internal/testrun/testdata/sample TestFails\n")

	for name, text := range map[string]string{"TestPanics": "panic: out of luck", "TestExits": "did not end", "TestHangs": "panic: test timed out after 100ms"} {
		timeout := "1h"
		if name == "TestHangs" {
			timeout = "100ms"
		}
		passed, out = execute(t, "-timeout", timeout, "-run", "^"+name+"$")
		require.False(t, passed, out)
		require.Contains(t, out, text)
		require.Contains(t, out, "testrun: failed: internal/testrun/testdata/sample "+name)
	}
}

func TestRepeated(t *testing.T) {
	t.Setenv("SAMPLE_FILE", filepath.Join(t.TempDir(), "first"))
	passed, out := execute(t, "-repeat", "3", "-run", "^Test(FailsAtFirst|Skips)$")
	require.True(t, passed, out)
	require.Contains(t, out, "   2 of  3     internal/testrun/testdata/sample TestFailsAtFirst\n")
	require.Contains(t, out, "  skipped      internal/testrun/testdata/sample TestSkips\n")
	require.Contains(t, out, "Machine: ")

	passed, out = execute(t, "-repeat", "2", "-run", "^Test(Fails|Passes)$")
	require.False(t, passed, out)
	require.Contains(t, out, "passed 0 of 2 times")
}

func TestUnknownPackageInSplit(t *testing.T) {
	o, err := parse([]string{"-split", "moon=2", "./testdata/sample"})
	require.NoError(t, err)
	_, err = o.execute(t.Context())
	require.ErrorContains(t, err, "-split moon: no such package")
}
