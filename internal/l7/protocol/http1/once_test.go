// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// TestEachRequestCountsOnce checks that of pipelined requests, the bytes of whose responses are not all known, each is handed over once, and
// that those whose response is missing are counted: no response is handed over in addition to its request.
func TestEachRequestCountsOnce(t *testing.T) {
	const requests, response = 60, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	var ask strings.Builder
	for i := range requests {
		fmt.Fprintf(&ask, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i)
	}
	answers := strings.Repeat(response, requests)
	for _, known := range []int{0, 30, len(response), 20*len(response) + 7, 20*len(response) + 30, 59 * len(response)} {
		for _, first := range []int{known, 40 * len(response), len(answers) - 1, len(answers)} {
			if first < known {
				continue
			}
			for _, client := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d of %d, client %v", known, first, client), func(t *testing.T) {
					l := listen()
					s := script{reads(ask.String()), cutWrite{answers[:known], int64(first - known)}}
					for at := first; at < len(answers); at += len(response) { // in calls that may begin anywhere
						s = append(s, writes(answers[at:min(at+len(response), len(answers))]))
					}
					l.play(t, s, client)
					l.Close()
					require.Equal(t, requests, len(l.reported))
					missing := 0
					seen := map[string]int{}
					for _, e := range l.reported {
						seen[e.Path]++
						if e.Outcome == l7.Lost && !e.Response.Known {
							missing++
						}
					}
					require.Equal(t, requests, len(seen), "each by itself")
					require.EqualValues(t, missing, l.stats.Unanswered)
					if first-known > len(response) {
						require.Positive(t, missing)
					}
				})
			}
		}
	}
}
