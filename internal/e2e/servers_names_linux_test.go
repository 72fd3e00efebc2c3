// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// nameServers are dnsmasq and, behind it, unbound, in a network of their own, and the resolvers that ask dnsmasq.
type nameServers struct {
	absent    string // what is not installed
	in        *nettest.Namespace
	log       string // of unbound
	resolvers map[string]*resolver
}

// resolver looks names up on command, and counts how often there was an address.
type resolver struct {
	lookUp func(t *testing.T, name string, times int) int
	pid    int
}

// startNames starts the servers and the resolvers of glibc and musl; those of Go and dig are asked as they are.
func startNames(t *testing.T, s *site) *nameServers {
	t.Helper()
	n := &nameServers{log: s.dir + "/unbound.log", resolvers: map[string]*resolver{}}
	for _, program := range [][2]string{{"dnsmasq", "dnsmasq-base"}, {"unbound", "unbound"}, {"dig", "bind9-dnsutils"}, {"gcc", "gcc"}, {"musl-gcc", "musl-tools"}} {
		if _, err := exec.LookPath(program[0]); err != nil {
			n.absent = fmt.Sprintf("%s is not installed: apt-get install %s", program[0], program[1])
			return n
		}
	}
	n.in = nettest.New(t)
	config := s.file(t, "unbound.conf", fmt.Sprintf(`
server:
	interface: 127.0.0.1@5300
	do-daemonize: no
	username: ""
	chroot: ""
	pidfile: ""
	use-syslog: no
	logfile: %q
	log-queries: yes
	access-control: 127.0.0.0/8 allow
	local-zone: "example." redirect
	local-data: "example. A 192.0.2.1"
	local-zone: "absent." static
remote-control:
	control-enable: no
`, n.log))
	n.start(t, s, "unbound", "-d", "-c", config)
	s.targets = append(s.targets, fmt.Sprintf("{exe: %q}", installed(t, "dnsmasq"))) // a process for each connection that it takes
	n.start(t, s, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--cache-size=0", "--no-negcache", "--user=",
		"--listen-address=127.0.0.1", "--bind-interfaces", "--server=127.0.0.1#5300", "--pid-file=")
	s.file(t, "resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n") // the resolver asks once
	s.file(t, "nsswitch.conf", "hosts: dns\n")
	n.resolvers["glibc"] = n.program(t, s, testbin.C(t, "testdata/servers/lookup.c"))
	musl := s.dir + "/lookup-musl"
	said, err := exec.Command("musl-gcc", "-o", musl, "testdata/servers/lookup.c").CombinedOutput()
	require.NoError(t, err, "%s", said)
	n.resolvers["musl"] = n.program(t, s, musl)
	n.resolvers["go"] = &resolver{lookUp: n.byGo, pid: os.Getpid()}
	n.resolvers["dig"] = &resolver{lookUp: n.byDig}
	return n
}

// start starts a program in the namespace.
func (n *nameServers) start(t *testing.T, s *site, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	require.NoError(t, n.in.Do(func() error { s.run(t, cmd); return nil }))
}

// program starts a resolver in the namespace that sees the test's own configuration of resolvers in place of the host's.
func (n *nameServers) program(t *testing.T, s *site, path string) *resolver {
	t.Helper()
	mount := fmt.Sprintf("mount --bind %[1]s/resolv.conf /etc/resolv.conf && mount --bind %[1]s/nsswitch.conf /etc/nsswitch.conf && exec %[2]s", s.dir, path)
	cmd := exec.Command("sh", "-c", mount)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, n.in.Do(cmd.Start))
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewReader(out)
	line := func(t *testing.T) string {
		t.Helper()
		said, err := lines.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(said)
	}
	require.Equal(t, "ready", line(t))
	s.targets = append(s.targets, fmt.Sprintf("{pid: %d}", cmd.Process.Pid))
	return &resolver{pid: cmd.Process.Pid, lookUp: func(t *testing.T, name string, times int) int {
		t.Helper()
		_, err := fmt.Fprintln(in, name, times)
		require.NoError(t, err)
		found, err := strconv.Atoi(line(t))
		require.NoError(t, err)
		return found
	}}
}

// byGo looks names up by the resolver of Go.
func (n *nameServers) byGo(t *testing.T, name string, times int) (found int) {
	t.Helper()
	by := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		return conn, n.in.Do(func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:53")
			return err
		})
	}}
	for range times {
		list, err := by.LookupNetIP(t.Context(), "ip4", name)
		var of *net.DNSError
		require.True(t, err == nil || errors.As(err, &of) && of.IsNotFound, "%v", err)
		found += len(list)
	}
	return found
}

// byDig looks names up by dig, every other time over TCP.
func (n *nameServers) byDig(t *testing.T, name string, times int) int {
	t.Helper()
	args := []string{"@127.0.0.1", "+noall", "+comments", "+tries=1", "+timeout=60"}
	for i := range times {
		args = append(args, name, "A", []string{"+tcp", "+notcp"}[i%2])
	}
	var said []byte
	require.NoError(t, n.in.Do(func() (err error) {
		said, err = exec.Command("dig", args...).Output()
		return err
	}))
	return strings.Count(string(said), "status: NOERROR")
}

// warming has each resolver that is observed look up names until its lookups and those of dnsmasq are logged.
func (n *nameServers) warming(t *testing.T) (all []warm) {
	for name, r := range n.resolvers {
		if r.pid == 0 {
			continue
		}
		all = append(all, warm{
			name,
			func(logged requests) bool {
				all := lookups(logged)
				return all[fmt.Sprint(r.pid, " warm.", name, ".example ")] > 0 && all[fmt.Sprint("5300 warm.", name, ".example ")] > 0
			},
			func() { r.lookUp(t, "warm."+name+".example.", 1) },
		})
	}
	return all
}

func (n *nameServers) ask(t *testing.T) {
	t.Helper()
	if n.absent != "" {
		return
	}
	for name, r := range n.resolvers {
		require.Equal(t, times("/here"), r.lookUp(t, name+".example.", times("/here")))
		require.Zero(t, r.lookUp(t, name+".absent.", times("/absent")))
	}
}

// lookups counts lookups by who asks, or the port that dnsmasq asks, by name and by error.
func lookups(logged requests) map[string]int {
	all := map[string]int{}
	for key, list := range logged {
		for _, l := range list {
			name := text(l.Attributes(), "dns.question.name")
			if name == "" || key.role != "client" {
				continue
			}
			who := fmt.Sprint(key.pid)
			if key.port == "5300" {
				who = key.port
			}
			all[who+" "+name+" "+text(l.Attributes(), "error.type")]++
		}
	}
	return all
}

// queried is what unbound has logged of a query.
var queried = regexp.MustCompile(`info: 127\.0\.0\.1 (\S+)\. A IN`)

// require checks that each resolver's lookups are logged as often as it made them, and dnsmasq's as often as unbound was asked. dnsmasq
// forks a short-lived process for each lookup over TCP, which dig makes; so many lookups were undecided when these processes exited.
func (n *nameServers) require(t *testing.T, logged requests, undecided int, missed bool) {
	if n.absent != "" {
		t.Skip(n.absent)
	}
	asked := map[string]int{}
	for _, line := range queried.FindAllStringSubmatch(readText(t, n.log), -1) {
		asked[line[1]]++
	}
	all := lookups(logged)
	for name, r := range n.resolvers {
		for of, want := range map[string]int{name + ".example ": times("/here"), name + ".absent NXDOMAIN": times("/absent")} {
			question, _, _ := strings.Cut(of, " ")
			require.Equal(t, want, asked[question], "unbound: %v", asked)
			require.LessOrEqual(t, all["5300 "+of], want, "dnsmasq: %v", all)
			require.True(t, missed || all["5300 "+of]+undecided >= want, "dnsmasq: %v", all)
			if r.pid != 0 && !missed {
				require.Equal(t, want, all[fmt.Sprint(r.pid, " ", of)], "%s: %v", name, all)
				require.Equal(t, want, all["5300 "+of], "dnsmasq: %v", all)
			}
		}
	}
}
