// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// Answer is a request of HTTP that a process has answered.
type Answer struct {
	Subject observe.SubjectKey
	// Path is without query, and valid until Config.Answered returns; [l7.UnknownText] where
	// it is not known.
	Path []byte
	// Status is 0 where it is not known. Took is how long it took, where Timed says so.
	Status int
	Took   time.Duration
	Timed  bool
	// Ended is when its last byte was sent, of CLOCK_MONOTONIC, in ns.
	Ended int64
}

// answer tells of an exchange whose server the process was. A request without a response
// has not ended in any second.
func (c *capture) answer(subject observe.SubjectKey, e *l7.Exchange) {
	if e.HTTP == nil || e.Role != l7.RoleServer || !e.Response.Known {
		return
	}
	path := e.HTTP.Path
	if c.paths != nil {
		if known, ok := c.paths.standIn(subject.PID, path); ok {
			path = []byte(cmp.Or(known, l7.UnknownText))
		}
	}
	took, timed := requests.Duration(e)
	c.answered(Answer{
		Subject: subject, Path: path, Status: e.HTTP.Status, Took: time.Duration(took), Timed: timed, Ended: e.Response.Last,
	})
}
