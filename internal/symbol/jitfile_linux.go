// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// maxStatus bounds what is read of /proc/PID/status, in which a process may
	// have 65,536 groups.
	maxStatus = 1 << 20
	// staleSlack is by how much a file may seem older than its process: its time
	// has the granularity of the kernel's tick, and clocks are set.
	staleSlack = 2 * time.Second
)

var (
	errOwner = errors.New("it belongs to another user: perf maps are read of the process's own user and of root")
	errStale = errors.New("it is older than the process: of one before it that had the same number")
)

// size is the file's length now.
func (f *file) size() (uint64, error) {
	stat, err := f.files.stat(f.fd, f.dev)
	if err != nil {
		return 0, fmt.Errorf("asking for a file's size: %w", err)
	}
	return uint64(max(stat.Size, 0)), nil
}

// perfMap finds /tmp/perf-PID.map in the process's own root, by the number that
// the process has in its own namespace. The error wraps fs.ErrNotExist where
// there is none, or an old one of another process.
func (d *procDir) perfMap(id model.ProcessID) (candidate, string, error) {
	who, err := d.self()
	if err != nil {
		return nil, "", err
	}
	path := "/tmp/perf-" + strconv.FormatUint(uint64(who.pid), 10) + ".map"
	where := fmt.Sprintf("%s of process %d", path, d.pid)
	dev := d.mounts()
	fd, err := d.openMap(path, dev)
	if err != nil {
		return nil, where, &reasonError{noFile, fmt.Errorf("opening %s: %w", where, err)}
	}
	l, err := d.look(fd, dev, where)
	if err != nil {
		return nil, where, err
	}
	switch {
	case l.stat.Uid != 0 && l.stat.Uid != who.uid:
		err = errOwner
	case older(&l.stat, id.StartTicks):
		err = fmt.Errorf("%w: %w", unix.ENOENT, errStale)
	}
	if err != nil {
		return nil, where, &reasonError{noFile, errors.Join(fmt.Errorf("opening %s: %w", where, err), l.close())}
	}
	return l, where, nil
}

// mounts gives what stands for the device of a file that was not found yet: the
// namespace of mounts that it is looked for in. It has a number that no device has.
func (d *procDir) mounts() uint64 {
	var stat unix.Stat_t
	if unix.Fstatat(d.shown(), "ns/mnt", &stat, 0) != nil {
		return makedev(0, 1<<31|uint64(d.pid))
	}
	return makedev(0, stat.Ino&0xffffffff)
}

// openMap opens a file in the process's root that is no link. A file system on the
// way may not answer.
func (d *procDir) openMap(path string, dev uint64) (int, error) {
	fd, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd) //nolint:errcheck // an O_PATH descriptor
	return askOf(d.files, fd, dev, func(own int) (int, error) { return openBelow(own, path, unix.O_NOFOLLOW) }, closeLate)
}

// older reports whether a file was last written before a process began.
func older(stat *unix.Stat_t, startTicks uint64) bool {
	if startTicks == 0 {
		return false
	}
	var wall, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return false
	}
	began := wall.Nano() - boot.Nano() + int64(startTicks)*int64(time.Second)/model.TicksPerSecond //nolint:gosec // ticks since boot
	return stat.Mtim.Nano() < began-staleSlack.Nanoseconds()
}

// inside is what a process is to itself.
type inside struct {
	pid uint32 // in its own namespace of pids
	uid uint32 // effective, as this process sees it
}

// self reads Uid and NSpid of /proc/PID/status, which the main thread shows also when it
// has ended; of another one they are not the process's.
func (d *procDir) self() (inside, error) {
	fd, err := openat(d.fd, "status", unix.O_RDONLY)
	if err != nil {
		return inside{}, d.failed("status", err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	text, buf := []byte(nil), make([]byte, 4<<10)
	for len(text) < maxStatus {
		n, err := read(fd, buf)
		if err != nil {
			return inside{}, d.failed("status", err)
		}
		if n == 0 {
			break
		}
		text = append(text, buf[:n]...)
	}
	who, err := parseStatus(text, d.pid)
	if err != nil {
		return who, d.failed("status", err)
	}
	return who, nil
}

// parseStatus takes the effective user and the innermost pid; kernels without
// namespaces of pids show none, and pid is it then.
func parseStatus(text []byte, pid uint32) (inside, error) {
	who, known := inside{pid: pid}, false
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(string(line), ":")
		fields := strings.Fields(value)
		switch {
		case key == "Uid" && len(fields) > 1:
			uid, err := strconv.ParseUint(fields[1], 10, 32)
			if err != nil {
				return who, fmt.Errorf("line Uid: %w", err)
			}
			who.uid, known = uint32(uid), true
		case key == "NSpid" && len(fields) > 0:
			inner, err := strconv.ParseUint(fields[len(fields)-1], 10, 32)
			if err != nil {
				return who, fmt.Errorf("line NSpid: %w", err)
			}
			who.pid = uint32(inner)
		}
	}
	if !known {
		return who, errors.New("no line Uid")
	}
	return who, nil
}
