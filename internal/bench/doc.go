// SPDX-License-Identifier: Apache-2.0

// Command bench measures the built distribution, bin/otelcol-ebpf, as a whole process under loads that it starts itself,
// and compares the figures with the targets. It needs root.
//
// Seven parts, each of which ends by itself:
//   - exact: programs are profiled from their start to their end and the samples in the exported profiles are compared
//     with the CPU time that the kernel has charged to them;
//   - busy: two busy C threads, a Go and a Java program; samples, kernel and engine time for each, memory, start;
//   - web: nginx and wrk at full speed, in turns with both stacks and with user stacks alone, and with a reference
//     program instead of the receiver;
//   - switch: two threads that wake each other, and what off_cpu adds to each switch between them;
//   - network: nginx answers wrk from memory, and what network adds to nginx's CPU time for each request;
//   - connections: 100,000 open connections, and as many short ones as the machine can do, and what network takes for them;
//   - requests: nginx answers wrk, and a client that asks at a constant rate; what requests cost nginx, the Collector and the
//     client, and whether all are exported, with the right durations.
//
// The exit status is 1 when the benchmark itself went wrong and, with -check, when a target is missed or was not measured.
package main
