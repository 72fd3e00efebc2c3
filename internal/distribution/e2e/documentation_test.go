// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var (
	// yamlBlocks are the blocks of Markdown that hold YAML.
	yamlBlocks = regexp.MustCompile("(?ms)^```yaml\\n(.*?)^```$")
	// partOf is the comment with which a block begins that is no whole configuration; below is the key that it is the value of, if any.
	partOf = regexp.MustCompile(`^# Part of (a configuration|builder-config\.yaml|(?P<below>[a-z_]+(?:::[a-z_]+)+))[:,.;]?`)
)

// documented is a configuration in the documentation.
type documented struct {
	name string
	text string // YAML
	// file says that an exporter writes files, whose folder only their user may read.
	file bool
}

// TestDocumentedConfigurations has the distribution check every configuration of the documentation for which it has the components, and start them if
// it is the whole one: those that are whole as they are, but for the folder of files, and those that are marked as a part completed by what is missing.
func TestDocumentedConfigurations(t *testing.T) {
	if inGuest() {
		t.Skip("the documentation is not in the guest, and the same on every kernel")
	}
	var parts, whole int
	for _, c := range documentedConfigurations(t) {
		config := c.text
		switch mark := partOf.FindStringSubmatch(c.text); {
		case mark == nil:
			whole++
		case mark[1] == "builder-config.yaml":
			requireManifest(t, c)
			continue
		default:
			parts++
			config = complete(t, c, mark[partOf.SubexpIndex("below")])
		}
		if c.file {
			require.Contains(t, c.text, `directory_permissions: "0700"`, "%s: every user could read what the exporter writes", c.name)
		}
		if missing := missingComponents(t, config); len(missing) > 0 {
			require.False(t, all, "%s: components %q", c.name, missing)
			continue
		}
		dir := t.TempDir()
		config = strings.NewReplacer("/var/log/", dir+"/", "/var/lib/", dir+"/", "out/", dir+"/").Replace(config)
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.Command(binary(t, distribution), "validate", "--config", "yaml:"+config).CombinedOutput()
			require.NoError(t, err, "%s", out)
			if !all {
				return
			}
			needsRoot(t)
			collector := start(t, config)
			collector.stop(t)
			for line := range strings.Lines(collector.log.String()) { // exporters find no backend here
				require.False(t, strings.Contains(line, "\terror\t") && !strings.Contains(line, `"otelcol.component.kind": "exporter"`), line)
			}
		})
	}
	require.GreaterOrEqual(t, whole, 5, "whole configurations")
	require.GreaterOrEqual(t, parts, 6, "parts of configurations")
}

// missingComponents are what a configuration has and the distribution has not.
func missingComponents(t *testing.T, config string) (missing []string) {
	t.Helper()
	var sections map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(config), &sections))
	for name, has := range components {
		section, _ := sections[name].(map[string]any)
		for id := range section {
			kind, _, _ := strings.Cut(id, "/")
			if !slices.Contains(has, kind) {
				missing = append(missing, name+"::"+id)
			}
		}
	}
	return missing
}

// documentedConfigurations are all blocks of YAML in the documentation.
func documentedConfigurations(t *testing.T) (list []documented) {
	t.Helper()
	const root = "../../.."
	pages, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	nested, err := filepath.Glob(root + "/docs/*/*.md")
	require.NoError(t, err)
	for _, file := range append(append(pages, nested...), root+"/README.md") {
		text, err := os.ReadFile(filepath.Clean(file))
		require.NoError(t, err)
		for i, block := range yamlBlocks.FindAllStringSubmatch(string(text), -1) {
			list = append(list, documented{fmt.Sprintf("%s-%d", filepath.Base(file), i+1), block[1], strings.Contains(block[1], "\n  file:\n")})
		}
	}
	return list
}

// complete adds to a part of a configuration what it needs to start: the receiver, an exporter, pipelines and the extension that it names.
func complete(t *testing.T, c documented, below string) string {
	t.Helper()
	var given map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(c.text), &given), c.name)
	if below != "" {
		keys := strings.Split(below, "::")
		for i := len(keys) - 1; i >= 0; i-- {
			given = map[string]any{keys[i]: given}
		}
	}
	ebpf := section(section(given, "receivers"), "ebpf")
	exporters, service := section(given, "exporters"), section(given, "service")
	if ebpf["storage"] == "file_storage" {
		section(given, "extensions")["file_storage"] = map[string]any{"directory": t.TempDir()}
		service["extensions"] = []any{"file_storage"}
	}
	pipelines := section(service, "pipelines")
	for exporter, signal := range map[string]string{"prometheus": "metrics", "file": "profiles"} {
		if _, ok := exporters[exporter]; ok {
			pipelines[signal] = map[string]any{"receivers": []any{"ebpf"}, "exporters": []any{exporter}}
		}
	}
	if len(pipelines) == 0 {
		exporters["nop"] = map[string]any{}
		for _, signal := range []string{"profiles", "metrics", "logs", "traces"} {
			pipelines[signal] = map[string]any{"receivers": []any{"ebpf"}, "exporters": []any{"nop"}}
		}
	}
	completed, err := json.Marshal(given)
	require.NoError(t, err, c.name)
	return string(completed)
}

// section is the map below a key, which is made where there is none.
func section(of map[string]any, key string) map[string]any {
	below, ok := of[key].(map[string]any)
	if !ok {
		below = map[string]any{}
		of[key] = below
	}
	return below
}

// requireManifest holds that a part of a manifest of the Collector's builder names the module and the package of this repository.
func requireManifest(t *testing.T, c documented) {
	t.Helper()
	var manifest struct {
		Receivers []struct{ GoMod, Import, Name, Path string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(c.text), &manifest), c.name)
	require.Len(t, manifest.Receivers, 1, c.name)
	out, err := exec.Command("go", "list", "-m").Output()
	require.NoError(t, err)
	module := strings.TrimSpace(string(out))
	require.True(t, strings.HasPrefix(manifest.Receivers[0].GoMod, module+" v"), c.name)
	require.Equal(t, module+"/receiver", manifest.Receivers[0].Import, c.name)
}
