// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MapArray maps the first size bytes of an array (BPF_F_MMAPABLE) that both sides write; what is returned is whole
// pages. unix.Munmap ends it.
func MapArray(m *ebpf.Map, size int) ([]byte, error) {
	page := os.Getpagesize()
	return unix.Mmap(m.FD(), 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
