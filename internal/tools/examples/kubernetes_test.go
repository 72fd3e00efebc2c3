// SPDX-License-Identifier: Apache-2.0

// Package examples tests the examples of the documentation against the types of the programs that read them.
package examples

import (
	"bytes"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

// objects are those of the Kubernetes example, decoded strictly: an unknown or repeated key is an error.
type objects struct {
	namespace corev1.Namespace
	account   corev1.ServiceAccount
	role      rbacv1.ClusterRole
	binding   rbacv1.ClusterRoleBinding
	config    corev1.ConfigMap
	daemons   appsv1.DaemonSet
}

func read(t *testing.T) (o objects) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/examples/kubernetes/otelcol-ebpf.yaml")
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{
		"Namespace": &o.namespace, "ServiceAccount": &o.account, "ClusterRole": &o.role, "ClusterRoleBinding": &o.binding,
		"ConfigMap": &o.config, "DaemonSet": &o.daemons,
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind struct{ Kind, APIVersion string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		object, ok := into[kind.Kind]
		if !ok {
			t.Fatalf("unexpected or repeated kind %q", kind.Kind)
		}
		delete(into, kind.Kind)
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	if len(into) > 0 {
		t.Errorf("missing: %v", into)
	}
	return o
}

// TestKubernetes holds that the manifest has known keys only, and that its parts name each other. internal/distribution/e2e starts its configuration.
func TestKubernetes(t *testing.T) {
	o := read(t)
	pod := o.daemons.Spec.Template.Spec
	c := pod.Containers[0]
	for what, equal := range map[string]bool{
		"account of the pod":      pod.ServiceAccountName == o.account.Name && o.binding.Subjects[0].Name == o.account.Name && o.binding.RoleRef.Name == o.role.Name,
		"namespaces":              o.account.Namespace == o.namespace.Name && o.config.Namespace == o.namespace.Name && o.daemons.Namespace == o.namespace.Name,
		"labels of the pods":      o.daemons.Spec.Selector.MatchLabels["app.kubernetes.io/name"] == o.daemons.Spec.Template.Labels["app.kubernetes.io/name"],
		"the host's processes":    pod.HostPID,
		"the host's network":      pod.HostNetwork && pod.DNSPolicy == corev1.DNSClusterFirstWithHostNet,
		"probe":                   strings.Contains(o.config.Data["config.yaml"], net.JoinHostPort(c.ReadinessProbe.HTTPGet.Host, c.ReadinessProbe.HTTPGet.Port.String())),
		"no liveness probe":       c.LivenessProbe == nil,
		"no further capabilities": slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"capabilities": slices.Equal(c.SecurityContext.Capabilities.Add, []corev1.Capability{
			"BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "SYSLOG", "CHECKPOINT_RESTORE", "NET_ADMIN",
		}),
	} {
		if !equal {
			t.Errorf("%s is not as it should be", what)
		}
	}
	for _, mount := range c.VolumeMounts {
		if !mount.ReadOnly || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			t.Errorf("the mount %s is not read-only, or has no volume", mount.Name)
		}
	}
}
