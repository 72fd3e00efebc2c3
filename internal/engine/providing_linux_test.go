// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// TestQueues holds that a binary is made once for all who wait for it, the smallest first, that a large one keeps no other
// waiting, and that a queue is idle only when what was taken from it is told.
func TestQueues(t *testing.T) {
	u := &unwinding{small: newQueue(), large: newQueue()}
	postgres, nginx := subjectNumber(1), subjectNumber(2)
	library := symbol.Region{Content: "library", Size: 2 << 20}
	u.enqueue(postgres, nil, []symbol.Region{library, {Content: "data", Size: 30 << 20}, {Content: "helper", Size: 1 << 20}})
	u.enqueue(nginx, nil, []symbol.Region{library})
	u.enqueue(nginx, nil, []symbol.Region{library}) // its mappings were read again

	require.Equal(t, []string{"helper", "library"}, takeAll(u, &u.small))
	require.Equal(t, []string{"data"}, takeAll(u, &u.large))

	u.enqueue(postgres, nil, []symbol.Region{library})
	u.enqueue(nginx, nil, []symbol.Region{library})
	waiting := u.take(&u.small)
	require.Len(t, waiting, 2)
	require.Equal(t, postgres, waiting[postgres.key].want)
	require.Equal(t, nginx, waiting[nginx.key].want)
	require.False(t, u.small.idle())
	u.small.untold = waiting
	u.done(&u.small)
	require.False(t, u.small.idle())
	u.small.untold = nil
	u.done(&u.small)
	require.True(t, u.small.idle())
}

func subjectNumber(pid uint32) wanted {
	return wanted{key: observe.SubjectKey{PID: pid}, subject: &subject{}}
}

// takeAll takes what waits and names it, in this order.
func takeAll(u *unwinding, q *queue) (contents []string) {
	for places := u.take(q); places != nil; places = u.take(q) {
		for _, p := range places {
			contents = append(contents, p.region.Content)
			break
		}
	}
	u.done(q)
	return contents
}

func TestIsLibc(t *testing.T) {
	for _, file := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc-2.31.so", "/lib/ld-musl-x86_64.so.1", "/lib/libc.musl-x86_64.so.1"} {
		require.True(t, isLibc(file), file)
	}
	for _, file := range []string{"", "/lib/libcrypto.so.3", "/lib/libcap.so.2", "/lib64/ld-linux-x86-64.so.2", "/libc.d/x", "libm.so.6"} {
		require.False(t, isLibc(file), file)
	}
}
