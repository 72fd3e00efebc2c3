// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Counters are the kernel's own of a namespace since it was made, as nstat shows them: TcpRetransSegs, TcpOutRsts,
// TcpExtTCPLostRetransmit and so on.
func (n *Namespace) Counters(t testing.TB) map[string]int64 {
	t.Helper()
	counters := map[string]int64{}
	require.NoError(t, n.Do(func() error {
		for _, path := range []string{"/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"} {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			parseCounters(string(text), counters)
		}
		return nil
	}), "reading the kernel's counters")
	return counters
}

// parseCounters reads pairs of lines, names and then values, each after the name of the protocol.
func parseCounters(text string, into map[string]int64) {
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		protocol, names, _ := strings.Cut(lines[i], ":")
		_, values, _ := strings.Cut(lines[i+1], ":")
		value := strings.Fields(values)
		for j, name := range strings.Fields(names) {
			if j < len(value) {
				if n, err := strconv.ParseInt(value[j], 10, 64); err == nil {
					into[protocol+name] = n
				}
			}
		}
	}
}
