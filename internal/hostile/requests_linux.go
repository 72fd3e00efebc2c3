// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

const (
	webRole = "web"
	// requestPause is the time between two requests of the client, reconnectEvery how many of them use one connection.
	requestPause   = 20 * time.Millisecond
	reconnectEvery = 10
	// requestsMetric is the count of the histogram of the server's requests, as the Prometheus exporter names it.
	requestsMetric = "http_server_request_duration_seconds_count"
)

// web is an HTTP server that answers every request at once.
func web(args []string) error {
	flags := flag.NewFlagSet(webRole, flag.ContinueOnError)
	address := flags.String("address", "", "where it listens")
	length := flags.Duration("for", time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := http.Server{Addr: *address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "steady\n") // the client counts what arrives
	})}
	time.AfterFunc(*length, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// client sends requests to the web server and counts those that were answered.
type client struct {
	address  string
	answered atomic.Int64
	failed   atomic.Int64
	cancel   context.CancelFunc
	done     chan struct{}
}

// startWeb starts the web server and waits until it listens.
func (s *stage) startWeb(ctx context.Context) (*client, error) {
	port, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	c := &client{address: fmt.Sprintf("127.0.0.1:%d", port), done: make(chan struct{})}
	if err := s.run(ctx, unprivileged, webRole, "-address", c.address, "-for", s.left().String()); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); ; {
		connection, err := net.Dial("tcp", c.address)
		if err == nil {
			return c, connection.Close()
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("waiting for the web server: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// start sends requests until stop is called.
func (c *client) start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		defer close(c.done)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		to := http.Client{Transport: transport, Timeout: 10 * time.Second}
		for n := 1; ctx.Err() == nil; n++ {
			if err := c.ask(to); err != nil {
				c.failed.Add(1)
			} else {
				c.answered.Add(1)
			}
			if n%reconnectEvery == 0 {
				transport.CloseIdleConnections()
			}
			time.Sleep(requestPause)
		}
	}()
}

func (c *client) ask(to http.Client) error {
	answer, err := to.Get("http://" + c.address + "/steady")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// stop ends the requests.
func (c *client) stop() {
	c.cancel()
	<-c.done
}

// compare waits until the receiver has reported as many requests as were answered, for some intervals at most.
func (c *client) compare(ctx context.Context, from *collector, interval time.Duration) error {
	want := c.answered.Load()
	reported := float64(-1)
	for end := time.Now().Add(4 * interval); time.Now().Before(end); time.Sleep(interval / 4) {
		metrics, err := from.requests(ctx)
		if err != nil {
			return err
		}
		if reported = metrics.Sum(requestsMetric, "job", webRole); int64(reported) == want {
			break
		}
	}
	fmt.Printf("requests of the web server: %d answered, %.0f reported, %d failed\n", want, reported, c.failed.Load())
	if int64(reported) != want || c.failed.Load() > 0 || want == 0 {
		return fmt.Errorf("%d requests were answered and %.0f reported, %d failed", want, reported, c.failed.Load())
	}
	return nil
}
