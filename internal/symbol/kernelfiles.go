// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"
)

// modulesSeed is for telling one content of /proc/modules from another.
var modulesSeed = maphash.MakeSeed()

// lookUpKernel finds an address in the table, and reads the table when that
// may help.
func (s *Symbolizer) lookUpKernel(pc uint64) kernelFunction {
	k := &s.kernel
	if s.closed || k.asked != nil && k.text.end == 0 {
		return kernelFunction{} // nor would the table tell: the addresses are hidden
	}
	var found kernelFunction
	if k.table != nil {
		found = k.table.function(pc)
	}
	if found.name != "" && found.module != bpfModule {
		return found
	}
	now := s.now()
	age := now.Sub(k.read)
	modules := found.name == "" && k.table != nil && age > moduleInterval
	if !k.read.IsZero() && age <= bpfInterval && !(modules && s.modulesChanged()) {
		return found
	}
	s.loadKernel(now)
	if k.table == nil {
		return kernelFunction{}
	}
	return k.table.function(pc)
}

func (s *Symbolizer) modulesChanged() bool {
	b, err := s.proc.modules()
	return err == nil && maphash.Bytes(modulesSeed, b) != s.kernel.hash
}

// loadKernel reads the table and forgets the frames made of the one before.
func (s *Symbolizer) loadKernel(now time.Time) {
	k := &s.kernel
	if k.asked == nil {
		s.forgetKernel()
	}
	if k.table != nil {
		s.tableBytes -= k.table.bytes()
	}
	old := k.table
	k.read, k.table = now, nil
	err := s.readKernel(old)
	if k.asked == nil {
		k.err = err
	}
	if err != nil {
		why := kernelUnknown
		if errors.Is(err, errHidden) {
			why = kernelHidden
		}
		s.failed(&reasonError{why, err})
		return
	}
	if k.asked == nil {
		k.setText(k.table.text)
	}
	s.tableBytes += k.table.bytes()
	s.count.tablesBuilt++
	s.makeRoom(0, nil)
}

// readKernel reads /proc/modules and /proc/kallsyms.
func (s *Symbolizer) readKernel(old *kernelTable) error {
	k := &s.kernel
	if err := s.readModules(); err != nil {
		return err
	}
	symbols, names := 1<<16, 1<<21 // what a usual kernel needs
	if old != nil {
		symbols, names = len(old.symbols)+len(old.symbols)/4, len(old.names)+len(old.names)/4
	}
	t, err := s.proc.kallsyms(symbols, names)
	if err != nil {
		return err
	}
	if limit := s.memory / 4 * 3; t.bytes() > limit {
		return fmt.Errorf("reading /proc/kallsyms: %d bytes: %w of %d for one table", t.bytes(), errTooLarge, limit)
	}
	t.settle(k.modules)
	k.table = t
	return nil
}

// readModules reads where the modules are.
func (s *Symbolizer) readModules() error {
	k := &s.kernel
	k.modulesRead = s.now()
	b, err := s.proc.modules()
	if err != nil {
		return err
	}
	modules, err := parseModules(b)
	if err != nil {
		return fmt.Errorf("reading /proc/modules: %w", err)
	}
	k.hash, k.modules = maphash.Bytes(modulesSeed, b), modules
	return nil
}

// moduleImage gives where the module of a function is, empty when that cannot
// be told. A module that came since the list was read is looked for in it
// again.
func (s *Symbolizer) moduleImage(f kernelFunction) span {
	k := &s.kernel
	image := k.modules[f.module]
	if f.module == bpfModule || image.contains(f.start) || k.asked == nil || s.now().Sub(k.modulesRead) < moduleInterval {
		return image
	}
	if err := s.readModules(); err != nil {
		s.failed(&reasonError{kernelUnknown, err})
	}
	return k.modules[f.module]
}
