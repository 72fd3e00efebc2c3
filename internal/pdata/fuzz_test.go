// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// FuzzFold reads what may have been any message once.
func FuzzFold(f *testing.F) {
	for _, in := range [][]*model.Profile{nil, {full()}, load(f, 3, 9, 4)} {
		raw, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(newTestBuilder().Profiles(in))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(raw)
		if err != nil {
			return
		}
		if err := Fold(p, func(s FoldedSample) error {
			require.LessOrEqual(t, len(s.Stack), maxFoldedFrames)
			return nil
		}); err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}

// FuzzBuilder makes model values of bytes; whatever they are, the profiles are
// valid, batches add up to the same as one message, and nothing is lost.
func FuzzBuilder(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte("two samples\x00of\xffbytes\x01\x02\x03\x04\x05\x06\x07\x08"), 1)
	f.Add(make([]byte, 300), 3)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		in := (&source{raw: raw}).profiles()
		whole := newTestBuilder().Profiles(in)
		requireValid(t, whole)
		batches := newTestBuilder().Batches(in, limit)
		for _, p := range batches {
			requireValid(t, p)
		}
		require.Equal(t, sums(t, whole), sums(t, batches...))
		requireValid(t, roundTrip(t, whole))
	})
}

// source makes values of bytes; when they are used up, of zeros.
type source struct{ raw []byte }

func (s *source) byte() byte {
	if len(s.raw) == 0 {
		return 0
	}
	b := s.raw[0]
	s.raw = s.raw[1:]
	return b
}

func (s *source) uint() uint64 {
	var b [8]byte
	n := min(int(s.byte()%9), len(s.raw))
	copy(b[:], s.raw[:n])
	s.raw = s.raw[n:]
	return binary.LittleEndian.Uint64(b[:])
}

func (s *source) text() string {
	n := min(int(s.byte()%8), len(s.raw))
	out := string(s.raw[:n])
	s.raw = s.raw[n:]
	return out
}

func (s *source) profiles() []*model.Profile {
	frames := []*model.Frame{nil}
	for range s.byte() % 8 {
		frames = append(frames, s.frame())
	}
	processes := []*model.Process{nil, {
		ID: model.ProcessID{PID: uint32(s.uint())}, Comm: s.text(), Executable: s.text(), ServiceName: s.text(),
		Attributes: map[string]string{s.text(): s.text()},
	}}
	var out []*model.Profile
	for range s.byte() % 4 {
		p := &model.Profile{
			Process: processes[s.byte()%2], TaskID: s.text(), Period: int64(s.uint()),
			Start: time.Unix(int64(s.uint()>>32), 0), Duration: time.Duration(s.uint() >> 2),
		}
		p.Runtime = model.Runtime{Language: model.FrameType(p.TaskID), Names: model.RuntimeNames(p.TaskID)}
		for range s.byte() % 3 {
			p.SampleTypes = append(p.SampleTypes, model.ValueType{Type: s.text(), Unit: s.text()})
		}
		for range s.byte() % 16 {
			p.Samples = append(p.Samples, s.sample(frames))
		}
		out = append(out, p)
	}
	return out
}

func (s *source) frame() *model.Frame {
	f := &model.Frame{Type: model.FrameType(s.text()), Address: s.uint()}
	if s.byte()%2 == 1 {
		f.Mapping = &model.Mapping{Start: s.uint(), Path: s.text(), BuildID: model.BuildID{GNU: s.text()}}
	}
	for range s.byte() % 3 {
		line := model.Line{Line: int64(s.uint())}
		if s.byte()%4 != 0 {
			line.Function = &model.Function{Name: s.text(), Filename: s.text(), StartLine: int64(s.uint())}
		}
		f.Lines = append(f.Lines, line)
	}
	return f
}

func (s *source) sample(frames []*model.Frame) model.Sample {
	out := model.Sample{ThreadID: uint32(s.uint()), ThreadName: s.text(), Error: model.StackError(s.text()), BlockReason: model.BlockReason(s.text())}
	for range s.byte() % 6 {
		out.Frames = append(out.Frames, frames[int(s.byte())%len(frames)])
	}
	for range s.byte() % 4 {
		// Small, so that sums are the same in any order.
		out.Values = append(out.Values, int64(int8(s.byte())))
	}
	return out
}
