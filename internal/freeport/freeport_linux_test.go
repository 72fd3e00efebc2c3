// SPDX-License-Identifier: Apache-2.0

package freeport_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// TestMain prints ports and waits for the end of its input if a test has started it.
func TestMain(m *testing.M) {
	if os.Getenv("FREEPORT_CHILD") == "" {
		os.Exit(m.Run())
	}
	for range 200 {
		port, err := freeport.Get()
		fmt.Println(port, err)
	}
	fmt.Println("done")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestNoProcessGetsThePortOfAnother(t *testing.T) {
	by := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("process %d", i)
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "FREEPORT_CHILD=1")
		stdin, err := child.StdinPipe()
		require.NoError(t, err)
		stdout, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		t.Cleanup(func() {
			require.NoError(t, stdin.Close())
			require.NoError(t, child.Wait())
		})
		for {
			var port, err string
			_, scanErr := fmt.Fscanln(stdout, &port, &err)
			if port == "done" {
				break
			}
			require.NoError(t, scanErr)
			require.Equal(t, "<nil>", err)
			require.Empty(t, by[port], "%s and %s got port %s", name, by[port], port)
			by[port] = name
		}
	}
	require.Len(t, by, 800)
}

func TestPortsAreBelowTheEphemeralOnes(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	require.NoError(t, err)
	var lowest, highest int
	_, err = fmt.Sscan(string(text), &lowest, &highest)
	require.NoError(t, err)
	for range 100 {
		endpoint := freeport.Endpoint(t)
		require.True(t, strings.HasPrefix(endpoint, "127.0.0.1:"), endpoint)
		listener, err := net.Listen("tcp", endpoint)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		require.Less(t, listener.Addr().(*net.TCPAddr).Port, lowest)
	}
}
