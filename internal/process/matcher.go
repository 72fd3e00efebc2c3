// SPDX-License-Identifier: Apache-2.0

package process

import (
	"regexp"
	"slices"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// fieldSet says which conditions a selector has.
type fieldSet uint8

const (
	fieldPID fieldSet = 1 << iota
	fieldComm
	fieldExe
	fieldCmdline
	fieldPort
	fieldContainer
	fieldPod
	fieldService
)

// inStat are the conditions for which /proc/PID/stat is enough.
const inStat = fieldPID | fieldComm

// Matcher is a [Selector] that is fit to match. It is immutable.
type Matcher struct {
	fields                              fieldSet
	pid                                 uint32
	port                                uint16
	comm, cmdline, podUID, service, exe *regexp.Regexp
	containerID                         string
	set                                 map[string]string
}

// subject is a process as a matcher looks at it.
type subject struct {
	process *model.Process
	// service is the name that is compared: for targets.include it cannot
	// depend on the include's own set.
	service string
	// ports are those of the watched ports that the process listens on.
	ports []uint16
	// cmdline is made when the first matcher asks for it.
	cmdline string
}

func (m *Matcher) match(s *subject) bool {
	p := s.process
	switch {
	case m.pid != 0 && m.pid != p.ID.PID,
		m.containerID != "" && !strings.HasPrefix(p.ContainerID, m.containerID),
		m.port != 0 && !slices.Contains(s.ports, m.port),
		m.comm != nil && !m.comm.MatchString(p.Comm),
		m.podUID != nil && (p.PodUID == "" || !m.podUID.MatchString(p.PodUID)),
		m.service != nil && !m.service.MatchString(s.service),
		m.exe != nil && !m.exe.MatchString(p.Executable),
		m.cmdline != nil && !m.cmdline.MatchString(s.commandLine()):
		return false
	}
	return true
}

func (s *subject) commandLine() string {
	if s.cmdline == "" {
		s.cmdline = strings.Join(s.process.Arguments, " ")
	}
	return s.cmdline
}
