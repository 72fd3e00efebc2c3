// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService is grpc-go's own service of that name, with plaintext and through TLS, with a client for each, all in this process.
type healthService struct {
	ports []int
	as    []credentials.TransportCredentials // of the client
}

func startHealth(t *testing.T, s *site) *healthService {
	t.Helper()
	h, cert := &healthService{}, s.certificate(t)
	for _, by := range [][2]credentials.TransportCredentials{
		{insecure.NewCredentials(), insecure.NewCredentials()},
		{credentials.NewServerTLSFromCert(&cert), credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer(grpc.Creds(by[0]))
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		t.Cleanup(func() {
			server.Stop()
			require.NoError(t, <-served)
		})
		h.ports, h.as = append(h.ports, l.Addr().(*net.TCPAddr).Port), append(h.as, by[1])
	}
	return h
}

// connected has a client call the i-th port on a connection of its own: on a connection from before the start HTTP/2 refers to fields that
// were not seen.
func (h *healthService) connected(t *testing.T, i int, ask func(grpc_health_v1.HealthClient)) {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", h.ports[i]), grpc.WithTransportCredentials(h.as[i]))
	require.NoError(t, err)
	ask(grpc_health_v1.NewHealthClient(conn))
	require.NoError(t, conn.Close())
}

// warming calls the existing services until both sides are logged, for each port.
func (h *healthService) warming(t *testing.T) (all []warm) {
	for i, port := range h.ports {
		all = append(all, warm{
			fmt.Sprint("grpc-go at port ", port),
			func(r requests) bool {
				return len(h.counted(r, "client", port)) > 0 && len(h.counted(r, "server", port)) > 0
			},
			func() {
				h.connected(t, i, func(client grpc_health_v1.HealthClient) {
					_, err := client.List(t.Context(), &grpc_health_v1.HealthListRequest{})
					require.NoError(t, err)
				})
			},
		})
	}
	return all
}

// ask asks how the server is, and how one is that is not there.
func (h *healthService) ask(t *testing.T) {
	t.Helper()
	for i := range h.ports {
		h.connected(t, i, func(client grpc_health_v1.HealthClient) {
			for range times("/here") {
				_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				require.NoError(t, err)
			}
			for range times("/absent") {
				_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "absent"})
				require.Equal(t, codes.NotFound, status.Code(err))
			}
		})
	}
}

// counted counts the calls of one side by method and status.
func (h *healthService) counted(logged requests, role string, port int) map[string]int {
	counted := map[string]int{}
	for key, list := range logged {
		if key.role != role || key.port != fmt.Sprint(port) {
			continue
		}
		for _, l := range list {
			counted[text(l.Attributes(), "rpc.method")+" "+text(l.Attributes(), "rpc.response.status_code")]++
		}
	}
	return counted
}

func (h *healthService) require(t *testing.T, logged requests, missed bool) {
	for i, port := range h.ports {
		for key, list := range logged {
			for _, l := range list {
				require.True(t, key.port != fmt.Sprint(port) || (text(l.Attributes(), "ebpf.tls") == "true") == (i == 1), key)
			}
		}
		for _, role := range []string{"client", "server"} {
			got := h.counted(logged, role, port)
			delete(got, "grpc.health.v1.Health/List OK")
			requireCounts(t, map[string]int{
				"grpc.health.v1.Health/Check OK": times("/here"), "grpc.health.v1.Health/Check NOT_FOUND": times("/absent"),
			}, got, missed, role)
		}
	}
}
