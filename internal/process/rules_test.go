// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// host with four processes: a collector (1), two services and a kernel thread.
func shopHost(t testing.TB) *fakeHost {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 1, exe: "/usr/bin/otelcol-ebpf"})
	h.add(fakeProcess{pid: 2, comm: "kthreadd", kernel: true})
	h.add(fakeProcess{
		pid: 10, exe: "/usr/bin/python3.11", args: []string{"python3", "cart.py"},
		env: []string{"OTEL_SERVICE_NAME=cart"}, cgroup: "0::/docker/" + idA,
	})
	h.add(fakeProcess{pid: 11, exe: "/usr/sbin/nginx", args: []string{"nginx: master"}})
	return h
}

func TestScope(t *testing.T) {
	tests := []struct {
		name             string
		include, exclude []Selector
		want             []uint32
	}{
		{"everything but ourselves", nil, nil, []uint32{2, 10, 11}},
		{"include by exe", []Selector{{Exe: "/usr/*bin/*"}}, nil, []uint32{1, 10, 11}},
		{"include by pid", []Selector{{PID: 11}, {PID: 2}}, nil, []uint32{2, 11}},
		{"include by comm", []Selector{{Comm: "^k"}}, nil, []uint32{2}},
		{"include by cmdline", []Selector{{Cmdline: `cart\.py$`}}, nil, []uint32{10}},
		{"include by container", []Selector{{ContainerID: idA[:12]}}, nil, []uint32{10}},
		{"include by service from the environment", []Selector{{Service: "^cart$"}}, nil, []uint32{10}},
		{"include by unknown service", []Selector{{Service: "^unknown_service:nginx$"}}, nil, []uint32{11}},
		{"exclude of everything", nil, []Selector{{Comm: "nginx"}}, []uint32{2, 10}},
		{"exclude wins", []Selector{{Exe: "/usr/**"}}, []Selector{{PID: 1}, {Service: "cart"}}, []uint32{11}},
		{"union", []Selector{{Comm: "nginx"}, {Comm: "python"}}, nil, []uint32{10, 11}},
		{"no match", []Selector{{Comm: "java"}}, nil, []uint32{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := shopHost(t).table(Config{Include: tt.include, Exclude: tt.exclude, SelfPID: 1})
			require.Equal(t, ScanResult{Seen: 4, Added: 4}, scan(t, table))
			require.Equal(t, tt.want, pids(table))
			require.Equal(t, len(tt.want), table.Stats().InScope)
			require.Equal(t, tt.include == nil && tt.exclude == nil, table.MatchesAll())
		})
	}
}

func TestSetOfFirstInclude(t *testing.T) {
	table := shopHost(t).table(Config{
		Include: []Selector{
			{Comm: "nginx", Set: map[string]string{"service.name": "front", "service.instance.id": "f-1", "team": "web"}},
			{Exe: "/usr/**", Set: map[string]string{"team": "all"}},
		},
		Exclude: []Selector{{Service: "^otelcol"}, {Service: "never"}},
	})
	scan(t, table)
	list := processes(table)
	require.Len(t, list, 3)
	nginx := list[2]
	require.Equal(t, "front", nginx.ServiceName)
	require.Equal(t, "f-1", nginx.ServiceInstanceID)
	require.Equal(t, map[string]string{"team": "web"}, nginx.Attributes)
	require.Equal(t, "cart", list[1].ServiceName, "the second include sets no name")
	require.Equal(t, map[string]string{"team": "all"}, list[1].Attributes)
}

func TestExcludeSeesTheNameThatWasSet(t *testing.T) {
	table := shopHost(t).table(Config{
		Include: []Selector{{Comm: "nginx", Set: map[string]string{"service.name": "front"}}, {Service: "front"}, {Comm: "python"}},
		Exclude: []Selector{{Service: "^front$"}},
	})
	scan(t, table)
	require.Equal(t, []uint32{10}, pids(table))
	require.Equal(t, []string{"targets::include[1]"}, table.Stats().Unmatched, "an include does not see it")
}

func TestNewErrors(t *testing.T) {
	h := newFakeHost(t)
	_, err := New(Config{RootPath: h.root, Include: []Selector{{PID: 1}, {Comm: "("}}})
	require.ErrorContains(t, err, "targets::include[1]: comm: ")
	_, err = New(Config{RootPath: h.root, Exclude: []Selector{{}}})
	require.ErrorContains(t, err, "targets::exclude[0]: no condition")
	_, err = New(Config{RootPath: h.root, Exclude: []Selector{{PID: 1, Set: map[string]string{"a": "b"}}}})
	require.EqualError(t, err, "targets::exclude[0]: set: only a selector of include sets attributes")
	_, err = New(Config{RootPath: h.root + "/nowhere"})
	require.ErrorContains(t, err, "/nowhere/proc: no such file or directory")
	require.NoError(t, os.Remove(filepath.Join(h.root, "proc/sys/kernel/random/boot_id")))
	_, err = New(Config{RootPath: h.root})
	require.ErrorContains(t, err, "/proc/sys/kernel/random/boot_id: no such file or directory")
}

func TestUnmatchedIsWarnedOfOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	h := shopHost(t)
	table := h.table(Config{
		Include: []Selector{{Comm: "java"}, {Comm: "nginx"}, {Exe: "/usr/sbin/*"}},
		Exclude: []Selector{{PID: 99}, {Comm: "python"}}, Logger: zap.New(core),
	})
	require.Empty(t, table.Stats().Unmatched, "before the first scan nothing is known")
	scan(t, table)
	scan(t, table)
	require.Equal(t, 1, logs.Len())
	require.Equal(t, []any{"targets::include[0]", "targets::exclude[0]"}, logs.All()[0].ContextMap()["selectors"])
	require.Equal(t, []string{"targets::include[0]", "targets::exclude[0]"}, table.Stats().Unmatched)

	h.add(fakeProcess{pid: 20, exe: "/usr/bin/java"})
	scan(t, table)
	require.Equal(t, []string{"targets::exclude[0]"}, table.Stats().Unmatched)
}
