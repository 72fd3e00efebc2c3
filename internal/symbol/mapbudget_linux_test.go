// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// TestMapsOfAUserAreReadLater has a process of one user map unknown files, until its user has used up its part. Then neither its own map is
// read at once nor that of another process of the user, whatever requests it; that of another user is.
func TestMapsOfAUserAreReadLater(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a process of another user")
	}
	s := newSymbolizer(t, Config{})
	mine := openSpace(t, s, os.Getpid())
	other := openSpace(t, s, sleeper(t, 65533))
	s.maps = budget.New(1e-9, budget.MapsAtOnce) // of which opening these has taken nothing
	require.NoError(t, mine.Refresh())
	settled := func(a *AddressSpace) bool { return a.pace.Wait(s.now()) == 0 }
	require.Eventually(t, func() bool { return settled(mine) }, time.Minute, time.Millisecond)
	require.Zero(t, mine.RefreshIn(), "no file was new")

	mapCopy(t)
	require.NoError(t, mine.Refresh())
	at := mapCopy(t)
	require.Eventually(t, func() bool { return settled(mine) }, time.Minute, time.Millisecond)
	require.Greater(t, mine.RefreshIn(), time.Second)
	mine.read = time.Time{}
	require.Empty(t, nameOf(mine, at))
	require.EqualValues(t, 1, s.Stats().Unnamed[reason.NameNoMapping], "the map was not read for an address")
	require.Greater(t, openSpace(t, s, sleeper(t, uint32(os.Getuid()))).RefreshIn(), time.Second)

	require.Eventually(t, func() bool { return settled(other) }, time.Minute, time.Millisecond)
	require.Zero(t, other.RefreshIn())
	require.NoError(t, mine.Refresh(), "an exec does not wait")
	require.NotNil(t, mine.find(at))
}

// TestReadMapsUntil checks that after a deadline memory maps are not searched for an address, and readings leave out files, until they are
// read without one.
func TestReadMapsUntil(t *testing.T) {
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	at := mapCopy(t)

	s.ReadMapsUntil(time.Now())
	a.read = time.Time{} // long ago
	require.Empty(t, nameOf(a, at))
	require.EqualValues(t, 1, s.Stats().Unnamed[reason.NameNoMapping])
	require.NoError(t, a.Refresh())
	require.True(t, a.Incomplete())
	require.Empty(t, nameOf(a, at))
	require.EqualValues(t, 1, s.Stats().Unnamed[reason.NameOverBudget])

	s.ReadMapsUntil(time.Now().Add(time.Minute))
	require.NoError(t, a.Refresh())
	require.False(t, a.Incomplete())
	require.Equal(t, reason.Named, a.find(at).bin.cause)

	s.ReadMapsUntil(time.Now())
	s.ReadMapsUntil(time.Time{})
	at = mapCopy(t)
	a.read = time.Time{}
	_ = nameOf(a, at)
	require.Equal(t, reason.Named, a.find(at).bin.cause, "without a deadline the map is searched")
}

// mapCopy maps a copy of this program and returns an address of its code.
func mapCopy(t *testing.T) uint64 {
	t.Helper()
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	code, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(code)) })
	return addressOfBytes(code)
}

// sleeper starts a process of a user.
func sleeper(t *testing.T, uid uint32) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	return cmd.Process.Pid
}

// TestOpenIsCharged opens the memory map of a process whose files are new. What that takes is charged to its user; when the user has spent its
// part, further new files are left out and counted, and known ones are not.
func TestOpenIsCharged(t *testing.T) {
	s, _ := clocked(t, Config{MapsShare: 1}) // whose clock stands still: what is owed is less as time passes
	user := budget.Account(os.Getuid())
	setSpent := func(d time.Duration) {
		s.maps = budget.New(1, budget.MapsAtOnce)
		s.maps.Spend(user, s.now(), d)
	}
	first := openSpace(t, s, os.Getpid())
	require.False(t, first.Incomplete())
	require.Positive(t, s.maps.Owes(user), "what was opened is charged")

	at := mapCopy(t)
	setSpent(time.Hour)
	a := openSpace(t, s, os.Getpid())
	require.True(t, a.Incomplete())
	require.Greater(t, s.maps.Owes(user), time.Hour-time.Second)
	require.Equal(t, reason.OverBudget, a.find(at).bin.cause)
	require.Empty(t, nameOf(a, at))
	stats := s.Stats()
	require.EqualValues(t, 1, stats.Errors[reason.NameOverBudget], "one file was left out")
	require.EqualValues(t, 1, stats.Unnamed[reason.NameOverBudget])
	require.Equal(t, reason.Named, a.find(uint64(reflect.ValueOf(mapCopy).Pointer())).bin.cause, "a known file is not left out")
	require.NoError(t, a.Refresh(), "nor is it by a reading that does not wait, as after an exec")
	require.True(t, a.Incomplete())

	setSpent(0) // as in a long time
	require.NoError(t, a.Refresh())
	require.False(t, a.Incomplete())
	require.Equal(t, reason.Named, a.find(at).bin.cause)
}

// TestReadingsOfManyNewFiles maps more new files than the user may have opened at once: one reading opens some of them, and each after it
// opens further ones.
func TestReadingsOfManyNewFiles(t *testing.T) {
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	const files = 20
	var at []uint64
	for range files {
		at = append(at, mapCopy(t))
	}
	s.maps = budget.New(1e-6, budget.MapsAtOnce) // 0.1 ms at once: the first file takes that
	opened := func() (n int) {
		for _, pc := range at {
			if r := a.find(pc); r != nil && r.bin.cause == reason.Named {
				n++
			}
		}
		return n
	}
	for before := 0; before < files; {
		s.maps = budget.New(1e-6, budget.MapsAtOnce) // as in a long time
		require.NoError(t, a.Refresh())
		now := opened()
		require.Greater(t, now, before)
		require.Less(t, now-before, files, "more than the user's part at once")
		before = now
	}
	require.False(t, a.Incomplete())
}

// TestReadingThatFailsIsCharged has a process end while its map is read many times in a row.
func TestReadingThatFailsIsCharged(t *testing.T) {
	s := newSymbolizer(t, Config{MapsShare: 1})
	pid := sleeper(t, uint32(os.Getuid()))
	a := openSpace(t, s, pid)
	for !a.pace.Often() {
		require.NoError(t, a.Refresh())
	}
	d, err := s.proc.dir(model.ProcessID{PID: uint32(pid)})
	require.NoError(t, err)
	defer d.close()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !d.alive() }, time.Minute, time.Millisecond)
	_, spent, err := a.readRegionsOf(d)
	require.ErrorIs(t, err, ErrProcessExited)
	require.Positive(t, spent)
}

// TestTablesOfAUserAreBounded charges a user with unwind tables beyond its part. That does not keep files of the user from being opened.
func TestTablesOfAUserAreBounded(t *testing.T) {
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	a.ChargeTable(func() { mapCopy(t) })
	require.False(t, a.TablesOver(), "there is no bound")
	s.tables, s.maps = budget.New(1e-9, budget.TablesAtOnce), budget.New(1e-9, budget.MapsAtOnce)
	require.False(t, a.TablesOver())
	a.ChargeTable(func() { mapCopy(t) })
	require.True(t, a.TablesOver())
	require.Zero(t, s.mapsWait(budget.Account(os.Getuid())))
}
