// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// message is one that grpc-go has.
type message = grpc_health_v1.HealthCheckRequest

// callServer answers calls, and notes which have arrived.
type callServer struct {
	mu      sync.Mutex
	arrived map[string]bool
}

// serve answers as the method's name begins.
func (s *callServer) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	_, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	s.mu.Lock()
	s.arrived[name] = true
	s.mu.Unlock()
	switch {
	case strings.HasPrefix(name, "Wait"):
		<-stream.Context().Done()
		return stream.Context().Err()
	case strings.HasPrefix(name, "Refuse"):
		return status.Error(codes.PermissionDenied, "secret text")
	}
	for {
		var m message
		if err := stream.RecvMsg(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&m); err != nil {
			return err
		}
	}
	if strings.HasPrefix(name, "Fail") {
		return status.Error(codes.Internal, "secret text")
	}
	return nil
}

// call is what a client of grpc-go did and got.
type call struct {
	arrived        bool // at the server: a call that is over before may not be sent
	status         string
	sent, received int64
}

// calls records calls of grpc-go, some of them at the same time.
func calls(t *testing.T, rnd *rand.Rand, n int) (*conversation, map[string]call) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answering := callServer{arrived: map[string]bool{}}
	server := grpc.NewServer(grpc.UnknownServiceHandler(answering.serve))
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	var passed transfers
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return tap{plain, &passed}, err
		}))
	require.NoError(t, err)
	did := map[string]call{}
	var running sync.WaitGroup
	var lock sync.Mutex
	for i := range n {
		name := fmt.Sprint([]string{"Echo", "Echo", "Fail", "Refuse", "Wait", "Cancel"}[rnd.IntN(6)], i)
		sends, size := rnd.IntN(5), rnd.IntN(40000)
		running.Add(1)
		go func() {
			defer running.Done()
			done := oneCall(t, conn, name, sends, size)
			lock.Lock()
			did[name] = done
			lock.Unlock()
		}()
		if rnd.IntN(3) == 0 {
			running.Wait()
		}
	}
	running.Wait()
	require.NoError(t, conn.Close())
	server.Stop()
	require.NoError(t, <-served)
	answering.mu.Lock()
	defer answering.mu.Unlock()
	for name, done := range did {
		done.arrived = answering.arrived[name]
		did[name] = done
	}
	return &conversation{log: passed.untilNow()}, did
}

// oneCall makes a call and counts what was sent and received.
func oneCall(t *testing.T, conn *grpc.ClientConn, name string, sends, size int) (done call) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if strings.HasPrefix(name, "Wait") {
		ctx, cancel = context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Service/"+name)
	if strings.HasPrefix(name, "Wait") && status.Code(err) == codes.DeadlineExceeded {
		return call{status: "DEADLINE_EXCEEDED"}
	}
	require.NoError(t, err)
	if strings.HasPrefix(name, "Echo") || strings.HasPrefix(name, "Fail") {
		for range sends {
			require.NoError(t, stream.SendMsg(&message{Service: strings.Repeat("s", size)}))
			done.sent++
		}
	}
	if strings.HasPrefix(name, "Cancel") {
		cancel()
	}
	require.NoError(t, stream.CloseSend())
	for err == nil {
		var m message
		if err = stream.RecvMsg(&m); err == nil {
			done.received++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	text := status.Code(err)
	done.status = map[codes.Code]string{
		codes.OK: "OK", codes.Canceled: "CANCELLED", codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.PermissionDenied: "PERMISSION_DENIED", codes.Internal: "INTERNAL",
	}[text]
	require.NotEmpty(t, done.status, text)
	return done
}

// TestCallsOfGRPC compares with what clients of grpc-go did: names, statuses and numbers of messages.
func TestCallsOfGRPC(t *testing.T) {
	known := 0
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		c, did := calls(t, rnd, 30)
		for _, h := range []how{{role: l7.RoleClient}, {role: l7.RoleServer, largest: 1}, {role: l7.RoleClient, largest: 5000}, {role: l7.RoleServer, known: 100}, {role: l7.RoleClient, losses: 20, join: 20}} {
			t.Run(fmt.Sprintf("%d, %+v", seed, h), func(t *testing.T) {
				l := listen()
				p := c.play(rnd, h, l)
				l.Expire(p.now + 1)
				l.Close()
				known += requireCalls(t, did, l.reported, h.known == 0 && h.losses == 0)
			})
		}
	}
	require.Greater(t, known, 150, "statuses that were said and reported")
}

func requireCalls(t *testing.T, did map[string]call, all []reported, exactly bool) (known int) {
	seen := map[string]int{}
	for _, got := range all {
		want, named := did[got.RPC]
		require.Equal(t, named, got.Service == "test.Service")
		require.True(t, exactly == named || !exactly)
		require.NotContains(t, fmt.Sprint(got), "secret")
		if !named {
			continue
		}
		seen[got.RPC]++
		cancelled := want.status == "CANCELLED" || want.status == "DEADLINE_EXCEEDED"
		switch {
		case got.RPCStatus == "" && !exactly:
		case cancelled && got.Role == "client" && want.status == "DEADLINE_EXCEEDED":
			// The pieces' times are not those of the calls, so that it is unknown whether the deadline was over.
			require.Contains(t, []string{"CANCELLED", "DEADLINE_EXCEEDED"}, got.RPCStatus)
		case cancelled:
			require.Contains(t, []string{"CANCELLED", "DEADLINE_EXCEEDED", "OK"}, got.RPCStatus)
		default:
			known++
			require.Equal(t, want.status, got.RPCStatus)
			requireErrorType(t, got)
		}
		if !cancelled && got.RequestMessages != l7.Unknown {
			require.Equal(t, want.sent, got.RequestMessages, got.RPC)
		}
		if !cancelled && got.ResponseCount != l7.Unknown {
			require.Equal(t, want.received, got.ResponseCount, got.RPC)
		}
		if exactly && !cancelled {
			require.NotEqual(t, l7.Unknown, got.ResponseCount)
		}
	}
	for name, done := range did {
		require.True(t, done.arrived || strings.HasPrefix(name, "Cancel") || strings.HasPrefix(name, "Wait"), name)
		if exactly && done.arrived {
			require.Equal(t, 1, seen[name], name)
		}
		require.LessOrEqual(t, seen[name], 1, name)
	}
	return known
}

func requireErrorType(t *testing.T, got reported) {
	want := map[string]string{"PERMISSION_DENIED": "PERMISSION_DENIED", "INTERNAL": "INTERNAL"}[got.RPCStatus]
	if got.Role == "server" && got.RPCStatus == "PERMISSION_DENIED" {
		want = ""
	}
	require.Equal(t, want, got.ErrorType)
}

// TestTheDeadlineOfACall checks what a reset means, by the request's deadline.
func TestTheDeadlineOfACall(t *testing.T) {
	for timeout, want := range map[string]string{
		"20m": "DEADLINE_EXCEEDED", "21m": "DEADLINE_EXCEEDED", "28m": "CANCELLED", "2S": "CANCELLED", "": "CANCELLED",
	} {
		p := greet(t)
		fields := []string{":method", "POST", ":scheme", "http", ":path", "/s/M", "content-type", "application/grpc+proto"}
		if timeout != "" {
			fields = append(fields, "grpc-timeout", timeout)
		}
		p.client.headers(1, true, fields...)
		p.pass()
		p.now += 20e6
		require.NoError(t, p.client.WriteRSTStream(1, 8))
		p.pass()
		require.Len(t, p.reported, 1)
		x := p.reported[0]
		require.Equal(t, []any{"s", "M", want, l7.Unanswered}, []any{x.Service, x.RPC, x.RPCStatus, x.Outcome})
	}
}

// TestAnswersOfWhatIsNoServerOfGRPC checks what clients make of them.
func TestAnswersOfWhatIsNoServerOfGRPC(t *testing.T) {
	for httpStatus, want := range map[string]string{"503": "UNAVAILABLE", "404": "UNIMPLEMENTED", "200": "UNKNOWN"} {
		p := greet(t)
		p.client.headers(1, true, ":method", "POST", ":scheme", "http", ":path", "/s/M", "content-type", "application/grpc")
		p.server.headers(1, true, ":status", httpStatus, "content-type", "text/html")
		p.pass()
		require.Equal(t, want, p.reported[0].RPCStatus)
	}
}

// TestStatusesAfterALoss checks that statuses which refer to fields from before a loss are unknown, and counted, and that those are known
// which do not.
func TestStatusesAfterALoss(t *testing.T) {
	p := greet(t)
	id, statuses := uint32(1), []string(nil)
	answer := func(status string, before int64) {
		p.client.headers(id, true, ":method", "POST", ":scheme", "http", ":path", "/s/M", "content-type", "application/grpc")
		p.pass()
		p.server.headers(id, false, ":status", "200", "content-type", "application/grpc").headers(id, true, "grpc-status", status)
		p.feedLost(l7.Write, before, p.server.take())
		id += 2
		statuses = append(statuses, p.reported[len(p.reported)-1].RPCStatus)
	}
	answer("0", 0)
	answer("0", 0)
	require.Zero(t, p.stats.Losses+p.stats.Unseen)
	answer("0", l7.LostUnknown)
	answer("5", 0)                             // of which the name refers to what was before
	p.server.encoder.SetMaxDynamicTableSize(0) // what was before is forgotten
	answer("0", 0)
	answer("5", 0)
	require.Equal(t, []string{"OK", "OK", "", "", "OK", "NOT_FOUND"}, statuses)
	require.EqualValues(t, 1, p.stats.Losses)
	require.EqualValues(t, 4, p.stats.Unseen, "heads and trailers of two")
}
