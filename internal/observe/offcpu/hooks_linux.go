// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// features are what the running kernel has, as its type information says.
type features struct {
	// exitTracepoint is sched_exit_tp, which a thread passes when it runs again.
	exitTracepoint bool
	// taskStorage is storage for each task that may be asked for while the scheduler
	// holds its locks: since 6.4 its memory comes from BPF's own allocator, before
	// from the kernel's, which may wake another thread.
	taskStorage bool
}

func featuresOf(loader *kernel.Loader) (features, error) {
	var f features
	var err error
	if f.exitTracepoint, err = loader.HasTracepoint("sched_exit_tp"); err != nil {
		return f, err
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

// trim takes out of an object what the kernel has not.
func (f features) trim(spec *ebpf.CollectionSpec, threads uint32) error {
	if f.exitTracepoint {
		delete(spec.Programs, bindings.OffCPUProgResumedAtFinish)
	} else {
		delete(spec.Programs, bindings.OffCPUProgResumedAtExit)
	}
	if !f.taskStorage {
		spec.Maps[bindings.OffCPUMapOffcpuThreadIds].MaxEntries = threads
		// The verifier looks at no call that needs it; the map must exist all the same.
		unused := spec.Maps[bindings.OffCPUMapOffcpuThreads]
		unused.Type, unused.Flags, unused.MaxEntries = ebpf.Array, 0, 1
		unused.Key, unused.Value = nil, nil
	}
	if err := spec.Variables[bindings.OffCPUVarTaskStorage].Set(f.taskStorage); err != nil {
		return fmt.Errorf("setting where threads are kept: %w", err)
	}
	return nil
}

// attach attaches what was loaded, the program that measures last: what it finds
// is taken by the other one.
func (f features) attach(coll *ebpf.Collection, procRoot string) (_ []link.Link, err error) {
	var links []link.Link
	defer func() {
		if err != nil {
			err = errors.Join(err, closeLinks(links))
		}
	}()
	var resumed link.Link
	if f.exitTracepoint {
		resumed, err = link.AttachTracing(link.TracingOptions{Program: coll.Programs[bindings.OffCPUProgResumedAtExit]})
	} else {
		resumed, err = attachFinish(coll.Programs[bindings.OffCPUProgResumedAtFinish], procRoot)
	}
	if err != nil {
		return nil, fmt.Errorf("attaching to where a thread runs again: %w; that needs the tracepoint sched_exit_tp, or kprobes (CONFIG_KPROBES)", err)
	}
	links = append(links, resumed)
	switched, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[bindings.OffCPUProgSwitched]})
	if err != nil {
		return nil, fmt.Errorf("attaching to sched_switch: %w", err)
	}
	return append(links, switched), nil
}

// finishTaskSwitch is the kernel's function that the scheduler ends a switch in, in
// the thread that runs again (kernel/sched/core.c); compilers add a suffix.
var finishTaskSwitch = regexp.MustCompile(`^[0-9a-f]+ [tT] (finish_task_switch(?:\.isra\.\d+|\.constprop\.\d+)?)$`)

func attachFinish(program *ebpf.Program, procRoot string) (link.Link, error) {
	file, err := os.Open(procRoot + "/kallsyms")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if match := finishTaskSwitch.FindSubmatch(lines.Bytes()); match != nil {
			return link.Kprobe(string(match[1]), program, nil)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
	}
	return nil, fmt.Errorf("the kernel has neither the tracepoint nor, in %s, the function finish_task_switch", file.Name())
}

func closeLinks(links []link.Link) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
