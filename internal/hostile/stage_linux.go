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
	"sync"
	"syscall"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

// unprivileged runs attackers; a nil user is root.
var unprivileged = &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}

// stage is where attacks run: a folder that everyone can read, and processes that end with this one.
type stage struct {
	options options
	dir     string
	program string // a copy of this one, which everyone may execute
	end     time.Time

	cached pageCache

	mu       sync.Mutex
	children []*exec.Cmd
	waiting  sync.WaitGroup
	ended    []string // roles of processes that have ended, and how
}

func newStage(o options) (*stage, error) {
	dir, err := os.MkdirTemp("/tmp", "hostile-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for the attack: %w", err)
	}
	s := &stage{options: o, dir: dir, program: filepath.Join(dir, "hostile")}
	if err := errors.Join(os.Chmod(dir, 0o755), copySelf(s.program)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	err = codefile.Write(steadyFile(dir), codefile.Spec{Name: steadyName, Functions: steadyFunctions, Loops: steadyLoops})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func copySelf(to string) (err error) {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, from)
	return err
}

// left is how long processes that are started now shall run: somewhat longer than the Collector.
func (s *stage) left() time.Duration { return time.Until(s.end) + 30*time.Second }

// run starts this program in one of its roles, as a user. The process ends with ctx, and with this one.
func (s *stage) run(ctx context.Context, user *syscall.Credential, role string, args ...string) error {
	_, err := s.start(ctx, user, role, args...)
	return err
}

// runAs is run with further attributes of the process.
func (s *stage) runAs(ctx context.Context, as *syscall.SysProcAttr, role string, args ...string) error {
	_, err := s.startAs(ctx, *as, role, args...)
	return err
}

func (s *stage) start(ctx context.Context, user *syscall.Credential, role string, args ...string) (pid int, err error) {
	return s.startAs(ctx, syscall.SysProcAttr{Credential: user}, role, args...)
}

func (s *stage) startAs(ctx context.Context, as syscall.SysProcAttr, role string, args ...string) (pid int, err error) {
	cmd := exec.CommandContext(ctx, s.program, append([]string{role}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "OTEL_SERVICE_NAME="+role)
	cmd.Stderr = os.Stderr
	as.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &as
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", role, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children = append(s.children, cmd)
	s.waiting.Go(func() {
		err := cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, fmt.Sprintf("%s: %v", role, cmp.Or(err, errors.New("exit status 0"))))
	})
	return cmd.Process.Pid, nil
}

// endedEarly says which processes have ended before they were to: their attack has not happened.
func (s *stage) endedEarly() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) == 0 {
		return nil
	}
	return fmt.Errorf("%d processes ended before the end, the first one was %s", len(s.ended), s.ended[0])
}

// close ends all processes and removes the files.
func (s *stage) close() error {
	s.mu.Lock()
	for _, c := range s.children {
		_ = c.Process.Kill() // it may have ended
	}
	s.mu.Unlock()
	s.waiting.Wait()
	return os.RemoveAll(s.dir)
}
