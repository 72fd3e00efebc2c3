// SPDX-License-Identifier: Apache-2.0

package aptkernel

import (
	"slices"
	"strings"
)

// Source is one entry of apt's configuration: packages of some suites at some mirrors.
type Source struct {
	URIs       []string
	Suites     []string
	Components []string
}

// ParseSources reads the text of a file of apt's sources in the one-line format (sources.list(5)).
// Lines that are not of type deb, and broken ones, yield nothing.
func ParseSources(text string) []Source {
	var all []Source
	for line := range strings.SplitSeq(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if options := strings.Index(line, "["); options >= 0 {
			end := strings.Index(line, "]")
			if end < options {
				continue
			}
			line = line[:options] + line[end+1:]
		}
		if f := strings.Fields(line); len(f) >= 4 && f[0] == "deb" {
			all = append(all, Source{URIs: f[1:2], Suites: f[2:3], Components: f[3:]})
		}
	}
	return all
}

// ParseDeb822 reads the text of a file of apt's sources in the deb822 format: stanzas of "Key: values", parted by empty
// lines, values going on in indented lines. Disabled stanzas and those without type deb yield nothing.
func ParseDeb822(text string) []Source {
	var all []Source
	fields := map[string][]string{}
	key := ""
	flush := func() {
		enabled := len(fields["enabled"]) == 0 || fields["enabled"][0] != "no"
		if enabled && slices.Contains(fields["types"], "deb") {
			all = append(all, Source{URIs: fields["uris"], Suites: fields["suites"], Components: fields["components"]})
		}
		fields, key = map[string][]string{}, ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			flush()
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			fields[key] = append(fields[key], strings.Fields(line)...)
		default:
			name, value, _ := strings.Cut(line, ":")
			key = strings.ToLower(name)
			fields[key] = append(fields[key], strings.Fields(value)...)
		}
	}
	flush()
	return all
}

// Mirrors picks from a machine's sources where Debian's archive and its security archive are served; empty where none is.
func Mirrors(sources []Source) (archive, security string) {
	for _, s := range sources {
		if len(s.URIs) == 0 || !slices.Contains(s.Components, "main") {
			continue
		}
		for _, suite := range s.Suites {
			name, rest, _ := strings.Cut(suite, "-")
			switch {
			case !debianSuites[name]:
			case rest == "" && archive == "":
				archive = s.URIs[0]
			case rest == "security" && security == "":
				security = s.URIs[0]
			}
		}
	}
	return archive, security
}

var debianSuites = map[string]bool{
	"bullseye": true, "bookworm": true, "trixie": true, "forky": true, "sid": true,
	"oldstable": true, "stable": true, "testing": true, "unstable": true,
}
