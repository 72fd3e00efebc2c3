// SPDX-License-Identifier: Apache-2.0

// Command init is the first and only process of the virtual machines in which the privileged tests run on other kernels.
// It mounts what the tests need, runs every test binary of the manifest, tells on the console what became of them, and
// powers the machine off. Called under other names it stands in for the few commands that tests start.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/golog"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

func main() {
	if command, ok := commands[filepath.Base(os.Args[0])]; ok {
		os.Exit(command(os.Args[1:]))
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: is meant to be the first process of a virtual machine and would power it off")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Printf("init: %v\n", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Printf("init: powering off: %v\n", err)
	}
	select {} // the first process must not end
}

// run does everything but powering off. Its error says what kept the tests from running, not that tests failed.
func run() error {
	if err := errors.Join(mountAll(), upLoopback()); err != nil {
		fmt.Printf("init: %v\n", err) // tests that need what is missing say so themselves
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("asking for the kernel's release: %w", err)
	}
	release := unix.ByteSliceToString(uts.Release[:])
	if err := guest.AnnounceKernel(os.Stdout, release); err != nil {
		return err
	}
	if err := loadModules(filepath.Join(guest.ModulesPath, release)); err != nil {
		fmt.Printf("init: %v\n", err) // as above
	}
	m, err := readManifest()
	if err != nil {
		return err
	}
	ok, failed := 0, 0
	for _, p := range m.Packages {
		exit, err := runPackage(m, p)
		if err != nil {
			fmt.Printf("init: %v\n", err)
		}
		if exit == 0 {
			ok++
		} else {
			failed++
		}
	}
	return guest.AnnounceResult(os.Stdout, ok, failed)
}

func readManifest() (*guest.Manifest, error) {
	text, err := os.ReadFile(guest.ManifestPath)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	var m guest.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("reading %s: %w", guest.ManifestPath, err)
	}
	return &m, nil
}

// testsFailed is the exit code of a test binary that ran all tests; one that panicked or took too long ends with another.
const testsFailed = 1

// runPackage runs one test binary and returns its exit code; the error is why there is none. Tests that fail while all others
// come to their end run once more: emulated CPUs stand still for as long as the machine below has something else to do.
func runPackage(m *guest.Manifest, p guest.Package) (exit int, err error) {
	if err := guest.AnnounceBegin(os.Stdout, p.Name); err != nil {
		return -1, err
	}
	exit, log, err := runTests(m, p, p.Run)
	if failed, whole := log.Failures(); err == nil && exit == testsFailed && whole && len(failed) > 0 {
		if err := guest.AnnounceAgain(os.Stdout, p.Name); err != nil {
			return -1, err
		}
		exit, _, err = runTests(m, p, "^("+strings.Join(failed, "|")+")$")
	}
	return exit, errors.Join(err, guest.AnnounceEnd(os.Stdout, p.Name, exit))
}

// runTests runs a test binary's tests that fit a regular expression, and returns what it said, too.
func runTests(m *guest.Manifest, p guest.Package, run string) (exit int, _ *golog.Log, err error) {
	// The binary's own -test.timeout comes first and prints its goroutines.
	ctx, cancel := context.WithTimeout(context.Background(), m.Timeout+5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Binary, slices.Concat(m.Args, strings.Fields(os.Getenv(guest.ArgsEnv)), []string{"-test.run=" + run})...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), m.Env...)
	log := &golog.Log{}
	lines := golog.NewWriter(log)
	output := io.MultiWriter(os.Stdout, lines)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = 2 * time.Second // helper programs left behind keep the console open
	err = cmd.Run()
	lines.Flush()
	exit = -1
	var code *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		exit, err = cmd.ProcessState.ExitCode(), nil
	case errors.As(err, &code):
		exit, err = code.ExitCode(), nil
	default:
		err = fmt.Errorf("running %s: %w", p.Binary, err)
	}
	return exit, log, err
}
