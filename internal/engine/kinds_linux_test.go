// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// lacking makes the kernel one on which off_cpu cannot run.
func lacking(t *testing.T, why error) {
	before := catalogue
	t.Cleanup(func() { catalogue = before })
	catalogue = slices.Clone(before)
	for i := range catalogue {
		if catalogue[i].kind == observe.OffCPU {
			catalogue[i].start = func(*Engine, Options, provision) (*running, error) { return nil, why }
		}
	}
}

// TestMissingKind holds that a kind that cannot run keeps no other from running, and is told with the reason.
func TestMissingKind(t *testing.T) {
	needRoot(t)
	lacking(t, unix.EMFILE)
	config := configuration(10*time.Millisecond, process.Selector{PID: uint32(os.Getpid())})
	config.OffCPU = &OffCPU{ReportInterval: time.Second, MaxDepth: 127, UserStacks: true}
	o := begin(t, config)
	stats := o.Stats()
	require.Equal(t, []string{"off_cpu"}, stats.Missing)
	require.Equal(t, "starting off_cpu: too many open files; raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)",
		stats.Degraded["off_cpu"])
	require.Zero(t, stats.Attached["off_cpu"])
	require.NotZero(t, stats.Attached["on_cpu"])
	require.Len(t, o.logs.FilterMessage("The receiver works with less").All(), 1)
}

// TestNothingRuns holds that the engine does not start where nothing that was asked for can run.
func TestNothingRuns(t *testing.T) {
	needRoot(t)
	why := errors.New("no hook")
	lacking(t, why)
	config := configuration(10 * time.Millisecond)
	config.OnCPU, config.OffCPU = nil, &OffCPU{ReportInterval: time.Second, MaxDepth: 127, UserStacks: true}
	_, err := Start(config, Hooks{}, zap.NewNop())
	require.ErrorIs(t, err, why)
	require.EqualError(t, err, "starting off_cpu: no hook")
}
