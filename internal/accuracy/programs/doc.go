// SPDX-License-Identifier: Apache-2.0

// Package programs starts programs of Debian packages, as they were packaged, and puts them under a load of the kind that
// they are used for. Everything listens on the loopback interface or on sockets in a folder of its own, runs as an
// unprivileged user and is ended with the run.
package programs
