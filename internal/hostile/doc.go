// SPDX-License-Identifier: Apache-2.0

// Command hostile runs the built Collector next to processes of users who want to keep it from its work, and next to a
// steady service. In each report interval it checks that the service's profile is whole: as many samples as its CPU time
// asks for, and a name for each of its functions. No process may get a name that another user chose for it, and no frame one from
// a file that the user of its process cannot read. At the end it compares the requests that the receiver reports of a web
// server with those that a client had answered. It ends the Collector with SIGTERM and checks how long that takes.
//
// Everything it starts ends by itself. `make soak-hostile` runs it, for SOAK_DURATION.
package main
