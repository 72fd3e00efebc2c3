// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// deaf is a gRPC service that answers when the call is over. Its request has the name of the service that [service] makes of the client's
// deadline, and it notes by how much its own deadline is later: how long it took to read the request. Requests without a name are counted.
type deaf struct {
	grpc_health_v1.UnimplementedHealthServer
	delays  chan<- time.Duration
	unnamed *atomic.Int64
}

func service(deadline time.Time) string { return strconv.FormatInt(deadline.UnixNano(), 10) }

func (d deaf) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if ns, err := strconv.ParseInt(r.Service, 10, 64); err == nil {
		own, _ := ctx.Deadline()
		d.delays <- own.Sub(time.Unix(0, ns))
	} else {
		d.unnamed.Add(1)
	}
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// TestCallsWithoutAResponse checks that both sides count each call whose deadline passes, or that its client cancels, whether the server's
// trailers or the client's reset come first; with the status that the client has itself.
func TestCallsWithoutAResponse(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const late, cancelled, deadline = 40, 10, 300 * time.Millisecond
	// promptly is a delay with which a deadline that the client has is one for the server, too: see pastDeadline of package http2.
	const promptly = 25 * time.Millisecond
	runEachWayUntilSeen(t, func(t *testing.T, by *way) bool {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer()
		delays := make(chan time.Duration, late)
		var unnamed atomic.Int64
		grpc_health_v1.RegisterHealthServer(server, deaf{delays: delays, unnamed: &unnamed})
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		client := grpc_health_v1.NewHealthClient(conn)
		config := requestConfig()
		config.BufferBytes = largeBuffer
		w := watch(t, config, by.change)
		conn.Connect()
		for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
			require.True(t, conn.WaitForStateChange(t.Context(), state))
		}
		own := make(chan codes.Code, late+cancelled)
		call := func(timeout, cancelAfter time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			defer time.AfterFunc(cancelAfter, cancel).Stop()
			request := &grpc_health_v1.HealthCheckRequest{}
			if at, _ := ctx.Deadline(); timeout == deadline {
				request.Service = service(at)
			}
			_, err := client.Check(ctx, request)
			own <- status.Code(err)
		}
		var all sync.WaitGroup
		for range late {
			all.Go(func() { call(deadline, time.Minute) })
		}
		for range cancelled {
			all.Go(func() { call(time.Minute, deadline) })
		}
		all.Wait()
		close(own)
		counted := map[codes.Code]int{}
		for code := range own {
			counted[code]++
		}
		require.Equal(t, map[codes.Code]int{codes.DeadlineExceeded: late, codes.Canceled: cancelled}, counted)
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-served)
		w.settle()
		arrived := len(delays)
		prompt := promptOf(delays, promptly)
		if w.missed() > 0 || w.loss("buffer_full") > 0 {
			return false
		}
		const method = "grpc.health.v1.Health/Check "
		if arrived < late || unnamed.Load() < cancelled { // some calls were over before they were sent, or read
			for _, side := range []string{"client", "server"} {
				var sum uint64
				for _, n := range w.callCounts(self{}, side) {
					sum += n
				}
				require.LessOrEqual(t, sum, uint64(late+cancelled), side)
				require.GreaterOrEqual(t, sum, uint64(arrived)+uint64(unnamed.Load()), side)
			}
			return true
		}
		require.Equal(t, map[string]uint64{method + "DEADLINE_EXCEEDED DEADLINE_EXCEEDED": late, method + "CANCELLED CANCELLED": cancelled}, w.callCounts(self{}, "client"))
		got := w.callCounts(self{}, "server")
		require.EqualValues(t, late+cancelled, got[method+"DEADLINE_EXCEEDED DEADLINE_EXCEEDED"]+got[method+"CANCELLED "], "%v", got)
		// A server that reads a request late has more time left than its client by its own account.
		require.GreaterOrEqual(t, got[method+"DEADLINE_EXCEEDED DEADLINE_EXCEEDED"], prompt)
		require.GreaterOrEqual(t, got[method+"CANCELLED "], uint64(cancelled))
		for _, side := range []string{"client", "server"} {
			require.Zero(t, w.sum(self{}, "ebpf.rpc."+side+".calls.untimed"))
		}
		return true
	})
}

// promptOf returns how many requests were read with no more than a delay.
func promptOf(delays <-chan time.Duration, most time.Duration) (prompt uint64) {
	for range len(delays) {
		if <-delays <= most {
			prompt++
		}
	}
	return prompt
}

// TestCallsWithoutAResponseThroughTLS checks that both sides count each call that TLS carries and that has no response.
func TestCallsWithoutAResponseThroughTLS(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const times = 10
	program := testbin.Go(t, "testdata/gogrpc")
	untilSeen(t, func(t *testing.T) bool {
		server, client := goPair(t, program, "server", "client", times)
		config, scope := tlsConfig(t)
		config.BufferBytes = largeBuffer
		w := watch(t, config, nil)
		w.attachedTo(scope, 2*goFunctions, server, client)
		require.Equal(t, 3*times, client.ask("ok", "late", "cancelled"))
		w.settle()
		if w.missed() > 0 || w.loss("buffer_full") > 0 {
			return false
		}
		const method = "grpc.health.v1.Health/Check "
		asked, got := w.callCounts(client, "client"), w.callCounts(server, "server")
		if late, gone := asked[method+"DEADLINE_EXCEEDED DEADLINE_EXCEEDED"], asked[method+"CANCELLED CANCELLED"]; late < times || gone < times {
			return false // some calls may have been over before they were sent: the host is slow
		}
		require.Equal(t, map[string]uint64{
			method + "OK ": times, method + "DEADLINE_EXCEEDED DEADLINE_EXCEEDED": times, method + "CANCELLED CANCELLED": times,
		}, asked)
		require.EqualValues(t, times, got[method+"OK "], "%v", got)
		require.EqualValues(t, 2*times, got[method+"DEADLINE_EXCEEDED DEADLINE_EXCEEDED"]+got[method+"CANCELLED "], "%v", got)
		require.GreaterOrEqual(t, got[method+"CANCELLED "], uint64(times))
		return true
	})
}
