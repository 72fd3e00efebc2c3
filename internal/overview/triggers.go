// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// maxTriggers bounds what is kept: the last ones.
const maxTriggers = 200

// Trigger is a policy that fired for a process.
type Trigger struct {
	Time                    time.Time
	Policy, Service, Causes string
	// Task is the id of the task that was started, State what became of it: started, queued, refused, finished.
	Task, State string
	// Kind is the kind of observation that runs, where it is known.
	Kind string
}

// addRecord takes a record of a policy or a task.
func (o *Overview) addRecord(resource pcommon.Map, record plog.LogRecord) {
	a, at := record.Attributes(), record.Timestamp().AsTime()
	if at.Before(o.since) {
		return
	}
	switch record.EventName() {
	case "ebpf.profiling.triggered":
		t := Trigger{
			Time: at, Policy: text(a, "ebpf.policy"), Service: text(resource, "service.name"),
			Task: text(a, "ebpf.task.id"), State: text(a, "ebpf.task.state"),
		}
		if v, ok := a.Get("ebpf.causes"); ok && v.Type() == pcommon.ValueTypeSlice {
			t.Causes = causes(v.Slice())
		}
		o.triggers = append(o.triggers, t)
		if len(o.triggers) > maxTriggers {
			o.triggers = slices.Delete(o.triggers, 0, len(o.triggers)-maxTriggers)
		}
	case "ebpf.task.started", "ebpf.task.finished":
		for i := range o.triggers {
			if t := &o.triggers[i]; t.Task != "" && t.Task == text(a, "ebpf.task.id") {
				t.State = strings.TrimPrefix(record.EventName(), "ebpf.task.")
				t.Kind = text(a, "ebpf.task.kind")
			}
		}
	}
}

// causes is such as "40 ≥ 20 http_error_rate /pay".
func causes(list pcommon.Slice) string {
	var parts []string
	for _, v := range list.All() {
		if v.Type() != pcommon.ValueTypeMap {
			continue
		}
		m := v.Map()
		part := fmt.Sprintf("%s ≥ %s %s", number(m, "current"), number(m, "threshold"), text(m, "monitor"))
		if uri := text(m, "uri"); uri != "" {
			part += " " + uri
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// number is a value with three digits, and all before its point.
func number(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	switch {
	case !ok:
		return "?"
	case v.Type() != pcommon.ValueTypeDouble:
	case v.Double() >= 100:
		return fmt.Sprintf("%.0f", v.Double())
	default:
		return fmt.Sprintf("%.3g", v.Double())
	}
	return v.AsString()
}

// Triggers returns the policies that fired, the latest first.
func (o *Overview) Triggers() []Trigger {
	out := slices.Clone(o.triggers)
	slices.SortStableFunc(out, func(a, b Trigger) int { return b.Time.Compare(a.Time) })
	return out
}
