// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestVerifierWork checks how many instructions the verifier processes when the programs are loaded: that is most of what a start takes.
func TestVerifierWork(t *testing.T) {
	tls, _ := tlsConfig(t)
	policies := requestConfig()
	policies.Only, policies.Protocols, policies.OnlyAnswered = Server, []Protocol{HTTP, HTTP2}, true
	policies.Answered = func(Answer) {}
	bodies := sampling(1<<20, requests.Rule{Request: requests.BodyRule{MaxBytes: 1 << 10}})
	for _, c := range []struct {
		name   string
		config Config
		most   uint32
	}{
		{"connections alone", config(), 180_000},
		{"requests", requestConfig(), 440_000},
		{"requests through TLS", tls, 670_000},
		{"bodies", bodies, 440_000},
		{"requests for policies", policies, 500_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watch(t, c.config, nil)
			var sum uint32
			for name, program := range w.coll.Programs {
				info, err := program.Info()
				require.NoError(t, err)
				n, known := info.VerifiedInstructions()
				if !known {
					t.Skip("the kernel does not say (5.16)")
				}
				if n > 50_000 {
					t.Logf("%s: %d", name, n)
				}
				sum += n
			}
			t.Logf("all: %d", sum)
			require.Less(t, sum, c.most)
		})
	}
}
