// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestMeasureExec holds that what a process did before and after an exec is attributed to the program that did it.
func TestMeasureExec(t *testing.T) {
	needRoot(t)
	needPromptness(t)
	chain, seventy := testbin.C(t, "testdata/chain.c"), testbin.C(t, "testdata/seventy.c")
	e := begin(t, configuration(time.Millisecond))
	const work = time.Second
	p := launch(t, chain, milliseconds(work), seventy, milliseconds(2*work))
	spent := p.end()
	e.end()
	before, after := add(e.of(func(m *model.Process) bool { return isPID(p.Process.Pid)(m) && runs(chain)(m) })),
		add(e.of(func(m *model.Process) bool { return isPID(p.Process.Pid)(m) && runs(seventy)(m) }))
	all := add(e.of(isPID(p.Process.Pid)))
	t.Logf("before: %s; after: %s; all: %s of %s; lost %v", before, after, all, spent[2], e.Stats().Lost)
	near(t, work, before.time)
	near(t, work, after.time) // the CPU clock goes on through an exec, so half is left
	require.Greater(t, before.within("main prologue"), 0.8, "%v; unnamed %v", before.stacks, e.Stats().Unnamed)
	require.Zero(t, before.within("main hot"))
	require.Greater(t, after.within("main hot")+after.within("main cold"), 0.8)
	require.Zero(t, after.within("main prologue"))
	require.InEpsilon(t, before.samples+after.samples, all.samples, 0.1, "hardly a sample in between")
}

// TestExitWhileSampled holds that what was seen of a process has its names though it ended before the tables were read. A busy machine reads
// some processes too late.
func TestExitWhileSampled(t *testing.T) {
	needRoot(t)
	needPromptness(t)
	chain := testbin.C(t, "testdata/chain.c")
	config := configuration(time.Millisecond, process.Selector{Exe: chain})
	planOf[*oncpu.Options](config).ReportInterval = time.Hour
	e := begin(t, config)
	require.Eventually(t, func() bool {
		p := launch(t, chain, "60", "-")
		require.Empty(t, p.end())
		e.reportNow()
		return passing("main prologue")(add(e.of(runs(chain))))
	}, time.Minute, time.Millisecond)
	for _, profile := range e.of(runs(chain)) {
		require.NotEmpty(t, profile.Process.ServiceName)
		require.NotEmpty(t, profile.Process.ExecutableName())
	}
}

// TestMeasureExitWhileSampled holds that all of it was seen.
func TestMeasureExitWhileSampled(t *testing.T) {
	needRoot(t)
	needPromptness(t)
	chain := testbin.C(t, "testdata/chain.c")
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: chain})) // the rest of the host has no say in how soon
	const work = 60 * time.Millisecond
	for range 5 {
		p := launch(t, chain, milliseconds(work), "-")
		require.Empty(t, p.end())
		defer func() {
			got := add(e.of(isPID(p.Process.Pid)))
			near(t, work, got.time)
			require.Greater(t, got.within("main prologue"), 0.8, "%v; unnamed %v", got.stacks, e.Stats().Unnamed)
		}()
	}
	e.end()
}

// TestDamagedBinaries holds that nothing about a binary keeps its samples from being exported.
func TestDamagedBinaries(t *testing.T) {
	damagedBinaries(t, func(t *testing.T, e *observed, p *program) {
		e.await(p.Process.Pid, passing("main prologue"))
		p.kill()
	})
}

// TestMeasureDamagedBinaries holds that these samples are complete.
func TestMeasureDamagedBinaries(t *testing.T) {
	damagedBinaries(t, func(t *testing.T, e *observed, p *program) {
		e.await(p.Process.Pid, func(got sum) bool { return got.samples > 500 })
		got := add(e.of(isPID(p.Process.Pid)))
		require.Greater(t, got.within("main prologue"), 0.8, "%v", got.stacks)
	})
}

// damagedBinaries runs a program from each binary, and passes it to judge when it is observed.
func damagedBinaries(t *testing.T, judge func(*testing.T, *observed, *program)) {
	t.Helper()
	needRoot(t)
	chain := testbin.C(t, "testdata/chain.c")
	dir := t.TempDir()
	nothing := func(string) error { return nil }
	for name, c := range map[string]struct{ before, while func(path string) error }{
		"deleted":                 {nothing, os.Remove},
		"replaced":                {nothing, func(path string) error { return replace(path, []byte("#!/bin/sh\nexit 1\n")) }},
		"deleted with its folder": {nothing, func(path string) error { return os.RemoveAll(filepath.Dir(path)) }},
		"2 GB large":              {func(path string) error { return os.Truncate(path, 2<<30) }, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			dependsOnKernel(t, name == "deleted")
			sub := filepath.Join(dir, name)
			require.NoError(t, os.Mkdir(sub, 0o755))
			path := copyFile(t, chain, filepath.Join(sub, "victim"))
			require.NoError(t, c.before(path))
			p := launch(t, path, endless, "-")
			require.Eventually(t, func() bool { return executes(p) }, time.Minute, time.Millisecond)
			require.NoError(t, c.while(path))
			e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: dir + "/**"})) // what the host runs is held, too
			judge(t, e, p)
			held := e.memory()
			e.end()
			t.Logf("errors %v", e.Stats().SymbolErrors)
			require.Less(t, held, uint64(64<<20), "what is held does not grow with the file")
		})
	}
}

// executes reports whether a process runs its program: before, it is a copy of this one.
func executes(p *program) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Process.Pid))
	return err == nil && strings.HasPrefix(string(line), p.Args[0]+"\x00")
}

// replace puts another file in the place of one that runs.
func replace(path string, data []byte) error {
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o755); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// TestNotELF holds that a mapping of a file that is no ELF file, or half of one, is counted under its reason.
func TestNotELF(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	mapper := testbin.C(t, "testdata/mapper.c")
	whole, err := os.ReadFile(mapper)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		content []byte
		reason  string
	}{
		"text":      {[]byte("this is not an ELF file"), "not_elf"},
		"empty":     {nil, "not_elf"},
		"truncated": {whole[:72], "bad_elf"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "library.so")
			require.NoError(t, os.WriteFile(file, c.content, 0o755))
			p := launch(t, mapper, file, endless)
			require.Eventually(t, func() bool { // it has mapped the file before its mappings are read
				maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.Process.Pid))
				return err == nil && strings.Contains(string(maps), file)
			}, time.Minute, time.Millisecond)
			e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: mapper}))
			e.await(p.Process.Pid, func(got sum) bool { return got.samples > 0 && e.Stats().SymbolErrors[c.reason] > 0 })
			p.kill()
		})
	}
}
