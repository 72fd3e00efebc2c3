// SPDX-License-Identifier: Apache-2.0

package aptkernel

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const deb822 = `Types: deb
# a comment
URIs: http://mirror.example.org/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security
Components: main contrib

Enabled: no
Types: deb
URIs: http://other.example.org/debian
Suites: sid
Components: main
`

func TestParseSources(t *testing.T) {
	for name, c := range map[string]struct {
		got  []Source
		want []Source
	}{
		"deb822": {ParseDeb822(deb822), []Source{
			{[]string{"http://mirror.example.org/debian"}, []string{"bookworm", "bookworm-updates"}, []string{"main"}},
			{[]string{"http://mirror.example.org/debian-security"}, []string{"bookworm-security"}, []string{"main", "contrib"}},
		}},
		"one line": {ParseSources("deb [arch=amd64 signed-by=/k.gpg] http://m.example.org/debian trixie main # x\ndeb-src http://m.example.org trixie main\n#deb http://n sid main\n"),
			[]Source{{[]string{"http://m.example.org/debian"}, []string{"trixie"}, []string{"main"}}}},
		"broken": {ParseSources("deb ] http://x [ a main\ndeb http://x\n\n"), nil},
		"empty":  {ParseDeb822("\n\n :\n x\n"), nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.got) })
	}
}

func TestMirrors(t *testing.T) {
	archive, security := Mirrors(append(
		[]Source{
			{[]string{"http://vendor.example.org"}, []string{"nodistro"}, []string{"main"}},
			{nil, []string{"sid"}, []string{"main"}},
			{[]string{"http://nonfree.example.org"}, []string{"sid"}, []string{"non-free"}},
		}, ParseDeb822(deb822)...))
	require.Equal(t, "http://mirror.example.org/debian", archive)
	require.Equal(t, "http://mirror.example.org/debian-security", security)

	archive, security = Mirrors(ParseSources("deb http://ubuntu.example.org noble main"))
	require.Empty(t, archive)
	require.Empty(t, security)
}

func TestCandidates(t *testing.T) {
	packages := []string{
		"linux-image-5.10.0-9-cloud-amd64", "linux-image-5.10.0-46-cloud-amd64", "linux-image-5.10.0-46-cloud-amd64-unsigned",
		"linux-image-6.1.0-0.deb11.52-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1-cloud-amd64",
		"linux-image-6.12.94+deb13-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64-dbg",
		"linux-image-7.2.13+deb14-cloud-amd64", "linux-binary-7.2.9+deb14-cloud-amd64", "linux-binary-7.2.13+deb14-cloud-amd64",
		"linux-binary-7.3.1+deb14-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64",
	}
	want := map[string][]string{
		"5.10": {"linux-image-5.10.0-46-cloud-amd64", "linux-image-5.10.0-9-cloud-amd64"},
		"6.1":  {"linux-image-6.1.0-56-cloud-amd64"},
		"6.12": {"linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.12.94+deb13-cloud-amd64"},
		"7.2":  {"linux-binary-7.2.13+deb14-cloud-amd64", "linux-binary-7.2.9+deb14-cloud-amd64"},
	}
	for _, k := range Kernels {
		require.Equal(t, want[k.Name], k.Candidates(packages), k.Name)
	}
	require.Equal(t, []string{"linux-binary-7.3.1+deb14-cloud-amd64"}, Kernels[3].Candidates(packages[12:13]))
	require.Empty(t, Kernels[0].Candidates(nil))
}

// TestFetchFromStore checks that a kernel that is there is used without any download.
func TestFetchFromStore(t *testing.T) {
	s := &Store{Dir: t.TempDir(), Log: t.Logf}
	k := Kernels[1]
	folder := filepath.Join(s.Dir, "linux-image-6.1.0-56-cloud-amd64")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "modules"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "vmlinuz"), nil, 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(s.Dir, "linux-image-6.1.0-57-cloud-amd64"), 0o755)) // half unpacked

	img, ok := s.newestStored(k)
	require.True(t, ok)
	require.Equal(t, Image{Kernel: k, Package: "linux-image-6.1.0-56-cloud-amd64", Path: filepath.Join(folder, "vmlinuz"), Modules: filepath.Join(folder, "modules")}, img)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cancel() // no command can run
	img, err := s.Fetch(ctx, k)
	require.NoError(t, err)
	require.Equal(t, "linux-image-6.1.0-56-cloud-amd64", img.Package)

	_, err = s.Fetch(ctx, Kernels[0])
	require.ErrorContains(t, err, "looking for kernel 5.10")
}

// TestKeep checks that a kernel is found where old and new packages have it, and that others are refused.
func TestKeep(t *testing.T) {
	s := &Store{Dir: t.TempDir(), Log: t.Logf}
	for name, file := range map[string]string{
		"old": "boot/vmlinuz-6.1.0-56-cloud-amd64",
		"new": "usr/lib/modules/7.2.13+deb14-cloud-amd64/vmlinuz",
	} {
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(name), 0o644))
		addModules(t, root)
		require.NoError(t, s.keep(root, name))
		img, err := s.stored(Kernels[0], name)
		require.NoError(t, err)
		text, err := os.ReadFile(img.Path)
		require.NoError(t, err)
		require.Equal(t, name, string(text))
	}
	require.ErrorContains(t, s.keep(t.TempDir(), "empty"), "0 files instead of one")
	require.NoDirExists(t, s.folder("empty"))
}

func TestSourcesList(t *testing.T) {
	text := sourcesList("http://m.example.org/debian", "", "/k.gpg")
	require.Len(t, ParseSources(text), len(archiveSuites))
	require.Contains(t, text, "deb [target=Packages signed-by=/k.gpg] http://m.example.org/debian sid main\n")
	text = sourcesList("http://m.example.org/debian", "http://s.example.org", "")
	require.Contains(t, text, "deb [target=Packages] http://s.example.org bullseye-security main\n")
}

func FuzzParseSources(f *testing.F) {
	f.Add(deb822)
	f.Add("deb [a=b] http://m.example.org sid main\ndeb [")
	f.Fuzz(func(t *testing.T, text string) {
		Mirrors(ParseSources(text))
		Mirrors(ParseDeb822(text))
		for _, s := range ParseSources(text) {
			require.Len(t, s.URIs, 1)
			require.NotEmpty(t, s.Components)
		}
	})
}
