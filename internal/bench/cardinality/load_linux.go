// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Names of the programs of the load.
const (
	serverName, shortName = "forking-server", "short-lived"
	// pause is how long a process that runs all the time waits between two requests, in milliseconds.
	pause = "1000"
)

// load are processes that ask a server which forks for each connection.
type load struct {
	folder  string
	names   []string
	started []*exec.Cmd
	port    string
	asked   int // by short-lived processes
}

// compile makes one program and a link to it for each service.
func (l *load) compile(ctx context.Context, source string, names int) error {
	program := filepath.Join(l.folder, serverName)
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-static", "-o", program, source).CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", source, err, out)
	}
	all := []string{shortName}
	for i := range names {
		l.names = append(l.names, fmt.Sprintf("service-%02d", i))
	}
	for _, name := range append(all, l.names...) {
		if err := os.Link(program, filepath.Join(l.folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// start starts the server, and the processes that ask it all the time.
func (l *load) start(processes int) error {
	server := exec.Command(filepath.Join(l.folder, serverName))
	output, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.begin(server); err != nil {
		return err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return fmt.Errorf("reading the server's port: %w", err)
	}
	l.port = strings.TrimSpace(line)
	for i := range processes {
		if err := l.begin(exec.Command(filepath.Join(l.folder, l.names[i%len(l.names)]), l.port, pause)); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) begin(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	l.started = append(l.started, cmd)
	return nil
}

// ask starts so many processes in each second, until then.
func (l *load) ask(ctx context.Context, perSecond int, until time.Time) error {
	ticks := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticks.Stop()
	for time.Now().Before(until) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
		if err := exec.CommandContext(ctx, filepath.Join(l.folder, shortName), l.port).Run(); err != nil {
			return fmt.Errorf("asking: %w", err)
		}
		l.asked++
	}
	return nil
}

// stop ends all.
func (l *load) stop() {
	for _, cmd := range l.started {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}
