// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

const (
	// maxBatchSamples bounds one message.
	maxBatchSamples = 20_000
	// maxPendingProfiles is how many intervals are kept for a consumer that refuses
	// them for now.
	maxPendingProfiles = 8
	// sampleOverhead is the memory of a sample without its frames.
	sampleOverhead = 150
)

// profileSink delivers profiles.
type profileSink struct {
	*sink
	next    xconsumer.Profiles
	builder *pdata.Builder
}

func newProfileSink(next xconsumer.Profiles, logger *zap.Logger, version string, maxBytes uint64) *profileSink {
	return &profileSink{
		sink:    newSink("profiles", logger, maxPendingProfiles, maxBytes),
		next:    next,
		builder: pdata.NewBuilder(scopeName, version),
	}
}

// put hands over an interval.
func (s *profileSink) put(profiles []*model.Profile) {
	s.sink.put(&delivery{bytes: profileBytes(profiles), build: func() func() (message, bool) {
		return messages(s.builder.Messages(profiles, maxBatchSamples), s.next.ConsumeProfiles)
	}})
}

// profileBytes estimates the memory of an interval. Frames are shared and belong
// to the symbolizer; a stack holds pointers to them.
func profileBytes(profiles []*model.Profile) uint64 {
	var bytes uint64
	for _, p := range profiles {
		for i := range p.Samples {
			bytes += sampleOverhead + 8*uint64(len(p.Samples[i].Frames))
		}
	}
	return bytes
}
