// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// TestChecksumsOfDebugFiles has a small binary without an unwind table, whose debug file is large and known by its checksum alone: the
// queue of small binaries does not read that file, and the paced queue of large ones gives up when the engine ends.
func TestChecksumsOfDebugFiles(t *testing.T) {
	const size = 24 << 20
	dir := t.TempDir()
	library, debug := filepath.Join(dir, "library.so"), filepath.Join(dir, "library.debug")
	require.NoError(t, codefile.Write(library, codefile.Spec{Functions: 1, Loops: 1, Stripped: true, DebugLink: filepath.Base(debug), DebugCRC: 1}))
	require.NoError(t, codefile.Write(debug, codefile.Spec{Functions: 1, Stripped: true}))
	require.NoError(t, os.Truncate(debug, size))
	m, err := codefile.Map(library, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	s, err := symbol.New(symbol.Config{Contents: func(func()) time.Duration { return time.Hour }}) // no other file is read meanwhile
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	space, err := s.Open(model.ProcessID{PID: uint32(os.Getpid())})
	require.NoError(t, err)
	defer space.Close()
	u, err := newUnwinding(64<<20, zap.NewNop(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, u.store.Close()) }()
	w := wanted{key: observe.SubjectKey{PID: uint32(os.Getpid())}, subject: &subject{}}
	for _, r := range space.Regions() {
		if r.Path() == library {
			u.enqueue(w, space, []symbol.Region{r}, false)
		}
	}
	places := u.take(&u.small)
	require.Len(t, places, 1)

	before := bytesRead(t)
	require.Empty(t, u.acquireAny(&u.small, places))
	require.Less(t, bytesRead(t)-before, int64(2<<20))
	require.Zero(t, u.failed.Load())
	require.False(t, u.large.idle(), "it waits in the other queue")

	u.stopping.Store(true)
	places = u.take(&u.large)
	require.Len(t, places, 1)
	before = bytesRead(t)
	u.acquireAny(&u.large, places)
	require.Less(t, bytesRead(t)-before, int64(2<<20), "one step at most")

	u.stopping.Store(false)
	before = bytesRead(t)
	region := places[w.key].region
	_, err = space.OpenDebug(region, largeChecksum, nil)
	require.ErrorIs(t, err, symbol.ErrNoDebug, "its checksum is another one")
	require.GreaterOrEqual(t, bytesRead(t)-before, int64(size), "it was compared")
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
