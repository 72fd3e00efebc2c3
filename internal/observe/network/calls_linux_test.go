// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestCallsAmongShortConnections checks that sequential calls by grpc-go on one connection are each reported with their status by both sides,
// while other connections come and go, each of which is remembered for a while when it is followed.
func TestCallsAmongShortConnections(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const well, absent, others = 200, 100, 2
	runEachWay(t, func(t *testing.T, by *way) {
		client := healthOf(t)
		config := requestConfig()
		config.BufferBytes = largeBuffer
		w := watch(t, config, by.change)
		stop := connectAgainAndAgain(t, others)
		for range well {
			_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			require.NoError(t, err)
		}
		for range absent {
			_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "absent"})
			require.Equal(t, codes.NotFound, status.Code(err))
		}
		stop()
		w.settle()
		if w.missed() > 0 || w.loss("buffer_full") > 0 {
			t.Logf("the kernel left out programs, or the buffer was full: %v", w.Losses())
			return
		}
		t.Logf("by the whole host: %d interrupted, %d with unknown fields", w.loss("request_interrupted"), w.loss("request_fields_unknown"))
		const method = "grpc.health.v1.Health/Check "
		require.Equal(t, map[string]uint64{method + "OK ": well, method + "NOT_FOUND ": absent}, w.callCounts(self{}, "server"))
		require.Equal(t, map[string]uint64{method + "OK ": well, method + "NOT_FOUND NOT_FOUND": absent}, w.callCounts(self{}, "client"))
	})
}

// healthOf returns a client of grpc-go's health service, both in this process, which connects with its first call.
func healthOf(t *testing.T) grpc_health_v1.HealthClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-served)
	})
	return grpc_health_v1.NewHealthClient(conn)
}

// connectAgainAndAgain makes so many clients connect for each request, by HTTP/2, until stop is called.
func connectAgainAndAgain(t *testing.T, clients int) (stop func()) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.Protocols = cleartext()
	server.Start()
	ended, stopping := sync.WaitGroup{}, make(chan struct{})
	for range clients {
		ended.Go(func() {
			for {
				select {
				case <-stopping:
					return
				default:
				}
				transport := &http.Transport{Protocols: cleartext()}
				if response, err := (&http.Client{Transport: transport}).Get(server.URL); err == nil {
					_ = response.Body.Close()
				}
				transport.CloseIdleConnections()
			}
		})
	}
	return func() {
		close(stopping)
		ended.Wait()
		server.Close()
	}
}
