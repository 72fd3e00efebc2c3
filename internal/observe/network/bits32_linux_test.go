// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package network

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// bits32C connects to PORT of the loopback device, writes 1000 bytes in ten calls, reads 500, closes the socket, is refused by port 1, and
// sends a datagram of 300 bytes to PORT. It prints "done" then, and exits at the end of its input. It uses no library.
const bits32C = `
static int call(int number, int a, int b, int c)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}

struct address {
	unsigned short family, port;
	unsigned int ip;
	char zero[8];
};

#define LOOPBACK(port) { 2, (unsigned short)((port) << 8 | (port) >> 8), 0x0100007f }

static int to(unsigned short port)
{
	struct address address = LOOPBACK(port);
	int fd = call(359, 2, 1, 0);

	if (call(362, fd, (int)&address, sizeof(address)))
		return -1;
	return fd;
}

void _start(void)
{
	static char bytes[500];
	struct address address = LOOPBACK(PORT);
	struct { void *base; int size; } segment = { bytes, 300 };
	struct { void *name; int size; void *segments; int count; void *control; int controls, flags; } message = {
		&address, sizeof(address), &segment, 1,
	};
	int i, fd;

	call(3, 0, (int)bytes, 1);
	fd = to(PORT);
	for (i = 0; i < 10; i++)
		call(4, fd, (int)bytes, 100);
	for (i = 0; i < 500;)
		i += call(3, fd, (int)bytes, 500 - i);
	call(6, fd, 0, 0);
	to(1);
	call(370, call(359, 2, 2, 0), (int)&message, 0);
	call(4, 1, (int)"done\n", 5);
	call(3, 0, (int)bytes, 1);
	call(1, 0, 0, 0);
}
`

// started is a process that is not a program of nettest.
type started struct{ *exec.Cmd }

// PID is the process's id.
func (s started) PID() int { return s.Process.Pid }

// TestPrograms32Bits checks what is reported of 32-bit programs, for whose calls the kernel runs nothing at the tracepoints of system calls:
// bytes, handshakes, failed handshakes, and the peer. With trampolines, reads and writes are timed, and datagrams without a connection have a
// peer. Closes are not reported.
func TestPrograms32Bits(t *testing.T) {
	if guest.Running() {
		t.Skip("the guests have no compiler")
	}
	runEachWay(t, func(t *testing.T, by *way) {
		server := nettest.Start(t, nil)
		l := server.Listen("tcp4", loopback)
		program := started{exec.Command(compile32(t, l.Local.Port()))}
		in, err := program.StdinPipe()
		require.NoError(t, err)
		out, err := program.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, program.Start())
		w := watch(t, config(), by.change)
		_, err = in.Write([]byte("\n"))
		require.NoError(t, err)
		datagrams := server.Listen("udp4", l.Local)
		to := l.Accept()
		to.Read(nettest.Transfer{How: "read", Bytes: 1000})
		to.Write(nettest.Transfer{How: "write", Bytes: 500})
		said, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "done\n", said)
		w.report()
		require.NoError(t, in.Close())
		require.NoError(t, program.Wait())

		peer := []string{"ebpf.role=client", "network.peer.address=127.0.0.1", "network.peer.port=" + strconv.Itoa(int(l.Local.Port())),
			fmt.Sprintf("ebpf.peer.pid=%d", server.PID())}
		require.EqualValues(t, 1000, w.sum(program, "ebpf.network.io", append(peer, "network.io.direction=transmit")...))
		require.EqualValues(t, 500, w.sum(program, "ebpf.network.io", append(peer, "network.io.direction=receive")...))
		require.EqualValues(t, 1000, w.sum(server, "ebpf.network.io", "network.io.direction=receive", fmt.Sprintf("ebpf.peer.pid=%d", program.PID())))
		require.EqualValues(t, 1, w.histogram(program, "ebpf.network.operation.duration", append(peer, "ebpf.operation=connect")...).Count)
		require.EqualValues(t, 1, w.sum(program, "ebpf.tcp.connection.failures", "error.type=ECONNREFUSED"))
		require.Empty(t, w.points(program, "ebpf.network.operation.duration", "ebpf.operation=close"))
		datagrams.Read(nettest.Transfer{How: "read", Bytes: 300})
		require.EqualValues(t, 300, w.sum(program, "ebpf.network.io", "network.transport=udp", "network.io.direction=transmit"))
		toPeer := w.sum(program, "ebpf.network.io", "network.transport=udp", "network.peer.address=127.0.0.1")
		writes := w.points(program, "ebpf.network.operation.duration", "ebpf.operation=write", "network.transport=tcp")
		if by.change != nil { // only tracepoints
			require.Empty(t, writes)
			require.Zero(t, toPeer)
			require.Positive(t, w.loss("peer_unknown"))
		} else {
			require.EqualValues(t, 10, writes[0].Histogram.Count)
			require.EqualValues(t, 300, toPeer)
		}
	})
}

func compile32(t *testing.T, port uint16) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	path := filepath.Join(t.TempDir(), "bits32")
	require.NoError(t, os.WriteFile(path+".c", []byte(bits32C), 0o600))
	text, err := exec.Command("gcc", "-w", "-O2", "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie", "-fno-stack-protector",
		fmt.Sprintf("-DPORT=%d", port), "-o", path, path+".c").CombinedOutput()
	require.NoError(t, err, "%s", text)
	return path
}
