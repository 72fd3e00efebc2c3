// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

const (
	limitLevel = "ebpf.limit.level"
	// levelAge is how long a level holds without a further point, maxLevels how many kinds are kept.
	levelAge  = time.Minute
	maxLevels = 16
)

// Level is by how many steps the receiver has reduced a kind.
type Level struct {
	Kind  string
	Level int64
	time  time.Time
}

// addLevel takes the last level of a kind.
func (o *Overview) addLevel(p pmetric.NumberDataPoint) {
	level := Level{Kind: text(p.Attributes(), "ebpf.limit.kind"), Level: p.IntValue(), time: p.Timestamp().AsTime()}
	if level.time.After(o.latest) {
		o.latest = level.time
	}
	before, known := o.levels[level.Kind]
	if known && level.time.Before(before.time) || !known && len(o.levels) >= maxLevels {
		return
	}
	o.levels[level.Kind] = level
}

// Reduced returns the kinds that the receiver observes less of to keep to its limits, by their names.
func (o *Overview) Reduced() []Level {
	var list []Level
	for _, kind := range slices.Sorted(maps.Keys(o.levels)) {
		if l := o.levels[kind]; l.Level > 0 && !l.time.Before(o.latest.Add(-levelAge)) {
			list = append(list, l)
		}
	}
	return list
}
