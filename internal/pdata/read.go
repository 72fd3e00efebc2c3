// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Indices may repeat, so that a short message could make very much of little:
// these bound the frames of one sample, inlined ones included, and the
// attributes of anything.
const (
	maxFoldedFrames     = 8192
	maxFoldedAttributes = 128
)

// ErrStop is what a function given to [Fold] returns to end it without error.
var ErrStop = errors.New("stop")

// FoldedProfile is the head of a profile. Type and unit are those of the values.
type FoldedProfile struct {
	Type, PeriodType model.ValueType
	Period           int64
	Start            time.Time
	Duration         time.Duration
	// Attributes are those of the profile, such as ebpf.task.id.
	Attributes pcommon.Map
}

// FoldedSample is a sample whose references have been resolved.
type FoldedSample struct {
	// Resource has the attributes of the resource. They are empty on profiles
	// that were marshalled while mutable, since that replaces them in place.
	Resource   pcommon.Map
	Profile    *FoldedProfile
	Attributes pcommon.Map
	// Stack has the root first and each inlined function as a frame.
	Stack []FoldedFrame
	// Value is the sum of the values, or, where the sample has timestamps only,
	// their number.
	Value int64
}

// Fold calls yield for every sample of p, in order. The sample and what it
// refers to must not be kept. It returns the error of yield, unless that is
// [ErrStop], or the first bad reference in p.
func Fold(p pprofile.Profiles, yield func(FoldedSample) error) error {
	f := folder{dict: p.Dictionary(), yield: yield}
	f.frames = make([][]FoldedFrame, f.dict.LocationTable().Len())
	for i, rp := range p.ResourceProfiles().All() {
		for j, sp := range rp.ScopeProfiles().All() {
			for k, profile := range sp.Profiles().All() {
				err := f.profile(rp.Resource().Attributes(), profile)
				if errors.Is(err, ErrStop) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("reading resource %d, scope %d, profile %d: %w", i, j, k, err)
				}
			}
		}
	}
	return nil
}

// folder walks one message.
type folder struct {
	dict  pprofile.ProfilesDictionary
	yield func(FoldedSample) error
	// frames has the frames of the locations read so far, leaf first.
	frames [][]FoldedFrame
	stack  []FoldedFrame
}

func (f *folder) profile(resource pcommon.Map, p pprofile.Profile) error {
	head, err := f.head(p)
	if err != nil {
		return err
	}
	for i, s := range p.Samples().All() {
		sample := FoldedSample{Resource: resource, Profile: head, Value: foldValue(s)}
		if sample.Attributes, err = f.attributes(s.AttributeIndices()); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if sample.Stack, err = f.resolveStack(s.StackIndex()); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if err := f.yield(sample); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) head(p pprofile.Profile) (*FoldedProfile, error) {
	attrs, err := f.attributes(p.AttributeIndices())
	if err != nil {
		return nil, err
	}
	head := &FoldedProfile{Period: p.Period(), Start: p.Time().AsTime(), Attributes: attrs}
	head.Duration = time.Duration(min(p.DurationNano(), math.MaxInt64))
	if head.Type, err = f.valueType(p.SampleType()); err != nil {
		return nil, fmt.Errorf("sample type: %w", err)
	}
	if head.PeriodType, err = f.valueType(p.PeriodType()); err != nil {
		return nil, fmt.Errorf("period type: %w", err)
	}
	return head, nil
}

func (f *folder) valueType(t pprofile.ValueType) (out model.ValueType, err error) {
	if out.Type, err = f.string(t.TypeStrindex()); err != nil {
		return out, err
	}
	out.Unit, err = f.string(t.UnitStrindex())
	return out, err
}

// foldValue is what a sample counts for, in each of the shapes it may have.
func foldValue(s pprofile.Sample) int64 {
	if s.Values().Len() == 0 {
		return int64(s.TimestampsUnixNano().Len())
	}
	var sum int64
	for _, v := range s.Values().All() {
		sum = addSaturated(sum, v)
	}
	return sum
}
