// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// TestImage writes an image for two platforms and reads it back as an engine does.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := func(out string) []string {
		return []string{
			"-out", out, "-name", "localhost/x:1", "-version", "1", "-config", write("config.yaml", "receivers:\n"),
			"linux/amd64=" + write("amd64", "one"), "linux/arm64=" + write("arm64", "other"),
		}
	}
	first, second := filepath.Join(dir, "first.tar"), filepath.Join(dir, "second.tar")
	for _, out := range []string{first, second} {
		if err := run(args(out)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(contents(t, first), contents(t, second)) {
		t.Error("equal inputs made different archives")
	}
	index, name := open(t, first)
	if name != "localhost/x:1" {
		t.Errorf("name %q", name)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ architecture, program string }{{"amd64", "one"}, {"arm64", "other"}} {
		if got := manifest.Manifests[i].Platform.Architecture; got != want.architecture {
			t.Errorf("platform %q, want %q", got, want.architecture)
		}
		requireImage(t, index, manifest.Manifests[i].Digest, want.architecture, map[string]string{
			"otelcol-ebpf": want.program, "etc/otelcol-ebpf/config.yaml": "receivers:\n",
		})
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// open unpacks an archive and returns its image and the name of it.
func open(t *testing.T, archive string) (v1.ImageIndex, string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", archive).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v: %+v", err, manifest)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0].Annotations[nameAnnotation]
}

// requireImage holds what an image starts and that it has these files alone, readable by every user.
func requireImage(t *testing.T, index v1.ImageIndex, digest v1.Hash, architecture string, want map[string]string) {
	t.Helper()
	img, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != architecture || !slices.Equal(config.Config.Entrypoint, []string{"/otelcol-ebpf"}) ||
		!slices.Equal(config.Config.Cmd, []string{"--config", "/etc/otelcol-ebpf/config.yaml"}) || !slices.Contains(config.Config.Env, "ROOT_PATH=/host") {
		t.Errorf("configuration %+v", config)
	}
	files := mutate.Extract(img)
	defer func() { _ = files.Close() }()
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		name := strings.TrimPrefix(header.Name, "/")
		text, err := io.ReadAll(r)
		if err != nil || string(text) != want[name] || header.Mode&0o444 != 0o444 || header.Uid != 0 || (name == "otelcol-ebpf") != (header.Mode&0o111 == 0o111) {
			t.Errorf("%s: %q %v %+v", name, text, err, header)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
