// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// locationKey identifies a location by value; lines is a hash, so that a hit
// must be compared.
type locationKey struct {
	mapping, frameType int32
	address, lines     uint64
}

// lineIndex is a line of a location, by index of its function.
type lineIndex struct {
	function int32
	line     int64
}

// maxFrameTypes bounds the types that are searched one by one.
const maxFrameTypes = 8

// location returns the index of f in the location table, 0 for nil.
func (d *dictionary) location(f *model.Frame) int32 {
	if i, ok := d.frames[f]; ok {
		return i
	}
	if f == nil {
		return 0
	}
	key := d.locationKey(f.Settled())
	i, ok := d.locationValues[key]
	if !ok || !sameLines(d.out.LocationTable().At(int(i)), d.lines) {
		i = d.addLocation(key)
		d.locationValues[key] = i
	}
	d.frames[f] = i
	return i
}

// locationKey resolves what f refers to, and leaves its lines in d.lines.
func (d *dictionary) locationKey(f *model.Frame) locationKey {
	key := locationKey{mapping: d.mapping(f.Mapping), frameType: d.frameType(f.Type), address: f.Address}
	d.lines = d.lines[:0]
	for _, l := range f.Lines {
		line := lineIndex{function: d.function(l.Function), line: l.Line}
		d.lines = append(d.lines, line)
		key.lines = mix(mix(key.lines, uint64(line.function)), uint64(line.line))
	}
	return key
}

// frameTypeIndex is a frame type and its attribute index.
type frameTypeIndex struct {
	name  model.FrameType
	index int32
}

// frameType returns the attribute index of t, 0 for none.
func (d *dictionary) frameType(t model.FrameType) int32 {
	if t == "" {
		return 0
	}
	for _, known := range d.frameTypes {
		if known.name == t {
			return known.index
		}
	}
	index := d.text(KeyFrameType, string(t))
	if len(d.frameTypes) < maxFrameTypes {
		d.frameTypes = append(d.frameTypes, frameTypeIndex{t, index})
	}
	return index
}

// addLocation appends the location that locationKey resolved.
func (d *dictionary) addLocation(key locationKey) int32 {
	table := d.out.LocationTable()
	i := int32(table.Len())
	loc := table.AppendEmpty()
	loc.SetMappingIndex(key.mapping)
	loc.SetAddress(key.address)
	d.size += sizeHeader + sizeIndex(key.mapping) + 1 + sizeVarint(key.address)
	if key.frameType != 0 {
		loc.AttributeIndices().Append(key.frameType)
		d.size += sizeHeader + sizeIndex(key.frameType)
	}
	loc.Lines().EnsureCapacity(len(d.lines))
	for _, l := range d.lines {
		line := loc.Lines().AppendEmpty()
		line.SetFunctionIndex(l.function)
		line.SetLine(l.line)
		d.size += sizeHeader + sizeIndex(l.function) + 1 + sizeVarint(uint64(l.line))
	}
	return i
}

// sameLines reports whether loc has exactly these lines.
func sameLines(loc pprofile.Location, lines []lineIndex) bool {
	if loc.Lines().Len() != len(lines) {
		return false
	}
	for i, l := range lines {
		have := loc.Lines().At(i)
		if have.FunctionIndex() != l.function || have.Line() != l.line {
			return false
		}
	}
	return true
}
