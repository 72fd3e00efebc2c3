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

// Answer is an HTTP request that a process has answered, or that has ended without a response.
type Answer = observe.Answer

// answer passes an exchange whose server the process was to Config.Answered, unless it is unknown how the exchange ended.
func (c *capture) answer(subject observe.SubjectKey, e *l7.Exchange) {
	unanswered := !e.Response.Known && e.Ended != 0
	operation, ok := e.Operation.(l7.Monitored)
	if !ok || e.Role != l7.RoleServer || !e.Response.Known && !unanswered {
		return
	}
	path, status := operation.Endpoint()
	begins := false
	if c.paths != nil && e.Tag != 0 {
		known, beginning := c.paths.skippedPath(subject.PID, skippedOf(e.Tag))
		path, begins = []byte(cmp.Or(known, l7.UnknownText)), beginning
	}
	took, timed := requests.Duration(e)
	c.answered(Answer{
		Subject: subject, Path: path, Begins: begins, Status: status, Unanswered: unanswered, Took: time.Duration(took), Timed: timed,
		Ended: max(e.Response.Last, e.Ended, c.sweeping),
	})
}
