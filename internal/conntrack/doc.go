// SPDX-License-Identifier: Apache-2.0

// Package conntrack asks the kernel's connection tracking for the other side of a connection whose addresses are translated on the way (NAT).
//
// It asks for single connections (ctnetlink, a get by tuple) and never lists tables, which have a million entries on gateways. It opens
// sockets for that in the network namespace in question and closes them after each call: an open one would keep a container's namespace
// alive. A namespace in which nothing is tracked costs reading one file.
//
// It asks in the namespace of the socket and then in the host's, where containers' addresses are translated. It does not find translation in
// a third namespace or on another host, nor connections in zones of their own (CT zones, as Open vSwitch has them).
package conntrack
