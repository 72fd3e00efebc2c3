// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package hosted

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// Protocols of a capture, as bits.
const (
	http1     = 1 << bindings.NetworkNetworkProtocolNETWORK_HTTP1
	http2     = 1 << bindings.NetworkNetworkProtocolNETWORK_HTTP2
	dns       = 1 << bindings.NetworkNetworkProtocolNETWORK_DNS
	protocols = http1 | http2 | dns
)

// record is what the programs report of a transfer: its head and the first of its bytes.
type record struct {
	bindings.NetworkNetworkSegment
	data []byte
}

const headBytes = int(unsafe.Sizeof(bindings.NetworkNetworkSegment{}))

// host is the capture of network_capture.h in a process, under the address and undefined behaviour sanitizers.
type host struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
	err *bytes.Buffer
}

// compile builds the host once for a test.
func compile(t testing.TB) string {
	t.Helper()
	target := map[string]string{"amd64": "x86", "arm64": "arm64"}[runtime.GOARCH]
	return testbin.C(t, "testdata/host.c", "-fsanitize=address,undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover=all", "-D__TARGET_ARCH_"+target,
		"-Wno-unknown-pragmas", "-Wno-attributes", "-Wno-overflow", "-Itestdata", "testdata/capture.c")
}

// start starts a compiled host that takes so many bytes of a transfer.
func start(t testing.TB, path string, captureBytes int) *host {
	t.Helper()
	h := &host{t: t, err: &bytes.Buffer{}}
	cmd := exec.Command(path, strconv.Itoa(captureBytes), strconv.Itoa(protocols))
	cmd.Stderr = h.err
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	h.in, h.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait(), "%s", h.err)
	})
	return h
}

// begin begins a connection.
func (h *host) begin(role bindings.NetworkNetworkRole) { h.step('b', []byte{byte(role)}) }

// end ends it.
func (h *host) end() []record { return h.step('e', nil) }

// transfer is one call that has transferred so many bytes, in buffers. These may have fewer.
func (h *host) transfer(kind bindings.NetworkNetworkSegmentKind, length int, memory ...[]byte) []record {
	message := []byte{byte(kind)}
	message = binary.LittleEndian.AppendUint32(message, uint32(length))
	message = binary.LittleEndian.AppendUint32(message, uint32(len(memory)))
	for _, m := range memory {
		message = append(binary.LittleEndian.AppendUint32(message, uint32(len(m))), m...)
	}
	return h.step('t', message)
}

// step has the host do something and returns what it reports.
func (h *host) step(kind byte, message []byte) (records []record) {
	h.t.Helper()
	_, err := h.in.Write(append([]byte{kind}, message...))
	require.NoError(h.t, err, "%s", h.err)
	for {
		var size [4]byte
		_, err := io.ReadFull(h.out, size[:])
		require.NoError(h.t, err, "%s", h.err)
		n := int(binary.LittleEndian.Uint32(size[:]))
		if n == 0 {
			return records
		}
		require.GreaterOrEqual(h.t, n, headBytes)
		whole := make([]byte, n)
		_, err = io.ReadFull(h.out, whole)
		require.NoError(h.t, err, "%s", h.err)
		records = append(records, record{*(*bindings.NetworkNetworkSegment)(unsafe.Pointer(&whole[0])), whole[headBytes:]})
	}
}
