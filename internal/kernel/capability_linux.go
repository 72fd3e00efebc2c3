// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is a Linux capability and what the receiver needs it for.
type Capability struct {
	// Name is as in capabilities(7), such as CAP_BPF.
	Name string
	// Purpose completes the sentence "it is needed to …".
	Purpose string
	bit     uint
	// implied lists capabilities that include this one.
	implied []uint
}

// Capabilities that the receiver uses.
var (
	CapBPF = Capability{
		Name: "CAP_BPF", Purpose: "load BPF programs and create their maps",
		bit: unix.CAP_BPF, implied: []uint{unix.CAP_SYS_ADMIN},
	}
	CapPerfmon = Capability{
		Name: "CAP_PERFMON", Purpose: "attach to perf events and tracepoints and read stacks",
		bit: unix.CAP_PERFMON, implied: []uint{unix.CAP_SYS_ADMIN},
	}
	CapSysPtrace = Capability{
		Name: "CAP_SYS_PTRACE", Purpose: "read the mappings, environment and executables of other users' processes, " +
			"without which their requests through TLS are not reported and their functions have no names, " +
			"and find these at all where /proc is mounted with hidepid",
		bit: unix.CAP_SYS_PTRACE,
	}
	CapDACReadSearch = Capability{
		Name: "CAP_DAC_READ_SEARCH", Purpose: "read binaries that only their owner may read",
		bit: unix.CAP_DAC_READ_SEARCH, implied: []uint{unix.CAP_DAC_OVERRIDE},
	}
	CapSyslog = Capability{
		Name: "CAP_SYSLOG", Purpose: "see the addresses of kernel functions, without which kernel frames have no names before Linux 5.16",
		bit: unix.CAP_SYSLOG,
	}
	CapCheckpointRestore = Capability{
		Name: "CAP_CHECKPOINT_RESTORE", Purpose: "read deleted and replaced binaries through /proc/PID/map_files",
		bit: unix.CAP_CHECKPOINT_RESTORE, implied: []uint{unix.CAP_SYS_ADMIN},
	}
	CapNetAdmin = Capability{
		Name: "CAP_NET_ADMIN", Purpose: "ask the kernel's connection tracking who is behind a translated address",
		bit: unix.CAP_NET_ADMIN,
	}
	CapSysAdmin = Capability{
		Name: "CAP_SYS_ADMIN", Purpose: "enter the network namespaces of containers",
		bit: unix.CAP_SYS_ADMIN,
	}
)

// useful are all capabilities that the receiver uses, except CAP_SYS_ADMIN: what it alone allows here is not worth its other rights, so that
// errors name it only if it is missing.
var useful = []Capability{CapBPF, CapPerfmon, CapSysPtrace, CapDACReadSearch, CapSyslog, CapCheckpointRestore, CapNetAdmin}

// MissingCapabilityError names the capabilities that the process lacks.
type MissingCapabilityError struct {
	Missing []Capability
}

// Error names each missing capability, its purpose and how to grant it.
func (e *MissingCapabilityError) Error() string {
	var why, names []string
	for _, c := range e.Missing {
		why = append(why, c.Name+" (to "+c.Purpose+")")
	}
	// Errors list all of them: each of these ways replaces what was granted before.
	for _, c := range append(slices.Clone(useful), e.Missing...) {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	binary, err := os.Executable()
	if err != nil {
		binary = "the Collector's binary"
	}
	lower := strings.ToLower(strings.Join(names, ","))
	return fmt.Sprintf("missing %s. Run the Collector as root, or grant all that is of use: "+
		"setcap %s+ep %s; or with systemd AmbientCapabilities=%s; "+
		"or in Kubernetes securityContext.capabilities.add: [%s]",
		strings.Join(why, ", "), lower, binary, strings.Join(names, " "),
		strings.ReplaceAll(strings.Join(names, ", "), "CAP_", ""))
}

// MissingCapabilities returns those of wanted that the process does not have in
// its effective set.
func MissingCapabilities(wanted ...Capability) ([]Capability, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("reading the process's capabilities: %w", err)
	}
	effective, err := effectiveCapabilities(string(status))
	if err != nil {
		return nil, err
	}
	var missing []Capability
	for _, c := range wanted {
		if !c.in(effective) {
			missing = append(missing, c)
		}
	}
	return missing, nil
}

func (c Capability) in(set uint64) bool {
	if set&(1<<c.bit) != 0 {
		return true
	}
	for _, bit := range c.implied {
		if set&(1<<bit) != 0 {
			return true
		}
	}
	return false
}

// effectiveCapabilities reads the line CapEff of proc_pid_status(5).
func effectiveCapabilities(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		value, found := strings.CutPrefix(line, "CapEff:")
		if !found {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("reading CapEff of /proc/self/status: %w", err)
		}
		return set, nil
	}
	return 0, fmt.Errorf("reading /proc/self/status: no line CapEff")
}
