// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// FoldedFrame is one function of a stack.
type FoldedFrame struct {
	// Function is its name, or empty when the address has none.
	Function string
	// Mapping is the file that the code is in, or empty.
	Mapping string
	// Address is relative to that file.
	Address uint64
	// Type is profile.frame.type, or empty.
	Type string
	// Filename and Line are the position in the source, or empty and 0.
	Filename string
	Line     int64
	// Inlined is set on a function whose code is part of its caller's.
	Inlined bool
}

// String is the function's name, or mapping!0xaddress where there is none.
func (f FoldedFrame) String() string {
	switch {
	case f.Function != "":
		return f.Function
	case f.Mapping != "":
		return fmt.Sprintf("%s!%#x", f.Mapping, f.Address)
	}
	return fmt.Sprintf("%#x", f.Address)
}

// checkIndex reports an index that table, of n entries, does not have.
func checkIndex(table string, index int32, n int) error {
	if index < 0 || int(index) >= n {
		return fmt.Errorf("%s index %d is not in [0, %d)", table, index, n)
	}
	return nil
}

// string resolves an index of the string table; 0 is valid without a table.
func (f *folder) string(index int32) (string, error) {
	if index == 0 {
		return "", nil
	}
	table := f.dict.StringTable()
	if err := checkIndex("string", index, table.Len()); err != nil {
		return "", err
	}
	return table.At(int(index)), nil
}

// attributes resolves indices of the attribute table.
func (f *folder) attributes(indices pcommon.Int32Slice) (pcommon.Map, error) {
	out := pcommon.NewMap()
	if indices.Len() > maxFoldedAttributes {
		return out, fmt.Errorf("%d attributes are more than %d", indices.Len(), maxFoldedAttributes)
	}
	table := f.dict.AttributeTable()
	for _, index := range indices.All() {
		if err := checkIndex("attribute", index, table.Len()); err != nil {
			return out, err
		}
		entry := table.At(int(index))
		key, err := f.string(entry.KeyStrindex())
		if err != nil {
			return out, fmt.Errorf("attribute %d: %w", index, err)
		}
		entry.Value().CopyTo(out.PutEmpty(key))
	}
	return out, nil
}

// resolveStack returns the frames of a stack, root first, until its next call.
func (f *folder) resolveStack(index int32) ([]FoldedFrame, error) {
	f.stack = f.stack[:0]
	if index == 0 {
		return f.stack, nil
	}
	table := f.dict.StackTable()
	if err := checkIndex("stack", index, table.Len()); err != nil {
		return nil, err
	}
	indices := table.At(int(index)).LocationIndices()
	for i := indices.Len() - 1; i >= 0; i-- {
		frames, err := f.location(indices.At(i))
		if err != nil {
			return nil, fmt.Errorf("stack %d: %w", index, err)
		}
		if len(f.stack)+len(frames) > maxFoldedFrames {
			return nil, fmt.Errorf("stack %d: has more than %d frames", index, maxFoldedFrames)
		}
		for j := len(frames) - 1; j >= 0; j-- {
			f.stack = append(f.stack, frames[j])
		}
	}
	return f.stack, nil
}

// location returns the frames of a location, the innermost first.
func (f *folder) location(index int32) ([]FoldedFrame, error) {
	if err := checkIndex("location", index, len(f.frames)); err != nil {
		return nil, err
	}
	if f.frames[index] == nil {
		frames, err := f.resolveLocation(f.dict.LocationTable().At(int(index)))
		if err != nil {
			return nil, fmt.Errorf("location %d: %w", index, err)
		}
		f.frames[index] = frames
	}
	return f.frames[index], nil
}

func (f *folder) resolveLocation(loc pprofile.Location) ([]FoldedFrame, error) {
	base := FoldedFrame{Address: loc.Address()}
	var err error
	if base.Mapping, err = f.mapping(loc.MappingIndex()); err != nil {
		return nil, err
	}
	attrs, err := f.attributes(loc.AttributeIndices())
	if err != nil {
		return nil, err
	}
	if v, ok := attrs.Get(KeyFrameType); ok {
		base.Type = v.AsString()
	}
	if loc.Lines().Len() == 0 {
		return []FoldedFrame{base}, nil
	}
	frames := make([]FoldedFrame, loc.Lines().Len())
	for i, line := range loc.Lines().All() {
		frames[i] = base
		frames[i].Line, frames[i].Inlined = line.Line(), i < len(frames)-1
		if frames[i].Function, frames[i].Filename, err = f.function(line.FunctionIndex()); err != nil {
			return nil, fmt.Errorf("line %d: %w", i, err)
		}
	}
	return frames, nil
}

// mapping returns the file of a mapping; 0 is none.
func (f *folder) mapping(index int32) (string, error) {
	if index == 0 {
		return "", nil
	}
	table := f.dict.MappingTable()
	if err := checkIndex("mapping", index, table.Len()); err != nil {
		return "", err
	}
	return f.string(table.At(int(index)).FilenameStrindex())
}

// function returns the name and the source file of a function; 0 is none.
func (f *folder) function(index int32) (name, filename string, err error) {
	if index == 0 {
		return "", "", nil
	}
	table := f.dict.FunctionTable()
	if err := checkIndex("function", index, table.Len()); err != nil {
		return "", "", err
	}
	fn := table.At(int(index))
	if filename, err = f.string(fn.FilenameStrindex()); err != nil {
		return "", "", err
	}
	name, err = f.string(fn.NameStrindex())
	if name != "" || err != nil {
		return name, filename, err
	}
	name, err = f.string(fn.SystemNameStrindex())
	return name, filename, err
}
