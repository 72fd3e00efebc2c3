// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Name is the parsed name that a runtime gives to compiled code.
type Name struct {
	Name string
	File string
	Line int64 // where the function begins
	Kind model.FrameType
}

// ParseName parses a name of a perf map or jitdump. The runtime is that of the process, or empty.
func ParseName(system string, of model.FrameType) Name {
	parsed := Name{Name: system, Kind: model.FrameNative}
	if function, ok := strings.CutPrefix(system, "py::"); ok && function != "" {
		return pythonName(function)
	}
	if kind, rest, ok := strings.Cut(system, ":"); ok && v8Functions[kind] {
		return v8Name(rest)
	}
	switch of {
	case model.FrameV8, model.FrameDotnet, model.FrameBEAM, model.FrameRuby, model.FramePHP:
		parsed.Kind = of
	case model.FrameJVM:
		parsed.Name, parsed.Kind = javaName(system), of
	}
	return parsed
}

// v8Functions are V8's kinds of code that have a function of a script (src/logging/code-events.h); the others, such as Builtin and RegExp,
// are whole names.
var v8Functions = map[string]bool{
	"LazyCompile": true, "JS": true, "Function": true, "Script": true, "Eval": true, "InterpretedFunction": true,
}

// v8Place is ":LINE:COLUMN" at the end of a name; older ones have no column.
var v8Place = regexp.MustCompile(`:([0-9]+)(?::[0-9]+)?$`)

// anonymousFunction is the name that tools of JavaScript use for a function without a name.
const anonymousFunction = "(anonymous)"

// v8Name parses "~foo /path/x.js:12:3": the optimization level (~ bytecode, ^ baseline, + mid, * full), the function, which may have no name,
// the script, line and column.
func v8Name(text string) Name {
	parsed := Name{Kind: model.FrameV8}
	text = strings.TrimLeft(text, "~^+*")
	if place := v8Place.FindStringSubmatchIndex(text); place != nil {
		parsed.Line, _ = strconv.ParseInt(text[place[2]:place[3]], 10, 32) // 0 when it is out of range
		text = text[:place[0]]
		parsed.Name, parsed.File = v8Script(text)
	} else {
		parsed.Name = strings.TrimSpace(text)
	}
	if parsed.Name == "" {
		parsed.Name = anonymousFunction
	}
	return parsed
}

// v8Scripts are the beginnings of script names; both these and function names may have blanks.
var v8Scripts = []string{" /", " file:", " node:", " http:", " https:", " [", " webpack"}

func v8Script(text string) (function, script string) {
	at := -1
	for _, begin := range v8Scripts {
		if i := strings.Index(text, begin); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		at = strings.LastIndexByte(text, ' ')
	}
	if at < 0 {
		return text, ""
	}
	return strings.TrimSpace(text[:at]), text[at+1:]
}

// pythonName parses "func:/path/x.py", as python -X perf writes it.
func pythonName(text string) Name {
	parsed := Name{Name: text, Kind: model.FrameCPython}
	if function, file, ok := strings.Cut(text, ":"); ok && function != "" {
		parsed.Name, parsed.File = function, file
	}
	return parsed
}

var (
	// javaExternal is the format of the JVM's own Compiler.perfmap: the type, the class with the method, and the types of the arguments.
	javaExternal = regexp.MustCompile(`^[^ ()]+ ([^ ()]+\.[^ ()]+)\(.*\)$`)
	// javaDescriptor is the format of perf-map-agent and others: the class as a descriptor or plain, the method, and maybe a signature.
	javaDescriptor = regexp.MustCompile(`^(?:L([^;() ]+);|([^;() ]+))::([^(): ]+)(?:\(.*)?$`)
)

// javaName returns CLASS.METHOD without types, which make names long and are of little use in a profile. A name that is no method, as
// "Interpreter", is kept.
func javaName(system string) string {
	if m := javaExternal.FindStringSubmatch(system); m != nil {
		return m[1]
	}
	if m := javaDescriptor.FindStringSubmatch(system); m != nil {
		return strings.ReplaceAll(m[1]+m[2], "/", ".") + "." + m[3]
	}
	return system
}
