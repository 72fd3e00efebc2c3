// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package store

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Instructions of arm64 that change the stack of calls, and their encodings: Arm ARM, C6.2.
const (
	armBL, armBLMask   = 0x94000000, 0xfc000000
	armBLR, armBLRMask = 0xd63f0000, 0xfffffc1f
	armRET, armRETMask = 0xd65f0000, 0xfffffc1f
	armSVC             = 0xd4000001
	armSigreturn       = 139
	armStackMax        = 8192 // bytes of a recorded stack; a signal frame has some 4,600
)

// stub talks to the debugger's stub of qemu-aarch64: GDB manual, appendix E.
type stub struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (s *stub) ask(packet string) string {
	sum := byte(0)
	for _, c := range []byte(packet) {
		sum += c
	}
	_, err := fmt.Fprintf(s.conn, "$%s#%02x", packet, sum)
	require.NoError(s.t, err)
	_, err = s.in.ReadString('$') // after the acknowledgement
	require.NoError(s.t, err)
	reply, err := s.in.ReadString('#')
	require.NoError(s.t, err)
	_, err = s.in.Discard(2)
	require.NoError(s.t, err)
	_, err = s.conn.Write([]byte("+"))
	require.NoError(s.t, err)
	return strings.TrimSuffix(reply, "#")
}

func (s *stub) bytes(packet string) []byte {
	b, err := hex.DecodeString(s.ask(packet))
	require.NoError(s.t, err, packet)
	return b
}

// memory reads in chunks that fit into a packet.
func (s *stub) memory(at, size uint64) (out []byte) {
	for size > 0 {
		n := min(size, 1024)
		out = append(out, s.bytes(fmt.Sprintf("m%x,%x", at, n))...)
		at, size = at+n, size-n
	}
	return out
}

// armRegisters are x0 to x30, sp and pc.
type armRegisters [33]uint64

func (s *stub) registers() (r armRegisters) {
	b := s.bytes("g")
	for i := range r {
		r[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return r
}

// emulated starts a program that waits for its debugger.
func emulated(t *testing.T, program string) *stub {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "gdb")
	cmd := exec.Command("qemu-aarch64", "-g", socket, program)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	var conn net.Conn
	require.Eventually(t, func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", socket)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	t.Cleanup(func() { _ = conn.Close() }) // qemu may have done so
	return &stub{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// armShadow is the stack of calls, the innermost last.
type armShadow struct{ calls []uint64 }

// follow records what an instruction has done.
func (a *armShadow) follow(code uint32, before, after armRegisters) {
	top := len(a.calls) - 1
	switch {
	case code&armBLMask == armBL, code&armBLRMask == armBLR:
		a.calls = append(a.calls, before[32]+4)
	case code&armRETMask == armRET && top >= 0 && a.calls[top] == after[32]:
		a.calls = a.calls[:top]
	case code == armSVC && before[8] == armSigreturn:
		a.calls = a.calls[:top]
	}
}

// frames are the stack, the innermost first.
func (a *armShadow) frames(pc uint64) []uint64 {
	out := []uint64{pc}
	for i := len(a.calls) - 1; i >= 0; i-- {
		out = append(out, a.calls[i])
	}
	return out
}

// recordARM64 takes the stack of every instruction when it is first executed.
func recordARM64(t *testing.T, program string) (records []byte) {
	t.Helper()
	s, shadow, visited := emulated(t, program), armShadow{}, map[uint64]bool{}
	s.ask("?")
	now := s.registers()
	top := now[31] + 64
	for step := "vCont;s"; len(visited) < 10_000; {
		pc, sp := now[32], now[31]
		code := binary.LittleEndian.Uint32(s.memory(pc, 4))
		if !visited[pc] && top-sp <= armStackMax {
			records = appendARM64(records, now, s.memory(sp, top-sp), shadow.frames(pc))
		}
		visited[pc] = true
		reply := s.ask(step)
		if reply[0] == 'W' {
			require.Equal(t, "W00", reply[:3])
			return records
		}
		before, delivered := now, step != "vCont;s"
		now, step = s.registers(), "vCont;s"
		switch {
		case delivered:
			shadow.calls = append(shadow.calls, before[32], now[30]) // what was interrupted; where the handler returns to
		default:
			shadow.follow(code, before, now)
		}
		if !strings.HasPrefix(reply, "T05") {
			step = "vCont;S" + reply[1:3] // the next step delivers the signal
		}
	}
	require.Fail(t, "the program does not end")
	return nil
}

func appendARM64(to []byte, r armRegisters, stack []byte, frames []uint64) []byte {
	words := [recordWords]uint64{r[32], r[31], r[29], r[30]}
	words[recordWords-1] = r[31]
	for _, w := range words {
		to = binary.LittleEndian.AppendUint64(to, w)
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(len(stack)))
	to = binary.LittleEndian.AppendUint32(to, uint32(len(frames)))
	to = append(to, stack...)
	for _, f := range frames {
		to = binary.LittleEndian.AppendUint64(to, f)
	}
	return to
}

// TestGenerateRecordsARM64 is TestGenerateRecords for arm64, by an emulator.
func TestGenerateRecordsARM64(t *testing.T) {
	if os.Getenv("EBPFRECEIVER_RECORD") == "" {
		t.Skip("the records are kept as they are; EBPFRECEIVER_RECORD=1 takes them anew")
	}
	dir := t.TempDir()
	program, records := filepath.Join(dir, "recorded"), filepath.Join(dir, "records")
	compile(t, "aarch64-linux-gnu-gcc", append(recordFlags, "-o", program, "testdata/recorded.c")...)
	if _, err := exec.LookPath("qemu-aarch64"); err != nil {
		t.Skipf("no emulator: %v", err)
	}
	require.NoError(t, os.WriteFile(records, recordARM64(t, program), 0o600))
	writeRecords(t, "testdata/recorded-arm64.zip", program, records)
}
