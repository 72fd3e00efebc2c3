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

// piped is the display of an output that is no terminal.
func piped(out io.Writer, rows int) display { return &printer{out: out, rows: rows} }

func TestParse(t *testing.T) {
	opts, err := parse([]string{"-dir", "/tmp/x", "-interval", "1s", "-n", "3", "-sort", "total", "-flamegraphs", "7", "-once"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{dir: "/tmp/x", interval: time.Second, rows: 3, byTotal: true, once: true, sampleType: "samples", graphs: flamegraph.Folder{Dir: "/tmp/x", Keep: 7}}, opts)

	opts, err = parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{dir: "./out", interval: 5 * time.Second, rows: 20, sampleType: "samples", graphs: flamegraph.Folder{Dir: "./out"}}, opts)

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
	path := filepath.Join(t.TempDir(), profilesFile)
	require.NoError(t, os.WriteFile(path, fixture(t), 0o600))
	var out bytes.Buffer
	opts := options{dir: filepath.Dir(path), interval: 100 * time.Millisecond, rows: 20, once: true}
	require.NoError(t, run(context.Background(), opts, piped(&out, opts.rows), time.Now))
	require.Equal(t, fixtureList+"\n", out.String())
}

// TestRunOnceOfNothing checks that what was asked for once does not wait for a Collector that may never come.
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
			path := filepath.Join(t.TempDir(), profilesFile)
			if test.content != nil {
				require.NoError(t, os.WriteFile(path, []byte(*test.content), 0o600))
			}
			var out bytes.Buffer
			opts := options{dir: filepath.Dir(path), interval: 100 * time.Millisecond, rows: 20, once: true}
			err := run(context.Background(), opts, piped(&out, opts.rows), time.Now)
			require.ErrorContains(t, err, "nothing to list in "+path+": "+test.want)
			require.Empty(t, out.String())
		})
	}

	// The first line is being written.
	path := filepath.Join(t.TempDir(), profilesFile)
	require.NoError(t, os.WriteFile(path, []byte(whole[:100]), 0o600))
	r := newRunner(options{dir: filepath.Dir(path), rows: 20, once: true}, piped(io.Discard, 20), start)
	defer r.close()
	done, err := r.step(start.Add(settle - 1))
	require.NoError(t, err)
	require.False(t, done)
	_, err = r.step(start.Add(settle))
	require.ErrorContains(t, err, "nothing to list in ")
}

func text(s string) *string { return &s }

// TestRunDraws checks that the flame graph of a list is of the same samples, and that lists go on without it.
func TestRunDraws(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, profilesFile)
	require.NoError(t, os.WriteFile(path, fixture(t), 0o600))
	var out bytes.Buffer
	opts := options{
		dir: dir, interval: 100 * time.Millisecond, rows: 20, once: true, graphs: flamegraph.Folder{Dir: dir, Keep: 1},
	}
	require.NoError(t, run(context.Background(), opts, piped(&out, opts.rows), time.Now))
	require.Equal(t, fixtureList+"flame graph: "+dir+"/flamegraph.html\n\n", out.String())
	page, err := os.ReadFile(filepath.Join(dir, "flamegraph.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), `"self":[0,0,0,0,700,150,150,1,`)

	out.Reset()
	opts.graphs.Dir = path
	require.ErrorContains(t, run(context.Background(), opts, piped(&out, opts.rows), time.Now), "creating the folder of flame graphs")
	require.Contains(t, out.String(), fixtureList+"no flame graph: creating the folder of flame graphs: ")
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &cancelling{cancel: cancel}
	opts := options{dir: t.TempDir(), interval: time.Second, rows: 1}
	require.NoError(t, run(ctx, opts, piped(out, opts.rows), time.Now))
	require.Equal(t, "waiting for the first profile in "+opts.file(profilesFile)+" …\n", out.text.String())
}

// cancelling ends a context when something is written.
type cancelling struct {
	text   bytes.Buffer
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	defer c.cancel()
	return c.text.Write(p)
}

func TestRunReportsErrors(t *testing.T) {
	opts := options{dir: t.TempDir(), interval: time.Second, rows: 1}
	require.NoError(t, os.Mkdir(opts.file(profilesFile), 0o700))
	require.ErrorContains(t, run(context.Background(), opts, piped(io.Discard, 20), time.Now), "reading a file that is followed: ")

	path := filepath.Join(t.TempDir(), profilesFile)
	require.NoError(t, os.WriteFile(path, fixture(t), 0o600))
	opts = options{dir: filepath.Dir(path), interval: 100 * time.Millisecond, rows: 1, once: true}
	require.ErrorContains(t, run(context.Background(), opts, piped(brokenPipe{}, 1), time.Now), "writing the list: broken")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken") }

// TestSteps goes through intervals by hand.
func TestSteps(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) { appendTo(t, filepath.Join(dir, profilesFile), text) }
	var out bytes.Buffer
	now := start.Add(10 * time.Second)
	r := newRunner(options{dir: dir, interval: 5 * time.Second, rows: 1}, piped(&out, 1), now)
	defer r.close()
	step := func(after time.Duration) string {
		out.Reset()
		now = now.Add(after)
		done, err := r.step(now)
		require.NoError(t, err)
		require.False(t, done)
		return out.String()
	}
	require.Equal(t, "waiting for the first profile in "+r.profiles.Path+" …\n", step(0))
	require.Empty(t, step(time.Second), "said once")
	write("[]\n")
	require.Contains(t, step(0), "… (not readable: 1 lines, the last: parsing OTLP JSON of 2 bytes: ")
	write("[]\n")
	require.Empty(t, step(0), "that too")
	r.top.bad = 0

	raw := string(fixture(t))
	first, second, _ := strings.Cut(raw, "\n")
	write(first + "\n" + second[:100])
	require.Empty(t, step(0), "the interval is not whole")
	write(second[100:])
	require.Empty(t, step(0), "more may follow at once")
	require.Contains(t, step(time.Second), "1,111 samples in 10s")
	require.Empty(t, step(time.Second))

	write(string(line(t, profile(1, "a", start.Add(10*time.Second), sample(2, nil)))))
	require.Empty(t, step(time.Second), "not due")
	require.Contains(t, step(4*time.Second), "09:00:15Z  2 samples in 5s", "counted anew")
	require.Empty(t, step(9*time.Second))
	require.Equal(t, "no new profiles since then\n", step(time.Second))
	require.Empty(t, step(time.Hour))

	write("{not json}\n" + string(line(t, profile(1, "a", start.Add(20*time.Second), sample(2, nil)))) + "{")
	require.Empty(t, step(0))
	require.Empty(t, step(settle-1))
	require.Contains(t, step(1), "not readable: 1 lines, the last: parsing OTLP JSON of 10 bytes: ",
		"a line that never ends does not hold the list back")
}

// TestLists checks that lists have requests, connections and triggers, too, where the Collector has written them.
func TestLists(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, filepath.Join(dir, profilesFile), string(fixture(t)))
	for _, name := range []string{metricsFile, logsFile} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		appendTo(t, filepath.Join(dir, name), string(text))
	}
	var out bytes.Buffer
	opts := options{dir: dir, interval: 100 * time.Millisecond, rows: 2, once: true}
	require.NoError(t, run(context.Background(), opts, piped(&out, opts.rows), time.Now))
	require.True(t, strings.HasPrefix(out.String(), strings.SplitAfter(fixtureList, "\n")[0]), out.String())
	require.Contains(t, out.String(), "\n  76.5    76.5       850  burn      demo[*] (demo)\n")
	require.Regexp(t, `(?m)^ .* srv  demo-shop +POST /pay .* 201×[0-9]+ 503×[0-9]+$`, out.String())
	require.Regexp(t, `(?m)http +demo-customer → demo-shop$`, out.String())
	require.Regexp(t, `(?m)^[0-9:]{8} off_cpu finished +slow-responses demo-shop 300 ≥ 100 http_avg_response_time$`, out.String())

	appendTo(t, filepath.Join(dir, metricsFile), "{not json}\n")
	out.Reset()
	require.NoError(t, run(context.Background(), opts, piped(&out, opts.rows), time.Now))
	require.Contains(t, out.String(), "not readable: 1 lines, the last: parsing metrics in OTLP JSON of 10 bytes: ")
}

// TestExcessIsShown checks that points which are left out are counted where the user sees it.
func TestExcessIsShown(t *testing.T) {
	r := newRunner(options{dir: t.TempDir()}, piped(io.Discard, 1), start)
	defer r.close()
	require.Empty(t, r.data().footer)
	r.overview.Excess = 1234
	require.Equal(t, "left out: 1,234 points of too many series", r.data().footer)
}

// appendTo writes at the end of a file, as the exporter does.
func appendTo(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
