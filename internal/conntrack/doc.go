// SPDX-License-Identifier: Apache-2.0

// Package conntrack asks the kernel's connection tracking who the other side of a connection is where addresses are
// translated on the way.
//
// It asks for single connections (ctnetlink, a get by tuple): tables of a million entries, as gateways have, are never
// listed. Sockets for that are opened in the network namespace in question and closed after each call, since one that
// stayed open would keep a container's namespace alive. Namespaces in which nothing is tracked are left after reading one
// file.
//
// It sees the namespace of the socket and the host's, one after the other, which is where containers' addresses are
// translated; translation in a third namespace or on another host is not seen, nor are connections in zones of their
// own (CT zones, as Open vSwitch has them).
package conntrack
