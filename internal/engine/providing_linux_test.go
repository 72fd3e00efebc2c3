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
// waiting, and that a queue is idle only when what was taken from it is sent.
func TestQueues(t *testing.T) {
	u := &unwinding{small: newQueue(1 << 20), large: newQueue(1 << 20)}
	postgres, nginx := subjectNumber(1), subjectNumber(2)
	library := symbol.Region{Content: "library", Size: 2 << 20}
	u.enqueue(postgres, nil, []symbol.Region{library, {Content: "data", Size: 30 << 20}, {Content: "helper", Size: 1 << 20}}, false)
	u.enqueue(nginx, nil, []symbol.Region{library}, false)
	u.enqueue(nginx, nil, []symbol.Region{library}, false) // its mappings were read again

	require.Equal(t, []string{"helper", "library"}, takeAll(u, &u.small))
	require.Equal(t, []string{"data"}, takeAll(u, &u.large))

	u.enqueue(postgres, nil, []symbol.Region{library}, false)
	u.enqueue(nginx, nil, []symbol.Region{library}, false)
	waiting := u.take(&u.small)
	require.Len(t, waiting, 2)
	require.Equal(t, postgres, waiting[postgres.key].want)
	require.Equal(t, nginx, waiting[nginx.key].want)
	require.False(t, u.small.idle())
	u.small.unsent = waiting
	u.done(&u.small)
	require.False(t, u.small.idle())
	u.small.unsent = nil
	u.done(&u.small)
	require.True(t, u.small.idle())
}

// TestQueueOfUserOverItsPart checks that small binaries of a user that is over its part wait in the queue of large ones, which is paced, and
// that those of others come first there.
func TestQueueOfUserOverItsPart(t *testing.T) {
	u := &unwinding{small: newQueue(1 << 20), large: newQueue(1 << 20)}
	u.enqueue(subjectNumber(1), nil, []symbol.Region{{Content: "new", Size: 1 << 20}, {Content: "newer", Size: 2 << 20}}, true)
	u.enqueue(subjectNumber(2), nil, []symbol.Region{{Content: "server", Size: 30 << 20}, {Content: "library", Size: 2 << 20}}, false)
	require.Equal(t, []string{"library"}, takeAll(u, &u.small))
	require.Equal(t, []string{"server", "new", "newer"}, takeAll(u, &u.large))
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
