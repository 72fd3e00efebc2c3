// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestProgramOf(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a", image: 100})
	h.add(fakeProcess{pid: 11, exe: "/bin/a", executing: true})
	table := h.table(Config{})
	one, err := table.ProgramOf(pid(10))
	require.NoError(t, err)
	require.NotZero(t, one)
	h.add(fakeProcess{pid: 10, exe: "/bin/a", image: 200})
	other, err := table.ProgramOf(pid(10))
	require.NoError(t, err)
	require.NotEqual(t, one, other)
	none, err := table.ProgramOf(pid(11))
	require.NoError(t, err)
	require.Zero(t, none)
	for _, id := range []model.ProcessID{pid(12), {PID: 10, StartTicks: 9}} {
		_, err = table.ProgramOf(id)
		require.ErrorIs(t, err, ErrGone)
	}
	table.Exit(pid(10))
	_, err = table.ProgramOf(pid(10))
	require.ErrorIs(t, err, ErrGone, "/proc still shows it")
}

// TestLookupProgram checks that an exec without an event is noticed.
func TestLookupProgram(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a", image: 100})
	h.add(fakeProcess{pid: 11, exe: "/bin/out", image: 100})
	var changes []Change
	table := h.table(Config{Include: []Selector{{Exe: "/bin/[ab]"}}, OnChange: func(c []Change) { changes = append(changes, c...) }})
	lookup := func() (*model.Process, Program) {
		p, inScope, program, err := table.LookupProgram(pid(10), 0)
		require.NoError(t, err)
		require.True(t, inScope)
		require.NotZero(t, program)
		return p, program
	}
	a, first := lookup()
	again, same := lookup()
	require.Same(t, a, again)
	require.Equal(t, first, same)
	require.Equal(t, uint64(1), table.Stats().Reads)

	h.add(fakeProcess{pid: 10, exe: "/bin/b", image: 200})
	b, second := lookup()
	require.Equal(t, "/bin/b", b.Executable)
	require.NotEqual(t, first, second)
	require.Equal(t, []Change{{pid(10), Added}, {pid(10), Executed}}, changes)

	for range 2 {
		_, inScope, _, err := table.LookupProgram(pid(11), 0)
		require.NoError(t, err)
		require.False(t, inScope)
	}
	require.Equal(t, uint64(3), table.Stats().Reads)

	table.Exit(pid(10))
	late, inScope, program, err := table.LookupProgram(pid(10), 0)
	require.NoError(t, err)
	require.True(t, inScope)
	require.Zero(t, program)
	require.Same(t, b, late)
	_, _, _, err = table.LookupProgram(pid(12), 0)
	require.ErrorIs(t, err, ErrGone)
}
