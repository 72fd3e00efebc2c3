// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// defaultMemory is the bound when none is configured, 64 MiB.
const defaultMemory = 64 << 20

// maxOpenFiles bounds the files that are held open at a time. Beyond it the
// one that was not needed for longest is closed, and opened again when needed. Where
// the process may open few, others need most of them: openShare is the symbolizer's.
const maxOpenFiles, openShare = 128, 8

// ErrProcessExited is the cause when a process, or its address space, is gone.
var ErrProcessExited = errors.New("the process has exited")

// errClosed is the cause of what is asked of a closed Symbolizer.
var errClosed = errors.New("the symbolizer is closed")

// Config is what a Symbolizer needs to know.
type Config struct {
	// RootPath is where the host's file system is mounted, / when empty. The
	// host's processes are at RootPath/proc.
	RootPath string
	// MemoryBytes bounds tables, names, frames and file pages together; 64 MiB when 0.
	MemoryBytes int64
	// CacheDir is a folder for what was found out about addresses, below CacheBytes; none when empty.
	CacheDir   string
	CacheBytes int64
	// Debuginfod are servers that are asked for debug files; none when empty.
	Debuginfod []string
	// DebugInfo has debug information and separate debug files read, beside those who ask for names.
	DebugInfo bool
	// Charge does a piece of the work of reading them and says how long the next one has to wait; nil: none has.
	Charge func(piece func()) (pause time.Duration)
	// Logger gets the rare warnings; none when nil.
	Logger *zap.Logger
}

// Symbolizer names the addresses of all processes and of the kernel. It is
// safe for concurrent use.
type Symbolizer struct {
	proc   procfs
	memory int64
	logger *zap.Logger
	now    func() time.Time

	mu        sync.Mutex
	closed    bool
	binaries  map[fileKey]*binary
	byContent map[content]*binary
	all       map[*binary]struct{} // also those without a file
	serial    uint64
	tick      uint64
	spaces    int
	idle      int // binaries with a file that nobody runs
	open      int // files held open
	pages     *pageCache
	found     findings
	kernel    kernel
	jitted    jitted
	openKsyms func() (*ksyms, error) // nil: the kernel is not asked
	count     counters
	warnings  *warn.Rarely

	tableBytes, frameBytes, regionBytes int64

	maxOpen   int // files held open
	scratch   [scratchBytes]byte
	debugInfo bool
	lines     *lineReader // nil in tests that name by symbols alone
	fetcher   *fetcher    // nil when there is none
	goLines   []model.Line
	goKeys    []uint64
}

// New makes a Symbolizer. It reads nothing yet: how the kernel's functions are
// named is found out with the first kernel address.
func New(cfg Config) (*Symbolizer, error) {
	proc, err := newProcfs(cfg.RootPath)
	if err != nil {
		return nil, err
	}
	s := assemble(cfg)
	s.proc, s.openKsyms = proc, openKsyms
	var cache *debuginfo.Cache
	if cfg.CacheDir != "" {
		if cache, err = debuginfo.OpenCache(cfg.CacheDir, cfg.CacheBytes); err != nil {
			return nil, err
		}
	}
	s.lines = startLineReader(s, cache, cfg.Charge)
	if len(cfg.Debuginfod) > 0 {
		s.fetcher = startFetcher(s, debuginfo.NewServers(cfg.Debuginfod, ""))
	}
	return s, nil
}

// assemble makes a Symbolizer that has no /proc yet.
func assemble(cfg Config) *Symbolizer {
	s := &Symbolizer{
		memory: cfg.MemoryBytes, logger: cfg.Logger, now: time.Now, maxOpen: filesToHold(), debugInfo: cfg.DebugInfo,
		binaries: make(map[fileKey]*binary), byContent: make(map[content]*binary), all: make(map[*binary]struct{}),
	}
	if s.memory <= 0 {
		s.memory = defaultMemory
	}
	if s.logger == nil {
		s.logger = zap.NewNop()
	}
	s.warnings = warn.NewRarely(s.logger, "Some addresses will have no name", func() time.Time { return s.now() })
	s.pages = newPageCache(s.memory)
	s.found = newFindings(s.memory)
	s.kernel.init(s)
	return s
}

// Close closes every file and frees every table. Frames that were given out
// stay valid.
func (s *Symbolizer) Close() error {
	s.fetcher.close()
	errs := []error{s.lines.close()}
	s.warnings.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for b := range s.all {
		errs = append(errs, s.closeFile(b))
		b.pinned = false
	}
	s.binaries, s.byContent, s.all = map[fileKey]*binary{}, map[content]*binary{}, map[*binary]struct{}{}
	s.tableBytes, s.frameBytes, s.regionBytes, s.idle = 0, 0, 0, 0
	errs = append(errs, s.closeAllCode())
	s.pages = newPageCache(0)
	s.found = newFindings(0)
	if s.kernel.asked != nil {
		errs = append(errs, s.kernel.asked.close())
	}
	s.kernel.init(s)
	return errors.Join(errs...)
}

// Stats tells what is held and was done.
func (s *Symbolizer) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.count
	out := Stats{
		Spaces: s.spaces, Binaries: len(s.binaries), OpenFiles: s.open + s.jitted.open + s.lines.filesHeld(),
		TableBytes: s.tableBytes + s.lines.bytesHeld(), FrameBytes: s.frameBytes, OtherBytes: s.otherBytes(),
		TablesBuilt: c.tablesBuilt, TablesEvicted: c.tablesEvicted, FramesEvicted: c.framesEvicted,
		CacheHits: c.hits, CacheMisses: c.misses,
		Named: c.frames[named], Unnamed: byReason(&c.frames), Errors: byReason(&c.errors), LastError: c.last,
	}
	out.Runtimes = s.runtimes()
	for b := range s.all {
		if b.tableBytes() > 0 {
			out.Tables++
		}
	}
	return out
}

// returned counts a frame that is handed out.
func (s *Symbolizer) returned(e *entry) *model.Frame {
	if e.pending && e.cause != named {
		e.unsettled++
	} else {
		s.count.frames[e.cause]++
	}
	return &e.frame
}
