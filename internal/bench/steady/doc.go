// SPDX-License-Identifier: Apache-2.0

// Command steady is a load of the benchmark: a client that asks a server on HTTP/1.1 at a constant rate, whatever the answers
// take, or as fast as it is answered, and says what it has counted and timed itself; and a server that speaks TLS by Go's own library.
//
//	steady ask -url URL -rate N -connections N -for DURATION
//	steady serve -listen ADDRESS -certificate FILE -key FILE
//
// The client ends by itself and prints one line of JSON, a [github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload.Asked].
package main
