// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// fill adds logs of a request until there are most or the page is full, and returns their number.
func fill(t *Together, r *Request, most int) (added int) {
	for ; added < most && !t.Full(); added++ {
		t.Add(r, "", nil, time.Time{}, nil)
	}
	return added
}

// TestPages checks that logs share a page until it is full, with its attributes, that each log has its own, and that nothing is left of what
// the page had before it was returned.
func TestPages(t *testing.T) {
	asked := func(status int) *Request {
		return newRequest(Connection{}, exchange(l7.RoleServer, "/", status, 100), "", &Redaction{}, wall)
	}
	lookup := newRequest(Connection{}, askedFor("db.example.", 28, ""), "", &Redaction{}, wall)
	process := &model.Process{ID: model.ProcessID{PID: 7}}
	var pages Pages
	for n := range 3 {
		together := pages.Begin(process)
		require.Same(t, process, together.Process)
		require.Empty(t, together.Logs.Logs)
		require.Equal(t, pageBytes, together.Bytes)
		first, all := &together.Logs.Logs[:1][0], together.Room.free
		added := 0
		for fill(&together, asked(200+added), 1) == 1 {
			added++
		}
		require.Greater(t, added, 100)
		require.Less(t, added, pageLogs)
		require.Same(t, first, &together.Logs.Logs[0], "the list was not moved")
		require.Same(t, &all[:1][0], &together.Logs.Logs[0].Attributes[0])
		require.Less(t, cap(together.Room.free), cap(all), "no other room was taken")
		for i, l := range together.Logs.Logs {
			require.EqualValues(t, 200+i, values(l.Attributes)["http.response.status_code"], n)
		}
		require.Equal(t, pageBytes+uint64(added*len("/")), together.Bytes)
		together.Release()
	}
	together := pages.Begin(process)
	require.Equal(t, pageLogs, fill(&together, lookup, 2*pageLogs), "lookups have few attributes")

	few := Few(process, &Room{})
	require.Equal(t, worthwhile, fill(&few, lookup, 2*pageLogs))
	require.Nil(t, few.Release)
}

// TestPagesAreReused checks that a hundred logs on a reused page allocate only the list, and at times the page, which garbage collections
// free.
func TestPagesAreReused(t *testing.T) {
	r := newRequest(Connection{}, exchange(l7.RoleServer, "/", 200, 100), "", &Redaction{}, wall)
	var pages Pages
	require.Less(t, testing.AllocsPerRun(100, func() {
		together := pages.Begin(nil)
		require.Equal(t, 100, fill(&together, r, 100))
		together.Release()
	}), 10.0)
}
