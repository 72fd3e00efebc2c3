// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRequestsOverMPTCPEnd checks that what an MPTCP connection carries ends with it: a response without a length, and a request without a
// response; and that what is read after both sides have ended is reported with its request.
func TestRequestsOverMPTCPEnd(t *testing.T) {
	if _, err := os.Stat("/proc/sys/net/mptcp"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the kernel has no MPTCP")
	}
	overhearAlone(t, func(t *testing.T, w *watching, o *overheard) {
		var listening net.ListenConfig
		listening.SetMultipathTCP(true)
		listener, err := listening.Listen(context.Background(), "tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		begin := func(request string) (client, server net.Conn) {
			var dialer net.Dialer
			dialer.SetMultipathTCP(true)
			client, err := dialer.Dial("tcp4", listener.Addr().String())
			require.NoError(t, err)
			server, err = listener.Accept()
			require.NoError(t, err)
			if both, err := client.(*net.TCPConn).MultipathTCP(); err != nil || !both {
				t.Skip("MPTCP is turned off here")
			}
			exchangeBytes(t, client, server, []byte(request))
			return client, server
		}
		client, server := begin("GET /until-the-end HTTP/1.0\r\nHost: a\r\n\r\n")
		exchangeBytes(t, server, client, []byte("HTTP/1.0 200 OK\r\nServer: old\r\n\r\nsome content"))
		require.NoError(t, server.Close())
		require.NoError(t, client.Close())
		client, server = begin("GET /given-up HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		client, server = begin("GET /half-closed HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, client.(*net.TCPConn).CloseWrite())
		nothingFollows(t, server)
		_, err = io.WriteString(server, fine)
		require.NoError(t, err)
		require.NoError(t, server.Close())
		time.Sleep(4 * unreadFor)
		read, err := io.ReadAll(client)
		require.NoError(t, err)
		require.Equal(t, fine, string(read))
		require.NoError(t, client.Close())
		want := map[string]int{}
		for _, role := range []string{"client", "server"} {
			want[role+" GET /until-the-end 200"], want[role+" GET /given-up 0"], want[role+" GET /half-closed 200"] = 1, 1, 1
		}
		o.wait(t, w, want)
		w.leavesNothing()
	})
}
