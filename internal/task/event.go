// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Names of events by the telemetry contract.
const (
	TriggeredEvent = "ebpf.profiling.triggered"
	StartedEvent   = "ebpf.task.started"
	FinishedEvent  = "ebpf.task.finished"
)

// IDKey is the attribute with the id of the task whose run has reported something.
const IDKey = "ebpf.task.id"

// triggered emits one event when a policy's rules hold: the task that runs because of it, which may
// have run before or may wait for its turn, or the reason why there is none.
func (r *Request) triggered(of Outcome, now time.Time) []*model.Logs {
	if r.triggerSent || r.GoesOn || len(r.Causes) == 0 {
		return nil
	}
	r.triggerSent = true
	record := Record{By: r.By}
	attributes := []model.Attribute{model.Text("ebpf.policy", record.Policy())}
	if of.TaskID != "" {
		attributes = append(attributes, model.Text(IDKey, of.TaskID))
	}
	attributes = append(attributes, model.Text("ebpf.task.state", string(of.State)), model.Causes("ebpf.causes", r.Causes[:min(len(r.Causes), maxNamed)]))
	if of.Err != nil {
		attributes = append(attributes, model.Text("error.message", of.Err.Error()))
	}
	return []*model.Logs{{Process: only(r.Processes), Logs: []model.Log{{
		Event: TriggeredEvent, Time: now, Observed: now, Severity: model.Warn, Attributes: attributes,
	}}}}
}

// startedLog is the event of a run that has started.
func (r *run) startedLog(now time.Time) *model.Logs {
	attributes := append(r.about(), model.Float("ebpf.task.duration", r.duration.Seconds()))
	if r.of.queued {
		attributes = append(attributes, model.Float("ebpf.task.wait", r.begin.Sub(r.of.start).Seconds()))
	}
	return &model.Logs{Process: r.single, Logs: []model.Log{{
		Event: StartedEvent, Time: r.begin, Observed: now, Severity: model.Info, Attributes: attributes,
	}}}
}

// finishedLog is the event of a run that has ended: one that started, or one that waited and never
// will start.
func (r *run) finishedLog() *model.Logs {
	attributes := append(r.about(), model.Text("ebpf.task.end.reason", string(r.reason)))
	severity := model.Info
	if !r.begin.IsZero() {
		attributes = append(attributes, model.Float("ebpf.task.duration", r.end.Sub(r.begin).Seconds()),
			model.Int("ebpf.task.samples", int64(r.counts.Samples)), model.Int("ebpf.task.losses", int64(r.counts.Losses)))
	}
	if r.err != nil {
		severity = model.Error
		attributes = append(attributes, model.Text("error.message", r.err.Error()))
	}
	return &model.Logs{Process: r.single, Logs: []model.Log{{
		Event: FinishedEvent, Time: r.end, Observed: r.end, Severity: severity, Attributes: attributes,
	}}}
}

// about returns attributes of the run, its task and the processes that it observes.
func (r *run) about() []model.Attribute {
	record := Record{By: r.of.request.By}
	attributes := []model.Attribute{
		model.Text(IDKey, r.of.id), model.Text("ebpf.task.kind", r.kind), model.Text("ebpf.task.origin", record.Origin()),
	}
	if name := r.of.request.Name; name != "" {
		attributes = append(attributes, model.Text("ebpf.task.name", name))
	}
	if policy := record.Policy(); policy != "" {
		attributes = append(attributes, model.Text("ebpf.policy", policy))
	}
	if r.asked > 0 {
		attributes = append(attributes, model.Int("ebpf.task.processes", int64(r.asked)))
	}
	return attributes
}

// only returns the process if it is a single one: the event has its resource. Events of several
// processes, or of targets, have the host's resource.
func only(processes []*model.Process) *model.Process {
	if len(processes) != 1 {
		return nil
	}
	return processes[0]
}
