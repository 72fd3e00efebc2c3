// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// maxFile is how much is read of one file of a process: what a 128 KiB
// argument of execve(2) can hold at most.
const maxFile = 128 << 10

// readTries is how often a process is read that changes meanwhile.
const readTries = 3

// errUnsteady: a process runs, but threads of it exited while it was read.
var errUnsteady = errors.New("its threads end while they are read")

// listBatch is how many directory entries are asked for at a time.
const listBatch = 1024

// ErrGone: a process has exited, or its pid belongs to another one. It is no cause for alarm.
var ErrGone = errors.New("the process has exited")

var buffers = sync.Pool{New: func() any { b := make([]byte, maxFile); return &b }}

// procFS reads below one mount of proc(5).
type procFS struct {
	root   string
	errors *readErrors
	denied *[]denial // see holding
}

// reading is what was read of one process.
type reading struct {
	startTicks       uint64
	image            uint64
	comm             string
	kernel           bool
	executing        bool
	hidden           bool
	executable       string
	arguments        []string
	environment      environment
	container, pod   string
	family           model.ProcessID
	networkNamespace uint64
	// denied are the files that may not be read.
	denied []denial
	// environmentUnknown: the process exited before its environment was read, and its exec event has not all of it.
	environmentUnknown bool
}

func (p procFS) path(pid uint32) string { return p.root + "/" + strconv.FormatUint(uint64(pid), 10) }

// pids calls a function with each process id there is.
func (p procFS) pids(each func(pid uint32) error) error {
	return eachName(p.root, func(name string) error {
		pid, ok := decimal([]byte(name))
		if !ok || pid == 0 || pid > 1<<31 {
			return nil
		}
		return each(uint32(pid))
	})
}

// eachName calls a function with the names in a directory, which are never
// held all at once.
func eachName(path string, each func(name string) error) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // opened for reading: nothing can be lost
	for {
		names, err := d.Readdirnames(listBatch)
		for _, name := range names {
			if err := each(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// open opens the directory of a process.
func (p procFS) open(pid uint32) (directory, error) {
	dir, err := openDirectory(p.path(pid))
	if err != nil {
		return 0, p.failed(pid, "", err)
	}
	return dir, nil
}

// stat reads and parses a stat file; the result lies in the buffer. Processes without a running thread are [ErrGone]. What the main thread
// does not show any more is read from another one.
func (p procFS) stat(dir directory, pid uint32, name string, buf []byte) (stat, error) {
	s, err := p.parse(dir, pid, name, buf)
	if err != nil {
		return stat{}, err
	}
	if s.dead() {
		return stat{}, fmt.Errorf("reading %s/stat: %w", p.path(pid), ErrGone)
	}
	if s.ended() {
		p.imageOfThread(&s, pid)
	}
	return s, nil
}

// parse reads a stat file of one thread.
func (p procFS) parse(dir directory, pid uint32, name string, buf []byte) (stat, error) {
	n, _, err := dir.read(name, buf)
	if err != nil {
		return stat{}, p.failed(pid, "stat", err)
	}
	s, err := parseStat(buf[:n])
	if err != nil {
		err = fmt.Errorf("reading %s/stat: %w", p.path(pid), err)
		p.note("stat", reasonMalformed, err)
		return stat{}, err
	}
	return s, nil
}

// imageOfThread takes the image of a process from another thread than its main one, if a thread shows it.
func (p procFS) imageOfThread(s *stat, pid uint32) {
	dir, id, err := p.shown(pid)
	if err != nil {
		return
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	if id == pid {
		return
	}
	var buf [1024]byte
	if n, _, err := dir.read("stat", buf[:]); err == nil {
		if thread, err := parseStat(buf[:n]); err == nil {
			s.image, s.laidOut = thread.image, thread.laidOut
		}
	}
}

// shown opens the directory that shows a process, see [proc.Open]; id is its name.
func (p procFS) shown(pid uint32) (dir directory, id uint32, err error) {
	fd, id, err := proc.Open(p.root, pid)
	return directory(fd), id, err
}

// shownAs is the name of the directory that shows the process.
func (p procFS) shownAs(pid uint32) uint32 {
	dir, id, err := p.shown(pid)
	if err != nil {
		return pid
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	return id
}

// read reads all that is needed of a process. Files that cannot be read for want of privileges leave their part empty and are counted.
func (p procFS) read(pid uint32, netns bool) (*reading, error) {
	dir, err := p.open(pid)
	if err != nil {
		return nil, err
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	var r *reading
	// An exec while the files are read would mix two programs: read again, as when the thread that shows them exits. If a process runs one
	// program after the other, the result is undetermined.
	for range readTries {
		var steady bool
		r, steady, err = p.readOnce(dir, pid, netns, *buffer)
		switch {
		case errors.Is(err, ErrGone) && !p.over(pid):
			err = fmt.Errorf("reading %s: %w", p.path(pid), errUnsteady)
		case err != nil:
			return nil, err
		case steady:
			return r, nil
		}
	}
	if err != nil {
		return nil, err
	}
	r.executing = !r.hidden
	return r, nil
}

// readOnce reads a process, and reports whether it ran the same program in the same place all the time.
func (p procFS) readOnce(main directory, pid uint32, netns bool, buf []byte) (r *reading, steady bool, err error) {
	s, err := p.stat(main, pid, "stat", buf)
	if err != nil {
		return nil, false, err
	}
	r = &reading{startTicks: s.startTicks, image: s.image, comm: s.name(), kernel: s.kernel, executing: s.executing(), hidden: s.hidden()}
	if s.kernel {
		return r, true, nil
	}
	p = p.holding(&r.denied)
	dir := main
	if s.ended() && !s.hidden() {
		if dir, _, err = p.shown(pid); err != nil {
			return nil, false, p.failed(pid, "", err)
		}
		defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	}
	if err := p.files(dir, pid, r, s.parent, netns, buf); err != nil {
		return nil, false, err
	}
	now, err := p.parse(dir, pid, "stat", buf)
	if err == nil && now.dead() {
		err = fmt.Errorf("reading %s/stat: %w", p.path(pid), ErrGone)
	}
	return r, now.image == r.image, err
}

// files reads the files of a process, from the directory that shows it.
func (p procFS) files(dir directory, pid uint32, r *reading, parent uint64, netns bool, buf []byte) error {
	// A process whose threads show nothing has no executable to show.
	exe, err := dir.readLink("exe", buf[:maxPath])
	if err = p.tolerate(pid, "exe", err); err != nil {
		return err
	}
	shown := string(exe)
	r.executable = cleanText(executable(dir, proc.Inside(int(dir), shown)))
	err = p.file(dir, pid, "cmdline", buf, func(data []byte, _ bool) { r.arguments = parseArguments(data) })
	if err != nil {
		return err
	}
	if r.environment, err = p.environment(dir, pid, buf); err != nil {
		return err
	}
	err = p.file(dir, pid, "cgroup", buf, func(data []byte, _ bool) {
		container, pod := parseCgroup(string(data))
		r.container, r.pod = strings.Clone(container), strings.Clone(pod) // without the rest of the file
	})
	if err != nil {
		return err
	}
	if r.container == "" && r.environment.serviceInstance == "" {
		r.family = p.family(model.ProcessID{PID: pid, StartTicks: r.startTicks}, parent, shown, buf)
	}
	if netns {
		r.networkNamespace, err = p.networkNamespace(dir, pid, buf)
	}
	return err
}

// executable is the path of a process's exe as the process sees it, without the suffix that the kernel adds when the file was removed or
// replaced. A file's name may end with it, too.
func executable(dir directory, shown string) string {
	path, removed := strings.CutSuffix(shown, " (deleted)")
	if removed && dir.inRoot("exe", shown) {
		return shown
	}
	return path
}

// file passes one file to its parser.
func (p procFS) file(dir directory, pid uint32, name string, buf []byte, parse func(data []byte, whole bool)) error {
	n, whole, err := dir.read(name, buf)
	if err != nil {
		return p.tolerate(pid, name, err)
	}
	if !whole {
		p.cutShort(pid, name, fmt.Errorf("it has more than %d bytes", len(buf)))
	}
	parse(buf[:n], whole)
	return nil
}

// environment reads the environment, in parts if it is longer than the buffer, as with the names of all services of a large Kubernetes
// namespace.
func (p procFS) environment(dir directory, pid uint32, buf []byte) (environment, error) {
	const name = "environ"
	var v variables
	whole, err := dir.readParts(name, buf, maxEnvironment, func(part []byte, last bool) (kept int, enough bool) {
		if kept = v.take(part, last); kept == len(buf) {
			v.leave()
			kept = 0
		}
		return kept, v.complete()
	})
	if err != nil {
		return environment{}, p.tolerate(pid, name, err)
	}
	if !whole {
		p.cutShort(pid, name, fmt.Errorf("it has more than %d bytes", maxEnvironment))
	}
	return v.environment(), nil
}

// networkNamespace is the inode of the process's network namespace, or 0 if it may not be read.
func (p procFS) networkNamespace(dir directory, pid uint32, buf []byte) (uint64, error) {
	link, err := dir.readLink("ns/net", buf)
	if err != nil {
		return 0, p.tolerate(pid, "ns/net", err)
	}
	return inodeOf(link, "net:["), nil
}

// namespaceOf is the inode of the network namespace of a process that is not open; 0 also when it has exited.
func (p procFS) namespaceOf(pid uint32, buf []byte) uint64 {
	dir, _, err := p.shown(pid)
	if err != nil {
		return 0
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	inode, err := p.networkNamespace(dir, pid, buf)
	if err != nil {
		return 0
	}
	return inode
}

// inodeOf parses a link target such as net:[4026531840]; 0 if it is none.
func inodeOf(link []byte, prefix string) uint64 {
	number, ok := bytes.CutPrefix(link, []byte(prefix))
	if !ok {
		return 0
	}
	number, ok = bytes.CutSuffix(number, []byte("]"))
	inode, valid := decimal(number)
	if !ok || !valid {
		return 0
	}
	return inode
}

// tolerate records errors that leave a process partly readable, and returns the error if it has exited. The missing link exe of a main thread
// that exited is no error: its directory exists.
func (p procFS) tolerate(pid uint32, name string, err error) error {
	if err == nil || name == "exe" && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = p.failed(pid, name, err); errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

// over reports whether a process has exited, though it may not have been reaped.
func (p procFS) over(pid uint32) bool {
	text, err := os.ReadFile(p.path(pid) + "/stat")
	if err != nil {
		return true
	}
	s, err := parseStat(text)
	return err == nil && s.dead()
}

// cutShort counts and warns that only the first part of a file was read.
func (p procFS) cutShort(pid uint32, name string, why error) {
	p.note(name, reasonTooLarge, fmt.Errorf("reading %s/%s: %w; what is beyond is left out", p.path(pid), name, why))
}

// failed returns what could not be read, and records it unless the process has just exited.
func (p procFS) failed(pid uint32, name string, err error) error {
	reason := reasonIO
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("reading %s/%s: %w", p.path(pid), name, ErrGone)
	case errors.Is(err, fs.ErrPermission):
		// The files of a process disappear before the process does, and then look forbidden.
		if p.over(pid) {
			return fmt.Errorf("reading %s/%s: %w", p.path(pid), name, ErrGone)
		}
		reason = reasonPermission
	}
	err = fmt.Errorf("reading %s: %w", filepath.Join(p.path(pid), name), err)
	p.note(name, reason, err)
	return err
}
