// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bufio"
	cryptotls "crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// TestRequestsThroughTLS holds that a program that starts later is attached to as it maps its code, reported with its requests through
// TLS, and left when it ends; no other kind follows mappings here.
func TestRequestsThroughTLS(t *testing.T) {
	needRoot(t)
	const times = 10
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20000")
		_, _ = w.Write(make([]byte, 20000))
	}))
	server.TLS = &cryptotls.Config{NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	defer server.Close()
	path := copyFile(t, testbin.Go(t, "../observe/network/testdata/gotls"), filepath.Join(t.TempDir(), "speaker"))
	require.NoError(t, os.Chmod(path, 0o755))
	config := configuration(time.Second, process.Selector{Exe: path})
	config.Observe = []observe.Plan{&network.Plan{Common: observe.Common{ReportInterval: time.Second}, Requests: true, BufferBytes: 1 << 20, TLS: []tls.Library{"go"}}}
	o := begin(t, config)
	time.Sleep(3 * time.Second) // what others do is looked at until they are known to be out of scope
	hooks := o.attachedTo("network", 0)

	client := exec.Command(path, "client", server.URL[strings.LastIndex(server.URL, ":")+1:], strconv.Itoa(times))
	in, err := client.StdinPipe()
	require.NoError(t, err)
	out, err := client.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, client.Start())
	o.attachedTo("network", hooks)
	_, err = fmt.Fprintln(in, "/here /there")
	require.NoError(t, err)
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != strconv.Itoa(2*times) {
		require.Equal(t, "ready", lines.Text())
	}
	counted := func() uint64 {
		return o.lastCount(client.Process.Pid, "http.client.request.duration",
			model.Bool("ebpf.tls", true), model.Text("url.scheme", "https"), model.Int("http.response.status_code", 200))
	}
	require.Eventually(t, func() bool { return counted() == 2*times }, time.Minute, 50*time.Millisecond)
	require.NoError(t, in.Close())
	require.NoError(t, client.Wait())
	require.Eventually(t, func() bool { return o.Stats().Attached["network"] == hooks }, time.Minute, 10*time.Millisecond, "it is left")
	o.end()
	require.EqualValues(t, 2*times, counted())
}

// lastCount is the count of a metric in the last report of a process that has it, summed over the points that have all these attributes.
func (o *observed) lastCount(pid int, metric string, wanted ...model.Attribute) (sum uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, all := range o.metrics {
		if all.Process == nil || all.Process.ID.PID != uint32(pid) {
			continue
		}
		for _, m := range all.Metrics {
			if m.Name != metric {
				continue
			}
			sum = 0
			for _, p := range m.Points {
				if hasAll(p.Attributes, wanted) {
					sum += p.Histogram.Count
				}
			}
		}
	}
	return sum
}
