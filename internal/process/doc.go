// SPDX-License-Identifier: Apache-2.0

// Package process keeps a table of the processes of the host: which run, which of them are in scope, what they are called and in which
// container and pod they run.
//
// A [Table] has two sources. [Table.Scan] reads /proc and suffices by itself; [Table.Fork], [Table.Exec] and [Table.Exit] take the kernel's
// events and keep the table current between scans. Events read nothing: a child inherits its parent's decision, and [Table.Settle] reads what
// an exec may have changed, from the processes that run on for a moment. A process in scope is read completely only when [Table.Lookup] asks
// for it.
//
// All input from a process (names, arguments, environment) is bounded, made valid UTF-8 and not trusted. Of the environment only the
// service's name and instance are kept.
package process
