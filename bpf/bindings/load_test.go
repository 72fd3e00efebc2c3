// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package bindings

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
)

// TestVerifier loads every object: it asks the running kernel's verifier.
func TestVerifier(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Logf("RLIMIT_MEMLOCK stays as it is: %v", err)
	}
	for _, room := range []string{"process", "usage", "oncpu", "offcpu", "memorymalloc"} {
		t.Run(room, func(t *testing.T) {
			spec := embedded(t, room)
			withoutWhatIsMissing(t, spec)
			if scope, ok := spec.Maps[ProcessMapScope]; ok {
				scope.MaxEntries = 64
			}
			if _, ok := spec.Maps[OnCPUMapStackTables]; ok { // of whatever object
				withStacks(t, spec)
				if room == "memorymalloc" { // which has nothing to do with the kernel
					require.NoError(t, spec.Variables[OnCPUVarKernelStacks].Set(false))
				}
			}
			coll, err := ebpf.NewCollection(spec)
			var refused *ebpf.VerifierError
			if errors.As(err, &refused) {
				t.Logf("%+v", refused) // its whole log
			}
			require.NoError(t, err)
			defer coll.Close()
			for name, program := range coll.Programs {
				info, err := program.Info()
				require.NoError(t, err)
				if n, ok := info.VerifiedInstructions(); ok {
					t.Logf("%s: the verifier looked at %d instructions", name, n)
				}
			}
		})
	}
}

// withStacks makes room for stacks, as the loader does.
func withStacks(t *testing.T, spec *ebpf.CollectionSpec) {
	t.Helper()
	var arena uint32
	require.NoError(t, spec.Variables[OnCPUVarArenaBytes].Get(&arena))
	spec.Maps[OnCPUMapStackTables].InnerMap.ValueSize += arena
}

// withoutWhatIsMissing takes out of the object what this kernel is known not to have, as the loader does.
func withoutWhatIsMissing(t *testing.T, spec *ebpf.CollectionSpec) {
	t.Helper()
	kernel, err := btf.LoadKernelSpec()
	require.NoError(t, err)
	var tracepoint *btf.Typedef
	if err := kernel.TypeByName("btf_trace_sched_exit_tp", &tracepoint); err != nil {
		require.ErrorIs(t, err, btf.ErrNotFound)
		delete(spec.Programs, OffCPUProgResumedAtExit)
	}
	storage, ok := spec.Maps[OffCPUMapOffcpuThreads]
	if !ok || features.HaveMapType(ebpf.TaskStorage) == nil {
		return
	}
	storage.Type, storage.Flags, storage.MaxEntries, storage.Key, storage.Value = ebpf.Array, 0, 1, nil, nil
	require.NoError(t, spec.Variables[OffCPUVarTaskStorage].Set(false))
}
