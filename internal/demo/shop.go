// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// shopCommand runs this program as the shop, an HTTP server, instead of the load.
	shopCommand = "shop"
	// requestPause is the time between two requests of the customer.
	requestPause = 40 * time.Millisecond
	// Of each troublePeriod the shop answers /pay slowly from troubleBegin to troubleEnd.
	troublePeriod = 90 * time.Second
	troubleBegin  = 10 * time.Second
	troubleEnd    = 30 * time.Second
	normalPay     = 15 * time.Millisecond
	slowPay       = 1200 * time.Millisecond
)

// serveShop prints the address that it listens on to out, and serves until its input ends.
func serveShop(in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening on a port of 127.0.0.1: %w", err)
	}
	server := &http.Server{Handler: shop(time.Now()), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close below
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("printing the address: %w", err)
	}
	_, _ = io.Copy(io.Discard, in) // whatever ends the input ends the shop
	return server.Close()
}

// shop has pages with usual responses: some products do not exist, some payments fail, and payments are slow at times.
func shop(start time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "a list") })
	mux.HandleFunc("GET /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.PathValue("id"), "7") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintln(w, "a product")
	})
	mux.HandleFunc("POST /pay", func(w http.ResponseWriter, _ *http.Request) {
		payProvider(time.Since(start))
		if rand.IntN(20) == 0 {
			http.Error(w, "the payment provider does not answer", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	return mux
}

// payProvider waits as for another service: slowly during the trouble.
//
//go:noinline
func payProvider(running time.Duration) {
	if phase := running % troublePeriod; phase >= troubleBegin && phase < troubleEnd {
		time.Sleep(slowPay)
		return
	}
	time.Sleep(normalPay)
}

// openShop starts the shop and a customer, until stop is called.
func openShop() (stop func(), err error) {
	url, stopShop, err := startShop()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go buy(url, done)
	return func() {
		close(done)
		stopShop()
	}, nil
}

// startShop starts the shop as a process of its own, which ends when stop is called or this process ends.
func startShop() (url string, stop func(), err error) {
	cmd := exec.Command("/proc/self/exe", shopCommand)
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=demo-shop")
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, fmt.Errorf("starting the shop: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("starting the shop: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("starting the shop: %w", err)
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait() // its status is of no interest
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("reading the shop's address: %w", err)
	}
	return "http://" + strings.TrimSpace(address), stop, nil
}

// buy is a customer, until done is closed: product pages, and a payment at every fifth request. A request that fails is
// part of the demonstration.
func buy(url string, done <-chan struct{}) {
	client := &http.Client{Timeout: 5 * time.Second}
	for i := 0; ; i++ {
		select {
		case <-done:
			client.CloseIdleConnections()
			return
		case <-time.After(requestPause):
		}
		var response *http.Response
		var err error
		switch i % 5 {
		case 0:
			response, err = client.Get(url + "/products")
		case 4:
			response, err = client.Post(url+"/pay", "text/plain", strings.NewReader("10 EUR"))
		default:
			response, err = client.Get(fmt.Sprint(url, "/products/", rand.IntN(100)))
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
}
