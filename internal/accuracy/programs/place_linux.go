// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

//go:embed source
var sources embed.FS

const (
	// setUpTimeout bounds what is run before a program can start, such as initdb.
	setUpTimeout = time.Minute
	// readyTimeout bounds the time until a server accepts connections.
	readyTimeout = 30 * time.Second
	readyPoll    = 50 * time.Millisecond
)

// Place is a folder in which one program runs, and the user that it runs as.
type Place struct {
	Dir  string
	user *syscall.Credential
	log  *os.File
}

// NewPlace makes a folder below parent for the user nobody. Servers such as PostgreSQL refuse to run as root.
func NewPlace(parent, name string) (*Place, error) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("looking for an unprivileged user: %w", err)
	}
	uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("reading the ids of the user nobody: %w", err)
	}
	p := &Place{Dir: filepath.Join(parent, name), user: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := os.Mkdir(p.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for %s: %w", name, err)
	}
	if err := os.Chown(p.Dir, int(uid), int(gid)); err != nil {
		return nil, fmt.Errorf("giving %s to the user nobody: %w", p.Dir, err)
	}
	if p.log, err = os.Create(filepath.Join(parent, name+".log")); err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", name, err)
	}
	return p, nil
}

// Close closes the log.
func (p *Place) Close() error { return p.log.Close() }

// path is that of a file in the folder.
func (p *Place) path(name string) string { return filepath.Join(p.Dir, name) }

// env is the same for all programs, whatever the environment of this one.
func (p *Place) env() []string {
	return []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin", "HOME=" + p.Dir, "TMPDIR=" + p.Dir, "LC_ALL=C"}
}

// start starts a program in the folder.
func (p *Place) start(ctx context.Context, path string, args ...string) (*workload.Process, error) {
	return workload.Start(ctx, workload.Command{
		Name: filepath.Base(path), Path: path, Args: args, CPU: workload.AnyCPU,
		Output: p.log, User: p.user, Dir: p.Dir, Env: p.env(),
	})
}

// run runs a program to its end.
func (p *Place) run(ctx context.Context, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = p.log, p.log, p.Dir, p.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s (see %s): %w", filepath.Base(path), p.log.Name(), err)
	}
	return nil
}

// until runs a command again until it succeeds.
func (p *Place) until(ctx context.Context, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	for {
		err := p.run(ctx, path, args...)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(untilPause):
		}
	}
}

// untilPause is between two runs of a command that shall succeed.
const untilPause = 50 * time.Millisecond

// runFor runs clients for a time; that they do not end by themselves is no error, that they do is.
func (p *Place) runFor(ctx context.Context, d time.Duration, commands ...[]string) error {
	var clients []*workload.Process
	stop := func() error {
		var errs []error
		for _, c := range clients {
			errs = append(errs, c.Stop())
		}
		return errors.Join(errs...)
	}
	ended := make(chan string, len(commands))
	for _, command := range commands {
		c, err := p.start(ctx, command[0], command[1:]...)
		if err != nil {
			return errors.Join(err, stop())
		}
		clients = append(clients, c)
		go func() { <-c.Ended(); ended <- filepath.Base(command[0]) }()
	}
	select {
	case <-time.After(d):
		return stop()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), stop())
	case name := <-ended:
		return errors.Join(fmt.Errorf("putting a program under load: %s has ended too early, see %s", name, p.log.Name()), stop())
	}
}

// write puts one of the sources into the folder; words in pairs are replaced. It returns the path.
func (p *Place) write(name string, replace ...string) (string, error) {
	text, err := sources.ReadFile("source/" + name)
	if err != nil {
		return "", fmt.Errorf("reading the source of a load: %w", err)
	}
	return p.writeText(name, strings.NewReplacer(replace...).Replace(string(text)))
}

func (p *Place) writeText(name, text string) (string, error) {
	path := p.path(name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("writing a file of a load: %w", err)
	}
	return path, nil
}

// ready waits until a program accepts connections.
func (p *Place) ready(ctx context.Context, program *workload.Process, network, address string) error {
	deadline := time.Now().Add(readyTimeout)
	for {
		conn, err := net.Dial(network, address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: %w", address, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-program.Ended():
			return fmt.Errorf("waiting for %s: the program has ended", address)
		case <-time.After(readyPoll):
		}
	}
}

// serve starts a server and waits until it accepts connections.
func (p *Place) serve(ctx context.Context, network, address string, command ...string) (*workload.Process, error) {
	server, err := p.start(ctx, command[0], command[1:]...)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, server, network, address); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// seconds is a time as most programs take it.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(d.Round(time.Second)/time.Second)))
}

// pidText is a program's process id as an argument.
func pidText(program *workload.Process) string { return strconv.Itoa(program.PID()) }

// joinStop ends a program that could not be made ready.
func joinStop(err error, r *Running) error { return errors.Join(err, r.main.Stop()) }
