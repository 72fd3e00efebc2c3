// SPDX-License-Identifier: Apache-2.0

package process

import (
	"regexp"
	"slices"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// fieldSet is a set of conditions of a selector.
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

// Matcher is a compiled [Selector]. It is immutable.
type Matcher struct {
	fields                              fieldSet
	pid                                 uint32
	port                                uint16
	comm, cmdline, podUID, service, exe *regexp.Regexp
	containerID                         string
	set                                 map[string]string
}

// candidate is a process as a matcher compares it.
type candidate struct {
	process *model.Process
	// service is the name that is compared: for targets.include it cannot depend on the include's own set.
	service string
	// ports are the watched ports that the process listens on.
	ports []uint16
	// cmdline is made when the first matcher needs it.
	cmdline string
}

func (m *Matcher) match(s *candidate) bool {
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

func (s *candidate) commandLine() string {
	if s.cmdline == "" {
		s.cmdline = strings.Join(s.process.Arguments, " ")
	}
	return s.cmdline
}

// without returns a matcher that ignores some of its conditions.
func (m *Matcher) without(conditions fieldSet) *Matcher {
	if m.fields&conditions == 0 {
		return m
	}
	rest := *m
	if conditions&fieldExe != 0 {
		rest.exe = nil
	}
	if conditions&fieldCmdline != 0 {
		rest.cmdline = nil
	}
	if conditions&fieldPort != 0 {
		rest.port = 0
	}
	if conditions&fieldContainer != 0 {
		rest.containerID = ""
	}
	if conditions&fieldPod != 0 {
		rest.podUID = nil
	}
	if conditions&fieldService != 0 {
		rest.service = nil
	}
	return &rest
}
