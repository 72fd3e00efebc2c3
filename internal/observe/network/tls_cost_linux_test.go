// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// costRounds is how often each way is timed; costRequests how many requests a round has.
const costRounds, costRequests = 15, 800

// TestMeasureCostOfOpenSSL measures what a request through OpenSSL costs both its ends with the programs, against empty ones at the same functions
// and against none, in turns, and how long a run of the program takes by the kernel's statistics, of which some 45 ns are the statistics
// themselves. It checks only that the programs ran: machines differ.
func TestMeasureCostOfOpenSSL(t *testing.T) {
	cert, key := certificate(t)
	server := speak(t, "python3", "testdata/https.py", "server-memory", cert, key)
	client := speak(t, "python3", "testdata/https.py", "client-memory", server.line(), fmt.Sprint(costRequests))
	require.Equal(t, "ready", client.line())
	config, scope := tlsConfig(t)
	w := watch(t, config, nil)
	probes, err := kernel.NewUprobes("/sys")
	require.NoError(t, err)
	set := func(in bool) {
		for _, p := range []*speaker{server, client} {
			scope.set(p.PID(), in)
			w.Look(uint32(p.PID()))
		}
		require.Eventually(t, func() bool { return (w.tls.Functions() == 2*openSSLFunctions) == in && (w.tls.Functions() == 0) == !in },
			time.Minute, time.Millisecond)
		time.Sleep(300 * time.Millisecond) // links are detached asynchronously
	}
	timed := func() time.Duration {
		began := time.Now()
		require.Equal(t, costRequests, client.ask("/here"))
		return time.Since(began) / costRequests
	}
	library, entry := libssl(t), emptySession(t)
	var none, empty, ours []time.Duration
	for range costRounds {
		none = append(none, timed())
		detach := attachEmpty(t, probes, entry, library, server, client)
		empty = append(empty, timed())
		detach()
		set(true)
		ours = append(ours, timed())
		set(false)
	}
	w.settle()
	require.NotZero(t, w.tlsRequests(server, "server")["200"])
	set(true)
	perRun, perRequest := w.costOfTLS(func() { timed() })
	set(false)
	t.Logf("a run of the program takes %v; it runs %.1f times for a request, at both ends together", perRun, perRequest)
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, float64(ours[i])/float64(empty[i]))
	}
	slices.Sort(ratios)
	t.Logf("ours / empty of each round: median %.3f, quartiles %.3f and %.3f", ratios[costRounds/2], ratios[costRounds/4], ratios[3*costRounds/4])
	for name, list := range map[string][]time.Duration{"none": none, "empty": empty, "ours": ours} {
		slices.Sort(list)
		t.Logf("%-5s median %v, least %v, most %v per request", name, list[len(list)/2], list[0], list[len(list)-1])
	}
	t.Logf("ours / empty: median %.3f, least %.3f", float64(ours[costRounds/2])/float64(empty[costRounds/2]), float64(ours[0])/float64(empty[0]))
}

// costOfTLS returns how long a run of the program at a library's functions takes during a round, and how often it runs for a request.
func (w *watching) costOfTLS(round func()) (perRun time.Duration, perRequest float64) {
	w.t.Helper()
	statistics, err := kernel.EnableRunStats()
	require.NoError(w.t, err)
	program := w.coll.Programs[tlsTogether[false].program]
	before, err := program.Stats()
	require.NoError(w.t, err)
	round()
	after, err := program.Stats()
	require.NoError(w.t, err)
	require.NoError(w.t, statistics.Close())
	runs := after.RunCount - before.RunCount
	require.NotZero(w.t, runs)
	return (after.Runtime - before.Runtime) / time.Duration(runs), float64(runs) / costRequests
}

// libssl returns the path of the installed OpenSSL library.
func libssl(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob("/usr/lib/*/libssl.so.3")
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("OpenSSL 3 is not installed")
	}
	return paths[0]
}

// emptySession returns a program that does nothing, where a function begins and where it ends.
func emptySession(t *testing.T) *ebpf.Program {
	t.Helper()
	has, err := kernel.NewLoader().HasUprobeSession()
	require.NoError(t, err)
	if !has {
		t.Skip("the kernel has no sessions of uprobes (Linux 6.13)")
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "nothing", Type: ebpf.Kprobe, AttachType: kernel.AttachUprobeSession, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, program.Close()) })
	return program
}

func attachEmpty(t *testing.T, probes *kernel.Uprobes, program *ebpf.Program, library string, to ...*speaker) (detach func()) {
	t.Helper()
	file, err := os.Open(library)
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // only read
	stat, err := file.Stat()
	require.NoError(t, err)
	found, err := tls.Find(elfimage.Image{Src: file, Size: uint64(stat.Size())})
	require.NoError(t, err)
	var offsets []uint64
	for _, f := range found.Functions {
		offsets = append(offsets, f.Offset)
	}
	var attached []*kernel.Uprobe
	for _, s := range to {
		probe, err := probes.AttachMulti(kernel.AttachUprobeSession, program, library, offsets, nil, uint32(s.PID()))
		require.NoError(t, err)
		attached = append(attached, probe)
	}
	return func() {
		for _, probe := range attached {
			require.NoError(t, probe.Close())
		}
	}
}
