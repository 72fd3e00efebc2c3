// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pseudoterminal is a terminal whose other end is the test.
type pseudoterminal struct {
	master, slave *os.File
	mu            sync.Mutex
	text          bytes.Buffer
}

func newPseudoterminal(t *testing.T, columns, lines uint16) *pseudoterminal {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	number := 0
	p := &pseudoterminal{master: master}
	p.control(t, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		number = n
		return err
	})
	p.slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	p.resize(t, columns, lines)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			p.mu.Lock()
			p.text.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.slave.Close()
		_ = master.Close()
		<-read
	})
	return p
}

func (p *pseudoterminal) control(t *testing.T, do func(fd int) error) {
	connection, err := p.master.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, connection.Control(func(fd uintptr) { failed = do(int(fd)) }))
	require.NoError(t, failed)
}

func (p *pseudoterminal) resize(t *testing.T, columns, lines uint16) {
	p.control(t, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines})
	})
}

func (p *pseudoterminal) press(t *testing.T, keys string) {
	_, err := io.WriteString(p.master, keys)
	require.NoError(t, err)
}

// waitFor waits until the program has drawn a frame with what is wanted, and forgets it.
func (p *pseudoterminal) waitFor(t *testing.T, want string) (text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		text = p.text.String()
		if !strings.Contains(text, want) {
			return false
		}
		p.text.Reset()
		return true
	}, time.Minute, 5*time.Millisecond, "%q", want)
	return text
}

// startOn starts the program with the terminal as its own.
func startOn(t *testing.T, p *pseudoterminal, args ...string) (ended <-chan error) {
	cmd := program(t, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return done
}

func waitEnd(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		require.NoError(t, err, "status 0")
	case <-time.After(time.Minute):
		require.Fail(t, "the program does not end")
	}
}

// mode are the flags of the terminal's line discipline.
func mode(t *testing.T, f *os.File) uint32 {
	termios, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return termios.Lflag
}

// TestLive checks that the view follows data, keys and the terminal's size, and leaves the terminal as it was.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	p := newPseudoterminal(t, 80, 24)
	before := mode(t, p.slave)
	ended := startOn(t, p, "-dir", dir)
	first := p.waitFor(t, "waiting for the first profile in "+dir)
	require.Contains(t, first, "\x1b[?1049h", "the alternate screen")
	require.NotEqual(t, before, mode(t, p.slave), "raw")

	now := time.Now().Truncate(time.Second)
	appendTo(t, filepath.Join(dir, profilesFile), string(line(t, profile(1, "demo", now.Add(-5*time.Second), sample(7, stack("demo", "main", "burn"))))))
	require.Contains(t, p.waitFor(t, "demo[1] (demo)"), "burn")
	p.press(t, "4")
	p.waitFor(t, "[4 Triggers]")
	p.press(t, "\x1b[Z")
	p.waitFor(t, "[3 Connections]")
	p.resize(t, 30, 5)
	p.waitFor(t, "7 samples in 5s  1…")
	p.press(t, "\x03")
	waitEnd(t, ended)
	require.Equal(t, before, mode(t, p.slave))
	p.waitFor(t, "\x1b[?25h\x1b[?1049l")
}

// TestLiveEndsOnSignals checks that the terminal is restored on a signal, too.
func TestLiveEndsOnSignals(t *testing.T) {
	p := newPseudoterminal(t, 80, 24)
	before := mode(t, p.slave)
	cmd := program(t, "-dir", t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	p.waitFor(t, "[0 All]")
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.NoError(t, cmd.Wait(), "status 0")
	require.Equal(t, before, mode(t, p.slave))
}

// TestPlainOnATerminal checks that -plain neither switches nor reads the terminal.
func TestPlainOnATerminal(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, filepath.Join(dir, profilesFile), string(fixture(t)))
	p := newPseudoterminal(t, 80, 24)
	waitEnd(t, startOn(t, p, "-dir", dir, "-plain", "-once"))
	require.NotContains(t, p.waitFor(t, "serve"), "\x1b")
}

// TestClosedPipe checks that a reader which ends, such as head, ends the program without a word.
func TestClosedPipe(t *testing.T) {
	dir := t.TempDir()
	cmd := program(t, "-dir", dir, "-interval", "100ms")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n') // it waits for profiles
	require.NoError(t, err)
	require.NoError(t, out.Close())
	now := time.Now()
	appendTo(t, filepath.Join(dir, profilesFile), string(line(t, profile(1, "demo", now, sample(7, stack("demo", "main"))))))
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit))
	require.Equal(t, syscall.SIGPIPE, exit.Sys().(syscall.WaitStatus).Signal())
	require.Empty(t, said.String())
}
