// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// Asked is what a client has counted and timed itself.
type Asked struct {
	// Answered are the requests whose answers were read whole, Failed all others.
	Answered, Failed uint64
	// Why is why a request failed, of one of them.
	Why     string `json:",omitempty"`
	Elapsed time.Duration
	// Took is from when a request was due until its answer was read; at full speed from when it was sent.
	Took Quantiles
}

// Quantiles of durations.
type Quantiles struct{ P50, P99 time.Duration }

// QuantilesOf sorted durations; zero of none.
func QuantilesOf(sorted []time.Duration) Quantiles {
	if len(sorted) == 0 {
		return Quantiles{}
	}
	at := func(percent int) time.Duration { return sorted[(len(sorted)-1)*percent/100] }
	return Quantiles{P50: at(50), P99: at(99)}
}

// Steady are a client that asks at a constant rate, and a server that speaks TLS by Go's own library: each a file of its
// own, since breakpoints are by file.
type Steady struct {
	client, server string
	nice           int
}

// NewSteady compiles the programs into dir. module is the folder of the module. Without a Go compiler the error is [ErrAbsent].
func NewSteady(ctx context.Context, dir, module string, nice int) (*Steady, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	s := &Steady{client: filepath.Join(dir, "steady-client"), server: filepath.Join(dir, "steady-server"), nice: nice}
	for _, binary := range []string{s.client, s.server} {
		build := exec.CommandContext(ctx, tool, "build", "-buildvcs=false", "-o", binary, "./internal/bench/steady")
		build.Dir = module
		if err := compile(build); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Load is what a client asks for.
type Load struct {
	URL         string
	Rate        int // per second; 0: as fast as it is answered
	Connections int
	For         time.Duration
}

// Asking is a client at work, which ends by itself.
type Asking struct {
	*Process
	output bytes.Buffer
}

// Ask starts the client, on a CPU other than the servers'.
func (s *Steady) Ask(ctx context.Context, load Load) (*Asking, error) {
	a := &Asking{}
	var err error
	a.Process, err = Start(ctx, Command{
		Name: "the steady client", Path: s.client, CPU: clientCPU, Nice: s.nice, Output: &a.output,
		Args: []string{"ask", "-url", load.URL, "-rate", strconv.Itoa(load.Rate), "-connections", strconv.Itoa(load.Connections), "-for", load.For.String()},
	})
	return a, err
}

// Result waits for the client's end. It returns an error also if a request failed.
func (a *Asking) Result() (Asked, error) {
	var asked Asked
	_, err := a.Wait()
	if err == nil {
		err = json.Unmarshal(a.output.Bytes(), &asked)
	}
	if err != nil {
		return asked, fmt.Errorf("reading what the steady client says: %w: %.500q", err, a.output.String())
	}
	if asked.Failed > 0 || asked.Answered == 0 {
		return asked, fmt.Errorf("the steady client was answered %d times and failed %d times: %s", asked.Answered, asked.Failed, asked.Why)
	}
	return asked, nil
}

// Server is one that was started in addition to nginx.
type Server struct {
	*Process
	URL string
	log *os.File
}

// Serve starts the server, on the servers' CPU.
func (s *Steady) Serve(ctx context.Context, dir string) (*Server, error) {
	certificate, key, err := Certificate(dir)
	if err != nil {
		return nil, err
	}
	port, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	server := &Server{URL: "https://" + address + "/"}
	// It writes when a connection is opened that says nothing: waiting for it does so.
	if server.log, err = os.Create(filepath.Join(dir, "steady.log")); err != nil {
		return nil, fmt.Errorf("creating the log of the steady server: %w", err)
	}
	server.Process, err = Start(ctx, Command{
		Name: "the steady server", Path: s.server, CPU: serverCPU, Nice: s.nice, Output: server.log,
		Args: []string{"serve", "-listen", address, "-certificate", certificate, "-key", key},
	})
	if err != nil {
		return nil, errors.Join(err, server.log.Close())
	}
	if err := waitForPort(ctx, port, server.Ended()); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the steady server (its log is %s): %w", server.log.Name(), err), server.Stop())
	}
	return server, nil
}

// Stop ends the server.
func (s *Server) Stop() error { return errors.Join(s.Process.Stop(), s.log.Close()) }
