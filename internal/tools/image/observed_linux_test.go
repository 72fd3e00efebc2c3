// SPDX-License-Identifier: Apache-2.0

//go:build podman

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// freePorts are ones that nothing listens on.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// settled waits until the Collector no longer starts.
func settled(t *testing.T, url string) {
	t.Helper()
	var status int
	var body string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		status, body = get(t, url)
		if strings.Contains(body, "StatusOK") || strings.Contains(body, "Error") {
			return
		}
	}
	t.Fatalf("the Collector has not started: %d %s", status, body)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// degradedIn are the capabilities for which the metric is 1.
func degradedIn(metrics string) []string {
	list := []string{}
	for line := range strings.Lines(metrics) {
		if _, labels, ok := strings.Cut(line, `otelcol_ebpf_degraded{`); ok && strings.HasSuffix(strings.TrimSpace(line), "} 1") {
			_, name, _ := strings.Cut(labels, `capability="`)
			name, _, _ = strings.Cut(name, `"`)
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// warnings are the lines of a log from warn on, without what names the component.
func warnings(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		f := strings.SplitN(line, "\t", 5)
		if len(f) == 5 && (f[1] == "warn" || f[1] == "error") {
			_, facts, _ := strings.Cut(f[4], `"otelcol.signal": `)
			fmt.Fprintf(&out, "  %s %s %s", f[1], f[3], facts)
		}
	}
	return out.String()
}

// requestsIn are the counts of the last message of each resource: service, role, container, endpoint, status, TLS and count.
func requestsIn(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	type attributes []struct {
		Key   string
		Value struct {
			StringValue, IntValue string
			BoolValue             bool
		}
	}
	of := func(list attributes, key string) (text string, flag bool) {
		for _, a := range list {
			if a.Key == key {
				return a.Value.StringValue + a.Value.IntValue, a.Value.BoolValue
			}
		}
		return "", false
	}
	counts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var message struct {
			ResourceMetrics []struct {
				Resource     struct{ Attributes attributes }
				ScopeMetrics []struct {
					Metrics []struct {
						Name      string
						Histogram struct {
							DataPoints []struct {
								Attributes attributes
								Count      string
							}
						}
					}
				}
			}
		}
		if json.Unmarshal([]byte(line), &message) != nil {
			continue // written in part
		}
		for _, r := range message.ResourceMetrics {
			service, _ := of(r.Resource.Attributes, "service.name")
			container, _ := of(r.Resource.Attributes, "container.id")
			for _, s := range r.ScopeMetrics {
				for _, m := range s.Metrics {
					role, ok := strings.CutSuffix(m.Name, ".request.duration")
					if role = strings.TrimPrefix(role, "http."); !ok {
						continue
					}
					for _, p := range m.Histogram.DataPoints {
						method, _ := of(p.Attributes, "http.request.method")
						route, _ := of(p.Attributes, "http.route")
						template, _ := of(p.Attributes, "url.template")
						code, _ := of(p.Attributes, "http.response.status_code")
						_, secure := of(p.Attributes, "ebpf.tls")
						counts[fmt.Sprintf("%s %s %s %s %s %s tls=%v", service, role, container, method, route+template, code, secure)] = p.Count
					}
				}
			}
		}
	}
	list := []string{}
	for key, count := range counts {
		list = append(list, key+": "+count)
	}
	slices.Sort(list)
	return list
}
