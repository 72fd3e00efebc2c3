// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestInstance checks which processes are of one service instance, by what /proc shows of them.
func TestInstance(t *testing.T) {
	const docker = "0::/system.slice/docker-" + idA + ".scope\n"
	nginx := func(pid, parent uint32) fakeProcess {
		return fakeProcess{pid: pid, parent: parent, exe: "/usr/sbin/nginx"}
	}
	named := func(p fakeProcess, attributes string) fakeProcess {
		p.env = []string{"OTEL_RESOURCE_ATTRIBUTES=" + attributes}
		return p
	}
	in := func(p fakeProcess, cgroup string) fakeProcess {
		p.cgroup = cgroup
		return p
	}
	init, shell := fakeProcess{pid: 1, exe: "/usr/lib/systemd/systemd"}, fakeProcess{pid: 5, parent: 1, exe: "/bin/bash"}
	python := func(pid, parent uint32) fakeProcess {
		return fakeProcess{pid: pid, parent: parent, exe: "/usr/bin/python3"}
	}
	for name, tt := range map[string]struct {
		processes []fakeProcess
		of        uint32
		want      []uint32
	}{
		"a worker":                   {[]fakeProcess{nginx(10, 1), nginx(11, 10), nginx(12, 10)}, 11, []uint32{10, 11, 12}},
		"their master":               {[]fakeProcess{nginx(10, 1), nginx(11, 10), nginx(12, 10)}, 10, []uint32{10, 11, 12}},
		"grandchildren":              {[]fakeProcess{python(10, 5), python(11, 10), python(12, 11), python(13, 5)}, 12, []uint32{10, 11, 12}},
		"two services":               {[]fakeProcess{nginx(10, 1), nginx(11, 10), nginx(20, 1), nginx(21, 20)}, 21, []uint32{20, 21}},
		"two of one shell":           {[]fakeProcess{python(10, 5), python(11, 5)}, 11, []uint32{11}},
		"init adopts none":           {[]fakeProcess{{pid: 10, parent: 1, exe: "/usr/lib/systemd/systemd"}}, 10, []uint32{10}},
		"what a worker runs":         {[]fakeProcess{nginx(10, 1), {pid: 11, parent: 10, exe: "/bin/bash"}, nginx(12, 11)}, 10, []uint32{10}},
		"a pid that was used before": {[]fakeProcess{nginx(10, 1), {pid: 9, start: 9, parent: 10, exe: "/usr/sbin/nginx"}}, 9, []uint32{9}},
		"an instance by its own word": {[]fakeProcess{
			named(python(10, 1), "service.instance.id=a"), named(python(11, 10), "service.instance.id=a"), named(python(12, 10), "service.instance.id=b"), python(13, 10),
		}, 10, []uint32{10, 11}},
		"services by their own word": {[]fakeProcess{python(10, 1), named(python(11, 10), "service.name=a"), named(python(12, 10), "service.name=a")}, 11, []uint32{11, 12}},
		"a container":                {[]fakeProcess{in(python(10, 1), docker), in(nginx(11, 10), docker), in(nginx(12, 11), docker), nginx(13, 1)}, 11, []uint32{11, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			for _, p := range append(tt.processes, init, shell) {
				h.add(p)
			}
			table := h.table(Config{})
			scan(t, table)
			var got []uint32
			for _, p := range table.Instance(process(t, table, tt.of)) {
				got = append(got, p.ID.PID)
			}
			require.ElementsMatch(t, tt.want, got)
		})
	}
}

// TestInstanceBySet checks instances that a selector names.
func TestInstanceBySet(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, parent: 1, exe: "/bin/web", comm: "a"})
	h.add(fakeProcess{pid: 11, parent: 10, exe: "/bin/web", comm: "b"})
	table := h.table(Config{Include: []Selector{
		{Comm: "a", Set: map[string]string{"service.instance.id": "a"}}, {Comm: "b", Set: map[string]string{"service.instance.id": "b"}},
	}})
	scan(t, table)
	require.Equal(t, []*model.Process{process(t, table, 10)}, table.Instance(process(t, table, 10)))
}

// TestWorkersOutliveTheirMaster checks that workers are of one instance also when their master has exited.
func TestWorkersOutliveTheirMaster(t *testing.T) {
	h := newFakeHost(t)
	master := h.add(fakeProcess{pid: 10, parent: 1, exe: "/bin/web"})
	h.add(fakeProcess{pid: 11, parent: 10, exe: "/bin/web"})
	h.add(fakeProcess{pid: 12, parent: 10, exe: "/bin/web"})
	table := h.table(Config{})
	scan(t, table)
	of := process(t, table, 10)
	require.Len(t, table.Living(of), 3)
	h.remove(10)
	table.Exit(master)
	require.Len(t, table.Living(of), 2)
}
