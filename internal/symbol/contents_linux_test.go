// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

// sumFunctions make a file with some 10 MiB of symbols: too many to be summed while a caller waits.
const sumFunctions = 300_000

// writeSummed writes a file of functions with a build id, and returns its size.
func writeSummed(t *testing.T, path string) int64 {
	t.Helper()
	require.NoError(t, codefile.Write(path, codefile.Spec{
		Name: functionName("linked"), Functions: sumFunctions, Loops: 1, BuildID: []byte("linked once, summed 1"),
	}))
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func mapAt(t *testing.T, path string) codefile.Mapped {
	t.Helper()
	m, err := codefile.Map(path, sumFunctions)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// bytesRead is what this process has read of files, as the kernel counts it.
func bytesRead(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	n, err := strconv.ParseInt(regexp.MustCompile(`rchar: (\d+)`).FindStringSubmatch(string(text))[1], 10, 64)
	require.NoError(t, err)
	return n
}

// gatedContents does no work on contents until it is opened.
func gatedContents(t *testing.T) (charge func(func()) time.Duration, open func()) {
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return func(step func()) time.Duration {
		<-gate
		step()
		return 0
	}, open
}

func awaitSums(t *testing.T, s *Symbolizer) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.contents.jobs) == 0
	}, time.Minute, time.Millisecond)
}

// TestLinksAreSummedOnce has many hard links of one file: they are read once, and opening them does not wait for that.
func TestLinksAreSummedOnce(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "first")
	size := writeSummed(t, first)
	const links = 40
	var mapped codefile.Mapped
	for i := range links {
		path := filepath.Join(dir, fmt.Sprint("link", i))
		require.NoError(t, os.Link(first, path))
		mapped = mapAt(t, path)
	}
	charge, open := gatedContents(t)
	s := newSymbolizer(t, Config{Names: free, LargeNames: free, Contents: charge})
	before := bytesRead(t)
	a := openSpace(t, s, os.Getpid())
	require.Less(t, bytesRead(t)-before, size/2, "headers alone")
	frame := frameOf(a, mapped, 3)
	require.True(t, s.AwaitLines(time.Minute), "names do not wait for sums")
	require.Equal(t, "linked_3", settledName(frame))
	keys := map[string]int{}
	for _, r := range a.Regions() {
		keys[r.Content]++
	}
	require.Contains(t, fmt.Sprint(keys), fmt.Sprint(":", links), "they have one unwind table")
	before = bytesRead(t)
	open()
	awaitSums(t, s)
	own, err := os.Stat("/proc/self/exe")
	require.NoError(t, err)
	require.Less(t, bytesRead(t)-before, size*3/2+own.Size())
	late := filepath.Join(dir, "late")
	require.NoError(t, os.Rename(filepath.Join(dir, "link0"), late)) // by another path
	mapAt(t, late)
	require.NoError(t, a.Refresh())
	awaitSums(t, s)
	require.Less(t, bytesRead(t)-before, size*3/2+own.Size(), "it is known by the file, not by the path")
}

// TestCopiesAreUnited has two copies of a file at one path: they become one binary when their sums are known, also for processes that have
// mapped them before.
func TestCopiesAreUnited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copied")
	writeSummed(t, path)
	one := mapAt(t, path)
	charge, open := gatedContents(t)
	s := newSymbolizer(t, Config{Names: free, LargeNames: free, Contents: charge})
	a := openSpace(t, s, os.Getpid())
	writeSummed(t, path+".new")
	require.NoError(t, os.Rename(path+".new", path))
	two := mapAt(t, path)
	require.NoError(t, a.Refresh())
	regionOf := func(m codefile.Mapped) Region {
		for _, r := range a.Regions() {
			if pc := m.Address(0); pc >= r.Start && pc < r.End {
				return r
			}
		}
		t.Fatal("not mapped")
		return Region{}
	}
	before := []Region{regionOf(one), regionOf(two)}
	require.NotEqual(t, before[0].Content, before[1].Content, "it is not known yet that they are the same")
	require.Equal(t, "linked_7", nameInFile(t, s, a, one, 7))
	require.Equal(t, "linked_7", nameInFile(t, s, a, two, 7))
	built := s.Stats().TablesBuilt
	open()
	awaitSums(t, s)
	require.Equal(t, before[0].Content, regionOf(one).Content, "an unwind table that was made is used")
	require.Equal(t, before[1].Content, regionOf(two).Content)
	require.Equal(t, a.United(before[0]).Content, a.United(before[1]).Content, "one that is still to be made is made once")
	require.Equal(t, regionOf(one).Content, regionOf(two).Content)
	for i, m := range []codefile.Mapped{one, two} {
		image, closeFile, err := a.OpenRegion(before[i])
		require.NoError(t, err)
		require.NotZero(t, image.Size)
		require.NoError(t, closeFile())
		require.Equal(t, "linked_9", nameInFile(t, s, a, m, 9))
	}
	require.Equal(t, built, s.Stats().TablesBuilt, "one table serves both")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Same(t, a.find(one.Address(0)).bin, a.find(two.Address(0)).bin)
}

func nameInFile(t *testing.T, s *Symbolizer, a *AddressSpace, m codefile.Mapped, i int) string {
	t.Helper()
	f := frameOf(a, m, i)
	require.True(t, s.AwaitLines(time.Minute))
	return settledName(f)
}

// TestSumsStop checks that a sum ends with the symbolizer, and with the last process that runs the file.
func TestSumsStop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	writeSummed(t, path)
	mapAt(t, path)
	s := newSymbolizer(t, Config{Contents: spent})
	openSpace(t, s, os.Getpid())
	began := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), time.Minute)

	charge, open := gatedContents(t)
	s = newSymbolizer(t, Config{Contents: charge})
	a := openSpace(t, s, os.Getpid())
	a.Close()
	before := bytesRead(t)
	open()
	awaitSums(t, s)
	require.Less(t, bytesRead(t)-before, int64(4<<20))
}

// TestSumsLeaveThePageCache checks that a file that no program reads does not stay in the page cache, and that one which was there before
// does.
func TestSumsLeaveThePageCache(t *testing.T) {
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cached")
			size := writeSummed(t, path)
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close() //nolint:errcheck // only read
			require.NoError(t, f.Sync())
			if !held {
				require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
			}
			m, err := codefile.Map(path, 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			s := newSymbolizer(t, Config{Contents: free})
			openSpace(t, s, os.Getpid())
			awaitSums(t, s)
			resident := int64(residentPages(t, path) * os.Getpagesize())
			if held {
				require.GreaterOrEqual(t, resident, size)
			} else {
				require.Less(t, resident, int64(4<<20))
			}
		})
	}
}

// TestSumsWaitByUser checks that the files of one user do not block the sums of another's.
func TestSumsWaitByUser(t *testing.T) {
	s := assemble(Config{})
	c := &contents{s: s, wake: make(chan struct{}, 1), jobs: map[string]*sumJob{}, results: map[string]contentResult{}, spent: budget.NewSpending()}
	ask := func(owner uint32, i int) *binary {
		b := &binary{file: memorySource{}, summing: summing{unsummed: true}, origin: origin{writer: owner, identity: fmt.Sprint(owner, " ", i)}}
		c.ask(b)
		return b
	}
	for i := range maxSums + 10 {
		ask(1000, i)
	}
	require.Len(t, c.queue, maxSums)
	require.NotNil(t, ask(0, 0).job)
	require.Nil(t, ask(1000, maxSums+11).job)
	require.Len(t, c.queue, maxSums)
	require.Len(t, c.jobs, maxSums)
}

// TestSumIsAskedForAgain cancels a sum since no process runs the file, and has one map it before that is done.
func TestSumIsAskedForAgain(t *testing.T) {
	s := assemble(Config{})
	c := &contents{s: s, wake: make(chan struct{}, 1), jobs: map[string]*sumJob{}, results: map[string]contentResult{}, spent: budget.NewSpending(), now: s.now}
	b := &binary{file: againSource{}, summing: summing{unsummed: true}, origin: origin{identity: "file"}}
	s.all[b] = struct{}{}
	c.ask(b)
	j, _, src := c.next()
	require.NotNil(t, j)
	require.False(t, c.wanted(j))
	s.ref(b)
	c.ask(b)
	c.finish(j, src, contentResult{}, errStopped)
	require.NotNil(t, b.job)
	j, _, src = c.next()
	require.NotNil(t, j)
	s.unref(b)
	c.finish(j, src, contentResult{}, errStopped)
	require.Nil(t, b.job, "no process runs it")
}

// againSource is a file that can be opened again.
type againSource struct{ memorySource }

func (againSource) again() (source, error) { return againSource{}, nil }
