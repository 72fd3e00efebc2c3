// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"os"
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
	hostID     string
	bootOffset atomic.Int64 // wall-clock time of boot, nanoseconds
	reads      atomic.Uint64
	narrowings atomic.Pointer[[]*Narrowing] // replaced, never modified

	scanning sync.Mutex // one scan at a time; taken before mu

	mu        sync.RWMutex // all below
	byPID     map[uint32]*entry
	scan      uint64 // number of the scan that runs or ran last
	waiting   []waiting
	lingering map[model.ProcessID]*entry
	ended     []*entry // the lingering ones in scope, the earliest exit first
	unread    []*entry // the lingering ones that exited undecided, the earliest exit first
	peak      peaks
	recent    recentExits
	changes   changes
	stats     Stats
}

// entry is one process.
type entry struct {
	id      model.ProcessID
	parent  model.ProcessID // the process that it was forked from; zero if that is not known
	created time.Time
	// process is what was read; nil before, after an exec, and out of scope.
	process *model.Process
	// base is what was read of this process before its last exec, or of the process that it was forked from.
	base *model.Process
	// comm is the last known one.
	comm string
	// execution is the content of its last exec event; nil if there was none.
	execution *execution
	// execID is the kernel's number of the last program that an event reported; 0 if none did.
	execID uint32
	// image is that of stat when the process was last read, if ever (seen); 0 if that was in the middle of an exec.
	image uint64
	// execs counts execs, so that a reading during which one happened is noticed.
	execs uint32
	// include is the index of the selector that matched, or noInclude.
	include int
	// bytes is the size of process, or of base if that is of this process.
	bytes uint32
	// scan is the last scan that began before or saw the process.
	scan uint64
	// since is the last scan that began before the process or its program did. confirmed: it was read, if necessary, when it had run for a
	// while after that.
	since     uint64
	confirmed bool
	// network is what the process listens on, if selectors have ports.
	network listening
	died    time.Time
	// executed: it runs another program than base.
	inScope, undecided, kernel, executed, seen bool
	// environmentMissed: it was counted that the environment of its program is not known.
	environmentMissed bool
	// notified: OnChange was last called with the process in scope.
	notified bool
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
		fs:        procFS{root: filepath.Join(cfg.RootPath, "proc"), errors: newReadErrors(cfg.Logger, cfg.Now).remember(cfg.Warned)},
		byPID:     map[uint32]*entry{},
		lingering: map[model.ProcessID]*entry{},
	}
	t.ports.init(cfg.Now)
	t.ports.watch(rules.include.matchers)
	t.ports.watch(rules.exclude.matchers)
	t.narrowings.Store(new([]*Narrowing))
	if t.hostID, err = t.fs.hostID(cfg.RootPath); err != nil {
		return nil, err
	}
	offset, err := readBootOffset()
	if err != nil {
		return nil, err
	}
	t.bootOffset.Store(offset)
	return t, nil
}

// Close logs the errors whose warnings were held back.
func (t *Table) Close() { t.fs.errors.warnings.Close() }

// machineIDs are files that identify the host, as machine-id(5) has it.
var machineIDs = []string{"etc/machine-id", "var/lib/dbus/machine-id"}

// hostID distinguishes hosts: by a random value of the installation, else of the last boot. It is exported only as part of a hash.
func (p procFS) hostID(root string) (string, error) {
	for _, name := range machineIDs {
		if text, err := os.ReadFile(filepath.Join(root, name)); err == nil && len(bytes.TrimSpace(text)) == machineIDDigits {
			return string(bytes.TrimSpace(text)), nil
		}
	}
	return p.bootID()
}

// machineIDDigits is the length of a machine id; anything longer or shorter, such as "uninitialized", is none.
const machineIDDigits = 32

// bootID is a random value that the kernel draws at each boot.
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

// MatchesAll reports whether every process but this one is in scope, so that no process need be read to decide.
func (t *Table) MatchesAll() bool { return t.rules.all() }

// insert makes an entry, unless the table is full. An older process with the same pid has exited, even if no event reported it.
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

// remove drops a process that exited. If it is in scope, it lingers for a while, and so does one about which its exec event can decide on
// demand.
func (t *Table) remove(e *entry) {
	delete(t.byPID, e.id.PID)
	t.recent.add(e.id)
	e.died = t.cfg.Now()
	switch {
	case e.undecided && e.execution != nil && !t.rules.all():
		t.linger(e, &t.unread)
	case e.inScope:
		e.undecided = false // nothing else will become known
		t.linger(e, &t.ended)
	}
	t.changes.removed(e)
	t.expire(e.died)
}

func (t *Table) linger(e *entry, list *[]*entry) {
	t.lingering[e.id] = e
	*list = append(*list, e)
	t.peak.lingering = max(t.peak.lingering, len(t.lingering))
}

// maxLingering bounds the exited processes that can still be looked up, maxUnread those of them that are undecided.
const (
	maxLingering = 8192
	maxUnread    = 2048
)

// expire drops processes that exited long ago.
func (t *Table) expire(now time.Time) {
	var dropped uint64
	t.ended, dropped = t.expireOf(t.ended, now, maxLingering)
	t.stats.LingerDropped += dropped
	// Most of them are of no interest: the loss of others is counted where they are missing.
	t.unread, _ = t.expireOf(t.unread, now, maxUnread)
}

// expireOf drops the first processes of a list, those of the earliest exit; dropped counts those that were dropped early.
func (t *Table) expireOf(list []*entry, now time.Time, most int) (rest []*entry, dropped uint64) {
	n := 0
	for _, e := range list {
		old := now.Sub(e.died) > t.cfg.Linger
		if !old && len(list)-n <= most {
			break
		}
		if !old {
			dropped++
		}
		if t.lingering[e.id] == e { // else its exit was found twice, since an exec event came later
			delete(t.lingering, e.id)
		}
		list[n] = nil
		n++
	}
	return list[n:], dropped
}

// recentExits remembers the last processes that exited, so that what was read of them a moment before does not add them again.
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
