// SPDX-License-Identifier: Apache-2.0

package aptkernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keyrings of Debian's archive, where the package debian-archive-keyring puts them; apt's own trusted keys else.
var keyrings = []string{
	"/usr/share/keyrings/debian-archive-keyring.pgp",
	"/usr/share/keyrings/debian-archive-keyring.gpg",
}

func (s *Store) aptDir() string     { return filepath.Join(s.Dir, "apt") }
func (s *Store) configFile() string { return filepath.Join(s.aptDir(), "apt.conf") }

// packages returns the names of all packages that the suites offer, from indexes that are fresh.
func (s *Store) packages(ctx context.Context) ([]string, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	out, err := s.output(ctx, s.Dir, "apt-cache", "pkgnames", "linux-")
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}

// refresh sets apt's private state up and downloads the indexes unless that was done lately.
func (s *Store) refresh(ctx context.Context) error {
	archive, security := Mirrors(machineSources())
	if archive == "" {
		return errors.New("reading /etc/apt/sources.list and sources.list.d: no Debian mirror with the component main in them")
	}
	// Written each time: it names this folder, which may have been moved or copied.
	if err := s.configure(archive, security); err != nil {
		return fmt.Errorf("setting up a private apt in %s: %w", s.aptDir(), err)
	}
	stamp := filepath.Join(s.aptDir(), "updated")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < indexAge {
		return nil
	}
	s.Log("kernels: downloading the indexes of %s", strings.Join(append(archiveSuites, securitySuites...), ", "))
	if err := s.run(ctx, s.Dir, "apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"); err != nil {
		return err
	}
	return os.WriteFile(stamp, nil, 0o644)
}

// configure writes the files that make apt work on private directories only.
func (s *Store) configure(archive, security string) error {
	for _, d := range []string{"lists/partial", "cache/archives/partial", "sources.list.d"} {
		if err := os.MkdirAll(filepath.Join(s.aptDir(), d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"status":       "", // nothing is installed as far as this apt knows
		"sources.list": sourcesList(archive, security, keyring()),
		"apt.conf":     aptConf(s.aptDir(), s.Arch),
	} {
		if err := os.WriteFile(filepath.Join(s.aptDir(), name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sourcesList returns a list of sources for the suites of the kernels; of the indexes only the packages' are wanted.
func sourcesList(archive, security, keyring string) string {
	options := "[target=Packages]"
	if keyring != "" {
		options = "[target=Packages signed-by=" + keyring + "]"
	}
	var b strings.Builder
	for _, suite := range archiveSuites {
		fmt.Fprintf(&b, "deb %s %s %s main\n", options, archive, suite)
	}
	for _, suite := range securitySuites {
		if security != "" {
			fmt.Fprintf(&b, "deb %s %s %s main\n", options, security, suite)
		}
	}
	return b.String()
}

// aptConf returns a configuration in which nothing points to the machine's own state. Proxies of the machine stay.
func aptConf(dir, arch string) string {
	return fmt.Sprintf(`Dir::State %[1]q;
Dir::State::lists "lists";
Dir::State::status %[2]q;
Dir::Cache %[3]q;
Dir::Etc::sourcelist %[4]q;
Dir::Etc::sourceparts %[5]q;
Acquire::Languages "none";
APT::Architecture %[6]q;
APT::Architectures %[6]q;
APT::Sandbox::User "";
`, dir, filepath.Join(dir, "status"), filepath.Join(dir, "cache"), filepath.Join(dir, "sources.list"), filepath.Join(dir, "sources.list.d"), arch)
}

func keyring() string {
	for _, k := range keyrings {
		if _, err := os.Stat(k); err == nil {
			return k
		}
	}
	return ""
}

// machineSources reads what this machine's apt is set up for; files that cannot be read count as absent.
func machineSources() []Source {
	var all []Source
	lists, _ := filepath.Glob("/etc/apt/sources.list.d/*.list") // the pattern is well-formed
	for _, path := range append([]string{"/etc/apt/sources.list"}, lists...) {
		if text, err := os.ReadFile(path); err == nil {
			all = append(all, ParseSources(string(text))...)
		}
	}
	stanzas, _ := filepath.Glob("/etc/apt/sources.list.d/*.sources") // the pattern is well-formed
	for _, path := range stanzas {
		if text, err := os.ReadFile(path); err == nil {
			all = append(all, ParseDeb822(string(text))...)
		}
	}
	return all
}
