// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestCompileErrors(t *testing.T) {
	tests := []struct {
		name     string
		selector Selector
		want     []string
	}{
		{"nothing", Selector{}, []string{"no condition: at least one of pid, comm, exe"}},
		{"only set", Selector{Set: map[string]string{"a": "b"}}, []string{"no condition"}},
		{"comm", Selector{Comm: "("}, []string{"comm: compiling the RE2 pattern: error parsing regexp"}},
		{"cmdline", Selector{Cmdline: "a{2000}"}, []string{"cmdline: compiling the RE2 pattern"}},
		{"pod_uid", Selector{PodUID: "["}, []string{"pod_uid: "}},
		{"service", Selector{Service: "(?=a)"}, []string{"service: "}},
		{"exe", Selector{Exe: "/usr/{a,b"}, []string{`exe: compiling the glob "/usr/{a,b": `}},
		{"short id", Selector{ContainerID: "3f4c2e8b9d1"}, []string{`container_id: "3f4c2e8b9d1" is not 12 to 64 hexadecimal digits`}},
		{"long id", Selector{ContainerID: idA + "0"}, []string{"container_id: "}},
		{"upper case", Selector{ContainerID: "ABCXYZ"}, []string{`container_id: "ABCXYZ" is not`}},
		{"no hex", Selector{ContainerID: "3f4c2e8b9d1g"}, []string{"container_id: "}},
		{"empty attribute", Selector{PID: 1, Set: map[string]string{"": "b"}}, []string{"set: the name of an attribute is empty"}},
		{"empty name", Selector{PID: 1, Set: map[string]string{"service.name": ""}}, []string{"set: service.name is empty"}},
		{"own name", Selector{PID: 1, Set: map[string]string{"process.pid": "1"}}, []string{"set: process.pid is what the receiver finds out itself"}},
		{"exe without paths", Selector{Exe: "{nginx,?bin/foo}"}, []string{`exe: the glob "{nginx,?bin/foo}" can match nothing: it is compared with the full path; `}},
		{"exe without a path", Selector{Exe: "nginx"}, []string{`exe: the glob "nginx" can match nothing: it is compared with the full path; write /path/to/nginx, or **/nginx`}},
		{"exe that is a folder", Selector{Exe: "/usr/bin/"}, []string{`exe: the glob "/usr/bin/" can match nothing: paths have no //, /./ or /../ in them`}},
		{"exe with two slashes", Selector{Exe: "/usr//*"}, []string{`"/usr//*" can match nothing: `}},
		{"exe above", Selector{Exe: "/usr/../bin/*"}, []string{`"/usr/../bin/*" can match nothing: `}},
		{"exe of the same folder", Selector{Exe: "/usr/./a"}, []string{`"/usr/./a" can match nothing: `}},
		{"exe dots", Selector{Exe: "/usr/.."}, []string{`"/usr/.." can match nothing: `}},
		{"several", Selector{Comm: "(", Service: "["}, []string{"comm: ", "\nservice: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.selector.Compile()
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	_, err := compileList("targets::include", []Selector{{PID: 1}, {Exe: "["}})
	require.ErrorContains(t, err, "targets::include[1]: exe: ")
}

func TestMatch(t *testing.T) {
	p := &model.Process{
		ID: model.ProcessID{PID: 42, StartTicks: 7}, Comm: "java", Executable: "/opt/jdk-21/bin/java",
		Arguments: []string{"java", "-jar", "/srv/shop.jar"}, ContainerID: idA, PodUID: uid,
	}
	tests := []struct {
		name     string
		selector Selector
		want     bool
	}{
		{"pid", Selector{PID: 42}, true},
		{"other pid", Selector{PID: 43}, false},
		{"comm, unanchored", Selector{Comm: "av"}, true},
		{"comm, anchored", Selector{Comm: "^ava"}, false},
		{"exe", Selector{Exe: "/opt/jdk-*/bin/java"}, true},
		{"exe, star within an element", Selector{Exe: "/opt/*/java"}, false},
		{"exe, two stars", Selector{Exe: "/opt/**/java"}, true},
		{"exe, whole path", Selector{Exe: "/java"}, false},
		{"exe, alternatives", Selector{Exe: "/opt/jdk-{17,21}/bin/jav[a-c]"}, true},
		{"cmdline", Selector{Cmdline: `-jar \S*shop`}, true},
		{"cmdline, other", Selector{Cmdline: "cart"}, false},
		{"port", Selector{Port: 8080}, true},
		{"other port", Selector{Port: 80}, false},
		{"container prefix", Selector{ContainerID: idA[:12]}, true},
		{"container in upper case", Selector{ContainerID: "3F4C2E8B9D1A"}, true},
		{"whole container id", Selector{ContainerID: idA}, true},
		{"other container", Selector{ContainerID: idB[:12]}, false},
		{"container, not from its beginning", Selector{ContainerID: idA[1:20]}, false},
		{"pod", Selector{PodUID: "^" + uid + "$"}, true},
		{"other pod", Selector{PodUID: "ffff"}, false},
		{"service", Selector{Service: "^shop$"}, true},
		{"other service", Selector{Service: "^cart$"}, false},
		{"all must match", Selector{Comm: "java", Port: 80}, false},
		{"all match", Selector{PID: 42, Comm: "java", Exe: "**", Cmdline: "jar", Port: 8080, ContainerID: idA, PodUID: uid, Service: "shop"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tt.selector.Compile()
			require.NoError(t, err)
			require.Equal(t, tt.want, m.match(&candidate{process: p, service: "shop", ports: []uint16{8080, 9090}}))
		})
	}
	anyPod, err := Selector{PodUID: ".*"}.Compile()
	require.NoError(t, err)
	require.False(t, anyPod.match(&candidate{process: &model.Process{}}), "a process without a pod")
}

func FuzzCompile(f *testing.F) {
	f.Add("a", "/usr/{a,b}/**/[!c-d]?", "b", "0123456789ab", "/usr/a/b/x/y")
	f.Add("(", "[", "\\", "z", "")
	f.Fuzz(func(t *testing.T, comm, exe, cmdline, container, path string) {
		if len(comm)+len(exe)+len(cmdline) > 200 {
			return // patterns come from the operator
		}
		m, err := Selector{Comm: comm, Exe: exe, Cmdline: cmdline, ContainerID: container}.Compile()
		if err != nil {
			require.Nil(t, m)
			return
		}
		m.match(&candidate{process: &model.Process{Comm: path, Executable: path, Arguments: []string{path}}})
	})
}
