// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// PairWait is how long after its end a request waits for the span of its other side.
const PairWait = time.Second

// ends are where and when a request and its response were transferred. Both processes of a connection within this host have the same positions and
// the same clock.
type ends struct {
	request, response uint32 // positions of their first bytes, as in [l7.Piece]; 0 if unknown
	first, last       int64  // of both, in monotonic ns
}

// link is how the span of a request is related to that of its other side.
type link struct {
	trace [16]byte
	// span is the id of a client's span, parent that of the client's span in a server's link.
	span, parent [8]byte
}

// Local is what is known of the remote end of a request's connection.
type Local struct {
	// PID is its process, 0 if it is unknown, or if a series has several.
	PID uint32
	// Here: it is a process of this host.
	Here bool
}

// Pair finds requests of which the server's side and the client's are both in the list, and makes the server's span the child of the
// client's. It returns the requests whose spans can be made, and those that may wait for their other side. Two sides belong together if all
// that is known of both agrees, and no other request of the list agrees, too. Requests that have waited for PairWait, or all if last is set,
// are made without the other side.
func Pair(list []*Request, other func(*Request) Local, now time.Time, last bool) (made, waiting []*Request) {
	if len(list) == 0 {
		return nil, nil
	}
	servers := map[uint32][]*Request{} // by the position of the request
	for _, r := range list {
		if r.record.Role == l7.RoleServer && r.ends.request != 0 && r.link == nil {
			servers[r.ends.request] = append(servers[r.ends.request], r)
		}
	}
	clients, matches := map[*Request][]*Request{}, map[*Request]int{} // of each server, and how many servers a client has
	for _, r := range list {
		if r.record.Role != l7.RoleClient || r.ends.request == 0 || r.link != nil {
			continue
		}
		for _, s := range servers[r.ends.request] {
			if belong(r, s, other) {
				clients[s] = append(clients[s], r)
				matches[r]++
			}
		}
	}
	for s, all := range clients {
		if len(all) == 1 && matches[all[0]] == 1 {
			join(all[0], s)
		}
	}
	for _, r := range list {
		if !last && r.mayPair(other) && now.Sub(r.ended) < PairWait {
			waiting = append(waiting, r)
		} else {
			made = append(made, r)
		}
	}
	return made, waiting
}

// mayPair reports whether the other side of a request may still be found.
func (r *Request) mayPair(other func(*Request) Local) bool {
	return r.ends.request != 0 && r.link == nil && other(r).Here
}

// belong reports whether all that is known of a client's request and of a server's agrees. Positions within TLS begin at 1 on each
// connection: there one process at least must be known to be the other's.
func belong(client, server *Request, other func(*Request) Local) bool {
	if client.TLS != server.TLS || client.record.Semantics != server.record.Semantics || !client.record.Semantics.Spans.Same(&client.record, &server.record) {
		return false
	}
	c, s := &client.ends, &server.ends
	if c.response != 0 && s.response != 0 && c.response != s.response {
		return false
	}
	if s.first < c.first || s.first > c.last {
		return false
	}
	toServer, toClient := other(client), other(server)
	if !toServer.Here || !toClient.Here {
		return false
	}
	if toServer.PID != 0 && toServer.PID != server.Subject.PID || toClient.PID != 0 && toClient.PID != client.Subject.PID {
		return false
	}
	return !client.TLS || toServer.PID != 0 || toClient.PID != 0
}

// join makes the server's span the child of the client's.
func join(client, server *Request) {
	trace, span := client.record.Trace.TraceID, [8]byte{}
	if trace == [16]byte{} {
		chance(trace[:])
	}
	chance(span[:])
	client.link = &link{trace: trace, span: span}
	server.link = &link{trace: trace, parent: span}
}
