// SPDX-License-Identifier: Apache-2.0

// Package nettest is a rig for tests of the network: network namespaces that are joined by veth or by a relay that
// delays and loses packets, address translation by nftables, and programs whose socket calls a test decides one by
// one and which count by themselves what they did. Everything is removed at a test's end.
//
// A package that starts programs has them run by its own test binary:
//
//	func TestMain(m *testing.M) {
//		nettest.Main() // returns unless this process was started as such a program
//		goleak.VerifyTestMain(m)
//	}
//
// Nothing but the kernel is needed, so tests run in the virtual machines of the kernel matrix too.
package nettest // import "github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
