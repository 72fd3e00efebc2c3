// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

const (
	// tlsTurns is how often each state is measured, in turns with the others.
	tlsTurns = 20
	// attachLongest bounds the time in which nginx's OpenSSL must be attached to.
	attachLongest = 30 * time.Second
	// symbolBytes is what reading nginx's mappings may take.
	symbolBytes = 32 << 20
)

// tls measures what requests through OpenSSL add to nginx's CPU time, as the part network does, against empty programs at the same
// functions; then which of the programs take how long.
func (b *bench) tls(ctx context.Context) (err error) {
	server, err := workload.StartSecureWeb(ctx, b.dir, b.nice)
	if errors.Is(err, workload.ErrAbsent) {
		b.note("the part tls was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	sessions, err := kernel.NewLoader().HasUprobeSession()
	if err != nil {
		return err
	}
	if !sessions {
		b.note("the part tls was left out: the kernel has no sessions of uprobes (Linux 6.13)")
		return nil
	}
	functions, err := openSSLOf(server.PID())
	if err != nil {
		return err
	}
	progress("tls: nginx through OpenSSL and wrk, all states in %d turns of %s", tlsTurns, networkTime)
	observed := func() (*watcher, error) { return watchTLS(server.PID(), len(functions.offsets)) }
	secure := server.Secure()
	b.report.TLS.States, err = b.inTurns(ctx, secure, tlsTurns, []networkState{
		{report.NetworkBare, func() (*watcher, error) { return &watcher{}, nil }},
		{report.TLSNone, func() (*watcher, error) { return watchNginx(networkConfig(), server.PID(), lifecycle.ScopeNetwork) }},
		// In addition to both that it is compared with.
		{report.TLSEmpty, func() (*watcher, error) { return emptyUprobes(server.PID(), functions) }},
		{report.TLSHeaders, observed},
		{report.TLSEmptyBoth, func() (*watcher, error) { return emptyEverywhere(server.PID(), functions) }},
	})
	if err != nil {
		return err
	}
	b.report.TLS.Programs, err = tlsPrograms(ctx, secure, observed)
	return err
}

// openSSL is where a process has its library, and the functions of it that are attached to.
type openSSL struct {
	path    string
	offsets []uint64
}

// openSSLOf searches the mappings of a process.
func openSSLOf(pid int) (found openSSL, err error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return found, fmt.Errorf("looking for nginx's OpenSSL: %w", err)
	}
	defer maps.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if at := strings.IndexByte(lines.Text(), '/'); at >= 0 && strings.Contains(lines.Text()[at:], "/libssl.so") {
			found.path = lines.Text()[at:]
		}
	}
	if found.path == "" {
		return found, errors.New("looking for nginx's OpenSSL: it has no libssl.so")
	}
	file, err := os.Open(found.path)
	if err != nil {
		return found, fmt.Errorf("reading nginx's OpenSSL: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	stat, err := file.Stat()
	if err != nil {
		return found, fmt.Errorf("reading nginx's OpenSSL: %w", err)
	}
	library, err := tls.Find(elfimage.Image{Src: file, Size: uint64(stat.Size())})
	if err != nil {
		return found, fmt.Errorf("reading nginx's OpenSSL: %w", err)
	}
	for _, f := range library.Functions {
		found.offsets = append(found.offsets, f.Offset)
	}
	return found, nil
}

// emptyUprobes attaches an empty program to where the functions of a process begin and end.
func emptyUprobes(pid int, functions openSSL) (_ *watcher, err error) {
	w := &watcher{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.Kprobe, AttachType: kernel.AttachUprobeSession, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return nil, fmt.Errorf("loading an empty program: %w", err)
	}
	w.closers = append(w.closers, program)
	probes, err := kernel.NewUprobes("/sys")
	if err != nil {
		return nil, err
	}
	attached, err := probes.AttachMulti(kernel.AttachUprobeSession, program, functions.path, functions.offsets, nil, uint32(pid))
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, attached)
	return w, nil
}

// emptyEverywhere is the same, and an empty program where the system calls begin and end.
func emptyEverywhere(pid int, functions openSSL) (*watcher, error) {
	w, err := emptyUprobes(pid, functions)
	if err != nil {
		return nil, err
	}
	calls, err := emptyTracepoints(bothEnds(network.Tracepoints()))
	if err != nil {
		return nil, errors.Join(err, w.end())
	}
	w.closers = append(w.closers, calls.closers...)
	return w, nil
}

// watchTLS observes nginx with requests and waits until so many functions of its library are attached to.
func watchTLS(pid, functions int) (_ *watcher, err error) {
	symbols, err := symbol.New(symbol.Config{RootPath: "/", MemoryBytes: symbolBytes, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	config := requestConfig(requestBuffer, requests.SlowOrError)
	config.TLS = network.TLSConfig{
		Libraries: []tls.Library{tls.OpenSSL}, Open: symbols.Open, Charge: func(work func()) { work() },
		Decide: func(asked uint32) (model.ProcessID, bool) {
			if asked != uint32(pid) {
				return model.ProcessID{}, false
			}
			id, err := processID(pid)
			return id, err == nil
		},
	}
	w, err := watchNginx(config, pid, lifecycle.ScopeNetwork)
	if err != nil {
		return nil, errors.Join(err, symbols.Close())
	}
	w.closers = append([]io.Closer{symbols}, w.closers...) // closed last
	before := w.observer.Attached()
	w.observer.Look(uint32(pid))
	for end := time.Now().Add(attachLongest); w.observer.Attached() < before+functions; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("nginx's OpenSSL was not attached to within %s", attachLongest), w.end())
		}
	}
	return w, nil
}

// processID reads when a process began.
func processID(pid int) (model.ProcessID, error) {
	stat, err := proctest.ReadStat(proctest.Process(pid))
	return model.ProcessID{PID: uint32(pid), StartTicks: stat.StartTicks}, err
}

// tlsPrograms measures each program by the kernel's statistics while nginx answers for a turn.
func tlsPrograms(ctx context.Context, server *workload.Web, observed func() (*watcher, error)) (list []report.Program, err error) {
	statistics, err := kernel.EnableRunStats()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, statistics.Close()) }()
	w, err := observed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	before, err := w.observer.Costs()
	if err != nil {
		return nil, err
	}
	client, err := server.Load(ctx, networkTime)
	if err != nil {
		return nil, err
	}
	if err := w.tracker.Decide(uint32(client.PID()), lifecycle.ScopeNone); err != nil {
		return nil, err
	}
	counted, err := client.Requests()
	if err != nil {
		return nil, err
	}
	after, err := w.observer.Costs()
	if err != nil {
		return nil, err
	}
	earlier := map[string]observe.ProgramCost{}
	for _, c := range before {
		earlier[c.Program] = c
	}
	for _, c := range after {
		runs, took := c.Runs-earlier[c.Program].Runs, c.Time-earlier[c.Program].Time
		if runs > 0 && counted > 0 {
			list = append(list, report.Program{Name: c.Program, Runs: float64(runs) / float64(counted), PerRun: took / time.Duration(runs)})
		}
	}
	return list, nil
}
