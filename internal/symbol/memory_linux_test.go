// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// bigProgram has many functions, which the assembler makes faster than a
// compiler.
func bigProgram(t testing.TB, functions int, tag string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(".text\n.globl _start\n_start:\n")
	for i := range functions {
		fmt.Fprintf(&b, ".type %[1]s_%[2]d,%%function\n%[1]s_%[2]d:\n.balign 16\n.long 0\n.size %[1]s_%[2]d,.-%[1]s_%[2]d\n", tag, i)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/main.s", []byte(b.String()), 0o600))
	toolchain.Run(t, "gcc", "-nostdlib", "-static", "-Wl,--build-id", "-o", dir+"/"+tag, dir+"/main.s")
	return dir + "/" + tag
}

// TestMemoryBound names frames of more binaries than fit, in turn.
func TestMemoryBound(t *testing.T) {
	const bound = 600 << 10
	s := plainSymbolizer(t, Config{MemoryBytes: bound})
	var regions []*region
	for i := range 4 {
		_, r := openFile(t, s, bigProgram(t, 12000, fmt.Sprintf("f%c", 'a'+i)))
		regions = append(regions, r)
	}
	rng := rand.New(rand.NewSource(1))
	for round := range 3 {
		for _, r := range regions {
			for range 500 {
				table := r.bin.symbols.table
				addr := r.mapping.Start + 64
				if table != nil {
					addr = table.Base + uint64(table.Entries()[rng.Intn(len(table.Entries()))].Addr)
				}
				if r.bin.frames.get(addr) == nil {
					s.resolve(nil, r, addr)
				}
				s.makeRoom(0, nil)
				require.LessOrEqual(t, s.held(), int64(bound), "round %d", round)
			}
			checkAccounts(t, s)
			require.NotNil(t, r.bin.symbols.table)
		}
	}
	st := s.Stats()
	require.Greater(t, st.TablesEvicted, uint64(4))
	require.Positive(t, st.FramesEvicted)
	require.Less(t, st.Tables, 4)
	require.Nil(t, st.LastError)
	checkAccounts(t, s)
}

// checkAccounts recounts the memory in use.
func checkAccounts(t *testing.T, s *Symbolizer) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var tables, frames int64
	require.Zero(t, s.reserved)
	for b := range s.all {
		tables += b.tableBytes()
		frames += b.frames.bytes()
		require.GreaterOrEqual(t, b.frames.young.bytes, int64(len(b.frames.young.frames))*entryBytes)
		require.GreaterOrEqual(t, b.frames.old.bytes, int64(len(b.frames.old.frames))*entryBytes)
	}
	tables += s.kernel.names.TableBytes()
	require.Equal(t, tables, s.tableBytes)
	require.Equal(t, frames, s.frameBytes)
}

func TestTableTooLarge(t *testing.T) {
	s := plainSymbolizer(t, Config{MemoryBytes: 64 << 10})
	bin := bigProgram(t, 8000, "big")
	_, r := openFile(t, s, bin)
	e := s.resolve(nil, r, r.mapping.Start+64)
	require.Empty(t, e.frame.Lines)
	require.Equal(t, reason.TooLarge, e.cause)
	require.ErrorIs(t, s.Stats().LastError, reason.ErrTooLarge)
	require.ErrorContains(t, s.Stats().LastError, bin)
	require.Zero(t, s.Stats().TableBytes)
}

// TestMemoryReal compares the account of frames with the heap.
func TestMemoryReal(t *testing.T) {
	s := plainSymbolizer(t, Config{MemoryBytes: 1 << 30})
	b, r := openFile(t, s, toolchain.Go(t))
	s.resolve(nil, r, r.mapping.Start+0x2000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // frees pooled buffers of other tests
	runtime.ReadMemStats(&before)
	account := s.held()
	for i := range 10000 {
		s.resolve(nil, r, b.golang.table.Entry(i)+uint64(i%3))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	account = s.held() - account
	heap := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("account %d, heap %d", account, heap)
	require.InEpsilon(t, heap, account, 0.3)
	runtime.KeepAlive(s)
}

func TestSpacesGiveBack(t *testing.T) {
	s := plainSymbolizer(t, Config{})
	p := start(t, toolchain.CompileC(t, programC, "target"))
	for range 50 {
		a, err := s.Open(model.ProcessID{PID: uint32(p.pid())})
		require.NoError(t, err)
		require.Equal(t, "main", nameOf(a, p.functions["main"]))
		require.NoError(t, a.Refresh())
		nameOf(a, 0x1234)
		a.Close()
		a.Close()
		require.Empty(t, nameOf(a, p.functions["main"]), "closed")
	}
	st := s.Stats()
	require.Zero(t, st.Spaces)
	require.LessOrEqual(t, st.OpenFiles, 1, "only the vDSO, which is in memory")
	require.Zero(t, s.regionBytes)
	require.EqualValues(t, 1, st.TablesBuilt)
	require.LessOrEqual(t, len(s.all), 6)
	checkAccounts(t, s)
}

// TestIdleBinaries checks that no more binaries are kept than the bound.
func TestIdleBinaries(t *testing.T) {
	s := newSymbolizer(t, Config{})
	for i := range maxIdle + 100 {
		b := &binary{serial: uint64(i + 1), key: fileKey{ino: uint64(i + 1)}, refs: 1}
		s.binaries[b.key], s.all[b] = b, struct{}{}
		s.unref(b)
	}
	require.Len(t, s.binaries, maxIdle)
	require.Equal(t, maxIdle, s.idle.Len())
	require.NotContains(t, s.binaries, fileKey{ino: 1}, "the oldest goes first")
}

func TestOpenFilesBound(t *testing.T) {
	s := newSymbolizer(t, Config{})
	bin := toolchain.CompileC(t, programC, "target", "-Wl,--build-id=none")
	b, err := os.ReadFile(bin)
	require.NoError(t, err)
	dir := t.TempDir()
	for i := range maxOpenFiles + 20 {
		path := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.WriteFile(path, b, 0o700))
		openFile(t, s, path)
		require.LessOrEqual(t, s.Stats().OpenFiles, maxOpenFiles)
	}
	require.GreaterOrEqual(t, s.Stats().OpenFiles, maxOpenFiles-maxOpenFiles/closeShare, "no more are closed at once")
}

func TestConcurrent(t *testing.T) {
	s := newSymbolizer(t, Config{MemoryBytes: 512 << 10})
	p := start(t, toolchain.CompileC(t, programC, "target", "-g"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				a, err := s.Open(model.ProcessID{PID: uint32(p.pid())})
				if err != nil {
					t.Error(err)
					return
				}
				if got := nameOf(a, p.functions["main"]); got != "main" {
					t.Errorf("got %q", got)
				}
				nameOf(a, 0x10)
				s.Stats()
				a.Close()
			}
		})
	}
	wg.Wait()
	require.True(t, s.AwaitLines(time.Minute))
	checkAccounts(t, s)
}

// TestClosed uses what belongs to a closed Symbolizer.
func TestClosed(t *testing.T) {
	p := start(t, toolchain.CompileC(t, programC, "target"))
	s := newSymbolizer(t, Config{})
	a, err := s.Open(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	require.Equal(t, "main", nameOf(a, p.functions["main"]))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Empty(t, nameOf(a, p.functions["hidden"]+2))
	require.Empty(t, functionOf(s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]))
	require.ErrorIs(t, a.Refresh(), errClosed)
	_, err = s.Open(model.ProcessID{PID: uint32(p.pid())})
	require.ErrorIs(t, err, errClosed)
	a.Close()
	require.Zero(t, s.Stats().OpenFiles)
}

// TestAccountsWithEviction builds tables that evict frames of the same binary.
func TestAccountsWithEviction(t *testing.T) {
	s := plainSymbolizer(t, Config{MemoryBytes: 240 << 10})
	_, big := openFile(t, s, bigProgram(t, 12000, "big"))
	_, golang := openFile(t, s, toolchain.CompileGo(t, programGo))
	for i := range uint64(3000) {
		s.resolve(nil, golang, golang.mapping.Start+0x2000+i*61)
		s.makeRoom(0, nil)
		if i%50 == 0 {
			s.resolve(nil, big, big.mapping.Start+i*16)
		}
		checkAccounts(t, s)
	}
	require.Positive(t, s.Stats().TablesEvicted)
}

// TestReservedWhileReadAtOnce checks that a table which is read while the caller waits counts as memory before it is kept.
func TestReservedWhileReadAtOnce(t *testing.T) {
	s := assemble(Config{MemoryBytes: 8 << 20})
	before := s.held()
	require.NoError(t, s.reserverFor(&binary{})(1000, elfsym.SymbolBytes))
	require.EqualValues(t, 1000*elfsym.SymbolBytes, s.held()-before)
	s.reserved = 0

	plain := plainSymbolizer(t, Config{MemoryBytes: 8 << 20})
	_, r := openFile(t, plain, bigProgram(t, 1000, "kept"))
	require.NotNil(t, plain.resolve(nil, r, r.mapping.Start+64))
	checkAccounts(t, plain)
}
