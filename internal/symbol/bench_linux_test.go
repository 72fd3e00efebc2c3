// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// ownFunctions returns addresses in this process.
func ownFunctions(b *testing.B, a *AddressSpace, n int) []uint64 {
	b.Helper()
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for i := range a.regions {
		r := &a.regions[i]
		if r.bin.cause != reason.Named || r.ino == 0 {
			continue
		}
		if t := a.s.goTable(r.bin); t != nil {
			out := make([]uint64, n)
			for i := range out {
				out[i] = t.Entry((i*7919)%t.Len()) - r.delta + 1
			}
			return out
		}
	}
	b.Fatal("no Go binary in this process")
	return nil
}

func BenchmarkFramesWarm(b *testing.B) {
	s := newSymbolizer(b, Config{})
	a := openSpace(b, s, os.Getpid())
	const depth = 40
	addrs := ownFunctions(b, a, 4000)
	dst := make([]*model.Frame, 0, depth)
	for i := 0; i+depth <= len(addrs); i += depth {
		dst = a.Frames(dst[:0], addrs[i:i+depth])
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		dst = a.Frames(dst[:0], addrs[i:i+depth])
		i = (i + depth) % len(addrs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/depth, "ns/frame")
}

func BenchmarkFramesColdAddress(b *testing.B) {
	s := newSymbolizer(b, Config{MemoryBytes: 256 << 20})
	a := openSpace(b, s, os.Getpid())
	addrs := ownFunctions(b, a, 4000)
	dst := make([]*model.Frame, 0, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i == len(addrs) {
			b.StopTimer()
			for bin := range s.all {
				s.resetFrames(bin)
			}
			i = 0
			b.StartTimer()
		}
		dst = a.Frames(dst[:0], addrs[i:i+1])
		i++
	}
}

func BenchmarkOpen(b *testing.B) {
	s := newSymbolizer(b, Config{})
	openSpace(b, s, os.Getpid())
	b.ReportAllocs()
	for b.Loop() {
		a, err := s.Open(model.ProcessID{PID: uint32(os.Getpid())})
		require.NoError(b, err)
		a.Close()
	}
}

func BenchmarkTableBuild(b *testing.B) {
	path := toolchain.Go(b)
	for _, kind := range []string{"pclntab", "symtab"} {
		b.Run(kind, func(b *testing.B) {
			s := newSymbolizer(b, Config{})
			bin, _ := openFile(b, s, path)
			b.ReportAllocs()
			for b.Loop() {
				if kind == "pclntab" {
					t, err := s.buildGo(bin)
					require.NoError(b, err)
					b.ReportMetric(float64(t.Bytes()), "table-bytes")
					continue
				}
				t, err := s.buildSymbols(bin)
				require.NoError(b, err)
				b.ReportMetric(float64(t.Bytes()), "table-bytes")
			}
		})
	}
}
