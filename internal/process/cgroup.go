// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
)

// podUIDGroups are the lengths of the groups of a pod UID in its dashed form.
var podUIDGroups = [...]int{8, 4, 4, 4, 12}

// parseCgroup finds the container and the pod in /proc/PID/cgroup, whose lines are HIERARCHY:CONTROLLERS:PATH (cgroups(7)). Version 1 has
// many lines, and some of them may not name the container: the first of the most specific lines counts. The container id is 64 hexadecimal
// digits or empty: the shorter ids of Garden, LXC and ECS on Fargate are not reported. The pod UID is dashed, except for a static pod, whose
// UID is the 32 digits of its file's hash.
func parseCgroup(data string) (container, pod string) {
	for line := range strings.SplitSeq(data, "\n") {
		_, rest, _ := strings.Cut(line, ":")
		_, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		c, p := parseCgroupPath(strings.TrimSuffix(path, " (deleted)"))
		if specificity(c, p) > specificity(container, pod) {
			container, pod = c, p
		}
	}
	return container, pod
}

// specificity ranks what a line names: a container counts more than a pod.
func specificity(container, pod string) int {
	rank := 0
	if container != "" {
		rank += 2
	}
	if pod != "" {
		rank++
	}
	return rank
}

// parseCgroupPath scans the path from the innermost element outwards. Elements are separated by slashes or, where containerd does not know
// systemd's notation (SLICE:PREFIX:ID), by colons. A container that is further out than a pod is the node that the pod runs on (kind,
// minikube), not the pod's container.
func parseCgroupPath(path string) (container, pod string) {
	for path != "" {
		i := strings.LastIndexAny(path, "/:")
		element := path[i+1:]
		path = path[:max(i, 0)]
		if container == "" {
			container = containerOf(element)
		}
		if pod = podOf(element); pod != "" {
			return container, pod
		}
	}
	return container, ""
}

// containerOf extracts a container id from one element: ID, RUNTIME-ID or RUNTIME-ID.scope. The monitors of CRI-O and Podman (crio-conmon-ID)
// are not in the container.
func containerOf(element string) string {
	element = strings.TrimSuffix(element, ".scope")
	start := len(element) - containerDigits
	if start < 0 || !isHex(element[start:]) {
		return ""
	}
	runtime := element[:start]
	if runtime != "" && !strings.HasSuffix(runtime, "-") || strings.HasSuffix(runtime, "conmon-") {
		return ""
	}
	return element[start:]
}

// podOf extracts a pod UID from one element: podUID (cgroupfs driver) or …-podUID.slice with underscores for dashes (systemd driver).
func podOf(element string) string {
	uid := strings.TrimSuffix(element, ".slice")
	if i := strings.LastIndex(uid, "-pod"); i >= 0 {
		uid = uid[i+1:]
	}
	uid, ok := strings.CutPrefix(uid, "pod")
	if !ok {
		return ""
	}
	uid = strings.ReplaceAll(uid, "_", "-")
	if isStaticPodUID(uid) || isPodUID(uid) {
		return uid
	}
	return ""
}

func isStaticPodUID(uid string) bool { return len(uid) == 32 && isHex(uid) }

func isPodUID(uid string) bool {
	for i, length := range podUIDGroups {
		group, rest, more := strings.Cut(uid, "-")
		if len(group) != length || !isHex(group) || more != (i < len(podUIDGroups)-1) {
			return false
		}
		uid = rest
	}
	return true
}
