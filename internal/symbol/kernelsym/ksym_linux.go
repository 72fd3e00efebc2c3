// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"bytes"
	enc "encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The map that is shared with the programs: the number of addresses, the
// addresses, and a text for each. The kernel's longest name is 512 bytes; the
// offset, the size and the name of a module (64) follow it.
const (
	ksymBatch     = 32
	ksymTextBytes = 640
	ksymAddresses = 8
	ksymTexts     = ksymAddresses + 8*ksymBatch
	ksymBytes     = ksymTexts + ksymTextBytes*ksymBatch
)

// Program asks the kernel itself for the names of its addresses, by a BPF program that user space runs: it names only sampled addresses, at 1
// µs each, while reading all of /proc/kallsyms takes 30 ms. It works when kernel.kptr_restrict hides that file, too. It needs CAP_BPF and
// CAP_PERFMON and Linux 5.16.
type Program struct {
	shared  *ebpf.Map
	format  *ebpf.Map
	program *ebpf.Program
	memory  []byte // of shared
	text    Span   // _text to _etext; empty if the kernel hides its addresses
}

// Open loads the programs and finds the kernel's text.
func Open() (_ Asker, err error) {
	k := &Program{}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Close())
		}
	}()
	if err := k.makeMaps(); err != nil {
		return nil, err
	}
	if k.text, err = k.findText(); err != nil {
		return nil, err
	}
	if k.program, err = loadKsym("ksym_names", k.naming()); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Program) makeMaps() (err error) {
	k.shared, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "ksym_shared", Type: ebpf.Array, Flags: unix.BPF_F_MMAPABLE, KeySize: 4, ValueSize: ksymBytes, MaxEntries: 1,
	})
	if err != nil {
		return fmt.Errorf("creating the map ksym_shared: %w", err)
	}
	k.memory, err = unix.Mmap(k.shared.FD(), 0, ksymBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the map ksym_shared: %w", err)
	}
	// The helper takes a format only from a map that no process can write.
	k.format, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "ksym_format", Type: ebpf.Array, Flags: unix.BPF_F_RDONLY_PROG, KeySize: 4, ValueSize: 4, MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: [4]byte{'%', 'p', 'S'}}},
	})
	if err != nil {
		return fmt.Errorf("creating the map ksym_format: %w", err)
	}
	if err := k.format.Freeze(); err != nil {
		return fmt.Errorf("freezing the map ksym_format: %w", err)
	}
	return nil
}

// naming is the program that prints the addresses: for each of them
//
//	if (count <= i) return 0;
//	bpf_snprintf(shared->texts[i], sizeof(shared->texts[i]), "%pS", &shared->addresses[i], 8);
func (k *Program) naming() asm.Instructions {
	fd := k.shared.FD()
	p := asm.Instructions{
		asm.LoadMapValue(asm.R6, fd, 0),
		asm.LoadMem(asm.R6, asm.R6, 0, asm.DWord),
	}
	for i := range uint32(ksymBatch) {
		p = append(p,
			asm.JLE.Imm(asm.R6, int32(i), "done"),
			asm.LoadMapValue(asm.R1, fd, ksymTexts+i*ksymTextBytes),
			asm.Mov.Imm(asm.R2, ksymTextBytes),
			asm.LoadMapValue(asm.R3, k.format.FD(), 0),
			asm.LoadMapValue(asm.R4, fd, ksymAddresses+i*8),
			asm.Mov.Imm(asm.R5, 8),
			asm.FnSnprintf.Call(),
		)
	}
	return append(p, asm.Mov.Imm(asm.R0, 0).WithSymbol("done"), asm.Return())
}

// finding is the program that finds the addresses of names, of which the i-th is in the i-th text: for each of them
//
//	err = bpf_kallsyms_lookup_name(shared->texts[i], strlen + 1, 0, &shared->addresses[i]);
//	if (err) return err;
func (k *Program) finding(names []string) asm.Instructions {
	fd := k.shared.FD()
	p := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	for i, name := range names {
		p = append(p,
			asm.LoadMapValue(asm.R1, fd, ksymTexts+uint32(i)*ksymTextBytes),
			asm.Mov.Imm(asm.R2, int32(len(name)+1)),
			asm.Mov.Imm(asm.R3, 0),
			asm.LoadMapValue(asm.R4, fd, ksymAddresses+uint32(i)*8),
			asm.FnKallsymsLookupName.Call(),
			asm.JNE.Imm(asm.R0, 0, "done"),
		)
	}
	return append(p, asm.Return().WithSymbol("done"))
}

func loadKsym(name string, instructions asm.Instructions) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.Syscall, Flags: unix.BPF_F_SLEEPABLE, License: "GPL", Instructions: instructions,
	})
	if err != nil {
		return nil, fmt.Errorf("loading the program %s: %w", name, err)
	}
	return p, nil
}

// runKsym runs a program, which returns 0 or a negative errno.
func runKsym(p *ebpf.Program) error {
	result, err := p.Run(&ebpf.RunOptions{})
	if err == nil && result != 0 {
		err = unix.Errno(-int32(result))
	}
	return err
}

// findText returns the bounds of the kernel's text, or none if the kernel hides its addresses.
func (k *Program) findText() (text Span, err error) {
	names := []string{"_text", "_etext"}
	for i, name := range names {
		copy(k.textAt(i), name+"\x00")
	}
	p, err := loadKsym("ksym_text", k.finding(names))
	if err != nil {
		return Span{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := runKsym(p); errors.Is(err, unix.EPERM) {
		return Span{}, nil
	} else if err != nil {
		return Span{}, fmt.Errorf("finding the kernel's text: %w", err)
	}
	text = Span{k.addressAt(0), k.addressAt(1)}
	if text.Start == 0 || text.End <= text.Start {
		return Span{}, errors.New("finding the kernel's text: its end lies before its start")
	}
	return text, nil
}

// Text is the range of the kernel's own code; empty if the kernel hides its addresses.
func (k *Program) Text() Span { return k.text }

// Ask names addresses: out[i] becomes the function at pcs[i].
func (k *Program) Ask(pcs []uint64, out []Function) error {
	for len(pcs) > 0 {
		n := min(len(pcs), ksymBatch)
		enc.NativeEndian.PutUint64(k.memory, uint64(n))
		for i, pc := range pcs[:n] {
			enc.NativeEndian.PutUint64(k.memory[ksymAddresses+8*i:], pc)
		}
		if err := runKsym(k.program); err != nil {
			return fmt.Errorf("asking the kernel for names: %w", err)
		}
		for i, pc := range pcs[:n] {
			out[i] = parseKernelFunction(pc, untilZero(k.textAt(i)))
		}
		pcs, out = pcs[n:], out[n:]
	}
	return nil
}

func (k *Program) addressAt(i int) uint64 {
	return enc.NativeEndian.Uint64(k.memory[ksymAddresses+8*i:])
}

func (k *Program) textAt(i int) []byte {
	at := ksymTexts + i*ksymTextBytes
	return k.memory[at : at+ksymTextBytes]
}

func untilZero(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}

// Close unloads the program. It may be called for a partly opened one.
func (k *Program) Close() error {
	var errs []error
	if k.program != nil {
		errs = append(errs, k.program.Close())
	}
	if k.memory != nil {
		errs = append(errs, unix.Munmap(k.memory))
	}
	for _, m := range []*ebpf.Map{k.shared, k.format} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
