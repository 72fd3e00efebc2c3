// SPDX-License-Identifier: Apache-2.0

// Speaks HTTPS by Go's own library. As a server it is given the files of its certificate and
// key and prints its port; as a client, a port and how often to ask for each path of a line.
// As server2 and client2 it speaks HTTP/2. As keeping and keeping2 it is a client that asks for one
// path after the other on a connection that it keeps. As passing it passes on what it is sent to a port,
// TLS that it does not look into, and prints its own port. Where COLLECTING is set it collects
// garbage all the time. The path /never is not answered: clients give up. Go 1.13 builds it, too.
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const bodyBytes = 20000

// never is a path that is not answered, patience how long clients wait for it.
const (
	never    = "/never"
	patience = 100 * time.Millisecond
)

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("got %q, want server or server2 CERTIFICATE KEY, or client, client2, keeping, keeping2, bare or passing PORT TIMES", os.Args[1:]))
	}
	if os.Getenv("COLLECTING") != "" {
		go collect()
	}
	switch os.Args[1] {
	case "server", "server2":
		fail(serve(os.Args[1] == "server2", os.Args[2], os.Args[3]))
	case "passing":
		fail(passOn(os.Args[2]))
	default:
		times, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = ask(os.Args[1], os.Args[2], times)
		}
		fail(err)
	}
}

// collect collects garbage all the time: goroutines pause for it, mostly where a function begins.
func collect() {
	for {
		runtime.GC()
		time.Sleep(100 * time.Microsecond)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(http2 bool, cert, key string) error {
	body := make([]byte, bodyBytes)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == never {
				select {}
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			if r.URL.Path == "/absent" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write(body)
		}),
	}
	if !http2 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	return server.ServeTLS(listener, cert, key)
}

// ask has each line's paths asked for, all at once, each on a connection of its own, and
// prints how often it was answered.
func ask(what, port string, times int) error {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	if strings.HasPrefix(what, "keeping") {
		client := newClient(what == "keeping2")
		for lines.Scan() {
			sum := 0
			for _, path := range strings.Fields(lines.Text()) {
				sum += askOf(client, port, path, times)
			}
			fmt.Println(sum)
		}
		return lines.Err()
	}
	for lines.Scan() {
		var counted [64]int
		var all sync.WaitGroup
		for i, path := range strings.Fields(lines.Text()) {
			all.Add(1)
			go func(path string, counted *int) {
				defer all.Done()
				if what == "bare" {
					*counted = askBare(port, path, times)
				} else {
					*counted = askHTTP(what == "client2", port, path, times)
				}
			}(path, &counted[i])
		}
		all.Wait()
		sum := 0
		for _, n := range counted {
			sum += n
		}
		fmt.Println(sum)
	}
	return lines.Err()
}

func newClient(http2 bool) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}}
}

func askHTTP(http2 bool, port, path string, times int) int {
	client := newClient(http2)
	defer client.CloseIdleConnections()
	return askOf(client, port, path, times)
}

func askOf(client *http.Client, port, path string, times int) (counted int) {
	if path == never { // counted from when the request is sent: to connect may take as long
		client.Transport.(*http.Transport).ResponseHeaderTimeout = patience
	}
	for i := 0; i < times; i++ {
		response, err := client.Get("https://127.0.0.1:" + port + path)
		if path == never && err != nil {
			counted++
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return counted
		}
		if n, _ := io.Copy(discard{}, response.Body); n == bodyBytes {
			counted++
		}
		_ = response.Body.Close()
	}
	return counted
}

// discard drops what is written: io.Discard is newer.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// askBare reads into the goroutine's own stack, which moves as it grows between.
func askBare(port, path string, times int) (counted int) {
	conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 0
	}
	defer conn.Close()
	for i := 0; i < times; i++ {
		counted += askOnce(conn, path)
	}
	return counted
}

func askOnce(conn *tls.Conn, path string) int {
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
		return 0
	}
	var buffer [2048]byte
	left := -1
	for left != 0 {
		n, err := conn.Read(buffer[:])
		if err != nil {
			return 0
		}
		if left < 0 {
			head := strings.Index(string(buffer[:n]), "\r\n\r\n")
			if head < 0 {
				return 0
			}
			left = bodyBytes + head + 4
		}
		left -= n
	}
	return 1
}

// passOn has connections passed on to a port.
func passOn(port string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		from, err := listener.Accept()
		if err != nil {
			return err
		}
		to, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		go pass(port, from, to)
		go pass(port, to, from)
	}
}

// pass passes on one direction, in a goroutine that speaks TLS itself before. It reads and writes the
// bytes, as copying them would not.
func pass(port string, from, to net.Conn) {
	defer to.Close()
	askBare(port, "/own", 1)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
