// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
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

// TestExitWhileSampled holds that what was seen of a process is complete though it ended before the tables were read.
func TestExitWhileSampled(t *testing.T) {
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
			for _, profile := range e.of(isPID(p.Process.Pid)) {
				require.NotEmpty(t, profile.Process.ServiceName)
				require.NotEmpty(t, profile.Process.ExecutableName())
			}
		}()
	}
	e.end()
}

// TestDamagedBinaries holds that nothing about a binary keeps its samples from being exported.
func TestDamagedBinaries(t *testing.T) {
	needRoot(t)
	chain := testbin.C(t, "testdata/chain.c")
	dir, work := t.TempDir(), 2*time.Second
	if emulated {
		work *= 2 // the engine takes longer to start
	}
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
			p := launch(t, path, milliseconds(work), "-")
			require.NoError(t, c.while(path))
			e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: dir + "/**"})) // what the host runs is held, too
			require.Empty(t, p.end())
			held := e.memory()
			e.end()
			got := add(e.of(isPID(p.Process.Pid)))
			t.Logf("%s; errors %v", got, e.Stats().SymbolErrors)
			require.Positive(t, got.samples)
			require.Greater(t, got.within("main prologue"), 0.8, "%v", got.stacks)
			require.Less(t, held, uint64(64<<20), "what is held does not grow with the file")
		})
	}
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
			p := launch(t, mapper, file, "1500")
			time.Sleep(100 * time.Millisecond) // it has mapped the file before its mappings are read
			e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: mapper}))
			require.Empty(t, p.end())
			e.end()
			got := add(e.of(isPID(p.Process.Pid)))
			require.Positive(t, got.samples)
			require.Positive(t, e.Stats().SymbolErrors[c.reason], "%v", e.Stats().SymbolErrors)
		})
	}
}
