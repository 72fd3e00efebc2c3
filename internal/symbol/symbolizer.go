// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"cmp"
	"container/list"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// defaultMemory is the bound when none is configured, 64 MiB.
const defaultMemory = 64 << 20

// maxOpenFiles bounds the files that are held open at a time. Beyond it the least recently used one is closed, and opened again on demand. If
// the process may open few, others need most of them: openShare is the symbolizer's.
const maxOpenFiles, openShare = 128, 8

// ErrProcessExited is the cause when a process has exited, or its address space was closed.
var ErrProcessExited = errors.New("the process has exited")

// errClosed is the cause of the errors of a closed Symbolizer.
var errClosed = errors.New("the symbolizer is closed")

// Config configures a Symbolizer.
type Config struct {
	// RootPath is where the host's file system is mounted, / when empty. The
	// host's processes are at RootPath/proc.
	RootPath string
	// MemoryBytes bounds tables, names, frames and file pages together; 64 MiB when 0.
	MemoryBytes int64
	// CacheDir is a folder for results about addresses, of at most CacheBytes; none when empty.
	CacheDir   string
	CacheBytes int64
	// Debuginfod are servers that debug files are downloaded from; none when empty.
	Debuginfod []string
	// DebugInfo enables reading debug information and separate debug files, concurrently to naming.
	DebugInfo bool
	// Charge does a step of reading them and returns how long the next one must wait; nil: no step waits.
	Charge func(step func()) (pause time.Duration)
	// Names and LargeNames do a step of reading symbol tables concurrently, and return how long the next one must wait: of small tables and
	// of large ones. nil: tables are read at once, while the caller waits.
	Names, LargeNames func(step func()) (pause time.Duration)
	// Contents does a step of comparing large files with those of other processes, and returns how long the next one must wait; nil: no step
	// waits.
	Contents func(step func()) (pause time.Duration)
	// MapsShare is the part of a CPU for reading memory maps of programs that map new files or map code all the time, and as much again for
	// [AddressSpace.ChargeTable]; 0: no bound.
	MapsShare float64
	// Logger gets the rare warnings; none when nil. Warned has those that were logged before; nil: none were.
	Logger *zap.Logger
	Warned *warn.Memory
}

// Symbolizer names the addresses of all processes and of the kernel. It is
// safe for concurrent use.
type Symbolizer struct {
	proc   procfs
	memory int64
	logger *zap.Logger
	now    func() time.Time

	mapsUntil atomic.Int64 // see [Symbolizer.ReadMapsUntil], in Unix nanoseconds; 0: for any time

	mu        lock
	inUse     filesInUse
	unclosed  []error // why files could not be closed when the symbolizer was
	closed    bool
	binaries  map[fileKey]*binary
	byContent map[contentAt]*binary
	all       map[*binary]struct{} // also those without a file
	serial    uint64
	tick      uint64
	spaces    int
	domains   map[domain]int // processes of each
	views     budget.Holdings
	decided   map[domain]map[*binary]struct{} // the binaries that have a view of each, or are known to need none
	decisions budget.Holdings                 // of all domains
	idle      list.List                       // binaries with a file that no process runs, the one that was released first at its front
	open      int                             // files held open
	pages     *elfsym.Pages
	found     findings
	kernel    kernelFrames
	jitted    jitted
	count     counters
	warnings  *warn.Rarely
	maps      *budget.Shared
	tables    *budget.Shared // of unwind tables

	tableBytes, frameBytes, regionBytes int64
	reserved                            int64 // bytes of tables that are being built in the lanes

	maxOpen   int // files held open
	scratch   [elfsym.ScratchBytes]byte
	debugInfo bool
	lines     *lineReader   // nil in tests that name by symbols alone
	contents  *contents     // nil in tests that have no files
	names     *namer        // nil if tables are read at once
	settled   chan struct{} // closed when no frame waits for names or lines
	fetcher   *fetcher      // nil when there is none
}

// New makes a Symbolizer. It reads nothing yet: how the kernel's functions are named is found out with the first kernel address.
func New(cfg Config) (*Symbolizer, error) {
	proc, err := newProcfs(cfg.RootPath)
	if err != nil {
		return nil, err
	}
	s := assemble(cfg)
	s.proc = proc
	s.kernel.names.Open = kernelsym.Open
	var cache *debuginfo.Cache
	if cfg.CacheDir != "" {
		if cache, err = debuginfo.OpenCache(cfg.CacheDir, cfg.CacheBytes); err != nil {
			return nil, err
		}
	}
	s.contents = startContents(s, cfg.Contents)
	s.lines = startLineReader(s, cache, cfg.Charge)
	if cfg.Names != nil && cfg.LargeNames != nil {
		s.names = startNamer(s, cfg.Names, cfg.LargeNames)
	}
	if len(cfg.Debuginfod) > 0 {
		s.fetcher = startFetcher(s, debuginfo.NewServers(cfg.Debuginfod, ""))
	}
	return s, nil
}

// assemble makes a Symbolizer that has no /proc yet.
func assemble(cfg Config) *Symbolizer {
	s := &Symbolizer{
		memory: cfg.MemoryBytes, logger: cfg.Logger, now: time.Now, maxOpen: filesToHold(), debugInfo: cfg.DebugInfo,
		inUse: filesInUse{}, binaries: make(map[fileKey]*binary), byContent: make(map[contentAt]*binary), all: make(map[*binary]struct{}),
		domains: make(map[domain]int), decided: make(map[domain]map[*binary]struct{}), maps: budget.New(cfg.MapsShare, budget.MapsAtOnce),
		tables: budget.New(cfg.MapsShare, budget.TablesAtOnce),
	}
	if s.memory <= 0 {
		s.memory = defaultMemory
	}
	if s.logger == nil {
		s.logger = zap.NewNop()
	}
	s.warnings = warn.NewRarely(s.logger, "Some addresses will have no name", func() time.Time { return s.now() }).Remember(cfg.Warned)
	s.pages = elfsym.NewPages(s.memory)
	s.found = newFindings(s.memory)
	s.kernel = newKernelFrames(s, cmp.Or(cfg.RootPath, "/"))
	return s
}

// Close closes every file and frees every table. Frames that were returned stay valid.
func (s *Symbolizer) Close() error {
	s.fetcher.close()
	s.names.close()
	s.contents.close()
	errs := []error{s.lines.close()}
	s.warnings.Close()
	errs = append(errs, s.free())
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(errs, s.unclosed...)...)
}

// free closes every file and frees every table.
func (s *Symbolizer) free() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for b := range s.all {
		s.closeFile(b)
		b.pinned = false
	}
	s.binaries, s.byContent, s.all = map[fileKey]*binary{}, map[contentAt]*binary{}, map[*binary]struct{}{}
	s.tableBytes, s.frameBytes, s.regionBytes = 0, 0, 0
	s.idle.Init()
	s.closeAllCode()
	s.pages = elfsym.NewPages(0)
	s.found = newFindings(0)
	err = s.kernel.names.Close()
	s.kernel.bin = nameless(kernelsym.Kernel, reason.KernelUnknown)
	return err
}

// Stats returns a snapshot.
func (s *Symbolizer) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.count
	out := Stats{
		Spaces: s.spaces, Binaries: len(s.binaries), OpenFiles: s.open + s.jitted.open + s.lines.filesHeld() + s.names.filesHeld() + s.contents.filesHeld(),
		TableBytes: s.tableBytes + s.lines.bytesHeld(), FrameBytes: s.frameBytes, OtherBytes: s.otherBytes(),
		TablesBuilt: c.tablesBuilt, TablesEvicted: c.tablesEvicted, FramesEvicted: c.framesEvicted,
		TablesRebuilt: c.tablesRebuilt, PartialPasses: c.partialPasses,
		CacheHits: c.hits, CacheMisses: c.misses,
		Named: c.frames[reason.Named], Unnamed: byReason(&c.frames), Errors: byReason(&c.errors), LastError: c.last,
	}
	out.Runtimes = s.runtimes()
	for b := range s.all {
		if b.tableBytes() > 0 {
			out.Tables++
		}
	}
	return out
}

// returned counts a frame that is returned.
func (s *Symbolizer) returned(e *entry) *model.Frame {
	if e.pending && e.cause != reason.Named {
		e.unsettled++
	} else {
		s.count.frames[e.cause]++
	}
	return &e.frame
}
