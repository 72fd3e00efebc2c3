// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	root = "../.."
	// quick is the folder of the quick-start distribution's committed main.
	quick = root + "/cmd/otelcol-ebpf-quick"
	hint  = "run make generate and commit the result"
)

// module is a component of a manifest.
type module struct{ GoMod, Import, Name string }

// manifest has what a distribution is made of, by section.
type manifest map[string][]module

func readManifest(t *testing.T, name string) manifest {
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	var all map[string]yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &all))
	delete(all, "dist")
	out := manifest{}
	for section, node := range all {
		var list []module
		require.NoError(t, node.Decode(&list), section)
		out[section] = list
	}
	return out
}

// requirements are the modules of a go.mod with their versions.
func requirements(t *testing.T, path string) map[string]string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	out := map[string]string{}
	for l := range strings.Lines(string(text)) {
		if f := strings.Fields(l); len(f) >= 2 && strings.HasPrefix(f[1], "v") && f[0] != "replace" {
			out[f[0]] = f[1]
		}
	}
	return out
}

// TestQuickIsPartOfTheWhole checks that a configuration which runs with the quick-start distribution runs with the whole one.
func TestQuickIsPartOfTheWhole(t *testing.T) {
	whole := readManifest(t, "builder-config.yaml")
	for section, modules := range readManifest(t, "builder-config-quick.yaml") {
		for _, m := range modules {
			require.Contains(t, whole[section], m, section)
		}
	}
}

// TestQuickMain checks that the committed main has the manifest's components; check-generate compares it with what the
// builder writes.
func TestQuickMain(t *testing.T) {
	var code strings.Builder
	for _, name := range []string{"main.go", "components.go"} {
		text, err := os.ReadFile(filepath.Join(quick, name))
		require.NoError(t, err)
		code.Write(text)
	}
	versions := requirements(t, filepath.Join(quick, "go.mod"))
	want := map[string]bool{}
	for _, modules := range readManifest(t, "builder-config-quick.yaml") {
		for _, m := range modules {
			path, version, _ := strings.Cut(m.GoMod, " ")
			require.Equal(t, version, versions[path], "%s in %s/go.mod: %s", path, quick, hint)
			if m.Import == "" {
				m.Import = path
			}
			require.Contains(t, code.String(), `"`+m.Import+`"`, hint)
			want[m.Import] = true
		}
	}
	for l := range strings.Lines(code.String()) {
		if name, path, ok := strings.Cut(strings.TrimSpace(l), ` "`); ok && strings.HasSuffix(path, `"`) && !strings.ContainsAny(name, " :(,") {
			path = strings.TrimSuffix(path, `"`)
			require.True(t, want[path] || path == "go.opentelemetry.io/collector/service/telemetry/otelconftelemetry", "%s is not in the manifest: %s", path, hint)
		}
	}
}

// TestNoModuleInTwoVersions checks that the quick-start distribution is built of the modules that the receiver's own tests
// and programs are built of: otherwise they are downloaded and compiled twice, and go.mod of the quick-start one is out of date.
func TestNoModuleInTwoVersions(t *testing.T) {
	own, of := requirements(t, filepath.Join(root, "go.mod")), requirements(t, filepath.Join(quick, "go.mod"))
	shared := 0
	for _, path := range slices.Sorted(maps.Keys(own)) {
		if version, ok := of[path]; ok {
			shared++
			require.Equal(t, own[path], version, "%s: %s, or take this version in go.mod", path, hint)
		}
	}
	require.Greater(t, shared, 30)
}

// TestQuickIsComplete checks that the programs of `make run` need nothing that the committed go.mod and go.sum lack.
func TestQuickIsComplete(t *testing.T) {
	const programs = "github.com/otelcol-ebpf/ebpfreceiver/internal/"
	list := exec.Command("go", "list", "-C", quick, "-mod=readonly", "-deps", ".", programs+"cmd/ebpf-top", programs+"demo", programs+"demo/trigger")
	list.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	text, err := list.CombinedOutput()
	require.NoError(t, err, "%s: %s", text, hint)
	for _, heavy := range []string{"k8s.io/client-go/kubernetes", "github.com/prometheus/prometheus/discovery/kubernetes"} {
		require.NotContains(t, string(text), heavy, "compiling it takes longer than all that the quick-start distribution needs")
	}
}
