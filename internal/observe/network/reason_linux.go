// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// errorType returns the error.type of an errno: its name.
func errorType(code uint16) string {
	if code == 0 {
		return "aborted" // closed before it was answered
	}
	if name := unix.ErrnoName(unix.Errno(code)); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(code))
}

// dropReasons are the kernel's names of the reasons for which it drops packets.
type dropReasons map[uint16]string

// dropPrefix begins all of them (include/net/dropreason-core.h).
const dropPrefix = "SKB_DROP_REASON_"

// elsewhere is the name of all reasons that a subsystem of the kernel defines itself.
const elsewhere = "SUBSYSTEM"

// newDropReasons takes the values of the kernel's enum skb_drop_reason.
func newDropReasons(values map[string]uint64) dropReasons {
	reasons := dropReasons{}
	for name, value := range values {
		if short, ok := strings.CutPrefix(name, dropPrefix); ok && value <= 1<<16-1 {
			reasons[uint16(value)] = short
		}
	}
	if len(reasons) > 0 {
		reasons[uint16(bindings.NetworkNetworkDropNETWORK_DROP_ELSEWHERE)] = elsewhere
	}
	return reasons
}

// name returns the name of a reason. Kernels before 5.17 have none, and modules have their own.
func (r dropReasons) name(code uint16) string {
	if name, ok := r[code]; ok {
		return name
	}
	if len(r) == 0 {
		return "NOT_SPECIFIED"
	}
	return "reason " + strconv.Itoa(int(code))
}
