// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRefusal checks that a refused call is explained by what refuses it, and that RLIMIT_MEMLOCK is named only on kernels that charge maps
// to it.
func TestRefusal(t *testing.T) {
	const filtered, unfiltered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n", "Name:\tx\nSeccomp:\t0\n"
	for name, c := range map[string]struct {
		filter  error
		files   map[string]string
		memlock bool
		want    string
	}{
		"seccomp": {filter: unix.EPERM, files: map[string]string{"/proc/self/status": filtered}, memlock: true,
			want: "bpf(2) is refused before the kernel sees it (operation not permitted): by the seccomp filter of the container or the service"},
		"seccomp with ENOSYS": {filter: unix.ENOSYS, files: map[string]string{"/proc/self/status": filtered},
			want: "by the seccomp filter"},
		"sandbox": {filter: unix.ENOSYS, files: map[string]string{"/proc/self/status": unfiltered},
			want: "a sandbox such as gVisor stands before the kernel, or the kernel has no such call"},
		"user namespace": {files: map[string]string{"/proc/self/ns/user": "user:[4026532200]"},
			want: "the Collector runs in a user namespace"},
		"lockdown": {files: map[string]string{"/host/sys/kernel/security/lockdown": "none integrity [confidentiality]"},
			want: "the kernel is locked down (confidentiality"},
		"no lockdown": {files: map[string]string{"/host/sys/kernel/security/lockdown": "none [integrity] confidentiality"},
			want: "no seccomp filter, user namespace or lockdown was found"},
		"security module": {files: map[string]string{
			"/host/sys/kernel/security/lsm": "lockdown,capability,yama,selinux,bpf", "/proc/self/attr/current": "system_u:system_r:container_t:s0",
		}, want: `(active are selinux, bpf; the Collector runs as "system_u:system_r:container_t:s0")`},
		"memlock": {memlock: true, files: map[string]string{"/proc/self/ns/user": initialUserNamespace}, want: "RLIMIT_MEMLOCK"},
	} {
		t.Run(name, func(t *testing.T) {
			got := host{
				filtered: func() (string, error) { return "bpf(2)", c.filter }, read: func(path string) string { return c.files[path] },
				sysRoot: "/host/sys", chargesMemlock: func() bool { return c.memlock },
			}.refusal()
			require.Contains(t, got, c.want)
			if name != "memlock" {
				require.NotContains(t, got, "MEMLOCK")
			}
		})
	}
}

// TestRefusedMap checks that the library's guess at a low RLIMIT_MEMLOCK is removed if the reason was found.
func TestRefusedMap(t *testing.T) {
	err := refusedError{fmt.Errorf("map create: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", unix.EPERM)}
	require.EqualError(t, err, "map create: operation not permitted")
	require.ErrorIs(t, err, unix.EPERM)
}

// TestNothingIsFiltered checks that no filter is reported where the test itself may load programs.
func TestNothingIsFiltered(t *testing.T) {
	needRoot(t)
	require.NoError(t, Filtered("/sys"))
	require.False(t, lockedDown(readText, "/sys"), "the other tests load programs")
}
