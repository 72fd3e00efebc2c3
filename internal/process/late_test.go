// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndedBeforeItWasRead checks that the exec event decides about a process that exited before it was read, and that nothing is decided
// where that depends on what the event does not contain.
func TestEndedBeforeItWasRead(t *testing.T) {
	program := Execution{
		Comm: "curl", Executable: "/usr/bin/curl", Arguments: []byte("curl\x00-s\x00http://a/\x00"),
		Environment: []byte("OTEL_SERVICE_NAME=probe\x00"), EnvironmentWhole: true,
	}
	cut, pathless, nameless := program, program, program
	cut.ArgumentsCut, pathless.Executable = true, ""
	nameless.Environment, nameless.EnvironmentWhole = nil, false
	for name, c := range map[string]struct {
		include, exclude []Selector
		program          Execution
		inScope, known   bool
	}{
		"exe":                     {[]Selector{{Exe: "/usr/bin/curl"}}, nil, program, true, true},
		"another exe":             {[]Selector{{Exe: "/usr/bin/wget"}}, nil, program, false, true},
		"cmdline":                 {[]Selector{{Cmdline: "-s http://a"}}, nil, program, true, true},
		"service":                 {[]Selector{{Service: "^probe$"}}, nil, program, true, true},
		"excluded":                {nil, []Selector{{Exe: "/usr/bin/*"}}, program, false, true},
		"not excluded":            {nil, []Selector{{Exe: "/bin/*"}}, program, true, true},
		"not excluded by port":    {nil, []Selector{{Exe: "/bin/*", Port: 80}}, program, true, true},
		"port":                    {[]Selector{{Port: 80}}, nil, program, false, false},
		"port of another exe":     {[]Selector{{Port: 80, Exe: "/bin/*"}}, nil, program, false, true},
		"excluded by port":        {[]Selector{{Exe: "/usr/bin/*"}}, []Selector{{Port: 80}}, program, false, false},
		"cut arguments":           {[]Selector{{Cmdline: "no"}}, nil, cut, false, false},
		"no path":                 {[]Selector{{Exe: "/bin/a"}}, nil, pathless, false, false},
		"no name":                 {[]Selector{{Service: "probe"}}, nil, nameless, false, false},
		"container":               {[]Selector{{ContainerID: "0123456789ab"}}, nil, program, false, false},
		"another, then this, exe": {[]Selector{{Exe: "/bin/a"}, {Exe: "/usr/bin/curl"}}, nil, program, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(fakeProcess{pid: 10, exe: "/bin/sh"})
			table := h.table(Config{Include: c.include, Exclude: c.exclude})
			scan(t, table)
			table.Fork(10, pid(20), 0)
			table.Exec(pid(20), c.program)
			table.Exit(pid(20))
			p, inScope, err := table.Lookup(pid(20))
			if !c.known {
				require.ErrorIs(t, err, ErrGone)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.inScope, inScope)
			if c.inScope {
				require.Equal(t, "/usr/bin/curl", p.Executable)
				require.Equal(t, []string{"curl", "-s", "http://a/"}, p.Arguments)
				require.Equal(t, "probe", p.ServiceName)
			}
		})
	}
}

// TestEnvironmentThatIsNotKnown checks that a process whose environment is known only in part counts once, unless the known part names its
// service or /proc shows all of it.
func TestEnvironmentThatIsNotKnown(t *testing.T) {
	late := []string{"OTEL_SERVICE_NAME=late"}
	for name, c := range map[string]struct {
		program Execution
		state   string // of the process when it is read; empty: it has exited
		include []Selector
		want    string
		count   uint64
	}{
		"a part":           {Execution{Comm: "curl", Executable: "/bin/curl"}, "", nil, "unknown_service:curl", 1},
		"none of the exec": {Execution{Comm: "curl"}, "", nil, "unknown_service:curl", 1},
		"a zombie":         {Execution{Comm: "curl", Executable: "/bin/curl"}, "Z", nil, "unknown_service:curl", 1},
		"all":              {Execution{Comm: "curl", Executable: "/bin/curl", EnvironmentWhole: true}, "", nil, "unknown_service:curl", 0},
		"it is named":      {Execution{Comm: "curl", Environment: []byte("OTEL_SERVICE_NAME=probe\x00")}, "", nil, "probe", 0},
		"it runs":          {Execution{Comm: "curl", Executable: "/bin/curl"}, "S", nil, "late", 0},
		"out of scope":     {Execution{Comm: "curl", Executable: "/bin/curl"}, "", []Selector{{Exe: "/bin/wget"}}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			table := h.table(Config{Include: c.include})
			switch c.state {
			case "S":
				h.add(fakeProcess{pid: 20, exe: "/bin/curl", env: late})
			case "Z":
				h.add(fakeProcess{pid: 20, comm: "curl", state: "Z", threads: 2})
			}
			table.Exec(pid(20), c.program)
			if c.state == "" {
				table.Exit(pid(20))
			}
			for range 2 {
				p, _, err := table.Lookup(pid(20))
				require.NoError(t, err)
				if c.want != "" {
					require.Equal(t, c.want, p.ServiceName)
				}
			}
			require.Equal(t, c.count, table.Stats().EnvironmentUnknown)
		})
	}
}

// TestReadWhileItEnds checks that the exec event decides about a process that has exited but was not reaped: /proc shows no executable then.
func TestReadWhileItEnds(t *testing.T) {
	h := newFakeHost(t)
	table := h.table(Config{Include: []Selector{{Exe: "/usr/bin/curl"}}})
	h.add(fakeProcess{pid: 20, comm: "curl", state: "Z", threads: 2})
	table.Exec(pid(20), Execution{Comm: "curl", Executable: "/usr/bin/curl"})
	p, inScope, err := table.Lookup(pid(20))
	require.NoError(t, err)
	require.True(t, inScope)
	require.Equal(t, "/usr/bin/curl", p.Executable)
}

// TestUnreadProcessesAreBounded checks that short-lived processes which are never looked up do not evict others that exited.
func TestUnreadProcessesAreBounded(t *testing.T) {
	h := newFakeHost(t)
	table := h.table(Config{Include: []Selector{{Exe: "/usr/bin/curl"}}})
	for n := uint32(1); n <= maxUnread+100; n++ {
		table.Exec(pid(n), Execution{Comm: "cc1", Executable: "/usr/bin/cc1"})
		table.Exit(pid(n))
	}
	require.Equal(t, maxUnread, table.Stats().Lingering)
	require.Zero(t, table.Stats().LingerDropped)
	_, inScope, err := table.Lookup(pid(maxUnread + 100))
	require.NoError(t, err)
	require.False(t, inScope)
}

// TestExecBeforeItsEvent checks that an exited process is not taken for its parent's program when it is looked up as another one, whose exec
// event comes later.
func TestExecBeforeItsEvent(t *testing.T) {
	const parents, own = 3, 4
	exclude := []Selector{{Exe: "/usr/bin/curl"}}
	for name, c := range map[string]struct {
		exclude []Selector
		execID  uint32
		ended   bool // it was reaped
		known   bool
	}{
		"gone":                        {exclude, own, true, false},
		"a zombie":                    {exclude, own, false, false},
		"the program of its parent":   {exclude, parents, true, true},
		"nothing depends on the exec": {nil, own, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(fakeProcess{pid: 10, exe: "/bin/bash"})
			table := h.table(Config{Exclude: c.exclude})
			scan(t, table)
			_, _, err := table.Lookup(pid(10))
			require.NoError(t, err)
			table.Fork(10, pid(20), parents)
			if !c.ended {
				h.add(fakeProcess{pid: 20, comm: "curl", state: "Z"})
			}
			p, inScope, _, err := table.LookupProgram(pid(20), c.execID)
			if c.known {
				require.NoError(t, err)
				require.True(t, inScope)
				require.Equal(t, "/bin/bash", p.Executable)
				return
			}
			require.ErrorIs(t, err, ErrGone)
			if c.ended { // its parent's program, which it ran before, is looked up, too
				_, inScope, _, err = table.LookupProgram(pid(20), parents)
				require.NoError(t, err)
				require.True(t, inScope)
			}
			table.Exec(pid(20), Execution{Comm: "curl", Executable: "/usr/bin/curl", ExecID: own})
			for _, exit := range []func(){func() {}, func() { table.Exit(pid(20)) }} {
				exit()
				_, inScope, _, err = table.LookupProgram(pid(20), own)
				require.NoError(t, err)
				require.False(t, inScope)
			}
		})
	}
}

// TestZombieWithoutExecutable checks that no empty path decides about a process that has exited and whose executable neither /proc nor its
// exec event contains.
func TestZombieWithoutExecutable(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		known  bool
	}{
		"exclude by exe":  {Config{Exclude: []Selector{{Exe: "/usr/bin/curl"}}}, false},
		"include by exe":  {Config{Include: []Selector{{Exe: "/usr/bin/curl"}}}, false},
		"exclude by comm": {Config{Exclude: []Selector{{Comm: "^wget$"}}}, true},
		"everything":      {Config{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(fakeProcess{pid: 20, comm: "curl", state: "Z"})
			table := h.table(c.config)
			table.Exec(pid(20), Execution{Comm: "curl", ExecID: 1})
			_, inScope, err := table.Lookup(pid(20))
			if c.known {
				require.NoError(t, err)
				require.True(t, inScope)
				return
			}
			require.ErrorIs(t, err, ErrGone)
			table.Exit(pid(20))
			_, _, err = table.Lookup(pid(20))
			require.ErrorIs(t, err, ErrGone, "the counter of undecided processes has it")
		})
	}
}
