// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/flamegraph"
)

// piped is a screen that is no terminal.
func piped(out io.Writer) *screen {
	return &screen{out: out, size: func() (int, int, bool) { return 0, 0, false }}
}

func TestParse(t *testing.T) {
	opts, err := parse([]string{"-dir", "/tmp/x", "-interval", "1s", "-n", "3", "-sort", "total", "-flamegraphs", "7", "-once"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{path: "/tmp/x/profiles.json", interval: time.Second, rows: 3, byTotal: true, once: true, graphs: flamegraph.Folder{Dir: "/tmp/x", Keep: 7}}, opts)

	opts, err = parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{path: "out/profiles.json", interval: 5 * time.Second, rows: 20, graphs: flamegraph.Folder{Dir: "./out"}}, opts)

	for want, args := range map[string][]string{
		`unexpected argument "x"`:               {"x"},
		"-interval 1ms: must be at least 100ms": {"-interval", "1ms"},
		"-n 0: must be 1 to 1000":               {"-n", "0"},
		"-flamegraphs -1: must be 0 to 1000":    {"-flamegraphs", "-1"},
		"-sort name: must be self or total":     {"-sort", "name"},
		"flag provided but not defined: -z":     {"-z"},
	} {
		_, err := parse(args, io.Discard)
		require.EqualError(t, err, want)
	}
	var usage bytes.Buffer
	_, err = parse([]string{"-h"}, &usage)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, usage.String(), "-once")
}

func TestRunOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	require.NoError(t, os.WriteFile(path, fixture(t), 0o600))
	var out bytes.Buffer
	opts := options{path: path, interval: 100 * time.Millisecond, rows: 20, once: true}
	require.NoError(t, run(context.Background(), opts, piped(&out), time.Now))
	require.Equal(t, fixtureList+"\n", out.String())
}

// TestRunOnceOfNothing holds that what was asked for once does not wait for a Collector that may never come.
func TestRunOnceOfNothing(t *testing.T) {
	const unwritten = "the Collector has written no profile there; name the folder of its file exporter with -dir"
	whole := string(fixture(t))
	for name, test := range map[string]struct {
		content *string
		want    string
	}{
		"no file":    {nil, unwritten},
		"empty file": {new(string), unwritten},
		"no OTLP":    {text("[]\n"), "not readable: 1 lines, the last: parsing OTLP JSON of 2 bytes: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), fileName)
			if test.content != nil {
				require.NoError(t, os.WriteFile(path, []byte(*test.content), 0o600))
			}
			var out bytes.Buffer
			opts := options{path: path, interval: 100 * time.Millisecond, rows: 20, once: true}
			err := run(context.Background(), opts, piped(&out), time.Now)
			require.ErrorContains(t, err, "nothing to list in "+path+": "+test.want)
			require.Empty(t, out.String())
		})
	}

	// The first line is being written.
	path := filepath.Join(t.TempDir(), fileName)
	require.NoError(t, os.WriteFile(path, []byte(whole[:100]), 0o600))
	r := &runner{opts: options{path: path, rows: 20, once: true}, out: piped(io.Discard), follow: follower{path: path}, top: newTop(start), due: start}
	defer r.follow.close()
	done, err := r.step(start.Add(settle - 1))
	require.NoError(t, err)
	require.False(t, done)
	_, err = r.step(start.Add(settle))
	require.ErrorContains(t, err, "nothing to list in ")
}

func text(s string) *string { return &s }

// TestRunDraws holds that the flame graph of a list is of the same samples, and that lists go on without it.
func TestRunDraws(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	require.NoError(t, os.WriteFile(path, fixture(t), 0o600))
	var out bytes.Buffer
	opts := options{
		path: path, interval: 100 * time.Millisecond, rows: 20, once: true, graphs: flamegraph.Folder{Dir: dir, Keep: 1},
	}
	require.NoError(t, run(context.Background(), opts, piped(&out), time.Now))
	require.Equal(t, fixtureList+"flame graph: "+dir+"/flamegraph.html\n\n", out.String())
	page, err := os.ReadFile(filepath.Join(dir, "flamegraph.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), `"values":[1111,`)

	out.Reset()
	opts.graphs.Dir = path
	require.ErrorContains(t, run(context.Background(), opts, piped(&out), time.Now), "creating the folder of flame graphs")
	require.Contains(t, out.String(), fixtureList+"no flame graph: creating the folder of flame graphs: ")
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	opts := options{path: filepath.Join(t.TempDir(), fileName), interval: time.Second, rows: 1}
	require.NoError(t, run(ctx, opts, piped(&out), time.Now))
	require.Equal(t, "waiting for the first profile in "+opts.path+" …\n", out.String())
}

func TestRunReportsErrors(t *testing.T) {
	opts := options{path: t.TempDir(), interval: time.Second, rows: 1}
	require.ErrorContains(t, run(context.Background(), opts, piped(io.Discard), time.Now), "reading profiles: ")

	path := filepath.Join(t.TempDir(), fileName)
	require.NoError(t, os.WriteFile(path, fixture(t), 0o600))
	opts = options{path: path, interval: 100 * time.Millisecond, rows: 1, once: true}
	require.ErrorContains(t, run(context.Background(), opts, piped(brokenPipe{}), time.Now), "writing the list: broken")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken") }

// TestSteps goes through intervals by hand.
func TestSteps(t *testing.T) {
	j := newJournal(t)
	var out bytes.Buffer
	now := start.Add(10 * time.Second)
	r := &runner{
		opts: options{path: j.path, interval: 5 * time.Second, rows: 1}, out: piped(&out),
		follow: follower{path: j.path}, top: newTop(start), due: now,
	}
	defer r.follow.close()
	step := func(after time.Duration) string {
		out.Reset()
		now = now.Add(after)
		done, err := r.step(now)
		require.NoError(t, err)
		require.False(t, done)
		return out.String()
	}
	require.Equal(t, "waiting for the first profile in "+j.path+" …\n", step(0))
	require.Empty(t, step(time.Second), "said once")
	j.write("[]\n")
	require.Contains(t, step(0), "… (not readable: 1 lines, the last: parsing OTLP JSON of 2 bytes: ")
	j.write("[]\n")
	require.Empty(t, step(0), "that too")
	r.top.bad = 0

	raw := string(fixture(t))
	first, second, _ := strings.Cut(raw, "\n")
	j.write(first + "\n" + second[:100])
	require.Empty(t, step(0), "the interval is not whole")
	j.write(second[100:])
	require.Empty(t, step(0), "more may follow at once")
	require.Contains(t, step(time.Second), "1,111 samples in 10s")
	require.Empty(t, step(time.Second))

	j.write(string(line(t, profile(1, "a", start.Add(10*time.Second), sample(2, nil)))))
	require.Empty(t, step(time.Second), "not due")
	require.Contains(t, step(4*time.Second), "09:00:15Z  2 samples in 5s", "counted anew")
	require.Empty(t, step(9*time.Second))
	require.Equal(t, "no new profiles since then\n", step(time.Second))
	require.Empty(t, step(time.Hour))

	j.write("{not json}\n" + string(line(t, profile(1, "a", start.Add(20*time.Second), sample(2, nil)))) + "{")
	require.Empty(t, step(0))
	require.Empty(t, step(settle-1))
	require.Contains(t, step(1), "not readable: 1 lines, the last: parsing OTLP JSON of 10 bytes: ",
		"a line that never ends does not hold the list back")
}

func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, size: func() (int, int, bool) { return 60, 7, true }}
	require.NoError(t, s.list(fixtureTop(t), 20, false, ""))
	first := out.String()
	require.True(t, strings.HasPrefix(first, ansiEraseAll+ansiHome+"09:00:10"))
	require.True(t, strings.HasSuffix(first, ansiLineEnd+"\n"+ansiBelow))
	require.Equal(t, 4, strings.Count(first, "\n"), "two lines of header and two rows")

	out.Reset()
	require.NoError(t, s.list(fixtureTop(t), 20, false, ""))
	require.Equal(t, strings.TrimPrefix(first, ansiEraseAll), out.String(), "redrawn in place")

	out.Reset()
	require.NoError(t, s.list(fixtureTop(t), 20, false, "flame graph: /a/rather/long/path/that/does/not/fit/onto/this/line/of/it"))
	require.Equal(t, 4, strings.Count(out.String(), "\n"), "a row made room")
	require.Contains(t, out.String(), "\nflame graph: /a/rather/long/path/that/does/not/fit/onto/th…"+ansiLineEnd)
}

func TestTerminalSizeOfAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	_, _, ok := terminalSize(f)
	require.False(t, ok)
	require.NotNil(t, newScreen(f))
}
