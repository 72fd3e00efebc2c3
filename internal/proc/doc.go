// SPDX-License-Identifier: Apache-2.0

// Package proc finds the folder of proc(5) that shows a process. That is /proc/PID as long as the main thread runs. When it has exited and
// others run on, as after pthread_exit(3) in main, /proc/PID shows no memory, no files and no namespaces any more. The folder of each other
// thread does, since threads share them. The package also converts paths in a folder to what the process sees,
// and reads the host's load average and pressure stall information.
package proc
