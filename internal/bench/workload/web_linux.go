// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

const (
	serverCPU = 0
	clientCPU = 1
	// WebConnections is how many wrk keeps open.
	WebConnections = 32
	// webReady bounds the time in which nginx must accept connections.
	webReady = 5 * time.Second
)

// Web is nginx and wrk, each on a CPU of its own, at full speed: a load whose samples have deep kernel stacks.
type Web struct {
	server *Process
	wrk    string
	// URL is where it answers, SecureURL the same through TLS, by OpenSSL; empty where it does not speak that.
	URL, SecureURL string
	nice           int
	log            *os.File
}

// ErrAbsent: a program that is needed is not installed.
var ErrAbsent = errors.New("not installed")

// StartWeb starts nginx. The error is [ErrAbsent] where it or wrk is not installed.
func StartWeb(ctx context.Context, dir string, nice int) (*Web, error) {
	return startWeb(ctx, dir, nice, false)
}

// StartSecureWeb is the same with nginx speaking TLS, too.
func StartSecureWeb(ctx context.Context, dir string, nice int) (*Web, error) {
	return startWeb(ctx, dir, nice, true)
}

func startWeb(ctx context.Context, dir string, nice int, secure bool) (*Web, error) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	w := &Web{nice: nice}
	if w.wrk, err = exec.LookPath("wrk"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	port, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	w.URL = "http://127.0.0.1:" + strconv.Itoa(port) + "/"
	lines := ""
	if secure {
		if lines, err = w.secure(dir); err != nil {
			return nil, err
		}
	}
	config, err := nginxConfig(dir, port, lines)
	if err != nil {
		return nil, err
	}
	if w.log, err = os.Create(filepath.Join(dir, "web.log")); err != nil {
		return nil, fmt.Errorf("creating the log of nginx: %w", err)
	}
	w.server, err = Start(ctx, Command{
		Name: "nginx", Path: nginx, Args: []string{"-p", dir, "-c", config}, CPU: serverCPU, Nice: nice, Output: w.log,
	})
	if err != nil {
		return nil, errors.Join(err, w.log.Close())
	}
	if err := waitForPort(ctx, port, w.server.Ended()); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for nginx (its log is %s): %w", w.log.Name(), err), w.Stop())
	}
	return w, nil
}

// secure returns the lines of nginx's configuration by which it speaks TLS.
func (w *Web) secure(dir string) (string, error) {
	certificate, key, err := Certificate(dir)
	if err != nil {
		return "", err
	}
	port, err := freeport.Get()
	if err != nil {
		return "", err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	w.SecureURL = "https://" + address + "/"
	return fmt.Sprintf("listen %s ssl; ssl_certificate %s; ssl_certificate_key %s;", address, certificate, key), nil
}

func nginxConfig(dir string, port int, secure string) (string, error) {
	text, err := sources.ReadFile("source/nginx.conf")
	if err != nil {
		return "", fmt.Errorf("reading the configuration of nginx: %w", err)
	}
	filled := strings.NewReplacer("@DIR@", dir, "@PORT@", strconv.Itoa(port), "@SECURE@", secure).Replace(string(text))
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(filled), 0o600); err != nil {
		return "", fmt.Errorf("writing the configuration of nginx: %w", err)
	}
	return path, nil
}

// Secure is the same nginx, asked through TLS.
func (w *Web) Secure() *Web {
	secure := *w
	secure.URL = w.SecureURL
	return &secure
}

// PID is nginx's process id.
func (w *Web) PID() int { return w.server.PID() }

// Client is a run of wrk.
type Client struct {
	*Process
	output bytes.Buffer
}

// Load starts wrk with one thread and 32 kept-alive connections; it ends by itself after longest.
func (w *Web) Load(ctx context.Context, longest time.Duration) (*Client, error) {
	c := &Client{}
	seconds := strconv.Itoa(int(longest/time.Second)) + "s"
	var err error
	c.Process, err = Start(ctx, Command{
		Name: "wrk", Path: w.wrk, Args: []string{"-t1", "-c" + strconv.Itoa(WebConnections), "-d" + seconds, w.URL},
		CPU: clientCPU, Nice: w.nice, Output: &c.output,
	})
	return c, err
}

var requests = regexp.MustCompile(`(\d+) requests in `)

// Requests waits for the run's end and returns how many requests wrk has counted.
func (c *Client) Requests() (uint64, error) {
	if _, err := c.Wait(); err != nil {
		return 0, err
	}
	found := requests.FindStringSubmatch(c.output.String())
	if found == nil {
		return 0, fmt.Errorf("reading the output of wrk: no number of requests in %.500q", c.output.String())
	}
	return strconv.ParseUint(found[1], 10, 64)
}

var requestRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

// Rate ends the run and returns the requests per second that wrk has counted: SIGINT, once
// it is at work, makes it report early.
func (c *Client) Rate() (float64, error) {
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, fmt.Errorf("ending wrk: %w", err)
	}
	if _, err := c.Wait(); err != nil {
		return 0, err
	}
	found := requestRate.FindStringSubmatch(c.output.String())
	if found == nil {
		return 0, fmt.Errorf("reading the output of wrk: no request rate in %.500q", c.output.String())
	}
	return strconv.ParseFloat(found[1], 64)
}

// Stop ends nginx.
func (w *Web) Stop() error {
	return errors.Join(w.server.Stop(), w.log.Close())
}

func waitForPort(ctx context.Context, port int, ended <-chan struct{}) error {
	deadline := time.Now().Add(webReady)
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("it has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
