// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// anyDevice stands for file systems that are not known before a path was followed; see mayHang.
const anyDevice = 0

// errWriter is the cause when the owner of a file may not name the binary.
var errWriter = errors.New("it is of another user than the process and the binary, or others may write to it")

// shared finds a file of the host by its absolute path that may serve all processes which run a binary: root owns it, in a folder that only
// root changes, or the user that owns the binary itself does.
func (p procfs) shared(as *fsUser, of origin, path string) (candidate, error) {
	root, err := open(p.root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	l, err := p.regular(root, path, path, as, as.openOnHost)
	if err != nil {
		return nil, err
	}
	mode, writer := l.stat.Mode, l.stat.Uid
	if of.known && !of.open && writer == of.writer && writer != 0 && mode&0o002 == 0 {
		return l, nil
	}
	if writer != 0 || mode&0o022 != 0 || !p.rootsAlone(l) {
		return nil, errors.Join(notOfTheWriter(path), l.close())
	}
	return l, nil
}

// own finds a file by its absolute path as a process sees it, which may serve the processes of its domain: root owns it, or the user of the
// process, or that of the binary.
func (p procfs) own(v *viewer, of origin, path string) (candidate, error) {
	if v.id.PID == 0 {
		return nil, ErrProcessExited
	}
	d, err := p.dir(v.id)
	if err != nil {
		return nil, err
	}
	defer d.close()
	who, err := d.identity()
	if err != nil {
		return nil, err
	}
	if who.domain != v.domain {
		return nil, fmt.Errorf("%s of process %d: %w", path, v.id.PID, ErrProcessExited) // it has another root or user now
	}
	root, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, d.failed("root", err)
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	where := fmt.Sprintf("%s of process %d", path, v.id.PID)
	l, err := p.regular(root, path, where, who.as, who.as.openBelow)
	if err != nil {
		return nil, err
	}
	writer := l.stat.Uid
	if writer != 0 && writer != v.domain.uid && (!of.known || writer != of.writer) || l.stat.Mode&0o002 != 0 {
		return nil, errors.Join(notOfTheWriter(where), l.close())
	}
	return l, nil
}

func notOfTheWriter(where string) error {
	return reason.New(reason.NotTrusted, fmt.Errorf("opening %s: %w", where, errWriter))
}

// regular finds a regular file below a folder; open opens it with the credentials of a user.
func (p procfs) regular(root int, path, where string, as *fsUser, open func(root int, path string, flags uint64) (int, error)) (*located, error) {
	fd, err := p.openPatiently(root, path, open)
	if err != nil {
		return nil, as.denied(where, err)
	}
	l, err := (&procDir{procfs: p, thread: -1}).regularFile(fd, anyDevice, where)
	if err != nil {
		return nil, err
	}
	l.as = as
	return l, nil
}

// rootsAlone reports whether only root can have put the file where it is: root owns all folders on the path, and only root may write to them
// or, in those with the sticky bit, rename root's files.
func (p procfs) rootsAlone(l *located) bool {
	alone, err := askOf(p.files, l.fd, l.stat.Dev, func(own int) (bool, error) { //nolint:unconvert // differs by architecture
		var buf [unix.PathMax]byte
		n, err := unix.Readlink(p.path("proc/self/fd", strconv.Itoa(own)), buf[:])
		if err != nil || n == len(buf) || buf[0] != '/' {
			return false, err
		}
		for folder := filepath.Dir(string(buf[:n])); ; folder = filepath.Dir(folder) {
			var stat unix.Stat_t
			if err := unix.Lstat(folder, &stat); err != nil {
				return false, err
			}
			if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Uid != 0 || stat.Mode&0o022 != 0 && stat.Mode&unix.S_ISVTX == 0 {
				return false, nil
			}
			if folder == "/" {
				return true, nil
			}
		}
	}, nil)
	return alone && err == nil
}

// openPatiently opens a path below a folder. It does not wait for a file system that does not answer.
func (p procfs) openPatiently(root int, path string, open func(root int, path string, flags uint64) (int, error)) (int, error) {
	return askOf(p.files, root, anyDevice, func(own int) (int, error) { return open(own, path, 0) }, closeLate)
}
