// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
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
	errOwner  = errors.New("it belongs to another user: perf maps are read of the process's own user and of root")
	errLinked = errors.New("it has a second name: a hard link to another file is not read")
	errStale  = errors.New("it is older than the process: of one before it that had the same number")
)

// Size is the file's length now.
func (f *file) Size() (uint64, error) {
	stat, err := fstat(f.files, f.fd, f.dev)
	if err != nil {
		return 0, fmt.Errorf("asking for a file's size: %w", err)
	}
	return uint64(max(stat.Size, 0)), nil
}

// perfMap finds /tmp/perf-PID.map in the process's own root, by its pid in its own namespace. The error wraps fs.ErrNotExist if there is
// none, or an old one of another process.
func (d *procDir) perfMap(id model.ProcessID) (candidate, string, error) {
	who, err := d.self()
	if err != nil {
		return nil, "", err
	}
	path := "/tmp/perf-" + strconv.FormatUint(uint64(who.pid), 10) + ".map"
	where := fmt.Sprintf("%s of process %d", path, d.pid)
	dev := d.mounts()
	fd, err := d.openAs(path, dev, &who.fs, unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrPermission) {
		return nil, where, who.fs.denied(where, err)
	}
	if err != nil {
		return nil, where, reason.New(reason.NoFile, fmt.Errorf("opening %s: %w", where, err))
	}
	l, err := d.regularFile(fd, dev, where)
	if err != nil {
		return nil, where, err
	}
	l.as = &who.fs
	switch {
	case l.stat.Uid != 0 && l.stat.Uid != who.fs.uid:
		return nil, where, reason.New(reason.NotTrusted, errors.Join(fmt.Errorf("opening %s: %w", where, errOwner), l.close()))
	case l.stat.Nlink > 1:
		return nil, where, reason.New(reason.NotTrusted, errors.Join(fmt.Errorf("opening %s: %w", where, errLinked), l.close()))
	case older(&l.stat, id.StartTicks):
		err = fmt.Errorf("%w: %w", unix.ENOENT, errStale)
	}
	if err != nil {
		return nil, where, reason.New(reason.NoFile, errors.Join(fmt.Errorf("opening %s: %w", where, err), l.close()))
	}
	return l, where, nil
}

// mounts returns what stands for the device of a file that was not found yet: the mount namespace that it is searched in. It has a number
// that no device has.
func (d *procDir) mounts() uint64 {
	var stat unix.Stat_t
	if unix.Fstatat(d.shown(), "ns/mnt", &stat, 0) != nil {
		return proc.Device(0, 1<<31|uint64(d.pid))
	}
	return proc.Device(0, stat.Ino&0xffffffff)
}

// openAs opens a file in the process's root with credentials. A file system on the path may not answer: dev stands for those.
func (d *procDir) openAs(path string, dev uint64, as *fsUser, flags uint64) (int, error) {
	fd, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd) //nolint:errcheck // an O_PATH descriptor
	return askOf(d.files, fd, dev, func(own int) (int, error) { return as.openBelow(own, path, flags) }, closeLate)
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

// inside is the identity of a process in its own namespaces.
type inside struct {
	pid uint32 // in its own namespace of pids
	fs  fsUser // as in the user namespace of this process
}

// self reads Uid, Gid, Groups and NSpid of /proc/PID/status, which the main thread shows also when it has exited; those of another thread are
// not the process's.
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

// parseStatus parses the credentials for files and the innermost pid; kernels without pid namespaces show none, and it is pid then.
func parseStatus(text []byte, pid uint32) (inside, error) {
	who := inside{pid: pid, fs: fsUser{uid: overflowID, gid: overflowID}}
	user, group := false, false
	for line := range bytes.Lines(text) {
		name, content, _ := bytes.Cut(line, []byte(":"))
		key := string(name)
		if key != "Uid" && key != "Gid" && key != "Groups" && key != "NSpid" {
			continue
		}
		fields := strings.Fields(string(content))
		var err error
		switch {
		case key == "Uid" && len(fields) == idFields:
			who.fs.uid, err = parseID(fields[idFields-1])
			user = true
		case key == "Gid" && len(fields) == idFields:
			who.fs.gid, err = parseID(fields[idFields-1])
			group = true
		case key == "Groups":
			who.fs.groups, err = parseIDs(fields)
		case key == "NSpid" && len(fields) > 0:
			who.pid, err = parseID(fields[len(fields)-1])
		}
		if err != nil {
			return who, fmt.Errorf("line %s: %w", key, err)
		}
	}
	if !user || !group {
		return who, errors.New("no line Uid or Gid")
	}
	return who, nil
}

// idFields is the number of ids in the lines Uid and Gid: real, effective, saved and for files.
const idFields = 4

func parseID(field string) (uint32, error) {
	id, err := strconv.ParseUint(field, 10, 32)
	return uint32(id), err
}

func parseIDs(fields []string) (ids []uint32, err error) {
	for _, field := range fields {
		id, err := parseID(field)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
