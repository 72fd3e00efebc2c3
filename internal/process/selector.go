// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// The lengths of a container id in hexadecimal digits: the shortest prefix
// that a selector takes, and a full one.
const (
	minContainerDigits = 12
	containerDigits    = 64
)

// ErrNoCondition: a selector would match every process.
var ErrNoCondition = errors.New("no condition: at least one of pid, comm, exe, cmdline, port, container_id, pod_uid and service is needed")

// Selector is one element of targets.include or targets.exclude, see the
// configuration contract. All fields that are set must match; a zero field is
// not a condition.
type Selector struct {
	// PID is a pid in the host's pid namespace.
	PID uint32 `mapstructure:"pid"`
	// Comm is a pattern (RE2, unanchored) on /proc/PID/comm.
	Comm string `mapstructure:"comm"`
	// Exe is a glob on the full path of the executable as the process sees it.
	// * and ? do not match a slash, ** does; [a-z], [!a-z], {a,b} and \ are
	// special, too.
	Exe string `mapstructure:"exe"`
	// Cmdline is a pattern on the arguments joined by blanks. Of arguments that are longer than 4 KiB, the first and last 2 KiB are matched.
	Cmdline string `mapstructure:"cmdline"`
	// Port is a TCP or UDP port that the process listens on.
	Port uint16 `mapstructure:"port"`
	// ContainerID is the beginning of a container id: 12 to 64 hexadecimal
	// digits.
	ContainerID string `mapstructure:"container_id"`
	// PodUID is a pattern on the pod's UID.
	PodUID string `mapstructure:"pod_uid"`
	// Service is a pattern on the service.name.
	Service string `mapstructure:"service"`
	// Set has the resource attributes that a matching process gets. It is no condition.
	Set map[string]string `mapstructure:"set"`
}

// Compile checks the selector and makes a [Matcher]. The error joins one error for each bad field, which begins with the field's name in the
// configuration, such as "exe: ", and ErrNoCondition.
func (s Selector) Compile() (*Matcher, error) {
	m := &Matcher{pid: s.PID, port: s.Port, fields: s.fields(), set: maps.Clone(s.Set)}
	var errs []error
	pattern := func(field, text string) *regexp.Regexp {
		if text == "" {
			return nil
		}
		re, err := regexp.Compile(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: compiling the RE2 pattern: %w", field, err))
		}
		return re
	}
	m.comm = pattern("comm", s.Comm)
	m.cmdline = pattern("cmdline", s.Cmdline)
	m.podUID = pattern("pod_uid", s.PodUID)
	m.service = pattern("service", s.Service)
	var err error
	if s.Exe != "" {
		if m.exe, err = compileGlob(s.Exe); err != nil {
			errs = append(errs, fmt.Errorf("exe: %w", err))
		} else if !matchesPaths(m.exe) {
			errs = append(errs, fmt.Errorf("exe: the glob %q can match nothing: it is compared with the full path; "+
				"write /path/to/%s, or **/%s", s.Exe, s.Exe, s.Exe))
		} else if unclean(s.Exe) {
			errs = append(errs, fmt.Errorf("exe: the glob %q can match nothing: paths have no //, /./ or /../ in them, and no / at the end", s.Exe))
		}
	}
	if m.containerID, err = containerPrefix(s.ContainerID); err != nil {
		errs = append(errs, err)
	}
	if m.fields == 0 {
		errs = append(errs, ErrNoCondition)
	}
	if err := checkSet(s.Set); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}

// fields is the set of conditions.
func (s Selector) fields() fieldSet {
	var f fieldSet
	for field, set := range map[fieldSet]bool{
		fieldPID: s.PID != 0, fieldComm: s.Comm != "", fieldExe: s.Exe != "", fieldCmdline: s.Cmdline != "",
		fieldPort: s.Port != 0, fieldContainer: s.ContainerID != "", fieldPod: s.PodUID != "", fieldService: s.Service != "",
	} {
		if set {
			f |= field
		}
	}
	return f
}

func containerPrefix(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	lower := strings.ToLower(id)
	if len(lower) < minContainerDigits || len(lower) > containerDigits || !isHex(lower) {
		return "", fmt.Errorf("container_id: %q is not %d to %d hexadecimal digits", id, minContainerDigits, containerDigits)
	}
	return lower, nil
}

// identifying are attributes that identify a process.
var identifying = map[string]bool{
	"process.pid": true, "process.creation.time": true, "process.executable.path": true, "process.executable.name": true,
	"container.id": true, "k8s.pod.uid": true,
}

func checkSet(set map[string]string) error {
	for key, value := range set {
		if key == "" {
			return errors.New("set: the name of an attribute is empty")
		}
		if (key == attrServiceName || key == attrServiceInstance) && value == "" {
			return fmt.Errorf("set: %s is empty", key)
		}
		if identifying[key] {
			return fmt.Errorf("set: %s is what the receiver finds out itself: it cannot be set", key)
		}
	}
	return nil
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
