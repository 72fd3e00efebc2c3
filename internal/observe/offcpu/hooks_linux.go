// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// features are what the running kernel has, as its type information says.
type features struct {
	// exitTracepoint is sched_exit_tp, which a thread passes when it runs again.
	exitTracepoint bool
	// finish is the function that the scheduler ends a switch in, in the thread that
	// runs again (finish_task_switch, kernel/sched/core.c), where there is no such
	// tracepoint and the kernel has kprobes; else empty.
	finish string
	// taskStorage is storage for each task that may be asked for while the scheduler
	// holds its locks: since 6.4 its memory comes from BPF's own allocator, before
	// from the kernel's, which may wake another thread.
	taskStorage bool
}

// errAlone is the reason for less complete stacks where no hook sees a thread run again.
var errAlone = fmt.Errorf("the kernel has neither the tracepoint sched_exit_tp nor kprobes (CONFIG_KPROBES): %w", errTaken)

var errTaken = errors.New("each wait's stack is taken before it is known to be long, at most 2,560 times a second on each CPU; " +
	"further waits are reported without a stack")

// errAttach is the cause when the kernel has a hook and refuses it.
var errAttach = errors.New("the kernel refuses the hook")

// alone: no hook sees a thread run again.
func (f features) alone() bool { return !f.exitTracepoint && f.finish == "" }

func featuresOf(loader *kernel.Loader, sysRoot, procRoot string) (features, error) {
	var f features
	var err error
	if f.exitTracepoint, err = loader.HasTracepoint("sched_exit_tp"); err != nil {
		return f, err
	}
	if !f.exitTracepoint {
		if f.finish, err = finishOf(sysRoot, procRoot); err != nil {
			return f, err
		}
	}
	for _, member := range []string{"selem_ma", "use_kmalloc_nolock"} {
		has, err := loader.HasField("bpf_local_storage_map", member)
		if err != nil {
			return f, err
		}
		f.taskStorage = f.taskStorage || has
	}
	return f, nil
}

// trim takes out of an object what the kernel has not. threads and departures bound
// what is kept of threads, where it is kept in maps.
func (f features) trim(spec *ebpf.CollectionSpec, threads uint32) error {
	wanted := f.programs()
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(wanted, name) })
	if !f.taskStorage {
		spec.Maps[bindings.OffCPUMapOffcpuThreadIds].MaxEntries = threads
		// The verifier does not check a call that needs it; the map must exist all the same.
		unused := spec.Maps[bindings.OffCPUMapOffcpuThreads]
		unused.Type, unused.Flags, unused.MaxEntries = ebpf.Array, 0, 1
		unused.Key, unused.Value = nil, nil
	}
	if err := spec.Variables[bindings.OffCPUVarTaskStorage].Set(f.taskStorage); err != nil {
		return fmt.Errorf("setting where threads are kept: %w", err)
	}
	return nil
}

// programs are those that are attached, the one that measures last: what it finds is
// taken by the other one.
func (f features) programs() []string {
	switch {
	case f.exitTracepoint:
		return []string{bindings.OffCPUProgResumedAtExit, bindings.OffCPUProgSwitched}
	case f.finish != "":
		return []string{bindings.OffCPUProgResumedAtFinish, bindings.OffCPUProgSwitched}
	default:
		return []string{bindings.OffCPUProgSwitchedAlone}
	}
}

// attach attaches what was loaded.
func (f features) attach(coll *ebpf.Collection) ([]link.Link, error) {
	var links []link.Link
	for _, name := range f.programs() {
		attached, err := f.attachOne(name, coll.Programs[name])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attaching the program %s to the scheduler: %w: %w", name, errAttach, err), closeLinks(links))
		}
		links = append(links, attached)
	}
	return links, nil
}

func (f features) attachOne(name string, program *ebpf.Program) (link.Link, error) {
	if name == bindings.OffCPUProgResumedAtFinish {
		return link.Kprobe(f.finish, program, nil)
	}
	return link.AttachTracing(link.TracingOptions{Program: program})
}

// finishTaskSwitch is a line of kallsyms; compilers add a suffix to the name.
var finishTaskSwitch = regexp.MustCompile(`^[0-9a-f]+ [tT] (finish_task_switch(?:\.isra\.\d+|\.constprop\.\d+)?)$`)

// finishOf returns the name of finish_task_switch; it is empty where the kernel has no
// kprobes, or has inlined the function.
func finishOf(sysRoot, procRoot string) (string, error) {
	if _, err := os.Stat(sysRoot + "/bus/event_source/devices/kprobe"); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	file, err := os.Open(procRoot + "/kallsyms")
	if err != nil {
		return "", fmt.Errorf("looking for finish_task_switch: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if match := finishTaskSwitch.FindSubmatch(lines.Bytes()); match != nil {
			return string(match[1]), nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("looking for finish_task_switch: reading %s: %w", file.Name(), err)
	}
	return "", nil
}

func closeLinks(links []link.Link) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
