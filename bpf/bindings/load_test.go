// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package bindings

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
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
	for _, room := range []string{"process", "oncpu"} {
		t.Run(room, func(t *testing.T) {
			spec := embedded(t, room)
			spec.Maps[ProcessMapScope].MaxEntries = 64
			if tables, ok := spec.Maps[OnCPUMapStackTables]; ok {
				var arena uint32
				require.NoError(t, spec.Variables[OnCPUVarArenaBytes].Get(&arena))
				tables.InnerMap.ValueSize += arena
			}
			coll, err := ebpf.NewCollection(spec)
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
