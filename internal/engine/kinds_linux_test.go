// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// absentPlan is a plan of off_cpu on a kernel on which that kind cannot run.
type absentPlan struct {
	offcpu.Options
	why error
}

func (p *absentPlan) Start(observe.Environment) (observe.Started, error) {
	return observe.Started{}, p.why
}

// lacking returns a plan of off_cpu that cannot be started.
func lacking(why error) *absentPlan {
	return &absentPlan{why: why, Options: offcpu.Options{
		Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{MaxDepth: 127, UserStacks: true},
	}}
}

// TestMissingKind holds that a kind that cannot run does not prevent others from running, and is reported with the reason.
func TestMissingKind(t *testing.T) {
	needRoot(t)
	config := configuration(10*time.Millisecond, process.Selector{PID: uint32(os.Getpid())})
	config.Observe = append(config.Observe, lacking(unix.EMFILE))
	o := begin(t, config)
	stats := o.Stats()
	require.Equal(t, []string{"off_cpu"}, stats.Missing)
	require.Equal(t, "starting off_cpu: too many open files; raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)",
		stats.Degraded["off_cpu"])
	require.Zero(t, stats.Attached["off_cpu"])
	require.NotZero(t, stats.Attached["on_cpu"])
	require.Len(t, o.logs.FilterMessage("The receiver is degraded").All(), 1)
}

// TestNothingRuns holds that the engine does not start where nothing that was asked for can run.
func TestNothingRuns(t *testing.T) {
	needRoot(t)
	why := errors.New("no hook")
	config := configuration(10 * time.Millisecond)
	config.Observe = []observe.Plan{lacking(why)}
	_, err := Start(t.Context(), config, Hooks{}, zap.NewNop())
	require.ErrorIs(t, err, why)
	require.EqualError(t, err, "starting off_cpu: no hook")
}
