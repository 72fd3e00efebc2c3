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
)

// talker is one of the benchmark's C programs: it reads requests and answers them line by line, and ends when its input is closed.
type talker struct {
	cmd     *exec.Cmd
	asks    io.WriteCloser
	answers *bufio.Reader
}

// startTalker compiles source/NAME.c into dir and starts it. Without a C compiler the error is [ErrAbsent].
func startTalker(ctx context.Context, dir, name string, nice int, args ...string) (*talker, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	text, err := sources.ReadFile("source/" + name + ".c")
	if err != nil {
		return nil, fmt.Errorf("reading the source of the load: %w", err)
	}
	source, binary := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	if err := os.WriteFile(source, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing the source of the load: %w", err)
	}
	if err := compile(exec.CommandContext(ctx, gcc, "-O2", "-pthread", "-o", binary, source)); err != nil {
		return nil, err
	}
	t := &talker{cmd: exec.CommandContext(ctx, "nice", append([]string{"-n", strconv.Itoa(nice), binary}, args...)...)}
	t.cmd.Stderr = os.Stderr
	if t.asks, err = t.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("preparing the load: %w", err)
	}
	answers, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the load: %w", err)
	}
	t.answers = bufio.NewReader(answers)
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the load: %w", err)
	}
	return t, nil
}

// Stop ends the program, and what it has started.
func (t *talker) Stop() error {
	err := t.asks.Close()
	if ended := t.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("ending the load: %w", ended))
	}
	return err
}
