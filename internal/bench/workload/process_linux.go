// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopTimeout is how long a program may take to end after SIGTERM.
const stopTimeout = 15 * time.Second

// AnyCPU is a [Command.CPU] that pins nothing.
const AnyCPU = -1

// Command is a program to start.
type Command struct {
	Name string // in errors and reports
	Path string
	Args []string
	// CPU is the only CPU it may run on, or [AnyCPU].
	CPU int
	// Nice is the nice level of the program, -20 to 19. Each program is in a session, and so in a scheduling
	// group, of its own; the group gets the level too (sched(7), autogroup).
	Nice   int
	Output io.Writer // stdout and stderr
	// User is the user of the program; nil: that of this process.
	User *syscall.Credential
	// Dir is its working directory, Env its environment; empty: ours.
	Dir string
	Env []string
}

// Process is a program that was started.
type Process struct {
	name    string
	cmd     *exec.Cmd
	started time.Time
	ended   chan struct{}
	err     error
}

// Start starts the program. It is sent SIGTERM when ctx ends and is killed with the benchmark.
func Start(ctx context.Context, c Command) (*Process, error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Stdout, cmd.Stderr = c.Output, c.Output
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: c.User}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	p := &Process{name: c.Name, cmd: cmd, ended: make(chan struct{})}
	if err := p.fork(c.CPU); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := renice(p.PID(), c.Nice); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", c.Name, err), p.Stop())
	}
	return p, nil
}

// fork starts the program from a thread that runs on one CPU only, which the program inherits.
func (p *Process) fork(cpu int) error {
	if cpu == AnyCPU {
		p.started = time.Now()
		return p.cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, pinned unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("reading the CPUs of a thread: %w", err)
	}
	pinned.Set(cpu)
	if err := unix.SchedSetaffinity(0, &pinned); err != nil {
		return fmt.Errorf("pinning to CPU %d: %w", cpu, err)
	}
	p.started = time.Now()
	err := p.cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

func renice(pid, nice int) error {
	if nice == 0 {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, nice); err != nil {
		return fmt.Errorf("setting the nice level %d: %w", nice, err)
	}
	return reniceGroup(strconv.Itoa(pid), nice)
}

func reniceGroup(process string, nice int) error {
	err := os.WriteFile(filepath.Join("/proc", process, "autogroup"), []byte(strconv.Itoa(nice)), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without scheduling groups by session
	}
	if errors.Is(err, unix.EINVAL) && -20 <= nice && nice <= 19 {
		// The process's session began in init's, and so is in the group that all others are in, which has no level
		// (kernel/sched/fair.c, sched_group_set_shares).
		return nil
	}
	if err != nil {
		return fmt.Errorf("setting the nice level %d of the scheduling group: %w", nice, err)
	}
	return nil
}

// Renice gives this process and its session's scheduling group a nice level, as [Start] does for what it starts: a measuring process
// without that precedence would sample processes that have it too late. Every thread has a level of its own (sched(7)); those that start
// later inherit it. Undo gives the group its level back, which outlives the process.
func Renice(nice int) (undo func() error, err error) {
	if nice == 0 {
		return func() error { return nil }, nil
	}
	// A thread may have started meanwhile from one whose turn had not come.
	for again := true; again; {
		if again, err = reniceThreads(nice); err != nil {
			return nil, fmt.Errorf("setting the nice level %d of this process's threads: %w", nice, err)
		}
	}
	return func() error { return reniceGroup("self", 0) }, reniceGroup("self", nice)
}

// reniceThreads gives each thread of this process a nice level, and reports whether one had another.
func reniceThreads(nice int) (changed bool, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return false, err
		}
		// The system call counts from 40 downwards (getpriority(2), notes).
		level, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if err == nil && level != 20-nice {
			changed = true
			err = unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return false, err
		}
	}
	return changed, nil
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Started is just before the program was forked.
func (p *Process) Started() time.Time { return p.started }

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits for the program's end and returns the CPU time it has used, exact to the microsecond: getrusage(2) of a
// child that was waited for.
func (p *Process) Wait() (time.Duration, error) {
	<-p.ended
	if p.err != nil {
		return 0, fmt.Errorf("running %s: %w", p.name, p.err)
	}
	state := p.cmd.ProcessState
	return state.UserTime() + state.SystemTime(), nil
}

// Stop ends the program with SIGTERM, and with SIGKILL when that takes too long. How it ended is no error, that it had
// to be killed is.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	err := p.cmd.Process.Kill()
	<-p.ended
	return errors.Join(fmt.Errorf("stopping %s: it did not end within %s of SIGTERM", p.name, stopTimeout), err)
}
