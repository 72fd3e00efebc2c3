// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PingPong is a program of two threads on one CPU that wake each other through pipes.
type PingPong struct{ *talker }

// StartPingPong compiles the program into dir and starts it on the last CPU of those given. Without a C compiler the
// error is [ErrAbsent].
func StartPingPong(ctx context.Context, dir string, nice, cpu int) (*PingPong, error) {
	t, err := startTalker(ctx, dir, "pingpong", nice, strconv.Itoa(cpu))
	if err != nil {
		return nil, err
	}
	return &PingPong{t}, nil
}

// PID is that of the program.
func (p *PingPong) PID() int { return p.cmd.Process.Pid }

// PerSwitch has the threads wake each other so many times and returns the mean time of a switch with what leads to it.
func (p *PingPong) PerSwitch(rounds int) (time.Duration, error) {
	if _, err := fmt.Fprintln(p.asks, rounds); err != nil {
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
