// SPDX-License-Identifier: Apache-2.0

//go:build podman

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// requested is how many requests the client sends of each kind.
	requested = 30
	tracefs   = "/host/sys/kernel/tracing"
)

// granted are the capabilities that docs/how-to/deploy.md has for the image.
var granted = []string{"BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "SYSLOG", "CHECKPOINT_RESTORE", "NET_ADMIN"}

// podmanCase is one start of the image.
type podmanCase struct {
	name string
	caps []string
	// flags replace those of seccomp and the mount of tracefs, which are default ones where it is nil.
	flags []string
	// status is that of health_check, said what its error contains; degraded what otelcol_ebpf_degraded has.
	status   int
	said     string
	degraded []string
	// unseen are the endpoints of which no requests are seen.
	unseen []string
}

// endpoints are what the client sends requests to, with their answers.
var endpoints = []string{"GET /missing 404 tls=false", "GET /orders 200 tls=false", "GET /pay 200 tls=true"}

// TestPodman starts the image in Podman with the flags of docs/how-to/deploy.md alongside two containers, with all capabilities and without each of them.
// It logs what health_check, otelcol_ebpf_degraded and the log report.
func TestPodman(t *testing.T) {
	image := os.Getenv("IMAGE")
	if image == "" || os.Geteuid() != 0 {
		t.Skip("run by make test-image, as root")
	}
	root := rootFilesystem(t)
	tracing := filepath.Join(t.TempDir(), "tracing")
	if err := os.Mkdir(tracing, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tracefs", tracing, "tracefs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(tracing, 0) })
	profile := seccompProfile(t)
	usual := []string{"--security-opt", "seccomp=" + profile, "-v", tracing + ":" + tracefs + ":ro"}
	for _, c := range []podmanCase{
		{name: "documented", caps: granted, status: 200, degraded: []string{"run_time_statistics"}},
		{name: "BPF", caps: without("BPF"), status: 500, said: "CAP_BPF", degraded: []string{"start"}, unseen: endpoints},
		{name: "PERFMON", caps: without("PERFMON"), status: 500, said: "CAP_PERFMON", degraded: []string{"start"}, unseen: endpoints},
		{name: "SYS_PTRACE", caps: without("SYS_PTRACE"), status: 200, degraded: []string{"capabilities", "run_time_statistics"}, unseen: endpoints[2:]},
		{name: "DAC_READ_SEARCH", caps: without("DAC_READ_SEARCH"), status: 200, degraded: []string{"capabilities", "run_time_statistics"}},
		{name: "SYSLOG", caps: without("SYSLOG"), status: 200, degraded: []string{"capabilities", "run_time_statistics"}},
		{name: "CHECKPOINT_RESTORE", caps: without("CHECKPOINT_RESTORE"), status: 200, degraded: []string{"capabilities", "run_time_statistics"}},
		{name: "NET_ADMIN", caps: without("NET_ADMIN"), status: 200, degraded: []string{"capabilities", "run_time_statistics"}},
		{name: "no tracefs", caps: granted, flags: usual[:2], status: 200, degraded: []string{"network.calls", "network.requests", "run_time_statistics"}, unseen: endpoints},
		{name: "SYS_ADMIN, no tracefs", caps: append(slices.Clone(granted), "SYS_ADMIN"), flags: usual[:2], status: 200},
		{name: "default seccomp", caps: granted, flags: usual[2:], status: 500, said: "seccomp", degraded: []string{"start"}, unseen: endpoints},
		unit(t, usual[2:]),
		{name: "default seccomp, SYS_ADMIN", caps: append(slices.Clone(granted), "SYS_ADMIN"), flags: usual[2:], status: 200},
	} {
		if c.flags == nil {
			c.flags = usual
		}
		t.Run(c.name, func(t *testing.T) { startIn(t, image, root, &c) })
	}
}

// unit is a case with the user, the capabilities and the system calls of the systemd unit.
func unit(t *testing.T, flags []string) podmanCase {
	t.Helper()
	text, err := os.ReadFile("../../../docs/examples/systemd/otelcol-ebpf.service")
	if err != nil {
		t.Fatal(err)
	}
	var caps, calls []string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "AmbientCapabilities":
			caps = strings.Fields(strings.ReplaceAll(value, "CAP_", ""))
		case "SystemCallFilter":
			for _, name := range strings.Fields(value) {
				calls = append(calls, expand(t, name)...)
			}
		}
	}
	profile, err := json.Marshal(map[string]any{
		"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": unix.EPERM, "architectures": []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"},
		"syscalls": []any{map[string]any{"names": calls, "action": "SCMP_ACT_ALLOW"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "unit.json")
	if err := os.WriteFile(file, profile, 0o600); err != nil {
		t.Fatal(err)
	}
	return podmanCase{
		name: "systemd unit", caps: caps, status: 200, degraded: []string{"run_time_statistics"},
		flags: append([]string{"--user", "65534:65534", "--security-opt", "seccomp=" + file}, flags...),
	}
}

// expand returns the system calls of a set of systemd, or the one that is named.
func expand(t *testing.T, name string) (calls []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	out, err := exec.Command("systemd-analyze", "syscall-filter", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(out), "\n")
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			calls = append(calls, expand(t, line)...)
		}
	}
	return calls
}

func without(capability string) []string {
	return slices.DeleteFunc(slices.Clone(granted), func(c string) bool { return c == capability })
}

// rootFilesystem makes one with the peer alone.
func rootFilesystem(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/peer", "./testdata/peer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// seccompProfile is the engine's own with the two system calls, made as docs/how-to/deploy.md does.
func seccompProfile(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("jq", `.syscalls |= [{names: ["bpf", "perf_event_open"], action: "SCMP_ACT_ALLOW"}] + map(.names -= ["bpf", "perf_event_open"])`,
		"/usr/share/containers/seccomp.json").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seccomp.json")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// podman starts a container and returns its id.
func podman(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"--runtime", "runc", "run", "-d", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--network", "host"}, args...)
	cmd := exec.Command("podman", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("podman %v: %v: %s", args, err, &stderr)
	}
	id := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("podman", "rm", "-f", "-t", "0", id).CombinedOutput(); err != nil {
			t.Errorf("removing %s: %v: %s", id, err, out)
		}
	})
	return id
}

func startIn(t *testing.T, image, root string, c *podmanCase) {
	ports := freePorts(t, 4)
	config, err := filepath.Abs("testdata/podman.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.Chmod(out, 0o777); err != nil { // the user of the container may be another one
		t.Fatal(err)
	}
	server := podman(t, "-e", "OTEL_SERVICE_NAME=shop", "--rootfs", root, "/peer", "server", ports[0], ports[1])
	flags := append([]string{"--pid", "host", "--read-only", "--cap-drop", "all", "--cap-add", strings.Join(c.caps, ","), "-v", "/:/host:ro,rslave"}, c.flags...)
	flags = append(flags, "-e", "HEALTH_PORT="+ports[2], "-e", "METRICS_PORT="+ports[3], "-v", config+":/etc/otelcol-ebpf/config.yaml:ro", "-v", out+":/out", image)
	collector := podman(t, flags...)
	settled(t, "http://127.0.0.1:"+ports[2]+"/status")
	client := podman(t, "-e", "OTEL_SERVICE_NAME=customer", "--rootfs", root, "/peer", "client", ports[0], ports[1], strconv.Itoa(requested))

	want := []string{}
	for _, side := range []string{"customer client " + client, "shop server " + server} {
		for _, endpoint := range endpoints {
			if !slices.Contains(c.unseen, endpoint) {
				want = append(want, fmt.Sprintf("%s %s: %d", side, endpoint, requested))
			}
		}
	}
	got := []string{}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		if got = requestsIn(t, out+"/metrics.json"); slices.Equal(got, want) && (len(want) > 0 || time.Until(deadline) < 12*time.Second) {
			break
		}
	}
	status, body := get(t, "http://127.0.0.1:"+ports[2]+"/status")
	_, metrics := get(t, "http://127.0.0.1:"+ports[3]+"/metrics")
	degraded := degradedIn(metrics)
	logged, _ := exec.Command("podman", "logs", collector).CombinedOutput()
	t.Logf("health_check: %d %s\ndegraded: %v\nrequests:\n  %s\nlog:\n%s", status, body, degraded, strings.Join(got, "\n  "), warnings(string(logged)))
	if status != c.status || !strings.Contains(body, c.said) || !slices.Equal(degraded, append([]string{}, c.degraded...)) || !slices.Equal(got, want) {
		t.Errorf("want health_check %d with %q, degraded %v, requests:\n  %s", c.status, c.said, c.degraded, strings.Join(want, "\n  "))
	}
}
