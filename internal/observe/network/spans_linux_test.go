// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestSpansOfManyRequests checks that of many requests at a time, on connections of HTTP/1 and on streams of one of HTTP/2, each server's span is the
// child of the span of its own client.
func TestSpansOfManyRequests(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const each = 40
	for name, protocols := range map[string]func(*http.Protocols){
		"HTTP/1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(5 * time.Millisecond)
				_, _ = io.WriteString(w, r.URL.Path)
			}))
			spoken := &http.Protocols{}
			protocols(spoken)
			server.Config.Protocols = spoken
			server.Start()
			defer server.Close()
			transport := &http.Transport{Protocols: spoken}
			defer transport.CloseIdleConnections()
			config := requestConfig()
			config.Journal = requests.JournalConfig{Spans: true, Bytes: 4 << 20}
			w := watch(t, config, nil)
			var clients sync.WaitGroup
			for i := range each {
				clients.Go(func() {
					response, err := (&http.Client{Transport: transport}).Get(fmt.Sprintf("%s/item/a%db", server.URL, i))
					if err == nil {
						_, err = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
					}
					if err != nil {
						t.Errorf("asking: %v", err)
					}
				})
			}
			clients.Wait()
			transport.CloseIdleConnections()
			w.settle()
			var all []*model.Spans
			require.Eventually(t, func() bool {
				all = append(all, w.Spans()...)
				exported := 0
				for _, of := range all {
					if of.Process != nil && of.Process.ID.PID == uint32(os.Getpid()) {
						exported += len(of.Spans)
					}
				}
				return exported >= 2*each || w.missed() > 0
			}, time.Minute, 10*time.Millisecond)
			if w.missed() > 0 {
				return // some of the requests were not seen
			}
			byPath := map[string]map[model.SpanKind]model.Span{}
			for _, of := range all {
				if of.Process == nil || of.Process.ID.PID != uint32(os.Getpid()) {
					continue
				}
				for _, s := range of.Spans {
					for _, a := range s.Attributes {
						if a.Key == "url.path" {
							if byPath[a.Value.Text] == nil {
								byPath[a.Value.Text] = map[model.SpanKind]model.Span{}
							}
							byPath[a.Value.Text][s.Kind] = s
						}
					}
				}
			}
			require.Len(t, byPath, each)
			traces := map[[16]byte]bool{}
			for path, sides := range byPath {
				client, server := sides[model.ClientSpan], sides[model.ServerSpan]
				require.Zero(t, client.ParentID, path)
				require.Equal(t, client.SpanID, server.ParentID, path)
				require.Equal(t, client.TraceID, server.TraceID, path)
				traces[client.TraceID] = true
			}
			require.Len(t, traces, each)
		})
	}
}
