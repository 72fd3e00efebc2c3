// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// defaultEntries bounds the answers that are cached, some 250 bytes each, and defaultLife how long.
	defaultEntries = 16384
	defaultLife    = 30 * time.Second
	// defaultPerCall bounds the requests to the kernel in one call, some 10 µs each.
	defaultPerCall = 2048
	// untrackedFor is how long a namespace that tracks nothing is not asked again, and maxUntracked bounds the list of these.
	untrackedFor = time.Second
	maxUntracked = 1024
	// patience is how long the kernel may take for one answer.
	patience = time.Second
)

// Config is where and how much the Resolver asks. Zero values are defaults.
type Config struct {
	// ProcRoot is where the host's procfs is mounted; "/proc" by default.
	ProcRoot string
	// Entries bounds the answers that are cached, Life is for how long they are, plus or minus half of it.
	Entries int
	Life    time.Duration
	// PerCall bounds for how many flows one call asks the kernel.
	PerCall int
	// Now returns the time; [time.Now] by default.
	Now func() time.Time
}

// Place identifies the network namespace of a socket.
type Place struct {
	// Namespace is the inode of the socket's network namespace (ns.inum).
	Namespace uint64
	// PIDs are processes in that namespace, in the pid namespace of ProcRoot: the first that still exists is used to enter it.
	PIDs []uint32
}

// Stats counts flows since the start. Each flow that was requested is in one of them.
type Stats struct {
	// Remembered ones were answered from the cache, Translated and Untranslated ones by the kernel. Connection tracking does not know an
	// untranslated flow, or knows that nothing is translated.
	Remembered, Translated, Untranslated uint64
	// Skipped ones exceeded the bound of one call.
	Skipped uint64
	// Gone ones could not be resolved because all processes had left the namespace, Failed ones for another reason: see [Resolver.Degraded].
	Gone, Failed uint64
}

// Resolver finds the other side of connections.
type Resolver struct {
	config Config
	own    uint64 // the namespace of this process
	host   struct {
		file  *os.File // nil until it is first needed; it outlives all others, so that it may stay open
		inode uint64
	}
	memory *cache
	// untracked are namespaces that track nothing, and until when they are not asked.
	untracked map[uint64]time.Time

	remembered, translated, untranslated, skipped, gone, failed atomic.Uint64
	degraded                                                    atomic.Pointer[error]
}

// New returns a Resolver; it opens nothing before the first request.
func New(config Config) (*Resolver, error) {
	if config.ProcRoot == "" {
		config.ProcRoot = "/proc"
	}
	if config.Entries == 0 {
		config.Entries = defaultEntries
	}
	if config.Life == 0 {
		config.Life = defaultLife
	}
	if config.PerCall == 0 {
		config.PerCall = defaultPerCall
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return nil, fmt.Errorf("identifying the network namespace of this process: %w", err)
	}
	return &Resolver{config: config, own: own.Ino, memory: newCache(config.Entries, config.Life), untracked: map[uint64]time.Time{}}, nil
}

// OtherSides returns each flow of sockets in one place from the view of the other side. Local is the real server that answers, or the real
// client that asked, and Remote is the address that it knows this side by. If no translation is known, it is the flow reversed. IPv4
// addresses mapped into IPv6 are returned as IPv4.
//
// It is to be called from one goroutine at a time.
func (r *Resolver) OtherSides(place Place, flows []Flow) []Flow {
	others := make([]Flow, len(flows))
	var open []int // those to ask about
	now := r.config.Now()
	r.memory.turn(now)
	for i, flow := range flows {
		flow = flow.unmapped()
		others[i] = flow.Reversed()
		if known, ok := r.memory.get(key{place.Namespace, flow}); ok {
			others[i] = known
			r.remembered.Add(1)
			continue
		}
		switch {
		case !flow.askable():
			r.untranslated.Add(1)
		case len(open) == r.config.PerCall:
			r.skipped.Add(1)
		default:
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return others
	}
	if err := r.ask(place, others, open); err != nil {
		r.fail(err, len(open))
		return others
	}
	for _, i := range open {
		flow := flows[i].unmapped()
		if others[i] == flow.Reversed() {
			r.untranslated.Add(1)
		} else {
			r.translated.Add(1)
		}
		r.memory.put(key{place.Namespace, flow}, others[i], now)
	}
	return others
}

// fail counts flows that could not be resolved.
func (r *Resolver) fail(err error, flows int) {
	if errors.Is(err, errGone) {
		r.gone.Add(uint64(flows))
		return
	}
	r.failed.Add(uint64(flows))
	r.degraded.Store(&err)
}

// ask asks about flows where they are translated: in the socket's namespace, then in the host's.
func (r *Resolver) ask(place Place, others []Flow, open []int) error {
	if r.mayTrack(place.Namespace) {
		namespace, err := r.enter(place)
		if err != nil {
			return err
		}
		defer namespace.Close()
		if err := r.in(namespace, place.Namespace, others, open); err != nil {
			return err
		}
	}
	if err := r.findHost(); err != nil {
		return fmt.Errorf("looking for the host's network namespace: %w", err)
	}
	if r.host.inode == place.Namespace || !r.mayTrack(r.host.inode) {
		return nil
	}
	return r.in(r.host.file, r.host.inode, others, open)
}

// enter opens a namespace by the first of its processes that still exists.
func (r *Resolver) enter(place Place) (*os.File, error) {
	err := fmt.Errorf("%w: no process is known in it", errGone)
	for _, pid := range place.PIDs {
		var namespace *os.File
		namespace, _, err = openNamespace(r.config.ProcRoot, strconv.FormatUint(uint64(pid), 10), place.Namespace)
		if err == nil || !errors.Is(err, errGone) {
			return namespace, err
		}
	}
	return nil, err
}

// mayTrack is false for a namespace that tracked nothing a moment ago.
func (r *Resolver) mayTrack(namespace uint64) bool {
	until, ok := r.untracked[namespace]
	return !ok || !r.config.Now().Before(until)
}

// tracksNothing records a namespace that tracks nothing.
func (r *Resolver) tracksNothing(namespace uint64) {
	if len(r.untracked) >= maxUntracked {
		clear(r.untracked)
	}
	r.untracked[namespace] = r.config.Now().Add(untrackedFor)
}

// findHost opens the network namespace of the host's first process, once. If that may not be read, it opens our own, which is mostly the
// host's.
func (r *Resolver) findHost() (err error) {
	if r.host.file != nil {
		return nil
	}
	r.host.file, r.host.inode, err = openNamespace(r.config.ProcRoot, "1", 0)
	if errors.Is(err, fs.ErrPermission) {
		r.host.file, r.host.inode, err = openNamespace("/proc", "self", 0)
	}
	return err
}

// in asks in one namespace.
func (r *Resolver) in(namespace *os.File, inode uint64, others []Flow, open []int) error {
	tracked := false
	questions := func() (err error) {
		tracked, err = translate(r.config.ProcRoot, others, open)
		return err
	}
	var err error
	if inode == r.own {
		err = questions()
	} else {
		err = inside(namespace, questions)
	}
	if err == nil && !tracked {
		r.tracksNothing(inode)
	}
	return err
}

// translate asks in the namespace of this thread and replaces the flows by the answers. It reports whether anything is tracked there.
func translate(procRoot string, others []Flow, open []int) (tracked bool, err error) {
	if tracked, err = tracking(procRoot); err != nil || !tracked {
		return false, err
	}
	conn, err := dial(patience)
	if err != nil {
		return true, err
	}
	defer func() { err = errors.Join(err, conn.close()) }()
	for _, i := range open {
		// What comes back from the other side is what it sends, so the flow that we send is that reversed.
		other, found, err := conn.otherSide(others[i].Reversed())
		if err != nil {
			return true, err
		}
		if found {
			others[i] = other
		}
	}
	return true, nil
}

// Close releases what the resolver holds.
func (r *Resolver) Close() error {
	if r.host.file == nil {
		return nil
	}
	return r.host.file.Close()
}

// Stats returns the counts since the start. It is safe for concurrent use.
func (r *Resolver) Stats() Stats {
	return Stats{
		Remembered: r.remembered.Load(), Translated: r.translated.Load(), Untranslated: r.untranslated.Load(),
		Skipped: r.skipped.Load(), Gone: r.gone.Load(), Failed: r.failed.Load(),
	}
}

// Degraded is the last reason why flows were counted as failed, or nil. It is safe for concurrent use.
func (r *Resolver) Degraded() error {
	if err := r.degraded.Load(); err != nil {
		return *err
	}
	return nil
}
