// SPDX-License-Identifier: Apache-2.0

// Package freeport chooses TCP ports for servers that tests and benchmarks start.
//
// A port that the kernel chose (port 0) and that was closed again is one of the ephemeral ports: until the server listens on it, any connection on the host
// can take it. The ports of this package are below the ephemeral ones, and no two processes that use it get the same one.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// first is the lowest port that is returned; lower ones belong to well-known services.
const first = 10000

// claimed are the ports that this process has got.
var claimed = struct {
	sync.Mutex
	ports map[int]bool
	file  claims
}{ports: map[int]bool{}}

// Get returns a port on which no process listens on the loopback interface. No other call of Get returns it while this process runs, in whatever process.
func Get() (int, error) {
	claimed.Lock()
	defer claimed.Unlock()
	ephemeral := firstEphemeral()
	if ephemeral <= first {
		return 0, fmt.Errorf("choosing a port: ephemeral ports begin at %d (net.ipv4.ip_local_port_range), and those below %d belong to services", ephemeral, first)
	}
	var errs error
	for range 100 {
		port := first + rand.IntN(ephemeral-first)
		if claimed.ports[port] || !listens(port) {
			continue
		}
		free, err := claimed.file.claim(port)
		if err != nil {
			errs = errors.Join(errs, err)
			break
		}
		if free {
			claimed.ports[port] = true
			return port, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("choosing a port from %d to %d: none of 100 is free", first, ephemeral-1), errs)
}

// listens reports whether a server can listen on a port, on all addresses.
func listens(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	return err == nil && listener.Close() == nil
}

// For is Get for a test, which fails if there is none.
func For(t testing.TB) int {
	t.Helper()
	port, err := Get()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Endpoint returns the address of such a port on 127.0.0.1, as "127.0.0.1:12345".
func Endpoint(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", For(t))
}
