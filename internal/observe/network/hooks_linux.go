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

// features are what the running kernel has, as its type information says.
type features struct {
	// trampolines says that programs can run where functions begin and end: then
	// functions are those behind the calls that transfer, by program.
	trampolines bool
	functions   []function
	// unixEnds says that a program can run where Unix sockets end, too.
	unixEnds bool
	// lengths are the tracepoints sock_send_length and sock_recv_length (6.3).
	lengths bool
	// socketStorage is storage for each socket that tracing programs may use (5.11),
	// taskStorage that for each task.
	socketStorage, taskStorage bool
	// drops and retransmits are the programs for the arguments that kfree_skb and
	// tcp_retransmit_skb have.
	drops, retransmits string
	// requests says that what connections carry is looked at: then it is seen where it ends, too.
	requests bool
	// answers says that nothing is wanted but requests that processes answer: then no other
	// programs run than those that see what connections carry.
	answers bool
}

// dropPrograms are the programs for kfree_skb by the number of its arguments: 2
// before 5.17, 4 since 6.11.
var dropPrograms = map[int]string{
	2: bindings.NetworkProgDroppedSomehow, 3: bindings.NetworkProgDropped, 4: bindings.NetworkProgDroppedOfSocket,
}

// retransmitPrograms are those for tcp_retransmit_skb, in the same way: 3 arguments
// since 6.16.
var retransmitPrograms = map[int]string{2: bindings.NetworkProgRetransmitted, 3: bindings.NetworkProgRetransmitTried}

func featuresOf(loader *kernel.Loader) (features, error) {
	var f features
	for _, ask := range []struct {
		has  *bool
		look func(string) (bool, error)
		name string
	}{
		{&f.lengths, loader.HasTracepoint, "sock_send_length"},
		{&f.socketStorage, loader.HasFunction, "bpf_sk_storage_get_tracing"},
		{&f.unixEnds, loader.HasFunction, "unix_release"},
	} {
		var err error
		if *ask.has, err = ask.look(ask.name); err != nil {
			return f, err
		}
	}
	// Programs at tracepoints may use it since 5.12.
	missing := ebpffeatures.HaveProgramHelper(ebpf.TracePoint, asm.FnTaskStorageGet)
	if missing != nil && !errors.Is(missing, ebpf.ErrNotSupported) {
		return f, fmt.Errorf("asking the kernel for storage of tasks: %w", missing)
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
	f.trampolines = kernel.HasTrampolines()
	if !f.trampolines && !f.lengths {
		return f, errNothing
	}
	return f, nil
}

// errNothing says why the network cannot be observed.
var errNothing = errors.New("the kernel has neither the tracepoints sock_send_length and sock_recv_length (Linux 6.3) " +
	"nor lets programs run where functions begin and end (CONFIG_FUNCTION_TRACER; on arm64 Linux 6.4)")

// calls are the system calls that begin a transfer, as their tracepoints name them.
var calls = []string{
	"read", "readv", "write", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "sendfile64", "splice",
}

// receives are those that tell at their end where datagrams came from.
var receives = []string{"recvfrom", "recvmsg", "recvmmsg"}

// Tracepoint is a place in the kernel where a program of this kind runs.
type Tracepoint struct{ Group, Name string }

// Tracepoints are the places of system calls at which programs run on kernels without
// trampolines: what a benchmark compares with.
func Tracepoints() []Tracepoint {
	var list []Tracepoint
	for _, h := range (features{}).callHooks() {
		list = append(list, h.at)
	}
	return list
}

// function is a function of the kernel behind calls that transfer, and the programs
// that run when it begins and ends. Both families of addresses have one, and each kind of Unix
// socket.
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

// answerPrograms are the programs that run where functions end, where nothing is wanted but requests that processes answer: of
// functions that move no streams' bytes none.
var answerPrograms = map[string]string{
	bindings.NetworkProgFunctionSent: bindings.NetworkProgAnswersFunctionSent, bindings.NetworkProgFunctionReceived: bindings.NetworkProgAnswersFunctionReceived,
	bindings.NetworkProgFunctionSentPage: bindings.NetworkProgAnswersFunctionSentPage, bindings.NetworkProgFunctionSpliced: bindings.NetworkProgAnswersFunctionSpliced,
}

// onlyAnswers leaves out what tells nothing of requests that processes answer.
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

// begins is the name of the program for the beginning of a function, at names that of
// its end.
func (f function) begins() string { return f.first + "_" + f.name }
func (f function) ends() string   { return f.last + "_" + f.name }

// multiply makes of the programs for functions one for each.
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

// enter and exit begin the names of the tracepoints of system calls.
const enter, exit = "sys_enter_", "sys_exit_"

// tracing are the programs at tracepoints with types and at functions.
func (f features) tracing() []string {
	list := []string{bindings.NetworkProgStateChanges}
	if f.requests {
		list = append(list, bindings.NetworkProgSocketGoes)
	}
	if !f.answers {
		list = append(list, f.retransmits, bindings.NetworkProgRetransmittedSynack, bindings.NetworkProgResetSent, bindings.NetworkProgResetReceived, f.drops)
	}
	switch {
	case !f.trampolines && f.answers:
		return append(list, bindings.NetworkProgAnswersSent, bindings.NetworkProgAnswersReceived)
	case !f.trampolines:
		return append(list, bindings.NetworkProgSent, bindings.NetworkProgReceived)
	}
	for _, of := range f.functions {
		list = append(list, of.begins(), of.ends())
	}
	if f.unixEnds {
		list = append(list, bindings.NetworkProgUnixEnds)
	}
	return list
}

// iterating are the programs that are run from here.
func (f features) iterating() []string {
	return []string{f.counts(), bindings.NetworkProgAdoptSocket}
}

// counts is the program that counts what is open.
func (f features) counts() string {
	if f.socketStorage {
		return bindings.NetworkProgCountSocket
	}
	return bindings.NetworkProgCountFile
}

// trim takes out of an object what the kernel has not; others are programs that are wanted whatever it has.
func (f features) trim(spec *ebpf.CollectionSpec, others []string) {
	f.multiply(spec)
	wanted := append(append(f.tracing(), f.iterating()...), others...)
	for _, hook := range f.callHooks() {
		wanted = append(wanted, hook.program)
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(wanted, name) })
}

// attach attaches what was loaded. less says what the observation does without, or is
// nil.
func (f features) attach(coll *ebpf.Collection, sysRoot string) (attached []io.Closer, less, err error) {
	if attached, err = attachTracing(coll, f.tracing()); err != nil {
		return nil, nil, errors.Join(err, closeAll(attached))
	}
	if f.answers {
		return attached, nil, nil
	}
	calls, err := f.attachCalls(coll, sysRoot)
	if err != nil {
		return attached, fmt.Errorf("%s: %w", f.withoutCalls(), err), nil
	}
	return append(attached, calls...), nil, nil
}

// withoutCalls says what is not told where no program runs at system calls.
func (f features) withoutCalls() string {
	const always = "accept, connect and close are not timed, and connects that fail at once are not counted"
	if f.trampolines {
		return always
	}
	return always + "; reads and writes are not timed, datagrams of sockets that are not connected are told without a peer, " +
		"and what splice takes from a socket is not told"
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

// attachTracing attaches all at once: the kernel waits for each until its code may be
// changed.
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

// closeAll detaches all at once: the kernel waits for each until nobody runs it.
func closeAll(closers []io.Closer) error {
	errs := make([]error, len(closers))
	var all sync.WaitGroup
	for i, c := range closers {
		all.Go(func() { errs[i] = c.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}
