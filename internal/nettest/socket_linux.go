// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

// Socket is a socket of a program.
type Socket struct {
	program *Program
	fd      int
	kind    string // of one that Open made
	// Local and Remote are its addresses as the kernel returned them when it was made.
	Local, Remote netip.AddrPort
}

// Transfer says how bytes are moved: the system call and what each call is given.
type Transfer struct {
	// How is one of
	//   - to write: write, writev (two pieces), sendto, sendmsg, sendmmsg, sendfile, splice, io_uring (send), io_uring_msg (sendmsg), io_uring_splice;
	//   - to read: read, readv (two pieces), recvfrom, recvmsg, recvmmsg, splice, io_uring (recv), io_uring_msg (recvmsg).
	How string
	// Bytes is how many there are to move; reading ends sooner at the end of the stream.
	Bytes int64
	// Chunk is how many a call is given, each message of sendmmsg and recvmmsg by itself; 0: 16 KiB.
	Chunk int
	// Messages is how many messages sendmmsg and recvmmsg are given at once; 0: 8.
	Messages int
	// Flags are those of send and recv, such as MSG_PEEK, for the calls that take any.
	Flags int
	// To is where messages go that are sent by an unconnected socket with sendto, sendmsg and sendmmsg.
	To netip.AddrPort
	// Tos is where the messages of one sendmmsg go, in turn, instead.
	Tos []netip.AddrPort
	// Once stops after one call, whatever it returned.
	Once bool
}

func (p *Program) socket(out Outcome) *Socket {
	return &Socket{program: p, fd: out.Socket, Local: out.Local, Remote: out.Remote}
}

// Open makes a socket that is neither bound nor connected: of a kind that Listen takes, or "mptcp4", or "rawtcp4" or
// "rawudp4", which take whole packets.
func (p *Program) Open(kind string) *Socket {
	p.t.Helper()
	s := p.socket(p.must(order{Do: "open", Kind: kind}))
	s.kind = kind
	return s
}

// SetOption sets an option of the socket that is a number.
func (s *Socket) SetOption(level, option, value int) {
	s.program.t.Helper()
	s.program.must(order{Do: "option", Socket: s.fd, Level: level, Option: option, Value: value})
}

// SetNonblocking has calls return that would wait.
func (s *Socket) SetNonblocking() {
	s.program.t.Helper()
	s.program.must(order{Do: "nonblock", Socket: s.fd})
}

// Bind binds a socket that Open made.
func (s *Socket) Bind(local netip.AddrPort) {
	s.program.t.Helper()
	s.Local = s.program.must(order{Do: "bind", Socket: s.fd, Kind: s.kind, Local: local}).Local
}

// ListenFor begins to listen.
func (s *Socket) ListenFor(backlog int) {
	s.program.t.Helper()
	s.program.must(order{Do: "backlog", Socket: s.fd, Value: backlog})
}

// TryConnect calls connect once on a socket that Open made, and returns the outcome.
func (s *Socket) TryConnect(remote netip.AddrPort) Outcome {
	return s.program.try(order{Do: "connect", Socket: s.fd, Kind: s.kind, Remote: remote})
}

// Listen makes a socket of the kind "tcp4" or "tcp6" that listens; with "udp4" or "udp6" one that is only bound.
func (p *Program) Listen(kind string, local netip.AddrPort) *Socket {
	p.t.Helper()
	return p.socket(p.must(order{Do: "listen", Kind: kind, Local: local}))
}

// Dial connects and waits for it. An IPv4 address is mapped into IPv6 for the kinds "tcp6" and "udp6".
func (p *Program) Dial(kind string, remote netip.AddrPort) *Socket {
	p.t.Helper()
	return p.socket(p.must(order{Do: "dial", Kind: kind, Remote: remote, Wait: true}))
}

// DialByRing connects by io_uring.
func (p *Program) DialByRing(kind string, remote netip.AddrPort) *Socket {
	p.t.Helper()
	return p.socket(p.must(order{Do: "dial", Kind: kind, Remote: remote, Transfer: Transfer{How: ringWay}}))
}

// TryDialByRing connects by io_uring and returns the outcome.
func (p *Program) TryDialByRing(kind string, remote netip.AddrPort) Outcome {
	return p.try(order{Do: "dial", Kind: kind, Remote: remote, Transfer: Transfer{How: ringWay}})
}

// DialFrom connects from an address.
func (p *Program) DialFrom(kind string, local, remote netip.AddrPort) *Socket {
	p.t.Helper()
	return p.socket(p.must(order{Do: "dial", Kind: kind, Local: local, Remote: remote, Wait: true}))
}

// TryDial connects and returns the outcome; with wait false the socket does not block, the call returns at once with EINPROGRESS and the
// program then waits until the socket can be written to.
func (p *Program) TryDial(kind string, remote netip.AddrPort, wait bool) Outcome {
	return p.try(order{Do: "dial", Kind: kind, Remote: remote, Wait: wait})
}

// Churn connects and closes at once so many times.
func (p *Program) Churn(kind string, remote netip.AddrPort, times int) Outcome {
	p.t.Helper()
	return p.must(order{Do: "churn", Kind: kind, Remote: remote, Value: times})
}

// Drain accepts so many connections and closes each at once.
func (s *Socket) Drain(times int) Outcome {
	s.program.t.Helper()
	return s.program.must(order{Do: "drain", Socket: s.fd, Value: times})
}

// SocketPair makes two Unix sockets that are connected to each other.
func (p *Program) SocketPair() (*Socket, *Socket) { return p.SocketPairOf(unix.SOCK_STREAM) }

// SocketPairOf is the same with sockets of a type: SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET.
func (p *Program) SocketPairOf(kind int) (*Socket, *Socket) {
	p.t.Helper()
	out := p.must(order{Do: "socketpair", Value: kind})
	return &Socket{program: p, fd: out.Socket}, &Socket{program: p, fd: out.Socket + 1}
}

// Sleep has the program sleep.
func (p *Program) Sleep(d time.Duration) {
	p.t.Helper()
	p.must(order{Do: "sleep", Value: int(d)})
}

// Waits waits until the program waits in a call on the socket: to accept or to read.
func (s *Socket) Waits() {
	s.program.t.Helper()
	waits := func(thread string) bool {
		return proctest.WaitsIn(thread, s.fd, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_READ, unix.SYS_RECVFROM, unix.SYS_RECVMSG)
	}
	within := func() bool { return slices.ContainsFunc(proctest.Threads(s.program.PID()), waits) }
	require.Eventually(s.program.t, within, time.Minute, time.Millisecond, "the program waits in a call")
}

// Program is whose socket it is.
func (s *Socket) Program() *Program { return s.program }

// Accept accepts a connection and waits for it.
func (s *Socket) Accept() *Socket {
	s.program.t.Helper()
	return s.program.socket(s.program.must(order{Do: "accept", Socket: s.fd}))
}

// AcceptPlain is the same by accept(), where Accept takes accept4().
func (s *Socket) AcceptPlain() *Socket {
	s.program.t.Helper()
	return s.program.socket(s.program.must(order{Do: "accept", Socket: s.fd, Transfer: Transfer{How: plainWay}}))
}

// AcceptByRing is the same by io_uring.
func (s *Socket) AcceptByRing() *Socket {
	s.program.t.Helper()
	return s.program.socket(s.program.must(order{Do: "accept", Socket: s.fd, Transfer: Transfer{How: ringWay}}))
}

// Write writes and counts.
func (s *Socket) Write(t Transfer) Outcome {
	s.program.t.Helper()
	return s.program.must(order{Do: "write", Socket: s.fd, Transfer: t})
}

// TryWrite writes, counts, and returns the outcome.
func (s *Socket) TryWrite(t Transfer) Outcome {
	return s.program.try(order{Do: "write", Socket: s.fd, Transfer: t})
}

// Read reads and counts.
func (s *Socket) Read(t Transfer) Outcome {
	s.program.t.Helper()
	return s.program.must(order{Do: "read", Socket: s.fd, Transfer: t})
}

// TryRead reads, counts, and returns the outcome.
func (s *Socket) TryRead(t Transfer) Outcome {
	return s.program.try(order{Do: "read", Socket: s.fd, Transfer: t})
}

// Dup duplicates the descriptor.
func (s *Socket) Dup() *Socket {
	s.program.t.Helper()
	out := s.program.must(order{Do: "dup", Socket: s.fd})
	return &Socket{program: s.program, fd: out.Socket, Local: s.Local, Remote: s.Remote}
}

// ReplaceBy makes the descriptor one of another socket (dup3), which closes what it was.
func (s *Socket) ReplaceBy(other *Socket) {
	s.program.t.Helper()
	s.program.must(order{Do: "replace", Socket: s.fd, Value: other.fd})
}

// CloseAsRange closes the descriptor as one of a range (close_range).
func (s *Socket) CloseAsRange() {
	s.program.t.Helper()
	s.program.must(order{Do: "closerange", Socket: s.fd})
}

// Pass gives another program a descriptor of the socket (SCM_RIGHTS), which both have from then on.
func (s *Socket) Pass(to *Program) *Socket {
	s.program.t.Helper()
	path := filepath.Join(s.program.t.TempDir(), "pass")
	done := make(chan Outcome)
	go func() { done <- to.must(order{Do: "receive", Path: path}) }()
	s.PassTo(path)
	out := <-done
	return &Socket{program: to, fd: out.Socket, Local: s.Local, Remote: s.Remote}
}

// PassTo sends a descriptor of the socket to the Unix socket that is bound to a path.
func (s *Socket) PassTo(path string) {
	s.program.t.Helper()
	s.program.must(order{Do: "pass", Socket: s.fd, Path: path})
}

// SendBuffer sets how many bytes may wait to be sent (SO_SNDBUF).
func (s *Socket) SendBuffer(bytes int) {
	s.program.t.Helper()
	s.program.must(order{Do: "sendbuffer", Socket: s.fd, Value: bytes})
}

// Shutdown ends one direction, or both: SHUT_RD, SHUT_WR, SHUT_RDWR.
func (s *Socket) Shutdown(how int) {
	s.program.t.Helper()
	s.program.must(order{Do: "shutdown", Socket: s.fd, Value: how})
}

// Reset closes the connection by a reset.
func (s *Socket) Reset() {
	s.program.t.Helper()
	s.program.must(order{Do: "reset", Socket: s.fd})
}

// CloseByRing closes the descriptor by io_uring.
func (s *Socket) CloseByRing() {
	s.program.t.Helper()
	s.program.must(order{Do: "close", Socket: s.fd, Transfer: Transfer{How: ringWay}})
}

// Close closes the descriptor.
func (s *Socket) Close() {
	s.program.t.Helper()
	s.program.must(order{Do: "close", Socket: s.fd})
}

// Kernel asks the kernel for its account of a TCP socket.
func (s *Socket) Kernel() TCPInfo {
	s.program.t.Helper()
	if out := s.program.must(order{Do: "info", Socket: s.fd}); out.Kernel != nil {
		return *out.Kernel
	}
	return TCPInfo{}
}

// Carry moves bytes from one socket to another of another program, and returns what each of them counted.
func Carry(from *Socket, write Transfer, to *Socket, read Transfer) (written, got Outcome) {
	from.program.t.Helper()
	done := make(chan Outcome)
	go func() { done <- to.Read(read) }()
	written = from.Write(write)
	return written, <-done
}
