// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package functions

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// crowd are processes in scope, of which those that sleep have a function to attach to, and those that wait for a line have none.
type crowd struct {
	t     *testing.T
	sleep uint64 // the size of the program that has it

	*Attacher[bool]
	once     sync.Once
	opened   atomic.Int64 // processes
	mu       sync.Mutex
	inScope  map[uint32]bool
	attached map[uint32]bool
}

func newCrowd(t *testing.T, limits limits) *crowd { return newCrowdWithin(t, limits, 0) }

// newCrowdWithin bounds what reading memory maps may take of a CPU.
func newCrowdWithin(t *testing.T, limits limits, share float64) *crowd {
	t.Helper()
	sizes := map[string]uint64{}
	for _, name := range []string{"sleep", "sh"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		file, err := os.Stat(path)
		require.NoError(t, err)
		sizes[name] = uint64(file.Size())
	}
	if sizes["sleep"] == sizes["sh"] {
		t.Skip("sleep and sh are one program here: they cannot be distinguished")
	}
	symbols, err := symbol.New(symbol.Config{RootPath: "/", MemoryBytes: 32 << 20, MapsShare: share, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, symbols.Close()) })
	c := &crowd{t: t, sleep: sizes["sleep"], inScope: map[uint32]bool{}, attached: map[uint32]bool{}}
	c.Attacher = start(Config[bool]{
		What: "the function", Unseen: "Some calls are not seen", Targets: "targets",
		Find:  func(image elfimage.Image) (bool, error) { return image.Size == c.sleep, nil },
		Wants: func(found bool) bool { return found },
		Attach: func(to *Attachment, _ bool, _ string, pid uint32) error {
			to.Add(&kernel.Uprobe{}, 1)
			c.note(c.attached, pid, true)
			return nil
		},
		Decide: func(pid uint32) (model.ProcessID, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return model.ProcessID{PID: pid}, c.inScope[pid]
		},
		Left: func(id model.ProcessID) { c.note(c.attached, id.PID, false) },
		Open: func(id model.ProcessID) (*symbol.AddressSpace, error) {
			defer c.opened.Add(1)
			return symbols.Open(id)
		},
		Charge: func(work func()) { work() },
		Logger: zap.NewNop(),
	}, limits)
	t.Cleanup(func() { c.once.Do(c.Close) })
	return c
}

func (c *crowd) note(list map[uint32]bool, pid uint32, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list[pid] = is
}

func (c *crowd) isAttached(pid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached[pid]
}

// enter starts a program, which ends with the test, and has it looked at.
func (c *crowd) enter(name string, args ...string) (pid uint32) {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	in, err := cmd.StdinPipe() // it waits for its end
	require.NoError(c.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = in.Close(), out.Close()
		_ = cmd.Wait()
	})
	pid = uint32(cmd.Process.Pid)
	if name == "sh" {
		_, err = out.Read(make([]byte, 1))
		require.NoError(c.t, err)
	}
	c.note(c.inScope, pid, true)
	c.Look(pid)
	return pid
}

func (c *crowd) sleeps() uint32 { return c.enter("sleep", "1000") }

// waits starts one without the function, and waits until it was looked into.
func (c *crowd) waits() uint32 { return c.enter("sh", "-c", "echo; read line") }

func (c *crowd) leaves(pid uint32) {
	c.note(c.inScope, pid, false)
	c.Look(pid)
}

func (c *crowd) eventually(what func() bool) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		c.LookAll() // as with each scan
		return what()
	}, time.Minute, 10*time.Millisecond)
}

// TestExecOfUserOverItsPart has a process of a user that is over its part of the CPU time execute a program that is known: it is attached to
// all the same, though reading what it maps without an exec waits.
func TestExecOfUserOverItsPart(t *testing.T) {
	c := newCrowdWithin(t, limits{attached: 10, known: 10}, 1e-9)
	first := c.sleeps() // its program is the first new file of the user, which is over its part from then on
	c.eventually(func() bool { return c.isAttached(first) })

	for _, notified := range []bool{false, true} {
		cmd := exec.Command("sh", "-c", "echo; read line; exec sleep 1000")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_, _ = in.Close(), out.Close()
			_ = cmd.Wait()
		})
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
		pid := uint32(cmd.Process.Pid)
		opened := c.opened.Load()
		c.note(c.inScope, pid, true)
		c.Look(pid)
		require.Eventually(t, func() bool { return c.opened.Load() > opened }, time.Minute, time.Millisecond)
		_, err = in.Write([]byte("\n"))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			name, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/comm")
			return err == nil && string(name) == "sleep\n"
		}, time.Minute, time.Millisecond)
		if notified {
			c.Executed(pid)
			require.Eventually(t, func() bool { return c.isAttached(pid) }, time.Minute, time.Millisecond)
			continue
		}
		c.Look(pid)
		require.Never(t, func() bool { return c.isAttached(pid) }, 500*time.Millisecond, 10*time.Millisecond)
	}
}

// TestOthersTakeNoPlace holds that processes without the functions take no place of those that have them.
func TestOthersTakeNoPlace(t *testing.T) {
	c := newCrowd(t, limits{attached: 1, known: 10})
	for range 3 {
		c.waits()
	}
	pid := c.sleeps()
	c.eventually(func() bool { return c.isAttached(pid) && c.Functions() > 0 })
	require.Equal(t, 1, c.Functions())
	require.Zero(t, c.Failed())
}

// TestRefusedAreAttachedToLater holds that a process which found no place is counted once, and attached to when another one leaves.
func TestRefusedAreAttachedToLater(t *testing.T) {
	c := newCrowd(t, limits{attached: 1, known: 10})
	before := c.sleeps()
	c.eventually(func() bool { return c.isAttached(before) })
	later := []uint32{c.sleeps(), c.sleeps()}
	c.eventually(func() bool { return c.Failed() == uint64(len(later)) })
	require.False(t, c.isAttached(later[0]) || c.isAttached(later[1]))
	c.leaves(before)
	require.Eventually(t, func() bool { return c.isAttached(later[0]) != c.isAttached(later[1]) }, time.Minute, time.Millisecond)
	first, last := later[0], later[1]
	if c.isAttached(last) {
		first, last = last, first
	}
	c.leaves(first)
	require.Eventually(t, func() bool { return c.isAttached(last) }, time.Minute, time.Millisecond)
	require.EqualValues(t, len(later), c.Failed())
}

// TestCrowdMakesRoom holds that where more processes are in scope than are looked into, one gives way that has none of the functions, and
// is looked into again when there is room.
func TestCrowdMakesRoom(t *testing.T) {
	c := newCrowd(t, limits{attached: 2, known: 3})
	var others []uint32
	for range 3 {
		others = append(others, c.waits())
	}
	all := []uint32{c.sleeps(), c.sleeps()}
	c.eventually(func() bool { return c.isAttached(all[0]) && c.isAttached(all[1]) })
	require.Eventually(t, func() bool { return c.Failed() >= 2 }, time.Minute, time.Millisecond, "two of the others gave way")
	for _, pid := range append(others, all...) {
		c.leaves(pid)
	}
	require.Eventually(t, func() bool { return c.Functions() == 0 }, time.Minute, time.Millisecond)
	c.once.Do(c.Close)
	require.Empty(t, c.known)
	require.Empty(t, c.refused)
	require.Zero(t, c.held)
}
