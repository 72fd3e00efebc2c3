// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Table holds the processes of the host. Its methods may be called from any
// goroutine.
type Table struct {
	cfg        Config
	fs         procFS
	rules      *rules
	ports      portIndex
	bootID     string
	bootOffset atomic.Int64 // wall-clock time of boot, nanoseconds
	reads      atomic.Uint64
	narrowings atomic.Pointer[[]*Narrowing] // replaced, never changed

	scanning sync.Mutex // one scan at a time; taken before mu

	mu        sync.RWMutex // all below
	byPID     map[uint32]*entry
	scan      uint64 // number of the scan that runs or ran last
	waiting   []waiting
	lingering map[model.ProcessID]*entry
	ended     []*entry // the lingering ones, the longest dead first
	peak      peaks
	recent    recentExits
	changes   changes
	stats     Stats
}

// entry is one process.
type entry struct {
	id      model.ProcessID
	parent  model.ProcessID // that it was forked from; zero if that is not known
	created time.Time
	// process is what was read; nil before, after an exec, and out of scope.
	process *model.Process
	// base is what was read of this process before its last exec, or of the
	// one it was forked from.
	base *model.Process
	// comm is the last that is known.
	comm string
	// image is that of stat when the process was looked at last, if ever
	// (seen); 0 if that was in the middle of an exec.
	image uint64
	// execs counts execs, so that a reading that one overtook is noticed.
	execs uint32
	// include is the index of the selector that matched, or noInclude.
	include int
	// bytes is the size of process, or of base if that is of this process.
	bytes uint32
	// scan is the last scan that began before or saw the process.
	scan uint64
	// since is the last scan that began before the process or its program did; confirmed says
	// that it was read, if need be, when it had lived for a while after that.
	since     uint64
	confirmed bool
	// network is what the process listens on, where selectors ask for ports.
	network listening
	died    time.Time
	// executed: it runs another program than base.
	inScope, undecided, kernel, executed, seen bool
	// told is what OnChange was told last.
	told bool
}

// New makes a table. Nothing is known before the first [Table.Scan].
func New(cfg Config) (*Table, error) {
	cfg.setDefaults()
	rules, err := newRules(&cfg)
	if err != nil {
		return nil, err
	}
	t := &Table{
		cfg: cfg, rules: rules,
		fs:        procFS{root: filepath.Join(cfg.RootPath, "proc"), errors: newReadErrors(cfg.Logger, cfg.Now)},
		byPID:     map[uint32]*entry{},
		lingering: map[model.ProcessID]*entry{},
	}
	t.ports.init(t.fs, cfg.Now)
	t.ports.watch(rules.include.matchers)
	t.ports.watch(rules.exclude.matchers)
	t.narrowings.Store(new([]*Narrowing))
	if t.bootID, err = t.fs.bootID(); err != nil {
		return nil, err
	}
	offset, err := readBootOffset()
	if err != nil {
		return nil, err
	}
	t.bootOffset.Store(offset)
	return t, nil
}

// Close tells of the errors whose warnings were held back.
func (t *Table) Close() { t.fs.errors.warnings.Close() }

// bootID is what the kernel draws at random at each boot.
func (p procFS) bootID() (string, error) {
	var buf [64]byte
	dir, err := openDirectory(p.root)
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", p.root, err)
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	const name = "sys/kernel/random/boot_id"
	n, _, err := dir.read(name, buf[:])
	if err != nil {
		return "", fmt.Errorf("reading %s/%s: %w", p.root, name, err)
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

// MatchesAll says that every process is in scope but for this one, so that
// nothing need be asked to know it.
func (t *Table) MatchesAll() bool { return t.rules.all() }

// insert makes an entry, unless the table is full. An older process of the
// same pid is gone, even where nobody said so.
func (t *Table) insert(id model.ProcessID) *entry {
	if old := t.byPID[id.PID]; old != nil {
		t.remove(old)
	}
	if len(t.byPID) >= t.cfg.MaxProcesses {
		t.stats.Untracked++
		return nil
	}
	e := &entry{id: id, created: t.creation(id.StartTicks), include: noInclude, scan: t.scan, since: t.scan}
	t.byPID[id.PID] = e
	t.peak.known = max(t.peak.known, len(t.byPID))
	return e
}

// get returns the entry of exactly this process.
func (t *Table) get(id model.ProcessID) *entry {
	if e := t.byPID[id.PID]; e != nil && e.id == id {
		return e
	}
	return nil
}

// remove forgets a process that ended; one in scope lingers on for a while.
func (t *Table) remove(e *entry) {
	delete(t.byPID, e.id.PID)
	t.recent.add(e.id)
	e.died = t.cfg.Now()
	if e.inScope {
		t.lingering[e.id] = e
		t.ended = append(t.ended, e)
		t.peak.lingering = max(t.peak.lingering, len(t.lingering))
	}
	t.changes.removed(e)
	t.expire(e.died)
}

// maxLingering bounds the ended processes that can still be looked up.
const maxLingering = 8192

// expire forgets processes that ended long ago.
func (t *Table) expire(now time.Time) {
	n := 0
	for _, e := range t.ended {
		old := now.Sub(e.died) > t.cfg.Linger
		if !old && len(t.ended)-n <= maxLingering {
			break
		}
		if !old {
			t.stats.LingerDropped++
		}
		delete(t.lingering, e.id)
		t.ended[n] = nil
		n++
	}
	t.ended = t.ended[n:]
}

// recentExits remembers the last processes that ended, so that what was read
// of them a moment before is not taken for news.
type recentExits struct {
	ids  [256]model.ProcessID
	next int
}

func (r *recentExits) add(id model.ProcessID) {
	r.ids[r.next%len(r.ids)] = id
	r.next++
}

func (r *recentExits) has(id model.ProcessID) bool {
	for i := range r.ids {
		if r.ids[i] == id {
			return true
		}
	}
	return false
}
