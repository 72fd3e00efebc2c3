// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Connections are processes with TCP connections, on the loopback interface; Stop closes them all.
type Connections struct {
	*talker
	// PIDs are the processes; of pairs each time the one that connects, then the one that accepts.
	PIDs []int
}

// OpenConnections starts pairs of processes that will open so many connections each and keep them open.
func OpenConnections(ctx context.Context, dir string, nice, pairs, each int) (*Connections, error) {
	return startConnections(ctx, dir, nice, "open", pairs, each, 2*pairs)
}

// ChurnConnections starts processes each of which will open connections for a time, accept them itself, and close both ends at once.
func ChurnConnections(ctx context.Context, dir string, nice, processes int, during time.Duration) (*Connections, error) {
	return startConnections(ctx, dir, nice, "churn", processes, int(during.Milliseconds()), processes)
}

// startConnections compiles the program into dir; without a C compiler the error is [ErrAbsent].
func startConnections(ctx context.Context, dir string, nice int, mode string, number, amount, processes int) (*Connections, error) {
	t, err := startTalker(ctx, dir, "connections", nice, mode, strconv.Itoa(number), strconv.Itoa(amount))
	if err != nil {
		return nil, err
	}
	c := &Connections{talker: t}
	if c.PIDs, err = c.numbers(); err != nil || len(c.PIDs) != processes {
		return nil, errors.Join(fmt.Errorf("starting the load: %d processes instead of %d", len(c.PIDs), processes), err, c.Stop())
	}
	return c, nil
}

// Run lets the processes begin and returns how many connections were opened, and how many accepted, by their own account.
func (c *Connections) Run() (opened, accepted int, err error) {
	if _, err := fmt.Fprintln(c.asks, "go"); err != nil {
		return 0, 0, fmt.Errorf("letting the load begin: %w", err)
	}
	n, err := c.numbers()
	if err != nil || len(n) != 2 {
		return 0, 0, errors.Join(fmt.Errorf("waiting for the load: it says %d", n), err)
	}
	return n[0], n[1], nil
}

// numbers reads a line of numbers.
func (c *Connections) numbers() ([]int, error) {
	line, err := c.answers.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("reading what the load says: %w", err)
	}
	var list []int
	for _, field := range strings.Fields(line) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("reading what the load says: %w", err)
		}
		list = append(list, n)
	}
	return list, nil
}
