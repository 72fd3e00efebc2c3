// SPDX-License-Identifier: Apache-2.0

// Package sigready starts a program written in Go so that another process can see when it asks for signals. A Collector does so after it
// has logged that everything is ready; a signal before that kills it.
package sigready

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Prepare changes a command that has not started: a shell ignores SIGINT and runs the program in its place. Go leaves the signal ignored until the
// program asks for it (os/signal).
func Prepare(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", `trap "" INT; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// Asked reports whether a process that was prepared has asked for SIGINT (SigCgt, proc_pid_status(5)). A program that asks for several signals has
// them a few instructions later.
func Asked(pid int) (bool, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false, err
	}
	_, caught, _ := strings.Cut(string(status), "\nSigCgt:")
	var mask uint64
	if _, err := fmt.Sscanf(strings.TrimSpace(caught), "%x", &mask); err != nil {
		return false, fmt.Errorf("reading SigCgt of process %d: %w", pid, err)
	}
	return mask>>(syscall.SIGINT-1)&1 != 0, nil
}
