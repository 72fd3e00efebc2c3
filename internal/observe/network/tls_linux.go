// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
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

// knownFor is how long a process's library is known after the process has exited: the ring buffer is read more often.
const knownFor = 2 * time.Second

// tlsPlan is what is attached to a function: the programs for its beginning and its end, if that counts; and the cookies of both in a
// session.
type tlsPlan struct {
	begins, ends       string
	cookie, endsCookie bindings.NetworkCaptureNetworkTlsFunction
}

// tlsCalls has the plan for each way to call a TLS library.
var tlsCalls = [tls.Calls]tlsPlan{
	tls.Read: {
		begins: bindings.NetworkCaptureProgTlsReadBegins, ends: bindings.NetworkCaptureProgTlsReadEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_READ,
	},
	tls.Write: {
		begins: bindings.NetworkCaptureProgTlsWriteBegins, ends: bindings.NetworkCaptureProgTlsWriteEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_WRITE,
	},
	tls.ReadCounted: {
		begins: bindings.NetworkCaptureProgTlsCountedReadBegins, ends: bindings.NetworkCaptureProgTlsReadEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_READ_COUNTED,
	},
	tls.WriteCounted: {
		begins: bindings.NetworkCaptureProgTlsCountedWriteBegins, ends: bindings.NetworkCaptureProgTlsWriteEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_WRITE_COUNTED,
	},
	tls.WriteFlagged: {
		begins: bindings.NetworkCaptureProgTlsFlaggedWriteBegins, ends: bindings.NetworkCaptureProgTlsWriteEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_WRITE_FLAGGED,
	},
	tls.SendFile: {
		begins: bindings.NetworkCaptureProgTlsSendFileBegins, ends: bindings.NetworkCaptureProgTlsWriteEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_SEND_FILE,
	},
	tls.Handshake: {
		begins: bindings.NetworkCaptureProgTlsHandshakeBegins, ends: bindings.NetworkCaptureProgTlsHandshakeEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_HANDSHAKE,
	},
	tls.FirstHandshake: {
		begins: bindings.NetworkCaptureProgTlsFirstHandshakeBegins, ends: bindings.NetworkCaptureProgTlsHandshakeEnds,
		cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_FIRST_HANDSHAKE,
	},
	tls.Free: {begins: bindings.NetworkCaptureProgTlsFreed, cookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_FREED},
	tls.GoRead: {
		begins: bindings.NetworkCaptureProgTlsGoReadBegins, ends: bindings.NetworkCaptureProgTlsGoReadEnds,
		cookie:     bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_GO_READ,
		endsCookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_GO_READ_ENDS,
	},
	tls.GoWrite: {
		begins: bindings.NetworkCaptureProgTlsGoWriteBegins, ends: bindings.NetworkCaptureProgTlsGoWriteEnds,
		cookie:     bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_GO_WRITE,
		endsCookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_GO_WRITE_ENDS,
	},
	tls.GoHandshake: {
		begins: bindings.NetworkCaptureProgTlsGoHandshakeBegins, ends: bindings.NetworkCaptureProgTlsGoHandshakeEnds,
		cookie:     bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_GO_HANDSHAKE,
		endsCookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_GO_HANDSHAKE_ENDS,
	},
	tls.OldGoRead: {
		begins: bindings.NetworkCaptureProgTlsOldGoReadBegins, ends: bindings.NetworkCaptureProgTlsOldGoReadEnds,
		cookie:     bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_OLD_GO_READ,
		endsCookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_OLD_GO_READ_ENDS,
	},
	tls.OldGoWrite: {
		begins: bindings.NetworkCaptureProgTlsOldGoWriteBegins, ends: bindings.NetworkCaptureProgTlsOldGoWriteEnds,
		cookie:     bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_OLD_GO_WRITE,
		endsCookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_OLD_GO_WRITE_ENDS,
	},
	tls.OldGoHandshake: {
		begins: bindings.NetworkCaptureProgTlsOldGoHandshakeBegins, ends: bindings.NetworkCaptureProgTlsOldGoHandshakeEnds,
		cookie:     bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_OLD_GO_HANDSHAKE,
		endsCookie: bindings.NetworkCaptureNetworkTlsFunctionNETWORK_TLS_OLD_GO_HANDSHAKE_ENDS,
	},
}

// tlsTogether are the programs that serve all functions, and the names that they are loaded by, if the kernel has uprobe sessions: one is for
// those of Go.
var tlsTogether = map[bool]struct {
	program string
	as      ebpf.AttachType
}{
	false: {bindings.NetworkCaptureProgTlsSession, kernel.AttachUprobeSession},
	true:  {bindings.NetworkCaptureProgTlsMethods, ebpf.AttachTraceUprobeMulti},
}

// tlsPrograms returns the names of the programs that are needed.
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
	// known are the libraries of processes in scope, including those that are not attached to.
	known map[uint32]known
	// reported are those that unavailable was called for.
	reported map[tls.Library]bool
}

var _ observe.Follower = (*Observer)(nil)

// tlsSession reports whether one program runs for all functions of a library, and changes spec accordingly.
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

// startTLS starts attaching.
func startTLS(config Config, session bool, coll *ebpf.Collection) (*tlsAttacher, error) {
	probes, err := kernel.NewUprobes(config.SysRoot)
	if err != nil {
		return nil, err
	}
	a := &tlsAttacher{
		libraries: config.TLS.Libraries, session: session, probes: probes, coll: coll, unavailable: config.TLS.Unavailable,
		known: map[uint32]known{}, reported: map[tls.Library]bool{},
	}
	a.Attacher = functions.Start(functions.Config[tls.Found]{
		What: "the TLS library", Unseen: "Some requests through TLS are not seen", Targets: "observe::network::targets",
		Find: a.find, Wants: func(found tls.Found) bool { return len(found.Functions) > 0 }, Found: a.found, Attach: a.attach,
		Left:   func(id model.ProcessID) { a.left(id); a.forgetOldGo(id.PID) },
		Decide: config.TLS.Decide, Open: config.TLS.Open, Charge: config.TLS.Charge, Logger: config.Logger,
	})
	return a, nil
}

// find removes the functions of libraries that are not configured.
func (a *tlsAttacher) find(image elfimage.Image) (tls.Found, error) {
	found, err := tls.Find(image)
	if !slices.Contains(a.libraries, found.Library) {
		found.Functions = nil
	}
	return found, err
}

// known is the library of a process, until the given time, which is not set while the process is followed.
type known struct {
	library tls.Library // "" if it has several
	until   time.Time
	// attachedAt is when the first of its libraries was attached to, in ns of CLOCK_MONOTONIC; 0: none was.
	attachedAt uint64
}

// left forgets a process after knownFor: the end of its connections is read later.
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
		k.until = now.Add(knownFor)
		a.known[id.PID] = k
	}
}

// found notes which libraries a process has now. With several it is unknown which one carries a connection whose plaintext is not captured.
func (a *tlsAttacher) found(pid uint32, all []tls.Found) {
	attached := false
	for _, found := range all {
		if found.Library != "" {
			a.reportUnavailable(found.Library)
		}
		attached = attached || len(found.Functions) > 0
	}
	library := onlyLibrary(all)
	a.mu.Lock()
	defer a.mu.Unlock()
	if library == "" && !attached {
		delete(a.known, pid)
		return
	}
	k := known{library: library}
	// Libraries that a process loads later do not make the connections of its first one late.
	if before := a.known[pid]; attached && before.until.IsZero() && before.attachedAt != 0 {
		k.attachedAt = before.attachedAt
	} else if now, _, err := kernel.Monotonic(); attached && err == nil {
		k.attachedAt = uint64(now)
	}
	a.known[pid] = k
}

// attachedAt returns when the first library of a process was attached to, in ns of CLOCK_MONOTONIC; 0: it is not, as far as is known.
func (a *tlsAttacher) attachedAt(pid uint32) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[pid].attachedAt
}

// onlyLibrary returns the library that a process has, "" if it has none or several.
func onlyLibrary(all []tls.Found) tls.Library {
	var library tls.Library
	for _, found := range all {
		if found.Rustls || library != "" && found.Library != "" && found.Library != library {
			return ""
		}
		library = cmp.Or(library, found.Library)
	}
	return library
}

// reportUnavailable reports that a configured library cannot be attached to, the first time that a process has it.
func (a *tlsAttacher) reportUnavailable(library tls.Library) {
	why := library.Unavailable()
	if why == nil || a.unavailable == nil || !slices.Contains(a.libraries, library) {
		return
	}
	a.mu.Lock()
	said := a.reported[library]
	a.reported[library] = true
	a.mu.Unlock()
	if !said {
		a.unavailable(library, why)
	}
}

// libraryOf returns the library of a process in scope, "" if unknown.
func (a *tlsAttacher) libraryOf(pid uint32) tls.Library {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[pid].library
}

func (a *tlsAttacher) attach(to *functions.Attachment, found tls.Found, path string, pid uint32) error {
	if found.Library == tls.Go {
		if err := a.noteGo(found, pid); err != nil {
			return fmt.Errorf("passing the goroutines of a Go process to the programs: %w", err)
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

// noteGo passes the location of a Go process's goroutines to the programs.
func (a *tlsAttacher) noteGo(found tls.Found, pid uint32) error {
	a.forgetOldGo(pid) // of the program that it ran before
	if found.OnStack {
		if err := a.coll.Maps[bindings.NetworkCaptureMapNetworkTlsOldGo].Put(pid, found.GoroutineAt); err != nil {
			return err
		}
	}
	return a.coll.Variables[bindings.NetworkCaptureVarNetworkTlsGo].Set(uint32(1))
}

// forgetOldGo deletes the location of a process's goroutines; most processes have no entry.
func (a *tlsAttacher) forgetOldGo(pid uint32) {
	_ = a.coll.Maps[bindings.NetworkCaptureMapNetworkTlsOldGo].Delete(pid)
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

// tlsEnds returns how to trace a function's end: by a uretprobe, or, of Go, by uprobes at the return instructions.
func tlsEnds(f tls.Function) (kernel.UprobeKind, []uint64) {
	if f.Call.OfGo() {
		return kernel.UprobeEntry, f.Returns
	}
	return kernel.UprobeReturn, []uint64{f.Offset}
}

// attachFunction attaches to where a function ends first: a call whose beginning is seen must be seen to end.
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
func (o *Observer) Over(id model.ProcessID, _ uint32) {
	if o.tls != nil {
		o.tls.Executed(id.PID)
	}
}
