// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
)

func TestContentTypes(t *testing.T) {
	for value, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "Application/gRPC;charset=x": true,
		"application/grpc-web": false, "application/grpc-web+proto": false, "application/json": false, "": false,
	} {
		require.Equal(t, want, grpc.Is([]byte(value)), value)
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string][2]string{"/pkg.Service/Method": {"pkg.Service", "Method"}, "/a/b/M": {"a/b", "M"}} {
		service, method, ok := grpc.SplitPath([]byte(path))
		require.True(t, ok)
		require.Equal(t, want, [2]string{string(service), string(method)})
	}
	for _, path := range []string{"", "/", "/a", "/a/", "//a", "a/b", "*"} {
		_, _, ok := grpc.SplitPath([]byte(path))
		require.False(t, ok, path)
	}
}

func TestTimeouts(t *testing.T) {
	for value, want := range map[string]time.Duration{"1H": time.Hour, "5M": 5 * time.Minute, "99999999S": 99999999 * time.Second, "10m": 10 * time.Millisecond, "3u": 3 * time.Microsecond, "7n": 7, "99999999H": math.MaxInt64} {
		got, ok := grpc.Timeout([]byte(value))
		require.True(t, ok, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "S", "1", "1s", "-1S", "123456789S", "1.5S"} {
		_, ok := grpc.Timeout([]byte(value))
		require.False(t, ok, value)
	}
}

// TestStatusesAreThoseOfGRPC compares with the names that grpc-go reads.
func TestStatusesAreThoseOfGRPC(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		var named codes.Code
		require.NoError(t, named.UnmarshalJSON([]byte(strconv.Quote(grpc.Status([]byte(strconv.Itoa(int(code))))))))
		require.Equal(t, code, named)
	}
	for _, value := range []string{"", "17", "99999999999999999999", "-1", "x"} {
		require.Equal(t, grpc.UnknownStatus, grpc.Status([]byte(value)), value)
	}
	require.Equal(t, "UNAVAILABLE", grpc.StatusOfHTTP(503))
	require.Equal(t, "UNKNOWN", grpc.StatusOfHTTP(200))
	require.Equal(t, "CANCELLED", grpc.StatusOfReset(8))
	require.Equal(t, "UNAVAILABLE", grpc.StatusOfReset(7))
	require.Equal(t, "UNKNOWN", grpc.StatusOfReset(5))
}

func TestErrors(t *testing.T) {
	require.False(t, grpc.IsError(l7.RoleClient, "OK"))
	require.False(t, grpc.IsError(l7.RoleClient, ""))
	require.True(t, grpc.IsError(l7.RoleClient, "NOT_FOUND"))
	require.False(t, grpc.IsError(l7.RoleServer, "NOT_FOUND"))
	require.True(t, grpc.IsError(l7.RoleServer, "INTERNAL"))
}

// body is one of messages of the given lengths.
func body(lengths ...int) (b []byte) {
	for _, n := range lengths {
		b = append(b, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		b = append(b, make([]byte, n)...)
	}
	return b
}

func TestMessagesAreCounted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var m grpc.Messages
		all := body(5, 0, 300, 0, 1, 70000)
		for left := all; len(left) > 0; {
			n := 1 + rnd.IntN(len(left))
			m.Add(left[:n], int64(n))
			left = left[n:]
		}
		require.Equal(t, int64(6), m.Count())
	}
}

// TestMessagesOfWhichOnlyTheBeginningIsKnown are counted where the next one's length is known, and not where it is not.
func TestMessagesOfWhichOnlyTheBeginningIsKnown(t *testing.T) {
	var m grpc.Messages
	m.Add(body(1000)[:20], 1005)
	m.Add(body(1000)[:5], 600)
	require.Equal(t, int64(1), m.Count())
	m.Add(nil, 405)
	require.Equal(t, int64(2), m.Count())
	m.Add(nil, 1)
	require.Equal(t, l7.Unknown, m.Count())

	var lost grpc.Messages
	lost.Lose()
	lost.Add(body(3), 8)
	require.Equal(t, l7.Unknown, lost.Count())
}

// TestMessagesOf checks that each message in a body is found, and that the last one may be cut.
func TestMessagesOf(t *testing.T) {
	var got []grpc.Message
	for m := range grpc.MessagesOf([]byte("\x00\x00\x00\x00\x02ab\x01\x00\x00\x00\x00\x01\x00\x00\x01\x00cut")) {
		got = append(got, m)
	}
	require.Equal(t, []grpc.Message{{Data: []byte("ab")}, {Data: []byte{}, Compressed: true}, {Data: []byte("cut"), Compressed: true, Cut: true}}, got)
	for range grpc.MessagesOf([]byte("\x00\x00\x00\x00")) {
		t.Fatal("half a prefix is no message")
	}
}
