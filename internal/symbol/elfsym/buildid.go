// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	MaxNotes   = 64 << 10 // bytes of one note segment
	maxBuildID = 64       // bytes of a GNU build id, of which 20 are usual
	noteGNU    = 3        // NT_GNU_BUILD_ID
	noteGo     = 4        // ELF_NOTE_GOBUILDID_TAG of cmd/link
	HashedPart = 4096     // bytes of head and tail in the HTL hash
)

// BuildIDOf reads all identities of a binary. Without notes there is still the hash.
func BuildIDOf(f *elfimage.File) (model.BuildID, error) {
	var id model.BuildID
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes := make([]byte, min(p.Filesz, MaxNotes))
		if err := f.Read(notes, p.Off); err != nil {
			return id, fmt.Errorf("notes: %w", err)
		}
		ParseNotes(notes, &id)
	}
	var err error
	id.HTLHash, err = htlHash(f.Image)
	return id, err
}

// ParseNotes takes the build ids from a sequence of ELF notes, each a name
// and a descriptor padded to four bytes; see elf(5).
func ParseNotes(b []byte, id *model.BuildID) {
	for len(b) >= 12 {
		namesz, descsz, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		b = b[12:]
		name, desc := namesz, (namesz+3)&^3
		next := desc + (descsz+3)&^3
		if desc+descsz > uint64(len(b)) {
			return
		}
		switch {
		case kind == noteGNU && string(b[:name]) == "GNU\x00" && descsz <= maxBuildID:
			id.GNU = hex.EncodeToString(b[desc : desc+descsz])
		case kind == noteGo && string(b[:name]) == "Go\x00\x00" && descsz <= 4*maxBuildID:
			id.Go = printable(b[desc : desc+descsz])
		}
		b = b[min(next, uint64(len(b))):]
	}
}

// printable reduces untrusted text to printable ASCII.
func printable(b []byte) string {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c > ' ' && c < 0x7f {
			out = append(out, c)
		}
	}
	return string(out)
}

// htlHash is process.executable.build_id.htlhash of OpenTelemetry's profiles
// specification: the first 16 bytes of the SHA-256 of the first and the last
// 4096 bytes (which may overlap) and the length as a big-endian uint64.
func htlHash(m elfimage.Image) (string, error) {
	n := min(m.Size, HashedPart)
	buf := make([]byte, 2*n+8)
	if err := m.Read(buf[:n], 0); err != nil {
		return "", fmt.Errorf("hashing the head: %w", err)
	}
	if err := m.Read(buf[n:2*n], m.Size-n); err != nil {
		return "", fmt.Errorf("hashing the tail: %w", err)
	}
	for i := range 8 {
		buf[2*n+uint64(i)] = byte(m.Size >> (56 - 8*i))
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:16]), nil
}
