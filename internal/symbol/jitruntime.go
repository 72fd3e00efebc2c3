// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"path"
	"regexp"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	// reportAfter is how long a process has to begin its perf map before the log has that there is none.
	reportAfter = 5 * time.Second
	// maxReported bounds the programs that are logged to lack names.
	maxReported = 64
)

// language is a language runtime in a process.
type language struct {
	kind    model.FrameType // empty: none is known
	program string          // the file that shows the runtime
}

// runtimeFiles are the files that show a runtime, by their names.
var runtimeFiles = []struct {
	name *regexp.Regexp
	kind model.FrameType
}{
	{regexp.MustCompile(`^libjvm\.so`), model.FrameJVM},
	{regexp.MustCompile(`^libcoreclr\.so`), model.FrameDotnet},
	{regexp.MustCompile(`^(node|nodejs|libnode\.so.*|electron|deno|bun)$`), model.FrameV8},
	{regexp.MustCompile(`^beam(\.[a-z.]+)?$`), model.FrameBEAM},
	{regexp.MustCompile(`^(python[23](\.[0-9]+)?[a-z]?|libpython[23].*\.so.*)$`), model.FrameCPython},
	{regexp.MustCompile(`^(ruby([0-9.]+)?|libruby.*\.so.*)$`), model.FrameRuby},
	{regexp.MustCompile(`^(php(-fpm|-cgi)?[0-9.]*|libphp[0-9.]*\.so.*)$`), model.FramePHP},
	{regexp.MustCompile(`^perl[0-9.]*$`), model.FramePerl},
}

// languageOf finds the runtime among the executable mappings of a process.
func languageOf(regions []region) language {
	last := ""
	for i := range regions {
		e := &regions[i].mapEntry
		if e.ino == 0 || e.path == last {
			continue
		}
		last = e.path
		file := path.Base(e.name())
		for _, known := range runtimeFiles {
			if known.name.MatchString(file) {
				return language{known.kind, e.name()}
			}
		}
	}
	return language{}
}

// advice is what makes a runtime list the names of its functions.
var advice = map[model.FrameType]string{
	model.FrameJVM:     "start java with -XX:+PreserveFramePointer, and have it write a perf map: jcmd PID Compiler.perfmap (JDK 17 and newer) or a perf map agent; interpreted methods stay without names",
	model.FrameDotnet:  "set DOTNET_PerfMapEnabled=1 in its environment",
	model.FrameV8:      "start node with --perf-basic-prof; with --interpreted-frames-native-stack functions that are interpreted have names too",
	model.FrameBEAM:    "start erl with +JPperf true",
	model.FrameCPython: "start python with -X perf (3.12 and newer) where it was built with -fno-omit-frame-pointer: without frame pointers stacks then end at the innermost Python function",
	model.FrameRuby:    "start ruby with --yjit-perf (3.3 and newer); interpreter frames have no names",
	model.FramePHP:     "set opcache.jit_debug to write a perf map; interpreter frames have no names",
	model.FramePerl:    "interpreter frames have no names",
}

// names returns where a process's names come from.
func (j *jit) names() model.RuntimeNames {
	switch {
	case j.dump != nil:
		return model.NamesJitDump
	case j.perfMap != nil:
		return model.NamesPerfMap
	}
	return model.NamesNone
}

// unlisted is the cause for code in memory without a file that no file lists.
func (j *jit) unlisted() (reason.Cause, model.FrameType) {
	why := reason.Anonymous
	if j.names() != model.NamesNone {
		why = reason.NotInCodeMap
	}
	switch j.runtime.kind {
	case model.FrameJVM, model.FrameV8, model.FrameDotnet, model.FrameBEAM:
		return why, j.runtime.kind
	}
	return why, model.FrameNative
}

// CompiledRegions returns where the process has code that it compiled at run time, by address; at most so many.
func (a *AddressSpace) CompiledRegions(most int) (list []elfimage.Span) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for i := range a.regions {
		r := &a.regions[i]
		if len(list) < most && r.bin.cause.MayBeCompiled() && !isDump(r.name()) {
			list = append(list, elfimage.Span{Start: r.start, End: r.end})
		}
	}
	return list
}

// covers reports whether a file lists code at an address.
func (j *jit) covers(pc uint64) bool {
	s, _ := j.find(pc)
	return s != nil
}

// installJIT updates the state after the regions were replaced.
func (s *Symbolizer) installJIT(a *AddressSpace) {
	j := &a.jit
	s.runs(a, languageOf(a.regions))
	j.wanted = j.wanted || j.runtime.kind != ""
	for i := range a.regions {
		j.wanted = j.wanted || a.regions[i].bin.cause.MayBeCompiled()
	}
}

// runs records the runtime of a process.
func (s *Symbolizer) runs(a *AddressSpace, of language) {
	a.jit.runtime = of
	if of.kind == "" {
		delete(s.jitted.withRuntime, a)
		return
	}
	if s.jitted.withRuntime == nil {
		s.jitted.withRuntime = map[*AddressSpace]struct{}{}
	}
	s.jitted.withRuntime[a] = struct{}{}
}

// current is the runtime of the process, and where its names come from.
func (j *jit) current() model.Runtime {
	if j.runtime.kind == "" {
		return model.Runtime{}
	}
	return model.Runtime{Language: j.runtime.kind, Names: j.names()}
}

// Runtime is the language runtime of the process. For a closed process it is the last known one.
func (a *AddressSpace) Runtime() model.Runtime {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.closed {
		return a.ran
	}
	return a.jit.current()
}

// runtimes counts the processes with a runtime.
func (s *Symbolizer) runtimes() map[model.Runtime]int {
	out := map[model.Runtime]int{}
	for a := range s.jitted.withRuntime {
		out[a.jit.current()]++
	}
	return out
}

// report logs once for a program that the functions of its language have no names, and what to do.
func (s *Symbolizer) report(a *AddressSpace, now time.Time) {
	j := &a.jit
	if j.since.IsZero() {
		j.since = now
	}
	if j.runtime.kind == "" || j.reported || j.names() != model.NamesNone || now.Sub(j.since) < reportAfter {
		return
	}
	j.reported = true
	if _, reported := s.jitted.reported[j.runtime]; reported || len(s.jitted.reported) == maxReported {
		return
	}
	if s.jitted.reported == nil {
		s.jitted.reported = map[language]struct{}{}
	}
	s.jitted.reported[j.runtime] = struct{}{}
	s.logger.Info("Functions of a program's own language have no names", zap.String("runtime", string(j.runtime.kind)),
		zap.String("program", j.runtime.program), zap.Uint32("pid", a.id.PID), zap.String("advice", advice[j.runtime.kind]))
}
