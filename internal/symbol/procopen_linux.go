// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/patience"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

var (
	errNotRegular = errors.New("not a regular file")
)

// located is a file that was found but not opened: the descriptor is O_PATH, so that no driver and no pipe is affected.
type located struct {
	procfs
	fd   int
	stat unix.Stat_t
	path string
	// as are the credentials that it is opened with; nil: those of this process, for a file that the process has mapped.
	as *fsUser
}

func (l *located) key() fileKey { return fileKeyOf(&l.stat) }

func fileKeyOf(s *unix.Stat_t) fileKey {
	return fileKey{dev: s.Dev, ino: s.Ino, size: s.Size, mtime: s.Mtim.Nano()} //nolint:unconvert // differs by architecture
}

func (l *located) close() error { return unix.Close(l.fd) }

func (l *located) descriptorPath() string { return l.procfs.path("proc/self/fd", strconv.Itoa(l.fd)) }

// open opens the file for reading through its descriptor, hence the very file that was examined.
func (l *located) open() (source, error) {
	fd, err := askOf(l.files, l.fd, l.stat.Dev, func(own int) (int, error) { //nolint:unconvert // differs by architecture
		if l.as != nil {
			return l.as.openFile(l.procfs, own, &l.stat)
		}
		return open(l.procfs.path("proc/self/fd", strconv.Itoa(own)), unix.O_RDONLY)
	}, closeLate)
	if err != nil && l.as != nil && errors.Is(err, fs.ErrPermission) {
		return nil, l.as.denied(l.path, err)
	}
	if err != nil {
		return nil, reason.New(reason.NoFile, fmt.Errorf("opening %s: %w", l.path, err))
	}
	return &file{fd: fd, dev: l.stat.Dev, files: l.files}, nil //nolint:unconvert // differs by architecture
}

func closeLate(fd int) { unix.Close(fd) } //nolint:errcheck // no caller is left to report an error to

// file is an open file that is only read at offsets.
type file struct {
	fd    int
	dev   uint64
	files *patience.Patience
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(buf []byte, off int64) (int, error) {
	if !patience.MayHang(f.dev) {
		return readAt(f.fd, buf, off)
	}
	// Into memory of its own: a late answer must not be written to buf, which is used for something else then.
	got, err := patience.Ask(f.files, f.dev, func() ([]byte, error) {
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

// Uncache drops a part of the file from the page cache; 0 bytes: to its end.
func (f *file) Uncache(off, n int64) {
	advise := func() (struct{}, error) { return struct{}{}, unix.Fadvise(f.fd, off, n, unix.FADV_DONTNEED) }
	patience.Ask(f.files, f.dev, advise, nil) //nolint:errcheck // an advice
}

// isCached reports whether any of a part of the file is in the page cache. It needs Linux 6.5: before, nothing is known to be cached.
func (f *file) isCached(off, n uint64) bool {
	cached, err := patience.Ask(f.files, f.dev, func() (uint64, error) {
		var stat unix.Cachestat_t
		err := unix.Cachestat(uint(f.fd), &unix.CachestatRange{Off: off, Len: n}, &stat, 0) //nolint:gosec // an open file
		return stat.Cache, err
	}, nil)
	return err == nil && cached > 0
}

// version is the key of the file as it is now.
func (f *file) version() (fileKey, error) {
	stat, err := fstat(f.files, f.fd, f.dev)
	return fileKeyOf(&stat), err
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
	return f.files.Close(f.dev, func() error { return unix.Close(f.fd) })
}

// locate finds the file of a mapping. The kernel's own link is reliable but needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; without it there
// are the link to the executable and the path in the process's root, checked against the mapping.
func (d *procDir) locate(e *mapEntry) (candidate, error) {
	var l *located
	err := d.retry(func() (err error) {
		l, err = d.find(e)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A file with that name now may be removed later: then its name does not change.
	e.whole = e.whole || strings.HasSuffix(e.path, deletedSuffix) && d.isAt(l, e.path)
	return l, nil
}

// isAt reports whether a file has a path, as the process sees it.
func (d *procDir) isAt(l *located, path string) bool {
	root, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	fd, err := d.openPatiently(root, path, openBelow)
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // an O_PATH descriptor
	stat, err := fstat(d.files, fd, anyDevice)
	return err == nil && stat.Dev == l.stat.Dev && stat.Ino == l.stat.Ino
}

// find is locate without the file's name.
func (d *procDir) find(e *mapEntry) (*located, error) {
	where := fmt.Sprintf("%s of process %d", e.name(), d.pid)
	fd, errLink := openat(d.shown(), "map_files/"+strconv.FormatUint(e.start, 16)+"-"+strconv.FormatUint(e.end, 16), unix.O_PATH)
	if errLink == nil {
		return d.regularFile(fd, e.dev, where)
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
		l, errTry := d.regularFile(fd, e.dev, where)
		if errTry == nil && l.matches(e) {
			return l, nil
		}
		if errTry == nil {
			errTry = errors.Join(errOtherFile, l.close())
		}
		err = errTry
	}
	why := reason.NoFile
	if !d.alive() {
		why, err = reason.ProcessExited, ErrProcessExited
	}
	var r *reason.Error
	if errors.As(err, &r) {
		return nil, err
	}
	return nil, reason.New(why, fmt.Errorf("opening %s: %w", where, err))
}

// regularFile takes over a descriptor of a file on a device and refuses anything but a regular file.
func (d *procDir) regularFile(fd int, dev uint64, where string) (*located, error) {
	l := &located{procfs: d.procfs, fd: fd, path: where}
	var err error
	l.stat, err = fstat(d.files, fd, dev)
	if err == nil && l.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = reason.New(reason.NotRegular, fmt.Errorf("opening %s: %w", where, errNotRegular))
	} else if err != nil {
		err = reason.New(reason.NoFile, fmt.Errorf("opening %s: %w", where, err))
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return l, nil
}

// fstat returns the status of an open file. It returns in time, whatever happens to fd then.
func fstat(p *patience.Patience, fd int, dev uint64) (stat unix.Stat_t, err error) {
	if !patience.MayHang(dev) {
		return stat, unix.Fstat(fd, &stat)
	}
	return askOf(p, fd, dev, func(own int) (unix.Stat_t, error) {
		var stat unix.Stat_t
		err := unix.Fstat(own, &stat)
		return stat, err
	}, nil)
}

// askOf makes a call about an open file, with a descriptor of the call's own: fd may be closed before there is an answer.
func askOf[T any](p *patience.Patience, fd int, dev uint64, call func(own int) (T, error), late func(T)) (T, error) {
	var none T
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	var taken atomic.Bool // by the one that closes it: the call, which may come late or never
	result, err := patience.Ask(p, dev, func() (T, error) {
		if !taken.CompareAndSwap(false, true) {
			return none, reason.ErrNoAnswer
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

// openInRoot opens a path as the process sees it and with its credentials: what lies there may be another file than the process has
// mapped, and the number of an inode is no proof. Links cannot lead out of the process's root. The descriptor is O_PATH. A file system on the path
// may not answer.
func (d *procDir) openInRoot(path string) (int, error) {
	who, err := d.self()
	if err != nil {
		return -1, err
	}
	return d.openAs(path, d.mounts(), &who.fs, 0)
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
