// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// otherUser is not the user of the steady service.
const otherUser = 65533

// other runs attackers as another user than the steady service.
var other = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser, NoSetGroups: true}}

// otherMounting is other, in namespaces of its own in which it may mount.
var otherMounting = &syscall.SysProcAttr{
	Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
	UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: otherUser, Size: 1}},
	GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: otherUser, Size: 1}},
	GidMappingsEnableSetgroups: false,
	Credential:                 &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
}

// task is what the flags of the roles of this file say.
type task struct {
	dir  string
	end  time.Time
	duty float64
}

func parseTask(role string, args []string) (t task, err error) {
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	flags.StringVar(&t.dir, "dir", "", "where the files are")
	length := flags.Duration("for", time.Second, "how long")
	flags.Float64Var(&t.duty, "duty", 0.1, "share of a CPU")
	err = flags.Parse(args)
	t.end = time.Now().Add(*length)
	return t, err
}

func (s *stage) task() []string {
	return []string{"-dir", s.dir, "-for", s.left().String(), "-duty", fmt.Sprint(s.options.duty)}
}

// runAll starts the processes of an attack, all in the same role.
func (s *stage) runAll(ctx context.Context, as *syscall.SysProcAttr, role string) error {
	for range s.options.processes {
		if err := s.runAs(ctx, as, role, s.task()...); err != nil {
			return err
		}
	}
	return nil
}

// endIn is the time after a duration, or the end of the task where that is sooner.
func (t task) endIn(d time.Duration) time.Time {
	if end := time.Now().Add(d); end.Before(t.end) {
		return end
	}
	return t.end
}

// mountOver mounts an empty file system over a folder.
func mountOver(folder string) error {
	if err := unix.Mount("none", folder, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting over %s: %w", folder, err)
	}
	return nil
}

// mountFile mounts a file over an empty one.
func mountFile(fd int, path string) error {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting over %s: %w", path, err)
	}
	return nil
}

// ownFolder makes a folder of the other user.
func (s *stage) ownFolder(name string) error {
	path := filepath.Join(s.dir, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return os.Chown(path, otherUser, otherUser)
}
