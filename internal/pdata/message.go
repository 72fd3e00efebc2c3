// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// message is the message that is being built, but for its dictionary.
type message struct {
	out pprofile.Profiles
	// scopes has the one scope of each process's resource.
	scopes map[*model.Process]pprofile.ScopeProfiles
	// profiles is the number of model profiles added, samples that of samples
	// written, and size an upper bound of the bytes of both in protobuf.
	profiles int32
	samples  int
	size     int
}

func (m *message) begin() {
	m.out = pprofile.NewProfiles()
	m.profiles, m.samples, m.size = 0, 0, sizeMessage
}

func (m *message) end() {
	m.out = pprofile.Profiles{}
	clear(m.scopes)
}

// add writes the samples of p from number from on, until the message would
// have more than maxSamples or has reached maxBytes. It returns the number of
// the first sample that is left. An empty message takes at least one.
func (b *Builder) add(p *model.Profile, from, maxSamples, maxBytes int) int {
	width := len(p.SampleTypes)
	if width == 0 {
		return len(p.Samples)
	}
	m := &b.msg
	m.profiles++
	b.samples.begin(width)
	next := from
	for ; next < len(p.Samples); next++ {
		if m.samples > 0 && (m.samples+width > maxSamples || m.size+b.dict.size >= maxBytes) {
			break
		}
		s := &p.Samples[next]
		if b.samples.add(b.dict.sampleKey(m.profiles, s), s.Values) {
			m.samples += width
			m.size += width * sizeSample
		}
	}
	if next > from {
		b.emit(p)
	}
	return next
}

// sizeSample is an upper bound of a sample's bytes: stack index, value and
// four attribute indices.
const sizeSample = sizeHeader + 6 + sizeHeader + 10 + sizeHeader + 4*5

// emit writes the merged samples as one OTLP profile per sample type.
func (b *Builder) emit(p *model.Profile) {
	scope := b.scope(p.Process)
	for column, sampleType := range p.SampleTypes {
		out := scope.Profiles().AppendEmpty()
		out.SetProfileID(b.newID())
		b.setValueType(out.SampleType(), sampleType)
		b.setValueType(out.PeriodType(), p.PeriodType)
		out.SetPeriod(p.Period)
		out.SetTime(timestamp(p.Start))
		out.SetDurationNano(uint64(max(p.Duration, 0)))
		b.describe(out.AttributeIndices(), p)
		b.samples.emit(out.Samples(), column)
		b.msg.size += sizeProfile
	}
}

// sizeProfile is an upper bound of a profile's bytes without its samples: it has three
// attribute indices.
const sizeProfile = 5 + 2*(sizeHeader+2*6) + 3*sizeNumber + 18 + sizeHeader + 3*5

// describe writes the attributes of a profile.
func (b *Builder) describe(attrs pcommon.Int32Slice, p *model.Profile) {
	for _, a := range [...]struct{ key, value string }{
		{KeyTaskID, p.TaskID},
		{KeyRuntimeLanguage, string(p.Runtime.Language)},
		{KeyRuntimeNames, string(p.Runtime.Names)},
	} {
		if a.value != "" {
			attrs.Append(b.dict.text(a.key, a.value))
		}
	}
}

// setValueType writes the names of t, which may be none.
func (b *Builder) setValueType(out pprofile.ValueType, t model.ValueType) {
	out.SetTypeStrindex(b.dict.string(t.Type))
	out.SetUnitStrindex(b.dict.string(t.Unit))
}

// scope returns where the profiles of process go, in a resource of its own.
func (b *Builder) scope(process *model.Process) pprofile.ScopeProfiles {
	if scope, ok := b.msg.scopes[process]; ok {
		return scope
	}
	resource := b.msg.out.ResourceProfiles().AppendEmpty()
	scope := resource.ScopeProfiles().AppendEmpty()
	b.msg.scopes[process] = scope
	b.msg.size += b.from.put(resource, scope, process)
	return scope
}

// timestamp is t in nanoseconds since 1970, 0 for what lies before.
func timestamp(t time.Time) pcommon.Timestamp {
	if t.Unix() < 0 {
		return 0
	}
	return pcommon.NewTimestampFromTime(t)
}
