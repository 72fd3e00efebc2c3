// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestEvents holds what each event says, and of whom.
func TestEvents(t *testing.T) {
	in(t, 1, nil, func(h *house) {
		begin := time.Now()
		r := asks(1, "on_cpu", "network")
		r.Runs[1].Processes = []*model.Process{processOf(1), processOf(2)}
		r.Causes = []model.Cause{
			{Monitor: "process_cpu", Threshold: 80, Value: 93.5}, {Monitor: "http_error_rate", Threshold: 5, Value: 50, Path: "/pay"},
		}
		id := h.Request(r)[0].TaskID
		require.Len(t, h.told, 3)
		log := func(i int) (*model.Process, model.Log) {
			require.Len(t, h.told[i].Logs, 1)
			return h.told[i].Process, h.told[i].Logs[0]
		}
		whom, triggered := log(0)
		require.Equal(t, processOf(1), whom)
		require.Equal(t, model.Log{
			Event: "ebpf.profiling.triggered", Time: begin, Observed: begin, Severity: model.Warn, Attributes: []model.Attribute{
				model.Text("ebpf.policy", "slow"), model.Text("ebpf.task.id", id), model.Text("ebpf.task.state", "started"),
				model.Causes("ebpf.causes", r.Causes),
			},
		}, triggered)
		whom, started := log(2)
		require.Nil(t, whom, "two processes are told of as the host's")
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
		require.Len(t, h.told, 3)
		i := 0
		if _, l := log(0); len(l.Attributes) != 8 {
			i = 1 // the one of two processes has one attribute more
		}
		_, finished := log(i)
		require.Equal(t, []model.Attribute{
			model.Text("ebpf.task.end.reason", "duration"), model.Float("ebpf.task.duration", 60), model.Int("ebpf.task.samples", 7), model.Int("ebpf.task.losses", 1),
		}, finished.Attributes[len(finished.Attributes)-4:])
		require.Equal(t, model.Info, finished.Severity)
		whom, failed := log(2)
		require.Equal(t, processOf(3), whom)
		require.Equal(t, model.Error, failed.Severity)
		require.Equal(t, []model.Attribute{
			model.Text("ebpf.task.id", second), model.Text("ebpf.task.kind", "on_cpu"), model.Text("ebpf.task.origin", "config"),
			model.Int("ebpf.task.processes", 1), model.Text("ebpf.task.end.reason", "failed"), model.Text("error.message", "starting on_cpu: no room"),
		}, failed.Attributes)
	})
}
