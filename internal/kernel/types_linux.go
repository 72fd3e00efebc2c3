// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// HasTracepoint reports whether the running kernel has a tracepoint that programs of type tp_btf attach to: its type information has the type
// of each.
func (l *Loader) HasTracepoint(name string) (bool, error) {
	var probe *btf.Typedef
	return l.has("btf_trace_"+name, &probe)
}

// TracepointArguments returns how many arguments programs of type tp_btf have at a tracepoint; 0 if the kernel has none of that name.
func (l *Loader) TracepointArguments(name string) (int, error) {
	var found *btf.Typedef
	if has, err := l.has("btf_trace_"+name, &found); !has || err != nil {
		return 0, err
	}
	pointer, ok := btf.UnderlyingType(found.Type).(*btf.Pointer)
	if !ok {
		return 0, fmt.Errorf("reading the type of the tracepoint %s: it is a %T", name, found.Type)
	}
	function, ok := pointer.Target.(*btf.FuncProto)
	if !ok {
		return 0, fmt.Errorf("reading the type of the tracepoint %s: it points to a %T", name, pointer.Target)
	}
	return len(function.Params) - 1, nil // the first is the kernel's own
}

// HasField reports whether a struct of the running kernel has a member of that name.
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

// HasStruct reports whether the running kernel has a struct of that name.
func (l *Loader) HasStruct(name string) (bool, error) {
	var found *btf.Struct
	return l.has(name, &found)
}

// has looks up a type of the kernel; target is the target of btf.Spec.TypeByName.
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

// HasUprobeSession reports whether the running kernel has [UprobeSession] (Linux 6.13).
func (l *Loader) HasUprobeSession() (bool, error) {
	var kinds *btf.Enum
	if has, err := l.has("bpf_attach_type", &kinds); !has || err != nil {
		return false, err
	}
	return slices.ContainsFunc(kinds.Values, func(v btf.EnumValue) bool { return v.Name == "BPF_TRACE_UPROBE_SESSION" }), nil
}

// HasFunction reports whether the running kernel has a function of that name that programs can be attached to.
func (l *Loader) HasFunction(name string) (bool, error) {
	var found *btf.Func
	return l.has(name, &found)
}

// EnumValues returns the values of an enum of the running kernel by name; none if it has no such enum.
func (l *Loader) EnumValues(enum string) (map[string]uint64, error) {
	var found *btf.Enum
	if has, err := l.has(enum, &found); !has || err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	for _, v := range found.Values {
		values[v.Name] = v.Value
	}
	return values, nil
}
