// SPDX-License-Identifier: Apache-2.0

// Package process knows the processes of the host: which there are, which of
// them are in scope, what they are called and in which container and pod they
// live.
//
// A [Table] is fed from two sides. [Table.Scan] reads /proc and is enough by
// itself; [Table.Fork], [Table.Exec] and [Table.Exit] take the kernel's events
// and keep the table true between scans. Events read nothing: a child inherits
// its parent's decision, and what an exec may have changed is read by
// [Table.Settle] from the processes that live on for a moment. A process that
// is in scope is read as a whole only when [Table.Lookup] asks for it.
//
// Everything that comes from a process (names, arguments, environment) is
// bounded, made valid UTF-8 and trusted with nothing. Of the environment only
// the service's name and instance are kept.
package process
