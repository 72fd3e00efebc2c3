// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	ebpffeatures "github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// features are what the running kernel has, by its type information.
type features struct {
	// trampolines: programs can run where functions begin and end. Then functions are those behind the calls that transfer, by program.
	trampolines bool
	functions   []function
	// unixEnds: a program can run where Unix sockets end, too.
	unixEnds bool
	// lengths are the tracepoints sock_send_length and sock_recv_length (6.3).
	lengths bool
	// socketStorage is storage for each socket that tracing programs may use (5.11), taskStorage that for each task.
	socketStorage, taskStorage bool
	// listed: TCP sockets are kept in a list, and others are counted by file, because no program can iterate over socket storage.
	listed bool
	// iteratesMaps: programs can iterate over maps (5.13), also over that list.
	iteratesMaps bool
	// allocates: hash maps allocate their elements in any context (6.1), so that a large one takes only what it uses.
	allocates bool
	// uring are the tracepoints and types by which requests of io_uring are followed where programs cannot run at functions (6.4; with all
	// memory since 6.10).
	uring bool
	// drops and retransmits are the programs for the arguments that kfree_skb and tcp_retransmit_skb have.
	drops, retransmits string
	// requests: what connections carry is captured, which also needs the programs at their ends.
	requests bool
	// answers: only requests that processes answer are needed, so that no programs run except those that capture what connections carry.
	answers bool
}

// dropPrograms are the programs for kfree_skb by the number of its arguments: 2
// before 5.17, 4 since 6.11.
var dropPrograms = map[int]string{
	2: bindings.NetworkProgDroppedWithoutReason, 3: bindings.NetworkProgDropped, 4: bindings.NetworkProgDroppedOfSocket,
}

// retransmitPrograms are the programs for tcp_retransmit_skb by the number of its arguments: 3 since 6.16.
var retransmitPrograms = map[int]string{2: bindings.NetworkProgRetransmitted, 3: bindings.NetworkProgRetransmitTried}

func featuresOf(loader *kernel.Loader) (features, error) {
	var f features
	for _, of := range []struct {
		is   *bool
		has  func(string) (bool, error)
		name string
	}{
		{&f.lengths, loader.HasTracepoint, "sock_send_length"},
		{&f.socketStorage, loader.HasFunction, "bpf_sk_storage_get_tracing"},
		{&f.allocates, loader.HasStruct, "bpf_mem_alloc"},
		{&f.unixEnds, loader.HasFunction, "unix_release"},
	} {
		var err error
		if *of.is, err = of.has(of.name); err != nil {
			return f, err
		}
	}
	helpers, err := loader.EnumValues("bpf_func_id")
	if err != nil {
		return f, err
	}
	_, f.iteratesMaps = helpers["BPF_FUNC_for_each_map_elem"]
	// Programs at tracepoints may use it since 5.12.
	missing := ebpffeatures.HaveProgramHelper(ebpf.TracePoint, asm.FnTaskStorageGet)
	if missing != nil && !errors.Is(missing, ebpf.ErrNotSupported) {
		return f, fmt.Errorf("checking whether the kernel has storage for tasks: %w", missing)
	}
	f.taskStorage = missing == nil
	for _, of := range []struct {
		program    *string
		tracepoint string
		byCount    map[int]string
	}{
		{&f.drops, "kfree_skb", dropPrograms},
		{&f.retransmits, "tcp_retransmit_skb", retransmitPrograms},
	} {
		n, err := loader.TracepointArguments(of.tracepoint)
		if err != nil {
			return f, err
		}
		*of.program = of.byCount[min(n, slices.Max(slices.Collect(maps.Keys(of.byCount))))]
	}
	for _, of := range socketFunctions {
		has, err := loader.HasFunction(of.name)
		if err != nil {
			return f, err
		}
		if has {
			f.functions = append(f.functions, of)
		}
	}
	if f.uring, err = hasUring(loader); err != nil {
		return f, err
	}
	f.trampolines = loader.HasTrampolines()
	if !f.trampolines && !f.lengths {
		return f, errNothing
	}
	return f, nil
}

// errNothing: the network cannot be observed on this kernel.
var errNothing = errors.New("the kernel has neither the tracepoints sock_send_length and sock_recv_length (Linux 6.3) " +
	"nor lets programs run where functions begin and end (CONFIG_FUNCTION_TRACER; on arm64 Linux 6.4)")

// calls are the system calls that begin a transfer, by the names of their tracepoints.
var calls = []string{
	"read", "readv", "write", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "sendfile64", "splice",
}

// receives are those whose end shows where datagrams came from.
var receives = []string{"recvfrom", "recvmsg", "recvmmsg"}

// Tracepoint is a tracepoint at which a program of this kind runs.
type Tracepoint struct{ Group, Name string }

// Tracepoints are those of system calls at which programs run on kernels without trampolines, for comparison in a benchmark.
func Tracepoints() []Tracepoint {
	var list []Tracepoint
	for _, h := range (features{}).callHooks() {
		list = append(list, h.at)
	}
	return list
}

// function is a kernel function behind calls that transfer, and the programs that run when it begins and ends. Each address family has one,
// and each type of Unix socket.
type function struct{ name, first, last string }

var socketFunctions = []function{
	{"inet_sendmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionSent},
	{"inet6_sendmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionSent},
	{"unix_stream_sendmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionSent},
	{"unix_dgram_sendmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionSent},
	{"inet_recvmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionReceived},
	{"inet6_recvmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionReceived},
	{"unix_stream_recvmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionReceived},
	{"unix_dgram_recvmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgDatagramReceived},
	{"unix_seqpacket_recvmsg", bindings.NetworkProgMessageBegins, bindings.NetworkProgFunctionReceived},
	{"inet_sendpage", bindings.NetworkProgFunctionBegins, bindings.NetworkProgFunctionSentPage},
	{"unix_stream_sendpage", bindings.NetworkProgFunctionBegins, bindings.NetworkProgFunctionSentPage},
	{"tcp_splice_read", bindings.NetworkProgFunctionBegins, bindings.NetworkProgFunctionSpliced},
	{"unix_stream_splice_read", bindings.NetworkProgFunctionBegins, bindings.NetworkProgFunctionSpliced},
}

// answerPrograms are the programs that run where functions end, if only requests that processes answer are needed: none for functions that
// transfer no bytes of streams.
var answerPrograms = map[string]string{
	bindings.NetworkProgFunctionSent: bindings.NetworkCaptureProgAnswersFunctionSent, bindings.NetworkProgFunctionReceived: bindings.NetworkCaptureProgAnswersFunctionReceived,
	bindings.NetworkProgFunctionSentPage: bindings.NetworkCaptureProgAnswersFunctionSentPage, bindings.NetworkProgFunctionSpliced: bindings.NetworkCaptureProgAnswersFunctionSpliced,
}

// onlyAnswers removes what is not needed for requests that processes answer.
func (f features) onlyAnswers() features {
	f.answers = true
	var functions []function
	for _, of := range f.functions {
		if last, ok := answerPrograms[of.last]; ok && !strings.Contains(of.name, "dgram") {
			functions = append(functions, function{of.name, of.first, last})
		}
	}
	f.functions = functions
	return f
}

// begins returns the name of the program for the beginning of a function, at names of the program for its end.
func (f function) begins() string { return f.first + "_" + f.name }
func (f function) ends() string   { return f.last + "_" + f.name }

// multiply copies the programs for functions, one for each function.
func (f features) multiply(spec *ebpf.CollectionSpec) {
	for _, of := range f.functions {
		for name, template := range map[string]string{of.begins(): of.first, of.ends(): of.last} {
			program := spec.Programs[template].Copy()
			program.AttachTo = of.name
			spec.Programs[name] = program
		}
	}
}

// callHook is a program at a tracepoint of a system call.
type callHook struct {
	at      Tracepoint
	program string
}

func (f features) callHooks() []callHook {
	if f.answers {
		return nil
	}
	var hooks []callHook
	on := func(program, which string, names ...string) {
		for _, name := range names {
			hooks = append(hooks, callHook{Tracepoint{"syscalls", which + name}, program})
		}
	}
	if !f.trampolines {
		on(bindings.NetworkProgCallBegins, enter, calls...)
		on(bindings.NetworkProgReceiveEnds, exit, receives...)
		on(bindings.NetworkProgSpliceEnds, exit, "splice")
	}
	on(bindings.NetworkProgOpenBegins, enter, "accept", "accept4", "connect")
	on(bindings.NetworkProgAcceptEnds, exit, "accept", "accept4")
	on(bindings.NetworkProgConnectEnds, exit, "connect")
	on(bindings.NetworkProgCloseBegins, enter, "close")
	on(bindings.NetworkProgCloseEnds, exit, "close")
	return hooks
}

// enter and exit are the prefixes of the names of the tracepoints of system calls.
const enter, exit = "sys_enter_", "sys_exit_"

// tracing returns the programs at tracepoints with types and at functions.
func (f features) tracing() []string {
	list := []string{bindings.NetworkProgStateChanges}
	if f.requests || f.listed {
		list = append(list, bindings.NetworkProgSocketDestroyed)
	}
	if !f.answers {
		list = append(list, f.retransmits, bindings.NetworkProgRetransmittedSynack, bindings.NetworkProgResetSent, bindings.NetworkProgResetReceived, f.drops)
	}
	switch {
	case !f.trampolines && f.answers:
		return append(append(list, bindings.NetworkCaptureProgAnswersSent, bindings.NetworkCaptureProgAnswersReceived), f.uringPrograms()...)
	case !f.trampolines:
		return append(append(list, bindings.NetworkProgSent, bindings.NetworkProgReceived), f.uringPrograms()...)
	}
	for _, of := range f.functions {
		list = append(list, of.begins(), of.ends())
	}
	if f.unixEnds && f.requests {
		list = append(list, bindings.NetworkCaptureProgUnixReleased)
	}
	return list
}

// iterating returns the iterator programs that are run from here.
func (f features) iterating() []string {
	return []string{f.counts(), bindings.NetworkProgAdoptSocket}
}

// counts returns the program that counts open sockets.
func (f features) counts() string {
	switch {
	case !f.listed:
		return bindings.NetworkProgCountSocket
	case f.iteratesMaps:
		return bindings.NetworkProgCountFileAndList
	}
	return bindings.NetworkProgCountFile
}

// trim removes from an object what the kernel does not have; others are programs that are kept in any case.
func (f features) trim(spec *ebpf.CollectionSpec, others []string) {
	f.multiply(spec)
	wanted := append(append(f.tracing(), f.iterating()...), others...)
	for _, hook := range f.callHooks() {
		wanted = append(wanted, hook.program)
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(wanted, name) })
}

// attach attaches the loaded programs. less is why no program runs at system calls, or nil.
func (f features) attach(coll *ebpf.Collection, sysRoot string) (attached []io.Closer, less, err error) {
	if attached, err = attachTracing(coll, f.tracing()); err != nil {
		return nil, nil, errors.Join(err, closeAll(attached))
	}
	if f.answers {
		return attached, nil, nil
	}
	calls, err := f.attachCalls(coll, sysRoot)
	return append(attached, calls...), err, nil
}

// withoutCalls describes what is not reported if no program runs at system calls.
func (f features) withoutCalls() string {
	const always = "accept, connect and close are not timed, and connects that fail at once are not counted"
	if f.trampolines {
		return always
	}
	return always + "; reads and writes are not timed, datagrams of sockets that are not connected are reported without a peer, " +
		"and what splice takes from a socket is not reported"
}

// withoutRequests is why no request is reported if no program runs at system calls: if programs cannot run at functions, what a call
// transfers is known from its beginning. It is nil if requests are reported, or none are configured. less is why no program runs there.
func (f features) withoutRequests(less error) error {
	if less == nil || !f.requests || f.trampolines || f.answers {
		return nil
	}
	if f.followsUring() {
		return fmt.Errorf("requests are unavailable except those by io_uring, plaintext and TLS: %w", less)
	}
	return fmt.Errorf("requests are unavailable, plaintext and TLS: %w", less)
}

// attachCalls attaches to the tracepoints of system calls, which are in tracefs.
func (f features) attachCalls(coll *ebpf.Collection, sysRoot string) (_ []io.Closer, err error) {
	tracepoints, err := kernel.OpenTracepoints(sysRoot)
	if err != nil {
		return nil, err
	}
	var attached []io.Closer
	defer func() {
		if err = errors.Join(err, tracepoints.Close()); err != nil {
			err = errors.Join(err, closeAll(attached))
		}
	}()
	for _, hook := range f.callHooks() {
		t, err := tracepoints.Attach(coll.Programs[hook.program], hook.at.Group, hook.at.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the architecture has no such call
		}
		if err != nil {
			return nil, err
		}
		attached = append(attached, t)
	}
	return attached, nil
}

// attachTracing attaches all programs concurrently: for each the kernel waits until its code may be changed.
func attachTracing(coll *ebpf.Collection, names []string) ([]io.Closer, error) {
	links, errs := make([]io.Closer, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[name]})
			if err != nil {
				errs[i] = fmt.Errorf("attaching the program %s: %w", name, err)
				return
			}
			links[i] = l
		})
	}
	all.Wait()
	return slices.DeleteFunc(links, func(c io.Closer) bool { return c == nil }), errors.Join(errs...)
}

// closeAll detaches all programs concurrently: for each the kernel waits until it no longer runs.
func closeAll(closers []io.Closer) error {
	errs := make([]error, len(closers))
	var all sync.WaitGroup
	for i, c := range closers {
		all.Go(func() { errs[i] = c.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}
