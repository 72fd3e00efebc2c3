// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// truth is a function as readelf shows it.
type truth struct {
	start, end uint64
	signal     bool
	rows       []truthRow
}

// truthRow has the columns of one row in readelf's notation; one that is not
// shown is empty.
type truthRow struct {
	pc              uint64
	cfa, fp, ra, bx string
}

// readelf lists the functions of one section of a file, those without code at
// address 0 left out.
func readelf(t testing.TB, path, section string) []truth {
	t.Helper()
	cmd := exec.Command("readelf", "--debug-dump=frames-interp", path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := readelfParser{section: section, cies: map[string]truth{}}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		require.NoError(t, p.line(lines.Text()))
	}
	require.NoError(t, lines.Err())
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	err = cmd.Wait() // it exits with 1, silently, if a separate debug file is missing
	require.True(t, err == nil || cmd.ProcessState.ExitCode() == 1, "%v", err)
	p.flush()
	return p.out
}

// readelfParser reads the output of --debug-dump=frames-interp line by line.
type readelfParser struct {
	section string
	in      bool
	cies    map[string]truth
	cie     string // offset of the CIE being read
	cur     *truth
	inherit []truthRow
	columns []string
	out     []truth
}

func (p *readelfParser) line(l string) error {
	f := slices.DeleteFunc(strings.Fields(l), func(s string) bool { return s[0] == '(' }) // r9 (r9)
	switch {
	case strings.HasPrefix(l, "Contents of the "):
		p.flush()
		p.in = f[3] == p.section
	case !p.in || len(f) == 0:
	case len(f) > 4 && f[3] == "CIE":
		p.flush()
		p.cie, p.cur = strings.TrimLeft(f[0], "0"), &truth{signal: strings.Contains(f[4], "S")}
	case len(f) > 5 && f[3] == "FDE":
		return p.function(f)
	case f[0] == "LOC":
		p.columns = f
	case p.cur != nil && len(f) == len(p.columns):
		return p.row(f)
	}
	return nil
}

func (p *readelfParser) function(f []string) error {
	p.flush()
	cie := p.cies[strings.TrimLeft(strings.TrimPrefix(f[4], "cie="), "0")]
	p.cur = &truth{signal: cie.signal}
	p.inherit = cie.rows
	_, err := fmt.Sscanf(f[5], "pc=%x..%x", &p.cur.start, &p.cur.end)
	return err
}

func (p *readelfParser) row(f []string) error {
	pc, err := strconv.ParseUint(f[0], 16, 64)
	if err != nil {
		return err
	}
	r := truthRow{pc: pc}
	for i, name := range p.columns[1:] {
		switch name {
		case "CFA":
			r.cfa = f[i+1]
		case "rbp", "x29":
			r.fp = f[i+1]
		case "ra":
			r.ra = f[i+1]
		case "rbx":
			r.bx = f[i+1]
		}
	}
	p.cur.rows = append(p.cur.rows, r)
	return nil
}

// flush keeps what was read last.
func (p *readelfParser) flush() {
	switch {
	case p.cur == nil:
	case p.cie != "":
		p.cies[p.cie] = *p.cur
	case p.cur.end > p.cur.start && p.cur.start != 0:
		if len(p.cur.rows) == 0 {
			for _, r := range p.inherit {
				r.pc = p.cur.start
				p.cur.rows = append(p.cur.rows, r)
			}
		}
		p.out = append(p.out, *p.cur)
	}
	p.cie, p.cur, p.columns = "", nil, nil
}

// registers are readelf's names of the DWARF registers of x86-64.
var registers = []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}

// agrees reports whether a rule is equal to a row of readelf, as far as that goes: for expressions it only shows that there is one.
func (r truthRow) agrees(got Rule, signal bool) bool {
	switch {
	case signal:
		return got == Rule{CFA: CFASignal}
	case r.ra == "u":
		return got == Rule{CFA: CFAEnd}
	case !strings.HasPrefix(r.ra, "c"):
		return got == Rule{} // in a register, as in longjmp
	case r.cfa == "exp":
		switch got.CFA {
		case CFANone, CFAPLT, CFAFramePointerDeref, CFAStackPointerDeref:
			return true
		}
		return false
	}
	return r.cfaText(got) == r.cfa && r.sameFP(got) && r.sameBX(got) && fmt.Sprintf("c%+d", got.RAOffset) == r.ra && got.RA == Saved
}

func (truthRow) cfaText(got Rule) string {
	switch {
	case got.CFA == CFAStackPointer:
		return fmt.Sprintf("rsp%+d", got.CFAOffset)
	case got.CFA == CFAFramePointer:
		return fmt.Sprintf("rbp%+d", got.CFAOffset)
	case got.CFA >= CFARegister && int(got.CFA-CFARegister) < len(registers):
		return fmt.Sprintf("%s%+d", registers[got.CFA-CFARegister], got.CFAOffset)
	}
	return got.String()
}

func (r truthRow) sameBX(got Rule) bool {
	switch {
	case r.bx == "" || r.bx == "s":
		return got.BX == Same
	case r.bx == "u":
		return got.BX == Same || got.BX == Undefined
	case strings.HasPrefix(r.bx, "c"):
		return got.BX == Saved && r.bx == fmt.Sprintf("c%+d", got.BXOffset)
	}
	return got.BX == Undefined
}

func (r truthRow) sameFP(got Rule) bool {
	switch {
	case r.fp == "" || r.fp == "s":
		return got.FP == Same
	case r.fp == "u": // not distinguishable from never mentioned, which means the same value
		return got.FP == Same || got.FP == Undefined
	case strings.HasPrefix(r.fp, "c"):
		return got.FP == Saved && r.fp == fmt.Sprintf("c%+d", got.FPOffset)
	case r.fp == "exp":
		return got.FP == SavedAtFP || got.FP == Undefined
	}
	return got.FP == Undefined // in a register, or computed
}
