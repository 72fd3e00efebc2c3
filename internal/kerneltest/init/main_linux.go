// SPDX-License-Identifier: Apache-2.0

// Command init is the first and only process of the virtual machines in which the privileged tests run on other kernels. It mounts what the
// tests need, runs every test binary of the manifest, writes their results to the console, and powers the machine off. Called under other
// names it stands in for the few commands that tests start.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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

// runPackage runs one test binary and returns its exit code; the error is why there is none.
func runPackage(m *guest.Manifest, p guest.Package) (exit int, err error) {
	if err := guest.AnnounceBegin(os.Stdout, p.Name); err != nil {
		return -1, err
	}
	exit, err = runTests(m, p)
	return exit, errors.Join(err, guest.AnnounceEnd(os.Stdout, p.Name, exit))
}

// runTests runs the tests of one test binary, whose output goes to the console.
func runTests(m *guest.Manifest, p guest.Package) (exit int, err error) {
	// The binary's own -test.timeout comes first and prints its goroutines.
	ctx, cancel := context.WithTimeout(context.Background(), m.Timeout+5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Binary, slices.Concat(m.Args, strings.Fields(os.Getenv(guest.ArgsEnv)), []string{"-test.run=" + p.Run})...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), m.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	err = cmd.Run()
	var code *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &code):
		return code.ExitCode(), nil
	default:
		return -1, fmt.Errorf("running %s: %w", p.Binary, err)
	}
}
