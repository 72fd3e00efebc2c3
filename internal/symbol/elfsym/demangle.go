// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// MaxName is the longest symbol name that is read; the rest is cut off.
	MaxName = 8 << 10
	// maxMangled is the longest name that is demangled.
	maxMangled = 4 << 10
	// MaxDemangledPow bounds a demangled name to 2 to this power: substitutions
	// let a short mangled name stand for a very long one.
	MaxDemangledPow = 13
)

// Demangled returns the readable form of a symbol and the language that it shows. C++ functions lose their parameters, which make names long
// and are of little use in a profile; Rust ones their hash. The version that linkers append to symbols of shared libraries is dropped.
func Demangled(system string) (string, model.FrameType) {
	name := system
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	if len(name) < 3 || len(name) > maxMangled || name[0] != '_' || (name[1] != 'Z' && name[1] != 'R' && name[1] != '_') {
		return name, model.FrameNative
	}
	readable, err := demangle.ToString(name, demangle.NoParams, demangle.MaxLength(MaxDemangledPow))
	if err != nil { // not mangled after all: the name is used as it is
		return name, model.FrameNative
	}
	if IsRust(name) {
		return readable, model.FrameRust
	}
	return readable, model.FrameNative
}

// IsRust distinguishes Rust's two manglings from C++: v0 begins with _R, the legacy one is an Itanium nested name whose last part is h and 16
// hexadecimal digits.
func IsRust(name string) bool {
	if strings.HasPrefix(name, "_R") {
		return true
	}
	if dot := strings.LastIndex(name, "E."); dot > 0 {
		name = name[:dot+1]
	}
	const tail = len("17h0123456789abcdefE")
	if len(name) <= tail || !strings.HasPrefix(name, "_ZN") || name[len(name)-1] != 'E' {
		return false
	}
	last := name[len(name)-tail:]
	return strings.HasPrefix(last, "17h") && strings.Trim(last[3:tail-1], "0123456789abcdef") == ""
}
