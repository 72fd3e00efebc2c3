// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// patience is how long a policy may take to fire, and a profile to arrive.
	patience = 30 * time.Second
	// each is how often something is looked for, asking how often a service is asked.
	each   = 50 * time.Millisecond
	asking = 20 * time.Millisecond
)

// scene is one demonstration.
type scene struct {
	options
	dir       string
	began     time.Time
	services  []*played
	collector *exec.Cmd
	stopAsks  context.CancelFunc
}

// played is a service with its fault.
type played struct {
	trouble
	cmd   *exec.Cmd
	stdin io.WriteCloser
	url   string
}

// say prints what happens and when.
func (s *scene) say(format string, args ...any) {
	fmt.Printf("%5.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// begin starts the services, then the Collector.
func (s *scene) begin(ctx context.Context) error {
	ctx, s.stopAsks = context.WithCancel(ctx)
	for _, t := range s.troubles {
		service, err := startService(t)
		if err != nil {
			return fmt.Errorf("starting the service %s: %w", t.name, err)
		}
		s.services = append(s.services, service)
		if t.asks {
			go ask(ctx, service.url)
		}
	}
	s.say("%d services run, and nothing is wrong with them yet", len(s.services))
	config, err := configuration(s.dir, s.services)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	log, err := os.Create(filepath.Join(s.dir, "collector.log"))
	if err != nil {
		return fmt.Errorf("creating the Collector's log: %w", err)
	}
	defer log.Close()
	s.collector = exec.Command(s.binary, "--config", path)
	s.collector.Stdout, s.collector.Stderr = log, log
	s.collector.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.collector.Start(); err != nil {
		s.collector = nil
		return fmt.Errorf("starting the Collector, which make build makes: %w", err)
	}
	s.say("the Collector watches them: %s", policyNames(s.services))
	return s.await(ctx, "the Collector's start", func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(s.dir, "collector.log"))
		return bytes.Contains(text, []byte("The receiver has started")), err
	})
}

func policyNames(services []*played) string {
	var names []string
	for _, p := range services {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func startService(t trouble) (*played, error) {
	p := &played{trouble: t, cmd: exec.Command("/proc/self/exe", serviceCommand, t.name)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("waiting for it: %w", err)
	}
	p.url = "http://" + strings.TrimSpace(line)
	return p, nil
}

// ask asks for /pay, and for what no policy is about.
func ask(ctx context.Context, url string) {
	client := &http.Client{Timeout: 10 * time.Second}
	for ctx.Err() == nil {
		for _, path := range []string{"/pay", "/health"} {
			if response, err := client.Get(url + path); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(asking):
		}
	}
}

// play lets a service have its fault, and waits for the policy and for the profile.
func (s *scene) play(ctx context.Context, p *played) error {
	fmt.Println()
	s.say("the service %s (process %d) %s", p.name, p.cmd.Process.Pid, p.story)
	if _, err := fmt.Fprintln(p.stdin, "now"); err != nil {
		return fmt.Errorf("signalling the service %s: %w", p.name, err)
	}
	var fired []event
	if err := s.await(ctx, "the policy "+p.name+" to fire", func() (ok bool, err error) {
		fired, err = events(s.dir, "ebpf.profiling.triggered", p.name)
		return len(fired) > 0, err
	}); err != nil {
		return err
	}
	s.say("the policy %s fires: %s", p.name, fired[0].causes)
	var found shares
	if err := s.await(ctx, "a profile that shows "+p.guilty, func() (ok bool, err error) {
		found, err = profileOf(s.dir, fired[0].task)
		return found.of(p.guilty) >= 0.2, err
	}); err != nil {
		return errors.Join(err, fmt.Errorf("the profile of task %s has %s", fired[0].task, found.hottest(5)))
	}
	s.say("its profile (task %s) shows %s with %.0f %% of %d samples", fired[0].task, p.guilty, 100*found.of(p.guilty), found.samples)
	return p.stop()
}

// close waits for the Collector to end, and checks that each policy has fired once.
func (s *scene) close(ctx context.Context) error {
	fmt.Println()
	if err := s.end(); err != nil {
		return err
	}
	for _, p := range s.services {
		fired, err := events(s.dir, "ebpf.profiling.triggered", p.name)
		if err != nil {
			return err
		}
		if len(fired) != 1 {
			return fmt.Errorf("the policy %s has fired %d times, want once within its silence", p.name, len(fired))
		}
	}
	s.say("each policy has fired once")
	if took := time.Since(s.began); took > s.within {
		return fmt.Errorf("it has taken %s, want %s at most: what else does this host do?", took.Round(time.Second), s.within)
	}
	return ctx.Err()
}

// await polls until the result is there.
func (s *scene) await(ctx context.Context, what string, there func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		ok, err := there()
		if ok || err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case time.Now().After(deadline):
			return errors.Join(fmt.Errorf("waited %s for %s", patience, what), s.collectorsEnd())
		}
		time.Sleep(each)
	}
}

// collectorsEnd is the end of the Collector's log, as an error.
func (s *scene) collectorsEnd() error {
	text, err := os.ReadFile(filepath.Join(s.dir, "collector.log"))
	if err != nil {
		return err
	}
	const most = 2000
	return fmt.Errorf("the end of the Collector's log:\n%s", text[max(0, len(text)-most):])
}

// stop ends a service.
func (p *played) stop() error {
	if p.stdin == nil {
		return nil
	}
	err := p.stdin.Close()
	p.stdin = nil
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
	return err
}

// end ends everything that was started.
func (s *scene) end() error {
	var errs []error
	if s.stopAsks != nil {
		s.stopAsks()
	}
	if s.collector != nil {
		errs = append(errs, s.endCollector())
		s.collector = nil
	}
	for _, p := range s.services {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// endCollector has the Collector end by itself; one that does not is made to say what it does, in its log, and to end.
func (s *scene) endCollector() error {
	err := s.collector.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(patience, func() { _ = s.collector.Process.Signal(syscall.SIGQUIT) })
	ended := s.collector.Wait()
	if !late.Stop() {
		ended = errors.Join(fmt.Errorf("the Collector did not end within %s: %w", patience, ended), s.collectorsEnd())
	}
	return errors.Join(err, ended)
}

// loadNow is the host's load average over a minute.
func loadNow() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("reading the load average: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
