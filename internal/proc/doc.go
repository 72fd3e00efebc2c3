// SPDX-License-Identifier: Apache-2.0

// Package proc finds the folder of proc(5) that shows a process. That is /proc/PID as long as the main thread runs. When it has ended
// and others run on, as after pthread_exit(3) in main, /proc/PID shows no memory, no files and no namespaces any more, and the folder
// of each other thread does: threads share them. It also tells paths in a folder as the process sees them.
package proc
