// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

// ErrAbsent: a program, or what loads it, is not installed.
var ErrAbsent = errors.New("not installed")

// Program is one that can be started.
type Program struct {
	Name  string
	start func(context.Context, *Place) (*Running, error)
}

// All are the programs, in the order in which they are judged.
var All = []Program{
	{"nginx", startNginx},
	{"postgresql", startPostgres},
	{"redis-server", startRedis},
	{"mariadb", startMariaDB},
	{"python3", startPython},
	{"node", startNode},
	{"java", startJava},
	{"gojq", startGojq},
}

// Running is a program that was started and waits for its load.
type Running struct {
	// Exe is the path of the executable; Alone: no process but PID is of interest.
	Exe   string
	Alone bool
	main  *workload.Process
	// load keeps the program busy for a time.
	load func(context.Context, time.Duration) error
}

// Start starts the program. The error is [ErrAbsent] where something is not installed.
func (p Program) Start(ctx context.Context, place *Place) (*Running, error) {
	r, err := p.start(ctx, place)
	if err != nil {
		return nil, fmt.Errorf("starting %s (its log is %s): %w", p.Name, place.log.Name(), err)
	}
	if r.Exe, err = filepath.EvalSymlinks(r.Exe); err != nil {
		return nil, errors.Join(fmt.Errorf("looking for %s: %w", p.Name, err), r.Stop())
	}
	return r, nil
}

// PID is the process that was started; it may have made others.
func (r *Running) PID() int { return r.main.PID() }

// Load keeps the program busy for about a time.
func (r *Running) Load(ctx context.Context, d time.Duration) error {
	select {
	case <-r.main.Ended():
		_, err := r.main.Wait()
		return errors.Join(errors.New("putting a program under load: it has ended"), err)
	default:
	}
	return r.load(ctx, d)
}

// Stop ends the program, and removes its perf map.
func (r *Running) Stop() error {
	err := r.main.Stop()
	if rm := os.Remove(PerfMap(int64(r.PID()))); rm != nil && !errors.Is(rm, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("removing what a program left: %w", rm))
	}
	return err
}

// PerfMap is the path of a process's perf map.
func PerfMap(pid int64) string { return fmt.Sprintf("/tmp/perf-%d.map", pid) }

// find searches where Debian's packages put programs: others on the host's PATH are not to be judged.
func find(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/usr/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s is neither in /usr/bin nor in /usr/sbin", ErrAbsent, name)
}

// findAll finds several programs.
func findAll(names ...string) ([]string, error) {
	var paths []string
	for _, name := range names {
		path, err := find(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Names are the names of all programs.
func Names() []string {
	var names []string
	for _, p := range All {
		names = append(names, p.Name)
	}
	return names
}

// Named returns the program of a name that [Names] has.
func Named(name string) Program {
	for _, p := range All {
		if p.Name == name {
			return p
		}
	}
	return Program{}
}
