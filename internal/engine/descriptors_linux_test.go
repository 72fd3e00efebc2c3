// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestFewDescriptors holds that the engine observes a part of the CPUs where the file descriptors do not suffice for all, that it
// says so, and that it takes the others when there are more descriptors.
func TestFewDescriptors(t *testing.T) {
	needRoot(t)
	guest.SameOnEveryKernel(t)
	online, err := kernel.OnlineCPUs("/sys")
	require.NoError(t, err)
	if len(online) < 2 {
		t.Skip("needs two CPUs: of one, none can be left out")
	}
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	allow := func(files uint64) {
		t.Helper()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: before.Max}))
	}
	t.Cleanup(func() { allow(before.Cur) })
	config := configuration(9*time.Millisecond, process.Selector{PID: math.MaxInt32})
	config.ScanInterval = time.Second
	begin := func() *Engine {
		var e *Engine
		require.Eventually(t, func() (ok bool) {
			e, err = Start(t.Context(), config, none(), zap.NewNop())
			return !errors.Is(err, unix.EMFILE) // what else this process has open, such as files of /proc, it has for moments
		}, time.Minute, time.Millisecond)
		require.NoError(t, err)
		return e
	}

	e := begin()
	files := highestEvent(t) + 1
	// From above: with much fewer the library that loads programs would remember for good that the kernel lacks what it has.
	stats := e.Stats()
	for ; stats.Attached["on_cpu"] == len(online); stats = e.Stats() {
		require.NoError(t, e.Shutdown())
		files--
		allow(files)
		e = begin()
	}
	defer func() { require.NoError(t, e.Shutdown()) }()
	require.Positive(t, stats.Attached["on_cpu"])
	require.Less(t, stats.Attached["on_cpu"], len(online)) // by more than one where this process had other files open for a moment
	require.Contains(t, stats.Degraded["cpus"], "on_cpu: opening a perf event on CPU ")
	require.Contains(t, stats.Degraded["cpus"], "too many open files; raise the limit of open files (ulimit -n, ")

	allow(before.Cur)
	require.Eventually(t, func() bool {
		stats = e.Stats()
		return stats.Attached["on_cpu"] == len(online) && stats.Degraded["cpus"] == ""
	}, time.Minute, 20*time.Millisecond)
}

// highestEvent is the highest file descriptor of a perf event of this process.
func highestEvent(t *testing.T) (highest uint64) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, file := range files {
		target, err := os.Readlink("/proc/self/fd/" + file.Name())
		if err != nil || target != "anon_inode:[perf_event]" {
			continue // that of the folder itself is closed by now
		}
		fd, err := strconv.ParseUint(file.Name(), 10, 64)
		require.NoError(t, err)
		highest = max(highest, fd)
	}
	require.NotZero(t, highest)
	return highest
}

// TestWhatToDo holds that the advice is of the limit that was reached, and given once.
func TestWhatToDo(t *testing.T) {
	const process = "too many open files; raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("opening it: %w", unix.EMFILE), "opening it: " + process},
		{errors.New("can't dup fd: " + unix.EMFILE.Error()), "can't dup fd: " + process},
		{fmt.Errorf("opening it: %w", unix.ENFILE), "opening it: too many open files in system; raise the host's limit of open files (sysctl fs.file-max)"},
		{fmt.Errorf("opening it: %w", unix.EPERM), "opening it: operation not permitted"},
	} {
		require.EqualError(t, whatToDo(tt.err), tt.want)
		require.EqualError(t, whatToDo(whatToDo(tt.err)), tt.want)
	}
}
