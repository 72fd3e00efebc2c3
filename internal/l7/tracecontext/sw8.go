// SPDX-License-Identifier: Apache-2.0

package tracecontext

import (
	"bytes"
	"encoding/base64"
	"strconv"
)

// SkyWalking is the span that a request comes from in SkyWalking's own terms: its identifiers are texts of any form.
type SkyWalking struct {
	Sampling        Sampling
	TraceID         []byte
	SegmentID       []byte
	SpanID          int // of the parent, in its segment
	Service         []byte
	ServiceInstance []byte
	Endpoint        []byte
	TargetAddress   []byte
}

// SW8 reads the value of sw8, version 3: https://skywalking.apache.org/docs/main/next/en/api/x-process-propagation-headers-v3/. It has
// eight parts, of which the texts are in base64.
func SW8(sw8 []byte) (c SkyWalking, ok bool) {
	const parts = 8
	var part [parts][]byte
	for i, rest, more := 0, sw8, true; i < parts; i++ {
		if !more {
			return SkyWalking{}, false
		}
		part[i], rest, more = bytes.Cut(rest, []byte("-"))
		if more == (i == parts-1) {
			return SkyWalking{}, false
		}
	}
	switch string(part[0]) {
	case "0":
		c.Sampling = NotSampled
	case "1":
		c.Sampling = Sampled
	default:
		return SkyWalking{}, false
	}
	span, err := strconv.ParseUint(string(part[3]), 10, 31)
	if err != nil {
		return SkyWalking{}, false
	}
	c.SpanID = int(span)
	for i, to := range map[int]*[]byte{1: &c.TraceID, 2: &c.SegmentID, 4: &c.Service, 5: &c.ServiceInstance, 6: &c.Endpoint, 7: &c.TargetAddress} {
		if *to, err = base64.StdEncoding.AppendDecode(nil, part[i]); err != nil || len(*to) == 0 {
			return SkyWalking{}, false
		}
	}
	return c, true
}
