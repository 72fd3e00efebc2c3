// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// obey executes orders until there are no more. executed: to begin was an order, too.
func obey(in io.Reader, out io.Writer, executed bool) error {
	orders, outcomes := json.NewDecoder(in), json.NewEncoder(out)
	if executed {
		if err := outcomes.Encode(Outcome{}); err != nil {
			return fmt.Errorf("reporting that the program was replaced: %w", err)
		}
	}
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		outcome, err := do(o)
		if err != nil {
			outcome.Errno = errorName(err)
		}
		if err := outcomes.Encode(outcome); err != nil {
			return fmt.Errorf("reporting the outcome: %w", err)
		}
	}
}

// errorName is the name of an errno, and what was said otherwise.
func errorName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}

var deeds = map[string]func(order) (Outcome, error){
	"open": func(o order) (Outcome, error) {
		fd, err := open(o.Kind)
		return Outcome{Socket: fd}, err
	},
	"option": func(o order) (Outcome, error) {
		return Outcome{}, unix.SetsockoptInt(o.Socket, o.Level, o.Option, o.Value)
	},
	"nonblock": func(o order) (Outcome, error) { return Outcome{}, unix.SetNonblock(o.Socket, true) },
	"bind": func(o order) (Outcome, error) {
		err := unix.Bind(o.Socket, address(o.Kind, o.Local))
		return described(o.Socket), err
	},
	"backlog": func(o order) (Outcome, error) { return Outcome{}, unix.Listen(o.Socket, o.Value) },
	"connect": func(o order) (Outcome, error) {
		err := unix.Connect(o.Socket, address(o.Kind, o.Remote))
		return described(o.Socket), err
	},
	"listen": listen, "dial": dial, "accept": accept, "churn": churn, "drain": drain, "socketpair": socketpair,
	"write": write, "read": read, "info": info,
	"dup": func(o order) (Outcome, error) {
		fd, err := unix.Dup(o.Socket)
		return Outcome{Socket: fd}, err
	},
	"replace": func(o order) (Outcome, error) { return Outcome{}, unix.Dup3(o.Value, o.Socket, unix.O_CLOEXEC) },
	"closerange": func(o order) (Outcome, error) {
		return Outcome{}, unix.CloseRange(uint(o.Socket), uint(o.Socket), 0)
	},
	"pass": pass, "receive": receive, "exec": execute, "fork": fork, "storm": storm, "absorb": absorb, "hoard": hoard,
	"sendbuffer": func(o order) (Outcome, error) {
		return Outcome{}, unix.SetsockoptInt(o.Socket, unix.SOL_SOCKET, unix.SO_SNDBUF, o.Value)
	},
	"shutdown": func(o order) (Outcome, error) { return Outcome{}, unix.Shutdown(o.Socket, o.Value) },
	"close": func(o order) (Outcome, error) {
		if o.How == ringWay {
			return Outcome{}, closeByRing(o.Socket)
		}
		return Outcome{}, unix.Close(o.Socket)
	},
	"reset": reset,
	"sleep": func(o order) (Outcome, error) {
		time.Sleep(time.Duration(o.Value))
		return Outcome{}, nil
	},
}

func do(o order) (Outcome, error) {
	deed, ok := deeds[o.Do]
	if !ok {
		return Outcome{}, fmt.Errorf("unknown order %q", o.Do)
	}
	return deed(o)
}

// open makes a socket of a kind.
func open(kind string) (int, error) {
	family, transport, protocol := unix.AF_INET, unix.SOCK_STREAM, 0
	switch kind {
	case "tcp4":
	case "mptcp4":
		protocol = unix.IPPROTO_MPTCP
	case "rawtcp4":
		transport, protocol = unix.SOCK_RAW, unix.IPPROTO_TCP
	case "rawudp4":
		transport, protocol = unix.SOCK_RAW, unix.IPPROTO_UDP
	case "tcp6":
		family = unix.AF_INET6
	case "udp4":
		transport = unix.SOCK_DGRAM
	case "udp6":
		family, transport = unix.AF_INET6, unix.SOCK_DGRAM
	default:
		return -1, fmt.Errorf("unknown kind of socket %q", kind)
	}
	return unix.Socket(family, transport|unix.SOCK_CLOEXEC, protocol)
}

// address makes an address for a socket of a kind: IPv4 is mapped where the socket is IPv6.
func address(kind string, a netip.AddrPort) unix.Sockaddr {
	if kind == "tcp6" || kind == "udp6" {
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// addressPort is the reverse; mapped addresses stay mapped.
func addressPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// kindOf is the kind of a socket that is there.
func kindOf(fd int) (string, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return "", err
	}
	transport, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return "", err
	}
	kind := "tcp"
	if transport == unix.SOCK_DGRAM {
		kind = "udp"
	}
	switch family {
	case unix.AF_INET:
		return kind + "4", nil
	case unix.AF_INET6:
		return kind + "6", nil
	}
	return "unix", nil
}

// described is a socket with its addresses.
func described(fd int) Outcome {
	o := Outcome{Socket: fd}
	if a, err := unix.Getsockname(fd); err == nil {
		o.Local = addressPort(a)
	}
	if a, err := unix.Getpeername(fd); err == nil {
		o.Remote = addressPort(a)
	}
	return o
}

// backlog of sockets that listen: tests of many connections must not hit a full one.
const backlog = 4096

func listen(o order) (Outcome, error) {
	fd, err := open(o.Kind)
	if err != nil {
		return Outcome{}, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return Outcome{}, err
	}
	if err := unix.Bind(fd, address(o.Kind, o.Local)); err != nil {
		return Outcome{}, err
	}
	if o.Kind == "tcp4" || o.Kind == "tcp6" || o.Kind == "mptcp4" {
		if err := unix.Listen(fd, backlog); err != nil {
			return Outcome{}, err
		}
	}
	return described(fd), nil
}

func dial(o order) (Outcome, error) {
	fd, err := open(o.Kind)
	if err != nil {
		return Outcome{}, err
	}
	if o.Local.IsValid() {
		if err := unix.Bind(fd, address(o.Kind, o.Local)); err != nil {
			return Outcome{}, errors.Join(err, unix.Close(fd))
		}
	}
	began := time.Now()
	if o.How == ringWay {
		err = connectByRing(fd, o.Kind, o.Remote)
	} else {
		err = connect(fd, address(o.Kind, o.Remote), o.Wait)
	}
	if err != nil {
		return Outcome{Took: time.Since(began)}, errors.Join(err, unix.Close(fd))
	}
	out := described(fd)
	out.Took = time.Since(began)
	return out, nil
}

// connect connects; unless it is to wait in the call, it waits after it.
func connect(fd int, to unix.Sockaddr, wait bool) error {
	if wait {
		return unix.Connect(fd, to)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for {
		if _, err := unix.Poll(ready, -1); err == nil {
			break
		} else if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	failed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if failed != 0 {
		return unix.Errno(failed)
	}
	return unix.SetNonblock(fd, false)
}

// Ways to accept, connect and close, other than the usual.
const (
	plainWay = "accept"
	ringWay  = "io_uring"
)

func accept(o order) (Outcome, error) {
	for {
		fd, err := acceptBy(o.How, o.Socket)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Outcome{}, err
		}
		return described(fd), nil
	}
}

func acceptBy(how string, from int) (int, error) {
	switch how {
	case plainWay:
		fd, _, errno := unix.Syscall(unix.SYS_ACCEPT, uintptr(from), 0, 0)
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	case ringWay:
		return acceptByRing(from)
	default:
		fd, _, err := unix.Accept4(from, unix.SOCK_CLOEXEC)
		return fd, err
	}
}

func churn(o order) (Outcome, error) {
	var out Outcome
	began := time.Now()
	defer func() { out.Took = time.Since(began) }()
	for range o.Value {
		fd, err := open(o.Kind)
		if err != nil {
			return out, err
		}
		out.Calls++
		if err := unix.Connect(fd, address(o.Kind, o.Remote)); err != nil {
			return out, errors.Join(err, unix.Close(fd))
		}
		if err := unix.Close(fd); err != nil {
			return out, err
		}
	}
	return out, nil
}

func drain(o order) (Outcome, error) {
	var out Outcome
	for range o.Value {
		one, err := accept(o)
		if err != nil {
			return out, err
		}
		out.Calls++
		if err := unix.Close(one.Socket); err != nil {
			return out, err
		}
	}
	return out, nil
}

// socketpair makes two Unix sockets of which the second has the next descriptor.
func socketpair(o order) (Outcome, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, o.Value|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Outcome{}, err
	}
	// The second one needs no number of its own, since it is the next; low numbers may be taken
	// here and there.
	const unused = 200
	first, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, unused)
	if err != nil {
		return Outcome{}, err
	}
	second, err := unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD_CLOEXEC, first+1)
	if err != nil {
		return Outcome{}, err
	}
	if second != first+1 {
		return Outcome{}, fmt.Errorf("the descriptors %d and %d are not neighbours", first, second)
	}
	return Outcome{Socket: first}, errors.Join(unix.Close(pair[0]), unix.Close(pair[1]))
}

// reset closes with unread data forgotten, which the other side learns by a reset.
func reset(o order) (Outcome, error) {
	if err := unix.SetsockoptLinger(o.Socket, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, unix.Close(o.Socket)
}

func info(o order) (Outcome, error) {
	i, err := unix.GetsockoptTCPInfo(o.Socket, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return Outcome{}, err
	}
	us := func(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
	return Outcome{Socket: o.Socket, Kernel: &TCPInfo{
		State: i.State, BytesAcked: i.Bytes_acked, BytesReceived: i.Bytes_received, Segments: i.Segs_out,
		Retransmits: i.Total_retrans, RTT: us(i.Rtt), RTTVar: us(i.Rttvar),
	}}, nil
}
