// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// procfs is the host's /proc.
type procfs struct {
	root string
	// files makes the calls that reach the file systems of observed processes.
	files *patience
}

func newProcfs(root string) (procfs, error) {
	if root == "" {
		root = "/"
	}
	p := procfs{root: root, files: newPatience()}
	fd, err := open(p.path("proc"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return p, fmt.Errorf("opening %s: %w", p.path("proc"), err)
	}
	return p, unix.Close(fd)
}

func (p procfs) path(elem ...string) string {
	return filepath.Join(append([]string{p.root}, elem...)...)
}

// procDir is /proc/PID of one process. All that is opened below it is of that
// process, or fails once it is gone, though its number be used again.
type procDir struct {
	procfs
	pid uint32
	fd  int
}

// dir opens /proc/PID and checks that it still is the process that is meant.
func (p procfs) dir(id model.ProcessID) (*procDir, error) {
	d := &procDir{procfs: p, pid: id.PID, fd: -1}
	var err error
	if d.fd, err = open(p.path("proc", strconv.Itoa(int(id.PID))), unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return nil, d.failed("", err)
	}
	if id.StartTicks == 0 {
		return d, nil
	}
	ticks, err := d.startTicks()
	if err == nil && ticks != id.StartTicks {
		err = d.failed("stat", fmt.Errorf("started at tick %d, not %d: %w", ticks, id.StartTicks, ErrProcessExited))
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *procDir) close() { unix.Close(d.fd) } //nolint:errcheck // an O_PATH descriptor: nothing is lost

// failed says at which file an error happened and whether the process is gone.
func (d *procDir) failed(file string, err error) error {
	why := noFile
	if errors.Is(err, unix.ESRCH) || errors.Is(err, ErrProcessExited) || errors.Is(err, unix.ENOENT) && !d.alive() {
		why = processExited
		if !errors.Is(err, ErrProcessExited) {
			err = fmt.Errorf("%w: %w", ErrProcessExited, err)
		}
	}
	return &reasonError{why, fmt.Errorf("reading %s: %w", d.path("proc", strconv.Itoa(int(d.pid)), file), err)}
}

// alive reports whether the process can still be looked into. A zombie cannot: it has
// given up its memory and its files. One that exits gives up its memory first, and is
// said to run until it has ended.
func (d *procDir) alive() bool {
	fields, err := d.stat()
	const vsize = 23 - 3 // the state is field 3
	if err != nil || len(fields) == 0 || fields[0] == "Z" || fields[0] == "X" {
		return false
	}
	return len(fields) <= vsize || fields[vsize] != "0"
}

// startTicks reads field 22 of /proc/PID/stat.
func (d *procDir) startTicks() (uint64, error) {
	fields, err := d.stat()
	if err != nil {
		return 0, d.failed("stat", err)
	}
	const startTime = 22 - 3 // the state is field 3
	if len(fields) <= startTime {
		return 0, d.failed("stat", errors.New("too few fields"))
	}
	ticks, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return 0, d.failed("stat", err)
	}
	return ticks, nil
}

// stat reads the fields of /proc/PID/stat from the third on, the state; see
// proc_pid_stat(5). The command in parentheses may hold blanks and parentheses
// itself.
func (d *procDir) stat() ([]string, error) {
	if d.fd < 0 {
		return nil, unix.EBADF
	}
	fd, err := openat(d.fd, "stat", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	var buf [1024]byte
	n, err := read(fd, buf[:])
	if err != nil {
		return nil, err
	}
	text := string(buf[:n])
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:]), nil
}

// Calls that a signal interrupts are repeated.

func open(path string, flags int) (int, error) { return openat(unix.AT_FDCWD, path, flags) }

func openat(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != unix.EINTR { //nolint:errorlint // an errno
			return fd, err
		}
	}
}

func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR { //nolint:errorlint // an errno
			return max(n, 0), err
		}
	}
}

func pread(fd int, buf []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, off)
		if err != unix.EINTR { //nolint:errorlint // an errno
			return max(n, 0), err
		}
	}
}
