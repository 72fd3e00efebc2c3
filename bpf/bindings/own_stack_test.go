// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package bindings

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestStacksAreTheThreads holds that no program at a function of user space has a stack that belongs to its CPU, as kernels since 6.13 give
// one to programs that need 64 bytes: another thread may run the program there before the first one goes on.
func TestStacksAreTheThreads(t *testing.T) {
	guest.TakesLong(t)
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("it is known of x86-64 alone how code finds its CPU's stack")
	}
	if features.HaveMapType(ebpf.TaskStorage) != nil {
		t.Skip("the kernel is older than such stacks, and than maps of these objects")
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Logf("RLIMIT_MEMLOCK stays as it is: %v", err)
	}
	for _, room := range []string{"memorymalloc", "networkcapture"} {
		t.Run(room, func(t *testing.T) {
			spec := embedded(t, room)
			for name, program := range spec.Programs {
				if program.Type != ebpf.Kprobe {
					delete(spec.Programs, name)
				}
			}
			require.NotEmpty(t, spec.Programs)
			if room == "memorymalloc" {
				withStacks(t, spec)
			}
			coll, err := ebpf.NewCollection(spec)
			require.NoError(t, err)
			defer coll.Close()
			for name, program := range coll.Programs {
				info, err := program.Info()
				require.NoError(t, err)
				code, ok := info.JitedInsns()
				if !ok || len(code) == 0 {
					t.Skip("the kernel does not show the code")
				}
				require.False(t, bytes.Contains(code, perCPU), "%s", name)
			}
		})
	}
}

// perCPU adds to r9, in which the kernel's compiler keeps such a stack's address, where the CPU has its variables.
var perCPU = []byte{0x65, 0x4c, 0x03, 0x0c, 0x25} // add %gs:OFFSET,%r9
