// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MapArray maps the first size bytes of an array (BPF_F_MMAPABLE) that the kernel and user space write; it returns whole pages. unix.Munmap
// unmaps it.
func MapArray(m *ebpf.Map, size int) ([]byte, error) {
	page := os.Getpagesize()
	return unix.Mmap(m.FD(), 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
