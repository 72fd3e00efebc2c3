// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

const maxModulesBytes = 4 << 20

// files are those of the kernel below a root directory.
type files struct{ root string }

// cause is an error without the path, which its caller adds.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// kernelFile reads a file of the kernel; parse gets its content.
func (p files) kernelFile(path string, parse func(io.Reader) error) error {
	path = filepath.Join(p.root, path)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, cause(err))
	}
	defer f.Close() //nolint:errcheck // read only
	if err := parse(f); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

func (p files) readAll(path string, limit int64) (b []byte, err error) {
	err = p.kernelFile(path, func(r io.Reader) error {
		b, err = io.ReadAll(io.LimitReader(r, limit))
		return err
	})
	return b, err
}

// modules reads the list of modules, which is empty when the kernel has none.
func (p files) modules() ([]byte, error) {
	b, err := p.readAll("proc/modules", maxModulesBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// kallsyms reads the kernel's symbols; symbols and names are the expected number and bytes of names.
func (p files) kallsyms(symbols, names int) (t *table, err error) {
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
func (p files) noteID(elem ...string) string {
	var id model.BuildID
	if b, err := p.readAll(filepath.Join(elem...), elfsym.MaxNotes); err == nil {
		elfsym.ParseNotes(b, &id)
	}
	return id.GNU
}
