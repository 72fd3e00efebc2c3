// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxBody bounds the body of a log record, in bytes, and maxPath the path in it.
const maxBody, maxPath = 256, 128

// facts are the attributes of an event that its body is made of.
type facts struct {
	role, method, path, route, call, code, question, kind, errorType string
	reason, sample, syscall, policy, task, taskKind, end, message    string
	peer, peerService                                                string
	causes                                                           []model.Cause
	status, port, samples                                            int64
	duration                                                         time.Duration
	timed                                                            bool
}

// bodyOf returns one line about an event for people to read. All that it says is in the attributes, too. It is made in room, which is returned to
// be used again.
func bodyOf(l *model.Log, room []byte) (line string, _ []byte) {
	var f facts
	for i := range l.Attributes {
		f.take(&l.Attributes[i])
	}
	room = room[:0]
	switch {
	case f.isRequest():
		room = f.appendRequest(room)
	case f.sample != "":
		room = appendName(append(append(room, "sample of "...), f.sample...), f.syscall)
	case len(f.causes) > 0 || f.policy != "" && f.taskKind == "":
		room = f.appendTrigger(room)
	case f.taskKind != "":
		room = f.appendTask(room, l.Event)
	default:
		room = append(room, l.Event...)
	}
	return oneLine(room), room
}

// take notes an attribute.
func (f *facts) take(a *model.Attribute) {
	switch a.Key {
	case "ebpf.causes":
		f.causes = a.Value.Causes()
	case "http.response.status_code":
		f.status = a.Value.Int
	case "network.peer.port":
		f.port = a.Value.Int
	case "ebpf.task.samples":
		f.samples = a.Value.Int
	case "ebpf.request.duration", "ebpf.task.duration":
		f.duration, f.timed = time.Duration(a.Value.Float()*float64(time.Second)), true
	default:
		if to := f.text(a.Key); to != nil {
			*to = a.Value.Text
		}
	}
}

// text is where an attribute that is a text goes, nil for others.
func (f *facts) text(key string) *string {
	switch key {
	case "ebpf.role":
		return &f.role
	case "http.request.method":
		return &f.method
	case "url.path":
		return &f.path
	case "http.route":
		return &f.route
	case "rpc.method":
		return &f.call
	case "rpc.response.status_code":
		return &f.code
	case "dns.question.name":
		return &f.question
	case "ebpf.dns.question.type":
		return &f.kind
	case "error.type":
		return &f.errorType
	case "ebpf.reason":
		return &f.reason
	case "ebpf.sample":
		return &f.sample
	case "ebpf.syscall":
		return &f.syscall
	case "ebpf.policy":
		return &f.policy
	case "ebpf.task.id":
		return &f.task
	case "ebpf.task.kind":
		return &f.taskKind
	case "ebpf.task.end.reason":
		return &f.end
	case "error.message":
		return &f.message
	case "network.peer.address":
		return &f.peer
	case "service.peer.name":
		return &f.peerService
	}
	return nil
}

func (f *facts) isRequest() bool { return f.call != "" || f.method != "" || f.question != "" }

// appendRequest appends such as "slow: server GET /pay 500 in 1.203s, peer checkout".
func (f *facts) appendRequest(b []byte) []byte {
	if f.reason != "" {
		b = append(append(b, f.reason...), ": "...)
	}
	if f.sample != "" {
		b = append(append(append(b, "sample of "...), f.sample...), ": "...)
	}
	b = append(b, f.role...)
	outcome := f.errorType
	switch {
	case f.call != "":
		b = appendName(b, f.call)
		outcome = cmp.Or(f.code, outcome)
	case f.question != "":
		b = appendName(appendName(append(b, " lookup of"...), f.kind), f.question)
	default:
		path := cmp.Or(f.path, f.route)
		b = appendName(b, f.method)
		if len(path) > maxPath { // its end is worth less than the outcome
			b = append(appendName(b, path[:maxPath]), "…"...)
		} else {
			b = appendName(b, path)
		}
		if f.status != 0 {
			outcome, b = "", strconv.AppendInt(append(b, ' '), f.status, 10)
		}
	}
	b = appendName(b, outcome)
	if f.timed {
		b = appendDuration(append(b, " in "...), f.duration)
	}
	switch {
	case f.peerService != "":
		b = append(append(b, ", peer "...), f.peerService...)
	case f.peer != "":
		b = append(append(b, ", peer "...), f.peer...)
		if f.role == "client" && f.port > 0 {
			b = strconv.AppendInt(append(b, ':'), f.port, 10)
		}
	}
	return b
}

// appendTrigger appends such as "policy slow-responses: http_avg_response_time 512 (threshold 100); task t-1".
func (f *facts) appendTrigger(b []byte) []byte {
	b = append(append(b, "policy "...), f.policy...)
	for i, c := range f.causes {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		b = fmt.Appendf(b, "%s%s %.4g (threshold %.4g)", separator, c.Monitor, c.Value, c.Threshold)
		b = appendName(b, c.Path)
	}
	if f.task != "" {
		b = append(append(b, "; task "...), f.task...)
	}
	return f.appendMessage(b)
}

// appendTask appends such as "off_cpu finished after 30s, 1200 samples (expired); policy slow-responses".
func (f *facts) appendTask(b []byte, event string) []byte {
	b = append(append(append(b, f.taskKind...), ' '), event[strings.LastIndexByte(event, '.')+1:]...)
	switch {
	case f.timed && f.end != "":
		b = appendDuration(append(b, " after "...), f.duration)
		b = append(strconv.AppendInt(append(b, ", "...), f.samples, 10), " samples"...)
	case f.timed:
		b = appendDuration(append(b, " for "...), f.duration)
	}
	if f.end != "" {
		b = append(append(append(b, " ("...), f.end...), ')')
	}
	if f.policy != "" {
		b = append(append(b, "; policy "...), f.policy...)
	}
	return f.appendMessage(b)
}

func (f *facts) appendMessage(b []byte) []byte {
	if f.message == "" {
		return b
	}
	return append(append(b, "; "...), f.message...)
}

// appendName appends a name after a blank, or nothing.
func appendName(b []byte, name string) []byte {
	if name == "" {
		return b
	}
	return append(append(b, ' '), name...)
}

// appendDuration appends a duration with four digits.
func appendDuration(b []byte, d time.Duration) []byte {
	unit, name := time.Microsecond, "µs"
	switch {
	case d >= time.Second:
		unit, name = time.Second, "s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	}
	const digits = 4
	return append(strconv.AppendFloat(b, float64(d)/float64(unit), 'g', digits, 64), name...)
}

// oneLine makes a text of what may have any bytes that is one line of valid UTF-8 within the bound.
func oneLine(text []byte) string {
	if len(text) > maxBody {
		end := maxBody - len("…")
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = append(text[:end], "…"...)
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text), "?"))
}
