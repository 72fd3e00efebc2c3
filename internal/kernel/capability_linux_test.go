// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestEffectiveCapabilities(t *testing.T) {
	set, err := effectiveCapabilities("Name:\tcat\nUmask:\t0022\nCapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n" +
		"CapEff:\t000000c000000000\nCapBnd:\t000001ffffffffff\n")
	require.NoError(t, err)
	require.Equal(t, uint64(1<<unix.CAP_BPF|1<<unix.CAP_PERFMON), set)

	for text, want := range map[string]string{
		"":                                       "reading /proc/self/status: no line CapEff",
		"Name:\tCapEff:\n":                       "reading /proc/self/status: no line CapEff",
		"CapEff:\t\n":                            `reading CapEff of /proc/self/status: strconv.ParseUint: parsing "": invalid syntax`,
		"CapEff:\txyz\n":                         `reading CapEff of /proc/self/status: strconv.ParseUint: parsing "xyz": invalid syntax`,
		"CapEff:\t" + "1" + "0000000000000000\n": `reading CapEff of /proc/self/status: strconv.ParseUint: parsing "10000000000000000": value out of range`,
	} {
		_, err := effectiveCapabilities(text)
		require.EqualError(t, err, want, text)
	}
}

func TestCapabilityIn(t *testing.T) {
	require.True(t, CapBPF.in(1<<unix.CAP_BPF))
	require.True(t, CapBPF.in(1<<unix.CAP_SYS_ADMIN), "CAP_SYS_ADMIN includes it")
	require.False(t, CapBPF.in(1<<unix.CAP_PERFMON))
	require.False(t, CapSysPtrace.in(1<<unix.CAP_SYS_ADMIN))
	require.True(t, CapDACReadSearch.in(1<<unix.CAP_DAC_OVERRIDE))
	require.False(t, CapDACReadSearch.in(0))
}

func TestMissingCapabilityError(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	missing := &MissingCapabilityError{Missing: []Capability{CapBPF, CapPerfmon, CapSyslog}}
	require.EqualError(t, missing, "missing CAP_BPF (to load BPF programs and create their maps), "+
		"CAP_PERFMON (to attach to perf events and tracepoints and read stacks), "+
		"CAP_SYSLOG (to see the addresses of kernel functions, without which kernel frames have no names before Linux 5.16). "+
		"Run the Collector as root, or grant all that is of use: "+
		"setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_syslog,cap_checkpoint_restore,cap_net_admin+ep "+binary+"; "+
		"or with systemd AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG CAP_CHECKPOINT_RESTORE CAP_NET_ADMIN; "+
		"or in Kubernetes securityContext.capabilities.add: [BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH, SYSLOG, CHECKPOINT_RESTORE, NET_ADMIN]",
		"setcap and the other ways replace what was granted before: the error names the whole set")
	require.ErrorContains(t, &MissingCapabilityError{Missing: []Capability{CapSysAdmin}}, "cap_net_admin,cap_sys_admin+ep",
		"it is named only where it is missed")
}

// TestEveryCapabilityExplainsItself checks that each name is that of the number.
func TestEveryCapabilityExplainsItself(t *testing.T) {
	for bit, c := range map[uint]Capability{
		39: CapBPF, 38: CapPerfmon, 19: CapSysPtrace, 2: CapDACReadSearch, 34: CapSyslog, 40: CapCheckpointRestore,
		12: CapNetAdmin, 21: CapSysAdmin,
	} {
		require.Equal(t, bit, c.bit, c.Name)
		require.Regexp(t, `^CAP_[A-Z_]+$`, c.Name)
		require.Regexp(t, `^[a-z].*[^.]$`, c.Purpose, "it completes a sentence")
	}
}

func TestMissingCapabilities(t *testing.T) {
	missing, err := MissingCapabilities()
	require.NoError(t, err)
	require.Empty(t, missing)

	impossible := Capability{Name: "CAP_NONE", bit: 63}
	missing, err = MissingCapabilities(impossible)
	require.NoError(t, err)
	require.Equal(t, []Capability{impossible}, missing)
}
