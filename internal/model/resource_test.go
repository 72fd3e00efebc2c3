// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestResources checks that two programs are one resource only if all their resource attributes are equal.
func TestResources(t *testing.T) {
	one := func(change func(*Process)) Resource {
		p := &Process{ID: ProcessID{PID: 7, StartTicks: 8}, Comm: "sh", Executable: "/bin/sh", Attributes: map[string]string{"a": "1", "b": "2"}}
		change(p)
		return ResourceOf(p)
	}
	same := one(func(*Process) {})
	require.Equal(t, same, one(func(p *Process) { p.Arguments = []string{"again"} }))
	for _, change := range []func(*Process){
		func(p *Process) { p.ID.StartTicks = 9 }, func(p *Process) { p.Executable = "/usr/bin/sh" },
		func(p *Process) { p.ServiceName = "shop" }, func(p *Process) { p.ContainerID = "c" },
		func(p *Process) { p.Attributes["a"] = "2" }, func(p *Process) { p.Executable, p.Comm = "", "bash" },
	} {
		require.NotEqual(t, same, one(change))
	}
	require.Equal(t, Resource{}, ResourceOf(nil))
}
