// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestTablesAreEvicted runs one program after the other, each of another binary, with room for the tables of a few: those that no program uses
// give way, those of a program that runs all the while stay, and stacks are whole.
func TestTablesAreEvicted(t *testing.T) {
	evictTables(t, func(e *observed, path string) *program {
		before := e.unwinding.store.Stats().Built
		p := launch(t, path, endless)
		// Not sooner: tables are kept for a while after the end of who used them.
		require.Eventually(t, func() bool {
			return e.unwinding.store.Stats().Built > before && e.hasTables(p.Process.Pid)
		}, time.Minute, 50*time.Millisecond)
		p.kill()
		return p
	}, func(e *observed, stays *program, _ []*program) {
		e.reportNow()
		before := len(e.of(isPID(stays.Process.Pid)))
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(e.of(isPID(stays.Process.Pid))[before:], func(p *model.Profile) bool { return add([]*model.Profile{p}).errors[model.StackWhole] > 0 })
		}, time.Minute, 50*time.Millisecond, "its tables are there still")
		stats := e.unwinding.store.Stats()
		require.GreaterOrEqual(t, stats.Built, uint64(evictedPrograms))
		require.GreaterOrEqual(t, stats.Evicted, uint64(evictedPrograms/5))
		require.Zero(t, stats.Full)
	})
}

// TestMeasureTablesAreEvicted holds that nearly all stacks of the program that stays are whole, and most of those that live shortly.
func TestMeasureTablesAreEvicted(t *testing.T) {
	evictTables(t, func(_ *observed, path string) *program {
		p := launch(t, path, "300")
		p.end()
		return p
	}, func(e *observed, stays *program, programs []*program) {
		stats := e.unwinding.store.Stats()
		e.end()
		built := uint64(evictedPrograms)
		if testbin.UnderRace { // making a table takes ten times as long: some programs end before that
			built /= 2
		}
		require.GreaterOrEqual(t, stats.Built, built)
		require.GreaterOrEqual(t, stats.Evicted, built/5)
		require.Zero(t, stats.Full)
		all, broken, _ := e.whole(stays.Process.Pid)
		t.Logf("of the program that stays %d samples, %d not whole: %v", all, broken, e.broken(stays.Process.Pid))
		if testbin.UnderRace {
			require.LessOrEqual(t, float64(broken), 0.3*float64(all))
			return
		}
		require.LessOrEqual(t, float64(broken), 0.1*float64(all))
		var samples, ended int64
		for i, p := range programs {
			all, broken, got := e.whole(p.Process.Pid)
			samples, ended = samples+all, ended+broken
			assert.Greater(t, got.within("main burn middle inner"), 0.1, "program %d: %v", i, got.stacks)
		}
		t.Logf("%d samples of the others, %d not whole", samples, ended)
		require.LessOrEqual(t, float64(ended), 0.35*float64(samples), "those before its tables are made: half of it on an idle host")
	})
}

// evictedPrograms is how many programs run one after the other.
const evictedPrograms = 20

// evictTables has run run each program, and judge what became of them and of the one that stays.
func evictTables(t *testing.T, run func(e *observed, path string) *program, judge func(e *observed, stays *program, programs []*program)) {
	t.Helper()
	needRoot(t)
	guest.SameOnEveryKernel(t)
	many := testbin.C(t, "testdata/many.c")
	dir := t.TempDir()
	config := configuration(time.Millisecond, process.Selector{Exe: filepath.Join(dir, "*")})
	config.MemoryBytes = 16 << 20
	const room = 16 << 20 / unwindShare
	e := begin(t, config)
	time.Sleep(300 * time.Millisecond) // what is read of a host at the start
	stays := launch(t, copyFile(t, many, filepath.Join(dir, "stays")), endless)
	require.Eventually(t, func() bool { return e.hasTables(stays.Process.Pid) }, time.Minute, 10*time.Millisecond) // and its libraries
	var programs []*program
	for i := range evictedPrograms {
		path := copyFile(t, many, filepath.Join(dir, fmt.Sprint(i)))
		appendFile(t, path, t.TempDir()+fmt.Sprint(i)) // what lies behind an ELF file makes it another one
		programs = append(programs, run(e, path))
		stats := e.unwinding.store.Stats()
		require.LessOrEqual(t, stats.Bytes, uint64(room)+1<<20, "and the rules")
		require.LessOrEqual(t, stats.TableBytes, uint64(room))
	}
	t.Logf("%+v", e.unwinding.store.Stats())
	judge(e, stays, programs)
}

// appendFile writes text behind the end of a file.
func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
