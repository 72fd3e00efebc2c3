// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// compiledFunctionName is what the name that a runtime gives to compiled code says.
type compiledFunctionName struct {
	name string
	file string
	line int64 // where the function begins
	kind model.FrameType
}

// compiledName takes a name of a perf map or jitdump apart. The runtime is that
// of the process, or empty.
func compiledName(system string, of model.FrameType) compiledFunctionName {
	told := compiledFunctionName{name: system, kind: model.FrameNative}
	if function, ok := strings.CutPrefix(system, "py::"); ok && function != "" {
		return pythonName(function)
	}
	if kind, rest, ok := strings.Cut(system, ":"); ok && v8Functions[kind] {
		return v8Name(rest)
	}
	switch of {
	case model.FrameV8, model.FrameDotnet, model.FrameBEAM, model.FrameRuby, model.FramePHP:
		told.kind = of
	case model.FrameJVM:
		told.name, told.kind = javaName(system), of
	}
	return told
}

// v8Functions are V8's sorts of code that have a function of a script behind them
// (src/logging/code-events.h); the others, such as Builtin and RegExp, are names
// in whole.
var v8Functions = map[string]bool{
	"LazyCompile": true, "JS": true, "Function": true, "Script": true, "Eval": true, "InterpretedFunction": true,
}

// v8Place is ":LINE:COLUMN" at the end of a name; older ones have no column.
var v8Place = regexp.MustCompile(`:([0-9]+)(?::[0-9]+)?$`)

// anonymousFunction is what tools of JavaScript call a function without a name.
const anonymousFunction = "(anonymous)"

// v8Name takes "~foo /path/x.js:12:3" apart: how far it was optimized (~ bytecode,
// ^ baseline, + mid, * full), the function, which may have no name, the script,
// line and column.
func v8Name(text string) compiledFunctionName {
	told := compiledFunctionName{kind: model.FrameV8}
	text = strings.TrimLeft(text, "~^+*")
	if place := v8Place.FindStringSubmatchIndex(text); place != nil {
		told.line, _ = strconv.ParseInt(text[place[2]:place[3]], 10, 32) // 0 when it is more than a line can be
		text = text[:place[0]]
		told.name, told.file = v8Script(text)
	} else {
		told.name = strings.TrimSpace(text)
	}
	if told.name == "" {
		told.name = anonymousFunction
	}
	return told
}

// v8Scripts is how the name of a script begins; both it and that of a function
// may hold blanks.
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

// pythonName takes "func:/path/x.py" apart, as python -X perf writes it.
func pythonName(text string) compiledFunctionName {
	told := compiledFunctionName{name: text, kind: model.FrameCPython}
	if function, file, ok := strings.Cut(text, ":"); ok && function != "" {
		told.name, told.file = function, file
	}
	return told
}

var (
	// javaExternal is what the JVM's own Compiler.perfmap writes: the type, the
	// class with the method, and the types of the arguments.
	javaExternal = regexp.MustCompile(`^[^ ()]+ ([^ ()]+\.[^ ()]+)\(.*\)$`)
	// javaDescriptor is what perf-map-agent and others write: the class as a
	// descriptor or plain, the method, and maybe a signature.
	javaDescriptor = regexp.MustCompile(`^(?:L([^;() ]+);|([^;() ]+))::([^(): ]+)(?:\(.*)?$`)
)

// javaName gives CLASS.METHOD without types, which make names long and say little
// in a profile. What is no method, as "Interpreter", keeps its name.
func javaName(system string) string {
	if m := javaExternal.FindStringSubmatch(system); m != nil {
		return m[1]
	}
	if m := javaDescriptor.FindStringSubmatch(system); m != nil {
		return strings.ReplaceAll(m[1]+m[2], "/", ".") + "." + m[3]
	}
	return system
}
