// SPDX-License-Identifier: Apache-2.0

package process

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestDeniedFilesAreLoggedWhereTheyMatter checks that files which may not be read are logged for processes that are in scope, or may be, and
// for no others.
func TestDeniedFilesAreLoggedWhereTheyMatter(t *testing.T) {
	for name, c := range map[string]struct {
		include, exclude []Selector
		file             string
		logged           bool
	}{
		"everything is in scope":            {nil, nil, "exe", true},
		"another pid":                       {[]Selector{{PID: 10, Exe: "/bin/a"}}, nil, "exe", false},
		"another comm":                      {[]Selector{{Comm: "^shop$", Exe: "/bin/a"}}, nil, "exe", false},
		"another command line":              {[]Selector{{Cmdline: "shop", Exe: "/bin/a"}}, nil, "exe", false},
		"an executable":                     {[]Selector{{Exe: "/bin/a"}}, nil, "exe", true},
		"excluded by its comm":              {nil, []Selector{{Comm: "^init$"}}, "exe", false},
		"excluded, maybe, by an executable": {nil, []Selector{{Exe: "/bin/a"}}, "exe", true},
		"a service, and it names its own":   {[]Selector{{Service: "^shop$"}}, nil, "exe", false},
		"a service, and its is not known":   {[]Selector{{Service: "^shop$"}}, nil, "environ", true},
		"in scope by its comm":              {[]Selector{{Comm: "^init$"}}, nil, "environ", true},
		"an executable that it has not":     {[]Selector{{Exe: "/bin/a"}}, nil, "environ", false},
		"another container":                 {[]Selector{{ContainerID: "0123456789ab"}}, nil, "environ", false},
		"a container":                       {[]Selector{{ContainerID: "0123456789ab"}}, nil, "cgroup", true},
		"a port":                            {[]Selector{{Port: 80}}, nil, "fd", true},
		"a port of another comm":            {[]Selector{{Port: 80, Comm: "^shop$"}}, nil, "fd", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			core, logs := observer.New(zapcore.WarnLevel)
			table := h.table(Config{Include: c.include, Exclude: c.exclude, Logger: zap.New(core)})
			r := &reading{comm: "init", executable: "/sbin/init", arguments: []string{"/sbin/init"}, environment: environment{serviceName: "init"}}
			switch c.file {
			case "exe":
				r.executable = ""
			case "environ":
				r.environment = environment{}
			}
			h.add(fakeProcess{pid: 1, exe: "/sbin/init"})
			require.NoError(t, table.fs.holding(&r.denied).tolerate(1, c.file, syscall.EACCES))
			for range 2 {
				table.judge(&entry{id: model.ProcessID{PID: 1, StartTicks: 1}}, r)
			}
			table.Close()
			if c.logged {
				require.Len(t, warnings(logs), 1)
			} else {
				require.Empty(t, warnings(logs))
			}
			require.Equal(t, map[ReadError]uint64{{File: c.file, Reason: "permission"}: 1}, table.Stats().ReadErrors, "it counts")
		})
	}
}
