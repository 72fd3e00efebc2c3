// SPDX-License-Identifier: Apache-2.0

package l7

// Cause is which end of a connection, or of a stream within it, ended it first.
type Cause uint8

const (
	// CauseUnknown: the end was not seen, or the observed process exited.
	CauseUnknown Cause = iota
	// ClosedLocally: the observed process closed or reset it.
	ClosedLocally
	// ClosedRemotely: the other end closed or reset it.
	ClosedRemotely
	// TimedOut: the kernel gave it up, since the other end acknowledged nothing.
	TimedOut
)

// End is how and when a connection ended. The zero value: neither is known.
type End struct {
	Cause Cause
	// At is when one end ended it, Closed when the process closed its socket, in monotonic ns; 0 where that is not known. What was
	// received before may be read, and requests be written in vain, in between.
	At, Closed int64
}

// CauseOf is the cause of an end, nil being none.
func (e *End) CauseOf() Cause {
	if e == nil {
		return CauseUnknown
	}
	return e.Cause
}

// After is when the connection ended for a message whose first byte has the given time; 0 where that is not known.
func (e *End) After(first int64) int64 {
	switch {
	case e == nil, first == 0:
		return 0
	case e.At >= first:
		return e.At
	case e.Closed >= first:
		return e.Closed
	}
	return 0
}

// GaveUp reports whether a client of the role, or the client of a server of the role, ended it while it waited.
func (c Cause) GaveUp(role Role) bool {
	return role == RoleClient && c == ClosedLocally || role == RoleServer && c == ClosedRemotely
}
