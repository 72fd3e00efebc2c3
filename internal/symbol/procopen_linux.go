// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

var (
	errOtherFile  = errors.New("another file than the one that is mapped")
	errNotRegular = errors.New("not a regular file")
)

// located is a file that was found but not opened: the descriptor is O_PATH,
// so that no driver and no pipe notices.
type located struct {
	procfs
	fd   int
	stat unix.Stat_t
	path string
}

func (l *located) key() fileKey {
	return fileKey{dev: l.stat.Dev, ino: l.stat.Ino, size: l.stat.Size, mtime: l.stat.Mtim.Nano()} //nolint:unconvert // differs by architecture
}

func (l *located) close() error { return unix.Close(l.fd) }

// open opens the file for reading through its descriptor, hence the very file
// that was looked at.
func (l *located) open() (source, error) {
	fd, err := askOf(l.files, l.fd, l.stat.Dev, func(own int) (int, error) { //nolint:unconvert // differs by architecture
		return open(l.procfs.path("proc/self/fd", strconv.Itoa(own)), unix.O_RDONLY)
	}, closeLate)
	if err != nil {
		return nil, &reasonError{noFile, fmt.Errorf("opening %s: %w", l.path, err)}
	}
	return &file{fd: fd, dev: l.stat.Dev, files: l.files}, nil //nolint:unconvert // differs by architecture
}

func closeLate(fd int) { unix.Close(fd) } //nolint:errcheck // nobody is left to tell

// file is an open file that is only read at offsets.
type file struct {
	fd    int
	dev   uint64
	files *patience
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(buf []byte, off int64) (int, error) {
	if !mayHang(f.dev) {
		return readAt(f.fd, buf, off)
	}
	// Into memory of its own: what comes late must not be written over what buf is used for then.
	got, err := ask(f.files, f.dev, func() ([]byte, error) {
		own := make([]byte, len(buf))
		n, err := readAt(f.fd, own, off)
		if errors.Is(err, io.EOF) {
			return own[:n], nil
		}
		return own[:n], err
	}, nil)
	n := copy(buf, got)
	if err == nil && n < len(buf) {
		err = io.EOF
	}
	return n, err
}

func readAt(fd int, buf []byte, off int64) (int, error) {
	done := 0
	for done < len(buf) {
		n, err := pread(fd, buf[done:], off+int64(done))
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

// again opens the same file once more. No file system is asked for that.
func (f *file) again() (source, error) {
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &file{fd: fd, dev: f.dev, files: f.files}, nil
}

// Close implements io.Closer. A file system may have to be asked for that, too.
func (f *file) Close() error {
	return f.files.giveUp(f.dev, func() error { return unix.Close(f.fd) })
}

// locate finds the file of a mapping. The kernel's own link is sure but needs
// CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; without it there are the link to
// the executable and the path in the process's root, checked against the
// mapping.
func (d *procDir) locate(e *mapEntry) (candidate, error) {
	var l *located
	err := d.retry(func() (err error) {
		l, err = d.find(e)
		return err
	})
	if err != nil {
		return nil, err
	}
	// What is called so now may be removed later: then its name does not change.
	e.whole = e.whole || strings.HasSuffix(e.path, deletedSuffix) && d.isAt(l, e.path)
	return l, nil
}

// isAt tells whether a file has a path, as the process sees it.
func (d *procDir) isAt(l *located, path string) bool {
	root, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	fd, err := d.openPatiently(root, path)
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // an O_PATH descriptor
	stat, err := d.files.stat(fd, anyDevice)
	return err == nil && stat.Dev == l.stat.Dev && stat.Ino == l.stat.Ino
}

// find is locate without the file's name.
func (d *procDir) find(e *mapEntry) (*located, error) {
	where := fmt.Sprintf("%s of process %d", e.name(), d.pid)
	fd, errLink := openat(d.shown(), "map_files/"+strconv.FormatUint(e.start, 16)+"-"+strconv.FormatUint(e.end, 16), unix.O_PATH)
	if errLink == nil {
		return d.look(fd, e.dev, where)
	}
	tries := []func() (int, error){
		func() (int, error) { return openat(d.shown(), "exe", unix.O_PATH) },
		func() (int, error) { return d.openInRoot(e.path) },
		func() (int, error) { return d.openInRoot(e.name()) },
		func() (int, error) { return d.openInRoot(proc.Inside(d.shown(), e.name())) },
	}
	err := errLink
	for _, try := range tries {
		fd, errTry := try()
		if errTry != nil {
			err = errTry
			continue
		}
		l, errTry := d.look(fd, e.dev, where)
		if errTry == nil && l.matches(e) {
			return l, nil
		}
		if errTry == nil {
			errTry = errors.Join(errOtherFile, l.close())
		}
		err = errTry
	}
	why := noFile
	if !d.alive() {
		why, err = processExited, ErrProcessExited
	}
	var r *reasonError
	if errors.As(err, &r) {
		return nil, err
	}
	return nil, &reasonError{why, fmt.Errorf("opening %s: %w", where, err)}
}

// look takes over a descriptor of a file on a device and refuses what is no regular
// file.
func (d *procDir) look(fd int, dev uint64, where string) (*located, error) {
	l := &located{procfs: d.procfs, fd: fd, path: where}
	var err error
	l.stat, err = d.files.stat(fd, dev)
	if err == nil && l.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = &reasonError{notRegular, fmt.Errorf("opening %s: %w", where, errNotRegular)}
	} else if err != nil {
		err = &reasonError{noFile, fmt.Errorf("opening %s: %w", where, err)}
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return l, nil
}

// stat asks about an open file. It returns in time, whatever becomes of fd then.
func (p *patience) stat(fd int, dev uint64) (stat unix.Stat_t, err error) {
	if !mayHang(dev) {
		return stat, unix.Fstat(fd, &stat)
	}
	return askOf(p, fd, dev, func(own int) (unix.Stat_t, error) {
		var stat unix.Stat_t
		err := unix.Fstat(own, &stat)
		return stat, err
	}, nil)
}

// askOf makes a call about an open file, with a descriptor of the call's own: fd may
// be closed before there is an answer.
func askOf[T any](p *patience, fd int, dev uint64, call func(own int) (T, error), late func(T)) (T, error) {
	var none T
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	var taken atomic.Bool // by who closes it: the call, which may come late or never
	result, err := ask(p, dev, func() (T, error) {
		if !taken.CompareAndSwap(false, true) {
			return none, errNoAnswer
		}
		defer unix.Close(own) //nolint:errcheck // an O_PATH descriptor
		return call(own)
	}, late)
	if taken.CompareAndSwap(false, true) {
		unix.Close(own) //nolint:errcheck // an O_PATH descriptor
	}
	return result, err
}

// matches compares a file that was found by name with the mapping. The device
// is not compared: overlayfs and btrfs show different ones in maps and stat.
func (l *located) matches(e *mapEntry) bool {
	return l.stat.Ino == e.ino && uint64(max(l.stat.Size, 0)) > e.offset
}

// openInRoot opens a path as the process sees it; links cannot lead out of the
// process's root. The descriptor is O_PATH.
func (d *procDir) openInRoot(path string) (int, error) {
	root, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	return openBelow(root, path, 0)
}

// openBelow opens a path below a folder, which no link can lead out of.
func openBelow(root int, path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &how)
		if err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // errnos
			return fd, err
		}
	}
}

// filesToHold is how many files may be held open, by the limit of open files.
func filesToHold() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return maxOpenFiles
	}
	return int(max(min(limit.Cur/openShare, maxOpenFiles), 1))
}
