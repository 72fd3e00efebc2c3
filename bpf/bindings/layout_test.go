// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package bindings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// shared are the structs that C writes and Go reads.
var shared = []struct {
	object, name string
	size         uint32
	value        any
}{
	{"oncpu", "stack_entry", 88, OnCPUStackEntry{}},
	{"oncpu", "stack_table", 48 + 2*1024, OnCPUStackTable{}},
	{"offcpu", "stack_entry", 88, OnCPUStackEntry{}},
	{"offcpu", "stack_table", 48 + 2*1024, OnCPUStackTable{}},
	{"offcpu", "offcpu_cpu", 56, OffCPUOffcpuCpu{}},
	{"process", "scope_entry", 24, ProcessScopeEntry{}},
	{"oncpu", "unwind_rule", 16, OnCPUUnwindRule{}},
	{"oncpu", "unwind_page", 8, OnCPUUnwindPage{}},
	{"oncpu", "unwind_mapping", 24, OnCPUUnwindMapping{}},
	{"oncpu", "unwind_space", 8, OnCPUUnwindSpace{}},
	{"process", "process_event", 40, ProcessProcessEvent{}},
	{"usage", "process_usage", 24, UsageProcessUsage{}},
	{"network", "network_key", 64, NetworkNetworkKey{}},
	{"network", "network_tuple", 44, NetworkNetworkTuple{}},
	{"network", "network_series", 320, NetworkNetworkSeries{}},
	{"network", "network_record", 1024, NetworkNetworkRecord{}},
	{"network", "network_histogram", 120, NetworkNetworkHistogram{}},
	{"network", "network_listener", 24, NetworkNetworkListener{}},
	{"networkcapture", "network_path", 72, NetworkCaptureNetworkPath{}},
	{"networkcapture", "network_value_key", 32, NetworkCaptureNetworkValueKey{}},
	{"networkcapture", "network_value", 24, NetworkCaptureNetworkValue{}},
	{"network", "network_socket", 24, NetworkNetworkSocket{}},
	{"network", "network_segment", 56, NetworkNetworkSegment{}},
	{"network", "network_request_record", 16, NetworkNetworkRequestRecord{}},
	{"network", "network_count_key", 8, NetworkNetworkCountKey{}},
	{"memorymalloc", "live_key", 16, MemoryMallocLiveKey{}},
	{"memorymalloc", "live_allocation", 40, MemoryMallocLiveAllocation{}},
}

// objects reads the compiled objects of every architecture, by file name.
func objects(t *testing.T, room string) map[string]*ebpf.CollectionSpec {
	t.Helper()
	specs := map[string]*ebpf.CollectionSpec{}
	for _, arch := range []string{"x86", "arm64"} {
		name := room + "_" + arch + "_bpfel.o"
		file, err := os.Open(filepath.Clean(name))
		if os.IsNotExist(err) && guest.Running() {
			continue // the guests have the test binary alone; the object in it is tested below
		}
		require.NoError(t, err)
		spec, err := ebpf.LoadCollectionSpecFromReader(file)
		require.NoError(t, file.Close())
		require.NoError(t, err, name)
		specs[name] = spec
	}
	return specs
}

func embedded(t *testing.T, room string) *ebpf.CollectionSpec {
	t.Helper()
	load := map[string]func() (*ebpf.CollectionSpec, error){
		"oncpu": LoadOnCPU, "offcpu": LoadOffCPU, "process": LoadProcess, "memoryfaults": LoadMemoryFaults, "memorymalloc": LoadMemoryMalloc,
		"network": LoadNetwork, "networkcapture": LoadNetworkCapture, "usage": LoadUsage,
	}
	spec, err := load[room]()
	require.NoError(t, err)
	return spec
}

func TestLayouts(t *testing.T) {
	for _, s := range shared {
		specs := objects(t, s.object)
		specs["embedded"] = embedded(t, s.object)
		for name, spec := range specs {
			t.Run(s.name+" of "+name, func(t *testing.T) {
				var inC *btf.Struct
				require.NoError(t, spec.Types.TypeByName(s.name, &inC))
				require.Equal(t, s.size, inC.Size, "the size that the readers use")
				inGo := reflect.TypeOf(s.value)
				require.Equal(t, uintptr(inC.Size), sizeOfGo(inGo))
				require.Equal(t, membersOfC(t, inC), fieldsOfGo(inGo))
			})
		}
	}
}

// sizeOfGo leaves out what Go adds after an array without elements at the end,
// so that its address stays within the struct.
func sizeOfGo(s reflect.Type) uintptr {
	if last := s.Field(s.NumField() - 1); last.Type.Size() == 0 {
		return last.Offset
	}
	return s.Size()
}

// member is a field as both languages have it.
type member struct {
	name         string
	offset, size uintptr
}

func membersOfC(t *testing.T, s *btf.Struct) []member {
	var members []member
	for _, m := range s.Members {
		size, err := btf.Sizeof(m.Type)
		require.NoError(t, err, m.Name)
		require.Zero(t, m.BitfieldSize, m.Name)
		members = append(members, member{plain(m.Name), uintptr(m.Offset.Bytes()), uintptr(size)})
	}
	return members
}

func fieldsOfGo(s reflect.Type) []member {
	var members []member
	for i := range s.NumField() {
		if f := s.Field(i); f.Name != "_" {
			members = append(members, member{plain(f.Name), f.Offset, f.Type.Size()})
		}
	}
	return members
}

func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// TestEnums holds that the numbers which both languages use are the same.
func TestEnums(t *testing.T) {
	spec := embedded(t, "process")
	for _, c := range []struct {
		enum  string
		value map[string]uint64
	}{
		{"process_event_type", map[string]uint64{
			"PROCESS_FORK": uint64(ProcessProcessEventTypePROCESS_FORK),
			"PROCESS_EXEC": uint64(ProcessProcessEventTypePROCESS_EXEC),
			"PROCESS_EXIT": uint64(ProcessProcessEventTypePROCESS_EXIT),
			"PROCESS_ASK":  uint64(ProcessProcessEventTypePROCESS_ASK),
		}},
		{"scope_bit", map[string]uint64{
			"SCOPE_ASKED":    uint64(ProcessScopeBitSCOPE_ASKED),
			"SCOPE_ON_CPU":   uint64(ProcessScopeBitSCOPE_ON_CPU),
			"SCOPE_OFF_CPU":  uint64(ProcessScopeBitSCOPE_OFF_CPU),
			"SCOPE_MEMORY":   uint64(ProcessScopeBitSCOPE_MEMORY),
			"SCOPE_NETWORK":  uint64(ProcessScopeBitSCOPE_NETWORK),
			"SCOPE_MONITORS": uint64(ProcessScopeBitSCOPE_MONITORS),
			"SCOPE_TASK":     uint64(ProcessScopeBitSCOPE_TASK),
			"SCOPE_FORKED":   uint64(ProcessScopeBitSCOPE_FORKED),
			"SCOPE_DECIDED":  uint64(ProcessScopeBitSCOPE_DECIDED),
		}},
		{"process_loss", map[string]uint64{
			"PROCESS_LOST_RING_FULL":  uint64(ProcessProcessLossPROCESS_LOST_RING_FULL),
			"PROCESS_LOST_SCOPE_FULL": uint64(ProcessProcessLossPROCESS_LOST_SCOPE_FULL),
			"PROCESS_LOSS_REASONS":    uint64(ProcessProcessLossPROCESS_LOSS_REASONS),
		}},
	} {
		var inC *btf.Enum
		require.NoError(t, spec.Types.TypeByName(c.enum, &inC))
		values := map[string]uint64{}
		for _, v := range inC.Values {
			values[v.Name] = v.Value
		}
		require.Equal(t, values, c.value, c.enum)
	}
}

// TestSpecs holds what the loaders rely on.
func TestSpecs(t *testing.T) {
	process := embedded(t, "process")
	require.Len(t, process.Programs, 3)
	for _, p := range process.Programs {
		require.Equal(t, ebpf.Tracing, p.Type, p.Name)
		require.Equal(t, "Dual MIT/GPL", p.License, p.Name)
	}
	require.Equal(t, ebpf.Hash, process.Maps[ProcessMapScope].Type)
	require.Zero(t, process.Maps[ProcessMapScope].Flags, "preallocated, which 5.10 wants of perf event programs")
	require.Equal(t, ebpf.RingBuf, process.Maps[ProcessMapProcessEvents].Type)

	oncpu := embedded(t, "oncpu")
	require.Len(t, oncpu.Programs, 2)
	require.Equal(t, ebpf.PerfEvent, oncpu.Programs[OnCPUProgSample].Type)
	require.Equal(t, ebpf.PerfEvent, oncpu.Programs[OnCPUProgMeet].Type)
	require.Equal(t, ebpf.ArrayOfMaps, oncpu.Maps[OnCPUMapStackTables].Type)
	for name, want := range map[string]any{
		OnCPUVarArenaBytes: uint32(64 << 10), OnCPUVarUserFrames: uint32(127),
		OnCPUVarHelperBytes: uint32(127 * 8), OnCPUVarEntryBytes: uint32(88 + 2*127*8),
		OnCPUVarKernelStacks: true, OnCPUVarUserStacks: true,
	} {
		got := reflect.New(reflect.TypeOf(want))
		require.NoError(t, oncpu.Variables[name].Get(got.Interface()), name)
		require.Equal(t, want, got.Elem().Interface(), name)
		require.True(t, oncpu.Variables[name].Constant(), name)
	}
	require.False(t, oncpu.Variables[OnCPUVarGeneration].Constant())
}
