// SPDX-License-Identifier: Apache-2.0

package l7

// Role is which end of a connection the observed process is.
type Role uint8

// Roles of a process.
const (
	RoleUnknown Role = iota
	RoleClient
	RoleServer
)

// RequestDirection is the direction of requests: servers read them, clients write them.
func (r Role) RequestDirection() Direction {
	if r == RoleServer {
		return Read
	}
	return Write
}

// String is the role as telemetry names it.
func (r Role) String() string {
	switch r {
	case RoleClient:
		return "client"
	case RoleServer:
		return "server"
	}
	return "unknown"
}

// Outcome is how an exchange ended.
type Outcome uint8

const (
	// Complete says that the request was answered.
	Complete Outcome = iota
	// Aborted says that the connection ended within the request or the response.
	Aborted
	// Unanswered says that the connection ended without a response: a one-way request, or a server that gave up.
	Unanswered
	// Lost says that bytes are missing, so that nobody can tell which response was the request's.
	Lost
)

// Values of Exchange.ErrorType beside the statuses of a protocol.
const (
	ErrorAborted    = "aborted"
	ErrorNoResponse = "no_response"
)

// Unknown is a size that nobody knows.
const Unknown int64 = -1

// Side is the request's or the response's part of an exchange.
type Side struct {
	Known bool // it was seen; otherwise all else is zero
	// Cut says that bytes of it are missing, or refer to what nobody saw: values may be missing or short.
	Cut bool
	// Ended says that its end was seen, so that Last and Whole are right.
	Ended bool

	First, Last int64 // monotonic time of its first and last byte, in ns; First is 0 where its beginning was not seen
	Body        int64 // bytes of the body as transferred, without its framing, or Unknown
	Whole       int64 // bytes of the whole message, or Unknown

	Content *Content // nil where it was not kept
}

// Exchange is a request and its response. It is valid, with all that it refers to, until the function that was given it returns.
type Exchange struct {
	Protocol          string // "http", "dns", by the conventions' network.protocol.name
	Role              Role
	Request, Response Side
	Outcome           Outcome
	// ErrorType is the conventions' error.type: a status that is an error for this role, ErrorAborted, ErrorNoResponse, or nothing.
	ErrorType string

	HTTP *HTTP // of HTTP in any version, else nil
	GRPC *GRPC // of gRPC, which has HTTP as well, else nil
	DNS  *DNS  // of DNS, else nil
}

// Duration is the time from the request's first to the response's last byte in ns; ok says whether it is known.
func (e *Exchange) Duration() (ns int64, ok bool) {
	if !e.Request.Known || !e.Response.Ended {
		return 0, false
	}
	return e.Response.Last - e.Request.First, true
}

// HTTP is what HTTP adds to an exchange.
type HTTP struct {
	Method         string // one that the conventions know, OtherMethod, UnknownText, or "" where the request is not known
	OriginalMethod []byte // the method as it was sent, where Method is OtherMethod
	Target         []byte // the request's target as it was sent, or UnknownText
	Scheme         []byte // where the target has one
	Host           []byte // of the target, else of the Host field
	Path, Query    []byte // of the target, neither decoded nor with the question mark; Path may be UnknownText
	Version        string // "1.0", "1.1", "2"
	Status         int    // 0 where it is not known
	Pushed         bool   // the server sent the response without having been asked; the request is what it says it answers
	Upgrade        []byte // the protocol that follows on a status of 101

	// Values of the fields that were asked for, in the order in which they were asked for. A field that comes more than once has its
	// values joined by ", "; nil where it was not there.
	RequestFields, ResponseFields [][]byte
}

// UnknownText stands for a method or path that was sent, but in a way that only those understand who have seen what was sent before:
// HTTP/2 refers to fields of earlier messages.
const UnknownText = "*"

// OtherMethod is the method of requests whose own the conventions do not know.
const OtherMethod = "_OTHER"

// GRPC is what gRPC adds to an exchange.
type GRPC struct {
	Service, Method []byte // of the path, both UnknownText where that is not known
	// Status is the conventions' rpc.response.status_code, such as "OK" or "DEADLINE_EXCEEDED", or "" where it is not known.
	Status string
	// RequestMessages and ResponseMessages are how many messages were sent to their ends, or Unknown.
	RequestMessages, ResponseMessages int64
}

// DNS is what DNS adds to an exchange.
type DNS struct {
	ID        uint16
	Questions []DNSQuestion // as asked, as many as fit the limits
	// QuestionCount is how many there were.
	QuestionCount int
	Opcode        uint8
	ResponseCode  int // with the upper bits that EDNS adds; -1 where no response is known
	Answers       int // records of the answer section, as the header counts them
	Truncated     bool
	Authoritative bool
	UDPSize       int // what the requester takes over UDP by EDNS, 0 without EDNS
}

// DNSQuestion is one question.
type DNSQuestion struct {
	Name        []byte // in lower case, with escapes and a final dot, as in zone files
	Type, Class uint16
}
