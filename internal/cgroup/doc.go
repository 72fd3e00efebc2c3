// SPDX-License-Identifier: Apache-2.0

// Package cgroup reads the limits that the control groups of this process set (cgroups(7)): of memory and of CPU time, in version 1 and 2. A limit of
// any parent counts, too, as far as it can be seen: within a container only the container's own part of the hierarchy is mounted.
package cgroup
