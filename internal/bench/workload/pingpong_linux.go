// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PingPong is a program of two threads on one CPU that wake each other through pipes.
type PingPong struct {
	cmd     *exec.Cmd
	rounds  io.WriteCloser
	answers *bufio.Reader
}

// StartPingPong compiles the program into dir and starts it on the last CPU of those given. Without a C compiler the
// error is [ErrAbsent].
func StartPingPong(ctx context.Context, dir string, nice, cpu int) (*PingPong, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	text, err := sources.ReadFile("source/pingpong.c")
	if err != nil {
		return nil, fmt.Errorf("reading the source of the load: %w", err)
	}
	source, binary := filepath.Join(dir, "pingpong.c"), filepath.Join(dir, "pingpong")
	if err := os.WriteFile(source, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing the source of the load: %w", err)
	}
	if err := compile(exec.CommandContext(ctx, gcc, "-O2", "-pthread", "-o", binary, source)); err != nil {
		return nil, err
	}
	p := &PingPong{cmd: exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(nice), binary, strconv.Itoa(cpu))}
	if p.rounds, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("preparing the load: %w", err)
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the load: %w", err)
	}
	p.answers = bufio.NewReader(answers)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the load: %w", err)
	}
	return p, nil
}

// PID is that of the program.
func (p *PingPong) PID() int { return p.cmd.Process.Pid }

// PerSwitch has the threads wake each other so many times and returns the mean time of a switch with what leads to it.
func (p *PingPong) PerSwitch(rounds int) (time.Duration, error) {
	if _, err := fmt.Fprintln(p.rounds, rounds); err != nil {
		return 0, fmt.Errorf("asking the load for switches: %w", err)
	}
	line, err := p.answers.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("waiting for the load's switches: %w", err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the time of the load's switches: %w", err)
	}
	return time.Duration(ns) / time.Duration(2*rounds), nil
}

// Stop ends the program.
func (p *PingPong) Stop() error {
	err := p.rounds.Close()
	if ended := p.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("ending the load: %w", ended))
	}
	return err
}
