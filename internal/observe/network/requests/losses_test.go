// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// someone is a process.
var someone = observe.SubjectKey{PID: 1}

// decided returns j after all of its processes were found in scope.
func decided(j *Journal) *Journal {
	j.losses.Decide(func(observe.SubjectKey) bool { return true })
	return j
}

// TestLossesOfOthersDoNotCount checks that losses of a process count once it is known to be in scope, and that those of other processes and
// of no process never count.
func TestLossesOfOthersDoNotCount(t *testing.T) {
	l, another := NewLosses(), observe.SubjectKey{PID: 2}
	inScope := func(of observe.SubjectKey) bool { return of == someone }
	l.Add(someone, "cut", 2)
	l.Add(another, "cut", 3)
	l.Add(observe.SubjectKey{}, "cut", 5)
	require.Zero(t, l.Of("cut"))
	l.Decide(inScope)
	require.EqualValues(t, 2, l.Of("cut"))
	l.Add(someone, "cut", 1)
	l.Add(someone, "full", 1)
	l.Decide(inScope)
	require.EqualValues(t, 3, l.Of("cut"))
	require.EqualValues(t, 1, l.Of("full"))
}

// TestUnnamedOfOthersDoesNotCount checks that requests beyond the routes of a process count once it is known to be in scope, and that those
// of other processes never count.
func TestUnnamedOfOthersDoesNotCount(t *testing.T) {
	const more = 7
	for name, c := range map[string]struct {
		known *model.Process
		want  uint64
	}{"in scope": {&model.Process{}, more}, "out of scope": {nil, 0}} {
		t.Run(name, func(t *testing.T) {
			totals := NewTotals(Redaction{})
			for i := range maxRoutes + more {
				totals.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/"+string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}), 200, 1))
			}
			require.Zero(t, totals.Unnamed(), "it is not known yet whether it is in scope")
			totals.Name(func(observe.SubjectKey) (*model.Process, bool) { return c.known, true })
			require.Equal(t, c.want, totals.Unnamed().Texts["request_routes_full"])
		})
	}
}
