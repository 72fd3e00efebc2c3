// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"
)

const (
	// readBytes is how much is read at once.
	readBytes = 64 << 10
	// maxGoTable bounds the memory for the list of a program's functions.
	maxGoTable = 64 << 20
	// maxGoCode bounds the code of a function that is scanned, in bytes.
	maxGoCode = 1 << 20
	// checkBytes has the instructions of a function of Go that load its goroutine.
	checkBytes = 16
)

// Find returns the functions of a TLS library in a binary; none if it has no such library, or is for another machine. The caller adds the
// path to the error.
func Find(image elfimage.Image) (Found, error) {
	file, err := elfimage.Parse(image)
	if err != nil {
		return Found{}, err
	}
	if !file.Is64 || file.Machine != machine {
		return Found{}, nil
	}
	sections, err := file.Sections()
	if err != nil {
		return Found{}, err
	}
	buf := make([]byte, readBytes)
	// A program into which a library is linked may have exported its names, or kept them.
	for _, look := range []func() (Found, error){
		func() (Found, error) { return findC(file, sections, elf.SHT_DYNSYM, buf) },
		func() (Found, error) { return findGo(file, sections, buf) },
		func() (Found, error) { return findC(file, sections, elf.SHT_SYMTAB, buf) },
		func() (Found, error) { return findStripped(file, sections, buf) },
	} {
		found, err := look()
		if err != nil || found.Library == Go {
			return found, err
		}
		if found.Library != "" {
			found.Rustls, err = hasRustls(file, sections, buf)
			return found, err
		}
	}
	rustls, err := hasRustls(file, sections, buf)
	return Found{Rustls: rustls}, err
}

// findC searches the symbol tables of one kind.
func findC(file *elfimage.File, sections []elfimage.Section, kind elf.SectionType, buf []byte) (Found, error) {
	var openssl, early, gnutls []Function
	boring, node, java, old := false, false, false, false
	err := file.EachFunction(sections, kind, buf, func(name []byte, address uint64) {
		openssl = add(openssl, openSSL, file, name, address)
		early = add(early, openSSLBefore1_1, file, name, address)
		gnutls = add(gnutls, gnuTLS, file, name, address)
		boring = boring || string(name) == ofBoringSSL
		node = node || string(name) == ofNode
		java = java || string(name) == ofJava
		old = old || string(name) == before1_1
	})
	if old && !boring {
		openssl = append(openssl, early...)
	}
	switch {
	case err != nil:
		return Found{}, err
	case complete(openssl, Read, Write) && boring:
		return Found{Library: BoringSSL, Functions: sorted(openssl)}, nil
	case complete(openssl, Read, Write) && node:
		return Found{Library: Node, Functions: sorted(openssl)}, nil
	case complete(openssl, Read, Write):
		return Found{Library: OpenSSL, Functions: sorted(openssl)}, nil
	case complete(gnutls, Read, Write):
		return Found{Library: GnuTLS, Functions: sorted(gnutls)}, nil
	case java:
		return Found{Library: Java}, nil
	}
	return Found{}, nil
}

// add adds a function whose name is among the wanted ones, once.
func add(to []Function, calls map[string]Call, file *elfimage.File, name []byte, address uint64) []Function {
	call, ok := calls[string(name)]
	if !ok {
		return to
	}
	offset, inFile := file.OffsetOf(address)
	if !inFile || slices.ContainsFunc(to, func(f Function) bool { return f.Offset == offset }) {
		return to
	}
	return append(to, Function{Name: string(name), Call: call, Offset: offset})
}

func sorted(functions []Function) []Function {
	slices.SortFunc(functions, func(a, b Function) int { return cmp.Compare(a.Offset, b.Offset) })
	return functions
}

// findGo searches the tables of a program of Go. With an error it reports whether crypto/tls is in it.
func findGo(file *elfimage.File, sections []elfimage.Section, buf []byte) (Found, error) {
	var functions []Function
	var failed error
	entries := map[Call]uint64{}
	release, err := file.EachGoFunction(sections, buf, maxGoTable, func(name string, entry, end uint64) {
		call, ok := goTLS[name]
		if !ok || failed != nil {
			return
		}
		offset, inFile := file.OffsetOf(entry)
		if !inFile {
			return
		}
		entries[call] = offset
		f := Function{Name: name, Call: call}
		if f.Offset, f.Returns, failed = once(file, offset, end-entry); failed != nil {
			failed = fmt.Errorf("looking for where %s begins and returns: %w", name, failed)
			return
		}
		if len(f.Returns) == 0 {
			return // where such an instruction begins cannot be determined
		}
		functions = append(functions, f)
	})
	read, reads := entries[GoRead]
	_, writes := entries[GoWrite]
	switch {
	case err != nil:
		return Found{}, err
	case !reads || !writes:
		return Found{}, nil
	case failed != nil, !complete(functions, GoRead, GoWrite):
		return Found{Library: Go}, failed
	case !release.Registers(file.Machine):
		return old(file, release, sorted(functions), read)
	}
	return Found{Library: Go, Functions: sorted(functions)}, nil
}

// old returns what is found of a program of Go whose functions have their arguments on the stack; entry is the offset of one of them in the
// file.
func old(file *elfimage.File, release elfimage.GoRelease, functions []Function, entry uint64) (Found, error) {
	for i := range functions {
		functions[i].Call = oldGo[functions[i].Call]
	}
	found := Found{Library: Go, Functions: functions, OnStack: true}
	if file.Machine != elf.EM_X86_64 {
		return found, nil // a register has the goroutine
	}
	code := make([]byte, checkBytes)
	err := file.Read(code, entry)
	if err == nil {
		found.GoroutineAt, err = disasm.GoroutineAt(code)
	}
	if err != nil {
		return Found{Library: Go}, fmt.Errorf("built by %v: looking for where goroutines are: %w", release, err)
	}
	return found, nil
}

// once returns the offsets in the file of instructions of a function of Go, of size bytes, that run once in each call: the first one behind
// the check of the stack, and those by which it returns.
func once(file *elfimage.File, offset, size uint64) (begins uint64, returns []uint64, err error) {
	if size > maxGoCode {
		return 0, nil, fmt.Errorf("%d bytes of code: %w", size, elfimage.ErrTooLarge)
	}
	code := make([]byte, size)
	if err := file.Read(code, offset); err != nil {
		return 0, nil, err
	}
	begins, err = disasm.BehindStackCheck(file.Machine, code)
	if err != nil {
		return 0, nil, err
	}
	returns, err = disasm.Returns(file.Machine, code)
	for i := range returns {
		returns[i] += offset
	}
	return begins + offset, returns, err
}
