// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const maxModulesBytes = 4 << 20

// stream reads a file of the kernel from its start.
type stream int

func (s stream) Read(buf []byte) (int, error) {
	n, err := read(int(s), buf)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// kernelFile reads a file of the kernel; parse gets what the file holds.
func (p procfs) kernelFile(path string, parse func(io.Reader) error) error {
	path = p.path(path)
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	if err := parse(stream(fd)); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

func (p procfs) readAll(path string, limit int64) (b []byte, err error) {
	err = p.kernelFile(path, func(r io.Reader) error {
		b, err = io.ReadAll(io.LimitReader(r, limit))
		return err
	})
	return b, err
}

// modules reads the list of modules, which is empty when the kernel has none.
func (p procfs) modules() ([]byte, error) {
	b, err := p.readAll("proc/modules", maxModulesBytes)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return b, err
}

// kallsyms reads the kernel's symbols, of which about so many and so many
// bytes of names are expected.
func (p procfs) kallsyms(symbols, names int) (t *kernelTable, err error) {
	err = p.kernelFile("proc/kallsyms", func(r io.Reader) error {
		t, err = parseKallsyms(r, symbols, names)
		return err
	})
	if errors.Is(err, errHidden) {
		restrict, errRead := p.readAll("proc/sys/kernel/kptr_restrict", 16)
		if errRead != nil {
			return nil, errors.Join(err, errRead)
		}
		err = fmt.Errorf("%w (kptr_restrict is %s): grant CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1",
			err, strings.TrimSpace(string(restrict)))
	}
	return t, err
}

// noteID reads a GNU build id from a file of ELF notes, empty when there is none.
func (p procfs) noteID(elem ...string) string {
	var id model.BuildID
	if b, err := p.readAll(filepath.Join(elem...), maxNotes); err == nil {
		parseNotes(b, &id)
	}
	return id.GNU
}
