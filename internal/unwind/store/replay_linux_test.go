// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package store

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// recordWords are the words of a record before its memory's size: registers, and where the memory begins.
const recordWords = 21

// record is a stack: the input of testdata/replay.c, and the frames that it leads to.
type record struct {
	input  []byte
	frames []uint64
}

// walked is what testdata/replay.c finds.
type walked struct {
	end    uint32
	frames []uint64
}

// readRecords reads what testdata/stepper.c has written.
func readRecords(t *testing.T, data []byte) (out []record) {
	t.Helper()
	for len(data) > 0 {
		sizes := data[recordWords*8:]
		memory, frames := int(binary.LittleEndian.Uint32(sizes)), int(binary.LittleEndian.Uint32(sizes[4:]))
		end := recordWords*8 + 8 + memory
		r := record{input: data[:end]}
		for i := range frames {
			r.frames = append(r.frames, binary.LittleEndian.Uint64(data[end+8*i:]))
		}
		out, data = append(out, r), data[end+8*frames:]
	}
	return out
}

// recorded opens a fixture: a program, and its stacks.
func recorded(t *testing.T, arch string) (program []byte, records []record) {
	t.Helper()
	archive, err := zip.OpenReader(filepath.Join("testdata", "recorded-"+arch+".zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, archive.Close()) }()
	read := func(name string) []byte {
		file, err := archive.Open(name)
		require.NoError(t, err)
		data, err := io.ReadAll(file)
		require.NoError(t, err)
		return data
	}
	return read("program"), readRecords(t, read("records"))
}

// fixed is the space of a program that is mapped at its link addresses.
func (h *hosted) fixed(t *testing.T, program []byte) *Space {
	t.Helper()
	space, err := h.NewSpace(h.mappings(t, program))
	require.NoError(t, err)
	return space
}

// mappings lists those of such a program.
func (h *hosted) mappings(t *testing.T, program []byte) (list []Mapping) {
	t.Helper()
	b, err := h.Acquire("program", func() (*unwind.Table, error) { return buildTable(t, program), nil })
	require.NoError(t, err)
	file, err := elf.NewFile(bytes.NewReader(program))
	require.NoError(t, err)
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			list = append(list, Mapping{Start: p.Vaddr &^ 4095, End: (p.Vaddr + p.Memsz + 4095) &^ 4095, Binary: b})
		}
	}
	return list
}

// replay unwinds stacks by a program that includes the unwinder.
func (h *hosted) replay(t *testing.T, program string, space *Space, input []byte) (out []walked) {
	t.Helper()
	cmd := exec.Command(program, h.path, strconv.Itoa(int(space.Handle())))
	var result, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &result, &complaints
	require.NoError(t, cmd.Run(), "%s", &complaints)
	for result.Len() > 0 {
		head := result.Next(8)
		w := walked{end: binary.LittleEndian.Uint32(head[4:])}
		for range binary.LittleEndian.Uint32(head) {
			w.frames = append(w.frames, binary.LittleEndian.Uint64(result.Next(8)))
		}
		out = append(out, w)
	}
	return out
}

// machines are the flags that compile the unwinder of a machine on any other.
var machines = map[string][]string{"amd64": nil, "arm64": {"-D__TARGET_ARCH_arm64"}}

// TestRecorded unwinds recorded stacks, one for each instruction of a program, and compares them with the calls that had led there.
func TestRecorded(t *testing.T) {
	for arch, flags := range machines {
		t.Run(arch, func(t *testing.T) {
			program, records := recorded(t, arch)
			require.Greater(t, len(records), 250)
			h := newHosted(t)
			space := h.fixed(t, program)
			var input []byte
			for _, r := range records {
				input = append(input, r.input...)
			}
			got := h.replay(t, hostedProgram(t, "replay", flags...), space, input)
			require.Len(t, got, len(records))
			for i, r := range records {
				require.Equal(t, walked{0, r.frames}, got[i], "at %#x", r.frames[0])
			}
		})
	}
}

// TestKindIsThatOfTheAddress looks up kinds of code without a rule in turns: the unwinder caches that the same address has none, and its
// current mapping is that of another frame.
func TestKindIsThatOfTheAddress(t *testing.T) {
	const interpreted, compiledAt, interpretedAt, nowhere = Kind(7), 1 << 40, 2 << 40, 3 << 40
	program, records := recorded(t, "amd64")
	h := newHosted(t)
	native := h.mappings(t, program)
	space, err := h.NewSpace(append(native,
		Mapping{Start: compiledAt, End: compiledAt + 4096, Kind: KindCompiled},
		Mapping{Start: interpretedAt, End: interpretedAt + 4096, Kind: interpreted}))
	require.NoError(t, err)
	code := records[0].frames[0]
	args := []string{h.path, strconv.Itoa(int(space.Handle()))}
	want := ""
	for range 3 {
		for _, one := range []struct {
			at   uint64
			kind Kind
			rule bool
		}{
			{compiledAt + 8, KindCompiled, false}, {interpretedAt + 8, interpreted, false}, {code, 0, true},
			{interpretedAt + 8, interpreted, false}, {compiledAt + 8, KindCompiled, false}, {nowhere, 0, false},
		} {
			args = append(args, strconv.FormatUint(one.at, 10))
			want += fmt.Sprintf("%d %t\n", one.kind, one.rule)
		}
	}
	got, err := exec.Command(hostedProgram(t, "kinds"), args...).Output()
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// TestHostileStacks unwinds random stacks by random tables, under the sanitizers: it ends, and reads nothing out of bounds.
func TestHostileStacks(t *testing.T) {
	program, records := recorded(t, "amd64")
	replay := hostedProgram(t, "replay", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-sanitize=alignment", "-g")
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 3))
		h := newHosted(t)
		space := h.fixed(t, program)
		for range int(seed) * 40 { // none of the first seed
			at := random.IntN(3 * chunkBytes)
			if random.IntN(2) == 0 {
				at = hostedChunks*chunkBytes + random.IntN(64*ruleBytes)
			}
			h.shared[at] = byte(random.Uint32())
		}
		var input []byte
		for range 2000 {
			in := slices.Clone(records[random.IntN(len(records))].input)
			for range 1 + random.IntN(12) {
				word := random.IntN(len(in)/8) * 8
				if word == recordWords*8 {
					continue // the size of the memory
				}
				value := random.Uint64() >> random.IntN(64)
				if random.IntN(2) == 0 {
					value = binary.LittleEndian.Uint64(in[8:]) + random.Uint64N(4096) - 1024 // near the stack pointer
				}
				binary.LittleEndian.PutUint64(in[word:], value)
			}
			input = append(input, in...)
		}
		require.Len(t, h.replay(t, replay, space, input), 2000)
	}
}
