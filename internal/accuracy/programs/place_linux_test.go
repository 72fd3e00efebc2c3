// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newPlace(t *testing.T) *Place {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving a folder to another user needs root")
	}
	parent, err := os.MkdirTemp("/tmp", "place-") // the test's own folder is closed to other users
	require.NoError(t, err)
	require.NoError(t, os.Chmod(parent, 0o755))
	p, err := NewPlace(parent, "program")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, os.RemoveAll(parent))
	})
	return p
}

func (p *Place) logged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.log.Name())
	require.NoError(t, err)
	return string(text)
}

func TestRunsAsNobodyInItsFolder(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, p.run(t.Context(), "/bin/sh", "-c", "id -un; pwd; echo $HOME; touch made"))
	require.Equal(t, "nobody\n"+p.Dir+"\n"+p.Dir+"\n", p.logged(t))
	require.FileExists(t, p.path("made"))
	require.ErrorContains(t, p.run(t.Context(), "/bin/false"), "running false (see "+p.log.Name()+"): exit status 1")
}

func TestRunFor(t *testing.T) {
	p := newPlace(t)
	began := time.Now()
	require.NoError(t, p.runFor(t.Context(), 200*time.Millisecond, []string{"/bin/sleep", "30"}, []string{"/bin/sleep", "31"}))
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	require.Less(t, time.Since(began), time.Minute)
	require.ErrorContains(t, p.runFor(t.Context(), time.Minute, []string{"/bin/sleep", "30"}, []string{"/bin/true"}), "true has ended too early")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.runFor(ctx, time.Minute, []string{"/bin/sleep", "30"}), context.DeadlineExceeded)
}

func TestReady(t *testing.T) {
	p := newPlace(t)
	socket := p.path("socket")
	program, err := p.start(t.Context(), "/bin/sleep", "30")
	require.NoError(t, err)
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, p.ready(t.Context(), program, "unix", socket))
	require.NoError(t, program.Stop())
	require.ErrorContains(t, p.ready(t.Context(), program, "unix", p.path("none")), "the program has ended")
}

// TestSourcesAreFilled checks that no placeholder is left in what is written.
func TestSourcesAreFilled(t *testing.T) {
	p := newPlace(t)
	path, err := p.write("nginx.conf", "@DIR@", p.Dir, "@PORT@", "1", "@TLS_PORT@", "2")
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "@")
	require.Equal(t, 1, strings.Count(string(text), "127.0.0.1:2 ssl"))
}

func TestFind(t *testing.T) {
	path, err := find("env")
	require.NoError(t, err)
	require.Equal(t, "/usr/bin/env", path)
	_, err = findAll("env", "no-such-program")
	require.ErrorIs(t, err, ErrAbsent)
	require.EqualError(t, err, "not installed: no-such-program is neither in /usr/bin nor in /usr/sbin")
}

func TestNames(t *testing.T) {
	require.Len(t, Names(), len(All))
	for _, name := range Names() {
		require.Equal(t, name, Named(name).Name)
	}
	require.Equal(t, "/tmp/perf-12.map", PerfMap(12))
	require.Equal(t, "1", seconds(10*time.Millisecond))
	require.Equal(t, "3", seconds(2600*time.Millisecond))
	require.DirExists(t, filepath.Dir(PerfMap(1)))
}
