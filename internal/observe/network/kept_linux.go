// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"slices"
	"sync/atomic"
	"unsafe"
)

const (
	// keptReports is the number of reports for which a series of a service instance stays after its last socket was closed: as many as series
	// of requests stay without a request. One that counts within them keeps growing, so that it has a rate.
	keptReports = 150
	// keptShare is the ratio of the kernel's series to such series.
	keptShare = 8
)

// kept bounds the series of service instances without a socket.
type kept struct {
	most int
	// retired counts those that were ended.
	retired atomic.Uint64
	// excess counts the kernel's series that found their service instance at its bound of peers.
	excess atomic.Uint64
}

// mostPeers bounds the series of connections of a service instance, the overflow series not included. At up to 30 lines for each (docs/reference/telemetry.md)
// they are 3,000 lines of a page for Prometheus.
const mostPeers = 100

// admit returns the peer that the series counts for. If its service instance is at its bound of peers, and this peer is not among them, that
// is the overflow series, and the series is counted as excess.
func (t *table) admit(s *series, who peer) peer {
	if !t.byInstance || s.owner.flows[who] != nil || s.owner.peers() < mostPeers {
		return who
	}
	if !who.overflow && (s.flow == nil || !s.flow.overflow) {
		t.kept.excess.Add(1)
	}
	return peer{overflow: true}
}

// peers returns the number of peers that the service instance has series for, without the overflow series.
func (o *owner) peers() int {
	if o.flows[peer{overflow: true}] != nil {
		return len(o.flows) - 1
	}
	return len(o.flows)
}

// rest starts the time for which a flow without members stays.
func (t *table) rest(f *flow) {
	f.rests = idleReports
	if t.byInstance {
		f.rests = keptReports
	}
}

// endRests ends flows without members whose time is over, and those beyond their bound.
func (t *table) endRests() {
	resting, all := map[*owner][]*flow{}, 0
	for _, o := range t.owners {
		for _, f := range o.flows {
			if f.rests--; len(f.members) > 0 {
				continue
			}
			if f.rests < 0 {
				t.retire(o, f)
				continue
			}
			resting[o] = append(resting[o], f)
			all++
		}
	}
	if t.byInstance && all > t.kept.most {
		t.endBeyond(resting)
	}
}

// endBeyond ends flows without members until they are within their bound, which owners share by max-min fairness: those first that have been
// without members for longest. An overflow series, of which an owner has one, goes last.
func (t *table) endBeyond(resting map[*owner][]*flow) {
	wants := make([]int, 0, len(resting))
	for _, flows := range resting {
		wants = append(wants, len(flows))
	}
	level := fairLevel(wants, t.kept.most)
	for o, flows := range resting {
		if len(flows) <= level {
			continue
		}
		slices.SortFunc(flows, func(x, y *flow) int {
			switch {
			case x.overflow:
				return 1
			case y.overflow:
				return -1
			}
			return cmp.Compare(x.rests, y.rests)
		})
		for _, f := range flows[:len(flows)-level] {
			t.retire(o, f)
		}
	}
}

// retire ends a flow and counts it.
func (t *table) retire(o *owner, f *flow) {
	t.end(o, f)
	if t.byInstance {
		t.kept.retired.Add(1)
	}
}

// flowBytes is the memory of a flow without members.
const flowBytes = 1 << 10

// keptBytes returns the memory of the counts that flows have of members that left.
func (t *table) keptBytes() (bytes uint64) {
	for _, o := range t.owners {
		for _, f := range o.flows {
			if len(f.members) == 0 {
				bytes += flowBytes
			}
			if f.left != nil {
				bytes += uint64(unsafe.Sizeof(*f.left)) + f.left.bytes()
			}
		}
	}
	return bytes
}
