// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// recordSkipped records that a process reads a request that was not captured, a millisecond later.
func (f *followed) recordSkipped(sock uint64, r skippedRequest) {
	f.at += time.Millisecond
	var data []byte
	for _, n := range []uint32{r.Set, r.Path, r.Head, 0} {
		data = binary.NativeEndian.AppendUint32(data, n)
	}
	f.record(&segment{
		Sock: sock, Kind: uint8(bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_REQUEST), Began: uint64(f.at), Ended: uint64(f.at),
	}, data)
}

// TestSkippedRequestsArePaired checks that a response is reported with the path of its skipped request, which was to be counted in the kernel,
// and that no client can have another path counted by a request of its own.
func TestSkippedRequestsArePaired(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making BPF maps needs root")
	}
	paths, err := NewPaths()
	require.NoError(t, err)
	defer func() { require.NoError(t, paths.Close()) }()
	require.NoError(t, paths.Set(1, Wanted{Counted: []string{"/a"}, Begun: []string{"/b"}}))
	var got []string
	f := followTCP(Config{OnlyAnswered: true, Paths: paths, Answered: func(a Answer) {
		got = append(got, fmt.Sprint(string(a.Path), " ", a.Begins, " ", a.Status, " ", a.Took))
	}})
	f.recordSkipped(1, skippedRequest{Set: 1, Path: 1})
	f.recordText(1, l7.Write, responseText)
	f.recordSkipped(1, skippedRequest{Set: 1, Path: 2, Head: 1})
	f.recordText(1, l7.Write, "HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n")
	f.recordSkipped(1, skippedRequest{})
	f.recordText(1, l7.Write, responseText)
	f.recordText(1, l7.Read, "GET *00010001 HTTP/1.1\r\nHost: h\r\n\r\n")
	f.recordText(1, l7.Write, responseText)
	require.Equal(t, []string{"/a false 200 1ms", "/b true 503 1ms", "* false 200 1ms", "*00010001 false 200 1ms"}, got)
}
