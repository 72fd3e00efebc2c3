// SPDX-License-Identifier: Apache-2.0

// Speaks gRPC through TLS by grpc-go. As a server it is given the files of its certificate and key and prints its port. As a client it is
// given a port and how often to make each call of a line: ok is answered, late and cancelled are not. It prints how many calls of a line
// ended as they should.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// patience is the deadline of late calls, and when the others are cancelled.
const patience = 300 * time.Millisecond

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("got %q, want server CERTIFICATE KEY, or client PORT TIMES", os.Args[1:]))
	}
	if os.Args[1] == "server" {
		fail(serve(os.Args[2], os.Args[3]))
		return
	}
	times, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = callEach(os.Args[2], times)
	}
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// health answers at once for the service ok, for others when the call is over.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (health) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if r.Service == "ok" {
		return &grpc_health_v1.HealthCheckResponse{}, nil
	}
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

func serve(cert, key string) error {
	with, err := credentials.NewServerTLSFromFile(cert, key)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := grpc.NewServer(grpc.Creds(with))
	grpc_health_v1.RegisterHealthServer(server, health{})
	return server.Serve(listener)
}

func callEach(port string, times int) error {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		sum := 0
		for _, name := range strings.Fields(lines.Text()) {
			counted, err := callTogether(port, name, times)
			if err != nil {
				return err
			}
			sum += counted
		}
		fmt.Println(sum)
	}
	return lines.Err()
}

// callTogether makes a call several times at once, on a connection of its own, and returns how many ended as they should.
func callTogether(port, name string, times int) (counted int, err error) {
	insecure := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // on the loopback device
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure))
	if err != nil {
		return 0, err
	}
	conn.Connect() // or that takes a part of the calls' time
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		conn.WaitForStateChange(context.Background(), state)
	}
	client := grpc_health_v1.NewHealthClient(conn)
	got := make(chan codes.Code)
	for range times {
		go func() { got <- call(client, name) }()
	}
	want := map[string]codes.Code{"late": codes.DeadlineExceeded, "cancelled": codes.Canceled}[name]
	for range times {
		if <-got == want {
			counted++
		}
	}
	return counted, conn.Close()
}

func call(client grpc_health_v1.HealthClient, name string) codes.Code {
	timeout, cancelAfter := time.Minute, time.Minute
	switch name {
	case "late":
		timeout = patience
	case "cancelled":
		cancelAfter = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer time.AfterFunc(cancelAfter, cancel).Stop()
	_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
	return status.Code(err)
}
