// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"strings"
	"time"
)

// Findings are what an observation has seen in an interval.
type Findings struct {
	Profiles []*Profile
	Metrics  []*Metrics
	Logs     []*Logs
	Spans    []*Spans
}

// Instrument says how the points of a metric are to be read.
type Instrument uint8

// Instruments. Sums and histograms are cumulative; a Sum never goes down.
const (
	Sum          Instrument = iota // monotonic
	UpDownSum                      // a sum that may go down
	Gauge                          // a value of the moment
	Distribution                   // a histogram, with explicit bounds or exponential buckets
)

// Descriptor is what all points of a metric have in common. Values are shared and
// compared by pointer.
type Descriptor struct {
	// Name and Unit (UCUM) are those of the telemetry contract.
	Name, Unit, Description string
	Instrument              Instrument
	// Bounds are the upper bounds (inclusive) of a histogram's buckets, ascending; the
	// last bucket has none. Those of a [Histogram] replace them.
	Bounds []float64
}

// Metrics are the points of one process or service instance, or of the host, at one moment.
type Metrics struct {
	// Process is nil for what is the host's; of a service instance it is that of [Process.Instance].
	Process *Process
	Time    time.Time
	Metrics []Metric
	// TaskID is set when a task or a policy started the observation.
	TaskID string
}

// Metric is one metric with its points. No two points have the same attributes.
type Metric struct {
	*Descriptor
	Points []Point
}

// Point is one series' value.
type Point struct {
	// Attributes are shared and not changed any more.
	Attributes []Attribute
	// Start is when a cumulative point began to count; zero for a gauge.
	Start time.Time
	// Int is the value of a sum or gauge, unless IsFloat says that Float is.
	Int     int64
	Float   float64
	IsFloat bool
	// Histogram is the value of a histogram.
	Histogram *Histogram
}

// Histogram is the value of a histogram since its point's start.
type Histogram struct {
	Count uint64
	// Sum, Min and Max are in the metric's unit; Min and Max are unset while Count
	// is 0.
	Sum, Min, Max float64
	// Bounds are those of this point, nil: the descriptor's. Buckets has one entry more,
	// unless the histogram is exponential: then these are unused.
	Bounds  []float64
	Buckets []uint64
	// Exponential says which values Buckets count; nil: a histogram with explicit bounds.
	Exponential *Exponential
}

// Exponential describes the buckets of an exponential histogram. All points of a metric have it, or none.
type Exponential struct {
	// Scale: bucket i has the values in (b^i, b^(i+1)] with b = 2^(2^-Scale). Offset is the i of the first one.
	Scale, Offset int32
	// ZeroCount is the number of values up to ZeroThreshold, which no bucket counts.
	ZeroCount     uint64
	ZeroThreshold float64
}

// Attribute is a key with a string, an integer, a number or a boolean.
type Attribute struct {
	Key   string
	Value AttributeValue
}

// AttributeValue is a comparable value of an attribute.
type AttributeValue struct {
	Text string
	// Int is an integer or boolean, or the bits of a number.
	Int  int64
	Type AttributeType
}

// Float is the value of a number.
func (v AttributeValue) Float() float64 { return math.Float64frombits(uint64(v.Int)) }

// AttributeType says which field of an [AttributeValue] counts.
type AttributeType uint8

// Types of attributes. A boolean is Int, 0 or 1; texts and lists are Text.
const (
	TextAttribute AttributeType = iota
	IntAttribute
	BoolAttribute
	FloatAttribute
	LinesAttribute // a text that keeps its line feeds and tabs
	ListAttribute  // texts with a NUL between them
	CauseAttribute // a list of causes, in JSON
)

// Text returns a string attribute.
func Text(key, value string) Attribute {
	return Attribute{Key: key, Value: AttributeValue{Text: value}}
}

// Lines returns a string attribute that may have several lines.
func Lines(key, value string) Attribute {
	return Attribute{Key: key, Value: AttributeValue{Text: value, Type: LinesAttribute}}
}

// listSeparator is in no text that is exported.
const listSeparator = "\x00"

// List returns an attribute that is a list of strings, none of which has a NUL.
func List(key string, values ...string) Attribute {
	return Attribute{Key: key, Value: AttributeValue{Text: strings.Join(values, listSeparator), Type: ListAttribute}}
}

// List is the value of a list of strings, which has one element at least.
func (v AttributeValue) List() []string { return strings.Split(v.Text, listSeparator) }

// Int returns an integer attribute.
func Int(key string, value int64) Attribute {
	return Attribute{Key: key, Value: AttributeValue{Int: value, Type: IntAttribute}}
}

// Float returns an attribute that is a number.
func Float(key string, value float64) Attribute {
	return Attribute{Key: key, Value: AttributeValue{Int: int64(math.Float64bits(value)), Type: FloatAttribute}}
}

// Bool returns a boolean attribute.
func Bool(key string, value bool) Attribute {
	a := Attribute{Key: key, Value: AttributeValue{Type: BoolAttribute}}
	if value {
		a.Value.Int = 1
	}
	return a
}
