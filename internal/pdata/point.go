// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Upper bounds of bytes in protobuf.
const (
	sizeFixed = 1 + 8
	// sizeMetric is a metric without its texts and points: two headers,
	// temporality and monotonicity.
	sizeMetric = 2*sizeHeader + 4
	// sizeNumberPoint is a number's point without its attributes.
	sizeNumberPoint = sizeHeader + 3*sizeFixed
	// sizeHistogramPoint is a histogram's point without attributes, buckets and
	// bounds.
	sizeHistogramPoint = 3*sizeHeader + 6*sizeFixed
	// sizeExponentialPoint is that of an exponential histogram.
	sizeExponentialPoint = 3*sizeHeader + 10*sizeFixed
)

// grow makes room for n more points.
func grow(metric pmetric.Metric, n int) {
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		points := metric.Sum().DataPoints()
		points.EnsureCapacity(points.Len() + n)
	case pmetric.MetricTypeGauge:
		points := metric.Gauge().DataPoints()
		points.EnsureCapacity(points.Len() + n)
	case pmetric.MetricTypeHistogram:
		points := metric.Histogram().DataPoints()
		points.EnsureCapacity(points.Len() + n)
	case pmetric.MetricTypeExponentialHistogram:
		points := metric.ExponentialHistogram().DataPoints()
		points.EnsureCapacity(points.Len() + n)
	}
}

// addPoint writes a point, of a task if it has an id, and returns an upper bound of its size.
func addPoint(metric pmetric.Metric, d *model.Descriptor, p *model.Point, at pcommon.Timestamp, taskID string) int {
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		return setNumber(metric.Sum().DataPoints().AppendEmpty(), p, at, taskID)
	case pmetric.MetricTypeGauge:
		return setNumber(metric.Gauge().DataPoints().AppendEmpty(), p, at, taskID)
	case pmetric.MetricTypeHistogram:
		return setHistogram(metric.Histogram().DataPoints().AppendEmpty(), d.Bounds, p, at, taskID)
	case pmetric.MetricTypeExponentialHistogram:
		return setExponential(metric.ExponentialHistogram().DataPoints().AppendEmpty(), p, at, taskID)
	}
	return 0
}

func setNumber(out pmetric.NumberDataPoint, p *model.Point, at pcommon.Timestamp, taskID string) int {
	out.SetStartTimestamp(timestamp(p.Start))
	out.SetTimestamp(at)
	if p.IsFloat {
		out.SetDoubleValue(p.Float)
	} else {
		out.SetIntValue(p.Int)
	}
	return sizeNumberPoint + putAttributes(out.Attributes(), p.Attributes) + putTask(out.Attributes(), taskID)
}

// histogramPoint is what points of both kinds of histograms have.
type histogramPoint interface {
	Attributes() pcommon.Map
	SetStartTimestamp(pcommon.Timestamp)
	SetTimestamp(pcommon.Timestamp)
	SetCount(uint64)
	SetSum(float64)
	SetMin(float64)
	SetMax(float64)
}

// setSummary sets all but the buckets, and returns the size of the attributes.
func setSummary[P histogramPoint](out P, p *model.Point, at pcommon.Timestamp, taskID string) (size int) {
	h := p.Histogram
	out.SetStartTimestamp(timestamp(p.Start))
	out.SetTimestamp(at)
	out.SetCount(h.Count)
	out.SetSum(h.Sum)
	if h.Count > 0 {
		out.SetMin(h.Min)
		out.SetMax(h.Max)
	}
	return putAttributes(out.Attributes(), p.Attributes) + putTask(out.Attributes(), taskID)
}

func setHistogram(out pmetric.HistogramDataPoint, bounds []float64, p *model.Point, at pcommon.Timestamp, taskID string) int {
	h := p.Histogram
	size := setSummary(out, p, at, taskID)
	if h.Bounds != nil {
		bounds = h.Bounds
	}
	out.ExplicitBounds().FromRaw(bounds)
	out.BucketCounts().FromRaw(h.Buckets)
	return sizeHistogramPoint + 8*(len(bounds)+len(h.Buckets)) + size
}

func setExponential(out pmetric.ExponentialHistogramDataPoint, p *model.Point, at pcommon.Timestamp, taskID string) int {
	h := p.Histogram
	size := setSummary(out, p, at, taskID)
	out.SetScale(h.Exponential.Scale)
	out.SetZeroCount(h.Exponential.ZeroCount)
	out.SetZeroThreshold(h.Exponential.ZeroThreshold)
	out.Positive().SetOffset(h.Exponential.Offset)
	out.Positive().BucketCounts().FromRaw(h.Buckets)
	return sizeExponentialPoint + sizeNumber*len(h.Buckets) + size
}

// putTask says whose a point is, where it is a task's.
func putTask(out pcommon.Map, id string) int {
	if id == "" {
		return 0
	}
	text := validText(id)
	out.PutStr(KeyTaskID, text)
	return sizeAttribute + sizeString(len(KeyTaskID)) + sizeString(len(text))
}

// putAttributes writes a point's attributes and returns an upper bound of their size.
func putAttributes(out pcommon.Map, attributes []model.Attribute) int {
	out.EnsureCapacity(len(attributes))
	size := 0
	for i := range attributes {
		a := &attributes[i]
		size += sizeAttribute + sizeString(len(a.Key)) + putValue(out.PutEmpty(a.Key), &a.Value)
	}
	return size
}

// putValue writes an attribute's value and returns an upper bound of the bytes of its texts.
func putValue(out pcommon.Value, v *model.AttributeValue) int {
	switch v.Type {
	case model.TextAttribute:
		return putString(out, validText(v.Text))
	case model.IntAttribute:
		out.SetInt(v.Int)
	case model.BoolAttribute:
		out.SetBool(v.Int != 0)
	case model.FloatAttribute:
		out.SetDouble(v.Float())
	case model.LinesAttribute:
		return putString(out, validLines(v.Text))
	case model.ListAttribute:
		return putList(out.SetEmptySlice(), v.List())
	case model.CauseAttribute:
		return putCauses(out.SetEmptySlice(), v.Causes())
	}
	return 0
}

func putString(out pcommon.Value, text string) int {
	out.SetStr(text)
	return sizeString(len(text))
}

// putList writes the elements of a list and returns an upper bound of their size.
func putList(out pcommon.Slice, values []string) int {
	out.EnsureCapacity(len(values))
	size := sizeHeader
	for _, value := range values {
		text := validText(value)
		out.AppendEmpty().SetStr(text)
		size += sizeHeader + sizeString(len(text))
	}
	return size
}

// putCauses writes a list of maps and returns an upper bound of its size.
func putCauses(out pcommon.Slice, causes []model.Cause) int {
	const keys = len("monitor") + len("threshold") + len("current") + len("uri")
	out.EnsureCapacity(len(causes))
	size := sizeHeader
	for i := range causes {
		cause, monitor, path := out.AppendEmpty().SetEmptyMap(), validText(causes[i].Monitor), validText(causes[i].Path)
		cause.PutStr("monitor", monitor)
		cause.PutDouble("threshold", causes[i].Threshold)
		cause.PutDouble("current", causes[i].Value)
		if path != "" {
			cause.PutStr("uri", path)
		}
		size += 2*sizeHeader + 4*(sizeAttribute+sizeHeader) + keys + sizeString(len(monitor)) + sizeString(len(path))
	}
	return size
}

// sizeAttribute is a key's and value's headers, and a number.
const sizeAttribute = 2*sizeHeader + sizeNumber
