// SPDX-License-Identifier: Apache-2.0

package hpack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	xhpack "golang.org/x/net/http2/hpack"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
)

// wantedNames are those whose values the tests ask for; tags are their places, by one too high.
var wantedNames = []string{":method", ":path", ":status", "traceparent", "content-type", "x-wanted"}

var names = func() *hpack.Names {
	wanted := map[string]hpack.Tag{}
	for i, name := range wantedNames {
		wanted[name] = hpack.Tag(i + 1)
	}
	return hpack.NewNames(wanted)
}()

const (
	unknown  = "*"
	unwanted = "-"
)

// reader is a decoder and what it reported of the block at hand: "name: value", with * for what it did not know and - for what is not wanted.
type reader struct {
	*hpack.Decoder
	all    bool // names and values of all are reported
	fields []string
}

// both are readers of what is wanted, and of all.
func both(limits hpack.Limits) []*reader { return []*reader{newReader(limits), newReaderOfAll(limits)} }

// newReaderOfAll makes one that reports all fields, and holds that each is reported by its own name.
func newReaderOfAll(limits hpack.Limits) *reader {
	r := &reader{all: true}
	r.Decoder = hpack.NewDecoder(names, limits, func(f *hpack.Field) {
		switch {
		case f.Tag == hpack.UnknownName:
			r.fields = append(r.fields, unknown)
			return
		case f.Tag != hpack.Unwanted && string(f.Name) != wantedNames[f.Tag-1]:
			panic(fmt.Sprintf("%q is reported by the tag of %s", f.Name, wantedNames[f.Tag-1]))
		case f.Known:
			r.fields = append(r.fields, string(f.Name)+": "+string(f.Value))
		default:
			r.fields = append(r.fields, string(f.Name)+": "+unknown)
		}
	})
	r.ReportAll()
	return r
}

// want is what is to be reported of the fields.
func (r *reader) want(fields []xhpack.HeaderField) (want []string) {
	for _, f := range fields {
		if r.all {
			want = append(want, f.Name+": "+f.Value)
		} else {
			want = append(want, wantOf(f))
		}
	}
	return want
}

func newReader(limits hpack.Limits) *reader {
	r := &reader{}
	r.Decoder = hpack.NewDecoder(names, limits, func(f *hpack.Field) {
		switch {
		case f.Tag == hpack.UnknownName:
			r.fields = append(r.fields, unknown)
		case f.Tag == hpack.Unwanted:
			r.fields = append(r.fields, unwanted)
		case !f.Known:
			r.fields = append(r.fields, wantedNames[f.Tag-1]+": "+unknown)
		default:
			r.fields = append(r.fields, wantedNames[f.Tag-1]+": "+string(f.Value))
		}
	})
	return r
}

var usual = hpack.Limits{Table: 16 << 10, Text: 4 << 10}

// sender encodes blocks with the encoder of golang.org/x/net.
type sender struct {
	rnd *rand.Rand
	out bytes.Buffer
	enc *xhpack.Encoder
}

func newSender(seed uint64) *sender {
	s := &sender{rnd: rand.New(rand.NewPCG(seed, 3))}
	s.enc = xhpack.NewEncoder(&s.out)
	return s
}

// block encodes random fields.
func (s *sender) block(t testing.TB) (encoded []byte, fields []xhpack.HeaderField) {
	if s.rnd.IntN(10) == 0 {
		s.enc.SetMaxDynamicTableSizeLimit(1 << 16)
		s.enc.SetMaxDynamicTableSize(uint32(s.rnd.IntN(8) * 700))
	}
	for range 1 + s.rnd.IntN(8) {
		f := xhpack.HeaderField{Value: fmt.Sprint("value ", s.rnd.IntN(20)), Sensitive: s.rnd.IntN(8) == 0}
		f.Name = append(wantedNames, "x-noise", "cookie", "date", "x-other")[s.rnd.IntN(len(wantedNames)+4)]
		switch s.rnd.IntN(10) {
		case 0:
			f.Value = strings.Repeat("\x01\xfe", s.rnd.IntN(400))
		case 1:
			f.Value = ""
		}
		require.NoError(t, s.enc.WriteField(f))
		fields = append(fields, f)
	}
	encoded = bytes.Clone(s.out.Bytes())
	s.out.Reset()
	return encoded, fields
}

func wantOf(f xhpack.HeaderField) string {
	for _, name := range wantedNames {
		if f.Name == name {
			return name + ": " + f.Value
		}
	}
	return unwanted
}

// read gives a block in random parts and returns what was reported.
func (r *reader) read(t testing.TB, rnd *rand.Rand, block []byte) []string {
	r.fields = nil
	for len(block) > 0 {
		n := 1 + rnd.IntN(len(block))
		part := bytes.Clone(block[:n])
		require.NoError(t, r.Write(part))
		for i := range part {
			part[i] = 0xff // it is the caller's again
		}
		block = block[n:]
	}
	require.NoError(t, r.End())
	return r.fields
}

func TestAllFieldsOfAConnectionAreTold(t *testing.T) {
	for seed := range uint64(200) {
		s, readers := newSender(seed), both(usual)
		for i := range 60 {
			block, sent := s.block(t)
			for _, r := range readers {
				if i == 0 {
					r.Begin()
				}
				require.Equal(t, r.want(sent), r.read(t, s.rnd, block), "seed %d", seed)
			}
		}
	}
}

// requireRight holds that what was reported is what was sent, or unknown, and returns how many are unknown.
func requireRight(t *testing.T, want, got []string) (unknowns int) {
	require.Len(t, got, len(want))
	for i := range got {
		if got[i] == unknown || strings.HasSuffix(got[i], ": "+unknown) {
			unknowns++
			continue
		}
		require.Equal(t, want[i], got[i])
	}
	return unknowns
}

// TestWhatWasMissedIsUnknown joins late and misses blocks: what is reported is what was sent, or unknown. In the end all is known again.
func TestWhatWasMissedIsUnknown(t *testing.T) {
	knownAgain, unknowns := 0, 0
	for seed := range uint64(200) {
		s, r := newSender(seed), both(usual)[seed%2]
		for i := range 120 {
			block, sent := s.block(t)
			if i < 10 || i < 60 && s.rnd.IntN(4) == 0 {
				r.Forget()
				continue
			}
			got := r.read(t, s.rnd, block)
			missed := requireRight(t, r.want(sent), got)
			unknowns += missed
			if i == 119 && missed == 0 {
				knownAgain++
			}
		}
	}
	require.Greater(t, knownAgain, 180, "of 200: what is in the table since before is thrown out some day")
	require.Greater(t, unknowns, 1000, "it was tested")
}

// TestASmallTableKnowsLess checks that what there is no room for is unknown, not wrong.
func TestASmallTableKnowsLess(t *testing.T) {
	unknowns := 0
	for seed := range uint64(100) {
		s, r := newSender(seed), both(hpack.Limits{Table: 256, Text: 100})[seed%2]
		r.Begin()
		for range 60 {
			block, sent := s.block(t)
			unknowns += requireRight(t, r.want(sent), r.read(t, s.rnd, block))
			require.LessOrEqual(t, r.Held(), 4<<10)
		}
	}
	require.Greater(t, unknowns, 1000, "it was tested")
}

func TestTheStaticTableIsThatOfTheRFC(t *testing.T) {
	wanted := map[string]hpack.Tag{}
	var fields []xhpack.HeaderField
	for i := 1; i <= 61; i++ {
		all, err := xhpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(i)})
		require.NoError(t, err)
		fields = append(fields, all...)
		wanted[all[0].Name] = hpack.Tag(i)
	}
	set := hpack.NewNames(wanted)
	for i, f := range fields {
		var got hpack.Field
		d := hpack.NewDecoder(set, usual, func(f *hpack.Field) { got = *f })
		require.NoError(t, d.Write([]byte{0x80 | byte(i+1)}))
		require.Equal(t, wanted[f.Name], got.Tag)
		require.Equal(t, f.Value, string(got.Value))
		require.True(t, got.Known)
	}
}

func TestBlocksThatBreakTheRules(t *testing.T) {
	for name, block := range map[string]string{
		"place zero":                "\x80",
		"a number without end":      "\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"a number of 42 bits":       "\xff\x80\x80\x80\x80\x80\x01",
		"a name without end":        "\x40\x7f\xff\xff\xff\x7f",
		"Huffman's end within":      "\x44\x84\xff\xff\xff\xff",
		"padding that is not ones":  "\x44\x81\x00",
		"padding of a byte or more": "\x44\x83\x1f\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, newReader(usual).Write([]byte(block)), hpack.ErrInvalid)
		})
	}
	for name, block := range map[string]string{"within a number": "\xff", "within a value": "\x44\x05/ab", "within a name": "\x40\x05ab"} {
		t.Run(name, func(t *testing.T) {
			r := newReader(usual)
			require.NoError(t, r.Write([]byte(block)))
			require.ErrorIs(t, r.End(), hpack.ErrInvalid)
		})
	}
}

// TestALongValueIsPassedOver checks that it takes no memory and that what follows is right.
func TestALongValueIsPassedOver(t *testing.T) {
	for _, parts := range []int{1, 3, 1000} {
		s, r := newSender(1), newReader(hpack.Limits{Table: 4 << 10, Text: 100})
		require.NoError(t, s.enc.WriteField(xhpack.HeaderField{Name: ":path", Value: "/" + strings.Repeat("\x02", 1<<20)}))
		require.NoError(t, s.enc.WriteField(xhpack.HeaderField{Name: "x-wanted", Value: "v"}))
		require.NoError(t, s.enc.WriteField(xhpack.HeaderField{Name: "x-wanted", Value: "v"}))
		block := s.out.Bytes()
		for i := range parts {
			require.NoError(t, r.Write(block[len(block)*i/parts:len(block)*(i+1)/parts]))
		}
		require.NoError(t, r.End())
		require.Equal(t, []string{":path: *", "x-wanted: v", "x-wanted: v"}, r.fields)
		require.Less(t, r.Held(), 4<<10)
	}
}

// TestABombIsBounded checks that a block of places of a long field takes no memory.
func TestABombIsBounded(t *testing.T) {
	s := newSender(1)
	require.NoError(t, s.enc.WriteField(xhpack.HeaderField{Name: "x-wanted", Value: strings.Repeat("b", 4000)}))
	bomb := append(s.out.Bytes(), bytes.Repeat([]byte{0x80 | 62}, 1<<20)...)
	reported := 0
	d := hpack.NewDecoder(names, usual, func(f *hpack.Field) {
		reported++
		require.Len(t, f.Value, 4000)
	})
	require.NoError(t, d.Write(bomb))
	require.Equal(t, 1<<20+1, reported)
	require.Less(t, d.Held(), 16<<10)
}

func TestReadingAllocatesNothing(t *testing.T) {
	s := newSender(9)
	var blocks [][]byte
	for range 400 {
		block, _ := s.block(t)
		blocks = append(blocks, block)
	}
	for _, all := range []bool{false, true} {
		reported := 0
		d := hpack.NewDecoder(names, usual, func(*hpack.Field) { reported++ })
		if all {
			d.ReportAll()
		}
		read := func() {
			d.Begin()
			for _, block := range blocks {
				require.NoError(t, d.Write(block))
			}
		}
		read()
		require.Less(t, testing.AllocsPerRun(20, read), 2.0, "of 400 blocks")
		require.Positive(t, reported)
	}
}

// FuzzDecoder gives blocks as they come, with some missed, to this decoder and to that of golang.org/x/net: what is reported is what the
// other says, or unknown.
func FuzzDecoder(f *testing.F) {
	s := newSender(4)
	for range 4 {
		block, _ := s.block(f)
		f.Add(block, uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		limits := hpack.Limits{Table: 1 << 10, Text: 256}
		r := both(limits)[seed%2]
		r.Begin()
		theirs := xhpack.NewDecoder(hpack.DefaultTableSize, nil)
		theirs.SetAllowedMaxDynamicTableSize(1<<32 - 1)
		for len(data) > 0 {
			n := 1 + rnd.IntN(len(data))
			block := data[:n]
			data = data[n:]
			fields, err := theirs.DecodeFull(block)
			if err != nil {
				r.Forget()
				require.Less(t, r.Held(), 16<<10)
				return // they read no further either
			}
			if rnd.IntN(4) == 0 {
				r.Forget()
				continue
			}
			r.fields = nil
			for len(block) > 0 {
				n := 1 + rnd.IntN(len(block))
				require.NoError(t, r.Write(block[:n]))
				block = block[n:]
			}
			require.NoError(t, r.End())
			requireRight(t, r.want(fields), r.fields)
			require.Less(t, r.Held(), 16<<10)
		}
	})
}

func BenchmarkBlock(b *testing.B) {
	s := newSender(9)
	for _, f := range [][2]string{
		{":method", "GET"}, {":path", "/api/v1/customers/4711/orders?status=open&page=2&sort=-created"}, {"x-noise", "gzip"}, {"user-agent", "Go-http-client/2.0"},
		{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	} {
		require.NoError(b, s.enc.WriteField(xhpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}))
	}
	block := s.out.Bytes()
	d := hpack.NewDecoder(names, usual, func(*hpack.Field) {})
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Write(block); err != nil {
			b.Fatal(err)
		}
	}
}
