// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
)

// kernelThreadFlag is PF_KTHREAD of include/linux/sched.h.
const kernelThreadFlag = 0x00200000

// The fields of /proc/PID/stat that are read, counted from 1 as proc(5) does.
const (
	statState      = 3
	statParent     = 4
	statFlags      = 9
	statThreads    = 20
	statStart      = 22
	statMemory     = 23
	statStartCode  = 26
	statEndCode    = 27
	statStartStack = 28
)

// unescapeComm undoes what the kernel does to a comm in stat.
var unescapeComm = strings.NewReplacer(`\\`, `\`, `\n`, "\n")

var errStat = errors.New("not a stat line of proc(5)")

// stat is what is used of /proc/PID/stat.
type stat struct {
	// comm is as the kernel wrote it: newlines and backslashes escaped. It
	// lies in the buffer that was parsed.
	comm       []byte
	state      byte
	kernel     bool
	parent     uint64 // pid
	threads    uint64
	startTicks uint64
	// image differs from one exec to the next if the reader may see addresses of the process; otherwise it is a constant. It is 0 if there is
	// no program: of a kernel thread, and in the middle of an exec.
	image uint64
	// laidOut: the process has a program or hides it.
	laidOut bool
	// memory: there is an address space to show.
	memory bool
}

// parseStat parses /proc/PID/stat. The comm may hold blanks and brackets, so
// it ends at the last closing bracket of the line.
func parseStat(line []byte) (stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return stat{}, errStat
	}
	s := stat{comm: line[open+1 : end]}
	rest := bytes.TrimSpace(line[end+1:])
	for field := statState; field <= statStartStack; field++ {
		word, tail, _ := bytes.Cut(rest, []byte{' '})
		if len(word) == 0 {
			return stat{}, fmt.Errorf("field %d is missing: %w", field, errStat)
		}
		if err := s.set(field, word); err != nil {
			return stat{}, fmt.Errorf("field %d: %w", field, err)
		}
		rest = tail
	}
	return s, nil
}

func (s *stat) set(field int, word []byte) error {
	var n uint64
	switch field {
	case statState:
		s.state = word[0]
		return nil
	case statParent, statFlags, statThreads, statStart, statMemory, statStartCode, statEndCode, statStartStack:
		var ok bool
		if n, ok = decimal(word); !ok {
			return errStat
		}
	}
	switch field {
	case statParent:
		s.parent = n
	case statFlags:
		s.kernel = n&kernelThreadFlag != 0
	case statThreads:
		s.threads = n
	case statStart:
		s.startTicks = n
	case statMemory:
		s.memory = n != 0
	case statStartCode:
		s.image = n
	case statEndCode:
		s.laidOut = n != 0
		s.image = s.image*31 + n
	case statStartStack:
		// An exec gives the process its stack some time before its code.
		if s.image = s.image*31 + n; !s.laidOut {
			s.image = 0
		}
	}
	return nil
}

// dead reports whether no thread of the process runs any more. The group leader of a running process can be a zombie, too, when other threads
// outlived it.
func (s *stat) dead() bool {
	return s.state == 'X' || s.state == 'x' || s.state == 'Z' && s.threads <= 1
}

// executing reports whether an exec is in progress: the old program was replaced and the new one is not mapped yet. Arguments and environment
// are empty then.
func (s *stat) executing() bool { return s.image == 0 && !s.kernel && !s.hidden() }

// ended reports whether the main thread has released the resources of the process, while others run on.
func (s *stat) ended() bool { return !s.memory && !s.kernel && s.threads > 1 }

// hidden reports whether the main thread has exited and no other thread was found that shows the process: its program is unknown.
func (s *stat) hidden() bool { return s.image == 0 && (s.state == 'Z' || s.ended()) }

// name is the unescaped comm. The current work of a kernel worker is cut off (kworker/0:1-events).
func (s *stat) name() string {
	return cleanText(unescapeComm.Replace(string(s.stable())))
}

// stable is the part of the comm that does not change by itself.
func (s *stat) stable() []byte {
	worker, ok := bytes.CutPrefix(s.comm, []byte("kworker/"))
	if !s.kernel || !ok || len(worker) == 0 || worker[0] != 'u' && (worker[0] < '0' || worker[0] > '9') {
		return s.comm
	}
	if i := bytes.IndexAny(worker, "+-"); i >= 0 {
		return s.comm[:len(s.comm)-len(worker)+i]
	}
	return s.comm
}

// decimal parses an unsigned decimal number without allocating.
func decimal(word []byte) (uint64, bool) {
	var n uint64
	for _, c := range word {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(word) > 0
}
