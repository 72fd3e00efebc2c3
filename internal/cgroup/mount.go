// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"slices"
	"strings"
)

// mount is a hierarchy of control groups that is mounted.
type mount struct {
	root, point string // which part of it, and where
	version2    bool
	controllers []string // of version 1
}

// parseMount reads a line of mountinfo (proc_pid_mountinfo(5)); false if something else is mounted.
func parseMount(line string) (mount, bool) {
	before, after, found := strings.Cut(line, " - ")
	place, kind := strings.Fields(before), strings.Fields(after)
	if !found || len(place) < 5 || len(kind) < 3 {
		return mount{}, false
	}
	m := mount{root: unescape(place[3]), point: unescape(place[4]), version2: kind[0] == "cgroup2"}
	if kind[0] == "cgroup" {
		m.controllers = strings.Split(kind[2], ",")
	}
	return m, m.version2 || m.controllers != nil
}

// has reports whether a mount is of a controller's hierarchy; "" is that of version 2.
func (m *mount) has(controller string) bool {
	if controller == "" {
		return m.version2
	}
	return !m.version2 && slices.Contains(m.controllers, controller)
}

// unescape replaces what mountinfo writes for bytes that separate its fields.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
