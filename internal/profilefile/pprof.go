// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields of pprof's profile.proto.
const (
	profileSampleType  = 1
	profileSample      = 2
	profileMapping     = 3
	profileLocation    = 4
	profileFunction    = 5
	profileStringTable = 6
	profilePeriodType  = 11

	valueTypeType, valueTypeUnit                                         = 1, 2
	sampleLocation, sampleValue, sampleLabel                             = 1, 2, 3
	labelKey, labelString, labelNumber                                   = 1, 2, 3
	mappingID, mappingFile, mappingFunctions, mappingFiles, mappingLines = 1, 5, 7, 8, 9
	locationID, locationMapping, locationLine, lineFunction, lineLine    = 1, 2, 4, 1, 2
	functionID, functionName, functionSystemName, functionFile           = 1, 2, 3, 4
)

// encoder writes one profile. Numbers of mappings, locations and functions begin with 1.
type encoder struct {
	out       []byte
	strings   map[string]int
	table     []string
	functions map[[2]string]int
	mappings  map[string]int
}

// WritePprof writes the profile as go tool pprof reads it. Samples of CPU time have a second value, the time in
// nanoseconds. Labels are process, service and pid.
func (b *Builder) WritePprof(w io.Writer) error {
	e := &encoder{strings: map[string]int{}, functions: map[[2]string]int{}, mappings: map[string]int{}}
	e.string("") // 0 is the empty string
	e.message(profileSampleType, e.valueType(b.of.Type, b.of.Unit))
	if b.cpu {
		e.message(profileSampleType, e.valueType("cpu", "nanoseconds"))
		e.message(profilePeriodType, e.valueType("cpu", "nanoseconds"))
	}
	for i, f := range b.frames {
		e.location(i+1, f)
	}
	for _, s := range b.sorted() {
		e.sample(s, b.cpu)
	}
	for _, s := range e.table {
		e.out = protowire.AppendTag(e.out, profileStringTable, protowire.BytesType)
		e.out = protowire.AppendString(e.out, s)
	}
	compressed := gzip.NewWriter(w)
	_, err := compressed.Write(e.out)
	if err := errors.Join(err, compressed.Close()); err != nil {
		return fmt.Errorf("writing a pprof profile: %w", err)
	}
	return nil
}

// string returns the number of a string.
func (e *encoder) string(s string) int {
	n, known := e.strings[s]
	if !known {
		n = len(e.table)
		e.strings[s] = n
		e.table = append(e.table, s)
	}
	return n
}

func (e *encoder) message(field protowire.Number, content []byte) {
	e.out = appendMessage(e.out, field, content)
}

func (e *encoder) valueType(of, unit string) []byte {
	return appendInt(appendInt(nil, valueTypeType, int64(e.string(of))), valueTypeUnit, int64(e.string(unit)))
}

// location writes a frame, and its function and mapping when they are new.
func (e *encoder) location(id int, f frame) {
	line := appendInt(appendInt(nil, lineFunction, int64(e.function(f))), lineLine, f.line)
	out := appendInt(nil, locationID, int64(id))
	if m := e.mapping(f.binary); m > 0 {
		out = appendInt(out, locationMapping, int64(m))
	}
	e.message(profileLocation, appendMessage(out, locationLine, line))
}

func (e *encoder) function(f frame) int {
	key := [2]string{f.function, f.file}
	if id, known := e.functions[key]; known {
		return id
	}
	id := len(e.functions) + 1
	e.functions[key] = id
	out := appendInt(nil, functionID, int64(id))
	out = appendInt(out, functionName, int64(e.string(f.function)))
	out = appendInt(out, functionSystemName, int64(e.string(f.function)))
	e.message(profileFunction, appendInt(out, functionFile, int64(e.string(f.file))))
	return id
}

// mapping returns 0 for code that belongs to no file. What could be named has its name: pprof need not read the file.
func (e *encoder) mapping(file string) int {
	if file == "" {
		return 0
	}
	if id, known := e.mappings[file]; known {
		return id
	}
	id := len(e.mappings) + 1
	e.mappings[file] = id
	out := appendInt(appendInt(nil, mappingID, int64(id)), mappingFile, int64(e.string(file)))
	for _, has := range []protowire.Number{mappingFunctions, mappingFiles, mappingLines} {
		out = appendInt(out, has, 1)
	}
	e.message(profileMapping, out)
	return id
}

// sample writes a stack; pprof has the leaf first.
func (e *encoder) sample(s *stack, cpu bool) {
	var out []byte
	for i := len(s.frames) - 1; i >= 0; i-- {
		out = appendInt(out, sampleLocation, int64(s.frames[i]+1))
	}
	out = appendInt(out, sampleValue, s.value)
	if cpu {
		out = appendInt(out, sampleValue, s.time)
	}
	for _, label := range [][2]string{{"process", s.process.name}, {"service", s.process.service}} {
		text := appendInt(appendInt(nil, labelKey, int64(e.string(label[0]))), labelString, int64(e.string(label[1])))
		out = appendMessage(out, sampleLabel, text)
	}
	pid := appendInt(appendInt(nil, labelKey, int64(e.string("pid"))), labelNumber, s.process.pid)
	e.message(profileSample, appendMessage(out, sampleLabel, pid))
}

func appendMessage(out []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(out, field, protowire.BytesType), content)
}

func appendInt(out []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(out, field, protowire.VarintType), uint64(v))
}
