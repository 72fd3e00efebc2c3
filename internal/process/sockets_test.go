// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// socketLine is a line of /proc/net/tcp or udp.
func socketLine(port uint16, state string, inode uint64) string {
	return fmt.Sprintf("   0: 0100007F:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 00000000829cfe07 100 0 0 10 0",
		port, state, inode)
}

func TestParseSocketTable(t *testing.T) {
	wanted := map[uint16]bool{80: true, 443: true, 53: true}
	text := "heading\n" + socketLine(80, "0A", 7) + "\n" + "rubbish\n" + socketLine(81, "0A", 8) + "\n" +
		socketLine(443, "06", 9) + "\n" + socketLine(443, "0A", 10) + "\n"
	sockets := map[uint64]uint16{}
	require.NoError(t, socketTables[0].parse(strings.NewReader(text), wanted, sockets))
	require.Equal(t, map[uint64]uint16{7: 80}, sockets, "it stops at the first that does not listen")

	six := "heading\n" + strings.Replace(socketLine(443, "0A", 12), "0100007F", "00000000000000000000000001000000", 1)
	require.NoError(t, socketTables[1].parse(strings.NewReader(six), wanted, sockets))
	udp := "heading\n" + socketLine(80, "01", 20) + "\n" + socketLine(53, "07", 21) + "\n" + socketLine(53, "07", 0)
	require.NoError(t, socketTables[2].parse(strings.NewReader(udp), wanted, sockets))
	require.Equal(t, map[uint64]uint16{7: 80, 12: 443, 21: 53}, sockets)
}

func TestParseSocketTableIsBounded(t *testing.T) {
	line := socketLine(53, "01", 20) + "\n"
	text := strings.NewReader("heading\n" + strings.Repeat(line, maxSocketTable/len(line)+10))
	require.ErrorIs(t, socketTables[2].parse(text, nil, nil), errTooManySockets)
}

func FuzzParseSocketTable(f *testing.F) {
	f.Add([]byte("heading\n"+socketLine(80, "0A", 7)), uint8(0))
	f.Add([]byte("\n 1: :FFFFF 0 0A"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, table uint8) {
		sockets := map[uint64]uint16{}
		// Only a line that is too long is an error.
		if err := socketTables[table%4].parse(strings.NewReader(string(data)), map[uint16]bool{80: true}, sockets); err != nil {
			require.ErrorContains(t, err, "token too long")
		}
		for _, port := range sockets {
			require.Equal(t, uint16(80), port)
		}
	})
}

func TestPortSelector(t *testing.T) {
	h := newFakeHost(t)
	web := fakeProcess{pid: 10, exe: "/bin/web", sockets: []uint64{1, 7}, tcp: []string{socketLine(80, "0A", 7)}}
	h.add(web)
	h.add(fakeProcess{pid: 11, exe: "/bin/web", sockets: []uint64{8}, tcp: web.tcp})
	// In another network namespace the same inode is another socket.
	h.add(fakeProcess{pid: 12, exe: "/bin/dns", sockets: []uint64{7, 9}, netns: 99, udp: []string{socketLine(53, "07", 9)}})
	clock := newClock()
	table := h.table(Config{Include: []Selector{{Port: 80}, {Port: 53, Set: map[string]string{"service.name": "dns"}}}, Now: clock.now})
	scan(t, table)
	require.Equal(t, []uint32{10, 12}, pids(table))
	require.Equal(t, "dns", processes(table)[1].ServiceName)

	// The web server hands its port over to the other process.
	clock.pass(2 * portsAge)
	web.tcp = []string{socketLine(80, "0A", 8)}
	h.add(web)
	h.add(fakeProcess{pid: 11, exe: "/bin/web", sockets: []uint64{8}, tcp: web.tcp})
	scan(t, table)
	require.Equal(t, []uint32{11, 12}, pids(table))

	reads := table.Stats().Reads
	clock.pass(2 * portsAge)
	scan(t, table)
	require.Equal(t, reads, table.Stats().Reads, "nothing changed")

	h.remove(12)
	clock.pass(2 * portsAge)
	scan(t, table)
	require.Equal(t, []uint32{11}, pids(table))
	require.Len(t, table.ports.namespaces, 1)
	require.Empty(t, table.Stats().ReadErrors)
}

func TestWatchedPorts(t *testing.T) {
	h := newFakeHost(t)
	id := h.add(fakeProcess{pid: 10, exe: "/bin/web", sockets: []uint64{7}, tcp: []string{socketLine(80, "0A", 7)}})
	clock := newClock()
	table := h.table(Config{Now: clock.now})
	scan(t, table)
	p, _, err := table.Lookup(id)
	require.NoError(t, err)
	narrowing, err := table.Narrow("observe::on_cpu::targets", []Selector{{Port: 80}})
	require.NoError(t, err)
	require.False(t, table.Matches(narrowing, p))
	clock.pass(time.Second)
	scan(t, table)
	require.Empty(t, table.Stats().Unmatched, "the scan looks, too")
	require.True(t, table.Matches(narrowing, p))
	table.Exit(id)
	require.True(t, table.Matches(narrowing, p), "it lingers")
}
