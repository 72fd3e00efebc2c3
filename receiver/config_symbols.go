// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"net/url"
	"path"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// SymbolsConfig configures where names and lines come from, in addition to the binaries themselves.
type SymbolsConfig struct {
	// DebugInfo has debug information and separate debug files read.
	DebugInfo bool `mapstructure:"debug_info"`
	// CacheDir is a folder of the Collector that keeps over restarts what was found out; none when empty.
	CacheDir string `mapstructure:"cache_dir"`
	// CacheMiB bounds the folder.
	CacheMiB int `mapstructure:"cache_mib"`
	// Debuginfod lists servers that are asked for the debug files of binaries that have none; none when empty.
	Debuginfod []string `mapstructure:"debuginfod"`
}

const (
	minCacheMiB   = 1
	maxCacheMiB   = 1 << 20
	maxDebuginfod = 8
)

func (c *SymbolsConfig) validate(at string) []error {
	errs := []error{setting.Between(at+"::cache_mib", c.CacheMiB, minCacheMiB, maxCacheMiB)}
	if !c.DebugInfo && (c.CacheDir != "" || len(c.Debuginfod) > 0) {
		errs = append(errs, fmt.Errorf("%s::debug_info: false is not allowed where cache_dir or debuginfod is given: there would be nothing to keep or to ask for", at))
	}
	if c.CacheDir != "" && !path.IsAbs(c.CacheDir) {
		errs = append(errs, fmt.Errorf("%s::cache_dir: %q is not allowed: it must be absolute", at, c.CacheDir))
	}
	if len(c.Debuginfod) > maxDebuginfod {
		errs = append(errs, fmt.Errorf("%s::debuginfod: %d servers are not allowed: at most %d", at, len(c.Debuginfod), maxDebuginfod))
	}
	for i, text := range c.Debuginfod {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			errs = append(errs, fmt.Errorf("%s::debuginfod[%d]: %q is not allowed: it must be a URL as https://debuginfod.example.com", at, i, text))
		}
	}
	return errs
}
