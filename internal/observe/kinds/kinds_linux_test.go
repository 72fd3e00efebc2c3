// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kinds

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// TestDescriptors checks that kinds have names and bits of their own, that the bits are below those of tasks, and that each default is valid,
// runs where all signals are taken and can be started.
func TestDescriptors(t *testing.T) {
	names, bits := map[observe.Kind]bool{}, lifecycle.ScopeNone
	for _, d := range All() {
		require.False(t, names[d.Name], d.Name)
		names[d.Name] = true
		scope := lifecycle.Scope(d.Scope)
		require.NotZero(t, scope, d.Name)
		require.Zero(t, scope&(scope-1), "%s: one bit", d.Name)
		require.Less(t, scope, lifecycle.ScopeTask, d.Name)
		require.Zero(t, bits&scope, "%s: its bit is that of another kind", d.Name)
		bits |= scope
		require.Equal(t, d, Named(d.Name))
	}
	require.Nil(t, Named("absent"))
	for _, d := range Configurable() {
		options := d.Default()
		for _, err := range options.Validate("observe::"+string(d.Name), observe.Limits{MemoryMiB: 256}) {
			require.NoError(t, err)
		}
		plan := options.Plan(observe.Signals{Profiles: true, Metrics: true, Logs: true, Traces: true})
		require.NotNil(t, plan, d.Name)
		require.Equal(t, d, Of(plan))
		require.Implements(t, (*observe.Starter)(nil), plan)
		require.NotEmpty(t, d.Pipelines, d.Name)
		if plan := options.Plan(observe.Signals{}); plan != nil {
			t.Errorf("%s runs though no pipeline takes anything", d.Name)
		}
	}
}

// TestScopeBits checks that the bits are those of the BPF programs.
func TestScopeBits(t *testing.T) {
	for name, want := range map[observe.Kind]lifecycle.Scope{
		oncpu.Name: lifecycle.ScopeOnCPU, offcpu.Name: lifecycle.ScopeOffCPU, memory.Name: lifecycle.ScopeMemory,
		network.Name: lifecycle.ScopeNetwork, network.MonitorsName: lifecycle.ScopeMonitors,
	} {
		require.EqualValues(t, want, Named(name).Scope, name)
	}
}

// TestKindsAreDocumented checks that the reference of the configuration has each kind.
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/configuration.md")
	require.NoError(t, err)
	for _, d := range Configurable() {
		require.Contains(t, string(text), "`"+string(d.Name)+"`")
	}
}
