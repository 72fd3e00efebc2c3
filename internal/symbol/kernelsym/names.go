// SPDX-License-Identifier: Apache-2.0

// Package kernelsym names the functions of the kernel. The kernel itself is asked for names first; what it does not name, and everything if it
// cannot be asked, is looked up in the table of /proc/kallsyms. Names and mappings alone are kept here: frames are for the [Keeper].
package kernelsym

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	// Kernel is the path of the kernel's mappings.
	Kernel = "[kernel.kallsyms]"
	// moduleInterval is how often the table is read again at most for an unknown address when the list of modules has changed, and bpfInterval
	// otherwise, or for a new address of a BPF program: no list shows which programs are loaded and unloaded.
	moduleInterval = time.Second
	bpfInterval    = time.Minute
	// imageBytes is the assumed size of the mapping of a module or a program.
	imageBytes = 256
	// maxImages bounds the images that are cached; beyond it they are made anew.
	maxImages = 1 << 12
)

// modulesSeed is the seed of hashes of /proc/modules.
var modulesSeed = maphash.MakeSeed()

// Asker asks the kernel for names.
type Asker interface {
	// Ask names addresses: out[i] becomes the function at pcs[i].
	Ask(pcs []uint64, out []Function) error
	// Text is the range of the kernel's own code; empty if the kernel hides its addresses.
	Text() Span
	Close() error
}

// Keeper keeps frames that were made from names, and bounds the memory.
type Keeper interface {
	// KernelForgotten is called when frames that were made before may be wrong.
	KernelForgotten()
	// KernelFailed is called with what could not be read.
	KernelFailed(err error)
	// KernelTable is called when a table was read or dropped, with the change of memory.
	KernelTable(change int64)
}

// Names are the names of one kernel. Its methods must not be called concurrently.
type Names struct {
	// Open finds out whether the kernel can be asked; nil: it is not asked.
	Open func() (Asker, error)

	keeper   Keeper
	files    files
	maxTable int64 // bytes
	now      func() time.Time
	logger   *zap.Logger

	begun, closed bool
	fresh         time.Time // when frames were last dropped
	id            model.BuildID
	text          Span // _text to _etext; empty if addresses are hidden
	whole         *model.Mapping
	asked         Asker // nil if the kernel cannot be asked
	table         *table
	err           error     // why there is no table
	read          time.Time // when the table was read

	modules     map[string]Span
	hash        uint64    // of /proc/modules
	modulesRead time.Time // when that was read
	images      map[imageKey]*model.Mapping
}

// imageKey identifies an image: a module, or code that is an image of its own.
type imageKey struct {
	module, function string
	start            uint64
}

// New makes the names of the kernel with the files below a root. It reads nothing yet. A table may take at most maxTable bytes.
func New(root string, keeper Keeper, maxTable int64, now func() time.Time, logger *zap.Logger) *Names {
	return &Names{keeper: keeper, files: files{root}, maxTable: maxTable, now: now, logger: logger}
}

// Err is why there are no names.
func (k *Names) Err() error { return k.err }

// Hidden reports whether that is because the kernel hides its addresses.
func (k *Names) Hidden() bool { return errors.Is(k.err, errHidden) }

// Whole is the mapping of the kernel's own code.
func (k *Names) Whole() *model.Mapping { return k.whole }

// Bytes is the memory of mappings.
func (k *Names) Bytes() int64 { return int64(len(k.images)) * imageBytes }

// TableBytes is the memory of the table.
func (k *Names) TableBytes() int64 {
	if k.table == nil {
		return 0
	}
	return k.table.bytes()
}

// Close frees everything. There are no names from then on.
func (k *Names) Close() (err error) {
	if k.asked != nil {
		err = k.asked.Close()
	}
	*k = Names{closed: true, keeper: k.keeper, files: k.files, now: k.now, logger: k.logger}
	return err
}

// Begin finds out, with the first address, how the kernel's functions are named.
func (k *Names) Begin() {
	if k.begun || k.closed {
		return
	}
	k.begun, k.fresh = true, k.now()
	k.images = make(map[imageKey]*model.Mapping)
	k.id.GNU = k.files.noteID("sys/kernel/notes")
	k.setText(Span{})
	if k.Open == nil {
		return
	}
	asked, err := k.Open()
	if err != nil {
		k.logger.Debug("The kernel cannot be asked for the names of its functions, /proc/kallsyms is read", zap.Error(err))
		return
	}
	k.asked = asked
	k.setText(asked.Text())
}

// Functions reads the functions that /proc/kallsyms below a root shows, sorted by address, and the range of the kernel's own code.
func Functions(root string) ([]Function, Span, error) {
	k := &Names{files: files{root}, maxTable: maxKernelSymbols*kernelSymbolBytes + maxKernelNames, now: time.Now}
	if err := k.readTable(nil); err != nil {
		return nil, Span{}, err
	}
	list := make([]Function, len(k.table.symbols))
	for i, s := range k.table.symbols {
		list[i] = k.table.function(s.addr)
	}
	return list, k.table.text, nil
}

func (k *Names) setText(text Span) {
	k.text = text
	k.whole = &model.Mapping{Limit: max(text.End, text.Start) - text.Start, Path: Kernel, BuildID: k.id}
}

// Asks reports whether the kernel is asked for names.
func (k *Names) Asks() bool { return k.asked != nil }

// Ask asks the kernel for functions. Those that it does not know have no name.
func (k *Names) Ask(pcs []uint64) []Function {
	answers := make([]Function, len(pcs))
	if k.asked == nil {
		return answers
	}
	if err := k.asked.Ask(pcs, answers); err != nil {
		k.keeper.KernelFailed(reason.New(reason.KernelUnknown, errors.Join(err, k.asked.Close())))
		k.asked = nil
		return make([]Function, len(pcs))
	}
	for i := range answers {
		if answers[i].Module == "" && isBPF(answers[i], k.text) {
			answers[i].Module = bpfModule
		}
	}
	return answers
}

// Renew drops what was made of former answers if a new one is of a BPF program and they are old: other programs may be there now. It reports
// whether it did.
func (k *Names) Renew(answers []Function) bool {
	if k.now().Sub(k.fresh) <= bpfInterval {
		return false
	}
	for _, f := range answers {
		if f.Module == bpfModule {
			k.forget()
			return true
		}
	}
	return false
}

// forget drops the mappings, which are made anew on demand, and has the frames dropped.
func (k *Names) forget() {
	k.keeper.KernelForgotten()
	k.images = make(map[imageKey]*model.Mapping)
	k.fresh = k.now()
}

// Mapping returns the mapping of a function and the address that it counts from.
func (k *Names) Mapping(f Function) (*model.Mapping, uint64) {
	path := Kernel
	var image Span
	if f.Module != "" {
		path, image = "["+f.Module+"]", k.moduleImage(f)
	} else if k.text.Start > 0 && f.Start >= k.text.Start {
		return k.whole, k.text.Start
	}
	key := imageKey{module: f.Module, start: image.Start}
	loaded := image.contains(f.Start)
	if !loaded {
		// BPF programs, trampolines and similar code are images of their own.
		image = Span{f.Start, f.Start + f.Size}
		key = imageKey{module: f.Module, function: f.Name, start: f.Start}
	}
	m := k.images[key]
	if m == nil {
		m = &model.Mapping{Limit: image.End - image.Start, Path: path}
		if loaded {
			m.BuildID.GNU = k.files.noteID("sys/module", f.Module, "notes/.note.gnu.build-id")
		}
		if len(k.images) == maxImages {
			clear(k.images)
		}
		k.images[key] = m
	}
	return m, image.Start
}

// LookUp finds an address in the table, and reads the table when that may help.
func (k *Names) LookUp(pc uint64) Function {
	if k.closed || k.asked != nil && k.text.End == 0 {
		return Function{} // the table would not help: the addresses are hidden
	}
	var found Function
	if k.table != nil {
		found = k.table.function(pc)
	}
	if found.Name != "" && found.Module != bpfModule {
		return found
	}
	now := k.now()
	age := now.Sub(k.read)
	modules := found.Name == "" && k.table != nil && age > moduleInterval
	if !k.read.IsZero() && age <= bpfInterval && !(modules && k.modulesChanged()) {
		return found
	}
	k.load(now)
	if k.table == nil {
		return Function{}
	}
	return k.table.function(pc)
}

func (k *Names) modulesChanged() bool {
	b, err := k.files.modules()
	return err == nil && maphash.Bytes(modulesSeed, b) != k.hash
}

// load reads the table and drops the frames made from the previous one.
func (k *Names) load(now time.Time) {
	if k.asked == nil {
		k.forget()
	}
	old := k.table
	if old != nil {
		k.keeper.KernelTable(-old.bytes())
	}
	k.read, k.table = now, nil
	err := k.readTable(old)
	if k.asked == nil {
		k.err = err
	}
	if err != nil {
		why := reason.KernelUnknown
		if errors.Is(err, errHidden) {
			why = reason.KernelHidden
		}
		k.keeper.KernelFailed(reason.New(why, err))
		return
	}
	if k.asked == nil {
		k.setText(k.table.text)
	}
	k.keeper.KernelTable(k.table.bytes())
}

// readTable reads /proc/modules and /proc/kallsyms.
func (k *Names) readTable(old *table) error {
	if err := k.readModules(); err != nil {
		return err
	}
	symbols, names := 1<<16, 1<<21 // what a usual kernel needs
	if old != nil {
		symbols, names = len(old.symbols)+len(old.symbols)/4, len(old.names)+len(old.names)/4
	}
	t, err := k.files.kallsyms(symbols, names)
	if err != nil {
		return err
	}
	if t.bytes() > k.maxTable {
		return fmt.Errorf("reading /proc/kallsyms: %d bytes: %w of %d for one table", t.bytes(), reason.ErrTooLarge, k.maxTable)
	}
	t.settle(k.modules)
	k.table = t
	return nil
}

// readModules reads the addresses of the modules.
func (k *Names) readModules() error {
	k.modulesRead = k.now()
	b, err := k.files.modules()
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

// moduleImage returns the range of the module of a function, empty when it is unknown. If a module was loaded since the list was read, the
// list is read again.
func (k *Names) moduleImage(f Function) Span {
	image := k.modules[f.Module]
	if f.Module == bpfModule || image.contains(f.Start) || k.asked == nil || k.now().Sub(k.modulesRead) < moduleInterval {
		return image
	}
	if err := k.readModules(); err != nil {
		k.keeper.KernelFailed(reason.New(reason.KernelUnknown, err))
	}
	return k.modules[f.Module]
}
