// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// HasTracepoint tells whether the running kernel has a tracepoint that programs of
// type tp_btf attach to: its type information names the type of each.
func (l *Loader) HasTracepoint(name string) (bool, error) {
	var probe *btf.Typedef
	return l.has("btf_trace_"+name, &probe)
}

// HasField tells whether a struct of the running kernel has a member of that name.
func (l *Loader) HasField(structure, member string) (bool, error) {
	var found *btf.Struct
	if has, err := l.has(structure, &found); !has || err != nil {
		return false, err
	}
	for _, m := range found.Members {
		if m.Name == member {
			return true, nil
		}
	}
	return false, nil
}

// has looks for a type of the kernel; target is what btf.Spec.TypeByName wants.
func (l *Loader) has(name string, target any) (bool, error) {
	types, err := l.cache.Kernel()
	if err != nil {
		return false, fmt.Errorf("reading the kernel's types: %w", err)
	}
	err = types.TypeByName(name, target)
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s in the kernel's types: %w", name, err)
	}
	return true, nil
}

// HasUprobeSession tells whether the running kernel has [UprobeSession] (Linux
// 6.13).
func (l *Loader) HasUprobeSession() (bool, error) {
	var kinds *btf.Enum
	if has, err := l.has("bpf_attach_type", &kinds); !has || err != nil {
		return false, err
	}
	return slices.ContainsFunc(kinds.Values, func(v btf.EnumValue) bool { return v.Name == "BPF_TRACE_UPROBE_SESSION" }), nil
}
