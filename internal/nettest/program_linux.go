// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// programEnv is set in the environment of a program.
const programEnv = "EBPFRECEIVER_NETTEST_PROGRAM"

// order is what a program is asked to do.
type order struct {
	Do     string
	Socket int            // the descriptor
	Kind   string         // "tcp4", "tcp6", "udp4", "udp6", "unix", "mptcp4", "rawtcp4", "rawudp4"
	Local  netip.AddrPort // zero: the kernel chooses
	Remote netip.AddrPort
	Transfer
	Wait    bool
	Value   int
	Threads int
	// Level and Option are those of setsockopt.
	Level, Option int
	Path          string // of a Unix socket
}

// Outcome is what a program reports of an order.
type Outcome struct {
	Socket        int
	Local, Remote netip.AddrPort // of the socket
	// Bytes, Calls and Messages sum the system calls on the socket: what they returned, those that were made, those that
	// failed included, and the messages, of which a call of sendmmsg or recvmmsg has several.
	Bytes, Calls, Messages int64
	// Took is the time of these calls together.
	Took time.Duration
	// Errno names the error that ended it, such as ECONNREFUSED.
	Errno string
	// Kernel is the kernel's account of a TCP socket.
	Kernel *TCPInfo
	// Child is the id of a process that was forked.
	Child int
}

// TCPInfo are fields of the kernel's struct tcp_info.
type TCPInfo struct {
	State         uint8
	BytesAcked    uint64 // the other side has them; one more than was written, for the SYN
	BytesReceived uint64
	Segments      uint32 // sent, retransmitted ones included
	Retransmits   uint32
	RTT, RTTVar   time.Duration // smoothed
}

// Program is a process that makes the socket calls that a test asks for, and no others, on one thread, one after the other. Its methods
// wait until that is done; those of several programs may run concurrently. A method whose name begins with Try returns what went wrong; the
// others fail the test.
type Program struct {
	t        testing.TB
	cmd      *exec.Cmd
	orders   *json.Encoder
	stdin    io.Closer
	outcomes *json.Decoder
}

// Main makes the process a program if it was started as one, and ends it; otherwise it returns. Call it first in TestMain.
func Main() {
	if os.Getenv(programEnv) == "" {
		return
	}
	runtime.LockOSThread()
	if err := obey(os.Stdin, os.Stdout, os.Getenv(executedEnv) != ""); err != nil {
		fmt.Fprintf(os.Stderr, "nettest program: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start starts a program in a namespace, nil for the test's own, which ends with the test.
func Start(t testing.TB, in *Namespace) *Program {
	t.Helper()
	p := &Program{t: t, cmd: exec.Command("/proc/self/exe")}
	// Signals by which the Go runtime stops goroutines would interrupt calls that wait; the race detector waits at exit.
	p.cmd.Env = append(os.Environ(), programEnv+"=1", "GODEBUG=asyncpreemptoff=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdin, p.orders, p.outcomes = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	require.NoError(t, in.Do(p.cmd.Start), "starting a program")
	t.Cleanup(p.End)
	return p
}

// PID is the process's id.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// End ends the program and waits for it, which closes its sockets. It may be called more than once.
func (p *Program) End() {
	if p.cmd.ProcessState != nil {
		return
	}
	closed := p.stdin.Close()
	kill := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() }) // it may be blocked in a call
	defer kill.Stop()
	var exit *exec.ExitError
	if err := errors.Join(closed, p.cmd.Wait()); err != nil && !errors.As(err, &exit) {
		p.t.Errorf("ending a program: %v", err)
	}
}

// Kill ends the program in the middle of whatever it does.
func (p *Program) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // says that it was killed
	_ = p.stdin.Close()
}

// try has the program do something.
func (p *Program) try(o order) Outcome {
	var out Outcome
	if err := p.orders.Encode(o); err != nil {
		return Outcome{Errno: fmt.Sprintf("ordering the program to %s: %v", o.Do, err)}
	}
	if err := p.outcomes.Decode(&out); err != nil {
		return Outcome{Errno: fmt.Sprintf("waiting for the program to %s: %v", o.Do, err)}
	}
	return out
}

// must has the program do something that must not fail. It may be called from any goroutine.
func (p *Program) must(o order) Outcome {
	p.t.Helper()
	out := p.try(o)
	if out.Errno != "" {
		p.t.Errorf("%s of socket %d: %s after %d bytes in %d calls", o.Do, o.Socket, out.Errno, out.Bytes, out.Calls)
	}
	return out
}
