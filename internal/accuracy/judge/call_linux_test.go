// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"debug/elf"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMD64Call(t *testing.T) {
	for _, c := range []struct {
		name string
		code []byte
		want bool
	}{
		{"call rel32", []byte{0xe8, 1, 2, 3, 4}, true},
		{"call *%rax", []byte{0xff, 0xd0}, true},
		{"call *%r11", []byte{0x41, 0xff, 0xd3}, true},
		{"call *8(%rax)", []byte{0xff, 0x50, 8}, true},
		{"call *(%rsp)", []byte{0xff, 0x14, 0x24}, true},
		{"call *0x100(%rip)", []byte{0xff, 0x15, 0, 1, 0, 0}, true},
		{"call *0(,%rax,8)", []byte{0xff, 0x14, 0xc5, 0, 0, 0, 0}, true},
		{"call *0x18(%rsp)", []byte{0xff, 0x54, 0x24, 0x18}, true},
		{"call *0x200(%rax,%rbx,8)", []byte{0xff, 0x94, 0xd8, 0, 2, 0, 0}, true},
		{"jmp *%rax", []byte{0xff, 0xe0}, false},
		{"push (%rax)", []byte{0xff, 0x30}, false},
		{"nops", []byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, false},
		{"nothing", nil, false},
	} {
		require.Equal(t, c.want, amd64Call(c.code), c.name)
	}
}

var instruction = regexp.MustCompile(`^\s*([0-9a-f]+):\t([0-9a-f ]+)\t(\S+)`)

// TestCallsAgainstObjdump holds every call of a program, as objdump finds them, to be one, and counts what else passes: a
// byte sequence may look like a call without being one.
func TestCallsAgainstObjdump(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	m, err := openImage(exe)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	if m.machine != elf.EM_X86_64 {
		t.Skip("the instructions are those of amd64")
	}
	start := m.file.Section(".text").Addr
	out, err := exec.Command("objdump", "-d", "--start-address="+strconv.FormatUint(start, 10),
		"--stop-address="+strconv.FormatUint(start+200_000, 10), exe).Output()
	if err != nil {
		t.Skipf("objdump of binutils is needed: %v", err)
	}
	calls, others, mistaken := 0, 0, 0
	for line := range strings.Lines(string(out)) {
		parts := instruction.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		address, err := strconv.ParseUint(parts[1], 16, 64)
		require.NoError(t, err)
		size := uint64(len(strings.Fields(parts[2])))
		if size >= 7 {
			continue // objdump breaks long instructions into two lines
		}
		follows, known := m.returns(address + size - 1)
		switch {
		case address < start+longestCall:
		case parts[3] == "call" || parts[3] == "rex" && strings.Contains(line, "call"):
			calls++
			require.True(t, known && follows, "%s", line)
		default:
			others++
			if follows {
				mistaken++
			}
		}
	}
	t.Logf("%d calls, %d other instructions, of which %d look like calls", calls, others, mistaken)
	require.Greater(t, calls, 1000)
	require.Less(t, float64(mistaken)/float64(others), 0.01)
}
