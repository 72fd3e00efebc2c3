// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sampleOf is a sample of off-CPU time with these functions, root first.
func sampleOf(value int64, functions ...string) pdata.FoldedSample {
	s := pdata.FoldedSample{
		Resource: pcommon.NewMap(), Attributes: pcommon.NewMap(), Value: value,
		Profile: &pdata.FoldedProfile{Type: model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}},
	}
	for _, f := range functions {
		s.Stack = append(s.Stack, pdata.FoldedFrame{Function: f})
	}
	return s
}

// TestFoldedNames checks that a name cannot make a line more than one stack.
func TestFoldedNames(t *testing.T) {
	b := NewBuilder("off_cpu")
	require.NoError(t, b.Add(sampleOf(3, "a;b", "c\nd")))
	require.NoError(t, b.Add(sampleOf(4, "a;b", "c\nd")))
	require.NoError(t, b.Add(sampleOf(0, "nothing")))
	var out strings.Builder
	require.NoError(t, b.WriteFolded(&out))
	require.Equal(t, ";a,b;c?d 7\n", out.String())
	require.Equal(t, 1, b.Stacks())
	require.Equal(t, "nanoseconds of off_cpu", b.Unit())
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriteErrors(t *testing.T) {
	b := NewBuilder("off_cpu")
	require.NoError(t, b.Add(sampleOf(1, "a")))
	require.EqualError(t, b.WriteFolded(full{}), "writing folded stacks: no space")
	require.ErrorContains(t, b.WritePprof(full{}), "writing a pprof profile: no space")
	var one, other bytes.Buffer
	require.NoError(t, b.WritePprof(&one))
	require.NoError(t, b.WritePprof(&other))
	require.Equal(t, one.Bytes(), other.Bytes(), "the same from run to run")
}
