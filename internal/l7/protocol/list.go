// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http2"
)

// list has a line for each protocol, in the order of the documentation, in which they are tried on the first bytes of a connection.
var list = []*l7.Descriptor{
	http1.Descriptor,
	http2.Descriptor,
	accepted("mysql"),
	accepted("postgresql"),
	accepted("redis"),
	accepted("mongodb"),
	accepted("cassandra"),
	accepted("kafka"),
	accepted("rocketmq"),
	dns.Descriptor,
}
