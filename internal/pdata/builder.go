// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// MaxBatchBytes is the size in protobuf, by an estimate that is never too low,
// at which [Builder.Batches] begins a new message. gRPC servers refuse messages
// of more than 4 MiB by default; the difference leaves room for the last sample
// and for what processors add.
const MaxBatchBytes = 3 << 20

const (
	// shrinkAbove is the number of dictionary entries that is always kept.
	shrinkAbove = 16 << 10
	// shrinkAfter is how many messages in a row must use less than a quarter of
	// the maps before they are given back.
	shrinkAfter = 8
)

// Builder turns model profiles into OTLP profiles. It is reused from interval
// to interval and not safe for concurrent use. It keeps no model value after a
// method has returned; the memory of its index maps follows the load.
type Builder struct {
	from  instrumentation
	newID func() pprofile.ProfileID

	dict    dictionary
	samples samples
	msg     message

	// peak is the largest number of dictionary entries that the maps were
	// grown for, small the number of messages since that were far below it.
	peak, small int
}

// NewBuilder returns a builder whose profiles come from the named
// instrumentation scope.
func NewBuilder(scopeName, scopeVersion string) *Builder {
	return &Builder{
		from:    instrumentation{scopeName, scopeVersion},
		newID:   randomID,
		dict:    makeDictionary(),
		samples: makeSamples(),
		msg:     message{scopes: map[*model.Process]pprofile.ScopeProfiles{}},
	}
}

// Profiles puts all profiles into one message, however large. Profiles without
// samples or sample types leave no trace in it.
func (b *Builder) Profiles(in []*model.Profile) pprofile.Profiles {
	b.begin()
	for _, p := range in {
		if p != nil {
			b.add(p, 0, math.MaxInt, math.MaxInt)
		}
	}
	return b.end()
}

// Batches is Profiles in as many messages as it takes to have at most
// maxSamples samples and about [MaxBatchBytes] in each; maxSamples <= 0 leaves
// only the limit of bytes. Each message has its own dictionary. A profile that
// does not fit is continued in the next message, under an id of its own.
// A message holds at least one observation, even when that exceeds a limit.
func (b *Builder) Batches(in []*model.Profile, maxSamples int) []pprofile.Profiles {
	return collect(b.Messages(in, maxSamples))
}

// Messages returns a function that builds the messages of [Builder.Batches] one by one, so that no more than one need be in memory. It returns false
// after the last one.
func (b *Builder) Messages(in []*model.Profile, maxSamples int) func() (pprofile.Profiles, bool) {
	if maxSamples <= 0 {
		maxSamples = math.MaxInt
	}
	var profile, sample int // where the next message begins
	return func() (pprofile.Profiles, bool) {
		if profile == len(in) {
			return pprofile.Profiles{}, false
		}
		b.begin()
		for ; profile < len(in); profile, sample = profile+1, 0 {
			p := in[profile]
			if p == nil {
				continue
			}
			if sample = b.add(p, sample, maxSamples, MaxBatchBytes); sample < len(p.Samples) {
				return b.end(), true
			}
		}
		last := b.end()
		return last, last.ResourceProfiles().Len() > 0
	}
}

// begin starts a message.
func (b *Builder) begin() {
	b.msg.begin()
	b.dict.begin(b.msg.out.Dictionary())
}

// end returns the message and forgets it.
func (b *Builder) end() pprofile.Profiles {
	out := b.msg.out
	used := b.dict.entries()
	b.msg.end()
	b.samples.end()
	b.dict.end()
	b.shrink(used)
	return out
}

// shrink gives the maps back when they stay far larger than what is used: a
// cleared map keeps its size, and clearing it costs as much.
func (b *Builder) shrink(used int) {
	b.peak = max(b.peak, used)
	if b.peak <= shrinkAbove || used >= b.peak/4 {
		b.small = 0
		return
	}
	if b.small++; b.small < shrinkAfter {
		return
	}
	b.dict = makeDictionary()
	b.samples = makeSamples()
	b.msg.scopes = map[*model.Process]pprofile.ScopeProfiles{}
	b.peak, b.small = 0, 0
}

// randomID returns an id that is not zero, which would be invalid.
func randomID() pprofile.ProfileID {
	var id pprofile.ProfileID
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id
}
