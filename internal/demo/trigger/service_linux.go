// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// serviceCommand runs this program as a service instead of the demonstration.
const serviceCommand = "service"

// trouble is the fault that a service has on command.
type trouble struct {
	// name is also that of its policy.
	name, story string
	// rule is the policy's, guilty the function that its profile must show.
	rule, guilty string
	// asks is set where a client requests /pay all the time.
	asks bool
	// start begins it, in the service.
	start func(*service)
}

var troubles = []trouble{
	{
		name: "busy", story: "computes all the time", guilty: "recomputeTotals",
		rule:  fmt.Sprintf("{monitor: process_cpu, threshold: %.1f, period: 5s, count: 2}", 30/float64(runtime.NumCPU())),
		start: func(*service) { go recomputeTotals() },
	},
	{
		name: "slow", story: "takes longer for /pay", guilty: "searchWithoutIndex", asks: true,
		rule:  `{monitor: http_avg_response_time, threshold: 30, period: 5s, count: 2, uri_list: [/pay]}`,
		start: func(s *service) { s.slow.Store(true) },
	},
	{
		name: "failing", story: "answers /pay with 503", guilty: "retryPayment", asks: true,
		rule:  `{monitor: http_error_rate, threshold: 50, period: 5s, count: 2, uri_regex: "^/pay"}`,
		start: func(s *service) { s.failing.Store(true) },
	},
	{
		name: "threads", story: "starts a thread for each job and never ends one", guilty: "leakedThread",
		rule: fmt.Sprintf("{monitor: process_thread_count, threshold: %d, period: 5s, count: 2}", manyThreads),
		start: func(*service) {
			for range manyThreads {
				go leakedThread()
			}
		},
	},
	{
		name: "load", story: "has far more threads compute than there are CPUs", guilty: "overloadHost",
		rule: "{monitor: system_load, threshold: LOAD, period: 5s, count: 1}",
		start: func(*service) {
			runtime.GOMAXPROCS(crowd) // else Go has no more of them wait for a CPU than there are
			for range crowd {
				go overloadHost()
			}
		},
	},
}

const (
	manyThreads = 120
	// crowd adds some four and a half to the load average over a minute within five seconds.
	crowd = 60
)

// service is an HTTP server that is controlled by its standard input.
type service struct{ slow, failing atomic.Bool }

// serve is the service with a fault. It writes its address to its standard output, and lives until its standard input ends.
func serve(name string) error {
	s := &service{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(listener.Addr())
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		for _, t := range troubles {
			if t.name == name {
				t.start(s)
			}
		}
	}
	return server.Close()
}

func (s *service) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/pay":
	case s.slow.Load():
		searchWithoutIndex()
	case s.failing.Load():
		retryPayment()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "done")
}

var sink atomic.Uint64

// spend uses so much CPU time of a thread.
//
//go:noinline
func spend(d time.Duration) {
	var sum uint64
	for until := threadTime() + d; threadTime() < until; {
		for i := range uint64(100_000) {
			sum = sum*6364136223846793005 + i
		}
	}
	sink.Add(sum)
}

// threadTime is the CPU time of this process's threads.
func threadTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(rusageThread, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// rusageThread is RUSAGE_THREAD: of the calling thread alone.
const rusageThread = 1

//go:noinline
func recomputeTotals() {
	for {
		spendHere()
	}
}

//go:noinline
func searchWithoutIndex() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spend(50 * time.Millisecond)
}

//go:noinline
func retryPayment() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spend(20 * time.Millisecond)
}

//go:noinline
func leakedThread() {
	runtime.LockOSThread()
	for {
		spendHere()
		var pause syscall.Timespec
		pause.Nsec = 400e6
		_ = syscall.Nanosleep(&pause, nil)
	}
}

//go:noinline
func overloadHost() {
	runtime.LockOSThread()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		spendHere()
	}
}

// spendHere uses a millisecond or so.
func spendHere() {
	var sum uint64
	for i := range uint64(1_000_000) {
		sum = sum*2862933555777941757 + i
	}
	sink.Add(sum)
}
