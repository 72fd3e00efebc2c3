// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"io/fs"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTracepoints checks that a program runs at each call of a system call while it is attached, whether tracefs is mounted or not.
func TestTracepoints(t *testing.T) {
	needRoot(t)
	for name, sysRoot := range map[string]string{"mounted, if it is": "/sys", "not mounted": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			stats, err := EnableRunStats()
			require.NoError(t, err)
			defer func() { require.NoError(t, stats.Close()) }()
			tracepoints, err := OpenTracepoints(sysRoot)
			require.NoError(t, err)
			defer func() { require.NoError(t, tracepoints.Close()) }()
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
				Type: ebpf.TracePoint, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
			})
			require.NoError(t, err)
			defer program.Close()

			_, err = tracepoints.Attach(program, "syscalls", "sys_enter_no_such_call")
			require.ErrorIs(t, err, fs.ErrNotExist)
			attached, err := tracepoints.Attach(program, "syscalls", "sys_enter_getpgid")
			require.NoError(t, err)
			const times = 100
			for range times {
				_, err := unix.Getpgid(0)
				require.NoError(t, err)
			}
			require.NoError(t, attached.Close())
			cost, err := Cost(program)
			require.NoError(t, err)
			require.GreaterOrEqual(t, cost.Runs, uint64(times))
			_, err = unix.Getpgid(0)
			require.NoError(t, err)
			after, err := Cost(program)
			require.NoError(t, err)
			require.Equal(t, cost.Runs, after.Runs, "detached")
		})
	}
}

// TestKernelTypes looks up a type that every supported kernel has, and one that none has.
func TestKernelTypes(t *testing.T) {
	loader := NewLoader()
	for name, want := range map[string]bool{"inet_sendmsg": true, "no_such_function": false} {
		has, err := loader.HasFunction(name)
		require.NoError(t, err)
		require.Equal(t, want, has, name)
	}
	for name, want := range map[string]int{"sched_process_fork": 2, "inet_sock_set_state": 3, "no_such_tracepoint": 0} {
		n, err := loader.TracepointArguments(name)
		require.NoError(t, err)
		require.Equal(t, want, n, name)
	}
	values, err := loader.EnumValues("tcp_ca_state")
	require.NoError(t, err)
	require.EqualValues(t, 4, values["TCP_CA_Loss"])
	values, err = loader.EnumValues("no_such_enum")
	require.NoError(t, err)
	require.Empty(t, values)
}
