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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/patience"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// threadTries is how many exiting threads are tried one after the other.
const threadTries = 3

// procfs is the host's /proc.
type procfs struct {
	root string
	// files makes the calls that reach the file systems of observed processes.
	files *patience.Patience
}

func newProcfs(root string) (procfs, error) {
	if root == "" {
		root = "/"
	}
	p := procfs{root: root, files: patience.New()}
	fd, err := open(p.path("proc"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return p, fmt.Errorf("opening %s: %w", p.path("proc"), err)
	}
	return p, unix.Close(fd)
}

func (p procfs) path(elem ...string) string {
	return filepath.Join(append([]string{p.root}, elem...)...)
}

// procDir is /proc/PID of one process. All that is opened below it is of that process, or fails once it has exited, even if its pid is
// reused.
type procDir struct {
	procfs
	pid uint32
	fd  int
	// thread is the folder of the thread that shows the process when the main one has exited; -1 before that.
	thread int

	who *inside // nil before it is read
	opening
}

// dir opens /proc/PID and checks that it still is the wanted process.
func (p procfs) dir(id model.ProcessID) (*procDir, error) {
	d := &procDir{procfs: p, pid: id.PID, fd: -1, thread: -1}
	var err error
	if d.fd, err = open(p.path("proc", strconv.Itoa(int(id.PID))), unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return nil, d.failed("", err)
	}
	fields, err := statOf(d.fd)
	if err == nil && id.StartTicks != 0 {
		err = d.startedAt(fields, id.StartTicks)
	}
	if err != nil {
		err = d.failed("stat", err)
		d.close()
		return nil, err
	}
	if !showMemory(fields) {
		d.turn()
	}
	return d, nil
}

// close closes O_PATH descriptors: nothing is lost if that fails.
func (d *procDir) close() {
	unix.Close(d.fd) //nolint:errcheck // see above
	if d.thread >= 0 {
		unix.Close(d.thread) //nolint:errcheck // see above
	}
}

// shown is the folder that shows the process, for what belongs to all its threads.
func (d *procDir) shown() int {
	if d.thread >= 0 {
		return d.thread
	}
	return d.fd
}

// failed returns for which file an error happened and whether the process has exited.
func (d *procDir) failed(file string, err error) error {
	why := reason.NoFile
	if errors.Is(err, unix.ESRCH) || errors.Is(err, ErrProcessExited) || errors.Is(err, unix.ENOENT) && !d.alive() {
		why = reason.ProcessExited
		if !errors.Is(err, ErrProcessExited) {
			err = fmt.Errorf("%w: %w", ErrProcessExited, err)
		}
	}
	return reason.New(why, fmt.Errorf("reading %s: %w", d.path("proc", strconv.Itoa(int(d.pid)), file), err))
}

// alive reports whether the process can still be read. A zombie cannot: it has released its memory and its files. A process that exits
// releases its memory first, and is shown as running until it has exited. If only the main thread has, alive switches to another one.
func (d *procDir) alive() bool {
	return hasMemory(d.shown()) || d.turn()
}

// hasMemory reports whether a folder of /proc shows the memory of its process.
func hasMemory(folder int) bool {
	fields, err := statOf(folder)
	return err == nil && showMemory(fields)
}

func showMemory(stat []string) bool {
	const vsize = 23 - 3 // the state is field 3
	if len(stat) == 0 || stat[0] == "Z" || stat[0] == "X" {
		return false
	}
	return len(stat) <= vsize || stat[vsize] != "0"
}

// retry repeats a call that failed because the thread that showed the process has exited, as the main one may, while others run.
func (d *procDir) retry(call func() error) error {
	for range threadTries {
		before := d.thread
		err := call()
		if err == nil || !d.turn() && d.thread == before { // the call may have switched
			return err
		}
	}
	return call()
}

// turn switches to another thread that shows the process, since the current one shows it no longer, and reports whether there is one.
func (d *procDir) turn() bool {
	if hasMemory(d.shown()) {
		return false
	}
	fields, err := statOf(d.fd)
	const threads = 20 - 3
	if err != nil || len(fields) <= threads || fields[threads] == "0" || fields[threads] == "1" {
		return false
	}
	thread, _, err := proc.Thread(d.path("proc"), d.fd, d.pid)
	if err != nil {
		return false // it exits
	}
	if d.thread >= 0 {
		unix.Close(d.thread) //nolint:errcheck // an O_PATH descriptor
	}
	d.thread = thread
	return true
}

// startedAt checks field 22 of /proc/PID/stat.
func (d *procDir) startedAt(stat []string, want uint64) error {
	const startTime = 22 - 3 // the state is field 3
	if len(stat) <= startTime {
		return errors.New("too few fields")
	}
	ticks, err := strconv.ParseUint(stat[startTime], 10, 64)
	if err == nil && ticks != want {
		err = fmt.Errorf("started at tick %d, not %d: %w", ticks, want, ErrProcessExited)
	}
	return err
}

// statOf reads the fields of /proc/PID/stat from the third on, the state; see
// proc_pid_stat(5). The command in parentheses may hold blanks and parentheses
// itself.
func statOf(folder int) ([]string, error) {
	if folder < 0 {
		return nil, unix.EBADF
	}
	fd, err := openat(folder, "stat", unix.O_RDONLY)
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
