// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// qemuArgs boots a kernel in software emulation: hardware virtualization is not to be had on many build machines, and
// where a machine is virtual itself asking for it can hang. no_timer_check: on a busy host the emulated timer is late, the
// kernel's check of it fails ("8254 timer not connected to IO-APIC"), and the boot hangs, one time in ten or so.
//
// thread=single emulates both CPUs in turns. With a thread for each, QEMU before 8.1 may go on with an instruction that the
// other CPU has just replaced (fixed by its commits deba78709ae8 and cb62bd15e14e), which ends in an int3 or a call of
// nothing wherever the kernel patches its code: attaching an empty program to sched_exit_tp or finish_task_switch again and
// again does within seconds.
func qemuArgs(m machine, kernel, initrd string, inShort bool) []string {
	line := m.line
	if inShort {
		line += " " + guest.ArgsEnv + "=-test.short"
	}
	return append(slices.Clone(m.args),
		"-accel", "tcg,thread=single", "-m", "1536M", "-smp", "2",
		"-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio", "-nic", "none",
		"-kernel", kernel, "-initrd", initrd, "-append", line)
}

// machine is what QEMU is to be.
type machine struct {
	command  string
	args     []string
	line     string // of the kernel
	compiler string // of C programs for it; empty: this machine's
}

// machines are those that can be tested, by Debian's and Go's name of their architecture.
var machines = map[string]machine{
	"amd64": {"qemu-system-x86_64", []string{"-cpu", "max"}, "console=ttyS0 quiet panic=-1 no_timer_check", ""},
	"arm64": {"qemu-system-aarch64", []string{"-M", "virt", "-cpu", "cortex-a72"}, "console=ttyAMA0 quiet panic=-1", "aarch64-linux-gnu-gcc"},
}

// bootTimeout is how long a kernel may take until init speaks; 3 s is usual.
const bootTimeout = 90 * time.Second

// errNoInit: the machine hung or ended before init ran, so before any of our code did.
var errNoInit = errors.New("init never ran")

// boot runs the tests on one kernel. A machine that does not come as far as init is started once more, and says so.
func boot(ctx context.Context, o options, img aptkernel.Image, initrd string) (*guest.Result, error) {
	res, err := bootOnce(ctx, o, img, initrd)
	if errors.Is(err, errNoInit) && ctx.Err() == nil {
		say("kernel %s: %v; its console ends: %q; booting once more", img.Kernel.Name, err, lastLine(res))
		res, err = bootOnce(ctx, o, img, initrd)
	}
	return res, err
}

// bootOnce boots a kernel and reads its console, which is kept next to the kernels.
func bootOnce(ctx context.Context, o options, img aptkernel.Image, initrd string) (*guest.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	console, err := os.Create(consolePath(o, img))
	if err != nil {
		return nil, fmt.Errorf("keeping the console: %w", err)
	}
	defer console.Close()

	cmd := exec.CommandContext(ctx, machines[o.arch].command, qemuArgs(machines[o.arch], img.Path, initrd, !o.long)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting the console: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting QEMU: %w", err)
	}
	late := time.AfterFunc(bootTimeout, cancel)
	defer late.Stop()
	res, readErr := guest.ReadConsole(io.TeeReader(stdout, console), func() { late.Stop() })
	err = cmd.Wait()
	switch {
	case res.Release == "":
		err = fmt.Errorf("booting: %w: %w: %s", errNoInit, cmp.Or(err, io.EOF), strings.TrimSpace(stderr.String()))
	case ctx.Err() != nil:
		err = fmt.Errorf("running the tests for %s: %w", o.timeout, ctx.Err())
	case err != nil:
		err = fmt.Errorf("running QEMU: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return res, errors.Join(err, readErr)
}

func lastLine(res *guest.Result) string {
	if res == nil || len(res.Tail) == 0 {
		return ""
	}
	return res.Tail[len(res.Tail)-1]
}

func consolePath(o options, img aptkernel.Image) string {
	return filepath.Join(o.dir, "console-"+img.Kernel.Name+".log")
}
