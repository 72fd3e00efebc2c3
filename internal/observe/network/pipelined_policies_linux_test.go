// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestPoliciesCountPipelinedRequests checks that policies count each of many pipelined requests, however many of them one call reads or
// writes.
func TestPoliciesCountPipelinedRequests(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const requests = 60
	pay := "GET /pay HTTP/1.1\r\nHost: test\r\nCookie: " + strings.Repeat("c", 150) + "\r\n\r\n"
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n" + responseHead + "\r\n" + strings.Repeat("b", 100)
	countEachWanted(t, "/pay", func(t *testing.T, n *counter) {
		for name, size := range map[string]int{"at once": 1 << 20, "by 4096 bytes": 4096, "one by one": 0} {
			before := n.all.ofPath("/pay")
			c := newTalk(t)
			for _, way := range []struct {
				from, to net.Conn
				text     string
			}{{c.client, c.server, pay}, {c.server, c.client, answer}} {
				if size == 0 {
					for range requests {
						c.carry(way.from, way.to, way.text)
					}
					continue
				}
				go func() { _, _ = io.WriteString(way.from, strings.Repeat(way.text, requests)) }()
				readBy(t, way.to, requests*len(way.text), size)
			}
			c.end()
			n.requireCount(t, "/pay", before, requests, 0, name)
		}
	})
}
