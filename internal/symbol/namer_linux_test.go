// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// free charges nothing: work continues at once.
func free(step func()) time.Duration {
	step()
	return 0
}

// spent allows one step per hour.
func spent(step func()) time.Duration {
	step()
	return time.Hour
}

func functionName(file string) func(int) string {
	return func(i int) string { return file + "_" + strconv.Itoa(i) }
}

// mapFunctions maps a new file of functions into this process.
func mapFunctions(t testing.TB, file string, functions int) codefile.Mapped {
	t.Helper()
	path := filepath.Join(t.TempDir(), file+".so")
	require.NoError(t, codefile.Write(path, codefile.Spec{Name: functionName(file), Functions: functions, Loops: 1}))
	m, err := codefile.Map(path, functions)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// frameOf returns the frame of an address in the middle of the i-th function.
func frameOf(a *AddressSpace, m codefile.Mapped, i int) *model.Frame {
	return a.Frames(nil, []uint64{m.Address(i) + 3})[0]
}

func settledName(f *model.Frame) string {
	if f = f.Settled(); len(f.Lines) > 0 {
		return f.Lines[0].Function.Name
	}
	return ""
}

// TestNamesComeLater checks that a frame is returned at once, and has its name when the table was read.
func TestNamesComeLater(t *testing.T) {
	few := mapFunctions(t, "few", 100)
	many := mapFunctions(t, "many", 300_000) // 7 MB of symbols: a large table
	s := newSymbolizer(t, Config{MemoryBytes: 64 << 20, Names: free, LargeNames: free})
	a := openSpace(t, s, os.Getpid())
	var frames []*model.Frame
	for i := range 100 {
		frames = append(frames, frameOf(a, few, i), frameOf(a, many, 1000*i))
	}
	require.True(t, s.AwaitLines(time.Minute))
	for i := range 100 {
		require.Equal(t, functionName("few")(i), settledName(frames[2*i]))
		require.Equal(t, functionName("many")(1000*i), settledName(frames[2*i+1]))
	}
	stats := s.Stats()
	require.EqualValues(t, 200, stats.Named)
	require.Empty(t, stats.Unnamed)
	require.EqualValues(t, 2, stats.TablesBuilt)
	require.Zero(t, stats.PartialPasses)
	f := frameOf(a, many, 299_999)
	require.NotEmpty(t, f.Lines, "the table is there: it is named at once")
	require.Equal(t, functionName("many")(299_999), settledName(f))
}

// TestTableWithoutRoom checks that a table that does not fit into memory is searched without being held, and that names are the same.
func TestTableWithoutRoom(t *testing.T) {
	const functions = 300_000 // a table of 3.6 MB
	many := mapFunctions(t, "many", functions)
	s := newSymbolizer(t, Config{MemoryBytes: 4 << 20, Names: free, LargeNames: free})
	a := openSpace(t, s, os.Getpid())
	r := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		frames := map[int]*model.Frame{}
		for range 200 {
			i := r.IntN(functions)
			frames[i] = frameOf(a, many, i)
		}
		require.True(t, s.AwaitLines(time.Minute))
		for i, f := range frames {
			require.Equal(t, functionName("many")(i), settledName(f))
		}
	}
	stats := s.Stats()
	require.Positive(t, stats.PartialPasses)
	require.Less(t, stats.TableBytes, int64(100<<10))
	require.Empty(t, stats.Unnamed)
}

// TestNamesRequestedDuringMove checks that frames which are requested while their binary moves to the lane of large tables all get names.
func TestNamesRequestedDuringMove(t *testing.T) {
	many := mapFunctions(t, "many", 300_000)
	inspected, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func(step func()) time.Duration {
		step()
		once.Do(func() {
			close(inspected)
			<-resume
		})
		return 0
	}
	s := newSymbolizer(t, Config{MemoryBytes: 64 << 20, Names: hold, LargeNames: free})
	a := openSpace(t, s, os.Getpid())
	first := frameOf(a, many, 7)
	<-inspected // the lane of small tables has found that the binary is large, and has not moved it yet
	second := frameOf(a, many, 8)
	close(resume)
	require.True(t, s.AwaitLines(time.Minute))
	require.Equal(t, functionName("many")(7), settledName(first))
	require.Equal(t, functionName("many")(8), settledName(second))
	require.Empty(t, s.Stats().Unnamed)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.names.filesHeld() == 0 && s.reserved == 0
	}, time.Minute, time.Millisecond, "files and memory of the jobs are released")
}

// TestNamesOverBudget checks that frames over the budget are counted when they are exported, that they block neither the names of small
// tables nor the shutdown, and that names that come later are counted as such.
func TestNamesOverBudget(t *testing.T) {
	few := mapFunctions(t, "few", 100)
	many := mapFunctions(t, "many", 300_000)
	s := newSymbolizer(t, Config{MemoryBytes: 64 << 20, Names: free, LargeNames: spent})
	a := openSpace(t, s, os.Getpid())
	late := frameOf(a, many, 7)
	require.Same(t, late, frameOf(a, many, 7))
	require.False(t, s.AwaitLines(100*time.Millisecond))
	early := frameOf(a, few, 5)
	require.Eventually(t, func() bool { return settledName(early) != "" }, time.Minute, time.Millisecond)
	require.Empty(t, settledName(late))
	s.Exported()
	stats := s.Stats()
	require.Equal(t, map[reason.Name]uint64{reason.NameOverBudget: 2}, stats.Unnamed)
	require.EqualValues(t, 1, stats.Named)
	frameOf(a, many, 7)
	began := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), time.Minute)
	require.Equal(t, map[reason.Name]uint64{reason.NameOverBudget: 3}, s.Stats().Unnamed)
}

// TestFilesThatWaitAreBounded checks that one process does not keep others from having their names found.
func TestFilesThatWaitAreBounded(t *testing.T) {
	var files []codefile.Mapped
	for i := range 2 * askerFiles {
		files = append(files, mapFunctions(t, "file"+strconv.Itoa(i), 10))
	}
	s := newSymbolizer(t, Config{MemoryBytes: 64 << 20, Names: spent, LargeNames: spent})
	a := openSpace(t, s, os.Getpid())
	waiting := 0
	for _, m := range files {
		if frameOf(a, m, 1).Late != nil {
			waiting++
		}
	}
	require.GreaterOrEqual(t, waiting, askerFiles)
	require.LessOrEqual(t, waiting, askerFiles+2, "those at work, too")
	require.EqualValues(t, 2*askerFiles-waiting, s.Stats().Unnamed[reason.NameOverBudget], "the others are counted at once")
	other := start(t, toolchain.CompileC(t, programC, "target"))
	f := openSpace(t, s, other.pid()).Frames(nil, []uint64{other.functions["visible"]})[0]
	require.NotNil(t, f.Late, "of another process")
}

// TestRoomOfManyTables checks that memory for a large table is freed by evicting tens of thousands of small ones.
func TestRoomOfManyTables(t *testing.T) { evictMany(t) }

// TestMeasureRoomOfManyTables checks that it takes moments, since the symbolizer is locked.
func TestMeasureRoomOfManyTables(t *testing.T) { require.Less(t, evictMany(t), 2*time.Second) }

// evictMany returns how long it took.
func evictMany(t *testing.T) time.Duration {
	t.Helper()
	const tables, entries = 50_000, 100
	each := int64(entries) * elfsym.SymbolBytes
	s := assemble(Config{MemoryBytes: tables * (each + recordBytes)})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	for range tables {
		b := &binary{needed: now}
		s.all[b] = struct{}{}
		s.keep(b, func() {
			b.symbols = symTables{loaded: true, table: elfsym.TableOf(0, make([]elfsym.Symbol, entries))}
		})
	}
	now = now.Add(2 * idleTable)
	need := s.memory * tableShare / 8
	began := time.Now()
	require.NoError(t, s.roomFor(&binary{}, need))
	took := time.Since(began)
	require.Greater(t, s.count.tablesEvicted, uint64(tables/10))
	t.Logf("%d of %d tables evicted in %v", s.count.tablesEvicted, tables, took)
	return took
}

// TestReservedMemory checks that memory which one lane has reserved for a table is not available to the other.
func TestReservedMemory(t *testing.T) {
	const third = 29 << 20 / 10
	s := assemble(Config{MemoryBytes: 8 << 20}) // 6 MiB for tables
	small, large, next := &nameJob{s: s, bin: &binary{}}, &nameJob{s: s, bin: &binary{}}, &nameJob{s: s, bin: &binary{}}
	before := s.held()
	require.NoError(t, small.reserve(third, 1))
	require.NoError(t, large.reserve(third, 1))
	require.EqualValues(t, 2*third, s.held()-before)
	require.ErrorIs(t, next.reserve(1<<20, 1), elfsym.ErrNoRoom)
	require.EqualValues(t, 2*third, s.held()-before, "a refusal reserves nothing")
	large.release()
	large.release()
	require.EqualValues(t, third, s.held()-before)
	require.NoError(t, next.reserve(1<<20, 1))
	next.release()
	small.release()
	require.Equal(t, before, s.held())
}

// queuedFile is a file that a lane can open again.
type queuedFile struct{ memorySource }

func (f queuedFile) again() (source, error) { return f, nil }

// TestUsersShareALane fills a lane by processes of one user. Those of other users, and other processes of that user, have their share of it,
// and what was spent on the user counts for a process that was just forked, too.
func TestUsersShareALane(t *testing.T) {
	s := assemble(Config{})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now } // what was spent is forgotten as time passes
	s.maxOpen = maxOpenFiles
	n := &namer{s: s, pending: map[*entry]struct{}{}, spent: budget.NewSpending()}
	s.names = n
	for i := range n.lanes {
		n.lanes[i] = lane{n: n, large: i == 1, wake: make(chan struct{}, 1)}
	}
	ask := func(user budget.Account, pid uint32) bool {
		a := &AddressSpace{s: s, asked: true, lastIdentity: identity{domain: domain{mounts: 1, payer: user}}}
		a.id.PID = pid
		b := &binary{file: queuedFile{memorySource{bytes.NewReader(nil)}}}
		return n.ask(b, wantedName{a: a, frames: b, e: &entry{}})
	}
	const attacker, service = 1000, 1001
	for pid := range uint32(8) {
		for range askerFiles {
			require.True(t, ask(attacker, pid+1))
		}
		require.False(t, ask(attacker, pid+1), "one process has its share")
	}
	l := &n.lanes[0]
	require.Len(t, l.queue, maxNameFiles)
	for range askerFiles {
		require.True(t, ask(service, 100))
	}
	require.False(t, ask(service, 100))
	require.True(t, ask(attacker, 9), "another process of the user takes the place of one with more")
	require.Len(t, l.queue, maxNameFiles)
	require.Equal(t, maxNameFiles, l.files)
	require.Len(t, n.pending, maxNameFiles, "frames of files that were given up do not wait")
	for user := range uint32(20) {
		require.True(t, ask(budget.Account(2000+user), 200+user))
	}
	queued := func() map[budget.Account]int {
		of := map[budget.Account]int{}
		for _, b := range l.queue {
			of[b.names.asker.user]++
		}
		return of
	}
	of := queued()
	require.Equal(t, askerFiles, of[service], "a user with less than the most keeps it")
	require.Equal(t, 1, of[2019])

	n.spent.Forget(s.now())
	n.spent.Add(attacker, time.Second)
	ask(attacker, 5000)
	for range maxNameFiles - queued()[attacker] {
		require.NotEqual(t, budget.Account(attacker), l.next(t.Context()).asker.user)
	}
}

// TestRoomForTables checks that a small table evicts a large one, which cannot evict it in turn.
func TestRoomForTables(t *testing.T) {
	s := assemble(Config{MemoryBytes: 8 << 20})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	hold := func(path string, bytes int64) (*binary, error) {
		b := &binary{path: path, needed: now}
		if err := s.roomFor(b, bytes); err != nil {
			return nil, err
		}
		s.all[b] = struct{}{}
		s.keep(b, func() {
			b.symbols = symTables{loaded: true, table: elfsym.TableOf(0, make([]elfsym.Symbol, bytes/elfsym.SymbolBytes))}
		})
		return b, nil
	}
	_, err := hold("huge", 4<<20)
	require.ErrorIs(t, err, elfsym.ErrNoRoom, "more than its share")
	large, err := hold("large", 3<<20)
	require.NoError(t, err)
	other, err := hold("other", 29<<20/10)
	require.NoError(t, err)
	_, err = hold("third", 1<<20)
	require.ErrorIs(t, err, elfsym.ErrNoRoom, "the others are needed")
	small, err := hold("small", 200<<10)
	require.NoError(t, err)
	require.Zero(t, large.tableBytes(), "the largest was evicted")
	require.ErrorIs(t, s.roomFor(large, 3<<20), elfsym.ErrNoRoom)
	now = now.Add(idleTable - time.Second)
	small.needed = now
	now = now.Add(2 * time.Second)
	require.NoError(t, s.roomFor(large, 3<<20))
	require.Zero(t, other.tableBytes(), "it was not needed for long")
	require.NotZero(t, small.tableBytes())

	s.keep(other, func() { other.symbols.table = elfsym.TableOf(0, make([]elfsym.Symbol, 10)) })
	require.EqualValues(t, 1, s.count.tablesRebuilt, "built again just after it was dropped")
}
