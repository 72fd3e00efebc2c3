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
	// it is not known. Begins says that no more is known than how it begins, as of [Wanted].Begun.
	Path   []byte
	Begins bool
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
	path, begins := e.HTTP.Path, false
	if c.paths != nil {
		if known, beginning, ok := c.paths.standIn(subject.PID, path); ok {
			path, begins = []byte(cmp.Or(known, l7.UnknownText)), beginning
		}
	}
	took, timed := requests.Duration(e)
	c.answered(Answer{
		Subject: subject, Path: path, Begins: begins, Status: e.HTTP.Status, Took: time.Duration(took), Timed: timed, Ended: e.Response.Last,
	})
}
