// SPDX-License-Identifier: Apache-2.0

//go:build e2e && full && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// TestKubernetesExample starts the configuration of the DaemonSet with a process in the control group of a container and an API server that knows its
// pod: profiles and metrics have the pod's name.
func TestKubernetesExample(t *testing.T) {
	needsRoot(t)
	config := configOfDaemonSet(t)
	for _, id := range []string{"k8s.pod.uid", "container.id"} {
		require.Contains(t, config, "name: "+id+"}", "association")
	}
	const uid = "0f8c9a52-6d1b-4b1e-9a55-3d1f0f4c7e21"
	container := strings.Repeat("5ac1de90", 8)
	work(t, "kubepods/burstable/pod"+uid+"/"+container)

	backend := newBackend(t)
	api := httptest.NewTLSServer(apiServer(uid, container))
	t.Cleanup(api.Close)
	host, port, err := net.SplitHostPort(api.Listener.Addr().String())
	require.NoError(t, err)
	health := freeport.Endpoint(t)
	for key, value := range map[string]string{
		"OTLP_ENDPOINT": backend.endpoint, "NODE_NAME": "node", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port,
	} {
		t.Setenv(key, value)
	}
	// There is neither a service account nor a mount of the host here.
	config = strings.NewReplacer("auth_type: serviceAccount", "auth_type: none", "root_path: /host", "root_path: /", "127.0.0.1:13133", health).Replace(config)
	collector := start(t, config)
	requireHealthy(t, health)
	for _, signal := range []string{"profiles", "metrics"} {
		line := backend.await(t, signal, container, `"shop-7d4b9"`)
		require.Contains(t, line, uid, signal)
		require.Contains(t, line, `"market"`, "%s: namespace", signal)
	}
	collector.stop(t)
}

// configOfDaemonSet is the Collector's configuration in the ConfigMap.
func configOfDaemonSet(t *testing.T) string {
	t.Helper()
	file, err := os.Open(examples + "kubernetes/otelcol-ebpf.yaml")
	require.NoError(t, err)
	defer file.Close()
	for decoder := yaml.NewDecoder(file); ; {
		var object struct {
			Kind string
			Data map[string]string
		}
		require.NoError(t, decoder.Decode(&object), "no ConfigMap")
		if object.Kind == "ConfigMap" {
			return object.Data["config.yaml"]
		}
	}
}

// work runs a process in a control group that uses the CPU and a connection.
func work(t *testing.T, group string) {
	t.Helper()
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/unified/cgroup.procs"); err == nil {
		root += "/unified"
	}
	path := filepath.Join(root, group)
	require.NoError(t, os.MkdirAll(path, 0o755))
	t.Cleanup(func() {
		for dir := path; dir != root; dir = filepath.Dir(dir) {
			_ = os.Remove(dir)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			_ = c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	script := fmt.Sprintf(`echo $$ >%s/cgroup.procs; while exec 3<>/dev/tcp/127.0.0.1/%d; do read -r line <&3; exec 3>&-; i=0; while ((i++ < 20000)); do :; done; done`, path, port)
	cmd := exec.Command("bash", "-c", script)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// apiServer knows one pod. Watches have nothing to report.
func apiServer(uid, container string) http.Handler {
	pod := map[string]any{
		"metadata": map[string]any{"name": "shop-7d4b9", "namespace": "market", "uid": uid},
		"spec":     map[string]any{"nodeName": "node", "containers": []any{map[string]any{"name": "shop"}}},
		"status": map[string]any{
			"podIP": "192.0.2.7", "phase": "Running",
			"containerStatuses": []any{map[string]any{"name": "shop", "containerID": "containerd://" + container}},
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			if r.URL.Query().Get("sendInitialEvents") != "" {
				http.Error(w, "not supported", http.StatusUnprocessableEntity)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		list := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}}
		switch {
		case strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList"):
			list["kind"], list["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
		case strings.HasSuffix(r.URL.Path, "/pods"):
			list["kind"], list["items"] = "PodList", []any{pod}
		case strings.HasSuffix(r.URL.Path, "/namespaces"):
			list["kind"] = "NamespaceList"
		case strings.HasSuffix(r.URL.Path, "/replicasets"):
			list["kind"], list["apiVersion"] = "ReplicaSetList", "apps/v1"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
}
