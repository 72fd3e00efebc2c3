// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	idA   = "3f4c2e8b9d1a7065c4b3a2918f7e6d5c4b3a29180f1e2d3c4b5a69788796a5b4"
	idB   = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
	uid   = "2c48913c-b29f-11e7-9350-020968147796"
	uid_  = "2c48913c_b29f_11e7_9350_020968147796"
	hash  = "d1ffa8e2b1c4405f9ab05bd3f1a3c9de"
	lines = "12:pids:/user.slice\n11:cpuset:/\n"
)

func TestParseCgroup(t *testing.T) {
	tests := []struct{ name, cgroup, container, pod string }{
		{"no container, v2", "0::/user.slice/user-1000.slice/session-3.scope", "", ""},
		{"root, v2", "0::/", "", ""},
		{"service, v2", "0::/system.slice/nginx.service", "", ""},
		{"service, v1", lines + "1:name=systemd:/system.slice/nginx.service\n0::/system.slice/nginx.service", "", ""},
		{"docker cgroupfs, v1", "9:perf_event:/docker/" + idA + "\n1:name=systemd:/docker/" + idA, idA, ""},
		{"docker cgroupfs, v2", "0::/docker/" + idA, idA, ""},
		{"docker systemd, v1", "4:memory:/system.slice/docker-" + idA + ".scope", idA, ""},
		{"docker systemd, v2", "0::/system.slice/docker-" + idA + ".scope", idA, ""},
		{"docker rootless", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + idA + ".scope", idA, ""},
		{"docker, own slice", "0::/limited.slice/docker-" + idA + ".scope", idA, ""},
		{"systemd in docker", "0::/system.slice/docker-" + idA + ".scope/init.scope", idA, ""},
		{"service in docker", "0::/docker/" + idA + "/system.slice/cron.service", idA, ""},
		{"docker in docker", "0::/docker/" + idA + "/docker/" + idB, idB, ""},
		{"hybrid: v2 line says nothing", lines + "3:memory:/docker/" + idA + "\n1:name=systemd:/docker/" + idA + "\n0::/", idA, ""},
		{"hybrid: only the v2 line says it", lines + "0::/system.slice/docker-" + idA + ".scope", idA, ""},
		{"kubernetes, dockershim cgroupfs", "11:cpu,cpuacct:/kubepods/burstable/pod" + uid + "/" + idA, idA, uid},
		{"kubernetes, dockershim systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/docker-" + idA + ".scope", idA, uid},
		{"containerd cgroupfs, v1", "5:cpuset:/kubepods/besteffort/pod" + uid + "/" + idA, idA, uid},
		{"containerd cgroupfs, v2", "0::/kubepods/besteffort/pod" + uid + "/" + idA, idA, uid},
		{"containerd guaranteed", "0::/kubepods/pod" + uid + "/" + idA, idA, uid},
		{"containerd systemd", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uid_ + ".slice/cri-containerd-" + idA + ".scope", idA, uid},
		{"containerd systemd guaranteed", "0::/kubepods.slice/kubepods-pod" + uid_ + ".slice/cri-containerd-" + idA + ".scope", idA, uid},
		{"containerd, slice with colons", "1:name=systemd:/system.slice/containerd.service/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + idA, idA, uid},
		{"containerd, kubelet slice with colons", "0::/kubelet-kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + idA, idA, uid},
		{"containerd alone", "0::/default/" + idA, idA, ""},
		{"nerdctl", "0::/system.slice/nerdctl-" + idA + ".scope", idA, ""},
		{"CRI-O systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/crio-" + idA + ".scope", idA, uid},
		{"CRI-O, container subgroup", "0::/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + idA + ".scope/container", idA, uid},
		{"CRI-O cgroupfs", "7:memory:/kubepods/burstable/pod" + uid + "/crio-" + idA, idA, uid},
		{"CRI-O's monitor", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/crio-conmon-" + idA + ".scope", "", uid},
		{"podman", "0::/machine.slice/libpod-" + idA + ".scope", idA, ""},
		{"podman, container subgroup", "0::/machine.slice/libpod-" + idA + ".scope/container", idA, ""},
		{"podman's monitor", "0::/machine.slice/libpod-conmon-" + idA + ".scope", "", ""},
		{"podman rootless", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + idA + ".scope/container", idA, ""},
		{"podman cgroupfs", "8:pids:/libpod_parent/libpod-" + idA, idA, ""},
		{"podman pod", "0::/machine.slice/machine-libpod_pod_" + idB + ".slice/libpod-" + idA + ".scope", idA, ""},
		{"podman split", "0::/system.slice/web.service/libpod-payload-" + idA, idA, ""},
		{"static pod", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + idA + ".scope", idA, hash},
		{"static pod, cgroupfs", "3:cpu:/kubepods/burstable/pod" + hash + "/" + idA, idA, hash},
		{"kind", "0::/docker/" + idB + "/kubelet/kubepods/besteffort/pod" + uid + "/" + idA, idA, uid},
		{"kind systemd", "0::/system.slice/docker-" + idB + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + idA + ".scope", idA, uid},
		{"kind, v1", "11:devices:/docker/" + idB + "/docker/" + idB + "/kubelet/kubepods/pod" + uid + "/" + idA + "\n0::/docker/" + idB, idA, uid},
		{"kind's kubelet", "0::/docker/" + idB + "/kubelet.slice/kubelet.service", idB, ""},
		{"pod's own cgroup on a kind node", "0::/docker/" + idB + "/kubelet/kubepods/pod" + uid, "", uid},
		{"docker in a pod", "0::/kubepods/burstable/pod" + uid + "/" + idB + "/docker/" + idA, idA, uid},
		{"seen from another cgroup namespace", "0::/../../pod" + uid + "/" + idA, idA, uid},
		{"seen from a sibling", "0::/../cri-containerd-" + idA + ".scope", idA, ""},
		{"deleted", "0::/system.slice/docker-" + idA + ".scope (deleted)", idA, ""},
		{"ECS on EC2", "9:memory:/ecs/0b1c2d3e4f5a40b1a2c3d4e5f6a7b8c9/" + idA, idA, ""},
		{"ECS on Fargate", "9:memory:/ecs/0b1c2d3e4f5a40b1a2c3d4e5f6a7b8c9/0b1c2d3e4f5a40b1a2c3d4e5f6a7b8c9-2531612879", "", ""},
		{"LXC", "0::/lxc.payload.web/system.slice/nginx.service", "", ""},
		{"docker in LXC", "0::/lxc/web/docker/" + idA, idA, ""},
		{"Garden", "9:memory:/garden/5cf8a2d3-4d1e-4c2b-7a6f-1b2c", "", ""},
		{"short id", "0::/docker/3f4c2e8b9d1a", "", ""},
		{"long id", "0::/docker/" + idA + "0", "", ""},
		{"upper case is no id", "0::/docker/" + strings.ToUpper(idA), "", ""},
		{"id within a name", "0::/system.slice/x" + idA + ".service", "", ""},
		{"pod in a name", "0::/kubepods/burstable/podinfo/" + idA, idA, ""},
		{"pod with a broken UID", "0::/kubepods/pod2c48913c-b29f-11e7-9350/" + idA, idA, ""},
		{"not a cgroup file", "hello\n:\n::", "", ""},
		{"empty", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			container, pod := parseCgroup(tt.cgroup + "\n")
			require.Equal(t, tt.container, container)
			require.Equal(t, tt.pod, pod)
		})
	}
}

// TestEveryRuntime checks each runtime with both cgroup drivers in the three ways in which a host mounts cgroups.
func TestEveryRuntime(t *testing.T) {
	const pod, slice = "/kubepods/burstable/pod" + uid, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice"
	for runtime, paths := range map[string]struct{ cgroupfs, systemd, pod string }{
		"docker":                 {"/docker/" + idA, "/system.slice/docker-" + idA + ".scope", ""},
		"docker, Kubernetes":     {pod + "/" + idA, slice + "/docker-" + idA + ".scope", uid},
		"containerd":             {"/default/" + idA, "/system.slice/nerdctl-" + idA + ".scope", ""},
		"containerd, Kubernetes": {pod + "/" + idA, slice + "/cri-containerd-" + idA + ".scope", uid},
		"CRI-O":                  {pod + "/crio-" + idA, slice + "/crio-" + idA + ".scope", uid},
		"podman":                 {"/libpod_parent/libpod-" + idA, "/machine.slice/libpod-" + idA + ".scope", ""},
		"podman, subgroup":       {"/libpod_parent/libpod-" + idA + "/container", "/machine.slice/libpod-" + idA + ".scope/container", ""},
	} {
		for driver, path := range map[string]string{"cgroupfs": paths.cgroupfs, "systemd": paths.systemd} {
			controllers := "12:pids:" + path + "\n11:cpuset:" + path + "\n10:cpu,cpuacct:" + path + "\n1:name=systemd:" + path + "\n"
			for mount, cgroup := range map[string]string{
				"v1":                        controllers,
				"v2":                        "0::" + path + "\n",
				"hybrid":                    controllers + "0::" + path + "\n",
				"hybrid, v2 for systemd":    controllers + "0::/system.slice/containerd.service\n",
				"hybrid, some controllers":  lines + "4:memory:" + path + "\n0::/\n",
				"hybrid, controllers in v2": lines + "0::" + path + "\n",
			} {
				t.Run(runtime+" "+driver+" "+mount, func(t *testing.T) {
					container, pod := parseCgroup(cgroup)
					require.Equal(t, idA, container)
					require.Equal(t, paths.pod, pod)
				})
			}
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/kubepods/burstable/pod" + uid + "/" + idA)
	f.Add("0::/kubelet-kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + idA)
	f.Add("1:name=systemd:/../..//:pod:-pod.slice (deleted)")
	f.Fuzz(func(t *testing.T, data string) {
		container, pod := parseCgroup(data)
		if container != "" {
			require.Len(t, container, containerDigits)
			require.True(t, isHex(container))
		}
		if pod != "" {
			require.True(t, isPodUID(pod) || isStaticPodUID(pod), pod)
		}
	})
}
