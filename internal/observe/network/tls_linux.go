// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/functions"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// knownFor is how long a process's library is known after it has left: the ring buffer is read more often.
const knownFor = 2 * time.Second

// tlsPlan is what is attached to a function: the programs for where it begins and where
// it ends, if that counts; and the cookies of both in a session.
type tlsPlan struct {
	begins, ends       string
	cookie, endsCookie bindings.NetworkNetworkTlsFunction
}

// tlsCalls has the plan for each way to call a TLS library.
var tlsCalls = [tls.Calls]tlsPlan{
	tls.Read: {
		begins: bindings.NetworkProgTlsReadBegins, ends: bindings.NetworkProgTlsReadEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_READ,
	},
	tls.Write: {
		begins: bindings.NetworkProgTlsWriteBegins, ends: bindings.NetworkProgTlsWriteEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_WRITE,
	},
	tls.ReadCounted: {
		begins: bindings.NetworkProgTlsCountedReadBegins, ends: bindings.NetworkProgTlsReadEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_READ_COUNTED,
	},
	tls.WriteCounted: {
		begins: bindings.NetworkProgTlsCountedWriteBegins, ends: bindings.NetworkProgTlsWriteEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_WRITE_COUNTED,
	},
	tls.WriteFlagged: {
		begins: bindings.NetworkProgTlsFlaggedWriteBegins, ends: bindings.NetworkProgTlsWriteEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_WRITE_FLAGGED,
	},
	tls.SendFile: {
		begins: bindings.NetworkProgTlsSendFileBegins, ends: bindings.NetworkProgTlsWriteEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_SEND_FILE,
	},
	tls.Handshake: {
		begins: bindings.NetworkProgTlsHandshakeBegins, ends: bindings.NetworkProgTlsHandshakeEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_HANDSHAKE,
	},
	tls.FirstHandshake: {
		begins: bindings.NetworkProgTlsFirstHandshakeBegins, ends: bindings.NetworkProgTlsHandshakeEnds,
		cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_FIRST_HANDSHAKE,
	},
	tls.Free: {begins: bindings.NetworkProgTlsFreed, cookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_FREED},
	tls.GoRead: {
		begins: bindings.NetworkProgTlsGoReadBegins, ends: bindings.NetworkProgTlsGoReadEnds,
		cookie:     bindings.NetworkNetworkTlsFunctionNETWORK_TLS_GO_READ,
		endsCookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_GO_READ_ENDS,
	},
	tls.GoWrite: {
		begins: bindings.NetworkProgTlsGoWriteBegins, ends: bindings.NetworkProgTlsGoWriteEnds,
		cookie:     bindings.NetworkNetworkTlsFunctionNETWORK_TLS_GO_WRITE,
		endsCookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_GO_WRITE_ENDS,
	},
	tls.GoHandshake: {
		begins: bindings.NetworkProgTlsGoHandshakeBegins, ends: bindings.NetworkProgTlsGoHandshakeEnds,
		cookie:     bindings.NetworkNetworkTlsFunctionNETWORK_TLS_GO_HANDSHAKE,
		endsCookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_GO_HANDSHAKE_ENDS,
	},
	tls.OldGoRead: {
		begins: bindings.NetworkProgTlsOldGoReadBegins, ends: bindings.NetworkProgTlsOldGoReadEnds,
		cookie:     bindings.NetworkNetworkTlsFunctionNETWORK_TLS_OLD_GO_READ,
		endsCookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_OLD_GO_READ_ENDS,
	},
	tls.OldGoWrite: {
		begins: bindings.NetworkProgTlsOldGoWriteBegins, ends: bindings.NetworkProgTlsOldGoWriteEnds,
		cookie:     bindings.NetworkNetworkTlsFunctionNETWORK_TLS_OLD_GO_WRITE,
		endsCookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_OLD_GO_WRITE_ENDS,
	},
	tls.OldGoHandshake: {
		begins: bindings.NetworkProgTlsOldGoHandshakeBegins, ends: bindings.NetworkProgTlsOldGoHandshakeEnds,
		cookie:     bindings.NetworkNetworkTlsFunctionNETWORK_TLS_OLD_GO_HANDSHAKE,
		endsCookie: bindings.NetworkNetworkTlsFunctionNETWORK_TLS_OLD_GO_HANDSHAKE_ENDS,
	},
}

// tlsTogether are the programs that do for all functions, and as what they are loaded, where
// the kernel has sessions: one is for those of Go.
var tlsTogether = map[bool]struct {
	program string
	as      ebpf.AttachType
}{
	false: {bindings.NetworkProgTlsSession, kernel.AttachUprobeSession},
	true:  {bindings.NetworkProgTlsMethods, ebpf.AttachTraceUprobeMulti},
}

// tlsPrograms are those that are needed.
func tlsPrograms(session bool) []string {
	if session {
		return []string{tlsTogether[false].program, tlsTogether[true].program}
	}
	var names []string
	for _, of := range tlsCalls {
		names = append(names, of.begins)
		if of.ends != "" {
			names = append(names, of.ends)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tlsAttacher attaches to the TLS libraries of processes.
type tlsAttacher struct {
	*functions.Attacher[tls.Found]
	libraries []tls.Library
	session   bool
	probes    *kernel.Uprobes
	coll      *ebpf.Collection

	unavailable func(library tls.Library, why error)

	mu sync.Mutex
	// known are the libraries of processes in scope, also of those that are not attached to.
	known map[uint32]known
	// told are those that unavailable was told of.
	told map[tls.Library]bool
}

var _ observe.Follower = (*Observer)(nil)

// tlsSession tells whether one program runs for all functions of a library, and has it loaded so.
func tlsSession(config Config, loader *kernel.Loader, spec *ebpf.CollectionSpec) (bool, error) {
	if config.TLS.Plain {
		return false, nil
	}
	session, err := loader.HasUprobeSession()
	if err != nil {
		return false, err
	}
	if session {
		for _, of := range tlsTogether {
			spec.Programs[of.program].AttachType = of.as
		}
	}
	return session, nil
}

// startTLS begins to attach.
func startTLS(config Config, session bool, coll *ebpf.Collection) (*tlsAttacher, error) {
	probes, err := kernel.NewUprobes(config.SysRoot)
	if err != nil {
		return nil, err
	}
	a := &tlsAttacher{
		libraries: config.TLS.Libraries, session: session, probes: probes, coll: coll, unavailable: config.TLS.Unavailable,
		known: map[uint32]known{}, told: map[tls.Library]bool{},
	}
	a.Attacher = functions.Start(functions.Config[tls.Found]{
		What: "the TLS library", Unseen: "Some requests through TLS are not seen", Targets: "observe::network::targets",
		Find: a.find, Wants: func(found tls.Found) bool { return len(found.Functions) > 0 }, Found: a.found, Attach: a.attach,
		Left:   func(id model.ProcessID) { a.left(id); a.forgetOldGo(id.PID) },
		Decide: config.TLS.Decide, Open: config.TLS.Open, Charge: config.TLS.Charge, Logger: config.Logger,
	})
	return a, nil
}

// find leaves out the functions of libraries that are not wanted.
func (a *tlsAttacher) find(image elfimage.Image) (tls.Found, error) {
	found, err := tls.Find(image)
	if !slices.Contains(a.libraries, found.Library) {
		found.Functions = nil
	}
	return found, err
}

// known is the library of a process, until the given time, which is not set while the process is looked into.
type known struct {
	library tls.Library
	until   time.Time
}

// left forgets a process soon: that its connections have ended is read later.
func (a *tlsAttacher) left(id model.ProcessID) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for pid, k := range a.known {
		if !k.until.IsZero() && now.After(k.until) {
			delete(a.known, pid)
		}
	}
	if k, ok := a.known[id.PID]; ok {
		a.known[id.PID] = known{k.library, now.Add(knownFor)}
	}
}

// found is told which libraries a process has now; of several the one that is attached to counts.
func (a *tlsAttacher) found(pid uint32, all []tls.Found) {
	var library tls.Library
	attached := false
	for _, found := range all {
		if found.Library == "" {
			continue
		}
		a.tellUnavailable(found.Library)
		if is := len(found.Functions) > 0; library == "" || is && !attached {
			library, attached = found.Library, is
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if library == "" {
		delete(a.known, pid)
	} else {
		a.known[pid] = known{library: library}
	}
}

// tellUnavailable says that a library which is wanted cannot be looked into, the first time that a process has it.
func (a *tlsAttacher) tellUnavailable(library tls.Library) {
	why := library.Unavailable()
	if why == nil || a.unavailable == nil || !slices.Contains(a.libraries, library) {
		return
	}
	a.mu.Lock()
	said := a.told[library]
	a.told[library] = true
	a.mu.Unlock()
	if !said {
		a.unavailable(library, why)
	}
}

// libraryOf is the library of a process in scope, "" where none is known.
func (a *tlsAttacher) libraryOf(pid uint32) tls.Library {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[pid].library
}

func (a *tlsAttacher) attach(to *functions.Attachment, found tls.Found, path string, pid uint32) error {
	if found.Library == tls.Go {
		if err := a.tellGo(found, pid); err != nil {
			return fmt.Errorf("telling the programs of Go: %w", err)
		}
	}
	if a.session {
		return a.attachTogether(to, found, path, pid)
	}
	var errs []error
	for _, f := range found.Functions {
		errs = append(errs, a.attachFunction(to, f, path, pid))
	}
	return errors.Join(errs...)
}

// tellGo tells the programs that a process is one of Go, and where it has its goroutines.
func (a *tlsAttacher) tellGo(found tls.Found, pid uint32) error {
	a.forgetOldGo(pid) // of the program that it ran before
	if found.OnStack {
		if err := a.coll.Maps[bindings.NetworkMapNetworkTlsOldGo].Put(pid, found.GoroutineAt); err != nil {
			return err
		}
	}
	return a.coll.Variables[bindings.NetworkVarNetworkTlsGo].Set(uint32(1))
}

// forgetOldGo forgets where a process has its goroutines; most are not in the table.
func (a *tlsAttacher) forgetOldGo(pid uint32) {
	_ = a.coll.Maps[bindings.NetworkMapNetworkTlsOldGo].Delete(pid)
}

// attachTogether attaches to all functions at once.
func (a *tlsAttacher) attachTogether(to *functions.Attachment, found tls.Found, path string, pid uint32) error {
	var offsets, cookies []uint64
	for _, f := range found.Functions {
		of := tlsCalls[f.Call]
		offsets, cookies = append(offsets, f.Offset), append(cookies, uint64(of.cookie))
		for _, end := range f.Returns {
			offsets, cookies = append(offsets, end), append(cookies, uint64(of.endsCookie))
		}
	}
	with := tlsTogether[slices.ContainsFunc(found.Functions, func(f tls.Function) bool { return f.Call.OfGo() })]
	probe, err := a.probes.AttachMulti(with.as, a.coll.Programs[with.program], path, offsets, cookies, pid)
	if err != nil {
		return err
	}
	to.Add(probe, len(found.Functions))
	return nil
}

// tlsEnds says how to see a function end: by the kernel's means, or of Go by the instructions that return.
func tlsEnds(f tls.Function) (kernel.UprobeKind, []uint64) {
	if f.Call.OfGo() {
		return kernel.UprobeEntry, f.Returns
	}
	return kernel.UprobeReturn, []uint64{f.Offset}
}

// attachFunction attaches to where a function ends first: what is seen to begin must be seen to end.
func (a *tlsAttacher) attachFunction(to *functions.Attachment, f tls.Function, path string, pid uint32) error {
	of := tlsCalls[f.Call]
	kind, ends := tlsEnds(f)
	if of.ends != "" {
		probe, err := a.probes.Attach(kind, a.coll.Programs[of.ends], path, ends, pid)
		if err != nil {
			return err
		}
		to.Add(probe, 0)
	}
	probe, err := a.probes.Attach(kernel.UprobeEntry, a.coll.Programs[of.begins], path, []uint64{f.Offset}, pid)
	if err != nil {
		return err
	}
	to.Add(probe, 1)
	return nil
}

// Look implements observe.Follower.
func (o *Observer) Look(pid uint32) {
	if o.tls != nil {
		o.tls.Look(pid)
	}
}

// LookAll implements observe.Follower.
func (o *Observer) LookAll() {
	if o.tls != nil {
		o.tls.LookAll()
	}
}

// Over implements observe.Follower.
func (o *Observer) Over(id model.ProcessID, _ uint32) { o.Look(id.PID) }
