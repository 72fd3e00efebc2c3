// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestRefusedIsReported checks that an event reports a policy that has fired without effect, and why it has none.
func TestRefusedIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		runs int
		why  string
	}{
		"nothing to run": {0, "nothing to run, or no pipeline takes what is run"},
		"cannot start":   {2, "starting on_cpu: no room"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 1, nil, func(h *harness) {
				h.starter.answers(errors.New("no room"))
				r := asks(1, []string{"on_cpu", "off_cpu"}[:tc.runs]...)
				r.Causes = []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93.5}}
				require.True(t, AllRefused(h.Request(r)))
				require.Len(t, h.emitted, 1)
				require.Equal(t, processOf(1), h.emitted[0].Process)
				require.Equal(t, []model.Attribute{
					model.Text("ebpf.policy", "slow"), model.Text("ebpf.task.state", "refused"), model.Causes("ebpf.causes", r.Causes), model.Text("error.message", tc.why),
				}, h.emitted[0].Logs[0].Attributes)
				r.Reported = true
				h.Request(r)
				require.Len(t, h.emitted, 1, "once")
				h.Close()
				r.Reported = false
				require.Equal(t, tc.runs == 0, AllRefused(h.Request(r)), "who stops refuses nothing")
			})
		})
	}
}

// TestEvents checks the content and the process of each event.
func TestEvents(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		begin := time.Now()
		r := asks(1, "on_cpu", "network")
		r.Runs[1].Processes = []*model.Process{processOf(1), processOf(2)}
		r.Causes = []model.Cause{
			{Monitor: "process_cpu", Threshold: 80, Value: 93.5}, {Monitor: "http_error_rate", Threshold: 5, Value: 50, Path: "/pay"},
		}
		id := h.Request(r)[0].TaskID
		require.Len(t, h.emitted, 3)
		log := func(i int) (*model.Process, model.Log) {
			require.Len(t, h.emitted[i].Logs, 1)
			return h.emitted[i].Process, h.emitted[i].Logs[0]
		}
		proc, triggered := log(0)
		require.Equal(t, processOf(1), proc)
		require.Equal(t, model.Log{
			Event: "ebpf.profiling.triggered", Time: begin, Observed: begin, Severity: model.Warn, Attributes: []model.Attribute{
				model.Text("ebpf.policy", "slow"), model.Text("ebpf.task.id", id), model.Text("ebpf.task.state", "started"),
				model.Causes("ebpf.causes", r.Causes),
			},
		}, triggered)
		proc, started := log(2)
		require.Nil(t, proc, "an event of two processes has the host's resource")
		require.Equal(t, model.Log{
			Event: "ebpf.task.started", Time: begin, Observed: begin, Attributes: []model.Attribute{
				model.Text("ebpf.task.id", id), model.Text("ebpf.task.kind", "network"), model.Text("ebpf.task.origin", "policy"),
				model.Text("ebpf.task.name", "n"), model.Text("ebpf.policy", "slow"), model.Int("ebpf.task.processes", 2),
				model.Float("ebpf.task.duration", 60),
			},
		}, started)

		h.events()
		queued := asks(3, "on_cpu")
		queued.Name, queued.By = "", "config"
		second := one(t, h.Request(queued)).TaskID
		h.starter.answers(errors.New("no room"))
		h.after(time.Minute)
		h.after(time.Second)
		require.Len(t, h.emitted, 3)
		// The goroutines of the run that ends and of the one that takes its slot emit their events in any order.
		of := func(is func(model.Log) bool) int {
			return slices.IndexFunc(h.emitted, func(l *model.Logs) bool { return is(l.Logs[0]) })
		}
		_, finished := log(of(func(l model.Log) bool {
			return slices.Contains(l.Attributes, model.Text("ebpf.task.end.reason", "duration"))
		}))
		require.Equal(t, []model.Attribute{
			model.Text("ebpf.task.end.reason", "duration"), model.Float("ebpf.task.duration", 60), model.Int("ebpf.task.samples", 7), model.Int("ebpf.task.losses", 1),
		}, finished.Attributes[len(finished.Attributes)-4:])
		require.Equal(t, model.Info, finished.Severity)
		proc, failed := log(of(func(l model.Log) bool {
			return slices.Contains(l.Attributes, model.Text("ebpf.task.end.reason", "failed"))
		}))
		require.Equal(t, processOf(3), proc)
		require.Equal(t, model.Error, failed.Severity)
		require.Equal(t, []model.Attribute{
			model.Text("ebpf.task.id", second), model.Text("ebpf.task.kind", "on_cpu"), model.Text("ebpf.task.origin", "config"),
			model.Int("ebpf.task.processes", 1), model.Text("ebpf.task.end.reason", "failed"), model.Text("error.message", "starting on_cpu: no room"),
		}, failed.Attributes)
	})
}
